"""Transactions: the 5 second window, the queue of writers, stale snapshots (section 9).

The windows of 5 and 10 seconds pass once for all servers with a real clock, during the other tests.
"""

import threading
import time
from contextlib import suppress

import pytest
from contract_wire import CLOSE, GET_AUTOCOMMIT, batch, execute, not_, ok
from long_waits import long_waits, selected
from waiting import PATIENCE

TIMEOUT = {"message": "Transaction timed out", "code": "TRANSACTION_TIMEOUT"}
SLOW = "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 1000000000000) SELECT count(*) FROM c"


@pytest.fixture
def table(db):
    db.run("CREATE TABLE t(a UNIQUE)")
    return db


def insert(value):
    return execute(f"INSERT INTO t VALUES ({value})")


def rows(db):
    return [row[0] for row in db.rows("SELECT a FROM t ORDER BY a")]


class Call(threading.Thread):
    """A pending call in another thread."""

    def __init__(self, call):
        super().__init__()
        self.call, self.answer = call, None
        self.start()

    def run(self):
        self.answer = self.call()

    def wait(self):
        self.join(PATIENCE)
        assert not self.is_alive()
        return self.answer


# Without waiting.


def test_a_transaction_over_three_requests(table):
    stream = table.stream()
    stream.run("BEGIN IMMEDIATE")
    stream.send(insert(1))
    assert rows(table) == []
    stream.send(execute("COMMIT"), CLOSE)
    assert rows(table) == [1]


@pytest.mark.parametrize(("begin", "end"), [
    ("BEGIN", "ROLLBACK"), ("BEGIN DEFERRED", "close"), ("BEGIN IMMEDIATE", "ROLLBACK"), ("BEGIN EXCLUSIVE", "close"),
    ("SAVEPOINT s", "ROLLBACK"),
])  # fmt: skip
def test_uncommitted_changes_are_undone(table, begin, end):
    stream = table.stream()
    stream.run(begin, "INSERT INTO t VALUES (1)")
    stream.send(CLOSE if end == "close" else execute(end))
    assert rows(table) == []


def test_a_failed_statement_does_not_end_its_transaction(table):
    stream = table.stream()
    stream.run("BEGIN", "INSERT INTO t VALUES (1)")
    assert stream.send(insert(1)).codes == ["SQLITE_CONSTRAINT"]
    assert stream.autocommit is False
    stream.run("COMMIT")
    assert rows(table) == [1]


def test_a_conflict_clause_ends_it(table):
    stream = table.stream()
    stream.run("BEGIN", "INSERT INTO t VALUES (1)")
    assert stream.send(execute("INSERT OR ROLLBACK INTO t VALUES (1)")).codes == ["SQLITE_CONSTRAINT"]
    assert stream.autocommit is True
    assert rows(table) == []


@pytest.mark.parametrize("sql", ["COMMIT", "ROLLBACK", "END", "RELEASE s", "ROLLBACK TO s"])
def test_ending_without_a_transaction_is_an_error(db, sql):
    answer = db.post(execute(sql), CLOSE)
    assert answer.results[0]["type"] == "error"


def test_a_transaction_within_a_transaction_is_an_error(table):
    stream = table.stream()
    stream.run("BEGIN", "INSERT INTO t VALUES (1)")
    answer = stream.send(execute("BEGIN IMMEDIATE"))
    assert "cannot start a transaction within a transaction" in answer.error()["message"]
    assert stream.autocommit is False


def test_savepoints_nest(table):
    stream = table.stream()
    stream.run(
        "SAVEPOINT a",
        "INSERT INTO t VALUES (1)",
        "SAVEPOINT b",
        "INSERT INTO t VALUES (2)",
        "ROLLBACK TO b",
        "RELEASE a",
    )
    assert rows(table) == [1]
    assert stream.autocommit is True


def test_readers_do_not_wait_and_see_the_last_commit(table):
    table.run("INSERT INTO t VALUES (1)")
    writer = table.stream()
    writer.run("BEGIN IMMEDIATE", "INSERT INTO t VALUES (2)")
    reader = table.stream()
    reader.run("BEGIN")
    assert reader.rows("SELECT a FROM t") == [[1]]
    writer.run("COMMIT")
    assert reader.rows("SELECT a FROM t") == [[1]]  # its snapshot
    reader.run("COMMIT")
    assert reader.rows("SELECT a FROM t") == [[1], [2]]


