"""Statements that are inside one function when they are stopped: they are given up, and never touched by two threads.

The function of these tests, `hang()`, stands for one of SQLite's on large values: only the test lets it return.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import apsw
import pytest
from asgi_calls import Disconnect, runtime
from service_calls import CLOSE, Clock, caller_of, execute, new_service
from waiting import PATIENCE, until

from pipemagic.service import memory
from pipemagic.service.database_api.stream import ABANDONED_AFTER
from pipemagic.service.limits import MB
from pipemagic.service.sqlite import functions

MESSAGE = (
    "the statement was stopped, but is in a SQLite function that cannot be interrupted, so it was abandoned"
    "{}: use smaller values"
)


class Hang:
    """A SQL function that returns its argument once it is let go; counts the threads inside of it."""

    def __init__(self):
        self.began, self.gate = threading.Semaphore(0), threading.Event()

    def __call__(self, value):
        self.began.release()
        assert self.gate.wait(PATIENCE)
        return value


@pytest.fixture
def hang(monkeypatch):
    hang, install = Hang(), functions.install

    def installed(connection, *arguments):
        install(connection, *arguments)
        connection.create_scalar_function("hang", hang, 1, flags=apsw.SQLITE_INNOCUOUS)

    monkeypatch.setattr(functions, "install", installed)
    yield hang
    hang.gate.set()


@pytest.fixture
def service(tmp_path, hang):
    with new_service(tmp_path) as service:
        yield service
        hang.gate.set()


@pytest.fixture
def db(service):
    db = caller_of(service, "flights")
    db.run("CREATE TABLE t(a)")
    return db


@pytest.fixture
def abandoned(service, hang):
    """Run a request whose statement hangs, and give that up at its time limit; return the response."""
    clock = service.engine._clock
    assert isinstance(clock, Clock)

    def abandoned(send, *arguments, after=60):
        with ThreadPoolExecutor(1) as pool:
            response = pool.submit(send, *arguments)
            assert hang.began.acquire(timeout=PATIENCE)
            clock.advance(after)
            service.engine.sweep()  # it is stopped
            service.engine.sweep()  # which is seen
            clock.advance(ABANDONED_AFTER - 0.1)
            service.engine.sweep()
            assert not response.done()
            clock.advance(0.1)
            service.engine.sweep()
            return response.result(PATIENCE)

    return abandoned


def streams(service):
    return len(service.engine.streams)


def left(service, hang):
    """Let the function return, and wait until its stream has ended."""
    hang.gate.set()
    until(lambda: streams(service) == 0)


def test_the_client_has_an_error_for_each_statement_and_the_stream_ends_with_the_thread(service, db, hang, abandoned):
    requests = [execute("SELECT 7"), execute("SELECT hang(1)"), execute("SELECT 1"), {"type": "describe", "sql": "x"}]
    answer = abandoned(db.post, *requests, CLOSE)
    assert answer.status == 200
    assert answer.codes == ["ok", "STATEMENT_TIMEOUT", "STREAM_ENDED", "STREAM_ENDED", "ok"]
    assert answer.error(1)["message"] == MESSAGE.format("")
    assert (answer.rows(0), answer.baton) == ([["7"]], None)
    assert streams(service) == 1
    assert db.run("SELECT 1").codes == ["ok", "ok"]
    left(service, hang)


def test_a_request_without_close_has_no_baton(service, db, hang, abandoned):
    answer = abandoned(db.post, execute("SELECT hang(1)"))
    assert (answer.codes, answer.baton) == (["STATEMENT_TIMEOUT"], None)
    left(service, hang)


def test_it_is_logged_and_counted(service, db, hang, abandoned, caplog):
    abandoned(db.post, execute("SELECT hang(1)"))
    reason = "it is in a function that cannot be interrupted, and was abandoned (token of ada, rw)"
    assert f"a statement on local/flights was stopped: {reason}" in caplog.text
    assert list(service.engine._stopped._counts.items()) == [(("local/flights", "ada", "rw", "function"), 1)]
    left(service, hang)


def test_a_write_whose_client_was_told_that_it_failed_is_not_applied(service, db, hang, abandoned):
    """SQLite would commit it: it checks for interrupts in loops only."""
    answer = abandoned(db.post, execute("INSERT INTO t VALUES (hang(1))"), CLOSE)
    assert answer.error()["message"] == MESSAGE.format("; nothing of it is applied")
    left(service, hang)
    assert db.run("SELECT count(*) FROM t").rows() == [["0"]]


def test_other_writers_are_told_why_they_wait_and_write_when_the_thread_has_left(service, db, hang, abandoned):
    abandoned(db.post, execute("INSERT INTO t VALUES (hang(1))"), CLOSE)
    clock = service.engine._clock
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(db.run, "INSERT INTO t VALUES (2)")
        until(lambda: [waiter for database in service.engine.databases.in_use() for waiter in database.waiters()])
        clock.advance(5)
        service.engine.sweep()
        answer = waits.result(PATIENCE)
    assert answer.codes == ["SQLITE_BUSY", "ok"]
    assert answer.error()["message"].endswith(
        "has been writing for 75.0 s, in a function that cannot be interrupted: reads work, writes have to wait"
    )
    assert db.run("SELECT count(*) FROM t").rows() == [["0"]]
    left(service, hang)
    assert db.run("INSERT INTO t VALUES (2)", "SELECT a FROM t").rows(1) == [["2"]]


def test_its_transaction_is_lost(service, db, hang, abandoned):
    steps = ["BEGIN", "INSERT INTO t VALUES (1)", "SELECT hang(1)", "COMMIT"]
    answer = abandoned(db.post, *map(execute, steps), CLOSE, after=5)
    assert answer.codes == ["ok", "ok", "STATEMENT_TIMEOUT", "STREAM_ENDED", "ok"]
    assert answer.error(2)["message"] == MESSAGE.format("; its transaction is lost")
    assert service.engine.streams.count_transactions() == 0
    left(service, hang)
    assert db.run("SELECT count(*) FROM t").rows() == [["0"]]


def test_the_steps_of_a_batch_have_their_own_errors(service, db, hang, abandoned):
    steps = [{"stmt": {"sql": sql}} for sql in ("INSERT INTO t VALUES (1)", "SELECT hang(1)", "SELECT 1")]
    answer = abandoned(db.post, {"type": "batch", "batch": {"steps": steps}}, CLOSE)
    result = answer.response()["result"]
    assert [error and error["code"] for error in result["step_errors"]] == [None, "STATEMENT_TIMEOUT", "STREAM_ENDED"]
    left(service, hang)
    assert db.run("SELECT a FROM t").rows() == [["1"]]


def test_a_cursor_ends_with_errors_and_its_baton_is_not_valid(service, db, hang, abandoned):
    answer = abandoned(db.read, "SELECT 7", "SELECT hang(1)", "SELECT 1")
    expected = ["step_begin", "row", "step_end", "step_error STATEMENT_TIMEOUT", "step_error STREAM_ENDED"]
    assert answer.kinds == expected
    assert db.post(execute("SELECT 1"), baton=answer.baton).status == 400
    left(service, hang)


def test_rows_that_are_kept_while_they_are_written(service, db, hang, abandoned):
    """Their thread still writes to the spool of the cursor that was given up."""
    answer = abandoned(db.read, "INSERT INTO t VALUES (1), (2) RETURNING a, hang(a)")
    assert answer.kinds == ["step_error STATEMENT_TIMEOUT"]
    left(service, hang)
    assert db.run("SELECT count(*) FROM t").rows() == [["0"]]


LARGE_ROWS = """WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9)
SELECT iif(i < 9, hex(zeroblob(500000)), hang(1)) FROM n"""


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(execute(LARGE_ROWS), id="rows"),
        pytest.param(execute("SELECT hang(?)", {"type": "text", "value": "a" * 5_000_000}), id="arguments"),
    ],
)
def test_what_the_thread_has_counts_as_memory_until_it_has_left(service, db, hang, abandoned, request_):
    memory = runtime().memory
    answer = abandoned(db.post, request_)
    assert answer.codes == ["STATEMENT_TIMEOUT"]
    until(lambda: runtime().running == 0)
    assert memory.taken > 4 * MB
    left(service, hang)
    until(lambda: memory.taken == 0)


def test_it_is_given_up_once(service, db, hang):
    """The sweeper may find it again before its request goes on."""
    with ThreadPoolExecutor(1) as pool:
        response = pool.submit(db.post, execute("SELECT hang(1)"))
        assert hang.began.acquire(timeout=PATIENCE)
        (stream,) = service.engine.streams._streams.values()
        with stream.guard:
            stream._abandon()
            stream._abandon()
        assert response.result(PATIENCE).codes == ["STATEMENT_TIMEOUT"]
    assert streams(service) == 1
    left(service, hang)


def give_up(service):
    """Give up the statement, which was stopped."""
    service.engine.sweep()
    service.engine._clock.advance(ABANDONED_AFTER)
    service.engine.sweep()


def test_a_client_that_is_gone(service, db, hang, caplog):
    connection = Disconnect()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: db.post(execute("SELECT hang(1)"), connection=connection))
        assert hang.began.acquire(timeout=PATIENCE)
        connection.set()
        (stream,) = service.engine.streams._streams.values()
        until(lambda: stream.ended)
        give_up(service)
        until(lambda: "was abandoned" in caplog.text)
    assert streams(service) == 1
    left(service, hang)


def test_a_database_that_is_deleted_meanwhile(service, db, hang):
    record = service.catalog.database("local", "flights")
    with ThreadPoolExecutor(1) as pool:
        response = pool.submit(db.post, execute("SELECT hang(1)"), CLOSE)
        assert hang.began.acquire(timeout=PATIENCE)
        service.catalog.delete_database("local", "flights")
        service.engine.delete(record)
        give_up(service)
        assert response.result(PATIENCE).codes == ["STATEMENT_TIMEOUT", "ok"]
    assert not (service.engine._files / record.id).exists()
    left(service, hang)


def test_the_service_closes_meanwhile(tmp_path, hang):
    with new_service(tmp_path) as service:
        db = caller_of(service, "flights")
        with ThreadPoolExecutor(1) as pool:
            response = pool.submit(db.post, execute("SELECT hang(1)"))
            assert hang.began.acquire(timeout=PATIENCE)
            service.engine.streams.end_all()
            give_up(service)
            assert response.result(PATIENCE).codes == ["STATEMENT_TIMEOUT"]
    hang.gate.set()
    until(lambda: streams(service) == 0)


@pytest.fixture
def short_memory():
    """SQLite's memory is short, so that idle streams keep no caches."""
    with closing(apsw.Connection(":memory:")) as hog:
        memory.limit_heap(64 * MB)
        hog.execute("CREATE TABLE t(a)")
        for _ in range(20):
            hog.execute("INSERT INTO t VALUES (zeroblob(1000000))")
        yield
        memory.limit_heap(0)


@pytest.mark.usefixtures("short_memory")
def test_its_connection_is_not_asked_to_free_caches(service, db, hang, abandoned):
    answer = abandoned(db.post, execute("SELECT hang(1)"))
    assert (answer.codes, answer.baton) == (["STATEMENT_TIMEOUT"], None)
    left(service, hang)
