"""``last_insert_rowid()``, ``changes()`` and ``total_changes()``, which begin at 0 again on a reopened connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pipemagic.client.stream import Run
from pipemagic.explore.schema import Relation
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.hrana.messages import StmtResult
from pipemagic.session.cell import Cell
from pipemagic.sql import ParsedStatement, normalize

_LAST_ID = "last_insert_rowid"
_COUNTS = ("changes", "total_changes")
_INSERTS = ("INSERT", "REPLACE")
_NEVER_CALLED = frozenset(["VIEW", "TRIGGER", "INDEX"])

Tables = Callable[[], Sequence[Relation]]
"""Returns the tables of the database."""


class Change(NamedTuple):
    """A statement that changed rows of a table, as it is written, and whether it has RETURNING."""

    verb: str
    table: str
    returns_rows: bool

    def __str__(self) -> str:
        between = {"DELETE": " FROM", "UPDATE": ""}.get(self.verb, " INTO")
        return f"{self.verb}{between} {self.table}"


@dataclass
class RowCounts:
    """The statements that these functions are about: the last ones of a connection, and those of its open stream.

    ``insert`` is the last INSERT that set the id, ``change`` the last statement that changes rows. ``reset`` are the
    functions that are 0 because their statement ran before the stream was reopened, or ``closed``.
    """

    insert: Change | None = None
    change: Change | None = None
    reset: frozenset[str] = frozenset()
    closed: bool = False

    def reopened(self) -> None:
        """Record that another stream replaces the one of the statements so far."""
        if self.change is not None:
            self.reset |= frozenset(_COUNTS)
        if self.insert is not None:
            self.reset |= {_LAST_ID}

    def ran(self, statement: ParsedStatement, result: StmtResult) -> None:
        """Record a statement that changes rows and ran without an error."""
        self.change = Change(statement.verb, statement.changed_table, bool(result.cols))
        self.reset -= set(_COUNTS)
        set_id = result.affected_row_count and str(result.last_insert_rowid) != "0"  # "0": it only updated rows
        if statement.verb in _INSERTS and set_id:
            self.insert = self.change
            self.reset -= {_LAST_ID}

    def after(self, cell: Cell, ran: Run, tables: Tables) -> list[str]:
        """Record the statements of a cell that ran; return a line for each function that was 0 in one that was tried.

        A statement may have failed because of the 0.
        """
        lines = []
        tried = len(cell.statements) if ran.error is None else ran.error.index + 1
        for index, statement in enumerate(cell.statements[:tried]):
            if self.reset:
                lines += self.lines_on(cell, index, tables)
            if statement.changes_rows and index < len(ran.results):
                self.ran(statement, ran.results[index])
        return lines

    def expected(self, cell: Cell, tables: Tables, *, reopens: bool) -> list[str]:
        """Return the lines that `after` would return if the cell ran now; with ``reopens`` on another stream."""
        ahead = replace(self, closed=True)
        if reopens:
            ahead.reopened()
        return ahead.after(cell, Run([StmtResult(affected_row_count=1)] * len(cell.statements)), tables)

    def lines_on(self, cell: Cell, index: int, tables: Tables) -> list[str]:
        """Return a line for each function that is 0 in a statement of a cell."""
        where = f" in statement {cell.before + index + 1}" if cell.total > 1 else ""
        called = _functions_in(cell.statements[index])
        return [self._line(name, where, tables) for name in (_LAST_ID, *_COUNTS) if name in called & self.reset]

    def _line(self, function: str, where: str, tables: Tables) -> str:
        earlier = self.insert if function == _LAST_ID else self.change
        assert earlier is not None
        what = "closed" if self.closed else "reopened"
        head = f"The connection was {what} after the {earlier}, so {function}() is 0 again{where}"
        if function != _LAST_ID or earlier.returns_rows:
            return f"{head}: run both in one cell."
        key = _key_of(earlier, tables())
        return f"{head}: run both in one cell, or add RETURNING {key} to the INSERT."


def _key_of(insert: Change, tables: Sequence[Relation]) -> str:
    """Return the column that contains the id of a new row."""
    name = normalize(insert.table.rpartition(".")[2])
    for table in tables:
        if table.name.lower() == name and len(table.primary_key) == 1:
            (key,) = table.primary_key
            if table.column(key).type.upper() == "INTEGER":
                return quote_if_needed(key)
    return "rowid"


def _functions_in(statement: ParsedStatement) -> frozenset[str]:
    """Return which of these functions a statement calls when it runs."""
    if statement.keyword == "EXPLAIN":
        return frozenset()
    if statement.keyword == "CREATE" and _NEVER_CALLED & {token.word for token in statement.head[:3]}:
        return frozenset()
    tokens = statement.tokens
    return frozenset(
        normalize(token.text)
        for token, bracket, end in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if bracket.text == "(" and end.text == ")" and token.kind in ("word", "quoted")
        if normalize(token.text) in (_LAST_ID, *_COUNTS)
    )
