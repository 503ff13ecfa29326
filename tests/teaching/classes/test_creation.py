"""Databases of a class on every service: created, continued after failures, reset and deleted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from classes import NAMES, STUDENTS, new_class
from scripted_server import Answer, as_json

import pipemagic
from pipemagic import cli, connect
from pipemagic.errors import (
    AuthError,
    BusyError,
    InterruptedRequest,
    NotFound,
    ServerError,
    SessionError,
    StatementError,
    UnsupportedError,
)
from pipemagic.teaching.classes import creation, model, template
from pipemagic.teaching.classes.progress import ANSWERS_TABLE, PROGRESS_TABLE
from pipemagic.teaching.classes.roster import Student

ROOT = str(Path(pipemagic.__file__).parents[1])
SCHEMA = f"SELECT type, name, tbl_name, sql FROM sqlite_master WHERE tbl_name <> '{PROGRESS_TABLE}' ORDER BY type, name"
ON_EVERY_SERVICE = pytest.mark.parametrize("place", ["embedded", "hosted", "on_sqld"], indirect=True)
CITIES = "SELECT id, name, share, typeof(share), photo FROM city ORDER BY id"


def content(database) -> list[object]:
    return [
        list(database.execute(sql).rows) for sql in (SCHEMA, CITIES, "SELECT * FROM street", "SELECT * FROM streets")
    ]


@ON_EVERY_SERVICE
def test_every_student_gets_a_copy_of_the_template(place):
    place.template()
    made = new_class(place.api)
    assert creation.create(place.api, made) == len(NAMES)
    with place.open("lesson") as original:
        wanted = content(original)
    for seat in model.load("sql").seats:
        with connect(seat.url, seat.token) as database:
            assert content(database) == wanted
            assert database.execute(f"SELECT count(*) FROM {PROGRESS_TABLE}").rows == [(0,)]
            inserted = "INSERT INTO city(name) VALUES ('Bonn') RETURNING id"
            assert database.execute(inserted).rows == [(4,)]  # the counter of AUTOINCREMENT
            database.execute("INSERT INTO street VALUES ('Rheinweg', 1)")
            assert database.execute("SELECT share FROM city WHERE id = 1").rows == [(1.1,)]  # the trigger


def test_a_token_opens_one_database_only(place):
    place.template()
    made = new_class(place.api, students=STUDENTS[:2])
    creation.create(place.api, made)
    one, other = made.seats
    if place.hosted is None:  # there, the token names the database
        with connect(other.url, one.token) as database, pytest.raises((AuthError, NotFound)):
            database.execute("SELECT 1")


def test_without_a_template_the_databases_are_empty(place):
    made = new_class(place.api, "", students=STUDENTS[:1])
    creation.create(place.api, made)
    [seat] = made.seats
    with connect(seat.url, seat.token) as database:
        assert database.execute(SCHEMA).rows == []


def test_create_again_changes_nothing(place):
    place.template()
    made = new_class(place.api, students=STUDENTS[:3])
    creation.create(place.api, made)
    before = model.load("sql")
    with connect(made.seats[0].url, made.seats[0].token) as database:
        database.execute("DELETE FROM street")
        assert creation.create(place.api, model.load("sql")) == 0
        assert model.load("sql") == before
        assert database.execute("SELECT count(*) FROM street").rows == [(0,)]


def test_a_student_who_comes_late_gets_a_database_until_the_same_end(place):
    place.template()
    made = new_class(place.api, students=STUDENTS[:2], hours=0.5)
    creation.create(place.api, made)
    before = [(seat.token, seat.url) for seat in made.seats]
    [late] = creation.add_students(made, [*STUDENTS[:2], Student("zoe", "Zoë")], place.api.slug)
    assert creation.create(place.api, made) == 1
    assert [(seat.token, seat.url) for seat in made.seats[:2]] == before
    assert late.expires == made.expires
    assert late.database == "sql-zoe"
    with connect(late.url, late.token) as database:
        assert database.execute("SELECT count(*) FROM city").rows == [(2,)]


def test_the_next_lesson_has_new_tokens_and_the_same_databases(place):
    place.template()
    made = new_class(place.api, students=STUDENTS[:2], hours=-1)
    made.expires = time.time() + 1
    creation.create(place.api, made)
    old = [seat.token for seat in made.seats]
    with connect(made.seats[0].url, made.seats[0].token) as database:
        database.execute("DELETE FROM street")
    for seat in made.seats:
        seat.expires = 1.0  # as if a week had passed
    made.expires = time.time() + 3600
    assert creation.create(place.api, made) == 2
    assert not set(old) & {seat.token for seat in made.seats}
    with connect(made.seats[0].url, made.seats[0].token) as database:
        assert database.execute("SELECT count(*) FROM street").rows == [(0,)]


@ON_EVERY_SERVICE
def test_a_reset_keeps_token_address_and_progress(place):
    place.template()
    made = new_class(place.api, students=STUDENTS[:2])
    creation.create(place.api, made)
    one, other = made.seats
    with place.open("lesson") as original, connect(one.url, one.token) as database:
        wanted = content(original)
        for statement in ("DROP TABLE street", "DELETE FROM city", "CREATE TABLE mine(a)", "DROP VIEW streets"):
            database.execute(statement)
        database.execute("CREATE VIEW v AS SELECT 1")
        database.execute(f"INSERT INTO {PROGRESS_TABLE} DEFAULT VALUES")
        with connect(other.url, other.token) as untouched:
            untouched.execute("DELETE FROM street")
            assert creation.reset(place.api, made, [one]) == []
            assert untouched.execute("SELECT count(*) FROM street").rows == [(0,)]
        assert content(database) == wanted  # with the same token
        assert database.execute(f"SELECT count(*) FROM {PROGRESS_TABLE}").rows == [(1,)]


@ON_EVERY_SERVICE
def test_only_a_class_that_records_them_has_a_table_for_wrong_answers(place):
    place.template()
    made, answers = new_class(place.api, students=STUDENTS[:1]), f"SELECT * FROM {ANSWERS_TABLE}"
    made.record = True
    creation.create(place.api, made)
    with connect(made.seats[0].url, made.seats[0].token) as database:
        database.execute(f"INSERT INTO {ANSWERS_TABLE} VALUES (1, 'select ?', 'why')")
        creation.reset(place.api, made, made.seats)
        assert len(database.execute(answers).rows) == 1
        database.execute(f"DROP TABLE {ANSWERS_TABLE}")
        database.execute(f"CREATE VIEW {ANSWERS_TABLE} AS SELECT 1")
        creation.reset(place.api, made, made.seats)
        assert database.execute(answers).rows == []
        database.execute(f"INSERT INTO {ANSWERS_TABLE} VALUES (1, 'select ?', 'why')")
    second = new_class(place.api, made.seats[0].database, students=STUDENTS[1:2])  # a copy of a student's database
    second.name = "second"
    creation.create(place.api, second)
    with connect(second.seats[0].url, second.seats[0].token) as database:
        assert place.names() >= {"sql-ada", second.seats[0].database}
        with pytest.raises(StatementError, match=f"no such table: {ANSWERS_TABLE}"):
            database.execute(answers)
    assert creation.close(place.api, model.load("sql")) == []
    assert "sql-ada" not in place.names()


def test_a_reset_waits_for_the_transaction_of_the_student(embedded):
    embedded.template()
    made = new_class(embedded.api, students=STUDENTS[:1])
    creation.create(embedded.api, made)
    [seat] = made.seats
    with connect(seat.url, seat.token) as database:
        with database.transaction() as inside:
            inside.execute("DELETE FROM street")
            thread = threading.Thread(target=creation.reset, args=(embedded.api, made, [seat]))
            thread.start()
            inside.execute("INSERT INTO city(name) VALUES ('Bonn')")
        thread.join()
        assert database.execute("SELECT count(*) FROM street").rows == [(1,)]
        assert database.execute("SELECT count(*) FROM city").rows == [(2,)]


@ON_EVERY_SERVICE
def test_a_large_template_is_sent_in_parts(place, monkeypatch):
    monkeypatch.setattr(template, "CHUNK", 10_000)
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i, hex(zeroblob(100))"
    place.template(content=f"CREATE TABLE city(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO city {rows} FROM n;")
    made = new_class(place.api, students=STUDENTS[:1])
    creation.create(place.api, made)
    creation.reset(place.api, made, made.seats)
    [seat] = made.seats
    with connect(seat.url, seat.token) as database:
        assert database.execute("SELECT count(*), sum(id), sum(length(v)) FROM city").rows == [(300, 45150, 60000)]


def test_virtual_tables_are_copied_where_the_service_copies_files(embedded):
    embedded.template(content="CREATE VIRTUAL TABLE words USING fts5(w); INSERT INTO words VALUES ('hello world');")
    made = new_class(embedded.api, students=STUDENTS[:1])
    creation.create(embedded.api, made)
    [seat] = made.seats
    old = seat.token
    assert creation.reset(embedded.api, made, [seat]) == [seat]  # by a new database, with a new token
    assert seat.token != old
    with connect(seat.url, seat.token) as database:
        assert database.execute("SELECT w FROM words WHERE words MATCH 'hello'").rows == [("hello world",)]


def test_a_database_that_was_deleted_by_hand_is_created_again(place):
    place.template()
    made = new_class(place.api, students=STUDENTS[:2])
    creation.create(place.api, made)
    place.api.delete_database(made.seats[1].database)
    assert creation.create(place.api, made) == 1
    with connect(made.seats[1].url, made.seats[1].token) as database:
        assert database.execute("SELECT count(*) FROM city").rows == [(2,)]


def test_an_existing_database_of_the_same_name_is_never_used(place):
    place.template()
    place.api.create_database("sql-ada", "default")
    made = new_class(place.api)
    with pytest.raises(SessionError, match="database sql-ada already exists and does not belong to the class sql"):
        creation.create(place.api, made)
    assert place.names() == {"lesson", "sql-ada"}  # nothing was created
    assert model.names() == []


def test_close_deletes_the_databases_of_the_class_only(place):
    place.template()
    made = new_class(place.api)
    creation.create(place.api, made)
    assert len(place.names()) == len(NAMES) + 1
    place.api.delete_database(made.seats[0].database)
    creation.close(place.api, made)
    assert place.names() == {"lesson"}
    assert model.names() == []


# -- interrupts and failures


STOPPED = """
import itertools, os, signal, sys, threading
from pipemagic import cli
from pipemagic.teaching.classes import creation

