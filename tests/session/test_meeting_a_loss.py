"""Cells that meet the end of their transaction in a response: on the service, on sqld, and on a server with the seed.

Each begins with a transaction that the server ends during a pause.
"""

from __future__ import annotations

import pytest
from ended_streams import end_at_server
from seed_server import SeedServer

from pipemagic.client.database import Database
from pipemagic.client.transaction import Certainty, Reason
from pipemagic.errors import SessionError, StatementError, TransactionLost
from pipemagic.hrana.stream import Tx
from pipemagic.session import Connection, Session
from pipemagic.session.cell import RunOptions
from pipemagic.session.transactions import RETRY

TABLE = "CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1)"


def session_on(database):
    session = Session(environ={})
    session.adopt(Connection("main", database, "a test"))
    session.run(f"{TABLE}; BEGIN; INSERT INTO n VALUES (2)")
    return session


@pytest.fixture(params=["service", "service, 6 s", "sqld", "silent", "error", "silent, 6 s", "error, 6 s"])
def ended(request, clock, tmp_path):
    """A session with a transaction that the server has ended, and does not know to have ended."""
    kind, _, short = request.param.partition(", ")
    if kind == "service":
        session = session_on(request.getfixturevalue("make_database")())
        clock.advance(6 if short else 12)
        yield session
    elif kind == "sqld":
        made = request.getfixturevalue("sqld_database")
        with Database(made.url, made.token) as database:
            session = session_on(database)
            end_at_server(session.connection())
            yield session
    else:
        server = SeedServer(tmp_path, clock, limit=kind)
        with Database(server.url, "token", clock=clock) as database:
            session = session_on(database)
            clock.advance(6 if short else 12)
            yield session
        server.close()


def ids(session):
    return session.run("SELECT i FROM n ORDER BY i")["i"].tolist()


def test_a_rollback_has_reached_its_aim(ended):
    assert [outcome.statement.text for outcome in ended.run_cell("ROLLBACK").outcomes] == ["ROLLBACK"]
    connection = ended.connection()
    assert (connection.transaction, connection.loss) == (Tx.NONE, None)
    ended.run("INSERT INTO n VALUES (3)")
    with pytest.raises(SessionError, match=r"^nothing to rerun on main\n"):
        connection.to_retry()
    assert ids(ended) == [1, 3]


def test_the_command_says_that_the_server_was_first(ended):
    assert ended.connection().rollback() is None
    assert ids(ended) == [1]
    ended.run("BEGIN; INSERT INTO n VALUES (4)")
    assert ended.connection().rollback().count == 1


def test_the_rest_of_a_cell_that_begins_with_a_rollback_runs_once(ended):
    result = ended.run_cell("ROLLBACK;\nINSERT INTO n VALUES (3);\nBEGIN;\nINSERT INTO n VALUES (4)")
    assert [outcome.affected_row_count for outcome in result.outcomes] == [0, 1, 0, 1]
    assert ended.connection().statements_open == 1
    assert ended.connection().commit().count == 1
    assert ids(ended) == [1, 3, 4]


@pytest.mark.parametrize(
    "cell", ["COMMIT", "END", "INSERT INTO n VALUES (3); COMMIT", "COMMIT; INSERT INTO n VALUES (3)"]
)
def test_after_the_end_of_a_transaction_the_next_cell_runs(ended, cell):
    with pytest.raises(TransactionLost, match=r"Undone:\n  BEGIN\n  INSERT INTO n VALUES") as caught:
        ended.run(cell)
    assert "until BEGIN or ROLLBACK" not in caught.value.hint
    connection = ended.connection()
    assert (connection.transaction, connection.loss.certain) == (Tx.NONE, True)
    assert connection.loss.not_run == (("INSERT INTO n VALUES (3)",) if "INSERT" in cell else ())
    ended.run("INSERT INTO n VALUES (4)")
    assert ids(ended) == [1, 4]


@pytest.mark.parametrize("cell", ["COMMIT", "SELECT nope FROM n", "COMMIT; INSERT INTO n VALUES (3)"])
def test_a_failed_cell_that_changed_nothing_leaves_the_retry(ended, cell):
    with pytest.raises(TransactionLost):
        ended.run("COMMIT")
    for _ in range(2):
        with pytest.raises(StatementError) as caught:
            ended.run(cell)
        assert caught.value.hint.endswith(RETRY) is ("COMMIT" in cell)
    ended.connection().retry()
    assert ids(ended) == [1, 2]


def test_a_begin_that_fails_lets_no_part_of_the_transaction_run_alone(ended):
    with pytest.raises(TransactionLost):
        ended.run("INSERT INTO n VALUES (3)")
    with pytest.raises(StatementError):
        ended.run("BEGIN IMEDIATE; INSERT INTO n VALUES (2)")
    with pytest.raises(TransactionLost, match=r"^not run, because the transaction before it was rolled back"):
        ended.run("INSERT INTO n VALUES (3)")
    ended.connection().retry()
    assert ids(ended) == [1, 2]


def test_an_atomic_cell_that_fails_leaves_the_retry(ended):
    with pytest.raises(TransactionLost):
        ended.run("COMMIT")
    with pytest.raises(StatementError):
        ended.run_cell("INSERT INTO n VALUES (3); INSERT INTO n VALUES (1)", options=RunOptions(atomic=True))
    ended.connection().retry()
    assert ids(ended) == [1, 2]


