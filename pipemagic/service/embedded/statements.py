"""Run statements on a stream: who may, where, in whose turn, for how long, and what their errors say.

All work is in generators: they yield a `Turn` whenever they have to wait and go on when that is ready, so
that a waiting writer holds no thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeVar

import apsw

from pipemagic.hrana import faults
from pipemagic.hrana.messages import Error
from pipemagic.hrana.stream import Tx
from pipemagic.hrana.values import SqlValue
from pipemagic.service.embedded import results
from pipemagic.service.embedded.connections import NeedsTurn
from pipemagic.service.embedded.plans import Plan, Rejected
from pipemagic.service.embedded.replication.replica import Replica
from pipemagic.service.embedded.results import Sink, TooLarge, WireResult
from pipemagic.service.embedded.stream import ServerStream
from pipemagic.service.haste import AT_LEISURE, BRIEF, Haste, Outlasted, Stopwatch
from pipemagic.service.http import Refused
from pipemagic.service.limits import Limits
from pipemagic.service.registry import quotas
from pipemagic.service.registry.quotas import Meter
from pipemagic.service.registry.tokens import Grant
from pipemagic.service.turns import Turn

T = TypeVar("T")
Steps = Generator[Turn | bytes, None, T]
"""Work in parts: a Turn says that it waits, bytes (of a cursor only) are for the reader to take first."""

ROWS_AT_ONCE = 16
"""Rows of a query in haste between two looks at the clock."""

UNSTOPPED = 5 * BRIEF
"""Seconds beyond which a statement in haste was long although nothing stopped it: one instruction was, or the disk."""

NESTED = Error("SQLite error: cannot start a transaction within a transaction", "SQLITE_ERROR")

READONLY_TRANSACTION = Error(
    "SQLite error: attempt to write in a transaction that was begun with BEGIN READONLY", "SQLITE_READONLY"
)


class HungUp(Exception):
    """The client is gone: nothing more is run and the stream is destroyed."""


class Statements:
    """Runs statements on a stream, one after the other: rights, places, turns, windows and errors of each."""

    def __init__(
        self, stream: ServerStream, grant: Grant, meter: Meter, *,
        clock: Callable[[], float], limits: Limits, haste: Haste,
    ) -> None:  # fmt: skip
        self._haste = haste
        self._stream, self._clock, self._limits = stream, clock, limits
        self._record, self._read_only, self._meter = grant.database, grant.read_only, meter
        self._unwritable = ""
        """Why the statement that is run may not write."""
        self._told = False

    # One statement.

    def _statement(self, plan: Plan, bindings: Sequence[SqlValue], sink: Sink) -> Steps[WireResult]:
        started = self._clock()
        self._refuse_if_lost()
        if self._read_only and plan.needs_full_access:
            raise self._forbidden()
        self._look_for_blocks(plan)
        if not self._looks_brief(plan):
            yield from self._end_haste()
        if not plan.only_reads:
            self._pin()
        while True:
            self._refuse_if_lost()  # the window may have ended while it waited for a thread
            watch = Stopwatch(here=not self._haste.on)
            try:
                result = yield from self._attempt(plan, bindings, started, sink)
            except Outlasted:
                self._note(plan, watch, short=False)
                if self._stream.transaction.state is Tx.NONE:
                    self._stream.drop_turn()  # others must not wait for it while this one waits for a thread
                yield from self._end_haste()
            except NeedsTurn:
                self._want_turn(plan)
                assert self._stream.turn is None, "the turn was taken and is not held"
                yield from self._take_turn(started)
            else:
                self._note(plan, watch, short=watch.elapsed < UNSTOPPED if self._haste.on else watch.short)
                return result

    def _want_turn(self, plan: Plan) -> None:
        """Have the stream where it may write, unless it may not."""
        if self._read_only:
            raise self._forbidden() from None
        if self._unwritable:
            raise quotas.blocked(self._unwritable) from None
        if self._stream.refuses_writes:
            raise Rejected.of(READONLY_TRANSACTION) from None
        self._pin()
        if plan.keyword == "BEGIN" and self._stream.transaction.state is Tx.OPEN:
            raise Rejected.of(NESTED) from None

    # What is run in haste.

    def _looks_brief(self, plan: Plan) -> bool:
        """Tell whether a statement may be run where others wait for it: it was short before, and can be stopped.

        What is stopped has changed nothing, for which a write has to be a transaction of its own. Replicas are
        written to meanwhile, and writes for replicas have more to do.
        """
        stream, database = self._stream, self._stream.database
        if self._haste.over or plan.text not in database.known or not (stream.pinned and stream.has_connection):
            return False
        if plan.clears:  # one instruction, which is longer the more there is to clear
            return False
        if plan.only_reads:
            return database.reads.brief
        return stream.transaction.state is Tx.NONE and database.followers is None and database.writes.brief

    def _end_haste(self) -> Steps[None]:
        """Go on in a thread from here on, if the call is not in one."""
        return self._stream.wait_for(self._haste.end())

    def _note(self, plan: Plan, watch: Stopwatch, *, short: bool) -> None:
        """Take note of a statement that ran: whether it was short, and how long it took if others waited."""
        if self._haste is AT_LEISURE or not (plan.only_reads or plan.changes_rows):
            return
        database = self._stream.database
        database.known.note(plan.text, short=short)
        if self._haste.on:
            (database.reads if plan.only_reads else database.writes).note(watch.elapsed)

    def _hurried(self, rows: Iterator[tuple[SqlValue, ...]]) -> Iterator[tuple[SqlValue, ...]]:
        """Look at the clock between the rows of a query, too."""
        for number, row in enumerate(rows):
            if number % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 and self._haste.over:
                raise Outlasted
            yield row

    def _look_for_blocks(self, plan: Plan) -> None:
        """Refuse a statement that may not even read; note why it may not write, if so."""
        block = self._meter.block(self._record)
        self._unwritable = "" if block is None else block.reason(writes=True, frees=plan.frees_space)
        if block is not None and block.reads and not plan.commits:
            raise quotas.blocked(block.reads)

    @property
    def _may_write(self) -> bool:
        """Whether a statement may write now; the turn may be held since a request with other rights."""
        return self._stream.turn is not None and not self._read_only and not self._unwritable

    def _attempt(self, plan: Plan, bindings: Sequence[SqlValue], started: float, sink: Sink) -> Steps[WireResult]:
        stream = self._stream
        connection = stream.connection
        index = stream.place.index
        if not stream.enter(interruptible=not plan.commits, now=self._clock()):
            raise HungUp  # also if its connection is to a file of before that index: its streams were ended
        try:
            try:
                connection.hurry(self._haste, reads=plan.only_reads)
                source = connection.run(plan, bindings, may_write=self._may_write)
                at_once = connection.autocommit and connection.writing
                # To end a write between its rows would be to commit it.
                rows = self._hurried(source.rows) if self._haste.on and plan.only_reads else source.rows
                for piece in sink.take(source.cols, rows, at_once=at_once):
                    yield from self._hand_over(piece)
                    self._refuse_if_lost()
            finally:
                try:
                    connection.finish()
                finally:
                    connection.calm_down()
                    stream.leave()
        except Outlasted:
            sink.drop()
            raise
        except (apsw.Error, UnicodeDecodeError, UnicodeEncodeError, TooLarge, OverflowError) as error:
            sink.drop()
            in_its_transaction = stream.transaction.state is Tx.NONE or not connection.autocommit
            if in_its_transaction and connection.outlasted(error):
                raise Outlasted from None
            raise self._failed(error, plan, started) from None
        self._finished(plan, started)
        changed = connection.raw.changes() if plan.changes_rows else 0
        self._meter.count(self._record, max(1, sink.count + changed), changed)
        return WireResult(
            sink.cols,
            sink.rows,
            affected_row_count=changed,
            last_insert_rowid=str(connection.raw.last_insert_rowid()) if plan.inserts else None,
            # What a replica applies while its rows are read is not in them.
            replication_index=str(stream.database.index if stream.pinned else index),
            rows_read=sink.count,
            rows_written=changed,
            query_duration_ms=round((self._clock() - started) * 1000, 3),
        )

    def _hand_over(self, piece: bytes) -> Steps[None]:
        """Let the reader take a piece. As long as that lasts, no thread is here and the sweeper watches."""
        self._stream.pause(self._clock())
        try:
            yield piece
        finally:
            alive = self._stream.go_on(self._clock())
        if not alive:
            raise HungUp

    def _finished(self, plan: Plan, started: float) -> None:
        self._stream.observe(started)
        if plan.begins_read_only:
            self._stream.refuses_writes = True
        if plan.changes_schema:
            self._stream.database.note_schema_change()
        self._refuse_if_lost()  # its transaction's window may have ended while it ran

    def _failed(self, error: Exception, plan: Plan, started: float) -> Rejected:
        stream = self._stream
        if stream.gone:
            raise HungUp from None
        self._refuse_if_lost()  # before observe(): SQLite may have ended an interrupted transaction by itself
        ended = stream.transaction.state is Tx.OPEN and stream.connection.autocommit
        if stream.out_of_time and isinstance(error, apsw.InterruptError):
            return self._too_slow(ended=ended)
        stream.observe(started)
        return self._rejected(error, plan)

    def _too_slow(self, *, ended: bool) -> Rejected:
        """Say that a statement was stopped; with it may have ``ended`` its transaction, which is then lost."""
        wrote = self._stream.transaction.state is Tx.NONE and self._stream.turn is not None
        if ended:
            self._stream.time_out()
            self._told = True
        else:
            self._stream.observe(self._clock())
        return Rejected.of(results.too_slow(self._limits.statement_time, ended=ended, wrote=wrote))

    def _rejected(self, error: Exception, plan: Plan) -> Rejected:
        match error:
            case apsw.Error():
                refusal = self._stream.connection.sandbox.refusal
                size_limit = self._stream.connection.size_limit
                wire = results.sqlite_error(error, skipped=plan.skipped, refusal=refusal, size_limit=size_limit)
            case UnicodeDecodeError():
                wire = results.bad_text(error)
            case TooLarge():
                wire = results.too_large(self._limits.response, changed=plan.changes_rows)
            case _:
                wire = Error(f"an argument or the SQL text cannot be stored: {error}", faults.ARGS_INVALID)
        return Rejected.of(wire)

    # Replicas.

    def _pin(self) -> None:
        """Have the stream on the primary from here on."""
        stream = self._stream
        if stream.database.paused and not stream.pinned:
            raise Rejected(
                f"the primary location {stream.database.code} is paused, so nothing can be written; reads go on. "
                "It is resumed with: pipemagic group locations resume GROUP " + stream.database.code,
                "PRIMARY_PAUSED",
            )
        stream.pin()

    def _wait_for(self, wanted: str | int | None) -> Steps[None]:
        """Wait until the replica has the index that the request carries; a primary has every one of its own."""
        place = self._stream.place
        if wanted is None or not isinstance(place, Replica) or int(wanted) <= place.index:
            return
        turn = place.wait_for(int(wanted), self._clock() + self._limits.replica_wait)
        if not turn.granted:
            yield from self._stream.wait_for([turn])
        if self._stream.gone:
            raise HungUp
        if not turn.granted:
            raise Rejected(
                f"the replica at {place.code} stands at replication_index {place.index} and did not reach {wanted} "
                f"within {self._limits.replica_wait:g} s; try again, or ask the primary",
                "REPLICA_BEHIND",
            )

    # Waiting for the writer's turn, and what is over.

    def _take_turn(self, started: float) -> Steps[None]:
        stream = self._stream
        if stream.snapshot is not None and stream.snapshot != stream.database.index:
            raise Rejected(
                "SQLite error: database is locked: it changed since this transaction first read from it; "
                "ROLLBACK and begin again, with BEGIN IMMEDIATE",
                "SQLITE_BUSY",
            )
        deadline = started + self._limits.writer_wait
        if stream.window_ends is not None:
            deadline = min(deadline, stream.window_ends)
        stream.turn = turn = stream.database.writers.enter(deadline)
        if not turn.granted:
            yield from stream.wait_for([turn])
        if stream.gone:
            raise HungUp
        self._refuse_if_lost()  # the window may have ended while it waited
        if turn.granted:
            stream.connection.limit_size(self._limits.size_of(self._record.configuration.size_limit))
        else:
            stream.drop_turn()
            age = stream.database.writers.holder_age()
            raise Rejected(
                f"SQLite error: database is locked: another stream has been writing for {age:.1f} s",
                "SQLITE_BUSY",
            )

    def _enforce_window(self) -> None:
        if self._stream.overdue(self._clock()):
            self._stream.time_out()

    def _refuse_if_lost(self) -> None:
        if self._stream.transaction.state is Tx.NONE:
            return
        self._enforce_window()
        if self._stream.transaction.state is Tx.LOST:
            self._told = True
            raise Rejected.of(faults.TRANSACTION_TIMED_OUT)

    def _forbidden(self) -> Refused:
        return Refused(403, "Authorization forbidden: the token is read-only; this statement writes")
