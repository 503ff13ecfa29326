"""Failures in the middle of a cell: between two of its requests, and between an answer and what is noted of it."""

from __future__ import annotations

import threading

import httpx
import pytest
from scripted_server import as_json
from waiting import until

from pipemagic.client.database import Database
from pipemagic.errors import (
    AuthError,
    BusyError,
    ConnectError,
    InterruptedRequest,
    SessionError,
    TransactionLost,
    UnknownOutcome,
)
from pipemagic.hrana.stream import Tx
from pipemagic.session import Connection, Session, interrupts, keep_alive, recovery
from pipemagic.session.cell import RunOptions

ATOMIC = RunOptions(atomic=True)


@pytest.fixture
def seed(seed_session):
    seed_session.run("CREATE TABLE n (i INTEGER PRIMARY KEY)")
    return seed_session


@pytest.fixture
def numbers(timed):
    timed.run("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1)")
    return timed


def ids(session):
    return session.run("SELECT i FROM n ORDER BY i")["i"].tolist()


def committed(session):
    """Return the rows that other connections see."""
    return [i for (i,) in session.connection().with_database(lambda db: db.execute("SELECT i FROM n ORDER BY i").rows)]


@pytest.fixture
def answering(seed_server, monkeypatch):
    """Have the server answer whatever holds a certain text in another way, once."""
    usual = seed_server.script[0]

    def instead(text, answer):
        def handle(call):
            if text in call.body.decode():
                seed_server.script[:] = [usual]
                return answer() if callable(answer) else answer
            return usual(call)

        seed_server.script[:] = [handle]

    return instead


REFUSALS = {
    "busy": (as_json({"error": "busy"}, 429), BusyError),
    "token": (as_json({"error": "no"}, 401), AuthError),
}


@pytest.fixture(params=REFUSALS)
def refusal(request, monkeypatch):
    monkeypatch.setattr("pipemagic.client.transport.BUSY_PAUSES", ())
    return REFUSALS[request.param]


# -- servers on which each statement is a request of its own


def test_an_atomic_cell_that_is_refused_half_way_leaves_nothing_open(seed, answering, refusal):
    answer, kind = refusal
    answering("(3)", answer)
    with pytest.raises(kind) as caught:
        seed.run_cell("INSERT INTO n VALUES (2); INSERT INTO n VALUES (3)", options=ATOMIC)
    assert caught.value.message.endswith("\nnothing was changed")
    assert seed.connection().transaction is Tx.NONE
    seed.run("INSERT INTO n VALUES (4)")
    assert committed(seed) == [4]


def test_a_transaction_of_the_cell_that_is_refused_half_way_is_rolled_back(seed, answering, refusal):
    answer, kind = refusal
    answering("(3)", answer)
    with pytest.raises(kind, match="Statements 1-2 were rolled back; statements 3-4 did not run") as caught:
        seed.run("BEGIN; INSERT INTO n VALUES (2); INSERT INTO n VALUES (3); COMMIT")
    assert caught.value.hint != "nothing was run; close connections that are not needed, or try again later"
    assert seed.connection().transaction is Tx.NONE
    seed.run("INSERT INTO n VALUES (4)")
    assert committed(seed) == [4]


def test_statements_before_a_refusal_are_part_of_the_open_transaction(seed, answering, refusal):
    answer, kind = refusal
    seed.run("BEGIN; INSERT INTO n VALUES (2)")
    answering("(4)", answer)
    with pytest.raises(kind, match="Statement 1 was part of the open transaction; statement 2 did not run"):
        seed.run("INSERT INTO n VALUES (3); INSERT INTO n VALUES (4)")
    assert seed.connection().statements_open == 2
    assert seed.connection().commit().count == 2
    assert committed(seed) == [2, 3]


def test_statements_before_a_refusal_are_reported_as_applied(seed, answering, refusal):
    answer, kind = refusal
    answering("(3)", answer)
    with pytest.raises(kind, match="Statement 1 was applied; statement 2 did not run"):
        seed.run("INSERT INTO n VALUES (2); INSERT INTO n VALUES (3)")
    assert committed(seed) == [2]


def test_a_cell_of_which_a_part_ran_is_not_sent_again_at_the_new_address(seed_server):
    with Database(seed_server.url, "token") as database:
        session = Session(environ={})
        found = []

        def find_again():
            found.append(1)
            return Database(seed_server.url, "token")

        session.adopt(Connection("main", database, "a test", find_again=find_again))
        session.run("CREATE TABLE n (i)")
        send = database.transport.send

        def refused(message):
            if b"(3)" in message.body:
                raise ConnectError("nothing is listening")
            return send(message)

        database.transport.send = refused
        with pytest.raises(ConnectError, match="Statement 1 was applied; statement 2 did not run"):
            session.run("INSERT INTO n VALUES (2); INSERT INTO n VALUES (3)")
        assert not found
        del database.transport.send
        assert ids(session) == [2]
        session.shut_down()


# -- interrupts


