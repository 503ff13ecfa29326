"""Interrupted cells on real servers: the reported outcome is true, and the next cell works."""

from __future__ import annotations

import gc
import linecache
import os
import re
import signal
import sys
import threading
import warnings
from contextlib import closing, contextmanager, suppress
from urllib.parse import urlsplit

import pytest
from counting_relay import CountingRelay
from magic_shell import make_database
from scripted_server import ScriptedServer, as_json, good
from waiting import pause, until

from pipemagic.client.database import Database
from pipemagic.client.transaction import TransactionContent
from pipemagic.errors import AnswerTimeout, InterruptedRequest, SessionError, StatementError, TransactionLost
from pipemagic.hrana.stream import Phase, Tx
from pipemagic.session import Connection, Session, interrupts
from pipemagic.session.cell import RunOptions, parse_cell
from pipemagic.session.interrupts import InterruptOutcome

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

ENDLESS = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i FROM c WHERE i < 0"


@pytest.fixture
def patient(monkeypatch):
    """Let the check after an interrupt wait for the server's response as long as a busy machine needs."""
    monkeypatch.setattr(interrupts, "PATIENCE", 20.0)


@pytest.fixture(params=["embedded", "sqld"])
def numbers(request):
    """A session on a real server, with a table of one row."""
    if request.param == "sqld":
        made = request.getfixturevalue("sqld_database")
        url, token = made.url, made.token
    else:
        url, token = make_database(request.getfixturevalue("local_service"), request.node.name)
    session = Session(environ={})
    session.adopt(Connection("main", Database(url, token), "a test"))
    session.run("CREATE TABLE n (i)")
    session.run("INSERT INTO n VALUES (1)")  # the number of the state is seen to grow
    yield session
    session.shut_down()


def interrupt(session, cell, options=RunOptions()):  # noqa: B008 - it is frozen
    """Run a cell and interrupt it once the server is at it."""
    connection = session.connection()
    session.run("SELECT 1")  # there is a stream to watch

    def press():
        stream = connection.stream
        until(lambda: stream.phase is Phase.IN_USE and stream.sent_for() > 0.3)
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(InterruptedRequest) as caught:
        session.run_cell(cell, options=options)
    pressing.join()
    return caught.value


def count(session):
    return int(session.run("SELECT count(*) FROM n").iloc[0, 0])


def lines(error):
    return error.message.split("\n")


def test_a_read_changed_nothing(numbers):
    error = interrupt(numbers, ENDLESS)
    assert lines(error) == ["interrupted while a request was pending", InterruptOutcome.ONLY_READS.value]
    assert error.hint == ""
    assert count(numbers) == 1
    with pytest.raises(SessionError, match="nothing to rerun"):
        numbers.connection().retry()


def test_a_timeout_after_which_it_is_not_known_what_was_changed(numbers, patient):
    with pytest.raises(AnswerTimeout, match=r"stopped waiting after 0\.4 s") as caught:
        numbers.run_cell(f"INSERT INTO n VALUES (2); {ENDLESS}", options=RunOptions(timeout=0.4))
    assert caught.value.code == "UNKNOWN_OUTCOME"
    assert lines(caught.value)[1] == InterruptOutcome.CHANGED.value
    assert caught.value.hint == "check the data before you run it again: SELECT count(*) FROM n"


def test_a_write_that_was_not_applied_is_known_not_to_be(numbers, patient):
    error = interrupt(numbers, f"INSERT INTO n {ENDLESS}")
    assert lines(error)[1] == InterruptOutcome.NOTHING.value
    numbers.run("INSERT INTO n VALUES (2)")  # the server has stopped: the writer's place is free
    assert count(numbers) == 2


def test_earlier_changes_are_reported_and_a_query_is_suggested(numbers, patient):
    error = interrupt(numbers, f"INSERT INTO n VALUES (2); {ENDLESS}")
    assert lines(error)[1] == InterruptOutcome.CHANGED.value
    assert error.hint == "check the data before you run it again: SELECT count(*) FROM n"
    with pytest.raises(SessionError, match="not known"):
        numbers.connection().to_retry()
    assert count(numbers) == 2


