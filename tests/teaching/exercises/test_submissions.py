"""The student of a submission is found by its path, as learning platforms and students write it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from pipemagic.errors import SessionError
from pipemagic.teaching.classes.roster import read_roster
from pipemagic.teaching.exercises.gradebook import canvas_csv, feedback_html, moodle_csv, points_csv, unsolved
from pipemagic.teaching.exercises.grading import NOTHING, Grade, Table
from pipemagic.teaching.exercises.submissions import find_notebooks, match

ROSTER = """\
first name,last name,email,id
Ada,Lovelace,ada.l@example.edu,4711
Jörg,Müller,j.mueller@example.edu,S-815
Anna,Berg,anna1@example.edu,1001
Anna,Berg,anna2@example.edu,1002
Wei,王伟,wei@example.edu,88
"""


@pytest.fixture
def roster(tmp_path):
    (tmp_path / "roster.csv").write_text(ROSTER, "utf-8")
    return read_roster(tmp_path / "roster.csv")


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("Ada Lovelace_12345_assignsubmission_file_/birds.ipynb", "Ada Lovelace"),
        ("Jörg Müller_12346_assignsubmission_file/my birds.ipynb", "Jörg Müller"),
        ("lovelaceada_77_900_birds.ipynb", "Ada Lovelace"),
        ("mullerjorg_LATE_78_900_birds-2.ipynb", "Jörg Müller"),
        ("bergannalena_1002_900_birds.ipynb", "Anna Berg (anna2@example.edu)"),
        ("Jörg Müller_88_assignsubmission_file_/birds.ipynb", "Jörg Müller"),  # 88 is Wei's id
        ("Participant_88_assignsubmission_file_/birds.ipynb", "Wei 王伟"),
        ("submitted/4711/homework/birds.ipynb", "Ada Lovelace"),
        ("s-815/birds.ipynb", "Jörg Müller"),
        ("anna1/birds.ipynb", "Anna Berg (anna1@example.edu)"),
        ("anna2@example.edu/birds.ipynb", "Anna Berg (anna2@example.edu)"),
        ("ada-lovelace.ipynb", "Ada Lovelace"),
        ("birds_LovelaceAda.ipynb", ""),
        ("birds-lovelace-ada-final.ipynb", "Ada Lovelace"),
        ("homework 3 4711.ipynb", "Ada Lovelace"),
        ("Wei 王伟_5_assignsubmission_file_/birds.ipynb", "Wei 王伟"),
        ("88/birds.ipynb", "Wei 王伟"),
        ("Anna Berg_9_assignsubmission_file_/birds.ipynb", ""),
        ("188/birds.ipynb", ""),
        ("ada/birds.ipynb", ""),
        ("nina-berg/birds.ipynb", ""),
    ],
)
def test_the_student_of_a_path(roster, tmp_path, path, student):
    notebooks = {"x": tmp_path / "all" / path, "other": tmp_path / "all" / "other" / "birds.ipynb"}
    found = match(notebooks, roster)
    assert {label for label, names in found.of.items() if "x" in names} == {student} - {""}
    assert ("x" in found.unknown) == (not student)
    assert "other" in found.unknown


def test_a_single_submission_is_found_by_the_folders_above_it(roster, tmp_path):
    found = match({"birds": tmp_path / "4711" / "homework" / "birds.ipynb"}, roster)
    assert found.of["Ada Lovelace"] == ["birds"]


def test_notebooks_of_folders_without_hidden_ones(tmp_path):
    for name in ("ada/birds.ipynb", "bo/deep/birds.ipynb", "bo/.ipynb_checkpoints/birds.ipynb", "bo/data.csv"):
        (tmp_path / "all" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "all" / name).touch()
    found = find_notebooks([tmp_path / "all", tmp_path / "all" / "ada" / "birds.ipynb"])
    assert list(found) == ["ada/birds", "bo/deep/birds"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(SessionError, match="no notebooks in"):
        find_notebooks([tmp_path / "empty"])


def graded(name, first, second=0):
    return [Grade(name, "heavy", first, 4, reasons=("1 extra row",)), Grade(name, "egg", second, 1, reasons=("=no",))]


NAMES = ["Ada Lovelace", "Jörg Müller", "Anna Berg (anna1@example.edu)", "Anna Berg (anna2@example.edu)", "Wei 王伟"]


def table(text):
    return list(csv.reader(text.splitlines()))


def test_points_with_percentages_and_reasons(roster):
    grades = [mark for name in NAMES for mark in graded(name, 3.2)] + graded("=cmd()", 4, 1)
    header, first, *_, last = table(points_csv(grades, roster))
    assert header == ["student", "email", "id", "heavy", "egg", "total", "percent", "reasons"]
    assert first == [
        "Ada Lovelace", "ada.l@example.edu", "4711", "3.2", "0", "3.2", "64",
        "heavy: 1 extra row | egg: =no",
    ]  # fmt: skip
    assert last == ["'=cmd()", "", "", "4", "1", "5", "100", ""]


def test_moodle_gets_the_columns_of_the_roster_as_they_are(roster):
    grades = [mark for name in NAMES for mark in graded(name, 3.2)] + graded("unknown", 4)
    header, first, *rest = table(moodle_csv(grades, roster))
    assert header == ["first name", "last name", "email", "id", "Grade", "Feedback"]
    assert first == ["Ada", "Lovelace", "ada.l@example.edu", "4711", "3.2", "heavy: 1 extra row | egg: =no"]
    assert len(rest) == 4


def test_the_worksheet_of_a_moodle_assignment_is_filled_in(tmp_path):
    path = tmp_path / "worksheet.csv"
    path.write_text(
        "Identifier,Full name,Email address,Status,Grade,Maximum grade,Last modified (grade),"
        'Feedback comments\nParticipant 501,Ada Lovelace,Ada@example.edu,Submitted,,"10,00",-,\n', "utf-8"
    )  # fmt: skip
    roster = read_roster(path)
    notebooks = {"x": Path("/all/Participant_501_assignsubmission_file_/b.ipynb"), "y": Path("/all/y/b.ipynb")}
    assert match(notebooks, roster).of == {"Ada Lovelace": ["x"]}
    _, row = table(moodle_csv(graded("Ada Lovelace", 2), roster))
    assert row == [
        "Participant 501", "Ada Lovelace", "Ada@example.edu", "Submitted", "4", "10,00", "-",
        "heavy: 1 extra row | egg: =no",
    ]  # fmt: skip


def test_canvas_needs_its_own_columns(roster):
    with pytest.raises(SessionError, match="lacks the columns Student, ID and Section, which Canvas needs"):
        canvas_csv([], roster, "birds")


def test_exercises_without_any_points_have_the_most_frequent_reason():
    grades = [*graded("a", 1), *graded("b", 0), Grade("c", "egg", 0, 1, reasons=(NOTHING,))]
    assert unsolved(grades) == {"egg": "=no"}


def test_a_page_shows_what_a_submission_reports_as_text_and_within_bounds():
    long = Table("<p>x", [["<i>"], ["row"]], [["<script>"]] * 5000)
    grades = [
        Grade("<b>", "heavy", 1, 4, reasons=("no such table: <x>\n  line 1:\x1b[31m",) * 500, difference=long,
              notes=("<s>",), hints=("<u>",)),
        Grade("<b>", "egg", 1, 1, reasons=("not shown",)),
    ]  # fmt: skip
    page = feedback_html("<b>", grades, "birds & eggs")
    assert "2 of 5 points, 40%" in page
    assert "not shown" not in page
    assert not any(tag in page for tag in ("<b>", "<i>", "<x>", "<script>", "<u>", "<s>", "<p>x", "\x1b"))
    assert len(page) < 20_000
