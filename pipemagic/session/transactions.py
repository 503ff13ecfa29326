"""Messages on transactions: how an open one is described, what a lost one contained, and how to continue."""

from __future__ import annotations

from collections.abc import Sequence

from pipemagic.client.transaction import Certainty, Loss
from pipemagic.errors import SessionError, StatementError, TransactionLost
from pipemagic.hrana.stream import Tx
from pipemagic.session.cell import Cell
from pipemagic.text import plural, shorten

SHOWN = 5
"""The number of statements of a lost transaction to list; the rest are counted."""

END_IT = "COMMIT keeps its changes, ROLLBACK undoes them"

ROLLED_BACK = "The open transaction was rolled back."
"""The line to show when a connection with an open transaction is closed."""

SERVICE_STOPPED = "the service was stopped while the transaction was open, and rolled it back"

AGAIN = "rerun the cells from BEGIN, or put the whole transaction into one cell"

AFTER_LOSS = f"{AGAIN}\nuntil BEGIN or ROLLBACK no other statement runs here, so that no part of it is applied alone"

CHECK_FIRST = "check the data, then rerun the statements that were not applied, from BEGIN"

RETRY = "%pipedb retry reruns the undone statements, all or nothing"

IN_ONE_CELL = "split the transaction or make it faster, and run the cell again"


def open_line(count: int) -> str:
    """Return the line below a cell that leaves a transaction open, with ``count`` statements in it.

    It contains no times, so that saved notebooks do not change.
    """
    return f"{describe_transaction(Tx.OPEN, count)}: {END_IT}."


def describe_transaction(state: Tx, count: int = 0, loss: Loss | None = None, *, responds: bool = True) -> str:
    """Return the state of a transaction as text without times.

    ``count`` is how many statements it holds if it is open, ``loss`` what was lost if it is lost. Of a server that no
    longer ``responds`` it is not known whether it still has the transaction.
    """
    if state is Tx.OPEN and not responds:
        return f"The transaction ({so_far(count)}) is lost if the server has stopped"
    lost = "Transaction timed out and was rolled back" if loss is not None and loss.timed_out else "Transaction lost"
    return {Tx.NONE: "No transaction", Tx.OPEN: f"Transaction open, {so_far(count)}", Tx.LOST: lost}[state]


def so_far(count: int) -> str:
    """Return the number of statements in a transaction as text."""
    return "no statements so far" if not count else f"{plural(count, 'statement')} so far"


# -- transactions that were lost


def undone(loss: Loss) -> list[str]:
    """Return the lines with the statements that a rollback undid; no lines if that is not certain."""
    if not loss.statements or not loss.certain:
        return []
    if loss.certainty is Certainty.LATE:
        return ["Undone; the last of them may have run after its end, and would then be applied:", listing(loss.texts)]
    return ["Undone:" if loss.all_ran else "Undone, or not run:", listing(loss.texts)]


def after_loss(loss: Loss, *, refuses: bool) -> str:
    """Return how to continue after a loss; it ``refuses`` statements until it is acknowledged."""
    lines = AFTER_LOSS.split("\n") if refuses else [AGAIN if loss.all_ran else IN_ONE_CELL]
    if loss.certainty in (Certainty.LATE, Certainty.NOTHING):
        lines[0] = CHECK_FIRST
    if loss.can_rerun:
        lines.insert(1, RETRY)
    return "\n".join(lines)


def loss_error(loss: Loss, *, refuses: bool) -> TransactionLost:
    """Return the error that reports a loss, with its statements and how to continue."""
    return TransactionLost("\n".join([loss.message, *undone(loss)]), hint=after_loss(loss, refuses=refuses))


def ended_by(error: StatementError) -> str:
    """Return the message of a loss that a failed statement caused."""
    return f"the database rolled it back because a statement failed ({error.message})"


def not_rerun(loss: Loss) -> SessionError:
    """Return the error for a loss that is uncertain, or has unknown statements."""
    if loss.certainty is Certainty.LATE:
        why = "its last statements may have run after its end, and would then be applied: the server does not report it"
        return SessionError(f"not rerun, because {why}", hint="check the data before you run it again")
    if loss.certainty is Certainty.UNLISTED:
        why = "a statement that is not listed may have been part of it: its result was too large, or it was OR FAIL"
        return SessionError(f"not rerun, because {why}", hint="rerun the cells from BEGIN")
    why = "it is not known whether it was applied: no response arrived"
    if loss.statements:
        why = "it is not known whether it was committed: the statement that would have ended it got no response"
    return SessionError(f"not rerun, because {why}", hint="check the data before you run it again")


def refused(cell: Cell) -> TransactionLost:
    """Return the error for a cell that would continue a lost transaction."""
    return TransactionLost(
        f"not run, because the transaction before it was rolled back: {shorten_statement(cell.statements[0].text, 60)}",
        hint="rerun the cells from BEGIN, or run ROLLBACK to continue without it",
    )


def listing(statements: Sequence[str], *, most: int = SHOWN) -> str:
    """Return statements as indented, shortened lines, at most ``most`` of them."""
    first = statements if len(statements) <= most + 1 else statements[:most]
    lines = [f"  {shorten_statement(text, 72)}" for text in first]
    if len(first) < len(statements):
        lines.append(f"  and {len(statements) - len(first)} more")
    return "\n".join(lines)


def shorten_statement(text: str, width: int) -> str:
    """Return a statement as one line of at most ``width`` characters."""
    return shorten(" ".join(text.split()), width)
