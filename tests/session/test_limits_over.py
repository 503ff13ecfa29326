"""A transaction whose time is certainly over is lost as soon as anybody looks; nothing is sent for that."""

from __future__ import annotations

import threading

import pytest

from pipemagic.client.database import Database
from pipemagic.errors import TransactionLost
from pipemagic.hrana.stream import Tx
from pipemagic.session import Connection, Session
from pipemagic.session.connection import RunOptions
from pipemagic.session.messages import describe_transaction

BOTH = (
    "the server rolled the transaction back: it must be committed within 5 s and was open for longer; "
    "the connection was idle for more than 10 s and was closed"
)
LATE = BOTH.partition(";")[0]
TABLE = "CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1)"


class Requests:
    """Counts the requests on the stream of a connection."""

    def __init__(self, connection, monkeypatch):
        self.sent = []
        stream = connection.stream
        exchange = stream._exchange

        def counted(requests, **options):
            self.sent.append([one.stmt.sql if hasattr(one, "stmt") else type(one).__name__ for one in requests])
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


def ids(session):
    return session.run("SELECT i FROM n ORDER BY i")["i"].tolist()


def described(connection):
    return describe_transaction(connection.transaction, connection.statements_open, connection.loss)


LOOKS = {
    "transaction": lambda one: one.transaction is Tx.LOST,
    "loss": lambda one: one.loss.statements == ["BEGIN", "INSERT INTO n VALUES (2)"],
    "remaining time": lambda one: one.remaining_time.transaction is None,
    "to_retry": lambda one: [statement.text for statement in one.to_retry().statements] == ["INSERT INTO n VALUES (2)"],
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_reading_the_state_records_the_loss_without_a_request(late, look):
    connection = late.connection()
    assert connection._transaction.state is Tx.OPEN
    assert look(connection)
    assert connection._transaction.state is Tx.LOST
    loss = connection.loss
    assert (loss.why, loss.rolled_back, loss.refusing, loss.timed_out, loss.doubt) == (LATE, True, True, True, "")
    assert late.requests == []


def test_the_words_for_each_state(timed, clock):
    timed.run(TABLE)
    connection = timed.connection()
    assert described(connection) == "No transaction"
    timed.run("BEGIN; INSERT INTO n VALUES (2)")
    assert described(connection) == "Transaction open, 1 statement so far"
    clock.advance(5.4)
    assert described(connection) == "Transaction open, 1 statement so far"
    clock.advance(0.2)
    assert described(connection) == "Transaction timed out and was rolled back"
    timed.run("ROLLBACK; BEGIN; INSERT INTO n VALUES (2)")
    with pytest.raises(Exception, match="UNIQUE"):
        timed.run("INSERT OR ROLLBACK INTO n VALUES (1)")
    assert described(connection) == "Transaction lost"


def test_on_servers_with_loose_limits_only_the_idle_time_counts(seed_server, clock):
    with Database(seed_server.url, "token", clock=clock) as database:
        session = Session(environ={})
        connection = session.adopt(Connection("main", database, "a test"))
        session.run(f"{TABLE}; BEGIN; INSERT INTO n VALUES (2)")
        assert not database.transport.strict_limits
        clock.advance(10.4)
        assert connection.transaction is Tx.OPEN
        clock.advance(0.2)
        assert connection.transaction is Tx.LOST
        assert connection.loss.why == BOTH


def test_the_time_of_a_transaction_counts_from_when_it_is_known_to_be_open(timed, clock):
    """The request took 4 s before it came to BEGIN, which is all that a client can know of it."""
    timed.run(TABLE)
    connection = timed.connection()
    post = connection.stream._post

    def slow(*args):
        clock.advance(4)
        return post(*args)

    connection.stream._post = slow
    timed.run("BEGIN; INSERT INTO n VALUES (2)")
    connection.stream._post = post
    clock.advance(2)
    assert connection.transaction is Tx.OPEN
    assert connection.commit() == 1


def test_the_first_cell_after_a_loss_lists_the_undone_statements(late):
    assert late.connection().transaction is Tx.LOST
    with pytest.raises(TransactionLost) as caught:
        late.run("UPDATE n SET i = 9;\nINSERT INTO n VALUES (3)")
    assert caught.value.message.split("\n") == [LATE, "Undone:", "  BEGIN", "  INSERT INTO n VALUES (2)"]
    assert caught.value.hint.split("\n") == [
        "Rerun the cells from BEGIN, or put the whole transaction into one cell.",
        "%pipedb retry reruns the undone statements, all or nothing.",
        "Until BEGIN or ROLLBACK no other statement runs here, so that no part of it is applied alone.",
    ]
    assert late.requests == []
    assert late.connection().left_over == ("UPDATE n SET i = 9", "INSERT INTO n VALUES (3)")
    with pytest.raises(TransactionLost, match=r"^not run, .*\nRerun the cells from BEGIN, or run ROLLBACK"):
        late.run("INSERT INTO n VALUES (4)")
    late.run("BEGIN; INSERT INTO n VALUES (5)")
    late.run("COMMIT")
    assert ids(late) == [1, 5]


def test_a_begin_does_not_hide_an_unreported_loss(late):
    assert late.connection().transaction is Tx.LOST
    with pytest.raises(TransactionLost, match="INSERT INTO n VALUES"):
        late.connection().begin()
    late.connection().begin()
    assert late.connection().commit() == 0
    assert ids(late) == [1]


@pytest.mark.parametrize("how", ["command", "cell"])
def test_rollback_accepts_the_loss_and_sends_nothing(late, how):
    connection = late.connection()
    assert connection.rollback() == 0 if how == "command" else late.run("ROLLBACK") is None
    assert late.requests == []
    assert (connection.transaction, connection.loss) == (Tx.NONE, None)
    assert late.run("SELECT count(*) AS n FROM kept")["n"].tolist() == [0]  # the stream is still the same
    assert late.requests[0] == ["ROLLBACK"]  # the server has to report the timeout, which is known
    assert len(late.requests) == 2
    assert ids(late) == [1]
    assert len(late.requests) == 3


def test_an_atomic_cell_does_not_run_before_the_loss_is_accepted(late):
    with pytest.raises(TransactionLost, match="Undone:"):
        late.run_cell("INSERT INTO n VALUES (3)", options=RunOptions(atomic=True))
    late.connection().rollback()
    late.run_cell("INSERT INTO n VALUES (3)", options=RunOptions(atomic=True))
    assert ids(late) == [1, 3]


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
        assert connection.transaction is Tx.OPEN
        assert connection.statements_open == 1
        assert connection.loss is None
        assert connection.remaining_time.transaction == 0.0
    finally:
        leave.set()
        thread.join()
    assert connection.transaction is Tx.LOST