def test_a_reader_does_not_make_a_writer_wait(table):
    reader = table.stream()
    reader.run("BEGIN", "SELECT * FROM t")
    table.run("INSERT INTO t VALUES (1)")
    reader.run("COMMIT")  # the reader's transaction is still open


def test_a_stale_snapshot_cannot_write(table):
    stream = table.stream()
    stream.run("BEGIN", "SELECT * FROM t")
    table.run("INSERT INTO t VALUES (1)")
    assert stream.send(insert(2)).codes == ["SQLITE_BUSY"]
    assert stream.autocommit is False  # only ROLLBACK helps
    stream.run("ROLLBACK", "INSERT INTO t VALUES (2)")
    assert rows(table) == [1, 2]


def test_a_deferred_transaction_that_has_not_read_may_still_write(table):
    stream = table.stream()
    stream.run("BEGIN")
    table.run("INSERT INTO t VALUES (1)")
    stream.run("INSERT INTO t VALUES (2)", "COMMIT")
    assert rows(table) == [1, 2]


# Writers queue.


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("INSERT INTO t VALUES (2)", execute("COMMIT")),
        ("BEGIN IMMEDIATE", execute("ROLLBACK")),
        ("BEGIN IMMEDIATE", CLOSE),
    ],
    ids=["commit", "rollback", "close"],
)
def test_a_second_writer_waits_until_the_first_is_done(server, table, begin, end):
    first, second = table.stream(), table.stream()
    first.run("BEGIN IMMEDIATE", "INSERT INTO t VALUES (1)")
    call = Call(lambda: second.send(execute(begin)))
    server.until_one_waits(table)
    assert call.is_alive()
    first.send(end)
    assert call.wait().codes == ["ok"]


def test_writers_wait_in_order_of_arrival(server, table):
    first = table.stream()
    first.run("BEGIN IMMEDIATE")
    calls = []
    for number in range(4):
        calls.append(Call(lambda number=number: table.run(f"INSERT INTO t VALUES ({number})")))
        server.until_one_waits(table, len(calls))
    first.run("COMMIT")
    for call in calls:
        call.wait()
    assert [row[0] for row in table.rows("SELECT a FROM t ORDER BY rowid")] == [0, 1, 2, 3]


def test_a_deferred_writer_waits_at_its_first_write(server, table):
    first, second = table.stream(), table.stream()
    first.run("BEGIN IMMEDIATE")
    second.run("BEGIN")
    call = Call(lambda: second.send(insert(2), execute("COMMIT")))
    server.until_one_waits(table)
    assert call.is_alive()
    first.run("ROLLBACK")
    assert call.wait().codes == ["ok", "ok"]
    assert rows(table) == [2]


@pytest.mark.every_server
def test_many_concurrent_writers_all_succeed(table):
    calls = [
        Call(lambda number=number: [table.run(f"INSERT INTO t VALUES ({number * 100 + each})") for each in range(5)])
        for number in range(8)
    ]
    for call in calls:
        call.wait()
    assert len(rows(table)) == 40


def test_writers_of_two_databases_do_not_wait_for_each_other(table, other):
    writer = table.stream()
    writer.run("BEGIN IMMEDIATE", "INSERT INTO t VALUES (1)")
    other.run("CREATE TABLE t(a)")
    writer.run("COMMIT")


# The windows. With a real clock these scenarios wait.


def let_a_transaction_time_out_before_a_writer(server):
    table = server.database()
    table.run("CREATE TABLE t(a UNIQUE)")
    holder, waiter = table.stream(), table.stream()
    holder.run("BEGIN IMMEDIATE", "INSERT INTO t VALUES (1)")
    call = Call(lambda: waiter.send(insert(2)))
    for _ in range(21):
        server.pass_time(0.25)
        time.sleep(0.01)
    assert call.wait().results[0]["type"] in ("ok", "error")
    answer = holder.send(insert(3))
    assert answer.error() == TIMEOUT
    assert holder.autocommit is True
    assert not {1, 3} & set(rows(table))
    holder.run("INSERT INTO t VALUES (4)")  # stream and baton stay valid
    assert 4 in rows(table)


def let_a_transaction_time_out(server):
    table = server.database()
    table.run("CREATE TABLE t(a UNIQUE)")
    stream = table.stream()
    stream.run("BEGIN IMMEDIATE", "INSERT INTO t VALUES (1)")
    server.pass_time(5.25)
    assert stream.send(execute("COMMIT"), CLOSE).codes == ["TRANSACTION_TIMEOUT", "ok"]
    assert rows(table) == []


