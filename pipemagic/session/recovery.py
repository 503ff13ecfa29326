"""Lost transactions and failed cells: what was lost, what can be rerun, and the error to raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from pipemagic import sql
from pipemagic.client.stream import ClientStream
from pipemagic.client.transaction import Held, LostTransaction, Transaction
from pipemagic.errors import PipemagicError, SessionError, TransactionLost
from pipemagic.hrana.stream import Phase, Tx
from pipemagic.session import interrupts, messages
from pipemagic.session.cell import Cell
from pipemagic.session.dump_files import restoring_hint
from pipemagic.session.interrupts import InterruptOutcome
from pipemagic.session.results import Outcome

UNKNOWN = "it is not known whether it was applied: no response arrived"
COMMIT_UNKNOWN = "it is not known whether it was committed: the statement that would have ended it got no response"
INCOMPLETE = "a statement whose result was too large for one response may have been part of it"

_NEVER_INSIDE = frozenset({"BEGIN", "ATTACH", "DETACH", "VACUUM"})


# -- after a loss


def resume_after_loss(transaction: Transaction, lost: LostTransaction, cell: Cell) -> tuple[list[Outcome], Cell]:
    """Allow only BEGIN and ROLLBACK after a transaction was lost; ROLLBACK has no effect.

    Return the outcomes of the statements that this handles, and the rest of the cell.
    """
    first = cell.statements[0]
    if lost.refusing and not first.rolls_back and not (lost.reported and first.keyword == "BEGIN"):
        raise messages.refused(cell) if lost.reported else _met(transaction, lost, cell)
    transaction.lost = None
    return ([Outcome(first)], cell.without_first()) if lost.rolled_back and first.rolls_back else ([], cell)


def retry_cell(lost: LostTransaction) -> Cell:
    """Return a cell that reruns the transaction; raise SessionError with the reason if it cannot be rerun."""
    if lost.doubt:
        raise SessionError(f"not rerun, because {lost.doubt}", hint="check the data before you run it again")
    if lost.incomplete:
        raise SessionError(f"not rerun, because {INCOMPLETE}", hint="rerun the cells from BEGIN")
    work = [(sql.parse(one.text), one) for one in lost.held]
    if work and work[0][0].keyword == "BEGIN":
        work = work[1:]
    if work and work[-1][0].commits:
        work = work[:-1]
    work = [one for one in work if not (one[0].only_reads or one[0].is_ignored_in_transaction)]
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
    text = ";\n".join(one.stmt.sql or one.text for _, one in work)
    return Cell(text, sql.split(text), tuple(one.stmt for _, one in work))


# -- errors


def stopped(transaction: Transaction) -> TransactionLost:
    """Record the loss of a transaction that ended with the service, and return the error."""
    reason = "the service was stopped while the transaction was open, and rolled it back"
    transaction.lose(reason)
    return _lost_error(transaction.lost or LostTransaction())


def _met(transaction: Transaction, lost: LostTransaction, cell: Cell) -> TransactionLost:
    """Return the error for the first cell after a loss that was recorded between cells."""
    refusing = Transaction(begun=True).ahead(cell.statements).open  # otherwise the cell was the end of the transaction
    transaction.lost = replace(lost, left=_left_over(cell.statements), refusing=refusing, reported=True)
    return _lost_error(transaction.lost)


def _lost_error(lost: LostTransaction) -> TransactionLost:
    return TransactionLost("\n".join([lost.why, *messages.undone(lost)]), hint=messages.after_loss(lost))


def ended_by(failure: messages.Failure, transaction: Transaction) -> messages.Failure:
    """Record that the database ended a transaction of earlier cells because a statement failed."""
    statements = failure.cell.statements[: failure.ran]
    at = failure.before.ahead(statements, failure.cell.stmts)
    if transaction.state is not Tx.NONE or not at.open or failure.before.began_at(statements) is not None:
        return failure
    why = f"the database rolled it back for a statement that failed ({failure.error.message})"
    left = _left_over(failure.cell.statements[failure.ran :])
    transaction.lost = LostTransaction(tuple(at.held), left=left, incomplete=at.incomplete, why=why)
    return replace(failure, lost=transaction.lost)


def failed(
    error: PipemagicError, stream: ClientStream, cell: Cell, before: Transaction, *, atomic: bool = False,
    ask: Callable[[], InterruptOutcome | None] | None = None,
) -> PipemagicError:  # fmt: skip
    """Record what a failed request lost, and return the error of the cell.

    ``before`` is the transaction when the cell began. ``ask`` asks the server outside the stream, if the outcome
    of the cell is not known; it returns None if the state of the database is unchanged.
    """
    transaction = stream.transaction
    if transaction.open:
        return error
    if interrupts.has_waited_too_long(error, cell, before, atomic=atomic):
        transaction.lost = None
        return interrupts.waited(error)
    refusing = transaction.state is Tx.LOST
    certain = refusing or isinstance(error, TransactionLost)
    detail, hint = [], error.hint
    if interrupts.only_begins(cell, before):
        transaction.lost, hint = None, ""  # no statement of a transaction can be lost
    elif atomic:
        transaction.lost = None
        if certain:
            detail, hint = ["nothing was changed"], _faster(cell) if isinstance(error, TransactionLost) else ""
        elif stream.phase is Phase.LOST:
            detail = ["the cell was applied as a whole, or nothing of it"]
            transaction.lost = LostTransaction(doubt=UNKNOWN, refusing=False, rolled_back=False)
    elif certain or stream.phase is Phase.LOST:
        lost = _lost_with(error, cell, before)
        late = transaction.lost is not None and transaction.lost.timed_out
        why = error.message.partition("\n")[0]
        lost = replace(lost, why=why, refusing=refusing, rolled_back=certain, timed_out=late)
        transaction.lost = lost if certain or lost.held or lost.doubt else None
        if certain:
            detail, hint = messages.undone(lost), (lost.partly and restoring_hint(cell)) or messages.after_loss(lost)
    outcome = None
    if ask is not None and interrupts.is_about(error):
        with suppress(KeyboardInterrupt):  # interrupted again: do not ask any longer
            outcome = interrupts.determine_outcome(cell, before, atomic=atomic, ask=ask)
    if outcome is None:
        return error.replace(message="\n".join([error.message, *detail]), hint=hint)
    doubtful = transaction.lost
    if outcome in (InterruptOutcome.NOTHING, InterruptOutcome.ONLY_READS) and doubtful is not None and doubtful.doubt:
        transaction.lost = lost = replace(doubtful, doubt="")
        if lost.held:
            detail, hint = messages.undone(lost), messages.after_loss(lost)
        else:
            transaction.lost = None
    return interrupts.with_outcome(error, cell, outcome, detail, hint)


def _faster(cell: Cell) -> str:
    """Return how to run a cell whose transaction took too long."""
    return restoring_hint(cell) or messages.IN_ONE_CELL


def _lost_with(error: PipemagicError, cell: Cell, before: Transaction) -> LostTransaction:
    """Return the transaction that an error ended: the one open before the cell, or one of the cell."""
    ran, rest = cell.statements[: error.ran], cell.statements[error.ran :]
    at, began = before.ahead(ran, cell.stmts), before.began_at(ran)
    certain = isinstance(error, TransactionLost)
    if at.open and began is None:
        end = next(at.ends(rest), None)
        if not certain and end is not None and rest[end].rolls_back:
            return LostTransaction(doubt=UNKNOWN if rest[end + 1 :] else "")
        doubt = "" if certain or not _may_commit(at, rest) else COMMIT_UNKNOWN
        return LostTransaction(tuple(at.held), doubt, left=_left_over(rest), incomplete=at.incomplete)
    first = began
    if first is None:
        opening = (error.ran + number for number, one in enumerate(rest) if one.opens_transaction)
        first = next(opening, None)
    if first is None:
        return LostTransaction(doubt="" if certain else UNKNOWN)
    inside, stmts = cell.statements[first:], cell.stmts[first:]
    end = next(Transaction().ends(inside), None)
    count = len(inside) if end is None else end + 1
    held = tuple(Held(one.text, stmt) for one, stmt in zip(inside[:count], stmts, strict=False))
    doubt = COMMIT_UNKNOWN if not certain and _may_commit(Transaction(), inside) else ""
    return LostTransaction(held, doubt, partly=True, left=_left_over(inside[count:]))


def _left_over(statements: Sequence[sql.ParsedStatement]) -> tuple[str, ...]:
    """Return the statements that still have an effect, without those that only end a transaction."""
    return tuple(one.text for one in statements if not one.controls_transaction)


def _may_commit(before: Transaction, statements: Sequence[sql.ParsedStatement]) -> bool:
    """Return True if one of the statements could have committed the transaction."""
    return any(not statements[number].rolls_back for number in before.ends(statements))
