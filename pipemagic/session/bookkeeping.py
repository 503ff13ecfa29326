"""The books of the cells' transaction: what it holds, and what is to be settled after one that was lost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pipemagic.client.stream import ClientStream
from pipemagic.errors import PipemagicError, SessionError, TransactionLost
from pipemagic.hrana.stream import Phase, Tx
from pipemagic.session import interrupts, losses, messages
from pipemagic.session.cells import Cell
from pipemagic.session.interrupts import Finding
from pipemagic.session.ledger import Ledger, is_rollback
from pipemagic.session.losses import Loss
from pipemagic.session.results import Outcome


@dataclass(frozen=True)
class Aftermath:
    """What is left of a transaction that is gone.

    ``loss`` is what it held, for retry(). ``refusing`` tells that what may be the rest of it must not run,
    ``rolled_back`` that a ROLLBACK has nothing left to do.
    """

    loss: Loss | None = None
    refusing: bool = False
    rolled_back: bool = False


NOTHING_LEFT = Aftermath()


@dataclass
class Bookkeeping:
    """What the cells of one connection did in a transaction. Nothing here asks the server."""

    name: str
    ledger: Ledger = field(default_factory=Ledger)
    after: Aftermath = NOTHING_LEFT

    def state(self, stream: ClientStream | None) -> Tx:
        """Tell whether the cells have a transaction open, or lost one."""
        if self.after.refusing:  # also if its stream is closed by now
            return Tx.LOST
        return Tx.NONE if stream is None else stream.transaction.state

    def settle(self, cell: Cell, state: Tx) -> tuple[list[Outcome], Cell]:
        """Let only BEGIN and ROLLBACK through after a transaction was lost; ROLLBACK has nothing left to do.

        Gives the outcomes of what is dealt with by that, and the rest of the cell.
        """
        first = cell.statements[0]
        lost = state is Tx.LOST
        if lost and not is_rollback(first) and first.keyword != "BEGIN":
            raise messages.refused(cell)
        rolled_back = self.after.rolled_back or lost
        self.go_on(state)
        self.after = NOTHING_LEFT
        return ([Outcome(first)], cell.without_first()) if rolled_back and is_rollback(first) else ([], cell)

    def go_on(self, state: Tx) -> None:
        """Let cells run again after a lost transaction."""
        if state is Tx.LOST:
            self.ledger.clear()
        if self.after.refusing:
            self.after = replace(self.after, refusing=False)

    def forgive(self) -> None:
        """Go on as if nothing was lost; retry() still knows what was."""
        self.after = Aftermath(self.after.loss)

    def to_retry(self) -> Cell:
        """Give what retry() would run; SessionError with the reason if there is nothing, or must not be anything."""
        if self.after.loss is None:
            raise SessionError(
                f"there is nothing to run again on {self.name}",
                hint="it is for the cell after which a transaction was lost",
            )
        return self.after.loss.again()

    def lose(self, loss: Loss, *, refusing: bool = True) -> Loss:
        """Remember a transaction that is gone; ``refusing`` what may be the rest of it."""
        self.after = Aftermath(loss, refusing, rolled_back=True)
        self.ledger.clear()
        return loss

    def stopped(self) -> TransactionLost:
        """Give the error for a transaction that ended with the service."""
        reason = "the service was stopped while the transaction was open, and rolled it back"
        lost = self.lose(Loss.of(self.ledger, why=reason))
        return TransactionLost(messages.undone(reason, lost), hint=messages.after_loss(lost))

    def failed(self, error: PipemagicError, stream: ClientStream, cell: Cell) -> PipemagicError:
        """Add the statements that are gone with the transaction to the error that ended it."""
        state = stream.transaction.state
        if state is Tx.OPEN:
            return error
        loss = replace(losses.of_error(error, cell, self.ledger), why=error.message.partition("\n")[0])
        if state is Tx.LOST or isinstance(error, TransactionLost):
            self.lose(loss, refusing=state is Tx.LOST)
            error.message = messages.undone(error.message, loss)
            error.hint = messages.after_loss(loss, refusing=state is Tx.LOST)
        elif stream.phase is Phase.LOST:
            self.after = replace(self.after, loss=loss if loss.held or loss.doubt else None)
        self.ledger.clear()
        return error

    def failed_atomic(self, error: PipemagicError, stream: ClientStream) -> PipemagicError:
        """Say of an atomic cell without an answer whether it is certain that nothing was changed."""
        if stream.transaction.state is Tx.LOST or isinstance(error, TransactionLost):
            error.message += "\nnothing was changed"
            error.hint = messages.IN_ONE_CELL if isinstance(error, TransactionLost) else ""
        elif stream.phase is Phase.LOST:
            error.message += "\nthe cell was applied as a whole, or nothing of it"
            self.after = replace(self.after, loss=Loss((), losses.UNKNOWN))
        stream.settle()
        self.ledger.clear()
        return error

    def found_out(self, finding: Finding, error: PipemagicError, cell: Cell) -> None:
        """Put what was found out about a cell without an answer into its error, and have retry() go by it."""
        loss = self.after.loss
        if finding in (Finding.NOTHING, Finding.ONLY_READS) and loss is not None and loss.doubt:
            loss = replace(loss, doubt="") if loss.held else None
            self.after = replace(self.after, loss=loss)
            if loss is not None:
                error.message = messages.undone(error.message, loss)
                error.hint = messages.after_loss(loss, refusing=False)
        interrupts.tell(error, cell, finding)

    def ended_by(self, failure: messages.Failure, state: Tx) -> messages.Failure:
        """Take in that the database ended a transaction of earlier cells for the sake of a failed statement."""
        statements = failure.cell.statements[: failure.ran]
        ledger = failure.before.ahead(statements, failure.cell.stmts)
        ended = state is Tx.NONE and ledger.open and failure.before.began_at(statements) is None
        if not ended:
            return failure
        left = losses.left_over(failure.cell.statements[failure.ran :])
        why = f"the database rolled it back for a statement that failed ({failure.error.message})"
        return replace(failure, lost=self.lose(Loss.of(ledger, left=left, why=why)))