def let_streams_idle(server):
    db = server.database()
    idle, closed, kept = db.stream(), db.stream(), db.stream()
    for stream in (idle, closed, kept):
        stream.run("SELECT 1")
    server.pass_time(5)
    kept.run("SELECT 1")  # every request renews the window
    server.pass_time(6.25)  # a server may round up
    for answer in (idle.send(execute("SELECT 1")), idle.send(), closed.send(CLOSE)):
        assert (answer.status, answer.content_type) == (400, "application/json")
        assert answer.fault == "The stream has expired due to inactivity"
        assert answer.body["code"] == "STREAM_EXPIRED"
    assert kept.rows("SELECT 1") == [[1]]


@pytest.fixture(scope="session", autouse=True)  # other modules may come between two servers
def under_way(request):
    """Start the scenarios of the windows on the servers with a real clock, if their tests are selected."""
    scenarios = {
        test_a_transaction_is_rolled_back_after_5_seconds: let_a_transaction_time_out_before_a_writer,
        test_a_transaction_is_rolled_back_after_5_seconds_without_other_writers: let_a_transaction_time_out,
        test_an_idle_stream_expires_after_10_seconds: let_streams_idle,
    }
    with long_waits() as under_way:
        for test, scenario in scenarios.items():
            servers = {item.callspec.params["server"] for item in selected(request, test)}
            for name in servers - {"in_process", "with_key"}:
                with suppress(pytest.skip.Exception):  # without sqld; the tests of that server are skipped then
                    under_way.begin(scenario, request.getfixturevalue(f"server_{name}"))
        yield under_way


@pytest.mark.every_server
def test_a_transaction_is_rolled_back_after_5_seconds(server, under_way):
    under_way.outcome(let_a_transaction_time_out_before_a_writer, server)


@pytest.mark.every_server
def test_a_transaction_is_rolled_back_after_5_seconds_without_other_writers(server, under_way):
    under_way.outcome(let_a_transaction_time_out, server)


@pytest.mark.every_server
def test_an_idle_stream_expires_after_10_seconds(server, under_way):
    under_way.outcome(let_streams_idle, server)


OPENERS = ["BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s"]


@pytest.mark.fake_clock
@pytest.mark.parametrize("begin", OPENERS)
def test_the_window_is_exact_and_needs_no_other_writer(server, table, begin):
    for wait, code in ((4.75, "ok"), (5.0, "TRANSACTION_TIMEOUT")):
        stream = table.stream()
        stream.run(begin, "SELECT * FROM t")
        server.pass_time(wait)
        assert stream.send(execute("SELECT 1"), CLOSE).codes == [code, "ok"]


@pytest.mark.fake_clock
def test_requests_do_not_renew_the_window(server, table):
    stream = table.stream()
    stream.run("BEGIN", "INSERT INTO t VALUES (1)")
    for _ in range(4):
        server.pass_time(1.2)
        stream.run("SELECT 1")
    server.pass_time(0.3)
    assert stream.send(execute("COMMIT")).error() == TIMEOUT
    assert rows(table) == []


@pytest.mark.fake_clock
def test_the_window_is_checked_at_each_request_without_a_sweep(server, table):
    stream = table.stream()
    stream.run("BEGIN", "INSERT INTO t VALUES (1)")
    server.clock.time += 5
    assert stream.send(execute("COMMIT")).error() == TIMEOUT
    assert rows(table) == []


@pytest.mark.fake_clock
def test_the_time_limit_restarts_with_each_transaction(server, table):
    stream = table.stream()
    for number in range(3):
        stream.run("BEGIN", f"INSERT INTO t VALUES ({number})")
        server.pass_time(4)
        stream.run("COMMIT")
    assert rows(table) == [0, 1, 2]


@pytest.mark.fake_clock
def test_after_a_timeout_nothing_of_that_pipeline_writes(server, table):
    """Otherwise the later requests would run in autocommit and apply half of the transaction."""
    stream = table.stream(version=3)
    stream.run("BEGIN", "INSERT INTO t VALUES (1)")
    server.pass_time(5)
    answer = stream.send(
        insert(2), execute("BEGIN"), insert(3), execute("COMMIT"), execute("ROLLBACK"), execute("SELECT 1"),
        {"type": "sequence", "sql": "INSERT INTO t VALUES (4)"},
    )  # fmt: skip
    assert [answer.error(number) for number in range(7)] == [TIMEOUT] * 7
    assert rows(table) == []
    stream.run("INSERT INTO t VALUES (5)")  # the next pipeline runs normally
    assert rows(table) == [5]


