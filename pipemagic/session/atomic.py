"""Cells that are applied as a whole or not at all: what may stand in them, and how they begin."""

from __future__ import annotations

from pipemagic.errors import SessionError
from pipemagic.session.cells import Cell
from pipemagic.session.kinds import only_reads
from pipemagic.session.settings import without_effect_inside


def check(cell: Cell) -> None:
    """Refuse what would end the transaction, or begin another; SessionError names it. Savepoints are fine."""
    for number, statement in enumerate(cell.statements):
        where = f"statement {cell.before + number + 1}, line {statement.line}"
        if statement.keyword in ("BEGIN", "COMMIT", "END") or statement.rolls_back:
            raise SessionError(
                f"{where}: {statement.keyword} has no place in an atomic cell, which begins and commits by itself; "
                "nothing was run",
                hint="leave BEGIN and COMMIT out, or run the cell without --atomic; SAVEPOINT may stay",
            )
        if without_effect_inside(statement):
            raise SessionError(
                f"{where}: this PRAGMA does nothing inside a transaction, so not in an atomic cell; nothing was run",
                hint="put it into a cell of its own, before this one",
            )


def open_already(name: str) -> SessionError:
    """Give the error for an atomic cell in the middle of a transaction, which could still be rolled back."""
    return SessionError(
        f"a transaction is open on {name}, and an atomic cell commits by itself; nothing was run",
        hint="COMMIT or ROLLBACK first; or run the cell without --atomic, as a part of the open transaction",
    )


def mode(cell: Cell) -> str:
    """Give how the transaction of an atomic cell begins: a cell that only reads waits for no writer."""
    return "DEFERRED" if all(map(only_reads, cell.statements)) else "IMMEDIATE"
