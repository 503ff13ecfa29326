"""What is known about a cell whose answer never came, and how to find out the rest.

The proof rests on two facts. Every commit makes the number of the database's state grow, which each answer brings
(``replication_index``). And there is one writer at a time: who is granted BEGIN IMMEDIATE knows that a write which
began before is over, one way or the other. So if the number is the same then, and what was lost would have held the
writer's place from its first moment on, nothing of it was applied and nothing of it is to come. All else stays open.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from enum import Enum
from functools import partial

from pipemagic import sql
from pipemagic.client.database import Database
from pipemagic.client.heads import head
from pipemagic.client.stream import ClientStream, Dialect
from pipemagic.errors import AnswerTimeout, InterruptedRequest, PipemagicError
from pipemagic.hrana.messages import Close, Execute, ExecuteResponse, OkEntry, Request, Stmt
from pipemagic.session.cells import Cell
from pipemagic.session.kinds import only_reads
from pipemagic.session.ledger import Ledger, controls, is_rollback

PATIENCE = 0.45
"""Seconds for the question: the cell has to end within a second of the interrupt."""

UNDER_WAY = 0.2
"""Seconds that a request must have been under way for the server to have begun with it for certain."""


class Finding(Enum):
    """What is known, in words."""

    ONLY_READS = "The cell only reads: nothing was changed."
    ROLLED_BACK = "Nothing of the transaction is applied."
    NOTHING = "Nothing of it was applied: no commit came since the last answer, and no write is under way."
    NOT_YET = "Nothing had been applied when the server was asked right after it; what came later is not known."
    CHANGED = "Something was committed since the last answer: by this cell, wholly or in part, or by somebody else."
    BUSY = "The server did not answer at once: it may still be at it, and what of it stays is not known."
    OPEN = "What was sent may have run, wholly or in part."


_UNCHANGED = (Finding.ONLY_READS, Finding.ROLLED_BACK, Finding.NOTHING)


def find_out(cell: Cell, before: Ledger, *, atomic: bool, ask: Callable[[], Finding | None]) -> Finding:
    """Tell what became of a cell without an answer; ``ask`` is called only where the text does not settle it.

    ``before`` is the ledger when the cell began. ``ask`` gives None for a state of the database that is as it was.
    """
    if before.open and not _leaves(cell, before):
        return Finding.ROLLED_BACK
    if not before.open and all(only_reads(one) or controls(one.text) for one in cell.statements):
        return Finding.ONLY_READS
    answer = ask()
    if answer is not None:
        return answer
    return Finding.NOTHING if atomic or _holds_from_the_start(cell, before) else Finding.NOT_YET


def _leaves(cell: Cell, before: Ledger) -> bool:
    """Tell whether the transaction that was open may have ended within the cell."""
    ledger = before.ahead(())
    for statement in cell.statements:
        ledger.follow(statement)
        if not ledger.open:
            return True
    return False


def _holds_from_the_start(cell: Cell, before: Ledger) -> bool:
    """Tell whether the cell holds the writer's place in its first moment, and never again after giving it up."""
    if before.open:
        wrote = any(_writes_at_once(one.text) for one in before.held)
        return wrote and before.ahead(cell.statements[:-1]).open
    return len(cell.statements) == 1 and not controls(cell.statements[0].text)


def _writes_at_once(text: str) -> bool:
    words = [token.text.upper() for token in sql.tokens(text) if token.kind == "word"][:2]
    if words[:1] == ["BEGIN"]:
        return words[1:] in (["IMMEDIATE"], ["EXCLUSIVE"])
    return not controls(text) and not only_reads(sql.split(text)[0])


def ask(database: Database, known: int | None) -> Finding | None:
    """Ask the server, in a request of its own and not for longer than PATIENCE; None if its state is the known one."""
    answers: list[Finding | None] = []
    beside = database.sibling(timeout=PATIENCE)
    beside.transport.observer = database.transport.observer
    work = partial(copy_context().run, lambda: answers.append(_ask(beside, known)))  # in the trace of the cell
    asking = threading.Thread(target=work, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    if not answers:
        beside.transport.hang_up()  # else it could still take the write lock, long after the user was told
        return Finding.BUSY
    beside.close()
    return answers[0]


def _ask(database: Database, known: int | None) -> Finding | None:
    stream = ClientStream(database.transport, dialect=Dialect.V2)
    requests: list[Request] = [Execute(Stmt("BEGIN IMMEDIATE")), Execute(Stmt("ROLLBACK")), Close()]
    try:
        granted, *_ = stream.send(requests)
    except AnswerTimeout:
        return Finding.BUSY
    except PipemagicError:
        return Finding.OPEN
    if not isinstance(granted, OkEntry) or not isinstance(granted.response, ExecuteResponse):
        return Finding.OPEN
    told = granted.response.result.replication_index
    if told is None or known is None or not str(told).isdigit():
        return Finding.OPEN
    now = int(told)
    return None if now == known else Finding.CHANGED if now > known else Finding.OPEN  # lower: it was restarted


def is_about(error: PipemagicError) -> bool:
    """Tell whether an error leaves open what ran, with the server there to be asked."""
    return isinstance(error, AnswerTimeout) or (isinstance(error, InterruptedRequest) and not error.answered)


def tell(error: PipemagicError, cell: Cell, finding: Finding) -> None:
    """Put what is known into the error, and what to do about the rest into its hint."""
    first, _, rest = error.message.partition("\n")
    if isinstance(error, InterruptedRequest):
        first = "interrupted while a request was under way"
    ran = f"{error.ran} of {len(cell.statements)} statements ran before it." if error.ran else ""
    known = finding.value
    if isinstance(error, AnswerTimeout) and finding in _UNCHANGED:
        error.code = AnswerTimeout.unchanged
        first = first.partition(";")[0].replace("stopped waiting", "stopped")
        rest = rest if rest.startswith("Undone") else ""
        if not rest:
            known = "Nothing was changed."
        if not (rest or ran):
            first, known = f"{first}. {known}", ""
    error.message = "\n".join(line for line in (first, ran, known, rest) if line)
    if finding in (Finding.ONLY_READS, Finding.NOTHING):
        error.hint = error.hint if rest else ""
    elif finding is not Finding.ROLLED_BACK:
        query = where_to_look(cell.statements)
        error.hint = f"look before you run it again{f': {query}' if query else ''}"


def where_to_look(statements: Sequence[sql.ParsedStatement]) -> str:
    """Give a query that shows what became of the first write among the statements; '' if there is none."""
    for statement in statements:
        if not only_reads(statement) and not controls(statement.text) and not is_rollback(statement):
            table = head(statement.text).table
            return f"SELECT count(*) FROM {table}" if table else ""
    return ""
