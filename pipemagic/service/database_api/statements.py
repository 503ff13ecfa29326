"""Run the statements of a request on a stream.

All work is in generators: they yield a `Waiter` whenever they must wait and continue when it is done, so that
a waiting writer holds no thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import apsw

from pipemagic.hrana import batches, faults
from pipemagic.hrana.batches import StepState
from pipemagic.hrana.messages import Describe, Error, Sequence, Step, Stmt
from pipemagic.hrana.stream import Tx
from pipemagic.hrana.values import SqlValue
from pipemagic.service.auth.tokens import AccessGrant
from pipemagic.service.catalog.usage import BLOCKED, OPERATION_BLOCKED
from pipemagic.service.database_api import errors
from pipemagic.service.database_api.results import Budget, RowSink, TooLarge, WireResult
from pipemagic.service.database_api.stream import Running, ServerStream
from pipemagic.service.engine import EngineContext
from pipemagic.service.executor import Call, Steps, Waiter
from pipemagic.service.limits import Limits
from pipemagic.service.replicas.replica import Replica
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite import invalid_text
from pipemagic.service.sqlite.connection import Connection, NeedsWriteLock
from pipemagic.service.sqlite.foreign_names import place_of
from pipemagic.service.sqlite.invalid_text import TextPlace
from pipemagic.service.sqlite.readers import CHECKPOINT_WAIT, DRAIN_WAIT, FULL_WAL, CheckpointPhase, Reading
from pipemagic.service.sqlite.resources import UsageExceeded
from pipemagic.service.sqlite.statement import LONGEST_CACHED, Rejected, SqlStatement, bind, cached_parse, parse
from pipemagic.service.stopped_statements import StoppedStatements, StopReason

WRITER_WAIT = REPLICA_WAIT = 5.0
"""Seconds that a request waits for the write lock, and at a replica for the index that it names."""

NewSink = Callable[[SqlStatement, bool], RowSink]
"""Returns the sink for the rows of a statement, which its client wants or not; raises `Rejected` without room."""

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


class Runner:
    """Runs the statements of one request on a stream, one after the other.

    ``by_columns``: the client reads large results by columns.
    """

    def __init__(
        self, stream: ServerStream, grant: AccessGrant, budget: Budget, context: EngineContext,
        stopped: StoppedStatements, *, by_columns: bool,
    ) -> None:  # fmt: skip
        self.stream, self.grant, self.budget, self.stopped = stream, grant, budget, stopped
        self.meter, self.clock, self.limits = context.meter, context.clock, context.limits
        self.by_columns = by_columns
        self.loss_reported = False
        """True if the response says that the transaction was lost; it does so once."""
        self.sent = False
        """True if the response has begun: its reader was sent a piece."""

    def run(self, stmt: Stmt, new_sink: NewSink) -> Steps[WireResult]:
        """Run a statement; raise `Rejected` if it fails."""
        if stmt.replication_index is not None:
            yield from self.wait_for(stmt.replication_index)
        text = self.text(stmt)
        statement = cached_parse(text) if len(text) <= LONGEST_CACHED else parse(text)
        bindings: tuple[SqlValue, ...] = ()
        if statement.parameters or stmt.args or stmt.named_args:
            bindings = self.bind(statement, stmt)
        sink = new_sink(statement, stmt.want_rows is not False)
        return (yield from Execution(self, statement, bindings, sink).run())

    def bind(self, statement: SqlStatement, stmt: Stmt) -> tuple[SqlValue, ...]:
        """Return a value for each parameter; raise `Rejected`, rather for what SQLite refuses than for arguments."""
        try:
            return bind(statement, stmt.args, stmt.named_args)
        except Rejected:
            self.refuse_if_lost()
            self.refuse_if_blocked()
            try:
                self.stream.connection.describe(statement)
            except apsw.Error as error:
                raise Rejected.of(sqlite_error(error, self.stream, statement, self.limits)) from None
            raise

    def run_step(
        self, step: Step, states: list[StepState], new_sink: NewSink
    ) -> Steps[tuple[WireResult | None, Error | None]]:
        """Run a step of a batch if its condition holds, and append its state to ``states``."""
        result, error = None, None
        try:
            self.refuse_if_lost()
            autocommit = self.stream.state.transaction is Tx.NONE
            if batches.holds(step.condition, states, autocommit=autocommit):
                result = yield from self.run(step.stmt, new_sink)
        except Rejected as rejected:
            error = rejected.error
        states.append(StepState.ERROR if error else StepState.OK if result else StepState.SKIPPED)
        return result, error

    def text(self, holder: Stmt | Sequence | Describe) -> str:
        """Return the SQL text of a request, which may be a stored one."""
        if holder.sql is not None:
            return holder.sql
        stored = self.stream.stored
        text = None if stored is None or holder.sql_id is None else stored.get(holder.sql_id)
        if text is None:
            raise Rejected(f"SQL text {holder.sql_id} not found", "SQL_STORE_NOT_FOUND")
        return text

    def wait_for(self, index: str | int | None) -> Steps[None]:
        """Wait until the replica has the index of the request; a primary always has it."""
        place = self.stream.place
        if index is None or not isinstance(place, Replica) or int(index) <= place.index:
            return
        waiter = place.wait_for(int(index), self.clock() + REPLICA_WAIT)
        if not waiter.granted:
            yield from self.stream.wait_for(waiter, self.clock)
        self.refuse_if_ended()
        if not waiter.granted:
            raise Rejected(
                f"the replica at {place.code} is at replication_index {place.index} and did not reach {index} "
                f"within {REPLICA_WAIT:g} s; try again, or use the primary",
                "REPLICA_BEHIND",
            )

    def send(self, piece: bytes) -> Steps[None]:
        """Send a piece to the reader; no thread is held until it is sent, and the sweeper checks the time limits."""
        self.sent = True
        yield from self.stream.wait_for(piece, self.clock)
        self.refuse_if_cancelled()

    # What refuses a statement.

    def refuse_if_cancelled(self) -> None:
        """Raise `Cancelled` if the client waits for no response."""
        if self.stream.ended is not None and self.stream.ended.error is None:
            raise Cancelled

    def refuse_if_ended(self) -> None:
        """Raise an error if no further statement may run on the stream."""
        ended = self.stream.ended
        if ended is not None:
            raise Cancelled if ended.error is None else Rejected.of(ended.error)

    def refuse_if_lost(self) -> None:
        """Raise `Rejected` if the transaction is lost, also because its time is over."""
        if self.stream.thread_left is not None:
            self.refuse_if_ended()
        if self.stream.state.transaction is Tx.NONE:
            return
        self.enforce_window()
        if self.stream.state.transaction is Tx.LOST:
            self.loss_reported = True
            raise Rejected.of(self.stream.loss)

    def enforce_window(self) -> None:
        """End the transaction if its time is over."""
        if self.stream.overdue(self.clock()):
            self.stream.time_out()

    def refuse_if_blocked(self) -> None:
        """Raise `Rejected` if settings or quotas refuse reads."""
        block = self.meter.block(self.grant.database)
        if block.reads:
            raise _blocked(block.reads)


class Execution:
    """The execution of one statement: rights, quotas, place, write lock, time limits, and its errors."""

    def __init__(
        self, runner: Runner, statement: SqlStatement, bindings: tuple[SqlValue, ...], sink: RowSink
    ) -> None:  # fmt: skip
        self._runner, self._stream = runner, runner.stream
        self._clock, self._limits = runner.clock, runner.limits
        self._statement, self._bindings, self._sink = statement, bindings, sink
        self._record, self._read_only = runner.grant.database, runner.grant.read_only
        self._started = self._clock()
        self._unwritable = ""
        """The reason if it may not write, otherwise empty; not set for one that only reads."""
        self._has_waited = self._has_restarted = False
        """True if it has waited for a checkpoint, and was stopped because the WAL was too large."""
        self._ran = 0.0
        """Seconds that it ran before it gave way to a checkpoint."""
        self._invalid_text: TextPlace | None = None
        """The text of its result that is not UTF-8."""

    def run(self) -> Steps[WireResult]:
        """Run the statement; raise `Rejected` if it fails."""
        statement = self._statement
        self._runner.refuse_if_lost()
        if self._read_only and statement.needs_full_access:
            raise forbidden()
        block = self._runner.meter.block(self._record)
        if block.reads and not statement.commits:
            raise _blocked(block.reads)
        if not statement.only_reads:
            self._unwritable = block.reason(writes=True, frees=statement.frees_space)
            self._use_primary()
        while True:
            try:
                return (yield from self._attempt())
            except NeedsWriteLock:
                self._prepare_to_write()
                assert self._stream.write_waiter is None, "the write lock was acquired and is not held"
                yield from self._acquire_write_lock()
            except GaveWay as gave_way:
                yield from self._wait_to_start_again(brief=gave_way.brief)

    def _attempt(self) -> Steps[WireResult]:
        stream, statement, sink = self._stream, self._statement, self._sink
        connection = stream.connection
        at_primary = stream.place is stream.database
        if statement.may_read and stream.reading is None and stream.write_waiter is None and at_primary:
            while not stream.begin_reading(now=self._has_waited):
                yield from self._wait_for_checkpoint(CHECKPOINT_WAIT)
        index, reading, begins = stream.place.index, stream.reading, self._clock()
        running = stream.begin(interruptible=not statement.commits, now=begins - self._ran)
        if running is None:
            self._runner.refuse_if_ended()
            raise Cancelled  # also if its connection is to a file from before that index: its streams were ended
        try:
            yield from self._take_rows(connection, reading)
        except (
            apsw.Error, MemoryError, UsageExceeded, UnicodeDecodeError, UnicodeEncodeError, TooLarge, OverflowError,
        ) as error:  # fmt: skip
            error.__traceback__ = None  # its frames refer to rows, and to it: a reference cycle
            cause = connection.cause_of(error)
            if reading is not None and self._gave_way(reading, running, cause):
                self._ran += self._clock() - begins
                sink.restart(b"")
                raise GaveWay(brief=not reading.stopped) from None
            sink.drop()
            raise self._failed(cause, running) from None
        return self._result(connection, index)

    def _take_rows(self, connection: Connection, reading: Reading | None) -> Steps[None]:
        """Run the statement; send the pieces of its rows that its sink does not keep."""
        stream, sink = self._stream, self._sink
        pieces = self._pieces(connection, reading)
        try:
            while True:
                call = connection.call = Call(partial(next, pieces, None), stream.end_thread)
                yield call
                if call.left is not None:  # its thread alone uses the connection
                    raise self._abandoned(call.left)
                piece = call.result()
                if piece is None:
                    return
                if reading is not None and reading.brief:
                    sink.restart(piece)
                    raise GaveWay(brief=True)
                connection.before_wait()
                yield from self._runner.send(piece)
                self._runner.refuse_if_ended()
                connection.after_wait()
                self._runner.refuse_if_lost()
        finally:
            if stream.thread_left is not None:
                sink.leave()
            else:
                try:
                    connection.finish()
                finally:
                    stream.end()
                    if reading is not None and not connection.raw.in_transaction:
                        stream.end_reading()
                        if stream.database.readers.phase is not CheckpointPhase.OPEN:
                            stream.database.truncate_drained_wal()

    def _pieces(self, connection: Connection, reading: Reading | None) -> Iterator[bytes]:
        """Run the statement; yield the pieces of its rows that its sink does not keep. Each step is a `Call`."""
        connection.reads_until = math.inf if reading is None else reading.ends
        may_write = self._stream.write_waiter is not None and not self._unwritable
        source = connection.run(self._statement, self._bindings, may_write=may_write)
        try:
            yield from self._sink.take(source.cols, source.rows)
        except UnicodeDecodeError:
            self._invalid_text = invalid_text.find(connection.raw, self._statement, self._bindings, source.cols)
            raise

    def _result(self, connection: Connection, index: int) -> WireResult:
        """Return the result of the statement, which has ended; ``index`` is that of its place when it began."""
        stream, statement, sink = self._stream, self._statement, self._sink
        stream.sync_state(self._started)
        if statement.begins_read_only and stream.window is not None:
            stream.window.refuses_writes = True
        if connection.changes_schema:  # again at its COMMIT, which shows it to others
            stream.database.schema_changes += 1  # cached column lists may be stale
        self._runner.refuse_if_lost()  # its transaction's window may have ended while it ran
        changed = connection.raw.changes() if statement.changes_rows else 0
        self._runner.meter.count(self._record, max(1, sink.count + changed), changed)
        self._count_query(max(1, sink.count + changed), changed)
        counts = {
            "affected_row_count": changed,
            "last_insert_rowid": str(connection.raw.last_insert_rowid()) if statement.inserts else None,
            # What a replica applies while its rows are read is not in them.
            "replication_index": str(stream.database.index if stream.place is stream.database else index),
            "rows_read": sink.count,
            "rows_written": changed,
            "query_duration_ms": round((self._clock() - self._started) * 1000, 3),
        }
        return WireResult(sink.cols, sink.rows, counts)

    def _count_query(self, rows_read: int, rows_written: int) -> None:
        query, seconds = self._statement.without_values, self._clock() - self._started
        self._runner.meter.queries.count(self._record.id, query, 1, seconds, rows_read, rows_written)

    # Errors.

    def _abandoned(self, thread_left: Waiter) -> Rejected:
        runner = self._runner
        runner.stopped.add(runner.grant, StopReason.FUNCTION)
        runner.budget.reservation.release_after(thread_left)  # it has rows
        lost = runner.loss_reported = self._stream.leave_statement(thread_left, errors.STREAM_LEFT)
        return Rejected.of(errors.abandoned(lost=lost, wrote=self._stream.write_waiter is not None))

    def _failed(self, error: Exception, running: Running) -> Rejected:
        stream, runner = self._stream, self._runner
        runner.refuse_if_ended()
        runner.refuse_if_lost()  # before sync_state(): SQLite may have ended an interrupted transaction by itself
        ended = stream.state.transaction is Tx.OPEN and not stream.connection.raw.in_transaction
        if running.out_of_time and isinstance(error, apsw.InterruptError):
            runner.stopped.add(runner.grant, StopReason.TIME)
            self._count_query(self._sink.count, 0)
            return self._too_slow(ended=ended)
        if isinstance(error, UsageExceeded | MemoryError | apsw.NoMemError):
            runner.stopped.add(runner.grant, StopReason.DISK if _fills_disk(error) else StopReason.MEMORY)
        if ended and isinstance(error, UsageExceeded):
            stream.time_out()
            runner.loss_reported = True
            return Rejected(f"SQLite error: {error}; its transaction was rolled back with it", error.code)
        stream.sync_state(self._started)
        return self._rejected(error)

    def _too_slow(self, *, ended: bool) -> Rejected:
        """Return the error of a statement that was stopped; ``ended``: its transaction ended, too, and is lost."""
        wrote = self._stream.state.transaction is Tx.NONE and self._stream.write_waiter is not None
        if ended:
            self._stream.time_out()
            self._runner.loss_reported = True
        else:
            self._stream.sync_state(self._clock())
        return Rejected.of(errors.too_slow(self._limits.statement_time, ended=ended, wrote=wrote))

    def _rejected(self, error: Exception) -> Rejected:
        match error:
            case apsw.Error():
                wire = sqlite_error(error, self._stream, self._statement, self._limits)
            case UsageExceeded():
                wire = Error(f"SQLite error: {error}", error.code)
            case MemoryError():
                wire = errors.out_of_memory()
            case UnicodeDecodeError():
                wire = errors.bad_text(error, self._invalid_text, changed=self._statement.changes_rows)
            case TooLarge():
                limit, changed = self._runner.budget.limit, self._statement.changes_rows
                wire = errors.too_large(limit, changed=changed, shared=error.shared)
            case _:
                wire = Error(f"an argument or the SQL text cannot be stored: {error}", faults.ARGS_INVALID)
        return Rejected.of(wire)

    # Its place.

    def _use_primary(self) -> None:
        """Move the stream to the primary."""
        stream = self._stream
        if stream.database.paused and stream.place is not stream.database:
            code = stream.database.code
            raise Rejected(
                f"the primary location {code} is paused, so writes are not possible; reads continue. "
                f"To resume it: pipemagic group locations resume GROUP {code}, in a notebook %pipedb resume-location "
                f"GROUP {code}",
                "PRIMARY_PAUSED",
            )
        stream.use_primary()

    # Giving way to a checkpoint.

    def _wait_for_checkpoint(self, seconds: float) -> Steps[None]:
        """Wait until readers need not give way any more, or for some seconds."""
        waiter = self._stream.database.readers.wait(seconds)
        if not waiter.granted:
            yield from self._stream.wait_for(waiter, self._clock)
        self._has_waited = True
        self._runner.refuse_if_ended()
        self._runner.refuse_if_lost()  # the window may have ended while it waited

    def _gave_way(self, reading: Reading, running: Running, error: Exception) -> bool:
        """Return True if the statement was stopped for a checkpoint and can start again."""
        if not isinstance(error, apsw.InterruptError) or not (reading.brief or reading.stopped):
            return False
        stream = self._stream
        return not running.out_of_time and stream.ended is None and stream.state.transaction is Tx.NONE

    def _wait_to_start_again(self, *, brief: bool) -> Steps[None]:
        """Wait after the statement gave way; raise `Rejected` if it was stopped for the second time."""
        if self._has_restarted and not brief:
            self._runner.stopped.add(self._runner.grant, StopReason.WAL)
            raise Rejected.of(errors.outgrown(FULL_WAL)) from None
        self._has_restarted = not brief
        yield from self._wait_for_checkpoint(DRAIN_WAIT)

    # The write lock.

    def _prepare_to_write(self) -> None:
        """Move the stream to the primary; raise an error if the statement may not write."""
        window = self._stream.window
        if self._read_only:
            raise forbidden() from None
        if self._unwritable:
            raise _blocked(self._unwritable) from None
        if window is not None and window.refuses_writes:
            raise Rejected.of(READONLY_TRANSACTION) from None
        self._use_primary()
        if self._statement.keyword == "BEGIN" and self._stream.state.transaction is Tx.OPEN:
            raise Rejected.of(NESTED) from None

    def _acquire_write_lock(self) -> Steps[None]:
        stream = self._stream
        window, deadline = stream.window, self._started + WRITER_WAIT
        if window is not None:
            if window.snapshot is not None and window.snapshot != stream.database.index:
                raise Rejected.of(errors.CHANGED_SINCE)
            deadline = min(deadline, window.ends)
        stream.write_waiter = waiter = stream.database.write_lock.acquire(deadline)
        if not waiter.granted:
            yield from stream.wait_for(waiter, self._clock)
        self._runner.refuse_if_ended()
        self._runner.refuse_if_lost()  # the window may have ended while it waited
        if waiter.granted:
            stream.end_reading()  # no other stream can write while its snapshot exists
            stream.database.before_write(stream.database)
            stream.connection.limit_size(self._limits.size_of(self._record.configuration.size_limit))
        else:
            stream.release_write_lock()
            lock = stream.database.write_lock
            cause = ", in a function that cannot be interrupted: reads work, writes have to wait"
            raise Rejected(
                f"SQLite error: database is locked: another stream has been writing for {lock.holder_age():.1f} s"
                + (cause if lock.is_kept else ""),
                "SQLITE_BUSY",
            )


def sqlite_error(error: apsw.Error, stream: ServerStream, statement: SqlStatement, limits: Limits) -> Error:
    """Convert an error of SQLite for a statement on a stream to the error on the wire."""
    if place := place_of(error, stream.connection.raw, statement.text):  # also SQLite's offset is in that definition
        return Error(f"SQLite error: {error}, in {place}", "SQLITE_ERROR")
    refusal, size_limit = stream.connection.sandbox.refusal, stream.connection.size_limit
    return errors.sqlite_error(error, limits, skipped=statement.skipped, refusal=refusal, size_limit=size_limit)


def forbidden() -> Refused:
    """Return the error of a statement that a read-only token may not run."""
    return Refused(403, "Authorization forbidden: the token is read-only; this statement writes")


def _fills_disk(error: Exception) -> bool:
    return isinstance(error, UsageExceeded) and error.code == "SQLITE_FULL"


def _blocked(reason: str) -> Rejected:
    """Return the error of a statement that settings or quotas refuse."""
    return Rejected(f"{OPERATION_BLOCKED}: {reason}", BLOCKED)
