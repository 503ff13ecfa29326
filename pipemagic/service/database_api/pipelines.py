"""Run the requests of one pipeline; a `Runner` runs their statements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
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
from pipemagic.service.sqlite.statement import Rejected, SqlStatement, first, of_script

RESULT_OVERHEAD = 200  # bytes of a result without its rows


def run(runner: Runner, requests: Sequence[messages.Request]) -> Steps[list[bytes]]:
    """Return the JSON of the results, in pieces: an entry for each request, in order."""
    pieces: list[bytes] = []
    for request in requests:
        try:
            if not isinstance(request, messages.Close):
                runner.refuse_if_ended()
            response, result = yield from _respond(runner, request)
        except Rejected as rejected:
            pieces += [b",", _error_entry(_fit_error(runner, rejected.error))]
            continue
        head = _head(**response)
        pieces += [b",", head[:-1], b',"result":', *result, b"}}"] if result else [b",", head, b"}"]
    if runner.loss_reported:
        runner.stream.acknowledge_loss()
    return pieces[1:]


def run_one(runner: Runner, request: messages.Request) -> Steps[list[bytes]]:
    """Return the JSON of the result of the only request of a stream; raise `Rejected` if it fails."""
    _, result = yield from _respond(runner, request)
    return result


def _respond(runner: Runner, request: messages.Request) -> Steps[tuple[dict[str, Any], list[bytes]]]:
    """Return the response to a request, and the JSON of its result, in pieces; no pieces if it has none."""
    response: dict[str, Any] = {"type": type(request).__struct_config__.tag}
    result: list[bytes] = []
    match request:
        case messages.Execute(stmt):
            runner.refuse_if_lost()
            result = (yield from runner.run(stmt, partial(_sink, runner))).json()
        case messages.Close():
            pass  # the stream is closed after the last request
        case messages.RunBatch(batch):
            yield from runner.wait_for(batch.replication_index)
            result = yield from _batch(runner, batch)
        case messages.Sequence():
            runner.refuse_if_lost()
            yield from runner.wait_for(request.replication_index)
            yield from _sequence(runner, runner.text(request))
        case messages.Describe():
            runner.refuse_if_blocked()
            yield from runner.wait_for(request.replication_index)
            result = [_describe(runner, runner.text(request))]
        case messages.StoreSql(sql_id, sql):
            _store(runner, sql_id, sql)
        case messages.CloseSql(sql_id):
            if runner.stream.stored is not None:
                runner.stream.stored.remove(sql_id)
        case messages.GetAutocommit():
            runner.enforce_window()
            response["is_autocommit"] = runner.stream.state.transaction is not Tx.OPEN
    return response, result


# Requests by type.


def _sink(runner: Runner, statement: SqlStatement, want_rows: bool) -> RowSink:
    """Return the sink for a statement's rows; raise `Rejected` if the response has no room left."""
    if not statement.commits:  # a transaction can be ended even if the response is full
        try:
            runner.budget.spend(RESULT_OVERHEAD)
        except TooLarge:
            raise Rejected.of(errors.no_room(runner.budget.limit)) from None
    return BufferedRows(runner.budget, want_rows=want_rows, by_columns=runner.by_columns)


def _batch(runner: Runner, batch: messages.Batch) -> Steps[list[bytes]]:
    states: list[StepState] = []
    pieces: list[bytes] = []
    step_errors: list[Error | None] = []
    for step in batch.steps:
        result, error = yield from runner.run_step(step, states, partial(_sink, runner))
        pieces += (b",", *(result.json() if result else [b"null"]))
        step_errors.append(None if error is None else _fit_error(runner, error))
    rest = {"step_errors": step_errors, "replication_index": str(runner.stream.place.index)}
    return [b'{"step_results":[', *pieces[1:], b"],", encode(rest)[1:]]


def _sequence(runner: Runner, script: str) -> Steps[None]:
    for statement in of_script(script):
        sink = BufferedRows(runner.budget, want_rows=False)
        yield from Execution(runner, statement, runner.bind(statement, messages.Stmt()), sink).run()
        sink.drop()  # the response contains nothing of it


def _describe(runner: Runner, text: str) -> bytes:
    parsed = next(sqltext.each(text), None)
    if parsed is None:
        return encode(messages.DescribeResult([], [], is_explain=False, is_readonly=True))
    statement = first(text, parsed)
    try:
        shape = runner.stream.connection.describe(statement)
    except apsw.Error as error:
        raise Rejected.of(sqlite_error(error, runner.stream, statement, runner.limits)) from None
    params = [messages.Param(name) for name in statement.parameters]
    readonly = shape.readonly and not statement.writes_by_itself
    result = encode(messages.DescribeResult(params, list(shape.cols), shape.explain, readonly))
    try:
        runner.budget.spend(len(result))
    except TooLarge:
        raise Rejected.of(errors.too_large(runner.budget.limit)) from None
    return result


def _store(runner: Runner, sql_id: int, text: str) -> None:
    if runner.stream.stored is None:
        runner.stream.stored = StoredTexts(Reservation(runner.budget.memory, runner.budget.tenant))
    if runner.stream.stored.get(sql_id) is not None:
        raise Rejected(f"SQL text {sql_id} already exists", "SQL_STORE_DUPLICATE")
    if not runner.stream.stored.add(sql_id, text):
        raise Rejected(
            "no memory is left for this SQL text: other stored texts, and requests that run, use it; send the text "
            "with each request, or close streams that have stored texts",
            faults.SQL_STORE_TOO_LARGE,
        )


def _fit_error(runner: Runner, error: Error) -> Error:
    """Return an error that fits into the response; its code always does."""
    error = errors.short(error)
    try:
        runner.budget.spend(len(encode(error)))
    except TooLarge:
        return _without_message(error.code, error.extended_code)
    return error


# A pipeline of a million entries has those without a result once in memory.


@lru_cache(maxsize=64)
def _error_entry(error: Error) -> bytes:
    return encode(messages.ErrorEntry(error))


@lru_cache(maxsize=64)
def _without_message(code: str | None, extended_code: str | None) -> Error:
    return Error("the error message does not fit: the response has reached its size limit", code, extended_code)


@lru_cache(maxsize=64)
def _head(**response: str | bool) -> bytes:
    """Return the beginning of the entry of a request that succeeded."""
    return b'{"type":"ok","response":' + encode(response)
