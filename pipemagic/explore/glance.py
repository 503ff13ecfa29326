"""A glance at a database: which tables it has, how many rows, the first of them. Bounded, however large it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipemagic.client.batch_runner import result_of
from pipemagic.explore.names import quoted
from pipemagic.explore.schema import LISTED
from pipemagic.explore.sending import LETTER, received, sent
from pipemagic.hrana.messages import Close, ErrorEntry, Execute, Stmt
from pipemagic.hrana.values import SqlValue, decode

if TYPE_CHECKING:
    from pipemagic.client.database import Database

TABLES, ROWS, COLUMNS, LENGTH = 100, 10, 20, 200
"""How many tables, rows and columns are shown, and of how many characters or bytes of a value the rest is cut off."""

_BYTES = 4 * (LENGTH + 1)  # of so many characters at most

COUNTED = 100_000
"""How far the rows of a table are counted: that takes some milliseconds."""

_NAMES = (
    f"SELECT l.name, l.type FROM pragma_table_list AS l WHERE {LISTED} AND l.type <> 'shadow' "
    f"ORDER BY l.name COLLATE NOCASE LIMIT {TABLES + 1}"
)


@dataclass(frozen=True)
class Table:
    """A table, view or virtual table. ``rows`` is None where they were not counted: a view, or one that is broken."""

    name: str
    kind: str
    rows: int | None = None

    @property
    def amount(self) -> str:
        """How many rows it has, in words; '' where that is not known."""
        if self.rows is None:
            return ""
        return f"{self.rows:,}" if self.rows <= COUNTED else f"more than {COUNTED:,}"


@dataclass(frozen=True)
class Rows:
    """The first rows; ``columns_left`` and ``more`` tell what there is beside them."""

    columns: Sequence[str]
    rows: Sequence[Sequence[SqlValue]]
    columns_left: int
    more: bool


def tables(database: Database) -> tuple[list[Table], bool]:
    """Give the first `TABLES` tables by name, with their rows counted; and whether there are more."""
    found = [(str(name), str(kind)) for name, kind in database.execute(_NAMES).rows]
    listed = found[:TABLES]
    counts = _counts(database, [name for name, kind in listed if kind != "view"])
    return [Table(name, kind, counts.get(name)) for name, kind in listed], len(found) > TABLES


def first_rows(database: Database, table: str) -> Rows:
    """Give the first rows of a table or view, long values cut on the server; StatementError if it cannot be read."""
    named = database.execute(f"SELECT * FROM main.{quoted(table)} LIMIT 0").columns
    shown = named[:COLUMNS]
    values = ", ".join([LETTER, *map(_cut, shown)])
    found = database.execute(f"SELECT {values} FROM main.{quoted(table)} LIMIT {ROWS + 1}").rows
    return Rows(shown, list(map(_values, found[:ROWS])), len(named) - len(shown), len(found) > ROWS)


def _cut(column: str) -> str:
    """Give the type and the value of a column; of a long text or blob it is only as much as is shown."""
    name = quoted(column)
    return f"typeof({name}), {sent(name, text=_BYTES, blob=LENGTH + 1)}"


def _values(row: Sequence[SqlValue]) -> list[SqlValue]:
    letter, *pairs = row
    return [received(kind, given, letter, _BYTES) for kind, given in zip(pairs[::2], pairs[1::2], strict=True)]


def _counts(database: Database, names: Sequence[str]) -> dict[str, int]:
    """Count in one round trip, each table by itself: one that cannot be read takes nothing from the others."""
    if not names:
        return {}
    asked = [
        Execute(Stmt(f"SELECT count(*) FROM (SELECT 1 FROM main.{quoted(name)} LIMIT {COUNTED + 1})"))
        for name in names
    ]  # fmt: skip
    with database.open_stream() as stream:
        entries = stream.send([*asked, Close()])[:-1]
    counted = {}
    for name, entry in zip(names, entries, strict=True):
        if not isinstance(entry, ErrorEntry):
            counted[name] = int(str(decode(result_of(entry).rows[0][0])))
    return counted
