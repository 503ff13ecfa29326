"""The lifecycle of streams and transactions of the service, with a clock that the tests set."""

from __future__ import annotations

import ast
import math
import threading
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from asgi_calls import Disconnect
from service_calls import CLOSE, caller_of, execute, new_service

from pipemagic.service import embedded
from pipemagic.service.auth.tokens import Owner
from pipemagic.service.database_api import endpoints
from pipemagic.service.executor import Waiter
from pipemagic.service.limits import Limits
from pipemagic.service.service import Service


def test_a_nested_savepoint_does_not_renew_the_time_limit_and_a_new_transaction_does(db, clock):
    baton = db.post(execute("BEGIN"), execute("CREATE TABLE t(a)")).baton
    clock.advance(4)
    baton = db.post(execute("SAVEPOINT inner"), execute("RELEASE inner"), execute("COMMIT"), baton=baton).baton
    baton = db.post(execute("BEGIN"), baton=baton).baton
    clock.advance(4)
    answer = db.post(execute("INSERT INTO t VALUES (1)"), execute("COMMIT"), baton=baton)
    assert answer.codes == ["ok", "ok"]


def test_a_new_stream_sees_no_trace_of_an_earlier_one(db):
    db.post(
        execute("CREATE TABLE t(a)"),
        execute("INSERT INTO t VALUES (1)"),
        execute("CREATE TEMP TABLE secret(a)"),
        execute("PRAGMA foreign_keys = OFF"),
        execute("PRAGMA case_sensitive_like = ON"),
        {"type": "store_sql", "sql_id": 1, "sql": "SELECT 1"},
        CLOSE,
    )
    answer = db.post(
        execute("SELECT last_insert_rowid(), changes(), total_changes()"),
        execute("PRAGMA foreign_keys"),
        execute("SELECT 'a' LIKE 'A'"),
        execute("SELECT * FROM secret"),
        {"type": "execute", "stmt": {"sql_id": 1}},
        CLOSE,
    )
    assert answer.rows(0) == [["0", "0", "0"]]
    assert answer.rows(1) == [["1"]]
    assert answer.rows(2) == [["1"]]
    assert answer.error(3)["message"].endswith("no such table: secret")
    assert answer.codes[4] == "SQL_STORE_NOT_FOUND"


def test_the_replication_index_counts_commits_and_never_goes_backwards(db, service, tmp_path, clock):
    def index() -> int:
        value = db.run("SELECT 1").response()["result"]["replication_index"]
        assert isinstance(value, str)
        return int(value)

    start = index()
    db.run("CREATE TABLE t(a)", "INSERT INTO t VALUES (1)", "SELECT * FROM t")
    assert index() == start + 2
    inside = db.post(execute("BEGIN"), execute("INSERT INTO t VALUES (2)"))
    assert inside.response(1)["result"]["replication_index"] == str(start + 2)
    db.post(execute("COMMIT"), CLOSE, baton=inside.baton)
    assert index() == start + 3

    service.close()
    db.service = Service(tmp_path / "data", clock=clock)
    assert index() == start + 3  # a clean stop keeps it
    db.run("INSERT INTO t VALUES (3)")
    seen, left_alone = index(), db.service
    db.service = Service(tmp_path / "data", clock=clock)  # as after a crash: nothing was recorded at the end
    assert index() >= seen
    db.run("INSERT INTO t VALUES (4)")
    assert index() > seen
    db.service.close()
    left_alone.close()


def test_a_deleted_database_ends_its_streams_and_its_files(db, service):
    baton = db.post(execute("BEGIN"), execute("CREATE TABLE t(a)")).baton
    record = service.catalog.database("local", "flights")
    folder = service.engine._files / record.id
    assert folder.exists()
    service.catalog.delete_database("local", "flights")
    service.engine.delete(record)
    assert not folder.exists()
    assert len(service.engine.streams) == 0
    assert db.post(execute("SELECT 1"), baton=baton).status in (401, 404)


@contextmanager
def limited(folder, **limits):
    with new_service(folder, limits=Limits(**limits)) as service:
        yield service


