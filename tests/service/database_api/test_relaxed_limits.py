"""Relaxed limits: a stream and a transaction end when another request waits for what they hold, or after an hour."""

from __future__ import annotations

import socket
import sys
import threading
from contextlib import contextmanager

import pytest
from asgi_calls import call
from service_calls import CLOSE, caller_of, execute, new_service
from waiting import until

from pipemagic.service.database_api import statements
from pipemagic.service.limits import MB, LimitMode, Limits
from pipemagic.service.sqlite import readers

HOUR = 3600
RELAXED = {"mode": LimitMode.RELAXED}
WRITE = execute("INSERT INTO t VALUES (2)")


@pytest.fixture
def limits():
    return Limits(**RELAXED)


@pytest.fixture
def table(db):
    db.run("CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
    return db


@pytest.fixture
def pass_time(service, clock):
    """Let time pass, with a sweep in each second, as the service does it."""

    def advance(seconds):
        for _ in range(seconds):
            clock.advance(1)
            service.engine.sweep()

    return advance


@contextmanager
def writing(service, table):
    """Write in a thread, which waits for the write lock; give the list of its codes, which are complete at the end."""
    codes = []
    thread = threading.Thread(target=lambda: codes.extend(table.post(WRITE, CLOSE).codes))
    thread.start()
    (database,) = service.engine.databases.in_use()
    until(database.write_lock.waiters)
    yield codes
    thread.join(30)
    assert not thread.is_alive()


def test_a_transaction_lasts_longer_than_its_limit_if_nothing_waits(table, pass_time):
    baton = table.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (2)")).baton
    pass_time(8)
    baton = table.post(execute("INSERT INTO t VALUES (3)"), baton=baton).baton
    pass_time(8)
    assert table.post(execute("COMMIT"), CLOSE, baton=baton).codes == ["ok", "ok"]
    assert table.run("SELECT count(*) FROM t").rows() == [["3"]]


def test_a_waiting_writer_ends_a_transaction_that_had_its_time(service, table, pass_time):
    baton = table.post(execute("BEGIN IMMEDIATE"), WRITE).baton
    pass_time(8)
    with writing(service, table) as codes:
        pass_time(1)
    assert codes == ["ok", "ok"]
    late = table.post(execute("COMMIT"), baton=baton)
    assert late.codes == ["TRANSACTION_TIMEOUT"]
    assert late.error()["message"] == (
        "Transaction timed out: it was open for more than 5 s, and another connection waited for it"
    )
    assert table.run("SELECT count(*) FROM t").rows() == [["2"]]


def test_a_writer_has_the_lock_for_five_seconds_before_another_one_ends_its_transaction(service, table, pass_time):
    """As on sqld: the time counts from the first write, and not from BEGIN."""
    baton = table.post(execute("BEGIN")).baton
    pass_time(30)
    baton = table.post(WRITE, baton=baton).baton
    pass_time(1)
    with writing(service, table) as codes:
        pass_time(3)
        assert table.post(execute("COMMIT"), CLOSE, baton=baton).codes == ["ok", "ok"]
    assert codes == ["ok", "ok"]


def test_a_waiting_writer_gets_the_lock_when_the_time_is_over(service, table, pass_time):
    baton = table.post(execute("BEGIN IMMEDIATE")).baton
    pass_time(2)
    with writing(service, table) as codes:
        pass_time(3)
    assert codes == ["ok", "ok"]
    assert table.post(execute("COMMIT"), baton=baton).codes == ["TRANSACTION_TIMEOUT"]


def test_a_commit_that_arrives_while_a_writer_waits_is_made(service, table, clock):
    baton = table.post(execute("BEGIN IMMEDIATE"), WRITE).baton
    clock.advance(8)
    with writing(service, table) as codes:  # and the sweeper has not run since
        assert table.post(execute("COMMIT"), CLOSE, baton=baton).codes == ["ok", "ok"]
    assert codes == ["ok", "ok"]


def test_a_writer_that_gave_up_does_not_end_a_transaction(service, table, pass_time, monkeypatch):
    monkeypatch.setattr(statements, "WRITER_WAIT", 2.0)
    baton = table.post(execute("BEGIN IMMEDIATE")).baton
    with writing(service, table) as codes:
        pass_time(2)
    assert codes == ["SQLITE_BUSY", "ok"]
    pass_time(30)
    assert table.post(execute("COMMIT"), CLOSE, baton=baton).codes == ["ok", "ok"]


def test_a_running_statement_of_a_transaction_that_another_waits_for_is_stopped(service, table, clock):
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
    baton, answers = table.post(execute("BEGIN IMMEDIATE")).baton, []
    thread = threading.Thread(target=lambda: answers.append(table.post(execute(endless), baton=baton)))
    thread.start()
    (stream,) = service.engine.streams._streams.values()
    until(lambda: stream.running)
    clock.advance(8)
    service.engine.sweep()
    assert not stream.connection.stopped
    with writing(service, table) as codes:
        service.engine.sweep()
    thread.join(30)
    assert (codes, answers[0].codes) == (["ok", "ok"], ["TRANSACTION_TIMEOUT"])


def test_a_reader_of_the_log_that_others_must_shorten_ends(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(readers, "DRAINED_WAL", 6 * MB)
    monkeypatch.setattr(readers, "FULL_WAL", 24 * MB)
    with new_service(tmp_path, clock=clock, limits=Limits(**RELAXED)) as service:
        db = caller_of(service, "db")
        db.run("CREATE TABLE u(b)", "INSERT INTO u VALUES (0)")
        batons = [db.post(execute("BEGIN"), execute("SELECT count(*) FROM u")).baton for _ in range(2)]
        clock.advance(30)
        service.engine.sweep()
        batons[0] = db.post(execute("SELECT count(*) FROM u"), baton=batons[0]).baton
        for _ in range(8):
            assert db.run("UPDATE u SET b = randomblob(1000000)").codes == ["ok", "ok"]
        service.engine.sweep()
        errors = [db.post(execute("COMMIT"), baton=baton).error() for baton in batons]
        assert [error["code"] for error in errors] == ["TRANSACTION_TIMEOUT"] * 2
        assert {error["message"].partition(", and")[0] for error in errors} == {
            "Transaction timed out: others wrote too much to the database since it first read"
        }


def test_after_an_hour_a_transaction_ends_in_any_case(service, table, clock):
    baton = table.post(execute("BEGIN IMMEDIATE")).baton
    clock.advance(HOUR - 1)
    service.engine.sweep()
    baton = table.post(WRITE, baton=baton).baton
    clock.advance(1)
    service.engine.sweep()
    late = table.post(execute("COMMIT"), baton=baton)
    assert (late.codes, late.error()["message"]) == (
        ["TRANSACTION_TIMEOUT"],
        "Transaction timed out: it was open for 3600 s",
    )


def test_a_stream_that_is_idle_continues(table, pass_time):
    baton = table.post(execute("CREATE TEMP TABLE x(a)")).baton
    pass_time(30)
    assert table.post(execute("SELECT count(*) FROM x"), baton=baton).rows() == [["0"]]


def test_after_an_hour_a_stream_ends_in_any_case(service, table, clock):
    baton = table.post(execute("SELECT 1")).baton
    clock.advance(HOUR)
    assert service.engine.streams.next_deadline() == clock()
    late = table.post(execute("SELECT 1"), baton=baton)
    assert (late.status, late.body["code"]) == (400, "STREAM_EXPIRED")


def test_the_sweeper_ends_a_stream_after_an_hour(service, table, clock):
    table.post(execute("SELECT 1"))
    clock.advance(HOUR)
    service.engine.sweep()
    assert len(service.engine.streams) == 0


@pytest.mark.parametrize("limits", [
    Limits(streams=2, database_streams=2, **RELAXED), Limits(streams=16, database_streams=2, **RELAXED)
], ids=["of all", "of a database"])  # fmt: skip
def test_an_idle_stream_makes_room_when_there_are_too_many(table, clock):
    first, second = table.post(execute("SELECT 1")).baton, table.post(execute("SELECT 2")).baton
    clock.advance(9)
    assert table.run("SELECT 3").status == 429
    clock.advance(1)
    second = table.post(execute("SELECT 2"), baton=second).baton
    assert table.run("SELECT 3").rows() == [["3"]]
    late = table.post(execute("SELECT 1"), baton=first)
    assert (late.status, late.body["code"]) == (400, "STREAM_EXPIRED")
    assert table.post(execute("SELECT 2"), baton=second).codes == ["ok"]


@pytest.mark.parametrize("limits", [Limits(streams=3, database_streams=3, **RELAXED)])
def test_streams_with_a_transaction_make_room_last(table, clock):
    batons = {sql: table.post(execute(sql)).baton for sql in ("BEGIN", "SELECT 1", "SELECT 2")}
    clock.advance(30)
    assert [table.post(execute("SELECT 3")).status for _ in range(4)] == [200, 200, 200, 429]
    statuses = [table.post(execute("SELECT 1"), baton=baton).status for baton in batons.values()]
    assert statuses == [400, 400, 400]


@pytest.mark.parametrize("limits", [Limits(streams=2, database_streams=2, **RELAXED)])
def test_a_transaction_is_kept_while_another_stream_can_make_room(table, clock):
    transaction = table.post(execute("BEGIN")).baton
    clock.advance(1)
    table.post(execute("SELECT 1"))
    clock.advance(30)
    assert table.run("SELECT 2").status == 200
    assert table.post(execute("COMMIT"), baton=transaction).codes == ["ok"]


@pytest.mark.skipif(sys.platform == "win32", reason="resource limits")
def test_an_idle_stream_makes_room_when_there_are_no_file_handles(table, clock):
    resource = pytest.importorskip("resource")
    first = table.post(execute("SELECT 1")).baton
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as lowest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno() + 20, hard))
    try:
        while table.post(execute("SELECT 1")).status == 200:
            clock.advance(0.001)
        clock.advance(10)
        assert table.post(execute("SELECT 1")).codes == ["ok"]
        assert table.post(execute("SELECT 1"), baton=first).body["code"] == "STREAM_EXPIRED"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("limits", [Limits(streams=8, database_streams=2, **RELAXED)])
