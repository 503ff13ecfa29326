"""What is compared: a table, a view, or the rows of a query, with its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipemagic import sql
from pipemagic.errors import ParameterError, UnknownName
from pipemagic.explore.conditions import used
from pipemagic.explore.names import near
from pipemagic.explore.schema import Relation, folded, read_relation
from pipemagic.explore.values import one_line
from pipemagic.hrana.values import SqlValue
from pipemagic.sql.type_affinity import affinity
from pipemagic.svg import shortened

if TYPE_CHECKING:
    from pipemagic.client.database import Database


@dataclass(frozen=True)
class Source:
    """``rows`` stands in FROM. ``columns`` are names and declared types.

    ``indexed`` tells that rows are found by the primary key as it is compared here, byte by byte. ``args`` are the
    values of the parameters of a query.
    """

    name: str
    rows: str
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...] = ()
    indexed: bool = False
    args: Mapping[str, SqlValue] = field(default_factory=dict)

    def named(self, name: str) -> str:
        """Give the column of that name as it is written here; UnknownName with the nearest one."""
        for own, _ in self.columns:
            if folded(own) == folded(name):
                return own
        raise UnknownName(f"{self.name} has no column {name!r}", hint=near(name, [own for own, _ in self.columns]))


@dataclass(frozen=True)
class Column:
    """A column that both have: its names and its types there."""

    a: str
    b: str
    types: tuple[str, str]

    @property
    def alike(self) -> bool:
        """Whether a value means the same in both without any conversion."""
        return affinity(self.types[0]) == affinity(self.types[1])


def source(database: Database, words: str, params: Mapping[str, SqlValue] | None = None) -> Source:
    """Read what is compared: the name of a table or view, or a SELECT; UnknownName for a name that there is not.

    ``params`` has the values of the parameters of a SELECT; ParameterError for one without a value.
    """
    statement = _query(words)
    if statement is None:
        relation = read_relation(database, words)
        if relation.broken:
            relation.column("")  # says why nothing is known of it
        columns = tuple((column.name, column.type) for column in relation.visible)
        rows, key = f"main.{sql.quote(relation.name)}", relation.primary_key
        return Source(relation.name, rows, columns, key, relation.kind == "table" and _is_binary(relation))
    rows = f"({statement}\n)"
    args = used(statement, params or {})
    cols = database.execute(f"SELECT * FROM {rows} LIMIT 0", args or None).wire.cols
    return Source(
        shortened(one_line(" ".join(words.split())), 40),
        rows,
        tuple((col.name or "", col.decltype or "") for col in cols),
        args=args,
    )


def _is_binary(relation: Relation) -> bool:
    """Tell whether the primary key is compared byte by byte; one that is the rowid has no index."""
    of_key = [index for index in relation.indexes if index.origin == "primary key"]
    return all(column.collation == "BINARY" for index in of_key for column in index.columns)


def is_query(words: str) -> bool:
    """Return True if the text is a query, not the name of a table."""
    return sql.parse(words).keyword in ("SELECT", "WITH", "VALUES") and len(words.split()) >= 2


def _query(words: str) -> str | None:
    """Give the query, None for a name; ParameterError if there are several statements."""
    if not is_query(words):
        return None
    statements = sql.split(words)
    if len(statements) != 1:
        raise ParameterError("what is compared is one SELECT, not several statements")
    return statements[0].text


def shared(a: Source, b: Source) -> list[Column]:
    """Give the columns that both have, in the order of the first."""
    there = {folded(name): (name, kind) for name, kind in b.columns}
    return [
        Column(name, there[folded(name)][0], (kind, there[folded(name)][1]))
        for name, kind in a.columns
        if folded(name) in there
    ]


def keyed(a: Source, b: Source, columns: Sequence[Column], key: Sequence[str] | None) -> tuple[Column, ...]:
    """Give the columns that tell rows apart: those named, or the primary key if both have the same one; else none."""
    if key is None:
        alike = a.primary_key and list(map(folded, a.primary_key)) == list(map(folded, b.primary_key))
        key = a.primary_key if alike else ()
    by_name = {column.a: column for column in columns}
    found = []
    for name in key:
        own = a.named(name)
        b.named(name)
        found.append(by_name[own])
    return tuple(dict.fromkeys(found))
