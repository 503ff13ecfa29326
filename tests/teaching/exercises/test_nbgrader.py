"""A notebook is released, fetched, solved, submitted, collected, graded and exported by the commands of nbgrader."""

from __future__ import annotations

import csv
import getpass
import json
import shutil

import nbformat
import pytest
from client_packages import CannotInstall
from course_notebooks import (
    ANSWERS,
    CELLS,
    LITERAL_CELLS,
    RINGED_ANSWER,
    WITH_CELLS,
    read_a_file,
    sources,
    tamper,
    write_answers,
    write_source,
)
from graders import install

from pipemagic.teaching.exercises.release import release_file

CONFIG = """\
c = get_config()
c.CourseDirectory.course_id = "birds"
c.Exchange.root = {exchange!r}
c.ClearSolutions.code_stub = {{"python": ""}}
"""
STUDENT = getpass.getuser()
"""The student who uses the exchange is the user of this machine; the answers of others are put beside."""


@pytest.fixture(scope="module")
def nbgrader(request, tmp_path_factory, require_real):
    try:
        return install("nbgrader", request.config, tmp_path_factory.mktemp("nbgrader"))
    except CannotInstall as error:
        require_real(f"nbgrader cannot be installed: {error}")
        raise


@pytest.fixture(scope="module")
def course(nbgrader, tmp_path_factory):
    """A course folder of nbgrader: the homework is generated, released, fetched, submitted, collected, graded."""
    folder = tmp_path_factory.mktemp("nbgrader")
    exchange, course, student = folder / "exchange", folder / "course", folder / "student"
    for directory in (exchange, course, student):
        directory.mkdir()
    exchange.chmod(0o777)
    for directory in (course, student):
        (directory / "nbgrader_config.py").write_text(CONFIG.format(exchange=str(exchange)))
    source = write_source(folder / "teacher", *WITH_CELLS)
    read_a_file(source)
    (course / "source" / "homework").mkdir(parents=True)
    release_file(source, course / "source" / "homework" / "birds.ipynb", "nbgrader")
    nbgrader.run(course, "nbgrader", "generate_assignment", "homework")
    nbgrader.run(course, "nbgrader", "release_assignment", "homework")
    nbgrader.run(student, "nbgrader", "fetch_assignment", "homework")
    fetched = student / "homework" / "birds.ipynb"
    unsolved = shutil.copytree(student / "homework", folder / "unsolved")
    write_answers(fetched, fetched, ANSWERS["right"], RINGED_ANSWER, CELLS)
    nbgrader.run(student, "nbgrader", "submit", "homework")
    nbgrader.run(course, "nbgrader", "collect", "homework")
    for name in ("mixed", "unsolved", "tampered"):
        own = course / "submitted" / name / "homework"
        shutil.copytree(unsolved, own)
        literals = LITERAL_CELLS if name == "mixed" else {}
        write_answers(own / "birds.ipynb", own / "birds.ipynb", ANSWERS[name], cells=literals)
        (own / "data" / "notes.txt").unlink()
    tamper(course / "submitted" / "tampered" / "homework" / "birds.ipynb")
    nbgrader.run(course, "nbgrader", "autograde", "homework")
    nbgrader.run(course, "nbgrader", "export", "--to", "grades.csv")
    return course


@pytest.fixture(scope="module")
def grades(course):
    with (course / "grades.csv").open() as file:
        return {row["student_id"]: (float(row["score"]), float(row["max_score"])) for row in csv.DictReader(file)}


def test_the_released_notebook_contains_no_solution(course):
    text = (course / "release" / "homework" / "birds.ipynb").read_text("utf-8")
    cells = sources(course / "release" / "homework" / "birds.ipynb")
    assert "%%check heavy\n-- Write your SQL here.\n" in cells
    assert 'from pipemagic.teaching.exercises import points\npoints("species")' in cells
    for secret in ("ORDER BY mass", "GROUP BY", "'Eve'", "(7, 'Ada'", "--atomic", "SOLUTION", "HIDDEN"):
        assert secret not in text
    assert {path.name for path in (course / "release" / "homework" / "exercises").iterdir()} == {
        "counted.json", "egg.json", "fed.json", "heavy.json", "ringed.json", "species.json",
    }  # fmt: skip
    assert (course / "release" / "homework" / "data" / "notes.txt").read_text() == "notes"


def test_a_right_submission_has_all_points(grades):
    assert grades[STUDENT] == (11, 11)


def test_a_partly_right_answer_has_partial_credit_and_needs_no_data_file(grades):
    assert grades["mixed"] == (3.2, 11)


def test_a_hard_coded_answer_fails_the_hidden_test(course):
    notebook = nbformat.read(course / "autograded" / "mixed" / "homework" / "birds.ipynb", as_version=4)
    cells = {cell.id: cell for cell in notebook.cells}
    for name, shown in {"species": "species-answer", "counted": "counted-check", "fed": "fed-check"}.items():
        assert f"{name}: passed" in json.dumps(cells[shown].outputs)
        assert "correct on the visible data, wrong on the hidden data" in json.dumps(cells[f"{name}-points"].outputs)
    assert "no such table: nest" in json.dumps(cells["egg-answer"].outputs)


@pytest.mark.parametrize("student", ["unsolved", "tampered"])
def test_no_points(grades, student):
    assert grades[student] == (0, 11)


def test_the_tampered_answers_passed_before_grading(course):
    notebook = nbformat.read(course / "autograded" / "tampered" / "homework" / "birds.ipynb", as_version=4)
    cells = {cell.id: cell for cell in notebook.cells}
    assert "egg: passed, 1 of 1 point" in json.dumps(cells["egg-answer"].outputs)
    assert "checked with a file that differs from the teacher" in json.dumps(cells["egg-points"].outputs)