@pytest.mark.parametrize("cell", ["INSERT OR FAIL INTO n VALUES (3), (1)", "ROLLBACK; SELECT nope FROM n"])
def test_a_failed_cell_that_may_have_changed_something_ends_the_retry(ended, cell):
    with pytest.raises(TransactionLost):
        ended.run("COMMIT")
    with pytest.raises(StatementError):
        ended.run(cell)
    with pytest.raises(SessionError, match=r"^nothing to rerun on main\n"):
        ended.connection().retry()


@pytest.mark.parametrize("cell", ["INSERT INTO n VALUES (3)", "COMMIT; BEGIN; INSERT INTO n VALUES (3)", "SAVEPOINT a"])
def test_a_cell_that_would_leave_a_transaction_open_refuses_the_next_one(ended, cell):
    with pytest.raises(TransactionLost, match="Undone:") as caught:
        ended.run(cell)
    assert "until BEGIN or ROLLBACK" in caught.value.hint
    with pytest.raises(TransactionLost, match="not run"):
        ended.run("INSERT INTO n VALUES (4)")
    ended.connection().retry()
    assert ids(ended) == [1, 2]


def test_retry_asks_the_server_first(ended):
    connection = ended.connection()
    assert connection.transaction is Tx.OPEN
    assert [statement.text for statement in connection.to_retry().statements] == ["INSERT INTO n VALUES (2)"]
    assert connection.transaction is Tx.LOST
    assert [outcome.affected_row_count for outcome in connection.retry().outcomes] == [1]
    assert ids(ended) == [1, 2]


def test_a_loss_that_retry_learned_is_reported_by_the_next_cell(ended):
    ended.connection().to_retry()
    with pytest.raises(TransactionLost, match=r"Undone:\n  BEGIN\n  INSERT INTO n VALUES"):
        ended.run("BEGIN")


def test_an_atomic_cell_that_meets_the_loss_is_left_over(ended):
    with pytest.raises(TransactionLost, match="Undone:"):
        ended.run_cell("INSERT INTO n VALUES (3)", options=RunOptions(atomic=True))
    assert ended.connection().loss.not_run == ("INSERT INTO n VALUES (3)",)
    ended.connection().retry()
    assert ids(ended) == [1, 2]


def test_retry_of_an_open_transaction_says_how_to_end_it(timed):
    timed.run(f"{TABLE}; BEGIN; INSERT INTO n VALUES (2)")
    with pytest.raises(
        SessionError, match=r"^nothing to rerun on main: its transaction is still open\nHint: COMMIT keeps"
    ):
        timed.connection().retry()
    assert timed.connection().commit().count == 1
    assert ids(timed) == [1, 2]


# -- a server that does not say that it has ended the transaction


class SlowSeed(SeedServer):
    """A server whose clock goes on while a statement that contains ``slow`` is on its way."""

    slow = "never"

    def _pipeline(self, call):
        if self.slow in call.body.decode():
            self._clock.advance(0.3)
        return super()._pipeline(call)


@pytest.fixture(params=["silent", ""])
def slow(request, tmp_path, clock):
    """A session with a transaction on a server which ends it after 5 s, or never, and the server."""
    server = SlowSeed(tmp_path, clock, limit=request.param, idle=60)
    with Database(server.url, "token", clock=clock) as database:
        yield session_on(database), server, bool(request.param)
    server.close()


def overrun(session, server, clock, cell="INSERT INTO n VALUES (3)"):
    server.slow = "VALUES (3)"
    clock.advance(4.9)
    session.run(cell)


def test_a_statement_that_may_have_run_outside_is_not_rerun(slow, clock):
    session, server, has_limit = slow
    overrun(session, server, clock)
    connection = session.connection()
    if not has_limit:
        assert connection.commit().count == 2
        assert ids(session) == [1, 2, 3]
        return
    with pytest.raises(
        SessionError, match=r"^not rerun, because its last statements may have run after its end"
    ) as caught:
        connection.retry()
    assert caught.value.hint == "check the data before you run it again"
    with pytest.raises(TransactionLost) as lost:
        session.run("COMMIT")
    assert "may have run after its end, and would then be applied:\n  BEGIN\n" in lost.value.message
    assert lost.value.hint == "check the data, then rerun the statements that were not applied, from BEGIN"
    assert ids(session) == [1, 3]


def test_nor_if_its_own_cell_met_the_end(slow, clock):
    session, server, has_limit = slow
    if has_limit:
        with pytest.raises(TransactionLost, match=r"may have run after its end(.|\n)* {2}INSERT INTO n VALUES \(3\)"):
            overrun(session, server, clock, "INSERT INTO n VALUES (3); INSERT INTO n VALUES (4)")
        assert session.connection().loss.not_run == ("INSERT INTO n VALUES (4)",)
        with pytest.raises(SessionError, match=r"^not rerun"):
            session.connection().retry()
        session.run("ROLLBACK")
        assert ids(session) == [1, 3]


def test_a_later_proof_that_it_is_open_makes_a_rerun_certain(slow, clock):
    session, server, has_limit = slow
    if has_limit:
        return
    overrun(session, server, clock)
    connection = session.connection()
    assert (connection.check_server(), connection.transaction) == ("", Tx.OPEN)
    clock.advance(70)  # the server ends the stream
    assert connection.check_server() == ""
    assert (connection.loss.certainty, connection.loss.reason) == (Certainty.ALL, Reason.IDLE_LIMIT)
    connection.retry()
    assert ids(session) == [1, 2, 3]