def test_a_second_interrupt_does_not_let_the_rest_of_the_transaction_run(numbers, transport, monkeypatch):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")

    def press(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(transport, "handle_request", press)
        patch.setattr(interrupts, "determine_outcome", press)
        with pytest.raises(InterruptedRequest):
            numbers.run("INSERT INTO n VALUES (3)")
    with pytest.raises(TransactionLost, match="not run"):
        numbers.run("INSERT INTO n VALUES (4); COMMIT")
    assert [statement.text for statement in numbers.connection().to_retry().statements] == ["INSERT INTO n VALUES (2)"]


def test_an_interrupt_before_it_is_noted_lets_nothing_run_alone(numbers, service, clock, transport, monkeypatch):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")

    def press(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(transport, "handle_request", press)
        patch.setattr(recovery, "failed", press)
        with pytest.raises(KeyboardInterrupt):
            numbers.run("INSERT INTO n VALUES (3)")
    assert numbers.connection().transaction is Tx.LOST
    with pytest.raises(TransactionLost, match="not run"):
        numbers.run("INSERT INTO n VALUES (4); COMMIT")
    clock.advance(11)
    service.engine.sweep()  # as the hang-up does it where there is a socket
    numbers.run("ROLLBACK; INSERT INTO n VALUES (5)")
    assert committed(numbers)[-1] == 5


# -- settings of a reopened connection


@pytest.mark.parametrize("ended", ["closed", "idle"])
def test_settings_are_set_again_also_if_the_first_try_was_refused(numbers, clock, transport, monkeypatch, ended):
    numbers.run("PRAGMA recursive_triggers = ON")
    if ended == "closed":
        numbers.connection().close()
    else:
        clock.advance(11)
    transport.down = True
    with pytest.raises(ConnectError):
        numbers.run("SELECT 1")
    transport.down = False
    result = numbers.run_cell("PRAGMA recursive_triggers")
    assert result.frame.iloc[0, 0] == 1
    assert result.notes == ("The connection was reopened (set again: PRAGMA recursive_triggers = ON).",)


def test_a_loss_that_a_request_between_cells_noticed_is_said_by_the_next_cell(numbers, clock):
    numbers.run("CREATE TEMP TABLE basket (item)")
    clock.advance(11)  # without its thread, the connection has expired
    numbers.explain("SELECT 1")  # on the stream of the cells, which may have temporary tables
    assert numbers.connection().stream.reopened == 1
    assert numbers.run_cell("SELECT 1").notes == (
        "The connection was reopened (temporary tables are gone: basket). "
        "Create basket without TEMP, or create and use it in one cell.",
    )
    assert numbers.run_cell("SELECT 1").notes == ()


# -- what can be run again


def lose(session, clock, cell="COMMIT"):
    clock.advance(6)
    with pytest.raises(TransactionLost) as caught:
        session.run(cell)
    return caught.value


def again(session):
    return [statement.text for statement in session.connection().to_retry().statements]


def test_queries_and_settings_without_effect_are_not_run_again(numbers, clock):
    numbers.run("BEGIN; PRAGMA foreign_keys = ON; SELECT * FROM n; EXPLAIN SELECT 1; INSERT INTO n VALUES (2)")
    numbers.run("PRAGMA user_version = 7; WITH a AS (SELECT 1) SELECT * FROM a; VALUES (1)")
    lose(numbers, clock)
    assert again(numbers) == ["INSERT INTO n VALUES (2)", "PRAGMA user_version = 7"]
    numbers.connection().retry()
    assert committed(numbers) == [1, 2]


def test_an_atomic_cell_whose_response_is_lost_was_applied_as_a_whole_or_not(numbers, transport, monkeypatch):
    def lost(request):
        raise httpx.ReadError("gone", request=request)

    with monkeypatch.context() as patch:
        patch.setattr(transport, "handle_request", lost)
        with pytest.raises(UnknownOutcome, match="\neither the whole cell was applied, or nothing"):
            numbers.run_cell("INSERT INTO n VALUES (2); INSERT INTO n VALUES (3)", options=ATOMIC)
    with pytest.raises(SessionError, match="not known whether it was applied"):
        numbers.connection().to_retry()


def test_statements_that_the_user_rolled_back_are_not_retried(numbers, lose_answer):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")
    lose_answer(numbers, "ROLLBACK")
    with pytest.raises(SessionError, match="nothing to rerun"):
        numbers.connection().retry()
    assert committed(numbers) == [1]


def test_begin_that_was_not_sent_leaves_the_loss_as_it_was(numbers, clock, transport):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")
    lose(numbers, clock, "INSERT INTO n VALUES (3)")
    transport.down = True
    with pytest.raises(ConnectError):
        numbers.run("BEGIN; INSERT INTO n VALUES (4)")
    transport.down = False
    with pytest.raises(TransactionLost, match="not run"):
        numbers.run("INSERT INTO n VALUES (5)")
    numbers.connection().retry()
    assert committed(numbers) == [1, 2]


# -- keeping alive


def test_a_cell_that_comes_while_the_thread_ends_starts_another(numbers, monkeypatch):
    monkeypatch.setattr(keep_alive, "CHECK_EVERY", 0.01)
    looked, go_on = threading.Event(), threading.Event()
    look = keep_alive.KeepAlive.check

    def slow(self):
        going = look(self)
        if not going:
            looked.set()
            go_on.wait(30)
        return going

    monkeypatch.setattr(keep_alive.KeepAlive, "check", slow)
    connection = numbers.connection()
    connection.keep_alive(60)
    connection.close()
    assert looked.wait(30)  # it has decided to end, and still runs
    first = connection.keep_alive_thread._thread
    numbers.run("SELECT 1")
    go_on.set()
    until(lambda: first is None or not first.is_alive())
    assert connection.keep_alive_thread._thread is not None
    assert connection.keep_alive_thread._thread.is_alive()
    numbers.shut_down()
