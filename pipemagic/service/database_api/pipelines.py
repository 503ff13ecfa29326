"""Run the requests of one pipeline; a `Runner` runs their statements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import apsw

from pipemagic import sql as sqltext
from pipemagic.hrana import faults, messages
from pipemagic.hrana.batches import StepState
from pipemagic.hrana.messages import Error
from pipemagic.hrana.stream import Tx
from pipemagic.service.database_api import errors
from pipemagic.service.database_api.results import BufferedRows, RowSink, TooLarge, encode
from pipemagic.service.database_api.statements import Execution, Runner, sqlite_error
from pipemagic.service.database_api.stream import StoredTexts
from pipemagic.service.executor import Steps
from pipemagic.service.memory import Reservation
from pipemagic.service.sqlite.statement import Rejected, SqlStatement, bind, first, of_script

CLOSED = Error("The stream was closed by an earlier request of this pipeline", faults.STREAM_CLOSED)
RESULT_OVERHEAD = 200  # bytes of a result without its rows


class Pipeline:
    """One running pipeline. ``closed`` is set if it closes the stream."""

    closed = False

    def __init__(self, runner: Runner) -> None:
        self._runner, self._stream, self._budget = runner, runner.stream, runner.budget

    def run(self, requests: Sequence[messages.Request]) -> Steps[list[bytes]]:
        """Return the JSON of the results, in pieces: an entry for each request, in order."""
        pieces: list[bytes] = []
        for request in requests:
            try:
                if not isinstance(request, messages.Close):
                    if self.closed:
                        raise Rejected.of(CLOSED)
                    self._runner.refuse_if_ended()
                response, result = yield from self._respond(request)
            except Rejected as rejected:
                pieces += [b",", _error_entry(self._fit_error(rejected.error))]
                continue
            head = _head(**response)
            pieces += [b",", head[:-1], b',"result":', *result, b"}}"] if result else [b",", head, b"}"]
        if self._runner.loss_reported:
            self._stream.acknowledge_loss()
        return pieces[1:]

    def run_one(self, request: messages.Request) -> Steps[list[bytes]]:
        """Return the JSON of the result of the only request of a stream; raise `Rejected` if it fails."""
        self.closed = True
        _, result = yield from self._respond(request)
        return result

    def _respond(self, request: messages.Request) -> Steps[tuple[dict[str, Any], list[bytes]]]:
        """Return the response to a request, and the JSON of its result, in pieces; no pieces if it has none."""
        response: dict[str, Any] = {"type": type(request).__struct_config__.tag}
        result: list[bytes] = []
        runner = self._runner
        match request:
            case messages.Execute(stmt):
                runner.refuse_if_lost()
                result = (yield from runner.run(stmt, self._sink)).json()
            case messages.Close():
                self.closed = True
            case messages.RunBatch(batch):
                yield from runner.wait_for(batch.replication_index)
                result = yield from self._batch(batch)
            case messages.Sequence():
                runner.refuse_if_lost()
                yield from runner.wait_for(request.replication_index)
                yield from self._sequence(runner.text(request))
            case messages.Describe():
                runner.refuse_if_blocked()
                yield from runner.wait_for(request.replication_index)
                result = [self._describe(runner.text(request))]
            case messages.StoreSql(sql_id, sql):
                self._store(sql_id, sql)
            case messages.CloseSql(sql_id):
                if self._stream.stored is not None:
                    self._stream.stored.remove(sql_id)
            case messages.GetAutocommit():
                runner.enforce_window()
                response["is_autocommit"] = self._stream.state.transaction is not Tx.OPEN
        return response, result

    # Requests by type.

    def _sink(self, statement: SqlStatement, want_rows: bool) -> RowSink:
        """Return the sink for a statement's rows; raise `Rejected` if the response has no room left."""
        if not statement.commits:  # a transaction can be ended even if the response is full
            try:
                self._budget.spend(RESULT_OVERHEAD)
            except TooLarge:
                raise Rejected.of(errors.no_room(self._budget.limit)) from None
        return BufferedRows(self._budget, want_rows=want_rows, by_columns=self._runner.by_columns)

    def _batch(self, batch: messages.Batch) -> Steps[list[bytes]]:
        states: list[StepState] = []
        pieces: list[bytes] = []
        step_errors: list[Error | None] = []
        for step in batch.steps:
            result, error = yield from self._runner.run_step(step, states, self._sink)
            pieces += (b",", *(result.json() if result else [b"null"]))
            step_errors.append(None if error is None else self._fit_error(error))
        rest = {"step_errors": step_errors, "replication_index": str(self._stream.place.index)}
        return [b'{"step_results":[', *pieces[1:], b"],", encode(rest)[1:]]

    def _sequence(self, script: str) -> Steps[None]:
        for statement in of_script(script):
            sink = BufferedRows(self._budget, want_rows=False)
            yield from Execution(self._runner, statement, bind(statement, None, None), sink).run()
            sink.drop()  # the response contains nothing of it

    def _describe(self, text: str) -> bytes:
        parsed = next(sqltext.each(text), None)
        if parsed is None:
            return encode(messages.DescribeResult([], [], is_explain=False, is_readonly=True))
        statement = first(text, parsed)
        try:
            shape = self._stream.connection.describe(statement)
        except apsw.Error as error:
            raise Rejected.of(sqlite_error(error, self._stream, statement, self._runner.limits)) from None
        params = [messages.Param(name) for name in statement.parameters]
        readonly = shape.readonly and not statement.writes_by_itself
        result = encode(messages.DescribeResult(params, list(shape.cols), shape.explain, readonly))
        try:
            self._budget.spend(len(result))
        except TooLarge:
            raise Rejected.of(errors.too_large(self._budget.limit)) from None
        return result

    def _store(self, sql_id: int, text: str) -> None:
        if self._stream.stored is None:
            self._stream.stored = StoredTexts(Reservation(self._budget.memory, self._budget.tenant))
        if self._stream.stored.get(sql_id) is not None:
            raise Rejected(f"SQL text {sql_id} already exists", "SQL_STORE_DUPLICATE")
        if not self._stream.stored.add(sql_id, text):
            raise Rejected(
                "no memory is left for this SQL text: other stored texts, and requests that run, use it; send the text "
                "with each request, or close streams that have stored texts",
                faults.SQL_STORE_TOO_LARGE,
            )

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