@pytest.mark.parametrize(("idle", "status"), [(60.0, 200), (3.0, 400)])
def test_the_idle_limit_is_one_of_the_limits_of_the_service(tmp_path, clock, idle, status):
    with new_service(tmp_path, clock=clock, limits=Limits(idle=idle)) as service:
        db = caller_of(service, "flights")
        baton = db.post(execute("SELECT 1")).baton
        clock.advance(12)
        service.engine.streams.sweep()
        answer = db.post(execute("SELECT 1"), baton=baton)
        assert answer.status == status
        assert status == 200 or answer.body["code"] == "STREAM_EXPIRED"


@pytest.mark.parametrize(("limit", "code"), [(60.0, "ok"), (3.0, "TRANSACTION_TIMEOUT")])
def test_the_time_of_a_transaction_is_one_of_the_limits_of_the_service(tmp_path, clock, limit, code):
    with new_service(tmp_path, clock=clock, limits=Limits(transaction=limit)) as service:
        db = caller_of(service, "flights")
        baton = db.post(execute("BEGIN"), execute("CREATE TABLE t(a)")).baton
        clock.advance(4)
        baton = db.post(execute("SELECT 1"), baton=baton).baton if limit > 4 else baton
        clock.advance(5)
        service.engine.streams.sweep()
        assert db.post(execute("COMMIT"), baton=baton).codes == [code]


def test_a_refusal_for_too_many_streams_names_the_idle_limit(tmp_path):
    with limited(tmp_path, streams=1, idle=3.5) as service:
        _, refused = opened(caller_of(service, "flights"), 2)
        assert refused.body["error"].endswith("try again soon, idle streams end after 3.5 s")


def opened(caller, most):
    """Open streams up to a number; return their batons, and the refusal, if any."""
    batons = []
    for _ in range(most):
        answer = caller.post(execute("SELECT 1"))
        if answer.status != 200:
            return batons, answer
        batons.append(answer.baton)
    return batons, None


def test_too_many_open_streams_are_refused_with_429(tmp_path):
    with limited(tmp_path, streams=2, database_streams=2) as service:
        db = caller_of(service, "flights")
        batons, refused = opened(db, 3)
        assert (len(batons), refused.status) == (2, 429)
        assert "Too many open streams: the service has 2 open" in refused.body["error"]
        db.post(CLOSE, baton=batons[0])
        assert db.run("SELECT 1").status == 200


def test_one_database_cannot_take_the_streams_of_others(tmp_path):
    with limited(tmp_path, streams=32) as service:
        greedy, other = caller_of(service, "flights"), caller_of(service, "planes")
        batons, refused = opened(greedy, 40)
        assert (len(batons), refused.status, refused.body["code"]) == (8, 429, "TOO_MANY_REQUESTS")
        assert refused.body["error"] == (
            "Too many open streams: this database has 8 open, which is the limit of one database; "
            "close those that are not needed, idle ones end after 10 s"
        )
        assert opened(caller_of(service, "flights", subject="eve"), 1)[1].status == 429  # with another token
        assert opened(other, 4)[1] is None
        greedy.post(CLOSE, baton=batons[0])
        assert greedy.run("SELECT 1").status == 200


def test_a_class_and_a_benchmark_fit_into_the_shares(service):
    """500 streams of one token; 200 students with five each, in one account's databases."""
    streams, database = (
        service.engine.streams,
        service.engine.databases.open(service.catalog.create_database("local", "d", "default")),
    )
    for _ in range(500):
        streams.open(database, Owner("local", "d", "ada", "rw"))
    for number in range(1000):
        streams.open(database, Owner("school", f"student{number % 200}", "teacher", "rw"))
        streams.open(database, Owner("shared", "one", f"student{number % 200}", "rw"))
    assert len(streams) == 2500


