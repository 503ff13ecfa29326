"""Cells on a server that knows the seed's two request types and nothing else.

The tests that use the fixture `session` run on such a server, too.
"""

from __future__ import annotations

import threading

import pytest
from scripted_server import Answer, as_json
from seed_server import SeedServer

from pipemagic.client.database import Database
from pipemagic.errors import (
    AnswerTimeout,
    SessionError,
    StatementError,
    TransactionLost,
    UnknownOutcome,
    UnsupportedError,
)
from pipemagic.session import Connection, Session
from pipemagic.session.cell import RunOptions

ATOMIC = RunOptions(atomic=True)


@pytest.fixture
def server(tmp_path, clock, request):
    """A server that rolls back a transaction after 5 s: without a word by default."""
    server = SeedServer(tmp_path, clock, limit=getattr(request, "param", "silent"))
    yield server
    server.close()


@pytest.fixture
def numbers(server, clock):
    with Database(server.url, "token", clock=clock) as database:
        session = Session(environ={})
        session.adopt(Connection("main", database, "a test"))
        session.run("CREATE TABLE n (i INTEGER PRIMARY KEY, v); INSERT INTO n VALUES (1, 'one')")
        yield session


def ids(session):
    return session.run("SELECT i FROM n ORDER BY i")["i"].tolist()


def test_only_the_two_request_types_are_sent(numbers, server):
    numbers.run("SELECT :a AS a; BEGIN; INSERT INTO n VALUES (2, 'two'); COMMIT", {"a": 1})
    numbers.run_cell("INSERT INTO n VALUES (3, 'three'); SELECT 1", options=ATOMIC)
    numbers.connection().close()
    assert {kind for call in server.posts for kind in call.kinds} == {"execute", "close"}
    assert {call.path for call in server.posts} == {"/v2/pipeline"}


def test_a_cell_that_is_refused_before_it_is_sent_has_a_known_outcome(tmp_path):
    server = SeedServer(tmp_path, with_args=False)
    with Database(server.url, "token") as database:
        session = Session(environ={})
        connection = session.adopt(Connection("main", database, "a test"))
        session.run("CREATE TABLE n (i)")
        answer = server.script[0]
        server.script = [Answer(vanish=True), answer]
        with pytest.raises(UnknownOutcome):
            session.run("INSERT INTO n VALUES (1)")
        assert not connection.loss.certain
        with pytest.raises(UnsupportedError):
            session.run("INSERT INTO n VALUES (:i)", {"i": 2})
        assert connection.loss is None
    server.close()


@pytest.mark.parametrize("server", ["silent", "error"], indirect=True)
def test_after_five_seconds_nothing_runs_outside_the_transaction(numbers, clock):
    numbers.run("BEGIN")
    numbers.run("INSERT INTO n VALUES (:i, 'two')", {"i": 2})
    clock.advance(6)
    with pytest.raises(
        TransactionLost, match="it was open for longer than the server allows\nUndone:\n  BEGIN\n  INSERT"
    ):
        numbers.run("INSERT INTO n VALUES (3, 'alone')")
    with pytest.raises(TransactionLost, match="not run"):
        numbers.run("INSERT INTO n VALUES (3, 'alone')")
    numbers.connection().retry()
    assert ids(numbers) == [1, 2]


def test_a_lost_answer_is_never_sent_again(numbers, server):
    answer = server.script[0]
    server.script = [lambda call: (answer(call), Answer(vanish=True))[1], answer]
    with pytest.raises(UnknownOutcome):
        numbers.run("INSERT INTO n VALUES (2, 'two')")
    assert [call.sql for call in server.posts].count(["INSERT INTO n VALUES (2, 'two')"]) == 1
    with pytest.raises(SessionError, match="it is not known whether it was applied"):
        numbers.connection().to_retry()
    assert ids(numbers) == [1, 2]


@pytest.mark.parametrize("lost", ["BEGIN IMMEDIATE", "INSERT INTO n VALUES (2, 'two')"])
def test_an_atomic_cell_that_stops_before_its_commit_changed_nothing(numbers, server, lost):
    answer, stopped = server.script[0], threading.Event()
    server.script = [lambda call: (answer(call), call.sql == [lost] and stopped.wait(30))[0]]
    try:
        with pytest.raises(AnswerTimeout) as caught:
            numbers.run_cell("INSERT INTO n VALUES (2, 'two')", options=RunOptions(atomic=True, timeout=0.3))
    finally:
        stopped.set()
    assert (caught.value.code, caught.value.hint) == ("TIMEOUT", "")
    assert caught.value.message == f"{server.url} did not respond in time. Nothing was changed."
    assert numbers.connection().loss is None
    assert ids(numbers) == [1]


def test_an_atomic_cell_whose_commit_was_not_answered_may_have_run(numbers, server):
    answer, stopped = server.script[0], threading.Event()
    server.script = [lambda call: (answer(call), call.sql == ["COMMIT"] and stopped.wait(30))[0]]
    try:
        with pytest.raises(AnswerTimeout, match="either the whole cell was applied, or nothing") as caught:
            numbers.run_cell("INSERT INTO n VALUES (2, 'two')", options=RunOptions(atomic=True, timeout=0.3))
    finally:
        stopped.set()
    assert caught.value.code == "UNKNOWN_OUTCOME"
    assert ids(numbers) == [1, 2]


def test_a_state_that_never_changes_proves_nothing(numbers):
    """This server always sends the index 1, which is no proof after an interrupt."""
    assert numbers.connection().database.replication.reliable_index is None


def test_an_error_without_a_code_and_a_hostile_text(numbers, server):
    answer = server.script[0]
    text = "<b>no</b> \x00 'é'"
    server.script = [
        as_json({"baton": "x", "base_url": None, "results": [{"type": "error", "error": {"message": text}}]}), answer
    ]  # fmt: skip
    with pytest.raises(StatementError) as caught:
        numbers.run("SELECT 1")
    assert text in caught.value.message
    assert caught.value.code == "SQL"
