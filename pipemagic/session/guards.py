"""Cells that are refused before anything is sent.

Writes on a read-only connection; and, where that was not confirmed, UPDATE and DELETE that go over a whole table
because they have no WHERE.
"""

from __future__ import annotations

from pipemagic.client.heads import head
from pipemagic.client.readonly import find_write
from pipemagic.errors import ConfirmError, ReadOnlyError
from pipemagic.session.cells import Cell
from pipemagic.session.text.woven import Source


def refuse_sweeps(cell: Cell) -> None:
    """ConfirmError if a statement of the cell changes or deletes all rows of a table."""
    for index, statement in enumerate(cell.statements):
        if statement.keyword not in ("UPDATE", "DELETE", "WITH"):
            continue
        sent = cell.sent(index)
        if table := swept(sent):
            does = "changes" if head(sent).verb == "UPDATE" else "deletes"
            raise ConfirmError(
                f"{_place(cell, index)}: this {head(sent).verb} has no WHERE and {does} all rows of "
                f"{table}; nothing was sent",
                hint="write --confirm behind %%sql or %sql if that is what you want, or add a WHERE",
            )


def refuse_writes(cell: Cell, connection: str) -> None:
    """ReadOnlyError if a statement of the cell is not known to read; ``connection`` is a name for people."""
    for index in range(len(cell.statements)):
        if write := find_write(cell.sent(index)):
            raise ReadOnlyError(
                f"{_place(cell, index)}: {write.what}, and {connection} is connected read-only; nothing was sent",
                hint=write.hint,
            )


def _place(cell: Cell, index: int) -> str:
    number = f"statement {cell.before + index + 1} of {cell.total}, " if cell.total > 1 else ""
    written = Source(cell.text, cell.source)  # what is sent may begin with a saved SELECT
    return f"{number}{written.where(cell.statements[index].start)}"


def swept(text: str) -> str:
    """Give the name, as it is written, of the table whose rows an UPDATE or DELETE takes without WHERE; '' for none."""
    statement = head(text)
    if statement.verb not in ("UPDATE", "DELETE") or "WHERE" in statement.outer_words():
        return ""
    return statement.table or "a table"
