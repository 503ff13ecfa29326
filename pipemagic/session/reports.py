"""The words for a cell that failed: which statement, where, what of the cell is applied, how to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipemagic.counts import plural
from pipemagic.errors import StatementError, TransactionLost
from pipemagic.explore.syntax_errors import ends_early, unterminated_comment
from pipemagic.hrana.faults import RESPONSE_TOO_LARGE
from pipemagic.session import places
from pipemagic.session.cells import Cell
from pipemagic.session.ledger import Ledger, listing, shorten
from pipemagic.session.losses import Loss
from pipemagic.session.places import Fault, excerpt
from pipemagic.session.text.woven import Place, Source
from pipemagic.terminals import without_passwords

END_IT = "COMMIT keeps what ran in it, ROLLBACK undoes it"

ROLLED_BACK = "The open transaction was rolled back."
"""The line for whatever closes a connection in the middle of a transaction."""

AGAIN = "Run the cells again from BEGIN on, or put the whole transaction into one cell."

AFTER_LOSS = f"{AGAIN}\nUntil BEGIN or ROLLBACK nothing more runs here, so that no part of it is applied alone."

RETRY = "%pipedb retry runs what was undone again, all or nothing."

IN_ONE_CELL = "Split what takes so long into several transactions, or make it faster, and run the cell again."


@dataclass(frozen=True)
class Failure:
    """A statement of a cell was refused: all that its report needs.

    ``error`` comes from the client: its ``index`` counts from 0 within the cell. ``ran`` statements ran before
    it; none if the server looked at the whole cell first. ``before`` is the ledger as it was when the cell began;
    ``open_after`` is how many statements the transaction holds that is open now, None if none is. ``lost`` is the
    transaction of earlier cells that the database ended.
    """

    cell: Cell
    error: StatementError
    ran: int
    before: Ledger
    open_after: int | None = None
    lost: Loss | None = None
    atomic: bool = False


def open_line(count: int, clock: str = "") -> str:
    """Give the line below a cell that leaves a transaction open, with ``count`` statements in it.

    It holds no times, so that saved notebooks stay as they are; ``clock`` is for those who ask for them.
    """
    line = f"Transaction open, {so_far(count)}: {END_IT}."
    return f"{line} {clock}" if clock else line


def so_far(count: int) -> str:
    """Say how many statements a transaction holds."""
    return "no statement so far" if not count else f"{plural(count, 'statement')} so far"


def statement_error(failure: Failure, notes: Sequence[str] = ()) -> StatementError:
    """Give the error that a failed cell raises; ``notes`` are the lines that it would have shown."""
    error, cell = failure.error, failure.cell
    if failure.atomic and (around := _around(failure)):
        hint = "\n".join(line for line in (error.hint, *notes) if line)
        return StatementError(f"{error.message}\n{around}", hint=hint, code=error.code)
    if error.code == RESPONSE_TOO_LARGE and len(cell.statements) > 1 and failure.ran == error.index == 0:
        return _too_large(failure)
    sent = cell.sent(error.index)
    fault = places.fault_of(error, sent)
    message, offset = fault.message, fault.offset
    place = None if offset is None else cell.place(error.index, offset)
    comment = unterminated_comment(cell.text) if ends_early(error.message) else None
    if comment is not None and error.index == len(cell.statements) - 1:  # it is no part of what was sent
        fault, place = Fault("unterminated comment", None, of_line=True), Place(Source(cell.text, cell.source), comment)
        message = fault.message
    if fault.of_line and place is not None:
        message = f"{place.where}: {message}"
    still = failure.open_after
    hints = ["" if still is None else f"The transaction is still open, {so_far(still)}: {END_IT}.", error.hint, *notes]
    if failure.lost is not None:
        hints.append(after_loss(failure.lost))
    return StatementError(
        "\n".join([message, *_where(failure, place, named=fault.of_line), *_fate(failure)]),
        hint="\n".join(hint for hint in hints if hint),
        code=error.code,
        index=cell.before + error.index,
        sql=sent,
        offset=None if offset is None else len(sent[:offset].encode("utf-8")),
    )


def _too_large(failure: Failure) -> StatementError:
    """Say what is known if several results in one response were too much: not how far the server came."""
    undone = "; a transaction that they had left open was rolled back" if not failure.before.open else ""
    return StatementError(
        f"{failure.error.message}\nThe results of the cell are too large. Its statements may have run{undone}.",
        hint="ask for fewer rows with LIMIT, or for one result in each cell",
        code=failure.error.code,
    )


def _around(failure: Failure) -> str:
    """Say what failed of an atomic cell that is none of its statements; '' if it was one of them."""
    error = failure.error
    if error.sql.startswith("BEGIN") or error.index < 0:
        return "nothing was changed; the transaction could not begin"
    if error.sql == "COMMIT" or error.index >= len(failure.cell.statements):
        return "nothing was changed; all statements ran, and COMMIT failed"
    if error.code == RESPONSE_TOO_LARGE and failure.cell.total > 1:
        return "nothing was changed; the results of the cell are too large together"
    return ""


def _where(failure: Failure, place: Place | None, *, named: bool = False) -> list[str]:
    """Name the statement and its line, unless it is the only one and the line is ``named``, and draw the place."""
    cell, index = failure.cell, failure.error.index
    statement, total = cell.statements[index], cell.total
    shown = place or Place(Source(cell.text, cell.source), statement.start)
    number = f"statement {cell.before + index + 1} of {total}"
    if failure.atomic:
        head = [f"nothing was changed; {number} failed here, {shown.where}:"]
    elif total > 1:
        head = [f"{number}, {shown.where}:"]
    else:
        several = shown.source.name or "\n" in cell.text.strip()
        head = [f"{shown.where}:"] if several and not named else []
    if place is not None:
        return head + [f"  {text}" for text in excerpt(place.source.text, place.offset).split("\n")]
    return [*head, f"  {shorten(without_passwords(statement.text), 76)}"] if head else []


def _fate(failure: Failure) -> list[str]:
    """Say what became of the statements before the failed one, and that those after it never ran."""
    cell, before, ran = failure.cell, failure.before, failure.ran
    if failure.atomic:
        return []
    if cell.total > 1 and ran < failure.error.index:
        return ["No statement of the cell ran."]
    parts = _fates(cell, before, ran, still_open=failure.open_after is not None)
    if after := span(cell, failure.error.index + 1, len(cell.statements)):
        parts.append(f"{after} did not run")
    lines = _sentence(parts)
    return [*lines, *_undone(failure.lost)] if failure.lost is not None else lines


def _fates(cell: Cell, before: Ledger, ran: int, *, still_open: bool) -> list[str]:
    """Say what became of the first ``ran`` statements of a cell."""
    began = before.began_at(cell.statements[:ran])
    inside = "part of the open transaction" if still_open else "rolled back"
    if not before.ahead(cell.statements[:ran]).open:
        return [_were(cell, 0, ran, "applied")]
    if began is not None:
        return [_were(cell, 0, began, "applied"), _were(cell, began, ran, inside)]
    if still_open:
        return [_were(cell, 0, ran, inside)]
    return ["the database rolled back the whole transaction, with what earlier cells did in it"]


def _sentence(parts: Sequence[str]) -> list[str]:
    said = "; ".join(part for part in parts if part)
    return [f"{said[0].upper()}{said[1:]}."] if said else []


def half_way(cell: Cell, before: Ledger, ran: int, *, still_open: bool, atomic: bool) -> str:
    """Say what became of a cell of which ``ran`` statements ran before a request was refused."""
    if atomic:
        return "nothing was changed"
    rest = f"{span(cell, ran, len(cell.statements))} did not run"
    return "\n".join(_sentence([*_fates(cell, before, ran, still_open=still_open), rest]))


def undone_from(failure: Failure) -> int | None:
    """Give the index of the first statement that ran and was rolled back with the failure; None if nothing was."""
    ran = failure.cell.statements[: failure.ran]
    if failure.atomic:
        return 0
    if failure.open_after is not None or not failure.before.ahead(ran).open:
        return None
    return failure.before.began_at(ran) or 0


def _were(cell: Cell, first: int, end: int, fate: str) -> str:
    named = span(cell, first, end)
    return f"{named} {'was' if end - first == 1 else 'were'} {fate}" if named else ""


def span(cell: Cell, first: int, end: int) -> str:
    """Name the statements from index ``first`` up to, not including, ``end``; '' for none."""
    if end <= first:
        return ""
    last = cell.before + end
    return f"statement {last}" if end - first == 1 else f"statements {cell.before + first + 1}-{last}"


def undone(reason: str, loss: Loss) -> str:
    """Give the reason for a rollback with the statements that it undid."""
    return "\n".join([reason, *_undone(loss)])


def _undone(loss: Loss) -> list[str]:
    if not loss.held or loss.doubt:
        return []
    return ["Undone, or not run:" if loss.partly else "Undone:", listing(loss.statements)]


def after_loss(loss: Loss, *, refusing: bool = True) -> str:
    """Say how to go on: what runs again, and whether anything else does before that."""
    lines = AFTER_LOSS.split("\n") if refusing else [IN_ONE_CELL if loss.partly else AGAIN]
    if loss.held and not loss.doubt and not loss.incomplete:
        lines.insert(1, RETRY)
    return "\n".join(lines)


def refused(cell: Cell) -> TransactionLost:
    """Give the error for a cell that would go on with a transaction which is gone."""
    return TransactionLost(
        f"not run, for the transaction before it was rolled back: {shorten(cell.statements[0].text, 60)}",
        hint="Run the cells again from BEGIN on, or type ROLLBACK to go on without it.",
    )
