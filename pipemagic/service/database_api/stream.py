"""One stream of the service: its state, its transaction, its SQLite connection, its running statement."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from sys import getsizeof
from typing import NamedTuple

import apsw

from pipemagic.hrana import faults
from pipemagic.hrana.messages import Error
from pipemagic.hrana.stream import Event, Phase, StreamState, Tx, TxEvent
from pipemagic.service import memory
from pipemagic.service.auth.tokens import Owner
from pipemagic.service.database_api import errors
from pipemagic.service.executor import Steps, Waiter
from pipemagic.service.memory import Reservation
from pipemagic.service.replicas.replica import Replica
from pipemagic.service.sqlite.connection import Connection
from pipemagic.service.sqlite.database import OpenDatabase
from pipemagic.service.sqlite.pool import TooManyConnections
from pipemagic.service.sqlite.readers import Reading

log = logging.getLogger(__name__)

ABANDONED_AFTER = 10.0
"""Seconds after which a stopped statement is abandoned because it is in a function that cannot be interrupted."""
READER_WAIT = 30.0
"""Seconds that the rows of a cursor wait for a reader that reads nothing."""
STORED_TEXT = 256
"""Bytes of memory that a stored text takes in addition to its characters."""


class StoredTexts:
    """The SQL texts that a stream stores. ``reservation`` counts their memory for the database."""

    def __init__(self, reservation: Reservation) -> None:
        self._texts: dict[int, tuple[str, int]] = {}
        """Each text with its bytes of memory."""
        self._reservation = reservation

    def get(self, sql_id: int) -> str | None:
        """Return a text, or None."""
        text, _ = self._texts.get(sql_id, (None, 0))
        return text

    def add(self, sql_id: int, text: str) -> bool:
        """Store a text; return False if the memory has no room for it."""
        size = _memory_of(text)
        if not self._reservation.resize(self._reservation.size + size):
            return False
        self._texts[sql_id] = text, size
        return True

    def remove(self, sql_id: int) -> None:
        """Remove a text, if it exists."""
        text, size = self._texts.pop(sql_id, (None, 0))
        if text is not None:
            self._reservation.resize(self._reservation.size - size)

    def clear(self) -> None:
        """Remove all texts."""
        self._texts.clear()
        self._reservation.release()


def _memory_of(text: str) -> int:
    """Return the bytes of memory of a stored text, including its UTF-8 copy after a run."""
    utf8 = 0 if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return STORED_TEXT + getsizeof(text) + utf8


class Activity(Enum):
    """The activities of a request on a stream. They have different time limits."""

    NONE = "nothing that has a limit"
    RUNNING = "runs a statement"
    STOPPING = "runs a statement that was stopped"
    WAITING = "waits for a lock, a checkpoint or a replica, without a thread"
    SENDING = "waits for the reader of its rows, without a thread"


@dataclass(eq=False)
class Running:
    """The running statement."""

    interruptible: bool
    """True if it may be stopped: not if it ends a transaction."""
    began: float
    """When it began, plus the time that it waited for its reader."""
    sent: bool = False
    """True if rows of it were sent."""
    out_of_time: bool = False
    """True if it was stopped because it ran for too long."""
    stopped_since: float = math.inf
    """When the sweeper found that it was stopped."""


class Wait(NamedTuple):
    """A wait of a request, without a thread: between two statements, or for the reader of a running statement."""

    awaited: Waiter | bytes
    since: float


class Ended(NamedTuple):
    """The early end of a request: no further statement starts."""

    error: Error | None = None
    """The error of its running statement and of further ones; None if its client waits for no response."""
    outpaced: bool = False
    """True if it is a cursor, and the database changed too much while its rows were read."""


@dataclass(eq=False)
class Window:
    """The time and the snapshot of an open transaction."""

    began: float
    ends: float
    """When it must be over in any case."""
    snapshot: int | None = None
    """The database's index when it took its snapshot; None if it has none."""
    refuses_writes: bool = False
    """True if it was begun with BEGIN READONLY."""


