"""One stream as the service holds it: its life, its transaction, its SQLite connection, what it runs."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable

from pipemagic.hrana.stream import (
    TRANSACTION_LIMIT,
    Phase,
    Stream,
    Transaction,
    Tx,
)
from pipemagic.service.embedded.connections import Connection
from pipemagic.service.embedded.primaries import OpenDatabase
from pipemagic.service.embedded.replication.replica import Replica
from pipemagic.service.limits import Limits
from pipemagic.service.turns import Turn


class ServerStream:
    """One stream as the service holds it: its life, its transaction, its SQLite connection."""

    def __init__(
        self, number: bytes, database: OpenDatabase, place: OpenDatabase | Replica, owner: tuple[str, str], now: float
    ) -> None:
        self.number, self.database, self.owner = number, database, owner
        self.place = place
        """Where its statements run: a replica until it needs the primary, which it then stays with."""
        self.entry = place.code
        """The location that it was opened at."""
        self.answers = 0
        self.life = Stream(phase=Phase.IN_USE)
        self.transaction = Transaction()
        self.stored: dict[int, str] = {}
        self.stored_bytes = 0
        self.turn: Turn | None = None
        self.snapshot: int | None = None
        """The database's index when the open transaction took its snapshot; None if it has none."""
        self.idle_since = now
        self.refuses_writes = False
        """Whether the open transaction was begun with BEGIN READONLY."""
        self.window_ends: float | None = None
        """When the open transaction must be over."""
        self._connection: Connection | None = None
        self.guard = threading.Lock()
        """Held to look at or change what is running, and while the sweeper ends an idle one."""
        self._running = False
        self._interruptible = False
        self._paused_since: float | None = None
        self._parked = False
        """Whether its request waits, for a turn or for a thread: none is in it then."""
        self._time_used = 0.0
        self._entered = now
        self.out_of_time = False
        """Whether the statement was stopped because it ran for too long."""
        self.over: Turn | None = None
        """Fires when the cursor that is under way is over; the next baton was told at its beginning."""
        self._gone = False

    @property
    def connection(self) -> Connection:
        """The stream's own SQLite connection, taken when first needed."""
        if self._connection is None:
            self._connection = self.place.take()
        return self._connection

    @property
    def has_connection(self) -> bool:
        """Whether a statement can be run without opening a file: its own connection, or one that is kept."""
        return self._connection is not None or len(self.database.pool) > 0

    @property
    def pinned(self) -> bool:
        """Whether its statements run on the primary."""
        return self.place is self.database

    def pin(self) -> None:
        """Go over to the primary, for good: so its own writes, ``changes()`` and settings are always right."""
        if self.pinned:
            return
        with self.guard:
            connection, self._connection, place = self._connection, None, self.place
            self.place = self.database
        if connection is not None:
            place.give_back(connection)

    # What runs, and how it is stopped.

    def enter(self, *, interruptible: bool, now: float) -> bool:
        """Note that a statement starts; False if it must not, since the stream, or its place, is being ended."""
        with self.guard:
            if self._gone or self.place.paused:
                return False
            self._running, self._interruptible, self.out_of_time = True, interruptible, False
            self._entered, self._time_used = now, 0.0
            return True

    def leave(self) -> None:
        """Note that the statement is over, so that a late interrupt cannot hit the next one."""
        with self.guard:
            self._running = False
            if self._connection is not None:
                self._connection.go()

    def pause(self, now: float) -> None:
        """Note that a reader has to take rows first: until `go_on` the sweeper may end what is overdue."""
        with self.guard:
            self._paused_since = now
            self._time_used += now - self._entered

    def go_on(self, now: float) -> bool:
        """Take the stream back; False if it is being ended."""
        with self.guard:
            self._paused_since, self._entered = None, now
            return not self._gone

    def wait_for(self, turns: Iterable[Turn]) -> Generator[Turn, None, None]:
        """Pass on what its request has to wait for, between two statements.

        No thread is in it meanwhile, so the sweeper may roll back what is overdue: to get a thread may take long, and
        so may others who would have to wait for the writer's turn that it has.
        """
        for turn in turns:
            with self.guard:
                self._parked = True
            try:
                yield turn
            finally:
                with self.guard:
                    self._parked = False

    def interrupt(self) -> None:
        """Stop the running statement, unless it is a COMMIT that has begun."""
        with self.guard:
            self._stop()

    def enforce(self, now: float, limits: Limits) -> None:
        """Stop what is overdue: the transaction, the running statement, the waiting for a reader.

        All is looked at under the guard: it changes between statements only, so that the one that is stopped is
        one of that transaction and not the next.
        """
        with self.guard:
            if self._paused_since is not None:
                if self.overdue(now):
                    self.time_out()
                elif now >= self._paused_since + limits.reader_wait:
                    self._gone = True
                    self._let_go()
            elif self.overdue(now):
                if self._parked:
                    self.time_out()
                else:
                    self._stop()
            elif self._running and now >= self._entered + limits.statement_time - self._time_used:
                self.out_of_time = True
                self._stop()

    def next_deadline(self, limits: Limits) -> float | None:
        """When `enforce` has something to do next, as it looks now."""
        with self.guard:
            if self._paused_since is not None:
                own = self._paused_since + limits.reader_wait
            elif self._running:
                own = self._entered + limits.statement_time - self._time_used
            else:
                return self.window_ends
            return own if self.window_ends is None else min(own, self.window_ends)

    def end_if_paused(self) -> None:
        """End what is held while a reader, a turn or a thread is waited for: there is no thread in it that would."""
        with self.guard:
            if self._parked or self._paused_since is not None:
                self._let_go()

    def _let_go(self) -> None:
        self._roll_back()
        self.drop_turn()

    def _stop(self) -> None:
        if self._running and self._interruptible and self._connection is not None:
            self._connection.stop()

    def abandon(self) -> None:
        """Stop the running statement and let no further one start: nobody waits for the answer."""
        with self.guard:
            self._gone = True
        self.interrupt()
        turn = self.turn  # read once: the request's own thread may drop it at any time
        if turn is not None and not turn.granted:
            self.database.writers.leave(turn)

    @property
    def gone(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._gone

    # The transaction.

    def observe(self, started: float) -> None:
        """Take over the transaction's state after a statement that began at ``started``."""
        connection = self.connection
        autocommit = connection.autocommit
        self.transaction.observe(autocommit=autocommit)
        if autocommit:
            self.window_ends = self.snapshot = None
            self.refuses_writes = False
            self.drop_turn()
            return
        if self.window_ends is None:
            self.window_ends = started + TRANSACTION_LIMIT
        if self.snapshot is None and connection.has_snapshot:
            self.snapshot = self.database.index
        if not connection.writing:
            self.drop_turn()

    def drop_turn(self) -> None:
        """Let the next writer in."""
        if self.turn is not None:
            self.database.writers.leave(self.turn)
            self.turn = None

    def overdue(self, now: float) -> bool:
        """Whether the open transaction has used up its window."""
        return self.transaction.state is Tx.OPEN and self.window_ends is not None and now >= self.window_ends

    def time_out(self) -> None:
        """Roll the overdue transaction back; later requests are told so until the pipeline's end."""
        self._roll_back()
        self.transaction.move("lose")
        self.window_ends = self.snapshot = None
        self.refuses_writes = False
        self.drop_turn()

    def _roll_back(self) -> None:
        """End the statement and the transaction on the connection; without one there is nothing to end."""
        connection = self._connection
        if connection is None:  # to take one may be refused: a cursor may have given only errors so far
            return
        try:
            connection.finish()  # of a cursor that waits for its reader
        finally:
            connection.rollback()

    # The end.

    def release(self) -> None:
        """Roll back, free the writer's turn and give the connection back."""
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                self.place.give_back(connection)
        finally:
            self.drop_turn()
