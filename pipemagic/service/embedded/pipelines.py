"""Run the requests of one pipeline on a stream; `statements` has how each statement is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apsw

from pipemagic import sql as sqltext
from pipemagic.errors import ProtocolError
from pipemagic.hrana import batches, faults, messages
from pipemagic.hrana.batches import StepState
from pipemagic.hrana.messages import Error, Stmt
from pipemagic.hrana.stream import Tx
from pipemagic.service.embedded import plans, results
from pipemagic.service.embedded.plans import Plan, Rejected
from pipemagic.service.embedded.results import Budget, Kept, Sink, TooLarge, WireResult
from pipemagic.service.embedded.statements import HungUp, Statements, Steps
from pipemagic.service.embedded.stream import ServerStream
from pipemagic.service.haste import AT_LEISURE, LONGEST, Haste
from pipemagic.service.http import Refused
from pipemagic.service.limits import Limits
from pipemagic.service.registry.quotas import Meter
from pipemagic.service.registry.tokens import Grant

CLOSED = Error("The stream was closed by an earlier request of this pipeline", faults.STREAM_CLOSED)
RESULT_OVERHEAD = 200  # bytes of a result without its rows


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
    if index is None:
        return
    text = str(index)
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise Refused(400, f"replication_index is not a number of a commit: {text[:50]!r}", plain=True)


def _too_new(what: str) -> Refused:
    return Refused(400, f"{what} is only supported in protocol version hrana3 and higher", plain=True)


class Pipeline(Statements):
    """One pipeline under way, for a client that reads many rows ``by_columns``, or does not.

    `closed` says afterwards whether the stream was closed in it.
    """

    def __init__(
        self, stream: ServerStream, grant: Grant, meter: Meter, *,
        clock: Callable[[], float], limits: Limits, haste: Haste = AT_LEISURE, by_columns: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(stream, grant, meter, clock=clock, limits=limits, haste=haste)
        self._by_columns = by_columns
        self._budget = Budget(limits.response)
        self.closed = False

    def run(self, requests: Sequence[messages.Request]) -> Steps[list[bytes]]:
        """Give one entry, as JSON, for each request, in order."""
        entries = []
        for request in requests:
            if self._stream.gone:
                raise HungUp
            if self._haste.over:
                yield from self._end_haste()
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
            case messages.Close():
                self.closed = True
                return {"type": "close"}
            case messages.RunBatch(batch):
                yield from self._wait_for(batch.replication_index)
                return {"type": "batch", "result": (yield from self._batch(batch))}
            case messages.Sequence():
                self._refuse_if_lost()
                yield from self._wait_for(request.replication_index)
                yield from self._end_haste()
                yield from self._sequence(self._text(request.sql, request.sql_id))
                return {"type": "sequence"}
            case messages.Describe():
                yield from self._wait_for(request.replication_index)
                yield from self._end_haste()
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

    # The kinds of requests.

    def _stmt(self, stmt: Stmt) -> Steps[WireResult]:
        if stmt.replication_index is not None:
            yield from self._wait_for(stmt.replication_index)
        text = self._text(stmt.sql, stmt.sql_id)
        if len(text) > LONGEST:
            yield from self._end_haste()
        plan = plans.plan(text)
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
        return Kept(self._budget, want_rows=want_rows, by_columns=self._by_columns)

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

    def _afford(self, error: Error) -> Error:
        """Give an error as the answer has room for it; its code is always told."""
        error = results.short(error)
        try:
            self._budget.spend(len(messages.encode(error)))
        except TooLarge:
            return Error("no room for the message: the answer is as large as it may be", error.code)
        return error
