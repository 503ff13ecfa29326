"""Checks that refuse cells before anything is sent.

Refused are statements that may write on a read-only connection, UPDATE and DELETE without WHERE unless confirmed, and
statements that an atomic cell cannot contain.
"""

from __future__ import annotations

from pipemagic.client.readonly import find_write
from pipemagic.errors import ConfirmError, ReadOnlyError, SessionError
from pipemagic.session.cell import Cell
from pipemagic.session.database_files import restoring_line
from pipemagic.session.source_map import SourceText
from pipemagic.sql import ParsedStatement


def check_reads(cell: Cell, connection: str) -> None:
    """Raise ReadOnlyError if a statement of the cell is not known to read; ``connection`` is the name to show."""
    for index in range(len(cell.statements)):
        if write := find_write(cell.sent(index)):
            raise ReadOnlyError(
                f"{_place(cell, index)}: {write.what}, and {connection} is connected read-only; nothing was sent",
                hint=write.hint,
            )


def check_where(cell: Cell) -> None:
    """Raise ConfirmError if a statement of the cell changes or deletes all rows of a table."""
    for index, written in enumerate(cell.statements):
        if written.keyword not in ("UPDATE", "DELETE", "WITH"):
            continue
        statement = cell.as_sent(index)  # a name in braces is not one of its words
        if statement.changes_every_row and not _joins(statement):
            from pipemagic.explore.hints.corrections import correction  # cells that run need no hints

            _refuse_hidden_where(cell, index)
            does = "changes" if statement.verb == "UPDATE" else "deletes"
            raise ConfirmError(
                f"{_place(cell, index)}: this {statement.verb} has no WHERE and {does} all rows of "
                f"{statement.changed_table or 'a table'}; nothing was sent",
                hint=correction(statement.text) or _confirming(cell, statement.changed_table),
            )


def _joins(statement: ParsedStatement) -> bool:
    """Return True for UPDATE table JOIN other, which no server runs."""
    words = [token.text.upper() for token in statement.outer_tokens]
    end = 2 + 2 * (words[2:3] == ["."])
    return statement.verb == "UPDATE" and words[end : end + 1] in (["JOIN"], ["INNER"], ["LEFT"], [","])


def _refuse_hidden_where(cell: Cell, index: int) -> None:
    """Raise ConfirmError for a WHERE that SQLite cannot see: a character next to it makes it a part of a name."""
    text = cell.statements[index].text
    if text.isascii():
        return
    from pipemagic.explore.lint.characters import hidden_where

    word = hidden_where(text)
    if word is not None:
        raise ConfirmError(
            f'{_place(cell, index)}: SQLite reads "{word.text}" as a name, so this {cell.statements[index].verb} has '
            "no WHERE; nothing was sent",
            hint=f"{word.cause}: {word.fix()}",
        )


def _confirming(cell: Cell, table: str) -> str:
    """Return how to run a change of all rows of a table; a dump deletes all rows of sqlite_sequence."""
    line = restoring_line(cell) if table.lower() == "sqlite_sequence" else ""
    if line:
        return f"add --confirm after %%sql or %sql to run the dump here, or create a database from it:\n{line}"
    return "add --confirm after %%sql or %sql to run it anyway, or add a WHERE"


def check_atomic(cell: Cell) -> None:
    """Raise SessionError for statements that would end the transaction of an atomic cell or begin another."""
    for number, statement in enumerate(cell.statements):
        where = f"statement {cell.before + number + 1}, line {statement.line}"
        if statement.begin_mode or statement.commits or statement.rolls_back:
            raise SessionError(
                f"{where}: {statement.keyword} is not allowed in an atomic cell, which begins and commits by itself; "
                "nothing was run",
                hint="remove BEGIN and COMMIT, or run the cell without --atomic; SAVEPOINT is allowed",
            )
        if statement.is_ignored_in_transaction:
            raise SessionError(
                f"{where}: this PRAGMA has no effect inside a transaction, as in an atomic cell; nothing was run",
                hint="run it in its own cell, before this one",
            )


def transaction_open(name: str) -> SessionError:
    """Return the error for an atomic cell inside an open transaction, which could still be rolled back."""
    return SessionError(
        f"a transaction is open on {name}, and an atomic cell commits a transaction of its own; nothing was run",
        hint="COMMIT or ROLLBACK first; or run the cell without --atomic, as a part of the open transaction",
    )


def _place(cell: Cell, index: int) -> str:
    number = f"statement {cell.before + index + 1} of {cell.total}, " if cell.total > 1 else ""
    source = SourceText(cell.text, cell.source)  # what is sent may begin with a saved SELECT
    return f"{number}{source.where(cell.statements[index].start)}"
