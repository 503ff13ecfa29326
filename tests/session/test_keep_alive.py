"""Keeping a server-side connection alive between cells: for a bounded time, and never at the cost of a cell."""

from __future__ import annotations

import threading

import pytest
from waiting import until

from pipemagic.errors import SessionError, TransactionLost
from pipemagic.session import keep_alive
from pipemagic.session.keep_alive import RemainingTime, parse_duration
from pipemagic.text import format_duration


@pytest.fixture
def kept(timed, clock, monkeypatch):
    """A session whose connection is kept for a minute; the test looks in the thread's place."""
    monkeypatch.setattr(keep_alive.KeepAlive, "restart", touch_without_a_thread)
    timed.run("CREATE TABLE n (i INTEGER PRIMARY KEY)")
    connection = timed.connection()
    connection.keep_alive(60)
    connection.keep_alive_thread._clock = clock
    timed.run("INSERT INTO n VALUES (1)")
    return timed


def touch_without_a_thread(self):
    self._since, self.ended = self._clock(), ""


def test_the_stream_lives_beyond_its_idle_time(kept, clock):
    connection = kept.connection()
    first = connection.stream
    for _ in range(4):
        clock.advance(7)
        assert connection.keep_alive_thread.check()
    assert connection.stream.idle_for() == 0
    assert kept.run("SELECT last_insert_rowid() AS i")["i"].tolist() == [1]  # of the same server-side connection
    assert connection.stream is first
    assert connection.stream.reopened == 0


def test_the_time_is_limited_and_restarts_with_each_cell(kept, clock):
    keeping = kept.connection().keep_alive_thread
    clock.advance(5)
    kept.run("SELECT 1")
    assert keeping.left == 60
    for _ in range(9):
        clock.advance(7)
        looked = keeping.check()
    assert not looked
    assert keeping.ended == "the time has expired"
    assert keeping.left == 0
    kept.run("SELECT 1")
    assert keeping.ended == ""


def test_a_cell_right_after_the_last_check_starts_the_time_again(clock):
    class Lock:
        """A lock that a cell takes as soon as it is released."""

        def acquire(self, blocking=True):
            return True

        def release(self):
            keeping._since, keeping.ended = clock(), ""

    keeping = keep_alive.KeepAlive(lambda: None, Lock(), clock)
    keeping.choose(60)
    assert not keeping.check()
    assert keeping.ended == ""
    assert keeping.left == 60


def test_an_open_transaction_is_not_kept(kept, clock):
    kept.run("BEGIN; INSERT INTO n VALUES (2)")
    keeping = kept.connection().keep_alive_thread
    clock.advance(7)
    assert keeping.check()
    assert kept.connection().stream.idle_for() == 7  # nothing was sent
    clock.advance(4)
    assert not keeping.check()
    assert keeping.ended == "a transaction was open, which is not kept alive"
    with pytest.raises(TransactionLost, match="within 5 s"):
        kept.run("COMMIT")


def test_a_dead_stream_is_not_opened_again(kept, clock):
    connection = kept.connection()
    connection.stream._response_at += 5  # as if the server had begun to count earlier than we did
    clock.advance(12)
    assert not connection.keep_alive_thread.check()
    assert connection.keep_alive_thread.ended == "the server has closed the connection"
    assert not connection.stream.is_open
    assert kept.run("SELECT count(*) AS c FROM n")["c"].tolist() == [1]


def test_a_refusal_stops_it_with_its_reason(kept, clock, transport):
    clock.advance(7)
    transport.down = True
    assert not kept.connection().keep_alive_thread.check()
    assert kept.connection().keep_alive_thread.ended
    transport.down = False


def test_it_does_not_get_in_the_way_of_a_cell(kept, clock):
    connection = kept.connection()
    clock.advance(7)
    results = []
    with connection._lock:  # as a cell holds it
        other = threading.Thread(target=lambda: results.append(connection.keep_alive_thread.check()))
        other.start()
        other.join()
    assert results == [True]
    assert connection.stream.idle_for() == 7


@pytest.mark.parametrize("server", ["in process", "seed"])
def test_the_thread_renews_by_itself_and_ends_with_the_connection(request, server, monkeypatch):
    monkeypatch.setattr(keep_alive, "CHECK_EVERY", 0.01)
    monkeypatch.setattr(keep_alive, "RENEW_AFTER", 0.0)
    session = request.getfixturevalue("timed" if server == "in process" else "seed_session")
    connection = session.connection()
    connection.keep_alive(60)
    session.run("SELECT 1")
    baton = connection.stream.baton
    until(lambda: connection.stream.baton not in (baton, None))
    thread = connection.keep_alive_thread._thread
    assert session.run("SELECT 2 AS a")["a"].tolist() == [2]
    session.shut_down()
    thread.join(5)
    assert not thread.is_alive()


@pytest.mark.parametrize(("text", "length"), [("90", 90), ("90s", 90), ("1.5m", 90), (" 2 h ", 7200), ("0.5", 0.5)])
def test_lengths_of_time(text, length):
    assert parse_duration(text) == length


@pytest.mark.parametrize("text", ["", "0", "0m", "-5", "10 days", "m", "1e3", "٣m", "ten", "9" * 400, "300000h"])
def test_invalid_durations(text):
    with pytest.raises(SessionError, match="write 90s, 10m or 1h"):
        parse_duration(text)


def test_lengths_in_words():
    assert [format_duration(length) for length in (0.4, 59, 60, 598, 7200, 7500)] == [
        "0 s", "59 s", "1 min", "9 min 58 s", "2 h", "2 h 5 min",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("left", "limit", "about", "text"),
    [
        (9.75, 10, False, "9.8 of 10 s left"),
        (9.75, 10, True, "about 10 of 10 s left"),
        (59.0, 60, False, "59.0 of 60 s left"),
        (3540.0, 3600, False, "59 min of 1 h left"),
        (3540.0, 3600, True, "about 59 min of 1 h left"),
        (0.0, 3600, False, "its 1 h have expired"),
        (0.0, 3600, True, "its 1 h have passed: the next cell shows whether it is still open"),
    ],
)
def test_a_long_limit_is_named_in_hours(left, limit, about, text):
    assert RemainingTime(left, idle_limit=limit, idle_about=about).idle_left == text
