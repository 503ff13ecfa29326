"""Submissions are run and graded on the visible and on the hidden data; a broken one does not stop the others."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import nbformat
import pytest
from course_notebooks import (
    ANSWERS,
    EGG,
    EXERCISES,
    RINGED_ANSWER,
    SPECIES,
    insert_before,
    tamper,
    write_answers,
    write_source,
)

from pipemagic import cli
from pipemagic.errors import SessionError
from pipemagic.teaching.exercises.authoring import author
from pipemagic.teaching.exercises.checking import check_cell, record
from pipemagic.teaching.exercises.exercise import load, parse_cell
from pipemagic.teaching.exercises.grading import Assignment, Grade, grade, summary, verified_points
from pipemagic.teaching.exercises.release import fingerprint, release_file

FILES_OF_REPORTS = """\
from pathlib import Path
Path("../heavy.json").write_text('{"submission": "", "exercise": "heavy", "points": 4, "of": 4}')
Path("../species.json").write_text("no JSON")
Path("../ringed.json").mkdir()"""
FORGED = """\
from pathlib import Path
from pipemagic.teaching.exercises import grading
def forge(path, name, *rest):
    points = {"heavy": 100, "ringed": -1}.get(name)
    if name == "egg":
        Path(path).mkdir()
    else:
        Path(path).write_text(f'{{"submission": "", "exercise": "egg", "points": {points}, "of": 100}}')
grading.report = forge"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_source(tmp_path_factory.mktemp("teacher"), *EXERCISES)


@pytest.fixture(scope="module")
def released(source, tmp_path_factory):
    """The folder that students get."""
    folder = tmp_path_factory.mktemp("released")
    release_file(source, folder / "birds.ipynb")
    return folder


@pytest.fixture
def solve(released, tmp_path):
    """Write the notebook of a student to a copy of the released folder.

    It connects without options, to a service of its own: its tables would exist in that of an earlier submission.
    """

    def solve(name, answers=None, ringed=""):
        notebook = shutil.copytree(released, tmp_path / name) / "birds.ipynb"
        write_answers(released / "birds.ipynb", notebook, answers or ANSWERS[name], ringed)
        notebook.write_text(notebook.read_text("utf-8").replace("connect --temporary", "connect"), "utf-8")
        return notebook

    return solve


@pytest.fixture
def graded(source):
    """Grade a submission; return its grades by exercise."""

    def graded(notebook, name="", **options):
        return {mark.exercise: mark for mark in Assignment.read(source, **options).grade(notebook, name)}

    return graded


def points(grades):
    return {name: result.points for name, result in grades.items()}


def test_a_right_submission_has_all_points(solve, graded):
    """It has a link to nothing in its folder, and a cell that looks for the references."""
    notebook = solve("right", ringed=RINGED_ANSWER)
    history = notebook.parents[1] / "history.txt"
    insert_before(notebook, "%%check egg", f"open({str(history)!r}, 'w').write(repr([In, globals()]))")
    notebook.with_name("data.csv").symlink_to("nothing")
    before = {path: path.read_bytes() for path in notebook.parent.rglob("*") if path.is_file()}
    assert graded(notebook, name="Ada") == {
        "heavy": Grade("Ada", "heavy", 4, 4),
        "species": Grade("Ada", "species", 2, 2, hidden=True),
        "egg": Grade("Ada", "egg", 1, 1),
        "ringed": Grade("Ada", "ringed", 2, 2),
    }
    assert {path: path.read_bytes() for path in notebook.parent.rglob("*") if path.is_file()} == before
    text = history.read_text("utf-8")
    assert "count(name)" in text  # the student's own answer
    assert "'Eve'" not in text
    assert "count(*)" not in text


@pytest.mark.parametrize(
    ("answer", "as_good"),
    [
        ("SELECT species, count(*) AS n FROM penguins WHERE species <> 'Adelie' GROUP BY 1", True),
        ("SELECT column1 AS species, column2 AS n FROM (VALUES ('Adelie', 3), ('Gentoo', 2))", False),
    ],
)
def test_points_are_at_most_those_on_the_hidden_data(session, tmp_path, answer, as_good):
    reference, data = "SELECT species, count(*) AS n FROM penguins GROUP BY 1", "DELETE FROM penguins WHERE id = 1"
    text = f"-- points: 2\n-- hidden: {data}\n{reference}"
    author(parse_cell("species", text), session.connection(), tmp_path).save(tmp_path)
    exercise = load("species", tmp_path)
    check = record(check_cell(exercise, session.read(answer), session.connection()))
    found = verified_points("species", fingerprint(exercise), reference=reference, data=data)
    assert 0 < check.points < 2
    assert (found == check.points) == as_good
    assert 0 <= found <= check.points


