"""Streams that expire and transactions that are lost, on the real service with a clock that the tests move."""

from __future__ import annotations

import threading

import httpx
import pytest

from pipemagic.client.transaction import Certainty, Reason
from pipemagic.errors import (
    InterruptedRequest,
    PipemagicError,
    ServiceError,
    SessionError,
    StatementError,
    TransactionLost,
    UnknownOutcome,
)
from pipemagic.hrana.stream import Tx
from pipemagic.session import Connection, Session
from pipemagic.session.cell import RunOptions
from pipemagic.session.transactions import CHECK_FIRST


@pytest.fixture
def numbers(timed):
    timed.run("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1)")
    return timed


def count(session):
    return int(session.run("SELECT count(*) FROM n").iloc[0, 0])


def test_an_idle_stream_is_opened_again_without_a_word(numbers, clock):
    clock.advance(11)
    result = numbers.run_cell("INSERT INTO n VALUES (2)")
    assert result.notes == ()
    assert count(numbers) == 2


def test_settings_are_restored_before_the_cell_and_reported_in_one_line(numbers, clock):
    numbers.run("CREATE TABLE child (i REFERENCES n); PRAGMA foreign_keys = OFF")
    clock.advance(11)
    result = numbers.run_cell("INSERT INTO child VALUES (99)")
    assert result.notes == ("The connection was reopened (set again: PRAGMA foreign_keys = OFF).",)


def test_the_line_also_comes_when_the_cell_fails(numbers, clock):
    numbers.run("PRAGMA foreign_keys = OFF")
    clock.advance(11)
    with pytest.raises(StatementError) as caught:
        numbers.run("SELECT nope FROM n")
    assert "The connection was reopened (set again: PRAGMA foreign_keys = OFF)." in caught.value.message


def test_a_restart_within_the_limits_is_reported_as_such(numbers, service):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")
    numbers.connection().stream.baton = "of-the-process-before"
    with pytest.raises(TransactionLost, match=r"was it restarted, or are its limits shorter\?\)\nUndone:\n"):
        numbers.run("COMMIT")


@pytest.mark.parametrize("cell", ["SELECT 1", "ROLLBACK TO a", "INSERT INTO n VALUES (3); COMMIT"])
def test_run_all_cannot_apply_the_second_half_alone(numbers, clock, cell):
    numbers.run("BEGIN; SAVEPOINT a; INSERT INTO n VALUES (2)")
    clock.advance(6)
    with pytest.raises(TransactionLost):
        numbers.run("INSERT INTO n VALUES (3)")
    with pytest.raises(TransactionLost, match=r"^not run, .*\nHint: rerun the cells from BEGIN, or run ROLLBACK"):
        numbers.run(cell)
    numbers.run("ROLLBACK")
    assert count(numbers) == 1


def test_closing_the_stream_does_not_hide_the_loss(numbers, clock):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")
    clock.advance(6)
    with pytest.raises(TransactionLost):
        numbers.run_cell("INSERT INTO n VALUES (3)", options=RunOptions(close=True))
    with pytest.raises(TransactionLost, match="not run"):
        numbers.run("INSERT INTO n VALUES (3)")
    numbers.run("ROLLBACK; INSERT INTO n VALUES (4)")
    assert count(numbers) == 2


def test_the_first_rollback_after_a_loss_has_nothing_to_do(numbers, clock):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")
    clock.advance(6)
    with pytest.raises(TransactionLost) as caught:
        numbers.run("COMMIT")  # it was the end of the transaction, so nothing after it is refused
    assert caught.value.hint == (
        "rerun the cells from BEGIN, or put the whole transaction into one cell\n"
        "%pipedb retry reruns the undone statements, all or nothing"
    )
    assert [outcome.statement.text for outcome in numbers.run_cell("ROLLBACK").outcomes] == ["ROLLBACK"]
    with pytest.raises(StatementError, match="cannot rollback"):
        numbers.run("ROLLBACK")


def test_statements_after_a_rollback_that_had_nothing_to_do_keep_their_numbers(numbers, clock):
    numbers.run("BEGIN")
    clock.advance(6)
    with pytest.raises(TransactionLost):
        numbers.run("SELECT 1")
    with pytest.raises(StatementError) as caught:
        numbers.run("ROLLBACK;\nINSERT INTO n VALUES (2);\nSELECT nope FROM n;\nSELECT 1")
    assert "statement 3 of 4, line 3:" in caught.value.message
    assert "Statement 2 was applied; statement 4 did not run." in caught.value.message


def begin(session):
    session.run("BEGIN")
    session.run("INSERT INTO n VALUES (2)")


def lose(session, cell="INSERT INTO n VALUES (3)"):
    with pytest.raises(PipemagicError):
        session.run(cell)


def idle_for_12_s(session, clock, lose_answer):
    begin(session)
    clock.advance(12)
    lose(session)


