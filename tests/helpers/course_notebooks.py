"""A teacher's notebook with exercises of each kind, and the answers of students."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import nbformat
from nbclient import NotebookClient
from page_examples import DOCS, cells

from pipemagic.teaching.exercises.exercise import Probe, frame_of, load, pack

SETUP = """\
%load_ext pipemagic
%pipedb connect --temporary"""

DATA = """\
%%sql
CREATE TABLE bird (name TEXT PRIMARY KEY, species TEXT NOT NULL, mass INTEGER);
INSERT INTO bird VALUES ('Ada', 'Adelie', 3750), ('Bo', 'Gentoo', 5050), ('Cy', 'Adelie', 3250),
  ('Di', 'Chinstrap', 3500);
CREATE TABLE egg (id INTEGER PRIMARY KEY, mother TEXT NOT NULL, laid TEXT);"""

HEAVY = """\
%%exercise heavy
-- task: Which birds weigh more than 3.4 kg? Return `name` and `mass`, the heaviest first.
-- points: 4
-- hint: mass contains grams.
SELECT name, mass FROM bird WHERE mass > 3400 ORDER BY mass DESC"""

SPECIES = """\
%%exercise species
-- task: How many birds of each species are there? Return `species` and `birds`.
-- points: 2
-- hidden: INSERT INTO bird VALUES ('Eve', 'Gentoo', 4900)
SELECT species, count(*) AS birds FROM bird GROUP BY species"""

EGG = """\
%%exercise egg
-- task: Store an egg with the id 7 that Ada has laid on 2026-11-26.
INSERT INTO egg VALUES (7, 'Ada', '2026-11-26')"""

RINGED = """\
%%exercise ringed
-- task: Add the column `ring` to `bird` and set it to 1 for Ada, in one atomic cell.
-- points: 2
-- solution: %%sql --atomic
-- solution: ALTER TABLE bird ADD COLUMN ring INTEGER;
-- solution: UPDATE bird SET ring = 1 WHERE name = 'Ada'
SELECT name, ring FROM bird"""

EXERCISES = (HEAVY, SPECIES, EGG, RINGED)

COUNTED = """\
%%exercise counted
-- task: Store the number of birds that weigh more than 3.4 kg in the DataFrame `counted`, as `n`.
-- variable: counted
-- hidden: DELETE FROM bird WHERE name = 'Bo'
-- solution: %%sql -o counted
--   SELECT count(*) AS n FROM bird WHERE mass > 3400
SELECT count(*) AS n FROM bird WHERE mass > 3400"""

FED = """\
%%exercise fed
-- task: The mass of each Gentoo grows by 10 g. Change `bird` in an atomic cell.
-- state: SELECT name, mass FROM bird
-- hidden: UPDATE bird SET mass = mass + 100
-- solution: %%sql --atomic
--   UPDATE bird SET mass = mass + 10 WHERE species = 'Gentoo'
UPDATE bird SET mass = mass + 10 WHERE species = 'Gentoo'"""

WITH_CELLS = (*EXERCISES, COUNTED, FED)
"""Also exercises with hidden data whose answers are cells of their own."""

ANSWERS: dict[str, dict[str, str]] = {
    "right": {
        "heavy": "SELECT name, mass FROM bird WHERE mass > 3400 ORDER BY mass DESC",
        "species": "SELECT species, count(name) AS birds FROM bird GROUP BY 1",
        "egg": "INSERT INTO egg (id, mother, laid) VALUES (7, 'Ada', '2026-11-26')",
    },
    "partly": {"heavy": "SELECT name, mass FROM bird ORDER BY mass DESC"},
    "hard_coded": {
        "species": "SELECT column1 AS species, column2 AS birds"
        " FROM (VALUES ('Adelie', 2), ('Chinstrap', 1), ('Gentoo', 1))"
    },
    "wrong": {"heavy": "SELECT 1", "egg": "INSERT INTO egg VALUES (8, 'Bo', NULL)"},
    "error": {"heavy": "SELEC name", "species": "SELECT x FROM bird", "egg": "INSERT INTO nest VALUES (1)"},
    "unsolved": {},
    "tampered": {"species": "SELECT 1 AS one", "egg": "SELECT 1 AS one"},
}
ANSWERS["mixed"] = {**ANSWERS["partly"], **ANSWERS["hard_coded"], "egg": ANSWERS["error"]["egg"]}
CELLS = {
    "counted": "%%sql -o counted\nSELECT sum(mass > 3400) AS n FROM bird",
    "fed": "%%sql --atomic\nUPDATE bird SET mass = 10 + mass WHERE species LIKE 'gentoo'",
}
LITERAL_CELLS = {
    "counted": "import pandas as pd\ncounted = pd.DataFrame({'n': [3]})",
    "fed": "%sql UPDATE bird SET mass = 5060 WHERE name = 'Bo'",
}
RINGED_ANSWER = "%%sql --atomic\nALTER TABLE bird ADD COLUMN ring INTEGER;\nUPDATE bird SET ring = 1 WHERE name = 'Ada'"


def write_source(folder: Path, *exercises: str, template: str = "") -> Path:
    """Write a teacher's notebook and run it, which writes the files of its exercises.

    It creates its data; with ``template``, it uses that database, in a cell for the teacher only.
    """
    folder.mkdir(parents=True, exist_ok=True)
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_markdown_cell("# Birds")]
    setup = ("%load_ext pipemagic", f"%pipedb connect {template}") if template else (SETUP, DATA)
    notebook.cells += [nbformat.v4.new_code_cell(text) for text in (*setup, *exercises)]
    if template:
        notebook.cells[2].metadata["tags"] = ["teacher"]
    for number, cell in enumerate(notebook.cells):
        cell.id = f"source-{number}"
    run(notebook, folder)
    nbformat.write(notebook, folder / "birds.ipynb")
    return folder / "birds.ipynb"


def write_lesson() -> None:
    """Write the notebook with the cells of docs/teachers/first-lesson.md into the folder lesson, and run it."""
    shown = [cell.source for cell in cells(DOCS / "teachers" / "first-lesson.md")]
    code = [nbformat.v4.new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(shown)]
    notebook = nbformat.v4.new_notebook(cells=code)
    run(notebook, Path("lesson"))
    nbformat.write(notebook, "lesson/lesson-1.ipynb")


def write_submissions() -> None:
    """Write a right and a wrong submission of that notebook, in folders as Moodle names them."""
    right = "SELECT name, mass FROM bird WHERE mass > 3400 ORDER BY mass DESC"
    for student, answer in {"Ada Lovelace_12345": right, "Grace Hopper_12346": right.partition(" ORDER")[0]}.items():
        target = Path("submissions", f"{student}_assignsubmission_file", "lesson-1.ipynb")
        write_answers(Path("handout/lesson-1.ipynb"), target, {"heavy": answer})


def write_class_submissions() -> None:
    """Write the submissions of docs/teachers/exercises.md: of class/birds.ipynb, by two students."""
    released = Path("class/birds.ipynb")
    write_answers(released, Path("submissions/ada/birds.ipynb"), ANSWERS["right"], RINGED_ANSWER)
    write_answers(released, Path("submissions/bo/birds.ipynb"), {**ANSWERS["partly"], **ANSWERS["hard_coded"]})


def run(notebook: Any, folder: Path) -> None:
    """Run a notebook in a folder; it must not fail."""
    NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--log-level=ERROR"],
    ).execute()  # fmt: skip


def write_answers(
    released: Path, target: Path, answers: Mapping[str, str], ringed: str = "", cells: Mapping[str, str] = {}
) -> None:
    """Write a student's notebook: the released one with SQL below the `%%check` lines, and with cells by exercise."""
    notebook = nbformat.read(released, as_version=4)
    checks = [f"{cell.source} ".split()[1:2] for cell in notebook.cells if cell.source.startswith("%check ")]
    for cell in notebook.cells:
        first = cell.source.partition("\n")[0].split()
        if first[:1] == ["%%check"] and first[1] in answers:
            cell.source = f"{cell.source}\n{answers[first[1]]}"
        elif cell.source.startswith("# Write your cell here."):
            [name] = checks.pop(0)
            cell.source = cells.get(name, ringed if name == "ringed" else "") or cell.source
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)


