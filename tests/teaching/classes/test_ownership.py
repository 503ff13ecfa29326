"""Databases that a class must not touch, and creations and resets that another command or a failure has disturbed."""

from __future__ import annotations

import time

import pytest
from classes import NAMES, STUDENTS, new_class
from scripted_server import Answer, as_json

from pipemagic import connect
from pipemagic.errors import BusyError, NotFound, ServerError, SessionError, UnsupportedError
from pipemagic.teaching.classes import creation, model, template
from pipemagic.teaching.classes.progress import PROGRESS_TABLE

VIRTUAL = "CREATE VIRTUAL TABLE words USING fts5(w); INSERT INTO words VALUES ('hello world');"


def rows(seat, query: str):
    with connect(seat.url, seat.token) as database:
        return database.execute(query).rows


def test_a_database_that_was_created_after_a_failed_creation_is_neither_used_nor_deleted(place):
    with pytest.raises(NotFound):
        creation.create(place.api, new_class(place.api, "nothere"))
    place.template()
    place.template("sql-ada", "CREATE TABLE mine(a); INSERT INTO mine VALUES (1);")
    made = model.load("sql") if model.names() else new_class(place.api)
    made.template = "lesson"
    with pytest.raises(SessionError, match="already exists and does not belong to the class sql"):
        creation.create(place.api, made)
    with place.open("sql-ada") as database:
        assert database.execute("SELECT a FROM mine").rows == [(1,)]


def test_a_refused_creation_does_not_count_as_attempted(hosted):
    hosted.template()
    hosted.hosted.refuse("POST .*/databases$", as_json({"error": "invalid size"}, 400))
    with pytest.raises(ServerError, match=r"Ada: .*invalid size"):
        creation.create(hosted.api, new_class(hosted.api))
    hosted.hosted.clear_refusals()
    assert not any(seat.attempted for seat in model.load("sql").seats)
    hosted.template("sql-ada", "CREATE TABLE mine(a);")
    assert creation.close(hosted.api, model.load("sql")) == []
    assert "sql-ada" in hosted.names()


def test_close_keeps_a_database_of_someone_else(place):
    place.template()
    made = new_class(place.api, students=STUDENTS[:2])
    creation.create(place.api, made)
    place.api.delete_database("sql-ada")
    made.seats[0].ready = False  # as if its creation had been killed
    place.template("sql-ada", "CREATE TABLE mine(a);")
    assert creation.close(place.api, made) == [made.seats[0]]
    assert place.names() == {"lesson", "sql-ada"}


def test_two_teachers_cannot_create_the_same_class(place, monkeypatch, tmp_path):
    place.template()
    first, second = new_class(place.api), new_class(place.api)
    creation.create(place.api, first)
    for seat in second.seats:
        seat.attempted = True  # both have listed the databases before any was created
    with pytest.raises(SessionError, match="does not belong to the class sql"):
        creation.create(place.api, second)
    assert [rows(seat, "SELECT count(*) FROM city") for seat in first.seats] == [[(2,)]] * len(NAMES)


def test_a_creation_with_virtual_tables_is_continued(embedded):
    embedded.template(content=VIRTUAL)
    made = new_class(embedded.api, students=STUDENTS[:2])
    made.seats[0].attempted = True  # killed between the creation and the progress table
    embedded.api.create_database(made.seats[0].database, "default", copy_of="lesson")
    creation.create(embedded.api, made)
    for seat in made.seats:
        seat.ready = False  # killed before the class was saved
    creation.create(embedded.api, made)
    for seat in made.seats:
        assert rows(seat, "SELECT w FROM words WHERE words MATCH 'hello'") == [("hello world",)]
        assert rows(seat, f"SELECT count(*) FROM {PROGRESS_TABLE}") == [(0,)]


def test_a_template_that_cannot_be_sent_changes_nothing(on_sqld):
    on_sqld.template()
    made = new_class(on_sqld.api, students=STUDENTS[:1])
    creation.create(on_sqld.api, made)
    with on_sqld.open("lesson") as database:
        database.execute("CREATE VIRTUAL TABLE words USING fts5(w)")
    with pytest.raises(UnsupportedError, match="virtual tables"):
        creation.reset(on_sqld.api, made, made.seats)
    assert rows(made.seats[0], "SELECT count(*) FROM city") == [(2,)]