signal_number, at, *arguments = sys.argv[1:]
calls, create = itertools.count(1), creation._Work.create

def stopped(work, seat):
    if next(calls) == int(at):
        signal.pthread_kill(threading.main_thread().ident, int(signal_number))
    create(work, seat)

creation._Work.create = stopped
sys.exit(cli.main(arguments))
"""
"""A command that gets a signal when it begins a database; arguments: the signal, the number of the database."""


@pytest.mark.parametrize(
    ("place", "end", "at"),
    [("embedded", "Ctrl-C", 3), ("embedded", "kill -9", 11), ("hosted", "Ctrl-C", 11), ("hosted", "kill -9", 3)],
    indirect=["place"],
)
def test_a_class_whose_creation_was_interrupted_is_continued(place, tmp_path, monkeypatch, capsys, end, at):
    monkeypatch.setenv("PIPEMAGIC_API_URL", place.api.url)
    monkeypatch.setenv("PIPEMAGIC_API_TOKEN", place.token)
    place.template()
    roster = tmp_path / "sql.csv"
    roster.write_text("name\n" + "".join(f"student {number}\n" for number in range(20)))
    command = [
        "class", "create", str(roster), "--group", "default", "--from", "lesson", "--org", place.api.slug,
        "--output", str(tmp_path),
    ]  # fmt: skip
    number = signal.SIGINT if end == "Ctrl-C" else signal.SIGKILL
    stopped = subprocess.run(
        [sys.executable, "-c", STOPPED, str(int(number)), str(at), *command],
        env={**os.environ, "PYTHONPATH": ROOT}, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    seats = model.load("sql").seats
    begun, earlier = (8, 0) if at <= 8 else (16, 8)  # the class is saved before and after each group of 8 students
    assert [seat.attempted for seat in seats] == [True] * begun + [False] * (20 - begun)
    done = sum(bool(seat.token) for seat in seats)
    if end == "Ctrl-C":  # a request that has begun is finished, none begins
        assert stopped.returncode == 130
        said = re.match(
            r"Error: interrupted: (\d+) of 20 students done\nHint: run `pipemagic class create` again", stopped.stderr
        )
        assert said, stopped.stderr
        assert earlier <= int(said[1]) <= done <= begun  # a student may be done after the message, not before it
    else:
        assert stopped.returncode == -signal.SIGKILL
        assert done == earlier
    assert cli.main(command) == 0
    assert capsys.readouterr().out.startswith("sql: 20 students, tokens until ")
    assert place.names() == {"lesson", *(f"sql-student-{number}" for number in range(20))}
    with place.open("lesson") as original:
        wanted = content(original)
    for seat in model.load("sql").seats:
        with connect(seat.url, seat.token) as database:
            assert content(database) == wanted


def test_an_interrupt_finishes_the_databases_that_were_begun(hosted, monkeypatch):
    hosted.template()
    made = new_class(hosted.api, students=[Student(str(number), f"student {number}") for number in range(20)])
    monkeypatch.setattr(creation, "WORKERS", 4)

    def interrupted(done: int, of: int) -> None:
        assert of == 20
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRequest, match="interrupted: 8 of 20 students done"):
        creation.create(hosted.api, made, progress=interrupted)
    assert [seat.ready for seat in model.load("sql").seats] == [True] * 8 + [False] * 12
    assert creation.create(hosted.api, model.load("sql")) == 12


def _interrupt(done: int, of: int) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_reset_is_continued(embedded, monkeypatch):
    embedded.template()
    made = new_class(embedded.api)
    creation.create(embedded.api, made)
    for seat in made.seats:
        with connect(seat.url, seat.token) as database:
            database.execute("DELETE FROM street")
    monkeypatch.setattr(creation, "WORKERS", 2)
    with pytest.raises(InterruptedRequest, match="interrupted: 2 of 5 students done") as caught:
        creation.reset(embedded.api, made, made.seats, _interrupt)
    assert caught.value.hint == "run `pipemagic class reset` again to continue"
    again = model.load("sql")
    creation.reset(embedded.api, again, again.seats)
    for seat in again.seats:
        with connect(seat.url, seat.token) as database:
            assert database.execute("SELECT count(*) FROM street").rows == [(1,)]


def test_an_interrupted_close_is_continued(embedded, monkeypatch):
    embedded.template()
    made = new_class(embedded.api)
    creation.create(embedded.api, made)
    monkeypatch.setattr(creation, "WORKERS", 2)
    with pytest.raises(InterruptedRequest, match="interrupted: 2 of 5 students done"):
        creation.close(embedded.api, made, _interrupt)
    assert len(embedded.names()) == 4
    creation.close(embedded.api, model.load("sql"))
    assert embedded.names() == {"lesson"}
    assert model.names() == []


def test_a_student_without_a_database_cannot_be_reset(embedded):
    made = new_class(embedded.api, students=STUDENTS[:1])
    with pytest.raises(SessionError, match="no database yet for Ada"):
        creation.reset(embedded.api, made, made.seats)


def test_an_interrupt_while_the_service_is_busy_ends_the_wait(hosted, monkeypatch):
    hosted.template()
    hosted.hosted.refuse("POST .*/databases$", Answer(429, b"slow down", headers={"Retry-After": "3600"}))
    made = new_class(hosted.api)
    real = creation.ThreadPoolExecutor.map

    def pressed(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(creation.ThreadPoolExecutor, "map", pressed)
    with pytest.raises(InterruptedRequest, match="interrupted: 0 of 5 students done") as caught:
        creation.create(hosted.api, made)
    assert caught.value.hint == "run `pipemagic class create` again to continue"


def test_a_rate_limit_is_waited_for(hosted, waits):
    hosted.template()
    busy = Answer(429, b'{"error": "too many requests"}', headers={"Retry-After": "7"})
    hosted.hosted.refuse("POST .*/databases$", busy, times=3)
    creation.create(hosted.api, new_class(hosted.api))
    assert 6 < max(waits) <= 7
    assert len(hosted.names()) == len(NAMES) + 1


def test_a_service_that_stays_busy_is_an_error_that_names_the_student(hosted, monkeypatch):
    hosted.template()
    monkeypatch.setattr(creation, "PATIENCE", 2.0)
    hosted.hosted.refuse("POST .*sql-ada.*", Answer(429, b"slow down", headers={"Retry-After": "0"}))
    monkeypatch.setattr("pipemagic.client.transport.BUSY_PAUSES", ())
    with pytest.raises(BusyError, match="Ada: the server is busy") as caught:
        creation.create(hosted.api, new_class(hosted.api))
    assert "run `pipemagic class create` again to continue" in caught.value.hint
    hosted.hosted.clear_refusals()
    assert creation.create(hosted.api, model.load("sql")) == 1  # the others of the same group are ready


def test_a_quota_ends_the_creation_with_the_message_of_the_service(hosted):
    hosted.template()
    full = as_json({"error": "databases quota exceeded", "code": "quota"}, 403)
    hosted.hosted.refuse("POST .*/databases$", full)
    with pytest.raises(ServerError, match="databases quota exceeded"):
        creation.create(hosted.api, new_class(hosted.api))


def test_a_new_hosted_database_that_is_not_found_at_first(hosted, monkeypatch):
    hosted.template()
    monkeypatch.setattr(creation, "PAUSES", (0.01,) * 5)
    hosted.hosted.shapes.pending = 2
    assert creation.create(hosted.api, new_class(hosted.api)) == len(NAMES)


def test_a_management_api_without_tokens_is_an_error(hosted):
    shapes = hosted.hosted.shapes
    shapes.seed_only = True  # the five required endpoints create no tokens
    with pytest.raises(UnsupportedError, match="Ada: this management API does not offer tokens"):
        creation.create(hosted.api, new_class(hosted.api, "", students=STUDENTS[:1]))
    shapes.seed_only = False
