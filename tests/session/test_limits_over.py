"""A transaction whose time is over is open until a response of the server says that it is not: the server decides."""

from __future__ import annotations

import threading

import pytest
from seed_server import SeedServer

from pipemagic.client.database import Database
from pipemagic.client.transaction import Reason
from pipemagic.errors import TransactionLost
from pipemagic.hrana.stream import Tx
from pipemagic.session import Connection, Session
from pipemagic.session.cell import RunOptions
from pipemagic.session.transactions import describe_transaction

LATE = "the server rolled the transaction back: it must be committed within 5 s and was open for longer"
TOO_LONG = "the server rolled the transaction back: it was open for longer than the server allows"
IDLE = "the server rolled the transaction back: the connection was idle for more than 10 s and was closed"
TABLE = "CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1)"


class Requests:
    """Counts the requests on the stream of a connection."""

    def __init__(self, connection, monkeypatch):
        self.sent = []
        stream = connection.stream
        exchange = stream._exchange

        def counted(requests, **options):
            self.sent.append(
                [request.stmt.sql if hasattr(request, "stmt") else type(request).__name__ for request in requests]
            )
            return exchange(requests, **options)

        monkeypatch.setattr(stream, "_exchange", counted)


@pytest.fixture
def late(timed, clock, monkeypatch):
    """A session on our service with a transaction whose 5 s are over, and the requests that were sent since."""
    timed.run(TABLE)
    timed.run("CREATE TEMP TABLE kept (a)")
    timed.run("BEGIN; INSERT INTO n VALUES (2)")
    clock.advance(5.6)
    timed.requests = Requests(timed.connection(), monkeypatch).sent
    return timed


def test_a_begin_that_got_its_lock_did_not_wait_until_its_time_was_over(timed, clock, monkeypatch):
    timed.run(TABLE)
    stream = timed.connection().stream
    send = stream.send

    def late(requests, **options):
        entries = send(requests, **options)
        clock.advance(5.6 if requests[0].stmt.sql == "BEGIN IMMEDIATE" else 0)
        return entries

    monkeypatch.setattr(stream, "send", late)
    with pytest.raises(TransactionLost) as caught:
        timed.run_cell("BEGIN IMMEDIATE; INSERT INTO n VALUES (2); COMMIT", options=RunOptions(timeout=60))
    assert caught.value.message.startswith(f"{LATE}\nUndone, or not run:\n  BEGIN IMMEDIATE\n")
    assert caught.value.ran == 1


def ids(session):
    return session.run("SELECT i FROM n ORDER BY i")["i"].tolist()


def described(connection):
    return describe_transaction(connection.transaction, connection.statements_open, connection.loss)


@pytest.fixture
def lost(late):
    """The same session after `%pipedb status` learned from the server that the transaction is lost."""
    assert late.connection().check_server() == ""
    late.requests.clear()
    return late


def test_reading_the_state_sends_nothing_and_changes_nothing(late):
    connection = late.connection()
    assert (connection.transaction, connection.loss, connection.statements_open) == (Tx.OPEN, None, 1)
    assert connection.remaining_time.transaction == 0.0
    assert late.requests == []


def test_a_check_learns_the_loss_from_a_response(late):
    connection = late.connection()
    assert connection.check_server() == ""
    assert late.requests == [["SELECT 1"]]
    assert connection.transaction is Tx.LOST
    loss = connection.loss
    assert (loss.reason, loss.certain, loss.message) == (Reason.TRANSACTION_LIMIT, True, LATE)
    assert loss.texts == ["BEGIN", "INSERT INTO n VALUES (2)"]
    assert connection.remaining_time.transaction is None
    assert [statement.text for statement in connection.to_retry().statements] == ["INSERT INTO n VALUES (2)"]


def test_the_words_for_each_state(timed, clock):
    timed.run(TABLE)
    connection = timed.connection()
    assert described(connection) == "No transaction"
    timed.run("BEGIN; INSERT INTO n VALUES (2)")
    assert described(connection) == "Transaction open, 1 statement so far"
    clock.advance(5.6)
    assert described(connection) == "Transaction open, 1 statement so far"
    connection.check_server()
    assert described(connection) == "Transaction timed out and was rolled back"
    with pytest.raises(TransactionLost):
        timed.run("SELECT 1")
    timed.run("ROLLBACK; BEGIN; INSERT INTO n VALUES (2)")
    with pytest.raises(Exception, match="UNIQUE"):
        timed.run("INSERT OR ROLLBACK INTO n VALUES (1)")
    assert described(connection) == "Transaction lost"


