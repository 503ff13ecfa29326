"""Run statements on a stream: rights, quotas, place, write lock, time limits and errors.

All work is in generators: they yield a `Waiter` whenever they must wait and continue when it is done, so that
a waiting writer holds no thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import apsw

from pipemagic.hrana import faults
from pipemagic.hrana.messages import Error
from pipemagic.hrana.stream import Tx
from pipemagic.hrana.values import SqlValue
from pipemagic.service.auth.tokens import AccessGrant
from pipemagic.service.catalog.usage import BLOCKED, OPERATION_BLOCKED, QuotaBlock, UsageMeter
from pipemagic.service.database_api import errors
from pipemagic.service.database_api.results import Budget, RowSink, TooLarge, WireResult
from pipemagic.service.database_api.stream import ServerStream
from pipemagic.service.executor import Abandoned, Call, Steps, Waiter
from pipemagic.service.limits import Limits
from pipemagic.service.replicas.replica import Replica
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.connection import NeedsWriteLock
from pipemagic.service.sqlite.readers import CHECKPOINT_WAIT, DRAIN_WAIT, FULL_WAL
from pipemagic.service.sqlite.resources import UsageExceeded
from pipemagic.service.sqlite.statement import Rejected, SqlStatement
from pipemagic.service.stopped_statements import StoppedStatements, StopReason

WRITER_WAIT = REPLICA_WAIT = 5.0
"""Seconds that a request waits for the write lock, and at a replica for the index that it names."""

NESTED = Error("SQLite error: cannot start a transaction within a transaction", "SQLITE_ERROR")

READONLY_TRANSACTION = Error(
    "SQLite error: attempt to write in a transaction that was begun with BEGIN READONLY", "SQLITE_READONLY"
)


class Cancelled(Exception):
    """The request was cancelled: no further statement runs, and the stream ends."""


class GaveWay(Exception):
    """The statement only read, and was stopped for a checkpoint before any row was sent: it can start again.

    ``brief``: it had begun while others gave way, and was stopped only because it took long.
    """

    def __init__(self, *, brief: bool) -> None:
        super().__init__()
        self.brief = brief


class Statements:
    """Runs statements on a stream, one after the other.

    ``by_columns``: the client reads large results by columns.
    """

    def __init__(
        self, stream: ServerStream, grant: AccessGrant, meter: UsageMeter, *,
        stopped: StoppedStatements, clock: Callable[[], float], limits: Limits, budget: Budget, by_columns: bool,
    ) -> None:  # fmt: skip
        self._stream, self._clock, self._limits = stream, clock, limits
        self._budget, self._by_columns = budget, by_columns
        self._grant, self._stopped = grant, stopped
        self._record, self._read_only, self._meter = grant.database, grant.read_only, meter
        self._unwritable = ""
        """The reason if the current statement may not write, otherwise empty; not set for one that only reads."""
        self._has_waited = self._has_restarted = False
        """Whether the current statement has waited for a checkpoint, and was stopped because the WAL was too large."""
        self._ran = 0.0
        """Seconds that the current statement ran before it gave way to a checkpoint."""
        self._loss_reported = False
        """Whether the response says that the transaction was lost; it does so once."""

    # One statement.

    def _statement(self, plan: SqlStatement, bindings: Sequence[SqlValue], sink: RowSink) -> Steps[WireResult]:
        start = self._clock()
        self._refuse_if_lost()
        if self._read_only and plan.needs_full_access:
            raise self._forbidden()
        block = self._meter.block(self._record)
        if not plan.commits:
            self._refuse_if_blocked(block)
        if not plan.only_reads:
            self._unwritable = block.reason(writes=True, frees=plan.frees_space)
            self._use_primary()
        self._has_waited, self._has_restarted, self._ran = False, False, 0.0
        while True:
            try:
                return (yield from self._attempt(plan, bindings, start, sink))
            except NeedsWriteLock:
                self._prepare_to_write(plan)
                assert self._stream.write_waiter is None, "the write lock was acquired and is not held"
                yield from self._acquire_write_lock(start)
            except GaveWay as gave_way:
                yield from self._wait_to_start_again(brief=gave_way.brief)

    def _refuse_if_blocked(self, block: QuotaBlock) -> None:
        if block.reads:
            raise _blocked(block.reads)

    def _refuse_if_ended(self) -> None:
        """Raise an error if no further statement may run on the stream."""
        if self._stream.end_error is not None:
            raise Rejected.of(self._stream.end_error)
        if self._stream.cancelled:
            raise Cancelled

    def _prepare_to_write(self, plan: SqlStatement) -> None:
        """Move the stream to the primary; raise an error if the statement may not write."""
        if self._read_only:
            raise self._forbidden() from None
        if self._unwritable:
            raise _blocked(self._unwritable) from None
        if self._stream.refuses_writes:
            raise Rejected.of(READONLY_TRANSACTION) from None
        self._use_primary()
        if plan.keyword == "BEGIN" and self._stream.transaction is Tx.OPEN:
            raise Rejected.of(NESTED) from None

    def _attempt(
        self, plan: SqlStatement, bindings: Sequence[SqlValue], started: float, sink: RowSink
    ) -> Steps[WireResult]:
        stream = self._stream
        connection = stream.connection
        if plan.may_read and stream.reading is None and stream.write_waiter is None and stream.place is stream.database:
            yield from self._begin_reading()
        index, reading, begins = stream.place.index, stream.reading, self._clock()
        if not stream.begin(interruptible=not plan.commits, now=begins - self._ran):
            self._refuse_if_ended()
            raise Cancelled  # also if its connection is to a file from before that index: its streams were ended
        may_write = stream.write_waiter is not None and not self._unwritable

        def begin() -> tuple[Iterator[bytes], bytes | None]:
            connection.reads_until = math.inf if reading is None else reading.ends()
            source = connection.run(plan, bindings, may_write=may_write)
            pieces = iter(sink.take(source.cols, source.rows))
            return pieces, next(pieces, None)

        try:
            try:
                pieces, piece = yield from self._call(begin)
                while piece is not None:
                    if reading is not None and reading.brief:
                        sink.restart(piece)
                        raise GaveWay(brief=True)
                    connection.before_wait()
                    yield from self._send(piece)
                    self._refuse_if_ended()
                    connection.after_wait()
                    self._refuse_if_lost()
                    piece = yield from self._call(partial(next, pieces, None))
            finally:
                if stream.abandoned:
                    sink.leave()
                else:
                    try:
                        connection.finish()
                    finally:
                        stream.end()
                        if reading is not None and connection.autocommit:
                            stream.end_reading()
                            stream.database.truncate_drained_wal()
        except (
            apsw.Error, MemoryError, UsageExceeded, UnicodeDecodeError, UnicodeEncodeError, TooLarge, OverflowError,
        ) as error:  # fmt: skip
            error.__traceback__ = None  # its frames refer to rows, and to it: a reference cycle
            cause = connection.cause_of(error)
            if reading is not None and (reading.brief or reading.stopped) and self._can_start_again(cause):
                self._ran += self._clock() - begins
                sink.restart(b"")
                raise GaveWay(brief=not reading.stopped) from None
            sink.drop()
            raise self._failed(cause, plan, started) from None
        stream.sync_state(started)
        if plan.begins_read_only:
            stream.refuses_writes = True
        if connection.changes_schema:  # again at its COMMIT, which shows it to others
            stream.database.schema_changes += 1  # cached column lists may be stale
        self._refuse_if_lost()  # its transaction's window may have ended while it ran
        changed = connection.raw.changes() if plan.changes_rows else 0
        self._meter.count(self._record, max(1, sink.count + changed), changed)
        counts = {
            "affected_row_count": changed,
            "last_insert_rowid": str(connection.raw.last_insert_rowid()) if plan.inserts else None,
            # What a replica applies while its rows are read is not in them.
            "replication_index": str(stream.database.index if stream.place is stream.database else index),
            "rows_read": sink.count,
            "rows_written": changed,
            "query_duration_ms": round((self._clock() - started) * 1000, 3),
        }
        return WireResult(sink.cols, sink.rows, counts)

    def _call(self, function: Callable[[], Any]) -> Steps[Any]:
        """Call what runs the statement. Raise `Rejected` if it was given up; its thread alone uses the connection."""
        call = self._stream.connection.call = Call(function, self._stream.end_thread)
        yield call
        try:
            return call.result()
        except Abandoned as abandoned:
            raise self._abandoned(abandoned.left) from None

    def _abandoned(self, thread_left: Waiter) -> Rejected:
        self._stopped.add(self._grant, StopReason.FUNCTION)
        self._budget.release_after(thread_left)  # it has rows
        lost = self._loss_reported = self._stream.leave_statement(thread_left, errors.STREAM_LEFT)
        return Rejected.of(errors.abandoned(lost=lost, wrote=self._stream.write_waiter is not None))

    def _send(self, piece: bytes) -> Steps[None]:
        """Send a piece to the reader; no thread is held until it is sent, and the sweeper checks the time limits."""
        yield from self._stream.wait_for(piece, self._clock)
        if self._stream.cancelled_silently:
            raise Cancelled

    def _failed(self, error: Exception, plan: SqlStatement, started: float) -> Rejected:
        stream = self._stream
        self._refuse_if_ended()
        self._refuse_if_lost()  # before sync_state(): SQLite may have ended an interrupted transaction by itself
        ended = stream.transaction is Tx.OPEN and stream.connection.autocommit
        if stream.out_of_time and isinstance(error, apsw.InterruptError):
            self._stopped.add(self._grant, StopReason.TIME)
            return self._too_slow(ended=ended)
        if isinstance(error, UsageExceeded | MemoryError | apsw.NoMemError):
            self._stopped.add(self._grant, StopReason.DISK if _fills_disk(error) else StopReason.MEMORY)
        if ended and isinstance(error, UsageExceeded):
            stream.time_out()
            self._loss_reported = True
            return Rejected(f"SQLite error: {error}; its transaction was rolled back with it", error.code)
        stream.sync_state(started)
        return self._rejected(error, plan)

    def _too_slow(self, *, ended: bool) -> Rejected:
        """Return the error of a statement that was stopped; ``ended``: its transaction ended, too, and is lost."""
        wrote = self._stream.transaction is Tx.NONE and self._stream.write_waiter is not None
        if ended:
            self._stream.time_out()
            self._loss_reported = True
        else:
            self._stream.sync_state(self._clock())
        return Rejected.of(errors.too_slow(self._limits.statement_time, ended=ended, wrote=wrote))

    def _rejected(self, error: Exception, plan: SqlStatement) -> Rejected:
        match error:
            case apsw.Error():
                refusal = self._stream.connection.sandbox.refusal
                size_limit = self._stream.connection.size_limit
                wire = errors.sqlite_error(
                    error, self._limits, skipped=plan.skipped, refusal=refusal, size_limit=size_limit
                )
            case UsageExceeded():
                wire = Error(f"SQLite error: {error}", error.code)
            case MemoryError():
                wire = errors.out_of_memory()
            case UnicodeDecodeError():
                wire = errors.bad_text(error)
            case TooLarge():
                wire = errors.too_large(self._budget.limit, changed=plan.changes_rows, shared=error.shared)
            case _:
                wire = Error(f"an argument or the SQL text cannot be stored: {error}", faults.ARGS_INVALID)
        return Rejected.of(wire)

    # Replicas.

    def _use_primary(self) -> None:
        """Move the stream to the primary."""
        stream = self._stream
        if stream.database.paused and stream.place is not stream.database:
            raise Rejected(
                f"the primary location {stream.database.code} is paused, so nothing can be written; reads continue. "
                "It is resumed with: pipemagic group locations resume GROUP " + stream.database.code,
                "PRIMARY_PAUSED",
            )
        stream.use_primary()

    def _wait_for(self, index: str | int | None) -> Steps[None]:
        """Wait until the replica has the index of the request; a primary always has it."""
        place = self._stream.place
        if index is None or not isinstance(place, Replica) or int(index) <= place.index:
            return
        waiter = place.wait_for(int(index), self._clock() + REPLICA_WAIT)
        if not waiter.granted:
            yield from self._stream.wait_for(waiter, self._clock)
        self._refuse_if_ended()
        if not waiter.granted:
            raise Rejected(
                f"the replica at {place.code} is at replication_index {place.index} and did not reach {index} "
                f"within {REPLICA_WAIT:g} s; try again, or use the primary",
                "REPLICA_BEHIND",
            )

    # Giving way to a checkpoint.

    def _begin_reading(self) -> Steps[None]:
        while not self._stream.begin_reading(now=self._has_waited):
            yield from self._wait_for_checkpoint(CHECKPOINT_WAIT)

    def _wait_for_checkpoint(self, seconds: float) -> Steps[None]:
        """Wait until readers need not give way any more, or for some seconds."""
        waiter = self._stream.database.readers.wait(seconds)
        if not waiter.granted:
            yield from self._stream.wait_for(waiter, self._clock)
        self._has_waited = True
        self._refuse_if_ended()
        self._refuse_if_lost()  # the window may have ended while it waited

    def _can_start_again(self, error: Exception) -> bool:
        stream = self._stream
        stopped = isinstance(error, apsw.InterruptError) and not stream.out_of_time and not stream.cancelled
        return stopped and stream.transaction is Tx.NONE

    def _wait_to_start_again(self, *, brief: bool) -> Steps[None]:
        """Wait after a statement gave way; raise `Rejected` if it was stopped for the second time."""
        if self._has_restarted and not brief:
            self._stopped.add(self._grant, StopReason.WAL)
            raise Rejected.of(errors.outgrown(FULL_WAL)) from None
        self._has_restarted = not brief
        yield from self._wait_for_checkpoint(DRAIN_WAIT)

    # The write lock and the time limits.

    def _acquire_write_lock(self, started: float) -> Steps[None]:
        stream = self._stream
        if stream.snapshot is not None and stream.snapshot != stream.database.index:
            raise Rejected.of(errors.CHANGED_SINCE)
        deadline = min(started + WRITER_WAIT, stream.window_ends)
        stream.write_waiter = waiter = stream.database.write_lock.acquire(deadline)
        if not waiter.granted and not stream.cancelled:
            yield from stream.wait_for(waiter, self._clock)
        self._refuse_if_ended()
        self._refuse_if_lost()  # the window may have ended while it waited
        if waiter.granted:
            stream.end_reading()  # no other stream can write while its snapshot exists
            stream.connection.limit_size(self._limits.size_of(self._record.configuration.size_limit))
        else:
            stream.release_write_lock()
            lock = stream.database.write_lock
            cause = ", in one function that cannot be stopped: reads work, writes when it has ended"
            raise Rejected(
                f"SQLite error: database is locked: another stream has been writing for {lock.holder_age():.1f} s"
                + (cause if lock.is_kept else ""),
                "SQLITE_BUSY",
            )

    def _enforce_window(self) -> None:
        if self._stream.overdue(self._clock()):
            self._stream.time_out()

    def _refuse_if_lost(self) -> None:
        if self._stream.abandoned:
            self._refuse_if_ended()
        if self._stream.transaction is Tx.NONE:
            return
        self._enforce_window()
        if self._stream.transaction is Tx.LOST:
            self._loss_reported = True
            raise Rejected.of(self._stream.loss)

    def _forbidden(self) -> Refused:
        return Refused(403, "Authorization forbidden: the token is read-only; this statement writes")


def _fills_disk(error: Exception) -> bool:
    return isinstance(error, UsageExceeded) and error.code == "SQLITE_FULL"


def _blocked(reason: str) -> Rejected:
    """Return the error of a statement that settings or quotas refuse."""
    return Rejected(f"{OPERATION_BLOCKED}: {reason}", BLOCKED)
