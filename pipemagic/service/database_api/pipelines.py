"""Run the requests of one pipeline on a stream; `statements` runs each statement."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import apsw

from pipemagic import sql as sqltext
from pipemagic.errors import ProtocolError
from pipemagic.hrana import batches, faults, messages
from pipemagic.hrana.batches import StepState
from pipemagic.hrana.messages import Error, Stmt
from pipemagic.hrana.stream import Tx
from pipemagic.hrana.values import SqlValue
from pipemagic.service.database_api import errors
from pipemagic.service.database_api.results import BufferedRows, RowSink, TooLarge, WireResult, encode
from pipemagic.service.database_api.statements import Cancelled, Statements
from pipemagic.service.executor import Steps
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite import statement
from pipemagic.service.sqlite.statement import Rejected, SqlStatement

CLOSED = Error("The stream was closed by an earlier request of this pipeline", faults.STREAM_CLOSED)
RESULT_OVERHEAD = 200  # bytes of a result without its rows


def check(requests: Sequence[messages.Request], version: int) -> None:
    """Raise `Refused` (400) for errors that are visible before anything runs, so that the stream stays unchanged."""
    for request in requests:
        match request:
            case messages.Execute(stmt):
                if (stmt.sql is None) == (stmt.sql_id is None) or stmt.replication_index is not None:
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
    """One running pipeline. ``closed`` is set if it closes the stream."""

    closed = False

    def run(self, requests: Sequence[messages.Request]) -> Steps[list[bytes]]:
        """Return the JSON of the results, in pieces: an entry for each request, in order."""
        pieces: list[bytes] = []
        for request in requests:
            if self._stream.cancelled_silently:
                raise Cancelled
            pieces += (b",", *(yield from self._entry(request)))
        if self._loss_reported:
            self._stream.acknowledge_loss()
        return pieces[1:]

    def run_one(self, request: messages.Request) -> Steps[list[bytes]]:
        """Return the JSON of the result of the only request of a stream; raise `Rejected` if it fails."""
        self.closed = True
        _, result = yield from self._respond(request)
        return result

    def _entry(self, request: messages.Request) -> Steps[list[bytes]]:
        try:
            if self.closed and not isinstance(request, messages.Close):
                raise Rejected.of(CLOSED)
            if not isinstance(request, messages.Close):
                self._refuse_if_ended()
            response, result = yield from self._respond(request)
        except Rejected as rejected:
            return [_error_entry(self._fit_error(rejected.error))]
        head = _head(**response)
        return [head[:-1], b',"result":', *result, b"}}"] if result else [head, b"}"]

    def _respond(self, request: messages.Request) -> Steps[tuple[dict[str, Any], list[bytes]]]:
        """Return the response to a request, and the JSON of its result, in pieces; no pieces if it has none."""
        response: dict[str, Any] = {"type": type(request).__struct_config__.tag}
        result: list[bytes] = []
        match request:
            case messages.Execute(stmt):
                self._refuse_if_lost()
                result = (yield from self._stmt(stmt)).json()
            case messages.Close():
                self.closed = True
            case messages.RunBatch(batch):
                yield from self._wait_for(batch.replication_index)
                result = yield from self._batch(batch)
            case messages.Sequence():
                self._refuse_if_lost()
                yield from self._wait_for(request.replication_index)
                yield from self._sequence(self._text(request))
            case messages.Describe():
                self._refuse_if_blocked(self._meter.block(self._record))
                yield from self._wait_for(request.replication_index)
                result = [self._describe(self._text(request))]
            case messages.StoreSql(sql_id, sql):
                self._store(sql_id, sql)
            case messages.CloseSql(sql_id):
                self._stream.stored.remove(sql_id)
            case messages.GetAutocommit():
                self._enforce_window()
                response["is_autocommit"] = self._stream.transaction is not Tx.OPEN
        return response, result

    # Requests by type.

    def _stmt(self, stmt: Stmt) -> Steps[WireResult]:
        if stmt.replication_index is not None:
            yield from self._wait_for(stmt.replication_index)
        text = stmt.sql if stmt.sql is not None else self._text(stmt)
        plan = statement.cached_parse(text) if len(text) <= statement.LONGEST_CACHED else statement.parse(text)
        bindings: tuple[SqlValue, ...] = ()
        if plan.parameters or stmt.args or stmt.named_args:
            bindings = statement.bind(plan, stmt.args, stmt.named_args)
        return (yield from self._statement(plan, bindings, self._sink(plan, want_rows=stmt.want_rows is not False)))

    def _sink(self, plan: SqlStatement, *, want_rows: bool) -> RowSink:
        """Return the sink for a statement's rows; raise `Rejected` if the response has no room left."""
        if not plan.commits:  # a transaction can be ended even if the response is full
            try:
                self._budget.spend(RESULT_OVERHEAD)
            except TooLarge:
                raise Rejected.of(errors.no_room(self._budget.limit)) from None
        return BufferedRows(self._budget, want_rows=want_rows, by_columns=self._by_columns)

    def _batch(self, batch: messages.Batch) -> Steps[list[bytes]]:
        states: list[StepState] = []
        pieces: list[bytes] = []
        step_errors: list[Error | None] = []
        for step in batch.steps:
            result, error = yield from self._step(step, states)
            pieces += (b",", *(result.json() if result else [b"null"]))
            step_errors.append(error)
        rest = {"step_errors": step_errors, "replication_index": str(self._stream.place.index)}
        return [b'{"step_results":[', *pieces[1:], b"],", encode(rest)[1:]]

    def _step(self, step: messages.Step, states: list[StepState]) -> Steps[tuple[WireResult | None, Error | None]]:
        """Run a step if its condition holds, and append its state to ``states``."""
        result, error = None, None
        try:
            self._refuse_if_lost()
            autocommit = self._stream.transaction is Tx.NONE
            if batches.holds(step.condition, states, autocommit=autocommit):
                result = yield from self._stmt(step.stmt)
        except Rejected as rejected:
            error = self._fit_error(rejected.error)
        states.append(StepState.ERROR if error else StepState.OK if result else StepState.SKIPPED)
        return result, error

    def _sequence(self, script: str) -> Steps[None]:
        for plan in statement.of_script(script):
            sink = BufferedRows(self._budget, want_rows=False)
            yield from self._statement(plan, statement.bind(plan, None, None), sink)
            sink.drop()  # the response contains nothing of it

    def _describe(self, text: str) -> bytes:
        parsed = next(sqltext.each(text), None)
        if parsed is None:
            return encode(messages.DescribeResult([], [], is_explain=False, is_readonly=True))
        plan = statement.first(text, parsed)
        try:
            shape = self._stream.connection.describe(plan)
        except apsw.Error as error:
            raise self._rejected(error, plan) from None
        params = [messages.Param(name) for name in plan.parameters]
        readonly = shape.readonly and not plan.writes_by_itself
        result = encode(messages.DescribeResult(params, list(shape.cols), shape.explain, readonly))
        try:
            self._budget.spend(len(result))
        except TooLarge:
            raise Rejected.of(errors.too_large(self._budget.limit)) from None
        return result

    def _store(self, sql_id: int, text: str) -> None:
        if self._stream.stored.get(sql_id) is not None:
            raise Rejected(f"SQL text {sql_id} already exists", "SQL_STORE_DUPLICATE")
        if not self._stream.stored.add(sql_id, text, self._budget):
            raise Rejected(
                "no memory is left for this SQL text: other stored texts, and requests that run, use it; send the text "
                "with each request, or close streams that have stored texts",
                faults.SQL_STORE_TOO_LARGE,
            )

    def _text(self, holder: Stmt | messages.Sequence | messages.Describe) -> str:
        """Return the SQL text of a request, which may be a stored one."""
        if holder.sql is not None:
            return holder.sql
        stored = self._stream.stored.get(holder.sql_id) if holder.sql_id is not None else None
        if stored is None:
            raise Rejected(f"SQL text {holder.sql_id} not found", "SQL_STORE_NOT_FOUND")
        return stored

    def _fit_error(self, error: Error) -> Error:
        """Return an error that fits into the response; its code always does."""
        error = errors.short(error)
        try:
            self._budget.spend(len(encode(error)))
        except TooLarge:
            return _without_message(error.code, error.extended_code)
        return error


# A pipeline of a million entries has those without a result once in memory.


@lru_cache(maxsize=64)
def _error_entry(error: Error) -> bytes:
    return encode(messages.ErrorEntry(error))


@lru_cache(maxsize=64)
def _without_message(code: str | None, extended_code: str | None) -> Error:
    return Error("the message does not fit: the response has reached its size limit", code, extended_code)


@lru_cache(maxsize=64)
def _head(**response: str | bool) -> bytes:
    """Return the beginning of the entry of a request that succeeded."""
    return b'{"type":"ok","response":' + encode(response)
