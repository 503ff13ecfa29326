"""What is known about a cell whose response never came, and how to find out the rest.

The proof that nothing was applied rests on two facts. Every commit increases the number of the database's state, which
each response brings (``replication_index``). And there is one writer at a time: whoever is granted BEGIN IMMEDIATE
knows that a write which began before is over, one way or the other. So if the number is the same then, and the lost
cell would have held the write lock from its first moment on, nothing of it was applied and nothing of it is to come.
All else stays open.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from enum import Enum
from functools import partial

from pipemagic import sql
from pipemagic.client.database import Database
from pipemagic.client.stream import ClientStream, Dialect
from pipemagic.client.transaction import Transaction
from pipemagic.errors import AnswerTimeout, InterruptedRequest, PipemagicError
from pipemagic.hrana.messages import Close, Execute, ExecuteResponse, OkEntry, Request, Stmt
from pipemagic.session.cell import Cell

PATIENCE = 0.45
"""Seconds for the question: the cell has to end within a second of the interrupt."""

UNDER_WAY = 0.2
"""Seconds that a request must have been under way for the server to have begun with it for certain."""


class InterruptOutcome(Enum):
    """What is known of a cell without a response, in words."""

    ONLY_READS = "The cell only reads: nothing was changed."
    ROLLED_BACK = "Nothing of the transaction is applied."
    NOTHING = "Nothing of it was applied: no commit came since the last response, and no write is under way."
    NOT_YET = "Nothing had been applied when the server was asked right after it; what came later is not known."
    CHANGED = "Something was committed since the last response: by this cell, wholly or in part, or by somebody else."
    BUSY = "The server did not respond at once: it may still run it, and what of it stays is not known."
    OPEN = "What was sent may have run, wholly or in part."


_UNCHANGED = (InterruptOutcome.ONLY_READS, InterruptOutcome.ROLLED_BACK, InterruptOutcome.NOTHING)


def is_about(error: PipemagicError) -> bool:
    """Return True if an error leaves open what ran, and the server can be asked."""
    if isinstance(error, InterruptedRequest):
        return not (error.answered or error.nothing_ran)
    return isinstance(error, AnswerTimeout)


def find_out(
    cell: Cell, before: Transaction, *, atomic: bool, ask: Callable[[], InterruptOutcome | None]
) -> InterruptOutcome:
    """Return what became of a cell without a response; ask only if its text does not settle it."""
    work = [one for one in cell.statements if not one.controls_transaction]
    if before.open and next(before.ends(cell.statements), None) is None:
        return InterruptOutcome.ROLLED_BACK
    if not before.open and all(one.only_reads for one in work):
        return InterruptOutcome.ONLY_READS
    outcome = ask()
    if outcome is not None:
        return outcome
    if before.open:  # whether the cell holds the write lock from its first moment on, and never again after that
        at_once = any(map(_writes_at_once, before.statements)) and before.ahead(cell.statements[:-1]).open
    else:
        at_once = len(cell.statements) == len(work) == 1
    return InterruptOutcome.NOTHING if atomic or at_once else InterruptOutcome.NOT_YET


def _writes_at_once(text: str) -> bool:
    """Return True if a statement of a transaction takes the write lock."""
    statement = sql.parse(text)
    at_once = statement.begin_mode not in ("", "DEFERRED")
    return at_once or not (statement.controls_transaction or statement.only_reads)


def ask(database: Database, known: int) -> InterruptOutcome | None:
    """Ask the server, in a request of its own and not for longer than PATIENCE; None if its state is the known one."""
    outcomes: list[InterruptOutcome | None] = []
    beside = database.sibling(timeout=PATIENCE)
    beside.transport.observer = database.transport.observer
    work = partial(copy_context().run, lambda: outcomes.append(_ask(beside, known)))  # in the trace of the cell
    asking = threading.Thread(target=work, daemon=True)
    in_time = False
    try:
        asking.start()
        asking.join(PATIENCE)
        in_time = bool(outcomes)
    finally:  # also when the user interrupts again
        if not in_time:
            beside.transport.abort()  # else it could still take the write lock, long after the user was told
    if not in_time:  # what the abort makes of it is no outcome
        return InterruptOutcome.BUSY
    beside.close()
    return outcomes[0]


def _ask(database: Database, known: int) -> InterruptOutcome | None:
    stream = ClientStream(database.transport, dialect=Dialect.V2)
    requests: list[Request] = [Execute(Stmt("BEGIN IMMEDIATE")), Execute(Stmt("ROLLBACK")), Close()]
    try:
        granted, *_ = stream.send(requests)
    except AnswerTimeout:
        return InterruptOutcome.BUSY
    except PipemagicError:
        return InterruptOutcome.OPEN
    if not isinstance(granted, OkEntry) or not isinstance(granted.response, ExecuteResponse):
        return InterruptOutcome.OPEN
    index = granted.response.result.replication_index
    if index is None or not str(index).isdecimal() or int(index) < known:  # lower: it was restarted
        return InterruptOutcome.OPEN
    return None if int(index) == known else InterruptOutcome.CHANGED


def with_outcome(
    error: PipemagicError, cell: Cell, outcome: InterruptOutcome, detail: Sequence[str], hint: str
) -> PipemagicError:
    """Return the error with what is known, and with what to do about the rest as its hint."""
    code, known = error.code, outcome.value
    first = "interrupted while a request was under way" if isinstance(error, InterruptedRequest) else error.message
    ran = f"{error.ran} of {len(cell.statements)} statements ran before it." if error.ran else ""
    if isinstance(error, AnswerTimeout) and outcome in _UNCHANGED:
        code = AnswerTimeout.unchanged
        first = first.partition(";")[0].replace("stopped waiting", "stopped")
        detail = detail if detail and detail[0].startswith("Undone") else ()
        if not detail:
            known = "Nothing was changed."
        if not (detail or ran):
            first, known = f"{first}. {known}", ""
    if outcome in (InterruptOutcome.ONLY_READS, InterruptOutcome.NOTHING):
        hint = hint if detail else ""
    elif outcome is not InterruptOutcome.ROLLED_BACK:
        query = where_to_look(cell.statements)
        hint = f"look before you run it again{f': {query}' if query else ''}"
    return error.replace(message="\n".join(filter(None, [first, ran, known, *detail])), hint=hint, code=code)


def where_to_look(statements: Sequence[sql.ParsedStatement]) -> str:
    """Return a query that shows what became of the first write among the statements; '' if there is none."""
    for statement in statements:
        if not statement.only_reads and not statement.controls_transaction:
            table = statement.changed_table
            return f"SELECT count(*) FROM {table}" if table else ""
    return ""
