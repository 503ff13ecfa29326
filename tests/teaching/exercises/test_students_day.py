"""The day of a student: wrong answers with true reasons, a wrong commit, changed data, a restart, and the grade."""

from __future__ import annotations

import shutil

import pytest
from lesson import RIGHT, kernel, write_lesson

from pipemagic.teaching.exercises.grading import grade
from pipemagic.teaching.exercises.release import release_file

HEAVY = {
    "SELECT nam, mass FROM bird": "no such column: nam|Hint: did you mean name?|Hint 1 of 2: mass contains grams.",
    "SELECT name, mass FROM bird WHERE mass > 3,400": "thousands separator|Hint 2 of 2: ORDER BY mass DESC sorts.",
    "SELECT name, mass FROM bird WHERE mass > 3400": "1.5 of 2 points|is ORDER BY missing?|The positions that differ:",
    "SELECT name, mass FROM bird ORDER BY mass DESC": "1 extra row: is a condition missing or too wide?",
}
ADELIES = {
    "SELECT name FROM bird WHERE species = 'adelie'": "no row of bird has species = 'adelie'; there is 'Adelie'",
    "SELECT name FROM bird WHERE species = NULL": "= NULL is never true: write IS NULL",
    "SELECT name FROM bird WHERE species = Adelie": "no such column: Adelie|'Adelie'",
    "SELECT name FROM bird WHERE mass > 9000": "no row of bird has mass > 9000: the largest is 5050",
    "SELECT name FROM bird GROUP BY species": "1 missing row and 2 extra rows|name is neither aggregated nor grouped",
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_lesson(tmp_path_factory.mktemp("lesson"))


@pytest.fixture(scope="module")
def handout(source, tmp_path_factory):
    """The folder that students get; the file of the lesson is in it."""
    folder = tmp_path_factory.mktemp("handout")
    release_file(source, folder / "lesson-1.ipynb")
    assert {path.name for path in folder.iterdir()} == {"lesson-1.ipynb", "birds.csv", "exercises"}
    return folder


@pytest.fixture
def folder(handout, tmp_path):
    return shutil.copytree(handout, tmp_path / "Ada")


def assert_says(shown, *parts):
    for part in parts:
        assert part in shown


def test_the_day_of_a_student(folder, source, tmp_path, monkeypatch):
    with kernel(folder, tmp_path) as student:
        *_, heavy, adelies, _, moved = student.run_all(folder / "lesson-1.ipynb")
        assert [text.strip() for text in (heavy, adelies, moved)] == [
            "heavy: no answer yet (2 points)", "adelies: no answer yet (1 point)", "moved: no answer yet (2 points)",
        ]  # fmt: skip
        for name, answers in {"heavy": HEAVY, "adelies": ADELIES}.items():
            for answer, parts in answers.items():
                assert_says(student(f"%%check {name}\n{answer}"), *parts.split("|"))
        assert "passed, 2 of 2 points" in student(RIGHT["heavy"])
        worse = student("%%check heavy\nSELECT name FROM bird")
        assert_says(worse, "column mass is missing", "heavy: 0.5 of 2 points")
        assert "0    heavy    2.00  2.0" in student("%check")  # the best attempt
        assert "passed, 1 of 1 point" in student(RIGHT["adelies"])

        student("%%sql\nUPDATE seat SET free = free + 2 WHERE hide = 'north'")
        assert_says(student("%check moved"), "moved: 1 of 2 points", "restore seat", "%check moved --reset")
        student(RIGHT["moved"])
        assert "north    5           7" in student("%check moved")
        assert "Restored seat (2 rows). Run your answer again." in student("%check moved --reset")
        student(RIGHT["moved"])
        assert "moved: passed, 2 of 2 points" in student("%check moved")

        student("%sql DELETE FROM bird WHERE name = 'Bo'")
        changed = student(RIGHT["heavy"])
        assert "bird has 3 rows, the exercise was made with 4: run the cells from the top" in changed.splitlines()[1]
        student.save(tmp_path / "handed in" / "lesson-1.ipynb")  # without the file and the folder of the exercises
    # The wrong answers come first in this notebook, and the data change at its end: the best attempt counts.
    # Each run has a temporary service, so the variable changes nothing, and the solutions run first.
    monkeypatch.setenv("PIPEMAGIC_URL", "http://127.0.0.1:1")
    notes = list[str]()
    grades = grade({"Ada": tmp_path / "handed in" / "lesson-1.ipynb"}, source, jobs=2, notify=notes.append)
    assert notes == []
    assert {mark.exercise: (mark.points, mark.message) for mark in grades} == {
        "heavy": (2, ""), "adelies": (1, ""), "moved": (2, ""),
    }  # fmt: skip


def test_answers_pass_again_after_a_restart(folder, tmp_path):
    for _ in range(2):
        with kernel(folder, tmp_path) as student:
            student.run_all(folder / "lesson-1.ipynb")
            for name, answer in RIGHT.items():
                shown = student(answer)
                assert "passed" in (student(f"%check {name}") if name == "moved" else shown)