def test_the_streams_of_other_databases_are_kept(service, table, clock):
    other = caller_of(service, "planes")
    kept = other.post(execute("SELECT 1")).baton
    clock.advance(1)
    for _ in range(2):
        table.post(execute("SELECT 1"))
    clock.advance(30)
    assert table.run("SELECT 2").status == 200
    assert other.post(execute("SELECT 1"), baton=kept).codes == ["ok"]


@pytest.mark.parametrize(("limits", "ttl", "header"), [
    (Limits(), 10_000, "strict"), (Limits(idle=2.5), 2_500, "strict"), (Limits(**RELAXED), 3_600_000, "relaxed"),
], ids=["exact", "shorter", "relaxed"])  # fmt: skip
def test_the_service_says_which_limits_hold(service, table, ttl, header):
    assert table.post(execute("SELECT 1")).body["stream_ttl_ms"] == ttl
    for path in ("/v2", "/v3", "/version"):
        assert call(service, "GET", path, headers=table.headers).headers["pipemagic-limits"] == header


def test_an_old_error_is_not_that_of_a_later_transaction(service, table, clock, pass_time):
    baton = table.post(execute("BEGIN IMMEDIATE")).baton
    pass_time(8)
    with writing(service, table):
        pass_time(1)
    baton = table.post(execute("SELECT 1"), baton=baton).baton
    baton = table.post(execute("BEGIN"), baton=baton).baton
    clock.advance(HOUR)
    answer = table.post(execute("COMMIT"), baton=baton)
    assert answer.status == 400
