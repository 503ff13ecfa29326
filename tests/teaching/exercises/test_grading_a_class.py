"""A class is graded: data files, a check of the setup, students of a roster, tables for platforms, and feedback."""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from course_notebooks import insert_before, run, write_answers

from pipemagic import cli
from pipemagic.errors import SessionError
from pipemagic.teaching.exercises.gradebook import write_feedback
from pipemagic.teaching.exercises.grading import Grade, grade
from pipemagic.teaching.exercises.release import release_file

READ = """\
from pathlib import Path
names = Path("data/birds.txt").read_text().split()
first, second = names"""
DATA = "%%sql --quiet\nCREATE TABLE bird (name TEXT);\nINSERT INTO bird VALUES (:first), (:second)"
NAMES = "%%exercise names\n-- task: All names.\n-- points: 2\nSELECT name FROM bird"
ADDED = """\
%%exercise added
-- task: Add Cy.
-- points: 2
-- solution: %sql INSERT INTO bird VALUES ('Cy')
SELECT count(*) AS n FROM bird"""
FRAME = "%%exercise total\n-- variable: total\n-- solution: %%sql -o total\n--   SELECT 2 AS n\nSELECT 2 AS n"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A teacher's folder whose notebook reads a data file, beside secrets, and the released folder."""
    folder = tmp_path_factory.mktemp("course")
    teacher = folder / "teacher"
    (teacher / "data").mkdir(parents=True)
    (teacher / "data" / "birds.txt").write_text("Ada Bo")
    (teacher / "solutions.sql").write_text("SELECT name FROM bird")
    notebook = nbformat.v4.new_notebook()
    cells = ("%load_ext pipemagic\n%pipedb connect", READ, DATA, NAMES, ADDED, FRAME)
    notebook.cells = [nbformat.v4.new_code_cell(text, id=f"source-{at}") for at, text in enumerate(cells)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIPEMAGIC_DATA", str(folder / "service"))
        run(notebook, teacher)
    nbformat.write(notebook, teacher / "birds.ipynb")
    release_file(teacher / "birds.ipynb", folder / "class" / "birds.ipynb")
    return folder


@pytest.fixture
def submit(course, tmp_path, monkeypatch):
    """Write the notebook of a student, without the data file, to a path."""
    monkeypatch.chdir(tmp_path)

    def submit(path, answer="SELECT name FROM bird", own=("%sql INSERT INTO bird VALUES ('Cy')", "")):
        target = tmp_path / path
        write_answers(course / "class" / "birds.ipynb", target, {"names": answer} if answer else {})
        notebook = nbformat.read(target, as_version=4)
        stubs = [cell for cell in notebook.cells if cell.source == "# Write your cell here."]
        for cell, text in zip(stubs, own, strict=True):
            cell.source = text or cell.source
        nbformat.write(notebook, target)
        return target

    return submit


def graded(course, path, **options):
    return {mark.exercise: mark for mark in grade({"ada": path}, course / "teacher" / "birds.ipynb", **options)}


def test_the_released_folder_has_the_data_and_nothing_else(course):
    files = sorted(path.relative_to(course / "class").as_posix() for path in (course / "class").rglob("*.*"))
    assert files == [
        "birds.ipynb", "data/birds.txt", "exercises/added.json", "exercises/names.json", "exercises/total.json"
    ]  # fmt: skip


def test_a_submission_without_the_data_file_or_with_its_own_has_all_points(course, submit):
    frame = "import pandas as pd\ntotal = pd.DataFrame({'n': [2]})"
    notebook = submit("ada/birds.ipynb", own=("%sql INSERT INTO bird VALUES ('Cy')", frame))
    found = graded(course, notebook)
    assert {name: mark.points for name, mark in found.items()} == {"names": 2, "added": 2, "total": 1}
    (notebook.parent / "data").mkdir()
    (notebook.parent / "data" / "birds.txt").write_text("Mine Other")
    assert graded(course, notebook) == found
    assert (notebook.parent / "data" / "birds.txt").read_text() == "Mine Other"


def test_reasons_name_the_failed_cells_and_there_is_no_answer_only_where_there_is_none(course, submit):
    notebook = submit("ada/birds.ipynb", answer="", own=("%sql INSERT INTO brid VALUES ('Cy')", "totl = 2"))
    insert_before(notebook, "%%check names", "open('mine.csv')")
    found = graded(course, notebook)
    first = "cell 4 failed: FileNotFoundError: [Errno 2] No such file or directory: 'mine.csv'"
    assert found["names"].reasons == (first, "no answer")
    assert found["added"].reasons[0] == first
    assert "cell 6 failed: StatementError: no such table: brid" in found["added"].message
    assert "no answer" not in found["added"].message
    assert found["total"].reasons == (first, "there is no DataFrame total")


def test_a_check_without_its_magic(course, submit):
    notebook = submit("ada/birds.ipynb")
    made = nbformat.read(notebook, as_version=4)
    made.cells[0].source = "1"
    nbformat.write(made, notebook)
    assert "UsageError: Cell magic `%%check` not found" in graded(course, notebook)["names"].message


def test_a_setup_that_does_not_work_is_an_error_before_any_submission_runs(course, submit, tmp_path, capsys):
    broken = shutil.copytree(course / "teacher", tmp_path / "broken")
    (broken / "data" / "birds.txt").unlink()
    notebook = submit("ada/birds.ipynb")
    insert_before(notebook, "%%check names", f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert cli.main(["exercises", "grade", str(notebook), "--source", str(broken / "birds.ipynb")]) == 1
    error = capsys.readouterr().err
    assert "with its solutions, birds.ipynb has 0 of 2 points in names: cell 2 failed: FileNotFoundError" in error
    assert "data/birds.txt" in error
    assert not (tmp_path / "ran").exists()


def test_a_path_that_does_not_exist_is_an_error(course, submit, capsys):
    source = str(course / "teacher" / "birds.ipynb")
    assert cli.main(["exercises", "grade", str(submit("ada/birds.ipynb")), "bo/birds.ipynb", "--source", source]) == 2
    assert "'bo/birds.ipynb' does not exist" in capsys.readouterr().err


ROSTER = """\
Student,ID,SIS User ID,SIS Login ID,Section,birds (77),Current Score
    Points Possible,,,,,5,(read only)
"Lovelace, Ada",11,a1,ada,S1,,
"Hopper, Grace",12,a2,grace,S1,,
"Müller, Anna",13,a3,anna.m,S1,,
"Müller, Anna",14,a4,anna2,S2,,
"Student, Test",15,,,S1,,
"""


@pytest.fixture
def classroom(submit, tmp_path):
    """Submissions as Canvas names them, one of a stranger, and the gradebook that Canvas exported."""
    submit("all/lovelaceada_11_900_birds.ipynb")
    submit("all/mulleranna_LATE_14_901_birds-1.ipynb", answer="SELECT 'A<b>' AS name", own=("", ""))
    submit("all/mulleranna_14_902_birds.ipynb", answer="", own=("", ""))
    submit("all/unknown_99_903_birds.ipynb", own=("", ""))
    (tmp_path / "roster.csv").write_text(ROSTER, "utf-8")
    return tmp_path


def test_a_roster_canvas_and_feedback(course, classroom, capsys):
    source = course / "teacher" / "birds.ipynb"
    arguments = ["all", "--source", str(source), "--roster", "roster.csv", "--csv", "canvas.csv", "--format", "canvas"]
    assert cli.main(["exercises", "grade", *arguments, "--feedback", "pages", "--jobs", "2"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[-5:] for line in out.splitlines()] == [
        ["NAMES", "ADDED", "TOTAL", "TOTAL", "PERCENT"],
        ["2", "2", "0", "4", "80%"],
        ["0", "0", "0", "0", "0%"],
        ["0", "0", "0", "0", "0%"],
        ["0.4", "0", "0", "0.4", "8%"],
        ["2", "0", "0", "2", "40%"],
    ]
    assert "Nothing handed in, so 0 points: Hopper, Grace, Müller, Anna (13)." in err
    assert "Müller, Anna (14) has 2 submissions, of which the best counts" in err
    assert "These submissions match no student of roster.csv: unknown_99_903_birds." in err
    assert "No submission has a point in total. The most frequent reason: no answer" in err
    rows = list(csv.reader(Path("canvas.csv").read_text("utf-8").splitlines()))
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "birds (77)"]
    assert rows[1] == ["    Points Possible", "", "", "", "", "5"]
    assert [(row[0], row[1], row[-1]) for row in rows[2:]] == [
        ("Lovelace, Ada", "11", "4"), ("Hopper, Grace", "12", "0"), ("Müller, Anna", "13", "0"),
        ("Müller, Anna", "14", "0.4"),
    ]  # fmt: skip
    pages = {path.name: path.read_text("utf-8") for path in Path("pages").iterdir()}
    assert sorted(pages) == [
        "hopper-grace.html", "lovelace-ada.html", "müller-anna-13.html", "müller-anna-14.html",
        "unknown-99-903-birds.html",
    ]  # fmt: skip
    assert "Nothing handed in." in pages["hopper-grace.html"]
    page = pages["müller-anna-14.html"]
    assert "0.4 of 5 points, 8%" in page
    assert "A&lt;b&gt;" in page
    assert "A<b>" not in page


def test_pages_of_feedback_have_the_names_of_students_of_all_languages(tmp_path):
    names = ["李明", "Łukasz Żak", "محمد علی", "Анна (../а@б.рф)", "..."]
    grades = [Grade(name, "heavy", 1, 1) for name in names]
    assert [path.name for path in write_feedback(grades, tmp_path, "birds")] == [
        "李明.html", "łukasz-żak.html", "محمد-علی.html", "анна-а-б-рф.html", "student.html",
    ]  # fmt: skip


def test_an_interrupt_ends_all_runs(course, submit, tmp_path):
    for name in ("ada", "bo", "cy"):
        notebook = submit(f"all/{name}/birds.ipynb")
        insert_before(notebook, "%%check names", f"open({str(tmp_path / name)!r}, 'w')\nimport time\ntime.sleep(300)")
    command = [sys.executable, "-m", "pipemagic", "exercises", "grade", "all", "--jobs", "2", "--source"]
    process = subprocess.Popen([*command, course / "teacher" / "birds.ipynb"], stderr=subprocess.PIPE, text=True)
    try:
        while not ((tmp_path / "ada").exists() and (tmp_path / "bo").exists()):
            assert process.poll() is None
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        os.kill(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode not in (0, None)
    assert "Traceback" not in error
    assert not (tmp_path / "cy").exists()
    assert not re.search("points", error)


def test_notebooks_that_share_a_database_run_one_at_a_time(course, submit, monkeypatch):
    monkeypatch.setenv("PIPEMAGIC_URL", "http://127.0.0.1:1")
    with pytest.raises(SessionError, match="cannot run 2 notebooks at a time, since all of them use the database of"):
        graded(course, submit("ada/birds.ipynb"), jobs=2)


def test_a_service_that_does_not_run_is_named_and_not_the_files(course, submit, tmp_path, monkeypatch):
    teacher = shutil.copytree(course / "teacher", tmp_path / "teacher")
    notebook = nbformat.read(teacher / "birds.ipynb", as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.source != ADDED]  # it would skip the solutions
    nbformat.write(notebook, teacher / "birds.ipynb")
    monkeypatch.setenv("PIPEMAGIC_URL", "http://127.0.0.1:1")
    with pytest.raises(SessionError, match="ConnectError: ") as caught:
        grade({"ada": submit("ada/birds.ipynb")}, teacher / "birds.ipynb")
    assert caught.value.hint == "start the service of PIPEMAGIC_URL, or set PIPEMAGIC_URL to another database"
