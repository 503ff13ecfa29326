"""Readers give way to a checkpoint when the WAL is large, in process: the promise "disk with a reserve"."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
from service_calls import CLOSE, caller_of, entries_of, execute
from waiting import until

from pipemagic.service.limits import MB
from pipemagic.service.service import Service
from pipemagic.service.sqlite import readers
from pipemagic.service.sqlite.connection import KEPT_WAL, Connection
from pipemagic.service.sqlite.readers import DRAIN_WAIT, CheckpointPhase

DRAINED, FULL = 6 * MB, 12 * MB
MANY = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) SELECT n FROM c"
WRITE = "UPDATE u SET b = randomblob(1000000)"
ROWS = "SELECT a, hex(zeroblob(100)) FROM t"
LONG = "SELECT count(*) FROM t x, t y WHERE x.a <= 500 AND x.a + y.a = 7"


@pytest.fixture(autouse=True)
def small_wal(monkeypatch):
    monkeypatch.setattr(readers, "DRAINED_WAL", DRAINED)
    monkeypatch.setattr(readers, "FULL_WAL", FULL)


@pytest.fixture
def db(service: Service):
    db = caller_of(service, "db")
    db.run("CREATE TABLE t(a)", f"INSERT INTO t {MANY}", "CREATE TABLE u(b)", "INSERT INTO u VALUES (0)")
    return db


def primary(service: Service):
    (database,) = service.engine.databases.in_use()
    return database


def wal(service: Service) -> int:
    path = primary(service).path
    return path.with_name(path.name + "-wal").stat().st_size


def write(db, megabytes: int) -> None:
    for _ in range(megabytes):
        assert db.run(WRITE).codes == ["ok", "ok"]


def begin_cursor(db):
    """Begin a cursor on rows that do not fit into its first piece; return the rest of its pieces."""
    chunks = iter(db.cursor(ROWS).chunks)
    assert next(chunks)
    return chunks


def last_entry(chunks):
    return entries_of(b'{"baton":null,"base_url":null}\n' + b"".join(chunks)).entries[-1]


def test_a_cursor_that_keeps_the_wal_ends_at_the_limit(service, db, caplog):
    rows = begin_cursor(db)
    write(db, 20)
    last = last_entry(rows)
    assert (last["type"], last["error"]["code"]) == ("error", "STREAM_ENDED")
    assert "others wrote too much" in last["error"]["message"]
    assert "a statement on local/db was stopped: others wrote too much to the database while it read" in caplog.text
    write(db, 20)
    assert wal(service) < FULL + 2 * MB
    assert db.run("PRAGMA integrity_check").rows() == [["ok"]]


def test_a_cursor_that_ends_in_time_is_complete(service, db):
    rows = begin_cursor(db)
    write(db, 9)
    assert last_entry(rows)["type"] == "step_end"
    write(db, 20)
    assert wal(service) < FULL


def test_a_single_large_transaction_stops_no_reader(service, db):
    rows = begin_cursor(db)
    db.run("UPDATE u SET b = randomblob(15000000)")
    write(db, 2)
    assert last_entry(rows)["type"] == "step_end"
    rows = begin_cursor(db)
    db.run("UPDATE u SET b = randomblob(15000000)")
    write(db, 4)
    assert last_entry(rows)["error"]["code"] == "STREAM_ENDED"


def test_a_transaction_that_keeps_the_wal_is_lost_at_the_limit(service, db):
    first = db.post(execute("BEGIN"), execute("SELECT count(*) FROM t"))
    write(db, 20)
    late = db.post(execute("SELECT count(*) FROM t"), baton=first.baton)
    assert late.codes == ["TRANSACTION_TIMEOUT"]
    assert "others wrote too much" in late.error()["message"]
    again = db.post(execute("BEGIN"), execute("SELECT count(*) FROM t"), execute("COMMIT"), CLOSE, baton=late.baton)
    assert again.codes == ["ok", "ok", "ok", "ok"]
    assert wal(service) < FULL + 2 * MB


def test_a_transaction_that_writes_only_to_temporary_tables_is_lost_as_well(service, db):
    """It has taken and released the write lock, and keeps its snapshot."""
    first = db.post(execute("BEGIN"), execute("SELECT count(*) FROM t"), execute("CREATE TEMP TABLE x(a)"))
    assert first.codes == ["ok", "ok", "ok"]
    assert len(primary(service).readers) == 1
    write(db, 20)
    assert db.post(execute("SELECT 1"), baton=first.baton).codes == ["TRANSACTION_TIMEOUT"]


def test_a_transaction_that_waits_between_statements_and_reads_nothing_is_kept(service, db):
    rows = begin_cursor(db)
    idle = db.post(execute("BEGIN"), execute("SELECT 1"))
    write(db, 20)
    assert db.post(execute("COMMIT"), CLOSE, baton=idle.baton).codes == ["ok", "ok"]
    assert last_entry(rows)["error"]["code"] == "STREAM_ENDED"


def test_short_reads_and_writes_go_on_while_a_reader_keeps_the_wal(service, db):
    rows = begin_cursor(db)
    write(db, 8)
    assert primary(service).readers.phase is CheckpointPhase.DRAINING
    assert db.run("SELECT count(*) FROM t").rows() == [["20000"]]
    assert db.read("SELECT count(*) FROM t").rows() == [["20000"]]
    read = ("BEGIN", "SELECT count(*) FROM t", "COMMIT")
    assert db.run(*read).codes == ["ok"] * 4
    assert last_entry(rows)["type"] == "step_end"


@contextmanager
def reading(db, sql: str, into: list):
    """Send a statement in a thread; its answer is in the list afterwards."""
    thread = threading.Thread(target=lambda: into.append(db.run(sql)))
    thread.start()
    yield
    thread.join(30)
    assert not thread.is_alive()


def test_a_long_read_waits_for_the_earlier_readers_and_then_starts_again(service, db):
    rows = begin_cursor(db)
    write(db, 8)
    answers = []
    readers = primary(service).readers
    with reading(db, f"SELECT (SELECT count(*) FROM ({LONG})), (SELECT length(b) FROM u)", answers):
        until(readers.waiters)
        assert len(readers) == 1  # the cursor
        db.run("UPDATE u SET b = 'later'")
        assert last_entry(rows)["type"] == "step_end"
    assert answers[0].rows() == [["1", "5"]]
    assert readers.phase is CheckpointPhase.OPEN
    assert wal(service) < DRAINED + 4 * MB


def test_the_rows_of_a_long_cursor_that_starts_again_are_sent_once(service, db):
    rows = begin_cursor(db)
    write(db, 8)
    found = []
    thread = threading.Thread(target=lambda: found.append(db.read("SELECT 'first'", ROWS, "SELECT 'last'")))
    thread.start()
    until(primary(service).readers.waiters)
    assert last_entry(rows)["type"] == "step_end"
    write(db, 2)
    thread.join(30)
    assert [row[0] for row in found[0].rows()] == ["first", *map(str, range(1, 20_001)), "last"]
    assert found[0].kinds.count("step_begin") == found[0].kinds.count("step_end") == 3


def test_a_long_read_waits_for_a_limited_time(service, db, clock):
    rows = begin_cursor(db)
    write(db, 8)
    answers = []
    with reading(db, LONG, answers):
        until(primary(service).readers.waiters)
        clock.advance(DRAIN_WAIT)
        service.engine.sweep()
    assert answers[0].rows() == [["6"]]
    assert last_entry(rows)["type"] == "step_end"


@pytest.mark.parametrize(("stops", "code"), [(1, "ok"), (2, "STATEMENT_TIMEOUT")])
def test_a_read_that_is_stopped_at_the_limit_starts_again_once(service, db, monkeypatch, caplog, stops, code):
    """Others write 20 MB while it runs, whenever it starts."""
    starts, run = [], Connection.run

    def run_while_others_write(connection, plan, bindings, *, may_write):
        source = run(connection, plan, bindings, may_write=may_write)
        if plan.text == LONG and len(starts) < stops:
            starts.append(plan.text)
            write(db, 20)
        return source

    monkeypatch.setattr(Connection, "run", run_while_others_write)
    answers = []
    with reading(db, LONG, answers):
        for _ in range(2):
            until(lambda: answers or primary(service).readers.waiters())
            write(db, 2)
    assert answers[0].codes == [code, "ok"]
    if code != "ok":
        assert "stopped twice because others wrote" in answers[0].error()["message"]
    assert ("a statement on local/db was stopped" in caplog.text) == (code != "ok")
    assert len(starts) == stops
    assert wal(service) < FULL


def test_an_export_is_ended_at_the_limit(service, db, monkeypatch):
    from asgi_calls import call

    from pipemagic.service.transfer import endpoints

    original = endpoints.snapshot

    def slow_snapshot(source, path, must_end):
        def end_later():
            write(db, 20)
            must_end()

        original(source, path, end_later)

    monkeypatch.setattr(endpoints, "snapshot", slow_snapshot)
    headers = {"host": "127.0.0.1:8080", "authorization": f"Bearer {db.token}"}
    response = call(service, "GET", "/dump", headers=headers)
    assert (response.status, b"others wrote too much" in response.read()) == (503, True)
    assert not len(primary(service).readers)


def test_a_large_wal_is_truncated_when_nobody_uses_the_database(service, db, clock):
    db.run("UPDATE u SET b = randomblob(10000000)")
    service.engine.sweep()
    assert wal(service) > KEPT_WAL  # the last commit was just now
    clock.advance(1)
    service.engine.sweep()
    assert wal(service) == 0
    assert db.run("SELECT length(b) FROM u", "PRAGMA integrity_check").rows() == [["10000000"]]


def test_a_wal_that_begins_again_is_truncated(service, db):
    db.run("UPDATE u SET b = randomblob(10000000)")
    assert wal(service) > KEPT_WAL
    write(db, 1)
    assert wal(service) == KEPT_WAL


def test_a_wal_for_which_readers_gave_way_is_truncated_when_the_last_one_ends(service, db):
    """No further commit is needed; a writer that holds the lock does it at its commit."""
    rows = begin_cursor(db)
    write(db, 9)
    assert last_entry(rows)["type"] == "step_end"
    assert (wal(service), primary(service).readers.phase) == (0, CheckpointPhase.OPEN)
    rows = begin_cursor(db)
    write(db, 9)
    writer = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO u VALUES (1)"))
    assert last_entry(rows)["type"] == "step_end"
    assert (wal(service) > KEPT_WAL, primary(service).readers.phase) == (True, CheckpointPhase.SEALED)
    assert db.post(execute("COMMIT"), CLOSE, baton=writer.baton).codes == ["ok", "ok"]
    assert primary(service).readers.phase is CheckpointPhase.OPEN


def test_readers_that_gave_way_in_vain_begin_until_the_wal_has_grown(service, db, clock):
    rows = begin_cursor(db)
    write(db, 8)
    readers = primary(service).readers
    assert readers.phase is CheckpointPhase.DRAINING
    clock.advance(DRAIN_WAIT)
    service.engine.sweep()
    assert readers.phase is CheckpointPhase.OPEN
    write(db, 1)
    assert readers.phase is CheckpointPhase.OPEN
    assert db.run(LONG).rows() == [["6"]]
    assert last_entry(rows)["type"] == "step_end"


def test_all_that_ends_is_no_reader_any_more(service, db):
    """A statement, an error, a transaction of each kind, a stream that expires."""
    readers = primary(service).readers
    db.run("SELECT * FROM t", "SELECT * FROM nope", "SELECT abs(-9223372036854775808) FROM t", "PRAGMA optimize")
    db.run("BEGIN", "SELECT * FROM t", "COMMIT")
    db.run("BEGIN", "SELECT * FROM t")
    db.run("BEGIN", "SELECT * FROM t", "UPDATE u SET b = 0", "COMMIT")
    db.run("BEGIN IMMEDIATE", "SELECT * FROM t", "ROLLBACK")
    last_entry(begin_cursor(db))
    assert not len(readers)
    db.post(execute("BEGIN"), execute("SELECT * FROM t"))
    assert len(readers) == 1
    service.engine.streams.end_all()
    assert not len(readers)
