"""``pipemagic class status``: its text and JSON, and students who write anything into their tables."""

from __future__ import annotations

import json
import time
from functools import partial

import pytest

from pipemagic import connect
from pipemagic.client.database import Database
from pipemagic.teaching.classes import creation, model, status
from pipemagic.teaching.classes.model import Class
from pipemagic.teaching.classes.roster import Student
from pipemagic.teaching.classes.status import Progress, Tries, exercises_of, summary, table_of

LONG = "Maximiliane " + "von und zu " * 8
ROW = "INSERT INTO pipemagic_progress(id, cells, errors, error, exercise, points, of) VALUES "


@pytest.fixture
def made(embedded):
    """A class of three students on the embedded service, whose commands use it."""
    made = Class("sql", embedded.api.url, embedded.api.slug, "default", expires=time.time() + 3600)
    students = [Student(str(number), name) for number, name in enumerate(["Ada", "Jörg Müller", LONG])]
    creation.add_students(made, students, embedded.api.slug)
    creation.create(embedded.api, made)
    return made


@pytest.fixture
def run(command):
    return partial(command, "class", "status")


def write(seat, *statements):
    """Run statements with the token of a student."""
    with connect(seat.url, seat.token) as database:
        for statement in statements:
            database.execute(statement)


def test_the_text(made, run):
    error = "no such column: " + "x" * 100
    write(made.seats[0], f"{ROW} (1, 3, 1, '{error}', 'one', 2, 2)")
    write(made.seats[2], f"{ROW} (1, 1, 1, 'a\x1b[31m', NULL, NULL, NULL)")
    code, out, err = run("sql")
    first, _, last = [
        time.strftime("%H:%M", time.localtime(row["connected"])) for row in json.loads(run("--json")[1])["students"]
    ]
    assert (code, out.splitlines()) == (0, [
        "STUDENT                                   CONNECTED  LAST ACTIVITY  CELLS  ERRORS  PASSED  LAST ERROR",
        f"Ada                                       {first}      now            3      1       1 of 1  {error[:59]}…",
        "Jörg Müller                                                         0      0       0 of 1",
        f"{LONG[:39]}…  {last}      now            1      1       0 of 1  a\\u001b[31m",
        "",
        "EXERCISE  TRIED  PASSED  ATTEMPTS  POINTS",
        "one       1      1       1.0       2 of 2",
    ])  # fmt: skip
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(made.expires))
    assert err == f"sql: 2 of 3 connected, 1 passed the exercise, 2 with errors. The lesson ends at {end}.\n"


def test_the_json_is_not_shortened(made, run):
    error = "no such column: " + "x" * 100
    write(made.seats[2], f"{ROW} (1, 1, 1, '{error}', 'one', 9e999, 2)")
    code, out, _ = run("--json")
    read = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    rows = read["students"]
    assert (read["class"], read["expires"]) == ("sql", made.expires)
    assert (code, [row["student"] for row in rows]) == (0, ["Ada", "Jörg Müller", LONG])
    assert (rows[2]["error"], rows[2]["exercises"]) == (error, {"one": {"points": 1e6, "of": 2.0, "attempts": 1}})


def test_a_seat_without_a_database(made, run):
    made.seats[1] = model.Seat("later", "Zoë", "sql-zoe")
    made.save()
    code, out, err = run()
    assert code == 0
    assert out.splitlines()[2].split() == ["Zoë", "not", "created", "yet"]
    assert "1 database not readable" in err


def test_a_table_that_is_slow_to_read_does_not_prevent_that_others_are_read(made, run, monkeypatch):
    real, slow = Database.sibling, made.seats[0].url

    def sibling(database, *, timeout):
        assert timeout == status.TIMEOUT
        return real(database, timeout=1.0 if database.url == slow else 60.0)  # a busy machine needs time for the others

    monkeypatch.setattr(Database, "sibling", sibling)
    write(
        made.seats[0],
        "WITH RECURSIVE ids(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM ids WHERE n < 1000)"
        " INSERT INTO pipemagic_progress(id, exercise) SELECT n, 'one' FROM ids",
        "ALTER TABLE pipemagic_progress DROP COLUMN of",
        "ALTER TABLE pipemagic_progress ADD COLUMN of AS (length(hex(zeroblob(8000000 + id))))",
    )
    made.seats[1].expires = 0  # it is read with the teacher's token
    made.save()
    rows = json.loads(run("--json")[1])["students"]
    assert "did not respond in time" in rows[0]["problem"]
    assert [row["problem"] for row in rows[1:]] == ["", ""]


def students(*exercises):
    """Return the progress of students who have passed these exercises."""
    passed = Tries(1, 1, 1)
    return [Progress(str(number), "", exercises=dict.fromkeys(names, passed)) for number, names in enumerate(exercises)]


def test_exercises_that_one_student_invented_do_not_count():
    rows = students(["one", "two"], ["one"], ["one", *map(str, range(200))], [])
    assert exercises_of(rows) == {"one"}
    assert summary(rows) == "0 of 4 connected, 3 passed the exercise, 0 with errors"
    assert [texts[5] for texts in table_of(rows, 0)] == ["1 of 1", "1 of 1", "1 of 1", "0 of 1"]


def test_the_first_two_students_with_checks():
    rows = students(["one"], ["one", "two"], [], [])
    assert exercises_of(rows) == {"one", "two"}
    assert [texts[5] for texts in table_of(rows, 0)] == ["1 of 2", "2 of 2", "0 of 2", "0 of 2"]