RIGHT = "SELECT species, count(*) AS n FROM penguins GROUP BY 1"
PARTLY = "SELECT species, count(*) AS n FROM penguins WHERE species <> 'Chinstrap' GROUP BY 1"
HARD_CODED = "SELECT column1 AS species, column2 AS n FROM (VALUES ('Adelie', 3), ('Gentoo', 2), ('Chinstrap', 1))"


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([RIGHT, PARTLY, "SELECT nope"], 2),
        ([RIGHT, HARD_CODED], 2),
        ([HARD_CODED, PARTLY, HARD_CODED], 1.33),
        ([PARTLY, HARD_CODED], 1.33),
    ],
)
def test_the_best_attempt_counts_of_those_that_the_hidden_check_accepts(session, tmp_path, answers, found):
    data = "DELETE FROM penguins WHERE id = 1"
    author(parse_cell("species", f"-- points: 2\n-- hidden: {data}\n{RIGHT}"), session.connection(), tmp_path).save(
        tmp_path
    )
    exercise = load("species", tmp_path)
    for text in answers:
        record(check_cell(exercise, session.read(text), session.connection()))
    assert verified_points("species", fingerprint(exercise), reference=RIGHT, data=data) == pytest.approx(found, 0.2)


def test_hard_coded_attempts_only_have_no_points(session, tmp_path):
    data = "DELETE FROM penguins WHERE id = 1"
    author(parse_cell("species", f"-- hidden: {data}\n{RIGHT}"), session.connection(), tmp_path).save(tmp_path)
    exercise = load("species", tmp_path)
    for text in (HARD_CODED, "SELECT nope"):
        record(check_cell(exercise, session.read(text), session.connection()))
    with pytest.raises(SessionError, match="correct on the visible data, wrong on the hidden data"):
        verified_points("species", fingerprint(exercise), reference=RIGHT, data=data)


def test_hidden_data_that_do_not_fit_the_tables_are_named(session, tmp_path):
    data = "INSERT INTO penguins VALUES (7, 'Gentoo', NULL, NULL)"
    author(parse_cell("species", f"-- hidden: {data}\n{RIGHT}"), session.connection(), tmp_path).save(tmp_path)
    exercise = load("species", tmp_path)
    record(check_cell(exercise, session.read(RIGHT), session.connection()))
    session.run("INSERT INTO penguins VALUES (7, 'Gentoo', NULL, NULL)")
    reason = "the hidden check fails on the tables as this notebook leaves them: UNIQUE constraint failed: penguins.id"
    with pytest.raises(SessionError, match=reason):
        verified_points("species", fingerprint(exercise), reference=RIGHT, data=data)


def test_partial_credit_and_errors_with_their_messages(solve, graded):
    grades = graded(solve("partly", ANSWERS["partly"] | {"species": "SELECT x FROM bird"}))
    assert points(grades) == {"heavy": 3.2, "species": 0, "egg": 0, "ringed": 0}
    assert grades["species"].message == "no such column: x"
    assert grades["egg"].message == "no answer"
    assert grades["ringed"].message == "no answer"


def test_a_tampered_submission_has_no_points(solve, graded):
    """It writes files of reports, too."""
    notebook = solve("tampered")
    tamper(notebook)
    insert_before(notebook, "%%check heavy", FILES_OF_REPORTS)
    grades = graded(notebook)
    assert points(grades) == {"heavy": 0, "species": 0, "egg": 0, "ringed": 0}
    assert grades["egg"].message == "checked with a file that differs from the teacher's"


def test_forged_reports_do_not_stop_the_class_and_have_at_most_all_points(solve, graded):
    notebook = solve("unsolved")
    insert_before(notebook, "%%check heavy", FORGED)
    grades = graded(notebook)
    assert grades["heavy"] == Grade("birds", "heavy", 4, 4)
    assert points(grades) == {"heavy": 4, "species": 0, "egg": 0, "ringed": 0}
    assert grades["species"].message == grades["egg"].message == "the check did not report its points"


def test_a_source_without_exercises(solve, tmp_path):
    source = tmp_path / "source.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), source)
    with pytest.raises(SessionError, match=r"no %%exercise cells in source\.ipynb"):
        grade({"ada": solve("right")}, source)


