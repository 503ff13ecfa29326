"""Determine the outcome of a cell without a response: from its text, or from the server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from enum import Enum
from functools import partial
from typing import TypeVar

from pipemagic import sql
from pipemagic.client.database import Database
from pipemagic.client.deadline import STOPPED_WAITING
from pipemagic.client.stream import ClientStream, Dialect
from pipemagic.client.transaction import TransactionContent
from pipemagic.errors import AnswerTimeout, InterruptedRequest, PipemagicError, TransactionLost
from pipemagic.hrana.messages import Close, Execute, ExecuteResponse, OkEntry, Request, Stmt
from pipemagic.session.cell import Cell

A = TypeVar("A")

PATIENCE = 0.45
"""Timeout of the check in seconds: the cell has to end within a second of the interrupt."""

RESPONDS_WITHIN = 0.25
"""Timeout in seconds of the question whether a server responds at all, while another connection may block writers."""

UNDER_WAY = 0.2
"""Seconds after which the server has certainly begun with a request."""


class InterruptOutcome(Enum):
    """The known outcomes of a cell without a response, as messages."""

    ONLY_READS = "The cell only reads: nothing was changed."
    ROLLED_BACK = "No part of the transaction was applied."
    NOTHING = "No part of it was applied: nothing was committed since the last response, and no write is in progress."
    NOT_YET = "Nothing had been applied when the server was checked right after it; later changes are unknown."
    CHANGED = "A commit was made since the last response: by this cell, in full or in part, or by another client."
    BUSY = "The server did not respond in time: the cell may still be running, and its outcome is unknown."
    LOCKED = (
        "The write lock is held by another connection or by this cell, which may still be running: its outcome is "
        "unknown."
    )
    WAITED = "Another connection holds the write lock: nothing was changed."
    OPEN = "The cell may have run, in full or in part."


_UNCHANGED = (InterruptOutcome.ONLY_READS, InterruptOutcome.ROLLED_BACK, InterruptOutcome.NOTHING)


def is_about(error: PipemagicError) -> bool:
    """Return True if an error leaves the outcome unknown and the server can be asked."""
    if isinstance(error, InterruptedRequest):
        return not (error.answered or error.nothing_ran)
    return isinstance(error, AnswerTimeout)


def determine_outcome(
    cell: Cell, before: TransactionContent, *, atomic: bool, query: Callable[[], InterruptOutcome]
) -> InterruptOutcome:
    """Return the outcome of a cell without a response; ``query`` the server only if the text does not decide it."""
    work = [statement for statement in cell.statements if not statement.controls_transaction]
    if only_begins(cell, before):
        return InterruptOutcome.WAITED if query() is InterruptOutcome.LOCKED else InterruptOutcome.ONLY_READS
    if _ends_inside(cell, before):
        return InterruptOutcome.ROLLED_BACK
    if not before.open and all(statement.only_reads for statement in work):
        return InterruptOutcome.ONLY_READS
    outcome = query()
    if outcome is not InterruptOutcome.NOT_YET:
        return outcome
    if before.open:  # whether the cell takes the write lock at its start, and only once
        at_once = any(map(_writes_at_once, before.texts)) and before.ahead(cell.statements[:-1]).open
    else:
        at_once = len(cell.statements) == len(work) == 1
    return InterruptOutcome.NOTHING if atomic or at_once else InterruptOutcome.NOT_YET


def _ends_inside(cell: Cell, before: TransactionContent) -> bool:
    """Return True if all of a cell belongs to one transaction, which it does not end: it ends with the stream."""
    if before.open:
        return next(before.ends(cell.statements), None) is None
    first, rest = cell.statements[:1], cell.statements[1:]
    return first[0].keyword == "BEGIN" and next(before.ahead(first).ends(rest), None) is None


def only_begins(cell: Cell, before: TransactionContent) -> bool:
    """Return True if a cell only begins a transaction: without it there is nothing that could be undone."""
    return not before.open and len(cell.statements) == 1 and cell.statements[0].keyword == "BEGIN"


def waits_first(cell: Cell, before: TransactionContent) -> bool:
    """Return True if a cell begins with a BEGIN that waits for the write lock, outside of a transaction."""
    return not before.open and any(first.begin_mode not in ("", "DEFERRED") for first in cell.statements[:1])


def _writes_at_once(text: str) -> bool:
    """Return True if a statement of a transaction takes the write lock."""
    statement = sql.parse(text)
    at_once = statement.begin_mode not in ("", "DEFERRED")
    return at_once or not (statement.controls_transaction or statement.only_reads)


def query_outcome(database: Database, index: int | None) -> InterruptOutcome:
    """Return the outcome as responses of the server to separate requests show it, for little longer than PATIENCE.

    It is NOT_YET if the state of the database is unchanged: its replication index is ``index``, the last known one.
    """
    outcome = _in_time(database, PATIENCE, lambda beside: _compare_state(beside, index))
    if outcome is not None:
        return outcome
    return InterruptOutcome.LOCKED if _in_time(database, RESPONDS_WITHIN, _responds) else InterruptOutcome.BUSY


def _in_time(database: Database, seconds: float, question: Callable[[Database], A | None]) -> A | None:
    """Return the answer to a question on separate connections; None if it does not arrive in time."""
    answers: list[A | None] = []
    beside = database.sibling(timeout=seconds)
    beside.transport.observer = database.transport.observer
    work = partial(copy_context().run, lambda: answers.append(question(beside)))  # in the trace of the cell
    thread = threading.Thread(target=work, daemon=True)
    answer, in_time = None, False
    try:
        thread.start()
        thread.join(seconds)
        if in_time := bool(answers):
            answer = answers[0]  # an answer that follows the abort says nothing
    finally:  # also when the user interrupts again
        if in_time:
            beside.close()
        else:
            beside.transport.abort()  # otherwise it could still take the write lock, long after the message
    return answer


def _responds(database: Database) -> bool:
    """Return True if the server responds to a statement that needs no lock."""
    try:
        ClientStream(database.transport, dialect=Dialect.SEED).send([Execute(Stmt("SELECT NULL")), Close()])
    except PipemagicError:
        return False
    return True


def _compare_state(database: Database, index: int | None) -> InterruptOutcome | None:
    """Return NOT_YET if nothing was written since the replication index was ``index``; None without a response in time.

    It is a proof by two facts. Every commit increases the replication index, which each response contains. And there is
    one writer at a time: a successful BEGIN IMMEDIATE means that every earlier write has ended, committed or not. So if
    the index is the same then, and the lost cell would have held the write lock from its start, nothing of it was or
    will be applied. The lock is released in the same request.
    """
    stream = ClientStream(database.transport, dialect=Dialect.SEED)
    requests: list[Request] = [Execute(Stmt("BEGIN IMMEDIATE")), Execute(Stmt("ROLLBACK")), Close()]
    try:
        begin, *_ = stream.send(requests)
    except AnswerTimeout:
        return None
    except PipemagicError:
        return InterruptOutcome.OPEN
    if not isinstance(begin, OkEntry) or not isinstance(begin.response, ExecuteResponse):
        return InterruptOutcome.OPEN
    now = begin.response.result.replication_index
    if index is None or now is None or not str(now).isdecimal() or int(now) < index:  # lower: it was restarted
        return InterruptOutcome.OPEN
    return InterruptOutcome.NOT_YET if int(now) == index else InterruptOutcome.CHANGED


def with_outcome(
    error: PipemagicError, cell: Cell, outcome: InterruptOutcome, detail: Sequence[str], hint: str
) -> PipemagicError:
    """Return the error with the outcome as part of its message, and the next step as its hint."""
    if outcome is InterruptOutcome.WAITED:
        return waited(error)
    code, sentence = error.code, outcome.value
    first = (
        "interrupted while a request was pending"
        if isinstance(error, InterruptedRequest)
        else error.message.split("\n")[0]
    )
    count = f"{error.ran} of {len(cell.statements)} statements ran before it." if error.ran else ""
    if isinstance(error, AnswerTimeout) and outcome in _UNCHANGED:
        code = AnswerTimeout.unchanged
        first = first.partition(";")[0].replace("stopped waiting", "stopped")
        detail = detail if detail and detail[0].startswith("Undone") else ()
        if not detail:
            sentence = "Nothing was changed."
        if not (detail or count):
            first, sentence = f"{first}. {sentence}", ""
    if outcome in (InterruptOutcome.ONLY_READS, InterruptOutcome.NOTHING):
        hint = hint if detail else ""
    elif outcome is not InterruptOutcome.ROLLED_BACK:
        query = verification_query(cell.statements)
        hint = f"check the data before you run it again{f': {query}' if query else ''}"
    return error.replace(message="\n".join(filter(None, [first, count, sentence, *detail])), hint=hint, code=code)


def waited(error: PipemagicError) -> PipemagicError:
    """Return the error of a BEGIN that waited for the lock of another connection."""
    parts = ["another connection holds the write lock", "nothing was changed"]
    limit = (first := error.message.split("\n")[0]).removeprefix(STOPPED_WAITING)
    if isinstance(error, InterruptedRequest):
        parts.insert(0, "interrupted")
    elif isinstance(error, TransactionLost):
        parts[0] = "another connection held the write lock until the time of the transaction was over"
    elif limit != first:
        parts.insert(1, f"waited {limit}")
    code = error.code if isinstance(error, InterruptedRequest) else AnswerTimeout.unchanged
    return error.replace(message="; ".join(parts), hint="run the cell again when its transaction has ended", code=code)


def has_waited_too_long(error: TransactionLost, cell: Cell, before: TransactionContent, *, atomic: bool) -> bool:
    """Return True if the transaction limit was over when the BEGIN of a transaction got the write lock."""
    return not error.ran and (cell.begin_mode == "IMMEDIATE" if atomic else waits_first(cell, before))


def verification_query(statements: Sequence[sql.ParsedStatement]) -> str:
    """Return a query that shows the effect of the first write among the statements; '' if there is none."""
    for statement in statements:
        if not statement.only_reads and not statement.controls_transaction:
            table = statement.changed_table
            return f"SELECT count(*) FROM {table}" if table else ""
    return ""
