"""How transactions end: what a stream loses, what a retry may rerun, COMMIT and ROLLBACK without a transaction."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from pipemagic import sql
from pipemagic.client.stream import ClientStream
from pipemagic.client.transaction import Certainty, Loss, Reason, Transaction, TransactionContent, TransactionStatement
from pipemagic.errors import PipemagicError, SessionError, StatementError, TransactionLost
from pipemagic.hrana.stream import Phase, Tx
from pipemagic.session import interrupts, messages, transactions
from pipemagic.session.cell import Cell
from pipemagic.session.database_files import restoring_hint
from pipemagic.session.interrupts import InterruptOutcome
from pipemagic.session.results import Outcome
from pipemagic.sql import ParsedStatement

if TYPE_CHECKING:
    from pipemagic.session.connection import Connection

_NEVER_INSIDE = frozenset({"BEGIN", "ATTACH", "DETACH", "VACUUM"})


# -- after a loss


def resume_after_loss(transaction: Transaction, loss: Loss, cell: Cell) -> tuple[list[Outcome], Cell]:
    """Allow only BEGIN and ROLLBACK after a transaction was lost; ROLLBACK has no effect.

    Return the outcomes of the statements that this handles, and the rest of the cell.
    """
    first, refuses = cell.statements[0], transaction.state is Tx.LOST
    if refuses and not first.rolls_back and not (transaction.reported and first.keyword == "BEGIN"):
        raise transactions.refused(cell) if transaction.reported else _report(transaction, loss, cell)
    is_rolled_back = refuses or loss.reason is not Reason.UNKNOWN_OUTCOME
    transaction.forget()
    return ([Outcome(first)], cell.without_first()) if is_rolled_back and first.rolls_back else ([], cell)


def is_rolled_back(error: TransactionLost, transaction: Transaction, cell: Cell, before: TransactionContent) -> bool:
    """Return True if a cell begins with the ROLLBACK of a transaction that the server had ended: it has its effect.

    Nothing of the cell ran, then. A service that stopped has said nothing.
    """
    is_first = before.open and not error.ran and cell.statements[0].rolls_back
    return is_first and transaction.loss is not None and transaction.loss.reason is not Reason.SERVICE_STOPPED


def retry_cell(loss: Loss) -> Cell:
    """Return a cell that reruns the transaction; raise SessionError with the reason if it cannot be rerun."""
    if loss.certainty is not Certainty.ALL:
        raise transactions.not_rerun(loss)
    work = [(sql.parse(statement.text), statement) for statement in loss.statements]
    if work and work[0][0].keyword == "BEGIN":
        work = work[1:]
    if work and work[-1][0].commits:
        work = work[:-1]
    work = [pair for pair in work if not (pair[0].only_reads or pair[0].is_ignored_in_transaction)]
    for statement, _ in work:
        if statement.commits or statement.rolls_back or statement.keyword in _NEVER_INSIDE:
            raise SessionError(
                f"not rerun, because {statement.keyword} cannot run inside one transaction with the rest",
                hint="rerun the cells from BEGIN",
            )
    if all(statement.controls_transaction for statement, _ in work):
        raise SessionError(
            "the transaction that was rolled back contains no statement that changes data",
            hint="run ROLLBACK to continue",
        )
    text = ";\n".join(part.stmt.sql or part.text for _, part in work)
    return Cell(text, sql.split(text), tuple(part.stmt for _, part in work))


# -- errors


def stopped(transaction: Transaction) -> TransactionLost:
    """Record the loss of a transaction that ended with the service, and return the error."""
    return transactions.loss_error(transaction.service_stopped(transactions.SERVICE_STOPPED), refuses=True)


def _report(transaction: Transaction, loss: Loss, cell: Cell) -> TransactionLost:
    """Return the error for the first cell after a loss that was found between cells."""
    refuses = TransactionContent(begun=True).ahead(cell.statements).open  # else the cell was the end of the transaction
    loss = replace(loss, not_run=_left_over(cell.statements))
    transaction.explain(loss)
    if not refuses:
        transaction.acknowledge()
    return transactions.loss_error(loss, refuses=refuses)


def ended_by(failure: messages.FailedStatement, transaction: Transaction) -> messages.FailedStatement:
    """Record that the database ended a transaction of earlier cells because a statement failed."""
    statements = failure.cell.statements[: failure.ran]
    at = failure.before.ahead(statements, failure.cell.stmts)
    if transaction.state is not Tx.NONE or not at.open or failure.before.began_at(statements) is not None:
        return failure
    loss = Loss(
        Reason.FAILED_STATEMENT, tuple(at.statements), at.certainty(overran=transaction.overran),
        not_run=_left_over(failure.cell.statements[failure.ran :]), message=transactions.ended_by(failure.error),
    )  # fmt: skip
    transaction.restore(loss)
    return replace(failure, loss=loss)


def failed(
    error: PipemagicError, stream: ClientStream, cell: Cell, before: TransactionContent, *, atomic: bool = False,
    query: Callable[[], InterruptOutcome] | None = None,
) -> PipemagicError:  # fmt: skip
    """Record what a failed request lost, and return the error of the cell.

    ``before`` is the transaction when the cell began. ``query`` asks the server outside the stream, if the
    outcome of the cell is not known.
    """
    transaction = stream.transaction
    if transaction.open:
        return error
    reason = _reason(error, transaction)
    if (
        isinstance(error, TransactionLost)
        and reason is Reason.TRANSACTION_LIMIT
        and interrupts.has_waited_too_long(error, cell, before, atomic=atomic)
    ):
        transaction.forget()
        return interrupts.waited(error)
    refuses = transaction.state is Tx.LOST
    is_over = refuses or isinstance(error, TransactionLost)  # whatever was open; nothing of it can be committed later
    detail, hint = [], error.hint
    if interrupts.only_begins(cell, before):
        transaction.forget()
        hint = ""  # no statement of a transaction can be lost
    elif atomic:
        transaction.forget()
        if is_over:
            detail, hint = ["nothing was changed"], _faster(cell) if isinstance(error, TransactionLost) else ""
        elif stream.phase is Phase.LOST:
            detail = ["either the whole cell was applied, or nothing"]
            transaction.explain(Loss(reason, certainty=Certainty.NOTHING))
    elif is_over or stream.phase is Phase.LOST:
        loss = _loss_of(error, reason, cell, before, overran=transaction.overran)
        if isinstance(error, TransactionLost):
            refuses = before.ahead(cell.statements).open  # else the cell was the end of the transaction
            transaction.acknowledge()
            transaction.restore(loss, refuses=refuses)
        if is_over or loss.statements or not loss.certain:
            transaction.explain(loss)
        else:
            transaction.forget()
        if is_over:
            hint = transactions.after_loss(loss, refuses=refuses)
            detail, hint = transactions.undone(loss), (not loss.all_ran and restoring_hint(cell)) or hint
    outcome = None
    if query is not None and interrupts.is_about(error):
        if atomic and is_over:  # its COMMIT was not sent
            return interrupts.with_outcome(error, cell, InterruptOutcome.ROLLED_BACK, (), "")
        with suppress(KeyboardInterrupt):  # interrupted again: do not ask any longer
            outcome = interrupts.determine_outcome(cell, before, atomic=atomic, query=query)
    if outcome is None:
        return error.replace(message="\n".join([error.message, *detail]), hint=hint)
    doubtful = transaction.loss
    unchanged = outcome in (InterruptOutcome.NOTHING, InterruptOutcome.ONLY_READS)
    if unchanged and doubtful is not None and not doubtful.certain:
        if doubtful.statements:
            loss = _loss_of(error, reason, cell, before, overran=transaction.overran, is_proven=True)
            transaction.explain(loss)
            detail, hint = transactions.undone(loss), transactions.after_loss(loss, refuses=refuses)
        else:
            transaction.forget()
    return interrupts.with_outcome(error, cell, outcome, detail, hint)


def _reason(error: PipemagicError, transaction: Transaction) -> Reason:
    """Return why a request lost something; an error other than TransactionLost says that no response arrived."""
    if not isinstance(error, TransactionLost):
        return Reason.UNKNOWN_OUTCOME
    return Reason.SERVER_CLOSED if transaction.loss is None else transaction.loss.reason


def _faster(cell: Cell) -> str:
    """Return how to run a cell after its transaction took too long."""
    return restoring_hint(cell) or transactions.IN_ONE_CELL


def _loss_of(
    error: PipemagicError, reason: Reason, cell: Cell, before: TransactionContent, *, overran: bool,
    is_proven: bool = False,
) -> Loss:  # fmt: skip
    """Return the loss of the transaction that an error ended: open before the cell, or begun in it.

    ``overran``: see `Transaction.overran`. The rollback is certain if it ``is_proven`` or the server has reported it.
    """
    ran, rest = cell.statements[: error.ran], cell.statements[error.ran :]
    at, began = before.ahead(ran, cell.stmts), before.began_at(ran)
    is_proven = is_proven or isinstance(error, TransactionLost)
    certainty = Certainty.ALL if is_proven else Certainty.NOTHING
    loss = Loss(reason, certainty=certainty, message=error.message.partition("\n")[0])
    if at.open and began is None:
        end = next(at.ends(rest), None)
        if not is_proven and end is not None and rest[end].rolls_back:
            return loss if rest[end + 1 :] else replace(loss, certainty=Certainty.ALL)
        is_certain = is_proven or not _may_commit(at, rest)
        return replace(
            loss, statements=tuple(at.statements), not_run=_left_over(rest),
            certainty=at.certainty(overran=overran) if is_certain else certainty,
        )  # fmt: skip
    first = began
    if first is None:
        opening = (error.ran + number for number, statement in enumerate(rest) if statement.opens_transaction)
        first = next(opening, None)
    if first is None:
        return loss
    inside, stmts = cell.statements[first:], cell.stmts[first:]
    end = next(TransactionContent().ends(inside), None)
    count = len(inside) if end is None else end + 1
    statements = tuple(
        TransactionStatement(statement.text, stmt, ran=number < error.ran)
        for number, (statement, stmt) in enumerate(zip(inside[:count], stmts, strict=False), first)
    )
    if is_proven or not _may_commit(TransactionContent(), inside):
        loss = replace(loss, certainty=Certainty.LATE if overran else Certainty.ALL)
    return replace(loss, statements=statements, not_run=_left_over(inside[count:]))


def _left_over(statements: Sequence[sql.ParsedStatement]) -> tuple[str, ...]:
    """Return the statements that still have an effect, without those that only end a transaction."""
    return tuple(statement.text for statement in statements if not statement.controls_transaction)


def _may_commit(before: TransactionContent, statements: Sequence[sql.ParsedStatement]) -> bool:
    """Return True if one of the statements could have committed the transaction."""
    return any(not statements[number].rolls_back for number in before.ends(statements))


# -- COMMIT or ROLLBACK without a transaction

_NO_TRANSACTION = re.compile(r"cannot (commit|rollback) - no transaction is active")


class End(Enum):
    """The end of a transaction, as part of a hint."""

    NONE = "no transaction was begun on this connection"
    COMMITTED = "the last transaction was committed"
    ROLLED_BACK = "the last transaction was rolled back"
    FAILED = "the last transaction was rolled back because a statement failed"
    LOST = "the last transaction was rolled back by the server"
    CLOSED = "the last transaction was rolled back when the connection was closed"


def end_after(last: End, before: TransactionContent, ran: Sequence[ParsedStatement], *, still_open: bool) -> End:
    """Return how the last transaction ended after these statements ran; ``last`` is how the previous one ended."""
    if before.ahead(ran).open:
        return last if still_open else End.FAILED
    ends = list(before.ends(ran))
    if not ends:
        return last
    return End.ROLLED_BACK if ran[ends[-1]].rolls_back else End.COMMITTED


def with_last_end(
    error: StatementError, last: End, loss: Loss | None, others: Mapping[str, Connection]
) -> StatementError:  # fmt: skip
    """Add a hint to the error of a COMMIT or ROLLBACK without a transaction; return any other error unchanged.

    ``loss`` is the last transaction if it was lost, ``others`` are the other connections of the session, by name.
    """
    match = _NO_TRANSACTION.search(error.message)
    if match is None:
        return error
    if name := next(_open_on(others), ""):
        return error.replace(hint=f"the transaction is open on the connection {name}: --on {name}")
    outside = "a statement outside of a transaction is committed at once"
    if match[1] == "rollback":
        outside += ", and cannot be undone"
    if last is End.NONE:
        outside += "; write BEGIN before the statements that belong together"
    retry = f"\n{transactions.RETRY}" if loss is not None and loss.can_rerun else ""
    return error.replace(hint=f"{last.value}; {outside}{retry}")


def _open_on(others: Mapping[str, Connection]) -> Iterator[str]:
    return (name for name, connection in others.items() if connection.transaction is Tx.OPEN)
