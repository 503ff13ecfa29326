"""Run the requests of one pipeline on a stream.

A pipeline is a generator: it yields a `Turn` whenever it has to wait for the writer's turn and goes on when
that is ready, so a waiting writer holds no thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

import apsw

from pipemagic import sql as sqltext
from pipemagic.errors import ProtocolError
from pipemagic.hrana import batches, faults, messages
from pipemagic.hrana.batches import StepState
from pipemagic.hrana.messages import Error, Stmt
from pipemagic.hrana.stream import Tx
from pipemagic.hrana.values import SqlValue
from pipemagic.service import plans, quotas, results
from pipemagic.service.connections import NeedsTurn
from pipemagic.service.http import Refused
from pipemagic.service.limits import Limits
from pipemagic.service.plans import Plan, Rejected
from pipemagic.service.quotas import Meter
from pipemagic.service.replication.replica import Replica
from pipemagic.service.results import Budget, Kept, Sink, TooLarge, WireResult
from pipemagic.service.streams import ServerStream
from pipemagic.service.tokens import Grant
from pipemagic.service.turns import Turn

T = TypeVar("T")
Steps = Generator[Turn | bytes, None, T]
"""Work in parts: a Turn says that it waits, bytes (of a cursor only) are for the reader to take first."""

CLOSED = Error("The stream was closed by an earlier request of this pipeline", faults.STREAM_CLOSED)
NESTED = Error("SQLite error: cannot start a transaction within a transaction", "SQLITE_ERROR")
RESULT_OVERHEAD = 200  # bytes of a result without its rows


class HungUp(Exception):
    """The client is gone: nothing more is run and the stream is destroyed."""


def check(requests: Sequence[messages.Request], version: int) -> None:
    """Refuse (400) what can be seen to be wrong before anything runs, so that the stream stays as it is."""
    for request in requests:
        match request:
            case messages.Execute(stmt):
                _check_text(stmt)
            case messages.Sequence() | messages.Describe():
                _check_text(request)
            case messages.RunBatch(batch):
                _check_index(batch.replication_index)
                for step in batch.steps:
                    _check_text(step.stmt)
                try:
                    batches.check_references(batch)
                except ProtocolError as error:
                    raise Refused(400, error.message, plain=True) from None
                if version < 3 and batches.uses_autocommit(batch):
                    raise _too_new("The `is_autocommit` condition")
            case messages.GetAutocommit() if version < 3:
                raise _too_new("The `get_autocommit` request")


def _check_text(holder: Stmt | messages.Sequence | messages.Describe) -> None:
    if (holder.sql is None) == (holder.sql_id is None):
        raise Refused(400, "Either `sql` or `sql_id` are required, and not both", plain=True)
    _check_index(holder.replication_index)


def _check_index(index: str | int | None) -> None:
    text = "0" if index is None else str(index)
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise Refused(400, f"replication_index is not a number of a commit: {text[:50]!r}", plain=True)


def _too_new(what: str) -> Refused:
    return Refused(400, f"{what} is only supported in protocol version hrana3 and higher", plain=True)


class Pipeline:
    """One pipeline under way. `closed` says afterwards whether the stream was closed in it."""

    def __init__(
        self, stream: ServerStream, grant: Grant, meter: Meter, *, clock: Callable[[], float], limits: Limits
    ) -> None:
        self._stream, self._clock, self._limits = stream, clock, limits
        self._record, self._read_only, self._meter = grant.database, grant.read_only, meter
        self._unwritable = ""
        """Why the statement that is run may not write."""
        self._budget = Budget(limits.response)
        self._told = False
        self.closed = False

    def run(self, requests: Sequence[messages.Request]) -> Steps[list[bytes]]:
        """Give one entry, as JSON, for each request, in order."""
        entries = []
        for request in requests:
            if self._stream.gone:
                raise HungUp
            self._enforce_window()
            entries.append((yield from self._entry(request)))
        self._settle()
        return entries

    def alone(self, request: messages.Request) -> Steps[dict[str, Any]]:
        """Give the response to the only request of a stream; `Rejected` if it fails."""
        self.closed = True
        return (yield from self._respond(request))

    def _settle(self) -> None:
        """Go on without the lost transaction, if its loss was told."""
        if self._told and self._stream.transaction.state is Tx.LOST:
            self._stream.transaction.move("settle")

    def _entry(self, request: messages.Request) -> Steps[bytes]:
        try:
            if self.closed and not isinstance(request, messages.Close):
                raise Rejected.of(CLOSED)
            response = yield from self._respond(request)
        except Rejected as rejected:
            return messages.encode(messages.ErrorEntry(self._afford(rejected.error)))
        return messages.encode({"type": "ok", "response": response})

    def _respond(self, request: messages.Request) -> Steps[dict[str, Any]]:
        match request:
            case messages.Execute(stmt):
                self._refuse_if_lost()
                return {"type": "execute", "result": (yield from self._stmt(stmt))}
            case messages.RunBatch(batch):
                yield from self._wait_for(batch.replication_index)
                return {"type": "batch", "result": (yield from self._batch(batch))}
            case messages.Sequence():
                self._refuse_if_lost()
                yield from self._wait_for(request.replication_index)
                yield from self._sequence(self._text(request.sql, request.sql_id))
                return {"type": "sequence"}
            case messages.Describe():
                yield from self._wait_for(request.replication_index)
                return {"type": "describe", "result": self._describe(self._text(request.sql, request.sql_id))}
            case messages.StoreSql(sql_id, sql):
                self._store(sql_id, sql)
                return {"type": "store_sql"}
            case messages.CloseSql(sql_id):
                self._stream.stored_bytes -= len(self._stream.stored.pop(sql_id, ""))
                return {"type": "close_sql"}
            case messages.GetAutocommit():
                autocommit = self._stream.transaction.state is not Tx.OPEN
                return {"type": "get_autocommit", "is_autocommit": autocommit}
            case messages.Close():
                self.closed = True
                return {"type": "close"}

    # The kinds of requests.

    def _stmt(self, stmt: Stmt) -> Steps[WireResult]:
        yield from self._wait_for(stmt.replication_index)
        plan = plans.plan(self._text(stmt.sql, stmt.sql_id))
        bindings = plans.bind(plan, stmt.args, stmt.named_args)
        sink = self._sink(plan, want_rows=stmt.want_rows is not False)
        return (yield from self._statement(plan, bindings, sink))

    def _sink(self, plan: Plan, *, want_rows: bool) -> Sink:
        """Give the place for a statement's rows; Rejected if there is none left."""
        if not plan.commits:  # a transaction can be ended however full the answer is
            try:
                self._budget.spend(RESULT_OVERHEAD)
            except TooLarge:
                raise Rejected.of(results.no_room(self._limits.response)) from None
        return Kept(self._budget, want_rows=want_rows)

    def _batch(self, batch: messages.Batch) -> Steps[messages.BatchResult]:
        states: list[StepState] = []
        done: list[Any] = []
        errors: list[Error | None] = []
        for step in batch.steps:
            result, error = yield from self._step(step, states)
            done.append(result)
            errors.append(error)
        return messages.BatchResult(done, errors, str(self._stream.place.index))

    def _step(self, step: messages.Step, states: list[StepState]) -> Steps[tuple[WireResult | None, Error | None]]:
        """Run a step if its condition holds, and add what became of it to ``states``."""
        result, error = None, None
        try:
            self._refuse_if_lost()
            autocommit = self._stream.transaction.state is Tx.NONE
            if batches.holds(step.condition, states, autocommit=autocommit):
                result = yield from self._stmt(step.stmt)
        except Rejected as rejected:
            error = self._afford(rejected.error)
        states.append(StepState.ERROR if error else StepState.OK if result else StepState.SKIPPED)
        return result, error

    def _sequence(self, script: str) -> Steps[None]:
        for plan in plans.of_script(script):
            unseen = Kept(Budget(self._limits.response), want_rows=False)  # nothing of it is in the answer
            yield from self._statement(plan, plans.bind(plan, None, None), unseen)

    def _describe(self, text: str) -> messages.DescribeResult:
        statements = sqltext.split(text)
        if not statements:
            return messages.DescribeResult([], [], is_explain=False, is_readonly=True)
        plan = plans.first(text, statements[0])
        try:
            shape = self._stream.connection.describe(plan)
        except apsw.Error as error:
            raise self._rejected(error, plan) from None
        params = [messages.Param(name) for name in plan.parameters]
        readonly = shape.readonly and not plan.writes_by_itself
        result = messages.DescribeResult(params, list(shape.cols), shape.explain, readonly)
        try:
            self._budget.spend(len(messages.encode(result)))
        except TooLarge:
            raise Rejected.of(results.too_large(self._limits.response)) from None
        return result

    def _store(self, sql_id: int, text: str) -> None:
        stream, limits = self._stream, self._limits
        if sql_id in stream.stored:
            raise Rejected(f"SQL text {sql_id} already exists", "SQL_STORE_DUPLICATE")
        if len(stream.stored) >= limits.stored_texts:
            raise Rejected(f"a stream stores at most {limits.stored_texts} SQL texts", faults.SQL_STORE_TOO_MANY)
        if stream.stored_bytes + len(text) > limits.stored_bytes:
            raise Rejected(
                f"a stream stores at most {limits.stored_bytes:,} characters of SQL text",
                faults.SQL_STORE_TOO_LARGE,
            )
        stream.stored[sql_id] = text
        stream.stored_bytes += len(text)

    def _text(self, sql: str | None, sql_id: int | None) -> str:
        if sql is not None:
            return sql
        stored = self._stream.stored.get(sql_id) if sql_id is not None else None
        if stored is None:
            raise Rejected(f"SQL text {sql_id} not found", "SQL_STORE_NOT_FOUND")
        return stored

    # One statement.

    def _statement(self, plan: Plan, bindings: Sequence[SqlValue], sink: Sink) -> Steps[WireResult]:
        started = self._clock()
        self._refuse_if_lost()
        if self._read_only and plan.needs_full_access:
            raise self._forbidden()
        self._look_for_blocks(plan)
        if not plan.only_reads:
            self._pin()
        try:
            return (yield from self._attempt(plan, bindings, started, sink))
        except NeedsTurn:
            if self._read_only:
                raise self._forbidden() from None
            if self._unwritable:
                raise quotas.blocked(self._unwritable) from None
            self._pin()
            if plan.keyword == "BEGIN" and self._stream.transaction.state is Tx.OPEN:
                raise Rejected.of(NESTED) from None
        yield from self._take_turn(started)
        try:
            return (yield from self._attempt(plan, bindings, started, sink))
        except NeedsTurn:
            raise AssertionError("the turn was taken and is not held") from None

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
        if not stream.enter(interruptible=not plan.commits, now=self._clock()):
            raise HungUp
        index = stream.place.index
        try:
            try:
                source = connection.run(plan, bindings, may_write=self._may_write)
                at_once = connection.autocommit and connection.writing
                for piece in sink.take(source.cols, source.rows, at_once=at_once):
                    yield from self._hand_over(piece)
                    self._refuse_if_lost()
            finally:
                try:
                    connection.finish()
                finally:
                    stream.leave()
        except (apsw.Error, UnicodeDecodeError, UnicodeEncodeError, TooLarge, OverflowError) as error:
            sink.drop()
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
        if ended:
            self._stream.time_out()
            self._told = True
        else:
            self._stream.observe(self._clock())
        return Rejected.of(results.too_slow(self._limits.statement_time, ended=ended))

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
            yield turn
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
            yield turn
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
        self._enforce_window()
        if self._stream.transaction.state is Tx.LOST:
            self._told = True
            raise Rejected.of(faults.TRANSACTION_TIMED_OUT)

    def _afford(self, error: Error) -> Error:
        """Give an error as the answer has room for it; its code is always told."""
        error = results.short(error)
        try:
            self._budget.spend(len(messages.encode(error)))
        except TooLarge:
            return Error("no room for the message: the answer is as large as it may be", error.code)
        return error

    def _forbidden(self) -> Refused:
        return Refused(403, "Authorization forbidden: the token is read-only; this statement writes")