def test_the_outcome_of_a_write_that_may_follow_is_open(numbers, patient):
    """A server may run the INSERT although its client has left, before the check or after it."""
    error = interrupt(numbers, f"{ENDLESS}; INSERT INTO n VALUES (2)")
    possible = {InterruptOutcome.NOT_YET.value: (1, 2), InterruptOutcome.CHANGED.value: (2,)}
    assert count(numbers) in possible[lines(error)[1]]
    assert error.hint.endswith("SELECT count(*) FROM n")


def test_an_atomic_cell_is_known_not_to_be_applied(numbers, patient):
    text = f"INSERT INTO n VALUES (2); {ENDLESS}; INSERT INTO n VALUES (3)"
    error = interrupt(numbers, text, RunOptions(atomic=True))
    assert lines(error)[1] == InterruptOutcome.NOTHING.value
    assert count(numbers) == 1


def test_a_transaction_is_rolled_back_and_can_be_retried(numbers):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")
    error = interrupt(numbers, ENDLESS)
    assert lines(error)[1:] == [
        InterruptOutcome.ROLLED_BACK.value, "Undone:", "  BEGIN", "  INSERT INTO n VALUES (2)", "  SELECT 1",
    ]  # fmt: skip
    with pytest.raises(TransactionLost, match="not run"):
        numbers.run("COMMIT")
    numbers.connection().retry()
    assert count(numbers) == 2


def test_a_commit_that_did_not_come_about_makes_a_certain_rollback(numbers, patient):
    numbers.run("BEGIN IMMEDIATE; INSERT INTO n VALUES (2)")
    error = interrupt(numbers, f"INSERT INTO n {ENDLESS}; COMMIT")
    assert lines(error)[1] == InterruptOutcome.NOTHING.value
    assert "Undone:" in lines(error)
    assert count(numbers) == 1


def test_the_outcome_is_open_while_a_writer_is_running(numbers):
    """Another client writes: the check times out, and the outcome is open."""
    other = Database(numbers.connection().database.endpoint, numbers.connection().database.transport.token)
    with other, other.transaction() as inside:
        inside.execute("INSERT INTO n VALUES (100)")
        error = interrupt(numbers, "INSERT INTO n VALUES (2)")
    assert lines(error)[1] == InterruptOutcome.LOCKED.value
    assert error.hint.endswith("SELECT count(*) FROM n")
    assert count(numbers) in (2, 3)  # sqld runs what waits in line although its client has left


@contextmanager
def writer(session):
    """Another connection that holds the write lock."""
    database = session.connection().database
    with Database(database.endpoint, database.transport.token) as other, other.transaction() as inside:
        inside.execute("INSERT INTO n VALUES (100)")
        yield


def assert_waited(numbers, error):
    assert error.message == "another connection holds the write lock; waited 0.5 s; nothing was changed"
    assert (error.hint, error.code) == ("run the cell again when its transaction has ended", "TIMEOUT")
    assert numbers.connection().transaction is Tx.NONE


