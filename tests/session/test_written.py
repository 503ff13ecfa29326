"""The signal for connections whose rows may have changed, after writes and at the end of transactions."""

from __future__ import annotations

import gc
import threading

import pytest

from pipemagic.errors import StatementError, TransactionLost
from pipemagic.session import Session


class Listener:
    """Records the connections that are signalled, and the threads."""

    def __init__(self):
        self.told, self.threads = [], set()

    def hear(self, connection):
        self.told.append(connection.name)
        self.threads.add(threading.current_thread())

    def count(self):
        told, self.told = self.told, []
        return len(told)


@pytest.fixture
def listener(timed):
    timed.run("CREATE TABLE n (i)")
    made = Listener()
    timed.written.connect(made.hear)
    return made


def test_the_signal_is_sent_once_for_a_cell_that_may_have_written(timed, listener):
    timed.run("INSERT INTO n VALUES (1); INSERT INTO n VALUES (2); SELECT * FROM n")
    assert listener.told == ["main"]
    assert listener.threads == {threading.current_thread()}
    timed.run("CREATE TABLE m (i)")
    timed.run("WITH one AS (SELECT 1) INSERT INTO n SELECT * FROM one")
    assert listener.told == ["main", "main", "main"]


@pytest.mark.parametrize("reads", ["SELECT * FROM n", "VALUES (1)", "WITH x AS (SELECT 1) SELECT 2"])
def test_no_signal_is_sent_for_reads(timed, listener, reads):
    timed.run(reads)
    assert listener.count() == 0


def test_a_cell_that_failed_may_have_written(timed, listener):
    with pytest.raises(StatementError, match="nope"):
        timed.run("INSERT INTO n VALUES (1); INSERT INTO nope VALUES (1)")
    assert listener.count() == 1
    with pytest.raises(StatementError, match="nope"):
        timed.run("SELECT * FROM nope")
    assert listener.count() == 0


@pytest.mark.parametrize("end", ["commit", "rollback", "abandon_transaction", "close"])
def test_the_end_of_a_transaction_is_signalled(timed, listener, end):
    connection = timed.connection()
    connection.begin()
    timed.run("SELECT * FROM n")
    listener.count()
    getattr(connection, end)()
    assert listener.count() == 1
    connection.close()
    assert listener.count() == 0


def test_a_closed_connection_or_an_ended_service_is_not_asked(timed, listener):
    timed.run("BEGIN")
    listener.count()
    timed.close("main")
    assert listener.count() == 0


def test_the_error_of_a_lost_transaction(timed, clock):
    timed.run("CREATE TABLE n (i)")
    listener = Listener()
    timed.run("BEGIN; INSERT INTO n VALUES (1)")
    timed.written.connect(listener.hear)
    clock.advance(6)
    with pytest.raises(TransactionLost):
        timed.run("SELECT * FROM n")
    assert listener.count() == 1
    timed.connection().retry()
    assert listener.count() == 1


def test_a_collected_receiver_is_removed(timed, listener):
    kept = Listener()
    timed.written.connect(kept.hear)
    timed.run("INSERT INTO n VALUES (1)")
    assert (listener.count(), kept.count()) == (1, 1)
    del kept
    gc.collect()
    timed.run("INSERT INTO n VALUES (1)")
    assert listener.count() == 1
    assert timed.written.receivers


def test_listeners_do_not_ask_a_stopping_service(local_service):
    listener = Listener()
    with Session() as session:
        session.connect()
        session.run("BEGIN")
        session.written.connect(listener.hear)
        assert session.stop()
    assert listener.count() == 0
