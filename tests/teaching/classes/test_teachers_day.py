"""The day of a teacher: a class with codes, its wrong answers, a new code, submissions without their file, the end."""

from __future__ import annotations

import csv
import re
from contextlib import ExitStack

import pytest
from lesson import RIGHT, kernel, write_lesson

from pipemagic.teaching.classes import model

ROSTER = """\
name,email,id
Anna Müller,anna.m@example.edu,101
Anna Müller,anna.mu@example.edu,102
Anna Müller,anna.mue@example.edu,103
Ada Lovelace,ada@example.edu,104
Noor Haddad,noor@example.edu,105
"""
ANNAS = [f"Anna Müller ({name}@example.edu)" for name in ("anna.m", "anna.mu", "anna.mue")]
IDS = {**dict(zip(ANNAS, (101, 102, 103), strict=True)), "Ada Lovelace": 104}
WRONG = "%%check adelies\nSELECT name FROM bird WHERE species = '{}'"


@pytest.fixture
def run(command, tmp_path):
    """Run a command in the folder of the teacher."""
    (tmp_path / "roster.csv").write_text(ROSTER, "utf-8")
    return command


def cards(page):
    """Return the line to type of each card, by the student."""
    text = re.sub(r"</?(?:code|span)[^>]*>", "", page)
    found = re.findall(r"<h2>(.*?)</h2>.*?(%pipedb connect [^<\n]*)", text, re.DOTALL)
    return dict(found)


def test_the_day_of_a_teacher(run, embedded, tmp_path, monkeypatch):
    source = write_lesson(tmp_path / "lesson", tags=("teacher",))
    assert run("exercises", "release", str(source), "handout/lesson-1.ipynb")[0] == 0
    create = ["class", "create", "roster.csv", "--group", "default", "--name", "birds", "--record"]
    assert run(*create, "--address", embedded.api.url)[0] == 0
    lines = cards((tmp_path / "birds-handouts.html").read_text("utf-8"))
    assert list(lines) == [*ANNAS, "Ada Lovelace", "Noor Haddad"]

    with ExitStack() as stack:
        kernels = {
            name: stack.enter_context(kernel(tmp_path / "handout", tmp_path / f"of {name}"))
            for name in (*ANNAS, "Ada Lovelace")
        }
        for (name, student), typed in zip(kernels.items(), ("adelie", "ADELIE", "Adele", "Adeli"), strict=True):
            student("%load_ext pipemagic")
            connected = student(lines[name])
            assert re.search("Recorded for the teacher:.* wrong answers", connected)
            student.run_all(tmp_path / "handout" / "lesson-1.ipynb")
            assert f"has species = '{typed}'" in student(WRONG.format(typed))
        assert "passed" in kernels["Ada Lovelace"](RIGHT["adelies"])
        for name, student in kernels.items():
            assert "passed, 2 of 2 points" in student(RIGHT["heavy"])
            student.save(
                tmp_path / "submissions" / f"{name.split(' (')[0]}_{IDS[name]}_assignsubmission_file" / "birds.ipynb"
            )

    code, out, err = run("class", "status")
    students, exercises, wrong = out.split("\n\n")
    assert [line.split("  ")[0] for line in students.splitlines()[1:]] == list(lines)
    assert [line.split() for line in exercises.splitlines()[1:]] == [
        ["adelies", "4", "1", "1.2", "0.4", "of", "1"], ["heavy", "4", "4", "1.0", "2", "of", "2"],
    ]  # fmt: skip
    assert "adelies   3         select name from bird where species = ?" in wrong
    assert not re.search("Anna|Ada|[Aa]dele", wrong)

    # A card is used once; the teacher prints another code, also for one of three students of a name.
    with kernel(tmp_path, tmp_path / "at home") as home:
        assert "the code was used before" in home(f"%load_ext pipemagic\n{lines[ANNAS[0]]}")
        code, out, _ = run("class", "code", "anna.m@example.edu")
        [line] = re.findall("%pipedb connect .*", out)
        assert "Connected to" in home(line)
    assert run("class", "code", "Anna Müller")[0] == 1

    # The folders of Moodle have neither the file nor the exercises, and the lines of cards are in the notebooks.
    grade = ["exercises", "grade", "submissions", "--source", str(source), "--roster", "roster.csv"]
    code, _, err = run(*grade)
    assert "no database is connected" in err
    assert "set PIPEMAGIC_URL to a database for grading" in err
    embedded.api.create_database("grading", "default")
    monkeypatch.setenv("PIPEMAGIC_URL", embedded.api.database("grading").url)
    monkeypatch.setenv("PIPEMAGIC_TOKEN", str(embedded.api.create_token("grading")))
    code, _, err = run(*grade, "--csv", "points.csv", "--format", "moodle", "--feedback", "feedback")
    assert code == 0, err
    with (tmp_path / "points.csv").open(encoding="utf-8-sig", newline="") as file:
        points = {row["id"]: float(row["Grade"]) for row in csv.DictReader(file)}
    assert points == {"101": 2.2, "102": 2.2, "103": 2.2, "104": 3, "105": 0}
    assert "The solutions were not run: all notebooks use the database of PIPEMAGIC_URL" in err
    assert "Nothing handed in, so 0 points: Noor Haddad." in err
    assert len(list((tmp_path / "feedback").iterdir())) == 5
    assert run(*grade[:2], "nothing.ipynb", *grade[3:])[0] != 0

    assert run("class", "close", "--confirm", "birds")[0] == 0
    assert model.names() == []
    assert not [name for name in embedded.names() if name.startswith("birds-")]