def open_for_6_s(session, clock, lose_answer):
    begin(session)
    clock.advance(6)
    lose(session)


def whole_in_one_cell(session, clock, lose_answer):
    begin(session)
    clock.advance(6)
    lose(session, "INSERT INTO n VALUES (3); COMMIT")


def failed_statement(session, clock, lose_answer):
    begin(session)
    lose(session, "INSERT OR ROLLBACK INTO n VALUES (1)")


def unknown_baton(session, clock, lose_answer):
    begin(session)
    session.connection().stream.baton = "of-the-process-before"
    lose(session)


def no_response_inside(session, clock, lose_answer):
    begin(session)
    lose_answer(session, "INSERT INTO n VALUES (3)")


def no_response_to_commit(session, clock, lose_answer):
    begin(session)
    lose_answer(session, "COMMIT")


def no_response_outside(session, clock, lose_answer):
    lose_answer(session, "INSERT INTO n VALUES (3)")


def no_response_to_a_whole_transaction(session, clock, lose_answer):
    lose_answer(session, "BEGIN; INSERT INTO n VALUES (2); COMMIT")


LOST, PASSED = Tx.LOST, Tx.NONE
BEFORE, WHOLE = ["BEGIN", "INSERT INTO n VALUES (2)"], ["BEGIN", "INSERT INTO n VALUES (2)", "COMMIT"]


@pytest.mark.parametrize(
    ("happen", "reason", "certain", "state", "statements", "all_ran", "not_run"),
    [
        (idle_for_12_s, Reason.IDLE_LIMIT, True, LOST, BEFORE, True, 1),
        (open_for_6_s, Reason.TRANSACTION_LIMIT, True, LOST, BEFORE, True, 1),
        (whole_in_one_cell, Reason.TRANSACTION_LIMIT, True, PASSED, BEFORE, True, 1),
        (failed_statement, Reason.FAILED_STATEMENT, True, LOST, BEFORE, True, 1),
        (unknown_baton, Reason.SERVER_CLOSED, True, LOST, BEFORE, True, 1),
        (no_response_inside, Reason.UNKNOWN_OUTCOME, True, LOST, BEFORE, True, 1),
        (no_response_to_commit, Reason.UNKNOWN_OUTCOME, False, PASSED, BEFORE, True, 0),
        (no_response_outside, Reason.UNKNOWN_OUTCOME, False, PASSED, [], True, 0),
        (no_response_to_a_whole_transaction, Reason.UNKNOWN_OUTCOME, False, PASSED, WHOLE, False, 0),
    ],
)
def test_every_combination_of_a_loss(
    numbers, clock, lose_answer, happen, reason, certain, state, statements, all_ran, not_run
):
    happen(numbers, clock, lose_answer)
    connection, loss = numbers.connection(), numbers.connection().loss
    assert (loss.reason, loss.certain, connection.transaction) == (reason, certain, state)
    assert (loss.texts, loss.all_ran, len(loss.not_run)) == (statements, all_ran, not_run)
    assert loss.can_rerun is (certain and bool(statements))
    assert loss.message
    if certain:
        numbers.run("ROLLBACK")  # has no effect
        assert (connection.transaction, connection.loss) == (Tx.NONE, None)
    else:
        with pytest.raises(SessionError, match=r"it is not known whether it was (applied|committed)"):
            connection.retry()
        with pytest.raises(StatementError, match="no transaction is active"):
            numbers.run("ROLLBACK")
        assert connection.loss is None


def test_a_commit_without_a_response_before_another_transaction_is_to_be_checked(numbers, transport, monkeypatch):
    begin(numbers)
    handle = transport.handle_request

    def cut(request):
        handle(request)
        raise httpx.ReadError("cut")

    monkeypatch.setattr(transport, "handle_request", cut)
    with pytest.raises(UnknownOutcome) as caught:
        numbers.run("COMMIT; BEGIN; INSERT INTO n VALUES (3)")
    monkeypatch.undo()
    connection = numbers.connection()
    assert (connection.loss.certainty, connection.transaction) == (Certainty.NOTHING, Tx.LOST)
    assert caught.value.hint.startswith(CHECK_FIRST)
    numbers.run("ROLLBACK")
    assert numbers.run("SELECT i FROM n")["i"].tolist() == [1, 2]


ENDLESS = "SELECT count(*) FROM (WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i FROM c)"


@pytest.fixture
def time_flies(service, clock):
    """Let 6 s pass while a statement of a transaction runs, for each one until the test ends.

    No time passes else, however slow the machine is: a stream would expire, or a stopped statement be given up.
    """
    over = threading.Event()

    def runs(stream):
        return stream.state.transaction is Tx.OPEN and stream.running and not stream.connection.stopped

    def fly():
        while not over.wait(0.02):
            if any(map(runs, list(service.engine.streams._streams.values()))):
                clock.advance(6)
                service.engine.sweep()

    flying = threading.Thread(target=fly)
    yield flying
    over.set()
    flying.join()


