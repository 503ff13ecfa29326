"""Run several statements up to the first error, on every kind of server."""

from __future__ import annotations

from collections.abc import Sequence

from pipemagic.client.statement_errors import statement_error
from pipemagic.client.stream import ClientStream, Dialect, Run
from pipemagic.errors import PipemagicError, ProtocolError, StatementError
from pipemagic.hrana.batches import chain, probe, transactional
from pipemagic.hrana.faults import RESPONSE_TOO_LARGE
from pipemagic.hrana.messages import (
    Batch,
    BatchResponse,
    Close,
    Entry,
    Error,
    ErrorEntry,
    Execute,
    ExecuteResponse,
    OkEntry,
    Request,
    RunBatch,
    Stmt,
    StmtResult,
)


def run(stream: ClientStream, stmts: Sequence[Stmt], *, atomic: bool, undo: bool, close: bool, mode: str) -> Run:
    """Run statements as `ClientStream.run` does."""
    if stream.dialect is Dialect.SEED:
        return _one_by_one(stream, stmts, atomic=atomic, undo=undo, close=close, mode=mode)
    end: list[Request] = [Close()] if close else []
    if atomic:
        batch, first = transactional(stmts, mode=mode), 1
    else:
        batch, first = chain(stmts, rollback=undo), 0
    entry = stream.send([RunBatch(batch), *end])[0]
    if isinstance(entry, ErrorEntry):
        outcome = _find_bad_one(stream, entry.error, stmts)
    else:
        outcome = _read_batch(entry, batch, stmts, first)
    too_large = isinstance(entry, ErrorEntry) and entry.error.code == RESPONSE_TOO_LARGE
    if outcome.error is not None and not close and (too_large if atomic else undo and stream.transaction.open):
        stream.send([Execute(Stmt("ROLLBACK", want_rows=False))])  # the whole batch was refused
    return outcome


def result_of(entry: Entry, sql: str = "", index: int = 0) -> StmtResult:
    """Return the result of an Execute; StatementError if the statement failed."""
    if isinstance(entry, ErrorEntry):
        raise statement_error(entry.error, sql, index)
    assert isinstance(entry.response, ExecuteResponse)  # checked when it was read
    return entry.response.result


def _read_batch(entry: OkEntry, batch: Batch, stmts: Sequence[Stmt], first: int) -> Run:
    """Read the entry of a batch; its statements start at step ``first``."""
    assert isinstance(entry.response, BatchResponse)  # checked when it was read
    results, errors = entry.response.result.step_results, entry.response.result.step_errors
    if not len(results) == len(errors) == len(batch.steps):
        raise ProtocolError("the batch has more steps than its response")
    good: list[StmtResult] = []
    for number, stmt in enumerate(stmts):
        error, result = errors[first + number], results[first + number]
        if error is not None:
            return Run(good, statement_error(error, stmt.sql or "", number))
        if result is None:
            break
        good.append(result)
    if first and (error := errors[0] or errors[first + len(stmts)]) is not None:
        # BEGIN or COMMIT itself: neither is a statement of the caller.
        return Run([], statement_error(error, "BEGIN" if errors[0] else "COMMIT", len(good)))
    if len(good) < len(stmts):
        raise ProtocolError("a step of the batch has neither a result nor an error")
    return Run(good)


def _find_bad_one(stream: ClientStream, error: Error, stmts: Sequence[Stmt]) -> Run:
    """Return the statement that made a whole batch fail: one that cannot be parsed also fails on its own."""
    refusal = statement_error(error)
    if refusal.code == RESPONSE_TOO_LARGE:
        hint = "the results are too large together; use LIMIT, or several steps"
        return Run([], refusal.replace(hint=hint))
    probes = probe([Stmt(stmt.sql) for stmt in stmts])
    for number, entry in enumerate(stream.send([RunBatch(batch) for batch in probes])):
        if isinstance(entry, ErrorEntry):
            return Run([], statement_error(entry.error, stmts[number].sql or "", number))
    return Run([], refusal)


def _one_by_one(
    stream: ClientStream, stmts: Sequence[Stmt], *, atomic: bool, undo: bool, close: bool, mode: str
) -> Run:
    """Run with ``execute`` only: one request for each statement, the next only after a success."""
    todo = [Stmt(f"BEGIN {mode}"), *stmts, Stmt("COMMIT")] if atomic else list(stmts)
    results: list[StmtResult] = []
    error: StatementError | None = None
    stream.check([Execute(stmt) for stmt in todo])  # all before the first one runs: the server may not bind arguments
    for number, stmt in enumerate(todo, start=-1 if atomic else 0):
        end: list[Request] = [Close()] if close and number == len(stmts) - (not atomic) else []
        try:
            result = result_of(stream.send([Execute(stmt), *end])[0], stmt.sql or "", number)
        except StatementError as caught:
            error = caught
            break
        except PipemagicError as caught:
            raise caught.replace(ran=max(0, number)) from None
        if 0 <= number < len(stmts):
            results.append(result)
    if close:
        stream.close()
    elif error is not None and (atomic or undo) and stream.transaction.open:
        stream.send([Execute(Stmt("ROLLBACK"))])
    return Run([] if error is not None and atomic else results, error)
