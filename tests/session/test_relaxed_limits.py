"""Cells on a service with relaxed limits: no countdown, the reason of a loss, and keep-alive."""

from __future__ import annotations

import threading

import pytest
from service_calls import caller_of, execute
from waiting import until

from pipemagic.client.transaction import Reason
from pipemagic.errors import TransactionLost
from pipemagic.notebook.panels.organization_state import state_of
from pipemagic.notebook.panels.session import SessionPanel
from pipemagic.service.limits import LimitMode, Limits
from pipemagic.session import keep_alive
from pipemagic.session.keep_alive import RELAXED_TRANSACTION

RELAXED = {"mode": LimitMode.RELAXED}


@pytest.fixture
def limits():
    return Limits(**RELAXED)


@pytest.fixture
def numbers(timed):
    timed.run("CREATE TABLE n (i INTEGER PRIMARY KEY)")
    return timed


def test_a_transaction_by_hand_may_take_its_time(numbers, service, clock):
    numbers.run("BEGIN; INSERT INTO n VALUES (1)")
    for _ in range(30):
        clock.advance(10)
        service.engine.sweep()
    numbers.run("INSERT INTO n VALUES (2)")
    numbers.run("COMMIT")
    assert numbers.run("SELECT count(*) AS c FROM n")["c"].tolist() == [2]


def test_there_is_no_countdown_of_a_transaction(numbers, clock):
    assert numbers.connection().remaining_time.transaction_left == ""
    numbers.run("BEGIN")
    clock.advance(4)
    left = numbers.connection().remaining_time
    assert (left.transaction, left.transaction_left) == (None, RELAXED_TRANSACTION)
    assert (left.idle, left.idle_about) == (3596, False)


def test_the_panel_says_when_a_transaction_ends(numbers):
    numbers.run("BEGIN")
    panel = SessionPanel(state_of(numbers))
    panel.mount()
    try:
        card = panel.card(numbers.current)
        assert card.transaction_left.until == 0
        assert (
            "It ends after 5 s only if another connection waits for it, and after 1 h in any case." in card.late.value
        )
    finally:
        panel.unmount()


def test_the_error_of_a_lost_transaction_says_that_another_request_waited(numbers, service, clock):
    numbers.run("BEGIN IMMEDIATE; INSERT INTO n VALUES (1)")
    clock.advance(8)
    other, codes = caller_of(service, "flights", subject="eve"), []
    thread = threading.Thread(target=lambda: codes.extend(other.run("INSERT INTO n VALUES (2)").codes))
    thread.start()
    (database,) = service.engine.databases.in_use()
    until(database.write_lock.waiters)
    service.engine.sweep()
    thread.join(30)
    assert codes == ["ok", "ok"]
    with pytest.raises(TransactionLost) as lost:
        numbers.run("COMMIT")
    assert lost.value.message.splitlines()[0] == (
        "the server rolled the transaction back: it was open for more than 5 s, and another connection waited for it"
    )
    assert numbers.connection().loss.reason is Reason.TRANSACTION_LIMIT
    numbers.run("ROLLBACK")
    assert numbers.run("SELECT i FROM n")["i"].tolist() == [2]


@pytest.mark.parametrize("limits", [Limits(streams=2, database_streams=2, **RELAXED)])
def test_a_connection_with_temporary_tables_is_kept_while_others_need_room(numbers, service, clock, monkeypatch):
    monkeypatch.setattr(keep_alive.KeepAlive, "restart", lambda self: None)
    numbers.run("CREATE TEMP TABLE x AS SELECT 1 AS a")
    keeping = numbers.connection().keep_alive_thread
    keeping._clock = clock
    keeping._since = clock()
    other = caller_of(service, "flights", subject="eve")
    for _ in range(5):
        other.post(execute("SELECT 1"))
        clock.advance(7)
        assert keeping.check()
        service.engine.sweep()
        clock.advance(4)
    assert numbers.run("SELECT a FROM x")["a"].tolist() == [1]


def test_a_connection_that_made_room_is_opened_again(numbers, service, clock):
    numbers.run("SELECT 1")
    first = numbers.connection().stream
    clock.advance(30)
    assert numbers.run("SELECT 2 AS a")["a"].tolist() == [2]
    assert (numbers.connection().stream, first.reopened) == (first, 0)
    (stream,) = service.engine.streams._streams.values()
    clock.advance(30)
    service.engine.streams._expire(stream, 10)
    assert numbers.run("SELECT 3 AS a")["a"].tolist() == [3]
    assert first.reopened == 1
