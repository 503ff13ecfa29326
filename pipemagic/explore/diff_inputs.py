"""The inputs of a comparison: tables, views or queries with their columns, and the columns to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipemagic import sql
from pipemagic.errors import ParameterError, UnknownName
from pipemagic.explore.conditions import args_of
from pipemagic.explore.schema import Relation
from pipemagic.explore.schema_reader import read_relation
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import dates, folded
from pipemagic.sql.type_affinity import affinity, is_date, is_day_type
from pipemagic.text import did_you_mean, escape_controls, shorten

if TYPE_CHECKING:
    from pipemagic.client.database import Database


@dataclass(frozen=True)
class Source:
    """A table, view or query: ``rows`` is its SQL in FROM, ``columns`` are names and declared types.

    ``indexed`` is True if the primary key is compared byte by byte, so that the comparison can use its index. ``args``
    are the values of the parameters of a query.
    """

    name: str
    rows: str
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...] = ()
    indexed: bool = False
    args: Mapping[str, SqlValue] = field(default_factory=dict)

    def column(self, name: str) -> str:
        """Return the name of a column as declared. Raise UnknownName with the nearest name."""
        for own, _ in self.columns:
            if folded(own) == folded(name):
                return own
        own_names = [own for own, _ in self.columns]
        raise UnknownName(f"{self.name} has no column {name!r}", hint=did_you_mean(name, own_names))


@dataclass(frozen=True)
class ColumnPair:
    """A column of both sources: its names and declared types."""

    a: str
    b: str
    types: tuple[str, str]

    @property
    def has_days_and_moments(self) -> bool:
        """Whether one side is declared DATE, and the other one DATETIME or TIMESTAMP."""
        first, second = map(is_day_type, self.types)
        return first != second and all(map(is_date, self.types))

    @property
    def same_affinity(self) -> bool:
        """Whether values compare without conversion."""
        return affinity(self.types[0]) == affinity(self.types[1])


def read_source(database: Database, text: str, params: Mapping[str, SqlValue] | None = None) -> Source:
    """Read the columns of a table, view or SELECT. Raise UnknownName if the table does not exist.

    ``params`` has the values of the parameters of a SELECT. Raise ParameterError for a parameter without a value, or
    for several statements.
    """
    if not is_query(text):
        relation = read_relation(database, text)
        if relation.broken:
            relation.column("")  # raises the reason
        columns = tuple((column.name, column.type) for column in relation.visible)
        rows, indexed = f"main.{sql.quote(relation.name)}", relation.kind == "table" and _is_binary(relation)
        return Source(relation.name, rows, columns, relation.primary_key, indexed)
    statements = sql.split(text)
    if len(statements) != 1:
        raise ParameterError("diff takes one SELECT, not several statements")
    rows = f"({statements[0].text}\n)"
    args = args_of(statements[0].text, params or {})
    cols = database.execute(f"SELECT * FROM {rows} LIMIT 0", args or None).wire.cols
    names = [col.name or "" for col in cols]
    shown = [sql.without_comments(name, rows) for name in names]
    columns = tuple((name, col.decltype or "") for name, col in zip(shown, cols, strict=True))
    if shown != names:
        rows = _renamed(rows, names, shown)
    return Source(shorten(escape_controls(" ".join(text.split())), 40), rows, columns, args=args)


def _renamed(rows: str, names: Sequence[str], new: Sequence[str]) -> str:
    listed = (f"t.{sql.quote(name)} AS {sql.quote(shown)}" for name, shown in zip(names, new, strict=True))
    return f"(SELECT {', '.join(listed)} FROM {rows} AS t)"


def with_days(source: Source, columns: Sequence[str]) -> Source:
    """Return a source in which the moments at midnight of some columns are days, as in DATE columns."""
    if not columns:
        return source
    values = [(f"t.{sql.quote(name)}", name) for name, _ in source.columns]
    listed = ", ".join(
        f"{dates.midnights_as_days(value) if name in columns else value} AS {sql.quote(name)}" for value, name in values
    )
    return replace(source, rows=f"(SELECT {listed} FROM {source.rows} AS t)", indexed=False)


def _is_binary(relation: Relation) -> bool:
    """Return True if the primary key is compared byte by byte. A rowid has no index."""
    of_key = [index for index in relation.indexes if index.origin == "primary key"]
    return all(column.collation == "BINARY" for index in of_key for column in index.columns)


def is_query(text: str) -> bool:
    """Return True if the text is a query, not the name of a table."""
    return sql.parse(text).keyword in ("SELECT", "WITH", "VALUES") and len(text.split()) >= 2


def common_columns(a: Source, b: Source) -> list[ColumnPair]:
    """Return the columns of both sources, in the order of the first."""
    of_b = {folded(name): (name, type_) for name, type_ in b.columns}
    return [
        ColumnPair(name, of_b[folded(name)][0], (type_, of_b[folded(name)][1]))
        for name, type_ in a.columns
        if folded(name) in of_b
    ]


def key_columns(
    a: Source, b: Source, columns: Sequence[ColumnPair], key: Sequence[str] | None
) -> tuple[ColumnPair, ...]:
    """Return the columns of the key: by default the primary key if both have the same one, otherwise none."""
    if key is None:
        key = a.primary_key if list(map(folded, a.primary_key)) == list(map(folded, b.primary_key)) else ()
    by_name = {column.a: column for column in columns}
    names = [a.column(name) for name in key]
    for name in key:
        b.column(name)  # raises UnknownName
    return tuple(dict.fromkeys(by_name[name] for name in names))
