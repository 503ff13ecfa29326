"""Answers in other cells run again on hidden data: literal ones get no points, and all tables are as before."""

from __future__ import annotations

import nbformat
import pytest
from course_notebooks import DATA, SETUP, run

from pipemagic.teaching.exercises.grading import grade
from pipemagic.teaching.exercises.release import release_file
from pipemagic.teaching.exercises.rerun import answers_in

MANY = """\
%%sql --quiet
CREATE TABLE many AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20001) SELECT i FROM n"""
"""A table that no exercise names, with more rows than are copied."""

COUNTS = """\
%%exercise counts
-- task: Store the number of birds of each species in `counts`.
-- points: 2
-- variable: counts
-- solution: counts = %sql SELECT species, count(*) AS birds FROM bird GROUP BY species
-- hidden: INSERT INTO bird VALUES ('Eve', 'Gentoo', 4900)
SELECT species, count(*) AS birds FROM bird GROUP BY species"""

HEAVIER = """\
%%exercise heavier
-- task: Add 10 g to each Adelie.
-- points: 2
-- solution: %sql UPDATE bird SET mass = mass + 10 WHERE species = 'Adelie'
-- hidden: UPDATE bird SET species = 'Adelie', mass = 1 WHERE name = 'Di'
UPDATE bird SET mass = mass + 10 WHERE species = 'Adelie'"""

LARGE = """\
%%exercise large
-- task: Create the table `large` with the birds above 4 kg.
-- points: 2
-- solution: large = %sql SELECT * FROM bird WHERE mass > 4000
-- solution: %pipedb load large --table large
-- state: SELECT name, mass FROM large
-- hidden: UPDATE bird SET mass = 4321 WHERE name = 'Di'
CREATE TABLE large AS SELECT * FROM bird WHERE mass > 4000"""

LAST = """\
%%exercise last
-- task: How heavy are all birds?
SELECT total(mass) AS mass FROM bird"""

ANSWERS = {
    "right": {
        "counts": ["kinds = %sql SELECT species FROM bird", "counts = kinds.groupby('species').size()"
                   ".rename('birds').reset_index()"],
        "heavier": ["%sql UPDATE bird SET mass = mass + 99", "%check heavier", "%check heavier --reset",
                    "%sql UPDATE bird SET mass = 10 + mass WHERE species IN ('Adelie')"],
        "large": ["%sql CREATE TABLE large AS SELECT name, species, mass FROM bird WHERE mass >= 4001"],
    },
    "literal": {
        "counts": ["import pandas as pd\ncounts = pd.DataFrame({'species': ['Adelie', 'Gentoo', 'Chinstrap'],"
                   " 'birds': [2, 1, 1]})"],
        "heavier": ["%sql UPDATE bird SET mass = mass + 10 WHERE name IN ('Ada', 'Cy')"],
        "large": ["%sql CREATE TABLE large AS SELECT 'Bo' AS name, 'Gentoo' AS species, 5050 AS mass"],
    },
}  # fmt: skip


def write_source(folder, *exercises):
    """Write a teacher's notebook that creates its data, and run it."""
    folder.mkdir()
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in (SETUP, DATA, MANY, *exercises)]
    run(notebook, folder)
    nbformat.write(notebook, folder / "birds.ipynb")
    return folder / "birds.ipynb"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_source(tmp_path_factory.mktemp("course") / "teacher", COUNTS, HEAVIER, LARGE, LAST)


def graded(source, folder, answers):
    """Grade a notebook with answers in the cells of its exercises."""
    target = folder / "birds.ipynb"
    release_file(source, target)
    notebook = nbformat.read(target, as_version=4)
    for number, cell in reversed(list(enumerate(notebook.cells))):
        name = cell.id.removesuffix("-answer")
        if name in answers:
            notebook.cells[number : number + 1] = [nbformat.v4.new_code_cell(text) for text in answers[name]]
        elif cell.source.startswith("%%check last"):
            cell.source += "\nSELECT total(mass) AS mass FROM bird"
    nbformat.write(notebook, target)
    return {mark.exercise: mark for mark in grade({"student": target}, source)}


def test_right_answers_have_all_points(source, tmp_path):
    grades = graded(source, tmp_path, ANSWERS["right"])
    assert {name: mark.points for name, mark in grades.items()} == {"counts": 2, "heavier": 2, "large": 2, "last": 1}
    assert [grades[name].hidden for name in ("counts", "heavier", "large")] == [True, True, True]


def test_literal_answers_have_none(source, tmp_path):
    """The last exercise reads the tables: they are as before."""
    grades = graded(source, tmp_path, ANSWERS["literal"])
    assert {name: mark.points for name, mark in grades.items()} == {"counts": 0, "heavier": 0, "large": 0, "last": 1}
    for name in ("counts", "heavier", "large"):
        assert grades[name].message == "correct on the visible data, wrong on the hidden data"


@pytest.mark.parametrize(
    ("history", "after", "answers"),
    [
        (["data", "a", "%check x"], "data", [["a"]]),
        (["data", "a", "b\n%check x f"], "data", [["a", "b\n"]]),
        (["data", "w", "%check x", "a", "%check x"], "data", [["a"], ["w", "a"]]),
        (["data", "w", "%check x", "%check x --reset", "a", "%check x"], "data", [["a"]]),
        (["data", "%%check y\nSELECT 1", "a", "%check x"], "%%check y", [["a"]]),
        (["data", "%%check y-2\nSELECT 1", "a", "%check x"], "%%check y", [["a"]]),
        (["data ", "lost", "a", "%check x"], "other", [["a"]]),
        (["a", "%check x"], "", [["a"]]),
        (["%check x"], "", [[]]),
    ],
)
def test_the_cells_of_an_answer(history, after, answers):
    assert answers_in(history, "x", after) == answers