@pytest.fixture
def seed(request, tmp_path, clock):
    """A session with an open transaction on a server with the seed alone, which has limits or none."""
    own_clock = {"none": lambda: 0.0}.get(request.param, clock)
    server = SeedServer(tmp_path, own_clock, limit="" if request.param == "none" else request.param)
    with Database(server.url, "token", clock=clock) as database:
        session = Session(environ={})
        session.adopt(Connection("main", database, "a test"))
        session.run(f"{TABLE}; BEGIN; INSERT INTO n VALUES (2)")
        yield session
    server.close()


@pytest.mark.parametrize("seed", ["none"], indirect=True)
@pytest.mark.parametrize("seconds", [7, 12, 3600])
def test_a_server_without_limits_keeps_a_transaction(seed, clock, seconds):
    connection = seed.connection()
    clock.advance(seconds)
    assert (connection.check_server(), connection.transaction) == ("", Tx.OPEN)
    seed.run("INSERT INTO n VALUES (3)")
    assert connection.commit().count == 2
    assert ids(seed) == [1, 2, 3]


@pytest.mark.parametrize("seed", ["silent", "error"], indirect=True)
@pytest.mark.parametrize(("seconds", "why"), [(7, TOO_LONG), (12, IDLE)])
def test_on_a_server_with_limits_and_no_words_no_statement_runs_outside_its_transaction(seed, clock, seconds, why):
    clock.advance(seconds)
    with pytest.raises(TransactionLost) as caught:
        seed.run("INSERT INTO n VALUES (3)")
    assert caught.value.message.split("\n") == [why, "Undone:", "  BEGIN", "  INSERT INTO n VALUES (2)"]
    seed.run("ROLLBACK")
    assert ids(seed) == [1]


def test_the_first_cell_after_a_loss_lists_the_undone_statements(lost):
    assert lost.connection().transaction is Tx.LOST
    with pytest.raises(TransactionLost) as caught:
        lost.run("UPDATE n SET i = 9;\nINSERT INTO n VALUES (3)")
    assert caught.value.message.split("\n") == [LATE, "Undone:", "  BEGIN", "  INSERT INTO n VALUES (2)"]
    assert caught.value.hint.split("\n") == [
        "rerun the cells from BEGIN, or put the whole transaction into one cell",
        "%pipedb retry reruns the undone statements, all or nothing",
        "until BEGIN or ROLLBACK no other statement runs here, so that no part of it is applied alone",
    ]
    assert lost.requests == []
    assert lost.connection().loss.not_run == ("UPDATE n SET i = 9", "INSERT INTO n VALUES (3)")
    with pytest.raises(TransactionLost, match=r"^not run, .*\nHint: rerun the cells from BEGIN, or run ROLLBACK"):
        lost.run("INSERT INTO n VALUES (4)")
    lost.run("BEGIN; INSERT INTO n VALUES (5)")
    lost.run("COMMIT")
    assert ids(lost) == [1, 5]


def test_a_begin_does_not_hide_an_unreported_loss(lost):
    assert lost.connection().transaction is Tx.LOST
    with pytest.raises(TransactionLost, match="INSERT INTO n VALUES"):
        lost.connection().begin()
    lost.connection().begin()
    assert lost.connection().commit().count == 0
    assert ids(lost) == [1]


@pytest.mark.parametrize("how", ["command", "cell"])
def test_rollback_accepts_the_loss_and_sends_nothing(lost, how):
    connection = lost.connection()
    assert connection.rollback().count == 0 if how == "command" else lost.run("ROLLBACK") is None
    assert lost.requests == []
    assert (connection.transaction, connection.loss) == (Tx.NONE, None)
    assert lost.run("SELECT count(*) AS n FROM kept")["n"].tolist() == [0]  # the stream is still the same
    assert ids(lost) == [1]
    assert len(lost.requests) == 2


def test_an_atomic_cell_does_not_run_before_the_loss_is_accepted(lost):
    with pytest.raises(TransactionLost, match="Undone:"):
        lost.run_cell("INSERT INTO n VALUES (3)", options=RunOptions(atomic=True))
    lost.connection().rollback()
    lost.run_cell("INSERT INTO n VALUES (3)", options=RunOptions(atomic=True))
    assert ids(lost) == [1, 3]


def test_a_running_cell_is_not_disturbed(late):
    connection, entered, leave = late.connection(), threading.Event(), threading.Event()

    def cell():
        with connection._lock:
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=cell)
    thread.start()
    assert entered.wait(10)
    try:
        assert connection.check_server() == ""
        assert (connection.transaction, connection.statements_open) == (Tx.OPEN, 1)
        assert connection.remaining_time.transaction == 0.0
    finally:
        leave.set()
        thread.join()
    assert late.requests == []
    assert (connection.check_server(), connection.transaction) == ("", Tx.LOST)
