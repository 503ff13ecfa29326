"""The quick start notebook, run in the terminal (``pipemagic tour``) or opened in JupyterLab (``pipemagic lab``)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

import pipemagic
from pipemagic.errors import UnsupportedError

NAME = "quickstart.ipynb"
CELL_TIMEOUT = 300  # seconds; the longest cell takes a few
START_TIMEOUT = 60

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def find_notebook() -> Path:
    """Give the packaged notebook, or in a checkout that of the repository."""
    package = Path(pipemagic.__file__).parent
    for folder in (package / "notebooks", package.parent / "notebooks"):
        if (folder / NAME).is_file():
            return folder / NAME
    raise UnsupportedError(
        f"this installation of pipemagic has no {NAME}",
        hint="install it again: pip install --force-reinstall pipemagic",
    )


def tour(out: TextIO, notebook: Path | None = None) -> int:
    """Run the notebook in a fresh kernel and print each cell as it is done; 1 if a cell fails, else 0."""
    _need("nbclient", "nbformat", "ipykernel")
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    _prefer_this_environment()
    document = nbformat.read(notebook or find_notebook(), as_version=4)  # type: ignore[no-untyped-call]
    teller = _Teller(out)
    with tempfile.TemporaryDirectory(prefix="pipemagic-tour-", ignore_cleanup_errors=True) as folder:
        client = NotebookClient(
            document, timeout=CELL_TIMEOUT, startup_timeout=START_TIMEOUT, kernel_name="python3",
            resources={"metadata": {"path": folder}},
        )  # fmt: skip
        with client.setup_kernel():
            for index, cell in enumerate(document.cells):
                if cell.cell_type != "code":
                    teller.text(cell.source)
                    continue
                teller.source(cell.source)
                try:
                    client.execute_cell(cell, index)
                except CellExecutionError:
                    teller.outputs(cell.outputs)
                    return 1
                except (CellTimeoutError, DeadKernelError) as error:
                    teller.outputs(cell.outputs)
                    teller.text(f"{type(error).__name__}: {error}")
                    return 1
                teller.outputs(cell.outputs)
    return 0


def lab(folder: Path, options: Sequence[str] = ()) -> int:
    """Open a copy of the notebook in JupyterLab; one that is there already is kept. Gives its exit code."""
    _need("jupyterlab", "ipykernel")
    _prefer_this_environment()
    notebook = writable_copy(folder)
    with subprocess.Popen([sys.executable, "-m", "jupyterlab", str(notebook), *options]) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # it goes to JupyterLab too, which asks whether to end


def writable_copy(folder: Path) -> Path:
    """Give the notebook in the folder, copied there if need be; in a new folder if that one is read-only."""
    if (folder / NAME).exists():
        return folder / NAME
    if not os.access(folder, os.W_OK):
        folder = Path(tempfile.mkdtemp(prefix="pipemagic-lab-"))
    shutil.copyfile(find_notebook(), folder / NAME)
    return folder / NAME


class _Teller:
    """Prints cells as text: their source, what they printed, and what they show in a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def text(self, text: str) -> None:
        self._say(text + "\n")

    def source(self, source: str) -> None:
        self._say("\n".join("> " + line for line in source.splitlines()))

    def outputs(self, outputs: Sequence[Any]) -> None:
        for output in outputs:
            text = _plain(output)
            if text:
                self._say(text.rstrip("\n"))
        self._say("")

    def _say(self, text: str) -> None:
        if not self._out.isatty():
            text = _COLOURS.sub("", text)
        encoding = self._out.encoding or "utf-8"
        # What the terminal cannot show (a code page of old) must not end the tour.
        self._out.write(text.encode(encoding, "replace").decode(encoding) + "\n")
        self._out.flush()


def _plain(output: Any) -> str:
    match output.output_type:
        case "stream":
            return str(output.text)
        case "error":
            return "\n".join(output.traceback)
        case _:
            return str(output.get("data", {}).get("text/plain", ""))


def _need(*modules: str) -> None:
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise UnsupportedError(
            f"the quick start needs {', '.join(missing)}, which is not installed",
            hint='pip install "pipemagic[lab]", or in a checkout: pip install ".[lab]"', code="LAB_MISSING",
        )  # fmt: skip


def _prefer_this_environment() -> None:
    """Have Jupyter take this Python's kernel, not one of the same name that the user installed elsewhere."""
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