def test_every_end_of_a_stream_frees_its_share(tmp_path):
    long = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 500000) SELECT n FROM c"
    with limited(tmp_path, streams=8) as service:
        db, streams = caller_of(service, "flights"), service.engine.streams
        ends = [
            lambda baton: db.post(CLOSE, baton=baton),
            lambda _baton: streams.end_all(),
            lambda baton: (service.engine._clock.advance(10), db.post(execute("SELECT 1"), baton=baton)),
            lambda _baton: (service.engine._clock.advance(10), service.engine.sweep()),
            lambda baton: db.cursor(long, baton=baton).chunks.close(),
        ]
        for end in ends:
            batons, refused = opened(db, 3)
            assert (len(batons), refused.status) == (2, 429)
            end(batons[0])
            assert len(opened(db, 1)[0]) == 1
            streams.end_all()
            assert (len(streams), dict(streams._used)) == (0, {})


@pytest.mark.parametrize("mode", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_begin_inside_a_transaction_takes_no_lock(db, mode):
    baton = db.post(execute("BEGIN"), execute(f"BEGIN {mode}")).baton
    assert db.run("CREATE TABLE t(a)").codes == ["ok", "ok"]
    answer = db.post(
        execute(f"BEGIN {mode}"), execute("INSERT INTO t VALUES (1)"), execute(f"BEGIN {mode}"), baton=baton
    )
    assert answer.codes == ["SQLITE_ERROR", "ok", "SQLITE_ERROR"]
    assert answer.error()["message"] == "SQLite error: cannot start a transaction within a transaction"


def test_an_error_after_the_time_limit_is_a_timeout_even_if_sqlite_rolled_back(db, clock, service):
    db.run("CREATE TABLE t(a UNIQUE)", "INSERT INTO t VALUES (1)")
    baton = db.post(execute("BEGIN IMMEDIATE")).baton
    stream = next(iter(service.engine.streams._streams.values()))
    stream.connection.raw.create_scalar_function("late", lambda: clock.advance(5))
    answer = db.post(
        execute("INSERT OR ROLLBACK INTO t SELECT coalesce(late(), 1)"),
        execute("INSERT INTO t VALUES (2)"),
        baton=baton,
    )
    assert answer.codes == ["TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT"]
    assert db.run("SELECT count(*) FROM t").rows() == [["1"]]


def test_an_interrupt_at_a_time_limit_does_not_affect_later_statements(db, clock, service):
    baton = db.post(execute("BEGIN")).baton
    stream = next(iter(service.engine.streams._streams.values()))
    db.post(execute("COMMIT"), baton=baton)
    assert stream.begin(interruptible=True, now=clock())
    stream.enforce(clock() + 50)
    assert not stream.connection.stopped
    stream.end()


def test_a_stream_that_is_ended_while_its_response_is_finished_is_removed(db, service, monkeypatch):
    db.run("CREATE TABLE t(a)")
    finish = service.engine.streams.finish

    def end_and_finish(stream):
        service.engine.streams.end_all()  # as by another thread: it still finds the stream in use
        return finish(stream)

    with monkeypatch.context() as patch:
        patch.setattr(service.engine.streams, "finish", end_and_finish)
        answer = db.post(execute("BEGIN IMMEDIATE"))
    assert (answer.codes, answer.baton) == (["ok"], None)
    assert len(service.engine.streams) == 0
    assert db.run("INSERT INTO t VALUES (1)").codes == ["ok", "ok"]


@pytest.mark.parametrize("error", [apsw.IOError("disk I/O error"), RuntimeError("a bug")])
def test_a_stream_that_cannot_be_rolled_back_does_not_affect_the_time_limits_of_others(
    db, clock, service, monkeypatch, error
):
    db.run("CREATE TABLE t(a)")
    db.post(execute("BEGIN"))
    other = db.post(execute("BEGIN IMMEDIATE"))
    broken, sound = service.engine.streams._streams.values()

    def fail() -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(broken.connection, "rollback", fail)
        clock.advance(5)
        service.engine.sweep()
    assert len(service.engine.streams) == 1
    assert sound.write_waiter is None
    assert db.run("INSERT INTO t VALUES (1)").codes == ["ok", "ok"]
    assert db.post(execute("COMMIT"), baton=other.baton).codes == ["TRANSACTION_TIMEOUT"]


def test_the_sweeper_continues_after_any_error(db, service, monkeypatch):
    sweeps, again = [], threading.Event()

    def sweep() -> None:
        sweeps.append(1)
        if len(sweeps) == 1:
            raise RuntimeError("a bug")
        again.set()

    monkeypatch.setattr(embedded, "SWEEP_EVERY", 0.01)
    monkeypatch.setattr(service.engine.streams, "sweep", sweep)
    service.start()
    assert again.wait(10)


@pytest.mark.parametrize(("begin", "end"), [("BEGIN", "COMMIT"), ("BEGIN", "END"), ("SAVEPOINT s", "RELEASE s")])
@pytest.mark.parametrize("event", ["window", "hang-up"])
def test_a_commit_that_has_begun_is_never_interrupted(db, clock, service, begin, end, event):
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute(begin), execute("INSERT INTO t VALUES (1)")).baton
    (stream,) = service.engine.streams._streams.values()
    connection, hooked = Disconnect(), []

    def in_the_middle() -> bool:
        hooked.append(True)
        if event == "window":
            clock.advance(6)
            service.engine.sweep()
        else:
            connection.set()
        return False  # continue the commit

    stream.connection.raw.set_commit_hook(in_the_middle)
    answer = db.post(execute(end), baton=baton, connection=connection)
    assert hooked
    if event == "window":
        assert answer.codes == ["ok"]
    assert db.run("SELECT a FROM t").rows() == [["1"]]