class ServerStream:
    """One stream of the service: its state, its transaction, its SQLite connection, its running statement."""

    def __init__(
        self, number: bytes, database: OpenDatabase, place: OpenDatabase | Replica, owner: Owner, now: float,
        make_room: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._make_room = make_room
        """Ends another stream if there are too many; returns False if none may be ended."""
        self.number, self.database, self.owner = number, database, owner
        self.place = place
        """Where its statements run: a replica until it needs the primary, and the primary from then on."""
        self.entry = place.code
        """The location that it was opened at."""
        self.response_count = 0
        self.state = StreamState()
        """The state of the stream and of its transaction; move it under the guard."""
        self.state.move(Event.SEND)
        self.stored: StoredTexts | None = None
        """None until it stores a text."""
        self.write_waiter: Waiter | None = None
        self.idle_since = now
        self._connection: Connection | None = None
        self.guard = threading.Lock()
        """Guards the state and the fields below; also held while the sweeper ends an idle stream."""
        self.running: Running | None = None
        self.wait: Wait | None = None
        self.ended: Ended | None = None
        """The early end of its request."""
        self.thread_left: Waiter | None = None
        """Set if a statement was abandoned: only its thread uses the connection. Is done when the thread has left."""
        self.window: Window | None = None
        """Of the open transaction."""
        self.loss = faults.TRANSACTION_TIMED_OUT
        """The error that reports the lost transaction."""
        self.reading: Reading | None = None
        """What the running statement or the open transaction reads from the primary; None if it does not."""
        self.done: Waiter | None = None
        """Is done when the running cursor ends. The first line of the cursor contains the next baton."""

    def was_idle_for(self, seconds: float, now: float) -> bool:
        """Return True if it is idle, and has been for some seconds."""
        return self.state.phase is Phase.IDLE and now >= self.idle_since + seconds

    @property
    def connection(self) -> Connection:
        """The stream's own SQLite connection, taken at its first use."""
        while self._connection is None:
            try:
                self._connection = self.place.take()
            except TooManyConnections:
                if not self._make_room():
                    raise
        return self._connection

    def use_primary(self) -> None:
        """Switch to the primary until the stream ends: its writes, ``changes()`` and settings are then consistent."""
        if self.place is self.database:
            return
        with self.guard:
            connection, self._connection = self._connection, None
            self.place = self.database
        if connection is not None:
            connection.release(connection)

    # The running statement.

    def begin(self, *, interruptible: bool, now: float) -> Running | None:
        """Record that a statement starts; return None if it must not: the stream is ending, or its place is paused."""
        with self.guard:
            if self.ended is not None or self.place.paused:
                return None
            self.running = Running(interruptible, now)
            return self.running

    def end(self) -> None:
        """Record that the statement has ended, so that a late interrupt does not stop the next statement."""
        with self.guard:
            self.running = None
            if self._connection is not None:
                self._connection.stopped, self._connection.call = False, None
                self._connection.reads_until = math.inf

    def leave_statement(self, thread_left: Waiter, error: Error) -> bool:
        """Leave a statement that was given up, and what it holds, to its thread; return True if a transaction is lost.

        Further statements fail with ``error``. The stream ends when the thread has left.
        """
        with self.guard:
            self.running = None
            ended = self.ended or Ended()
            self.ended, self.thread_left = ended._replace(error=ended.error or error), thread_left
            lost = self.state.transaction is Tx.OPEN
            if lost:
                self.state.change(TxEvent.LOSE)
            self.window = None
            if self.write_waiter is not None:
                self.database.write_lock.keep_held(self.write_waiter)
        return lost

    def end_thread(self) -> None:
        """End the abandoned statement, in its own thread."""
        assert self._connection is not None
        try:
            self._connection.finish()
        except apsw.Error as error:
            log.info("an abandoned statement ended: %s", error)

    # What it reads, which prevents checkpoints.

    def begin_reading(self, *, now: bool) -> bool:
        """Record that a statement is about to read from the primary; return False if it must wait first.

        With ``now``, it need not: it has waited.
        """
        restartable = self.state.transaction is Tx.NONE
        self.reading = self.database.readers.begin(self.give_way, restartable=restartable, now=now)
        return self.reading is not None

    def end_reading(self) -> None:
        """Record that the stream has no snapshot of the primary any more."""
        reading, self.reading = self.reading, None
        if reading is not None:
            self.database.readers.end(reading)

    def give_way(self) -> None:
        """Stop what it reads, from any thread: a statement that has sent no rows starts again, all else has failed."""
        with self.guard:
            if self.reading is None or self.thread_left is not None:
                return
            waits = self.wait is not None or self.state.phase is Phase.IDLE
            if self.state.transaction is Tx.OPEN and self.window is not None:
                self.window.ends, self.loss = -math.inf, errors.OUTGROWN_TRANSACTION
                if waits:
                    self.time_out()
            elif self.running is not None and self.running.sent:
                self.ended = (self.ended or Ended())._replace(outpaced=True)
                if waits:
                    self._abort()
            if not waits:
                self._stop()

    def wait_for(self, awaited: Waiter | bytes, clock: Callable[[], float]) -> Steps[None]:
        """Yield what its request must wait for: a waiter between two statements, or bytes that its reader must take.

        A request that has ended early does not wait between two statements.
        It holds no thread meanwhile, so the sweeper rolls back what is overdue: the request may wait long for a worker,
        and other writers wait for the write lock that it holds.
        """
        with self.guard:
            if self.ended is not None and isinstance(awaited, Waiter):
                return
            self.wait = wait = Wait(awaited, clock())
            if self.running is not None:  # it waits for its reader
                self.running.sent = True
        try:
            yield awaited
        finally:
            with self.guard:
                if self.running is not None:
                    self.running.began += clock() - wait.since
                self.wait = None

    def enforce(self, now: float) -> None:
        """Stop what is overdue: the transaction, the running statement, or the wait for a reader.

        Give up a statement that was stopped and does not end.

        All checks run under the guard, so no statement can start meanwhile: the stopped statement belongs to that
        transaction and not to the next.
        """
        with self.guard:
            self.end_window_if_due(now)
            activity, due = self._activity()
            if activity is Activity.STOPPING:
                self._abandon_if_due(now)
            elif self.overdue(now):
                if self.wait is not None:
                    self.time_out()
                else:
                    self._stop()
            elif activity is Activity.SENDING and due <= now:
                self.ended = self.ended or Ended()
                self._abort()
            elif self.running is not None and due <= now:
                self.running.out_of_time = True
                self._stop()

    def _activity(self) -> tuple[Activity, float]:
        """Return what its request does, and when the sweeper must end that, as far as known. Call it under the guard.

        The time is infinity if nothing ends it.
        """
        wait, running = self.wait, self.running
        if wait is not None and isinstance(wait.awaited, Waiter):
            return Activity.WAITING, math.inf
        if wait is not None:
            return Activity.SENDING, wait.since + (0.0 if self._exceeded else READER_WAIT)
        if running is None:
            return Activity.NONE, math.inf
        if self._connection is not None and self._connection.stopped:
            was_seen = running.stopped_since < math.inf
            return Activity.STOPPING, running.stopped_since + ABANDONED_AFTER if was_seen else 0.0
        return Activity.RUNNING, running.began + self.database.limits.statement_time

    def _abandon_if_due(self, now: float) -> None:
        """Abandon the statement if it was stopped for some time."""
        assert self.running is not None
        self.running.stopped_since = min(self.running.stopped_since, now)
        if now >= self.running.stopped_since + ABANDONED_AFTER:
            self._abandon()

    def _abandon(self) -> None:
        """Abandon the running statement, unless it commits or has just ended; its request goes on without it."""
        assert self._connection is not None
        if self._connection.call is not None:
            self._connection.call.abandon()

    @property
    def _exceeded(self) -> bool:
        """True if the running statement must end because of what it uses, also while it waits for its reader."""
        return self._connection is not None and self._connection.exceeded

    def next_deadline(self) -> float:
        """Return the time at which the sweeper must check this stream, as far as known; infinity if never."""
        with self.guard:
            if self.state.phase is Phase.IDLE:
                due = self.idle_since + self.database.limits.longest_idle
            else:
                _, due = self._activity()
            return min(due, self._transaction_due())

    def end_if_waiting(self) -> None:
        """Roll back and release the write lock if the request waits: no thread is in it that would do so."""
        with self.guard:
            if self.wait is not None:
                self._abort()

    def _abort(self) -> None:
        self._roll_back()
        self.end_reading()
        self.release_write_lock()

    def _stop(self) -> None:
        """Stop the running statement, unless it is a COMMIT that has begun."""
        if self.running is not None and self.running.interruptible and self._connection is not None:
            self._connection.stop()

    def cancel(self, error: Error | None = None) -> None:
        """Stop the running statement and let no further one start.

        Without an ``error`` for the client, the request was cancelled.
        """
        with self.guard:
            ended = self.ended or Ended()
            self.ended = ended._replace(error=ended.error or error)
            self._stop()
            wait = self.wait
        waiter = self.write_waiter  # read once: the request's own thread may release it at any time
        if waiter is not None and not waiter.granted:
            self.database.write_lock.release(waiter)
        if wait is not None and isinstance(wait.awaited, Waiter):
            wait.awaited.finish()

    def rest(self) -> None:
        """Free what the connection caches, if memory is short: the stream becomes idle."""
        if self._connection is not None and self.thread_left is None and not memory.allows_caches(idle=True):
            self._connection.free_caches()

    # The transaction.

    def sync_state(self, started: float) -> None:
        """Update the state of the transaction from SQLite, after a statement that began at ``started``."""
        connection = self.connection
        autocommit = not connection.raw.in_transaction
        if autocommit and self.state.transaction is Tx.NONE:
            if self.write_waiter is not None:
                self.release_write_lock()
            return
        with self.guard:  # the sweeper may be about to end the transaction
            if autocommit and self.state.transaction is Tx.OPEN:
                self.state.change(TxEvent.END)
            elif not autocommit and self.state.transaction is Tx.NONE:
                self.state.change(TxEvent.BEGIN)
                limits = self.database.limits
                self.window = Window(started, started + limits.longest_transaction)
                self.loss = errors.timed_out(limits)
        if autocommit:
            self._end_transaction()
            return
        has_snapshot = connection.has_snapshot
        if self.window is not None and self.window.snapshot is None and has_snapshot:
            self.window.snapshot = self.database.index
        if not connection.writing:
            self.release_write_lock()
        if not has_snapshot:
            self.end_reading()
        elif self.reading is None and self.place is self.database:  # a statement of it did not write after all
            self.begin_reading(now=True)

    def release_write_lock(self) -> None:
        """Release the write lock."""
        if self.write_waiter is not None:
            self.database.write_lock.release(self.write_waiter)
            self.write_waiter = None

    def overdue(self, now: float) -> bool:
        """Return True if the open transaction must be over."""
        window = self.window  # read once: the request may end it at any time
        return self.state.transaction is Tx.OPEN and window is not None and now >= window.ends

    def end_window_if_due(self, now: float) -> None:
        """Let the open transaction be over if it has had its time and another request waits for it.

        Call it under the guard. A COMMIT that arrives before this is called succeeds.
        """
        window = self.window
        if window is not None and window.ends > now >= self._transaction_due():
            waited_for = errors.waited_for(self.database.limits.transaction)
            window.ends = -math.inf
            self.loss = waited_for if self.reading is None else errors.OUTGROWN_TRANSACTION

    def _transaction_due(self) -> float:
        """Return when the sweeper must end the open transaction, as things stand; infinity without one.

        If the limits are relaxed, it has its usual time as soon as a writer waits for its lock, or a checkpoint for the
        end of its snapshot.
        """
        window, limits = self.window, self.database.limits
        if window is None:
            return math.inf
        due = window.ends
        if not limits.relaxed:
            return due
        waiter, lock = self.write_waiter, self.database.write_lock
        if waiter is not None and waiter.granted and lock.is_wanted:
            due = min(due, lock.held_since + limits.transaction)
        if self.reading is not None and self.database.readers.must_give_way:
            due = min(due, window.began + limits.transaction)
        return due

    def time_out(self) -> None:
        """Roll back the overdue transaction; further requests of the pipeline fail with `TRANSACTION_TIMEOUT`."""
        self._roll_back()
        self.state.change(TxEvent.LOSE)
        self._end_transaction()

    def acknowledge_loss(self) -> None:
        """Continue without the lost transaction, if there is one: its error was reported."""
        if self.state.transaction is Tx.LOST:
            self.state.change(TxEvent.ACKNOWLEDGE)

    def _end_transaction(self) -> None:
        self.window = None
        self.end_reading()
        self.release_write_lock()

    def _roll_back(self) -> None:
        """End the statement and the transaction on the connection, if there is one."""
        connection = self._connection
        if connection is None:  # taking one now could fail, and a cursor may have had only errors so far
            return
        try:
            connection.finish()  # of a cursor that waits for its reader
        finally:
            connection.rollback()

    # End.

    def release(self) -> None:
        """Roll back, return the connection, and release the write lock and the stored texts."""
        if self.stored is not None:
            self.stored.clear()
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                connection.release(connection)
        finally:
            self.end_reading()
            if self.write_waiter is not None:
                self.release_write_lock()
