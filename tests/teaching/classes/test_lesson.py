"""A lesson of 200 students, three of one name: what the teacher sees, compared with a count of what was written."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import defaultdict
from statistics import fmean

import pytest
from magic_shell import ipython, plain_shell, shell
from waiting import until

from pipemagic import cli, connect
from pipemagic.teaching.classes import model
from pipemagic.teaching.classes.answers import pattern
from pipemagic.teaching.exercises import results

__all__ = ["ipython", "plain_shell", "shell"]

STUDENTS, SHELLS = 200, 9
BIRDS = (
    "CREATE TABLE bird(name TEXT, mass_g INTEGER); INSERT INTO bird VALUES ('Ada', 3750), ('Bo', 5050), ('Cleo', NULL);"
)
EXERCISES = {"heavy": 2.0, "mean": 4.0}
DEFINED = {
    "heavy": "SELECT name FROM bird WHERE mass_g > 5000",
    "mean": "SELECT avg(mass_g) AS mean FROM bird WHERE mass_g IS NOT NULL AND 1 = 1",
}
WRONG = ["SELECT NAME FROM bird where mass_g > {} -- mine", "SELECT nme FROM bird WHERE mass_g > {}"]

FIRST, SECOND = (pattern(answer.format(0)) for answer in WRONG)
OTHERS = [FIRST, FIRST, "select a", "select b", "select c"]


@pytest.fixture
def lesson(shell, embedded, tmp_path, monkeypatch):  # the shell comes first: it has an environment of its own
    monkeypatch.chdir(tmp_path)
    embedded.template("birds", BIRDS)
    names = ["Anna Müller"] * 3 + [f"Student {number:03}" for number in range(3, STUDENTS)]
    lines = [f"{name},s{number}@x.org" for number, name in enumerate(names)]
    (tmp_path / "class.csv").write_text("\n".join(["name,email", *lines]), encoding="utf-8")
    command = "class create class.csv --group default --from birds --name sql --record"
    assert cli.main(command.split()) == 0
    return model.load("sql")


def status(capsys, *options):
    capsys.readouterr()
    assert cli.main(["class", "status", *options]) == 0
    return capsys.readouterr().out


def recorded(seat, count):
    """Return the points of the checks of a student, once that many are recorded."""
    query = "SELECT points FROM pipemagic_progress WHERE exercise <> '' ORDER BY id"
    with connect(seat.url, seat.token) as database:
        return until(lambda: len(rows := [points for (points,) in database.execute(query).rows]) == count and rows)


def test_the_status_of_a_lesson(lesson, shell, capsys, monkeypatch):
    results.clear()
    seats, chance = lesson.seats, random.Random(49)
    with connect(seats[-1].url, seats[-1].token) as database:
        assert database.execute("SELECT count(*) FROM bird").rows == [(3,)]
    checks = defaultdict(list)  # of (student, exercise): points

    def passes(student, exercise):
        return EXERCISES[exercise] in checks[student, exercise]

    # some students in notebooks
    for number, seat in enumerate(seats[:SHELLS]):
        monkeypatch.setenv("DB_TOKEN", seat.token)
        said = shell(f"%pipedb connect {seat.url} --as s{number} --token-env DB_TOKEN").out
        assert "and wrong answers to exercises without their literals (tables pipemagic_progress and" in said
        if not number:
            for name, reference in DEFINED.items():
                shell(f"%%exercise {name}\n-- task: ?\n-- points: {EXERCISES[name]:g}\n{reference}")
        answers = [WRONG[0].format(100 + number)] * (1 + number % 3)
        answers += [DEFINED["heavy"]] * (2 if number == 8 else 0)
        for answer in answers:
            shell(f"%%check heavy\n{answer}")
            checks[number, "heavy"].append(None)

    for number, seat in enumerate(seats[:SHELLS]):
        checks[number, "heavy"] = recorded(seat, len(checks[number, "heavy"]))
    assert [passes(number, "heavy") for number in range(SHELLS)] == [False] * 8 + [True]

    # the others write what their notebooks write
    for number, seat in enumerate(seats[SHELLS:180], SHELLS):
        rows, answers = [], []
        for exercise, of in EXERCISES.items():
            for _ in range(chance.randrange(4)):
                points = chance.choice([0.0, of / 4, of / 2, of])
                checks[number, exercise].append(points)
                rows.append((len(rows) + 1, exercise, points, of))
                if points < of:
                    answers.append((len(rows), chance.choice(OTHERS), "wrong"))
        with connect(seat.url, seat.token) as database:
            for row in rows:
                database.execute("INSERT INTO pipemagic_progress(id, exercise, points, of) VALUES (?, ?, ?, ?)", row)
            for row in answers:
                database.execute("INSERT INTO pipemagic_answers VALUES (?, ?, ?)", row)
            if number == SHELLS:
                database.execute("DROP TABLE pipemagic_answers")

    read = json.loads(status(capsys, "--json"))
    assert [row["student"] for row in read["students"][:4]] == [
        "Anna Müller (s0@x.org)", "Anna Müller (s1@x.org)", "Anna Müller (s2@x.org)", "Student 003",
    ]  # fmt: skip
    assert not any(row["problem"] or "answers" in row for row in read["students"])
    assert [row["exercise"] for row in read["exercises"]] == ["heavy", "mean"]
    for row in read["exercises"]:
        name, of = row["exercise"], EXERCISES[row["exercise"]]
        tried = [number for number in range(STUDENTS) if checks[number, name]]
        attempts = [
            checks[number, name].index(of) + 1 if passes(number, name) else len(checks[number, name])
            for number in tried
        ]  # fmt: skip
        assert (row["tried"], row["passed"], row["of"]) == (len(tried), sum(passes(n, name) for n in tried), of)
        assert row["attempts"] == pytest.approx(fmean(attempts))
        assert row["points"] == pytest.approx(fmean(max(checks[number, name]) for number in tried))
    assert_wrong_answers(lesson, read["exercises"], passes)
    text = status(capsys)
    assert "Anna Müller (s1@x.org)" in text
    assert "100" not in text.partition("WRONG ANSWER")[2]  # a literal of a student
    assert "heavy     " in text
    assert FIRST in text


def test_answers_of_the_shells_and_their_reason(lesson, shell, capsys, monkeypatch):
    results.clear()
    for number, seat in enumerate(lesson.seats[:4]):
        monkeypatch.setenv("DB_TOKEN", seat.token)
        shell(f"%pipedb connect {seat.url} --as s{number} --token-env DB_TOKEN")
        if not number:
            shell(f"%%exercise heavy\n-- task: ?\n-- points: 2\n{DEFINED['heavy']}")
        shell(f"%%check heavy\n{WRONG[0].format(number)}")  # an earlier answer
        shell(f"%%check heavy\n{WRONG[1].format(number)}")

    def once_recorded():
        [heavy] = json.loads(status(capsys, "--json"))["exercises"]
        return heavy["attempts"] == 2 and heavy

    heavy = until(once_recorded)
    assert 0 < heavy["points"] < heavy["of"] == 2
    assert (heavy["tried"], heavy["passed"]) == (4, 0)
    assert heavy["wrong"] == [{"sql": SECOND, "students": 4, "reason": "no such column: nme"}]


def assert_wrong_answers(lesson, exercises, passes):
    """Compare the shown answers with a count of the last ones in all databases."""
    for row in exercises:
        own = sqlite3.connect(":memory:")
        own.execute("CREATE TABLE last(answer)")
        for number, seat in enumerate(lesson.seats):
            if number == SHELLS or passes(number, row["exercise"]):
                continue
            with connect(seat.url, seat.token) as database:
                found = database.execute(
                    "SELECT answer FROM pipemagic_answers JOIN pipemagic_progress USING (id) WHERE exercise = ? "
                    "ORDER BY id DESC LIMIT 1", [row["exercise"]],
                ).rows  # fmt: skip
            own.executemany("INSERT INTO last VALUES (?)", found)
        counted = own.execute(
            "SELECT answer, count(*) AS n FROM last GROUP BY answer HAVING n >= 3 ORDER BY n DESC, answer LIMIT 3"
        ).fetchall()
        own.close()
        assert counted
        assert [(wrong["sql"], wrong["students"]) for wrong in row["wrong"]] == counted