@pytest.mark.parametrize(("sql", "stopped"), [("COMMIT", False), ("SELECT * FROM t", True), ("DELETE FROM t", True)])
def test_a_sweep_stops_statements_past_the_time_limit_but_no_commit(db, clock, service, sql, stopped, monkeypatch):
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    (stream,) = service.engine.streams._streams.values()
    run, seen = stream.connection.run, []

    def run_late(*arguments, **options):
        clock.advance(6)
        service.engine.sweep()
        seen.append(stream.connection.stopped)
        return run(*arguments, **options)

    monkeypatch.setattr(stream.connection, "run", run_late)
    answer = db.post(execute(sql), baton=baton)
    assert seen == [stopped]
    assert answer.codes == ["TRANSACTION_TIMEOUT" if stopped else "ok"]


def test_a_stream_whose_response_cannot_be_built_ends(db, service, monkeypatch):
    def fail(*_args):
        raise MemoryError

    db.run("CREATE TABLE t(a)")
    with monkeypatch.context() as patch:
        patch.setattr(endpoints, "compress_if_large", fail)
        rows = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 999) SELECT n FROM c"
        answer = db.post(execute("BEGIN IMMEDIATE"), execute(rows))
    assert answer.status >= 500
    assert len(service.engine.streams) == 0
    assert db.run("INSERT INTO t VALUES (1)").codes == ["ok", "ok"]


def test_a_request_that_was_cancelled_waits_for_nothing(db, service, clock):
    """Also if it was cancelled just before it would wait: nothing else would end that wait before its deadline."""
    db.post(execute("SELECT 1"))
    (stream,) = service.engine.streams._streams.values()
    stream.cancel()
    assert list(stream.wait_for(Waiter(math.inf), clock)) == []
    assert stream.wait is None


def test_only_the_tables_of_its_states_change_a_stream():
    """Nothing in the service assigns the phase or the transaction of a `StreamState`."""
    for path in Path(embedded.__file__).parent.rglob("*.py"):
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
        assigned = [ast.unparse(node) for node in nodes if isinstance(node.ctx, ast.Store)]
        assert not {text for text in assigned if text.endswith(("state.phase", "state.transaction"))}, path


def test_a_transaction_that_reads_an_old_state_cannot_write(db):
    db.run("CREATE TABLE t(a)")
    old = db.post(execute("BEGIN"), execute("SELECT * FROM t"))
    db.run("INSERT INTO t VALUES (1)")
    error = db.post(execute("INSERT INTO t VALUES (2)"), baton=old.baton).error()
    assert "it changed since this transaction first read from it" in error["message"]
    assert (error["code"], error["extended_code"]) == ("SQLITE_BUSY", "SQLITE_BUSY_SNAPSHOT")
