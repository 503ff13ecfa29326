"""A transaction that is gone: what it held, and whether it can be run again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipemagic import sql
from pipemagic.errors import PipemagicError, SessionError, TransactionLost
from pipemagic.session.cells import Cell
from pipemagic.session.kinds import only_reads
from pipemagic.session.ledger import Held, Ledger, controls, is_rollback, opens
from pipemagic.session.settings import without_effect_inside

_NEVER_INSIDE = frozenset({"ATTACH", "DETACH", "VACUUM"})
_ENDS = frozenset({"COMMIT", "END"})

UNKNOWN = "nobody knows whether it was applied: no answer came to it"
COMMIT_UNKNOWN = "nobody knows whether it was committed: no answer came to what would have ended it"


INCOMPLETE = "a statement whose result was too large for one response may have been part of it"


@dataclass(frozen=True)
class Loss:
    """What a transaction held that is over without its COMMIT.

    ``held`` are its statements, oldest first; not all of them need have run if ``partly``. ``doubt`` says why it
    may have been committed after all, '' if it was rolled back for certain. ``left`` are statements of the cell that
    met the loss: they did not run, and are no part of what can be run again. ``incomplete`` tells that more than
    ``held`` may have run in it. ``why`` says what ended it.
    """

    held: tuple[Held, ...] = ()
    doubt: str = ""
    partly: bool = False
    left: tuple[str, ...] = ()
    incomplete: bool = False
    why: str = ""

    @classmethod
    def of(cls, ledger: Ledger, *, doubt: str = "", left: tuple[str, ...] = (), why: str = "") -> Loss:
        """Give the loss of the open transaction."""
        return cls(tuple(ledger.held), doubt, left=left, incomplete=ledger.incomplete, why=why)

    @property
    def statements(self) -> list[str]:
        """The texts of the statements."""
        return [one.text for one in self.held]

    def again(self) -> Cell:
        """Give a cell that does the same; SessionError says why that cannot be, or must not."""
        if self.doubt:
            raise SessionError(f"not run again, since {self.doubt}", hint="look before you run it again")
        if self.incomplete:
            raise SessionError(f"not run again, since {INCOMPLETE}", hint="run the cells again from BEGIN on")
        work = self.held[1:] if self.held and sql.parse(self.held[0].text).keyword == "BEGIN" else self.held
        if work and sql.parse(work[-1].text).keyword in _ENDS:
            work = work[:-1]
        work = tuple(one for one in work if _matters(one))
        for one in work:
            _check(one)
        if all(controls(one.text) for one in work):
            raise SessionError(
                "the transaction that was rolled back held no statement that changes anything",
                hint="type ROLLBACK to go on",
            )
        return _cell(work)


def _matters(one: Held) -> bool:
    """Tell whether it is to be run again: not a query, nor a setting that a transaction does not take."""
    statement = sql.split(one.text)[0]
    return not (only_reads(statement) or statement.keyword == "EXPLAIN" or without_effect_inside(statement))


def _check(one: Held) -> None:
    statement = sql.split(one.text)[0]
    controls = statement.keyword in (*_ENDS, "BEGIN") or is_rollback(statement)
    if controls or statement.keyword in _NEVER_INSIDE:
        raise SessionError(
            f"not run again, since {statement.keyword} cannot run inside one transaction with the rest",
            hint="run the cells again from BEGIN on",
        )


def _cell(work: Sequence[Held]) -> Cell:
    text = ";\n".join(one.stmt.sql or one.text for one in work)
    return Cell(text, sql.split(text), tuple(one.stmt for one in work))


def of_error(error: PipemagicError, cell: Cell, before: Ledger) -> Loss:
    """Tell what an error took away: it ended the transaction that was open before the cell, or one of the cell's."""
    ran, rest = cell.statements[: error.ran], cell.statements[error.ran :]
    at, began = before.ahead(ran, cell.stmts), before.began_at(ran)
    certain = isinstance(error, TransactionLost)
    if at.open and began is None:
        if not certain and (after := _after_rollback(at, rest)) is not None:
            return Loss((), UNKNOWN if after else "")
        doubt = "" if certain or not _may_end(at, rest) else COMMIT_UNKNOWN
        return Loss.of(at, doubt=doubt, left=left_over(rest))
    first = began
    if first is None:
        first = next((error.ran + number for number, one in enumerate(rest) if opens(one)), None)
    if first is None:
        return Loss((), "" if certain else UNKNOWN)
    inside = tuple(_inside(cell, first))
    in_doubt = not certain and _may_end(Ledger(), cell.statements[first:])
    left = left_over(cell.statements[first + len(inside) :])
    return Loss(inside, COMMIT_UNKNOWN if in_doubt else "", partly=True, left=left)


def left_over(statements: Sequence[sql.ParsedStatement]) -> tuple[str, ...]:
    """Give the statements that still have work to do: not those that only end a transaction."""
    return tuple(one.text for one in statements if not controls(one.text))


def _after_rollback(ledger: Ledger, rest: Sequence[sql.ParsedStatement]) -> Sequence[sql.ParsedStatement] | None:
    """Give the statements behind the one by which the open transaction is rolled back; None if none does that."""
    ledger = ledger.ahead(())
    for number, statement in enumerate(rest):
        ledger.follow(statement)
        if not ledger.open:
            return rest[number + 1 :] if is_rollback(statement) else None
    return None


def _may_end(ledger: Ledger, rest: Sequence[sql.ParsedStatement]) -> bool:
    """Tell whether one of the statements could have ended the open transaction and kept it."""
    ledger = ledger.ahead(())
    for statement in rest:
        was_open = ledger.open
        ledger.follow(statement)
        if was_open and not ledger.open and not is_rollback(statement):
            return True
    return False


def _inside(cell: Cell, first: int) -> Iterator[Held]:
    """Give the statements of a cell from the one that begins a transaction to the one that ends it."""
    ledger = Ledger()
    for statement, stmt in zip(cell.statements[first:], cell.stmts[first:], strict=True):
        yield Held(statement.text, stmt)
        ledger.follow(statement)
        if not ledger.open:
            return