def test_a_cell_that_takes_too_long_lists_its_undone_statements(numbers, time_flies):
    numbers.run("INSERT INTO n VALUES (2)")
    time_flies.start()
    with pytest.raises(TransactionLost) as caught:
        numbers.run(f"SELECT 1; BEGIN; INSERT INTO n VALUES (3); {ENDLESS}; COMMIT")
    assert "within 5 s" in caught.value.message.split("\n")[0]
    assert caught.value.message.split("\n")[1:4] == ["Undone, or not run:", "  BEGIN", "  INSERT INTO n VALUES (3)"]
    assert caught.value.hint.startswith("split the transaction")


def test_a_dump_that_takes_too_long_names_the_line_that_restores_it(numbers, time_flies):
    time_flies.start()
    script = f"PRAGMA foreign_keys=OFF; BEGIN; CREATE TABLE m (i); INSERT INTO m VALUES (1); {ENDLESS}; COMMIT"
    with pytest.raises(TransactionLost) as caught:
        numbers.run(script)
    assert caught.value.hint == (
        "A transaction has a time limit. This line creates a database from a script of any length in a file:\n"
        "%pipedb create-database NAME --from-dump FILE"
    )
    assert numbers.connection().stream is None  # the next one begins with foreign keys
    with pytest.raises(TransactionLost) as caught:  # it creates no table, so no database can be made of it
        numbers.run(f"PRAGMA foreign_keys=OFF; BEGIN; INSERT INTO n VALUES (3); {ENDLESS}; COMMIT")
    assert caught.value.hint.startswith("split the transaction")


def test_a_setting_of_a_cell_that_takes_too_long_is_known_and_named(numbers, time_flies):
    time_flies.start()
    with pytest.raises(TransactionLost) as caught:
        numbers.run(f"PRAGMA foreign_keys=OFF; BEGIN; INSERT INTO n VALUES (3); {ENDLESS}")
    effect = "oreign keys are not checked on this connection until PRAGMA foreign_keys = ON"
    assert caught.value.message.endswith(f"F{effect}.")
    numbers.run("ROLLBACK")
    assert numbers.run("PRAGMA foreign_keys").iloc[0, 0] == 0
    assert numbers.connection().effects() == [f"f{effect}"]


def test_a_cell_that_takes_too_long_and_has_no_commit_is_refused_its_rest(numbers, time_flies):
    time_flies.start()
    with pytest.raises(TransactionLost):
        numbers.run(f"BEGIN; INSERT INTO n VALUES (3); {ENDLESS}")
    with pytest.raises(TransactionLost, match="not run"):
        numbers.run("INSERT INTO n VALUES (4); COMMIT")
    numbers.run("ROLLBACK")
    assert count(numbers) == 1


def test_an_interrupt_while_a_large_answer_is_read(numbers, monkeypatch):
    def interrupt(body):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pipemagic.client.stream.read_response", interrupt)
        with pytest.raises(InterruptedRequest, match="the request has run"):
            numbers.run("INSERT INTO n VALUES (2)")
    assert count(numbers) == 2


@pytest.fixture
def moving(make_database, transport, clock):
    """A session whose database comes back, as after a restart of the service on another port."""
    session = Session(environ={})

    def find_again():
        transport.down = False
        return make_database()

    connection = Connection("main", make_database(), "a test", find_again=find_again)
    session.adopt(connection)
    session.run("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1)")
    return session


def test_a_service_that_moved_is_found_again(moving, transport):
    moving.run("PRAGMA foreign_keys = OFF")
    transport.down = True
    result = moving.run_cell("INSERT INTO n VALUES (2)")
    assert result.notes == ("The connection was reopened (set again: PRAGMA foreign_keys = OFF).",)
    transport.down = True
    assert moving.connection().with_database(lambda database: database.execute("SELECT 1").rows) == [(1,)]
    assert count(moving) == 2


def test_a_service_that_moved_in_the_middle_of_a_transaction_is_an_error(moving, transport):
    moving.run("BEGIN; INSERT INTO n VALUES (2)")
    transport.down = True
    with pytest.raises(TransactionLost, match="the service was stopped while the transaction was open") as caught:
        moving.run("INSERT INTO n VALUES (3)")
    assert "Undone:\n  BEGIN\n  INSERT INTO n VALUES (2)" in caught.value.message
    loss = moving.connection().loss
    assert (loss.reason, loss.certain, moving.connection().transaction) == (Reason.SERVICE_STOPPED, True, Tx.LOST)
    with pytest.raises(TransactionLost, match="not run"):
        moving.run("COMMIT")
    moving.run("ROLLBACK")


def test_the_error_of_a_service_that_cannot_be_found_again(moving, transport):
    def gone():
        raise ServiceError("the temporary service has ended")

    moving.connection().find_again = gone
    transport.down = True
    with pytest.raises(ServiceError, match="has ended"):
        moving.run("SELECT 1")