@pytest.mark.parametrize("mode", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_begin_that_waits_names_the_lock_of_another_connection(numbers, mode):
    with writer(numbers), pytest.raises(AnswerTimeout) as caught:
        numbers.run_cell(f"BEGIN {mode}", options=RunOptions(timeout=0.5))
    assert_waited(numbers, caught.value)
    with pytest.raises(SessionError, match="nothing to rerun"):
        numbers.connection().retry()
    numbers.run("SELECT 1")  # nothing has to be acknowledged


def test_an_interrupted_begin_names_the_lock_too(numbers):
    with writer(numbers):
        error = interrupt(numbers, "BEGIN IMMEDIATE")
    assert error.message == "interrupted; another connection holds the write lock; nothing was changed"
    assert error.code == "INTERRUPTED"


@pytest.mark.parametrize("end", ["", "; COMMIT"])
def test_the_statements_behind_a_begin_that_waits_are_not_sent(numbers, end):
    with writer(numbers), pytest.raises(AnswerTimeout) as caught:
        numbers.run_cell(f"BEGIN IMMEDIATE; INSERT INTO n VALUES (2){end}", options=RunOptions(timeout=0.5))
    assert_waited(numbers, caught.value)
    assert count(numbers) == 2  # with the row of the other connection


def test_a_cell_with_a_timeout_sends_its_begin_first(numbers):
    options = RunOptions(timeout=20)
    numbers.run_cell("BEGIN IMMEDIATE; INSERT INTO n VALUES (2); COMMIT", options=options)
    assert count(numbers) == 2
    with pytest.raises(StatementError) as caught:
        numbers.run_cell("BEGIN IMMEDIATE; INSERT INTO n VALUES (3); INSERT INTO nope VALUES (4)", options=options)
    assert "statement 3 of 3, line 1:" in lines(caught.value)
    assert "Statements 1-2 were rolled back." in lines(caught.value)
    assert numbers.connection().transaction is Tx.NONE
    assert count(numbers) == 2


@pytest.mark.parametrize(
    ("text", "ran", "atomic", "has_waited"),
    [
        ("BEGIN IMMEDIATE", 0, False, True),
        ("BEGIN EXCLUSIVE; INSERT INTO n VALUES (2); COMMIT", 0, False, True),
        ("BEGIN IMMEDIATE; INSERT INTO n VALUES (2); COMMIT", 1, False, False),  # the INSERT may have been slow
        ("BEGIN; INSERT INTO n VALUES (2)", 0, False, False),
        ("INSERT INTO n VALUES (2)", 0, True, True),
        ("SELECT 1", 0, True, False),
    ],
)
def test_a_begin_that_waited_until_its_time_was_over(text, ran, atomic, has_waited):
    error, cell = TransactionLost("its time was over").replace(ran=ran), parse_cell(text)
    assert interrupts.has_waited_too_long(error, cell, TransactionContent(), atomic=atomic) is has_waited
    assert interrupts.waited(error).message == (
        "another connection held the write lock until the time of the transaction was over; nothing was changed"
    )


@pytest.mark.parametrize("atomic", [False, True])
def test_a_write_that_waits_for_the_lock_says_that_it_is_held(numbers, atomic):
    with writer(numbers), pytest.raises(AnswerTimeout) as caught:
        numbers.run_cell("INSERT INTO n VALUES (2)", options=RunOptions(timeout=0.5, atomic=atomic))
    assert caught.value.code == "UNKNOWN_OUTCOME"
    assert lines(caught.value)[1] == InterruptOutcome.LOCKED.value


CHECKS = re.compile(b"BEGIN IMMEDIATE|SELECT NULL")


class BusyRelay(CountingRelay):
    """Answers the requests of the check with 429 while ``busy``; ``granted`` counts the write locks it passed on."""

    busy, granted = True, 0

    def _pass_on(self, source, target, counted):
        recv = source.recv

        class Filtered:
            def recv(_, size):  # noqa: N805
                while (data := recv(size)) and counted and CHECKS.search(data) and self.busy:
                    source.sendall(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n{}")
                self.granted += counted and b"BEGIN IMMEDIATE" in data
                return data

        super()._pass_on(Filtered(), target, counted)


def test_after_the_answer_nothing_takes_the_write_lock(local_service, request, monkeypatch):
    """A server without a free connection is asked no longer than the user waits."""
    monkeypatch.setattr("pipemagic.client.transport.BUSY_PAUSES", (0.2,) * 5)  # longer than the check waits
    url, token = make_database(local_service, request.node.name)
    with closing(BusyRelay(urlsplit(url).port)) as relay:
        session = Session(environ={})
        session.adopt(Connection("main", Database(url.replace(f":{urlsplit(url).port}", f":{relay.port}"), token), "a"))
        session.run("CREATE TABLE n (i)")
        session.run("INSERT INTO n VALUES (1)")
        error = interrupt(session, f"INSERT INTO n {ENDLESS}")
        relay.busy = False
        assert lines(error)[1] == InterruptOutcome.BUSY.value
        pause(1.0)  # in which it would be asked again
        assert relay.granted == 0
        session.shut_down()


def test_an_interrupt_while_the_server_is_busy_changes_nothing():
    def opened(call):
        return good(call, autocommit="COMMIT" in str(call.body))

    def interrupted(_seconds):
        raise KeyboardInterrupt

    server = ScriptedServer(opened, opened, as_json({"error": "busy"}, 429), opened)
    session = Session(environ={})
    try:
        connection = session.adopt(Connection("main", Database(server.url, "t"), "a test"))
        session.run("BEGIN")
        session.run("INSERT INTO n VALUES (2)")
        connection.database.transport._sleep = interrupted
        with pytest.raises(InterruptedRequest) as caught:
            session.run("INSERT INTO n VALUES (3)")
        assert str(caught.value) == "interrupted while the server was busy\nHint: nothing was run"
        assert connection.statements_open == 1
        assert connection.commit().count == 1
        assert {call.baton for call in server.posts} == {None, "b"}
    finally:
        session.shut_down()
        server.close()


def test_a_second_interrupt_ends_the_question_too(monkeypatch) -> None:
    aborted, asked = [], threading.Event()

    def interrupted(_thread, _timeout) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(interrupts, "_compare_state", lambda _database, _known: asked.wait(5))
    monkeypatch.setattr("pipemagic.client.transport.Transport.abort", lambda transport: aborted.append(transport))
    with Database("http://127.0.0.1:9") as database, monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            interrupts.query_outcome(database, 1)
    asked.set()
    assert len(aborted) == 1


PACKAGE = os.path.dirname(sys.modules["pipemagic"].__file__)
WAY = tuple(os.path.join(PACKAGE, folder) for folder in ("client", "http", "session"))


def interrupted_at(line, call):
    """Run a call and raise KeyboardInterrupt at its n-th line on the way to the wire; False if it has fewer."""
    left = line

    def trace(frame, event, _):
        nonlocal left
        if not frame.f_code.co_filename.startswith(WAY):
            return None
        # A block's end is a line, too, before its lock is released; no signal is handled there.
        if event == "line" and not linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith(
            "with"
        ):
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except (KeyboardInterrupt, InterruptedRequest):
        pass
    finally:
        sys.settrace(before)
    return left <= 0


@pytest.fixture
def forgotten_sockets():
    """A socket that is in no variable yet when an interrupt comes is closed by the collector, with a warning."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


# sqld keeps what is left open for 10 s, and has no room for so much.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("numbers", ["embedded"], indirect=True)
@pytest.mark.parametrize(("sql", "step"), [("SELECT count(*) FROM n", 4), ("SELECT i FROM n; SELECT nope", 11)])
def test_an_interrupt_at_any_line_leaves_a_connection_that_works(forgotten_sockets, numbers, sql, step, soak):
    def call():
        with suppress(StatementError):
            numbers.run(sql)

    call()
    line = 1
    while interrupted_at(line, call):
        assert count(numbers) == 1, f"after line {line}"
        line += 1 if soak else step
    assert line > 200


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("numbers", ["embedded"], indirect=True)
def test_an_interrupt_at_any_line_of_a_transaction_loses_no_track_of_it(forgotten_sockets, numbers, soak):
    def whole():
        numbers.run("BEGIN")
        numbers.run("INSERT INTO n VALUES (2)")

    whole()
    numbers.run("ROLLBACK")
    for line in range(1, 3000, 7 if soak else 151):
        reached = interrupted_at(line, whole)
        connection = numbers.connection()
        connection.abandon_transaction()
        assert count(numbers) == 1, f"after line {line}"
        if not reached:
            break
    assert not reached