def test_an_error_an_endless_cell_and_the_end_of_the_kernel_keep_the_points_before(solve, graded):
    notebook = solve("right")
    insert_before(notebook, "%%check heavy", "1 / 0")
    insert_before(notebook, "%%check egg", "while True:\n    pass")
    insert_before(notebook, "%check ringed", "import os\nos._exit(1)")
    grades = graded(notebook, timeout=8)
    assert points(grades) == {"heavy": 4, "species": 2, "egg": 1, "ringed": 0}
    assert grades["ringed"].message == "Kernel died"


def test_the_best_attempt_of_a_submission_counts(solve, graded):
    """The data of the first attempts change afterwards, so the hidden check would refuse them later."""
    notebook = solve("right")
    insert_before(notebook, "%%check egg", f"%%check species\n{ANSWERS['hard_coded']['species']}")
    insert_before(notebook, "%%check egg", "%sql DELETE FROM bird WHERE mass > 0")
    insert_before(notebook, "%%check egg", "%%check species\nSELECT 1")
    insert_before(notebook, "%%check egg", "%%check heavy")
    assert points(graded(notebook)) == {"heavy": 4, "species": 2, "egg": 1, "ringed": 0}


def test_a_removed_check_has_no_points(solve, graded):
    notebook = solve("right")
    made = nbformat.read(notebook, as_version=4)
    made.cells = [cell for cell in made.cells if not cell.source.startswith("%%check egg")]
    nbformat.write(made, notebook)
    reason = "not checked: no cell contains %check egg or %%check egg"
    assert graded(notebook)["egg"] == Grade("birds", "egg", 0, 1, reasons=(reason,))


def test_the_summary_of_a_class():
    grades = [
        Grade("ada", "heavy", 4, 4), Grade("ada", "egg", 0.5, 1), Grade("bo", "heavy", 0, 4), Grade("bo", "egg", 1, 1),
    ]  # fmt: skip
    frame = summary(grades)
    assert frame.index.name == "submission"
    assert frame.reset_index().to_dict("list") == {
        "submission": ["ada", "bo"], "heavy": [4, 0], "egg": [0.5, 1], "total": [4.5, 1], "percent": [90, 20],
    }  # fmt: skip


def test_the_command_grades_a_class_with_a_broken_submission(solve, source, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hard_coded, broken = solve("hard_coded"), solve("unsolved")
    broken.write_text("no notebook")
    paths = [str(path.relative_to(tmp_path)) for path in (hard_coded, broken)]
    assert cli.main(["exercises", "grade", *paths, "--source", str(source), "--csv", "new/grades.csv"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["SUBMISSION", "HEAVY", "SPECIES", "EGG", "RINGED", "TOTAL", "PERCENT"]
    assert (
        err.count("cannot read birds.ipynb: ") == err.count("unsolved/birds: 0 points: cannot read birds.ipynb: ") == 1
    )
    assert "hard_coded/birds: species: 0 of 2: correct on the visible data, wrong on the hidden data" in err
    header, *rows = csv.reader(Path("new/grades.csv").read_text("utf-8-sig").splitlines())
    assert header == ["submission", "heavy", "species", "egg", "ringed", "total", "percent", "reasons"]
    assert [row[:-1] for row in rows] == [
        ["hard_coded/birds", "0", "0", "0", "0", "0", "0"], ["unsolved/birds", "0", "0", "0", "0", "0", "0"],
    ]  # fmt: skip
    assert "species: correct on the visible data, wrong on the hidden data" in rows[0][-1]
    assert rows[1][-1].startswith("cannot read birds.ipynb: ")
    assert "No submission has a point in heavy. The most frequent reason: no answer" in err


def test_a_release_names_exercises_without_a_task(tmp_path, capsys):
    source = write_source(tmp_path / "teacher", SPECIES, EGG.replace("-- task: ", "-- hint: "))
    assert cli.main(["exercises", "release", str(source), str(tmp_path / "class" / "birds.ipynb")]) == 0
    assert capsys.readouterr().err == "Students get no task for egg: add `-- task: ...` to these exercises.\n"


def test_the_command_releases_a_notebook(source, tmp_path, capsys):
    assert cli.main(["exercises", "release", str(source), str(tmp_path / "class" / "birds.ipynb")]) == 0
    assert (
        capsys.readouterr().out
        == f"Wrote {tmp_path / 'class' / 'birds.ipynb'} with 4 exercises: heavy, species, egg, ringed.\n"
    )
    assert sorted(path.name for path in (tmp_path / "class").rglob("*.*")) == [
        "birds.ipynb", "egg.json", "heavy.json", "ringed.json", "species.json",
    ]  # fmt: skip