def test_a_reset_that_ends_between_deletion_and_token_is_continued(embedded, monkeypatch):
    embedded.template(content=VIRTUAL)
    made = new_class(embedded.api, students=STUDENTS[:1])
    creation.create(embedded.api, made)
    with monkeypatch.context() as patch:
        patch.setattr(creation._Work, "token", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            creation.reset(embedded.api, made, made.seats)
    again = model.load("sql")
    assert again.seats[0].token == ""
    assert creation.create(embedded.api, again) == 1
    assert rows(again.seats[0], "SELECT count(*) FROM words") == [(1,)]


def test_an_interrupted_reset_marks_only_the_databases_that_it_has_begun(embedded, monkeypatch):
    embedded.template()
    made = new_class(embedded.api)
    creation.create(embedded.api, made)
    monkeypatch.setattr(creation, "WORKERS", 1)
    monkeypatch.setattr(creation._Work, "restore", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        creation.reset(embedded.api, made, made.seats)
    assert [seat.ready for seat in model.load("sql").seats] == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("place", "broken"),
    [
        ("embedded", "DROP TABLE {0}"), ("hosted", "ALTER TABLE {0} ADD COLUMN mine"),
        ("hosted", "DROP TABLE {0}; CREATE VIEW {0} AS SELECT 1 AS cells"),
        ("embedded", "DROP TABLE {0}; CREATE TABLE {0}(x)"),
    ],
    indirect=["place"],
)  # fmt: skip
def test_a_reset_repairs_the_progress_table(place, broken):
    place.template()
    made = new_class(place.api, students=STUDENTS[:1])
    creation.create(place.api, made)
    [seat] = made.seats
    with connect(seat.url, seat.token) as database:
        for statement in broken.format(PROGRESS_TABLE).split("; "):
            database.execute(statement)
    creation.reset(place.api, made, [seat])
    assert rows(seat, f"SELECT count(cells) FROM {PROGRESS_TABLE}") == [(0,)]
    assert rows(seat, "SELECT count(*) FROM city") == [(2,)]


def test_a_template_that_was_the_database_of_a_student(place):
    place.template()
    made = new_class(place.api, students=STUDENTS[:1])
    creation.create(place.api, made)
    with connect(made.seats[0].url, made.seats[0].token) as database:
        database.execute(f"INSERT INTO {PROGRESS_TABLE}(cells) VALUES (5)")
        database.execute(f"INSERT INTO street VALUES ('see {PROGRESS_TABLE}', 1)")
    second = new_class(place.api, made.seats[0].database, students=STUDENTS[1:3])
    second.name = "second"
    creation.create(place.api, second)
    creation.reset(place.api, second, second.seats)
    for seat in second.seats:
        assert rows(seat, f"SELECT count(*) FROM {PROGRESS_TABLE}") == [(0,)]
        assert rows(seat, "SELECT count(*) FROM street") == [(2,)]


def test_a_reset_names_the_databases_that_were_deleted(hosted):
    hosted.template()
    made = new_class(hosted.api, students=STUDENTS[:2])
    creation.create(hosted.api, made)
    hosted.api.delete_database(made.seats[1].database)
    with pytest.raises(SessionError, match="no database yet for Jörg Müller"):
        creation.reset(hosted.api, made, made.seats)


def test_a_large_reset_is_repeated_if_a_student_writes_between_its_parts(embedded, monkeypatch, waits):
    series = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)"
    embedded.template(content=f"CREATE TABLE city(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO city {series} "
                              "SELECT i, hex(zeroblob(100)) FROM n;")  # fmt: skip
    made = new_class(embedded.api, students=STUDENTS[:1])
    creation.create(embedded.api, made)
    [seat] = made.seats
    monkeypatch.setattr(template, "CHUNK", 10_000)
    real, parts = template._run, list[str]()

    def run(database, script: str) -> None:
        parts.append(script[:4])
        real(database, script)
        if len(parts) == 1:
            rows(seat, "INSERT INTO city VALUES (299, 'mine') RETURNING id")

    monkeypatch.setattr(template, "_run", run)
    creation.reset(embedded.api, made, [seat])
    assert parts.count("DROP") == 2
    assert rows(seat, "SELECT count(*), min(length(v)) FROM city") == [(300, 200)]


def test_tokens_of_an_interrupted_extension_are_replaced(embedded):
    embedded.template()
    made = new_class(embedded.api)
    creation.create(embedded.api, made)
    made.expires += 3600
    made.seats[0].expires = made.expires  # the command ended after this student
    assert creation.create(embedded.api, made) == len(NAMES) - 1
    assert {seat.expires for seat in made.seats} == {made.expires}


def test_a_strict_rate_limit_is_kept(hosted, monkeypatch):
    """With four requests in a second, the creation ends, and only some requests are refused."""
    hosted.template()
    real, accepted, early = hosted.hosted.answer, [], []

    def answer(call):
        now = time.monotonic()
        if not call.path.startswith("/v1"):
            return real(call)
        if sum(at > now - 1 for at in accepted) >= 4:
            early.append(now)
            return Answer(429, b'{"error": "too many requests"}', headers={"Retry-After": "1"})
        accepted.append(now)
        return real(call)

    monkeypatch.setattr(hosted.hosted, "answer", answer)
    creation.create(hosted.api, new_class(hosted.api))
    monkeypatch.undo()
    assert len(hosted.names()) == len(NAMES) + 1
    assert len(early) < 3 * len(accepted)


def test_a_wait_that_is_too_long_is_an_error_at_once(hosted, waits):
    hosted.template()
    hosted.hosted.refuse("POST .*/databases$", Answer(429, b"tomorrow", headers={"Retry-After": "86400"}))
    with pytest.raises(BusyError, match="tomorrow") as caught:
        creation.create(hosted.api, new_class(hosted.api))
    assert "try again in 86400 s" in caught.value.hint
    assert waits == []


def test_a_long_wait_is_announced(hosted, waits):
    hosted.template()
    hosted.hosted.refuse("POST .*/databases$", Answer(429, b"slow", headers={"Retry-After": "6"}), times=2)
    lines: list[str] = []
    creation.create(hosted.api, new_class(hosted.api, students=STUDENTS[:2]), notify=lines.append)
    assert lines[0] == "The service is busy. Trying again in 6 s."


def test_one_failure_of_the_server_is_no_failure_of_the_class(hosted):
    hosted.template()
    hosted.hosted.refuse("POST .*/databases$", as_json({"error": "internal"}, 500), times=1)
    assert creation.create(hosted.api, new_class(hosted.api, students=STUDENTS[:2])) == 2