def tamper(path: Path) -> None:
    """Let a student's notebook pass without right answers.

    The file of species expects `SELECT 1`, egg is checked with a file of another folder, the points of heavy are 4.
    """
    write_easier_file(path.parent / "exercises", "species", path.parent / "exercises")
    write_easier_file(path.parent / "exercises", "egg", path.parent / "mine")
    insert_before(path, "%%check egg", '%config PipeMagic.exercises = "mine"')
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace('points("heavy")', "4")
    nbformat.write(notebook, path)


def read_a_file(source: Path) -> None:
    """Let a teacher's notebook read ``data/notes.txt`` beside it before anything else; without it, no cell works."""
    (source.parent / "data").mkdir()
    (source.parent / "data" / "notes.txt").write_text("notes")
    notebook = nbformat.read(source, as_version=4)
    notebook.cells[1].source = f'notes = open("data/notes.txt").read()\n{notebook.cells[1].source}'
    nbformat.write(notebook, source)


def insert_before(path: Path, start: str, source: str) -> None:
    """Insert a code cell before the one that begins with a text."""
    notebook = nbformat.read(path, as_version=4)
    (number,) = [number for number, cell in enumerate(notebook.cells) if cell.source.startswith(start)]
    notebook.cells.insert(number, nbformat.v4.new_code_cell(source))
    nbformat.write(notebook, path)


def write_easier_file(folder: Path, name: str, target: Path) -> None:
    """Write a file of an exercise that expects the result of `SELECT 1 AS one`."""
    exercise = load(name, folder)
    probe = Probe(expected=pack(frame_of(["one"], [[1]])))
    msgspec.structs.replace(exercise, probes=(probe,)).save(target)


def sources(path: Path) -> list[str]:
    """Return the text of the cells of a notebook."""
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def cells_of(notebook: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the type and the text of the cells of a notebook."""
    return [(cell["cell_type"], cell["source"]) for cell in notebook["cells"]]