@pytest.mark.fake_clock
def test_after_a_timeout_every_step_of_a_batch_has_an_error(server, table):
    stream = table.stream()
    stream.run("BEGIN", "INSERT INTO t VALUES (1)")
    server.pass_time(5)
    answer = stream.send(
        batch("INSERT INTO t VALUES (2)", ("INSERT INTO t VALUES (3)", ok(0)), ("ROLLBACK", not_(ok(1)))), insert(4)
    )
    assert set(answer.steps()) == {"TRANSACTION_TIMEOUT"}
    assert answer.codes == ["ok", "TRANSACTION_TIMEOUT"]
    assert rows(table) == []


@pytest.mark.fake_clock
def test_after_a_timeout_other_requests_are_answered_normally(server, table):
    stream = table.stream(version=3)
    stream.run("BEGIN")
    server.pass_time(5)
    answer = stream.send(
        {"type": "describe", "sql": "SELECT 1"}, {"type": "store_sql", "sql_id": 1, "sql": "SELECT 1"}, GET_AUTOCOMMIT,
        {"type": "close_sql", "sql_id": 1},
    )  # fmt: skip
    assert answer.codes == ["ok"] * 4
    assert answer.response(2)["is_autocommit"] is True
    # These requests do not report the loss, so the next statement does.
    assert stream.send(execute("SELECT 1"), CLOSE).codes == ["TRANSACTION_TIMEOUT", "ok"]


@pytest.mark.fake_clock
def test_a_statement_that_runs_past_the_window_is_interrupted(server, table):
    stream = table.stream()
    stream.run("BEGIN", "INSERT INTO t VALUES (1)")
    call = Call(lambda: stream.send(execute(SLOW), insert(2), execute("COMMIT")))
    server.until_one_runs()
    server.pass_time(5.25)
    answer = call.wait()
    assert [answer.error(number) for number in range(3)] == [TIMEOUT] * 3
    assert stream.autocommit is True
    assert rows(table) == []


@pytest.mark.fake_clock
def test_a_statement_outside_of_a_transaction_has_no_window(server, table):
    stream = table.stream()
    call = Call(lambda: stream.send(execute(SLOW.replace("1000000000000", "2000000"))))
    for _ in range(15):
        if call.is_alive():
            server.pass_time(1)
            time.sleep(0.01)
    assert call.wait().codes == ["ok"]


@pytest.mark.fake_clock
def test_the_next_writer_continues_after_a_timeout(server, table):
    holder = table.stream()
    holder.run("BEGIN IMMEDIATE")
    server.pass_time(2)  # so that the holder's window ends before the other has waited for 5 s
    call = Call(lambda: table.run("INSERT INTO t VALUES (1)"))
    server.until_one_waits(table)
    server.pass_time(3)
    call.wait()
    assert rows(table) == [1]


@pytest.mark.fake_clock
def test_the_error_of_a_writer_that_waited_5_seconds_has_the_age_of_the_holder(server, table):
    """Only a single long write can take that long: every transaction before it in the queue ends earlier."""
    numbers = SLOW.replace("1000000000000", "4000000")
    holder = Call(lambda: table.run(f"INSERT INTO t {numbers}"))
    server.until_one_writes(table)
    waiter = Call(lambda: table.post(insert(1), CLOSE))
    server.until_one_waits(table)
    server.pass_time(5)
    answer = waiter.wait()
    assert answer.codes == ["SQLITE_BUSY", "ok"]
    assert "database is locked: another stream has been writing for 5.0 s" in answer.error()["message"]
    holder.wait()
    assert rows(table) == [4_000_000]


@pytest.mark.fake_clock
def test_waiting_counts_towards_the_window(server, table):
    holder, waiter = table.stream(), table.stream()
    waiter.run("BEGIN")
    server.pass_time(2)
    holder.run("BEGIN IMMEDIATE")
    call = Call(lambda: waiter.send(insert(1), execute("COMMIT"), CLOSE))
    server.until_one_waits(table)
    server.pass_time(3)
    assert call.wait().codes == ["TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT", "ok"]
    holder.run("COMMIT")
    assert rows(table) == []
