"""A lesson: a teacher's notebook that reads a file beside it, and kernels in which students answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbclient
import nbformat
from course_notebooks import run
from nbformat.v4 import new_code_cell, new_notebook

from pipemagic import launcher

BIRDS = "name,species,mass\nAda,Adelie,3750\nBo,Gentoo,5050\nCy,Adelie,3250\nDi,Chinstrap,3500\n"

CONNECT = "%pipedb connect --temporary"
LOAD = "import pandas as pd\nbirds = pd.read_csv('birds.csv')\n%pipedb load birds --table bird --replace"
SEATS = "%%sql --quiet\nDROP TABLE IF EXISTS seat;\nCREATE TABLE seat (hide TEXT PRIMARY KEY, free INTEGER);\n" \
    "INSERT INTO seat VALUES ('north', 3), ('south', 5)"  # fmt: skip
HEAVY = """\
%%exercise heavy
-- task: Which birds weigh more than 3.4 kg? Return `name` and `mass`, the heaviest first.
-- points: 2
-- hint: mass contains grams.
-- hint: ORDER BY mass DESC sorts.
-- hidden: UPDATE bird SET mass = 3300 WHERE name = 'Di'
SELECT name, mass FROM bird WHERE mass > 3400 ORDER BY mass DESC"""
ADELIES = """\
%%exercise adelies
-- task: Which birds are Adelies? Return `name`.
-- hidden: INSERT INTO bird VALUES ('Eve', 'Adelie', 3700)
SELECT name FROM bird WHERE species = 'Adelie'"""
MOVED = """\
%%exercise moved
-- task: Two birdwatchers move from the hide `north` to `south`. Change the free seats of both, all or nothing.
-- points: 2
-- state: SELECT hide, free FROM seat
-- solution: %%sql --atomic
--   UPDATE seat SET free = free + 2 WHERE hide = 'north';
--   UPDATE seat SET free = free - 2 WHERE hide = 'south'
UPDATE seat SET free = free + 2 WHERE hide = 'north';
UPDATE seat SET free = free - 2 WHERE hide = 'south'"""

RIGHT = {
    "heavy": "%%check heavy\nSELECT name, mass FROM bird WHERE mass > 3400 ORDER BY mass DESC",
    "adelies": "%%check adelies\nSELECT name FROM bird WHERE species = 'Adelie'",
    "moved": "%%sql --atomic\nUPDATE seat SET free = free + 2 WHERE hide = 'north';\n"
    "UPDATE seat SET free = free - 2 WHERE hide = 'south'",
}
"""The cells of a student with all points; a `%check` follows the one that commits."""


def write_lesson(folder: Path, *, tags: tuple[str, ...] = ()) -> Path:
    """Write the teacher's notebook and its file, and run it; ``tags`` are those of the cell that connects."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "birds.csv").write_text(BIRDS, "utf-8")
    texts = ["%load_ext pipemagic", CONNECT, LOAD, SEATS, HEAVY, ADELIES, MOVED]
    notebook = new_notebook(cells=[new_code_cell(text, id=f"cell-{at}") for at, text in enumerate(texts)])  # type: ignore[no-untyped-call]
    notebook.cells[1].metadata["tags"] = list(tags)
    run(notebook, folder)
    nbformat.write(notebook, folder / "lesson-1.ipynb")  # type: ignore[no-untyped-call]
    return folder / "lesson-1.ipynb"


class Kernel:
    """A kernel in which a student works; ``notebook`` has the cells that ran."""

    def __init__(self, client: nbclient.NotebookClient) -> None:
        self._client, self.notebook = client, client.nb

    def __call__(self, source: str) -> str:
        """Run a cell; return what it displays, as text."""
        cell = new_code_cell(source)  # type: ignore[no-untyped-call]
        self.notebook.cells.append(cell)
        self._client.execute_cell(cell, len(self.notebook.cells) - 1)
        return "\n".join(map(_text, cell.outputs))

    def run_all(self, path: Path) -> list[str]:
        """Run the cells of a notebook; return what each displays."""
        cells = nbformat.read(path, as_version=4).cells  # type: ignore[no-untyped-call]
        return [self(cell.source) for cell in cells if cell.cell_type == "code"]

    def save(self, path: Path) -> None:
        """Write the cells that ran to a notebook."""
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(self.notebook, path)  # type: ignore[no-untyped-call]


def _text(output: Any) -> str:
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    text: str = output.text if output.output_type == "stream" else output.data.get("text/plain", "")
    return text


@contextmanager
def kernel(folder: Path, home: Path) -> Iterator[Kernel]:
    """Start a kernel in a folder, with settings and data of its own in another."""
    client = nbclient.NotebookClient(
        new_notebook(), timeout=60, allow_errors=True, kernel_name="python3",  # type: ignore[no-untyped-call]
        resources={"metadata": {"path": str(folder)}}, extra_arguments=["--log-level=ERROR"],
    )  # fmt: skip
    own = {launcher.FOLDER_VARIABLE: str(home / "data"), "PIPEMAGIC_CONFIG": str(home / "config")}
    with client.setup_kernel(env={**os.environ, **own}):
        yield Kernel(client)
    launcher.stop(home / "data")
