"""The model of a schema: tables, views, columns, keys, indexes and triggers.

`pipemagic.explore.schema_reader` reads it from a database.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pipemagic.errors import UnknownName
from pipemagic.sql import folded, quote
from pipemagic.suggestions import did_you_mean

RelationKind = Literal["table", "view", "virtual", "shadow", "common table", "subquery", "table function", "DataFrame"]

TypedColumns = tuple[tuple[str, str], ...]
"""Names of columns with their declared types, '' for a column without one."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column with its declared ``type``, '' without one.

    ``key`` is the position in the primary key, counted from 1; 0 for other columns. ``default`` is SQL text.
    ``generated`` is 'virtual', 'stored' or ''. ``hidden`` marks a hidden column of a virtual table, which
    ``SELECT *`` does not return.
    """

    name: str
    type: str = ""
    nullable: bool = True
    default: str | None = None
    key: int = 0
    generated: Literal["", "virtual", "stored"] = ""
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class IndexColumn:
    """A column of an index; ``name`` is None for an expression."""

    name: str | None
    descending: bool = False
    collation: str = "BINARY"


@dataclass(frozen=True, slots=True)
class Index:
    """An index. ``origin`` is 'create' (CREATE INDEX, with its ``sql``), 'unique' or 'primary key'."""

    name: str
    columns: tuple[IndexColumn, ...]
    unique: bool = False
    origin: Literal["create", "unique", "primary key"] = "create"
    partial: bool = False
    sql: str | None = None

    @property
    def is_key(self) -> bool:
        """True if its columns are unique over all rows, NULLs aside."""
        return self.unique and not self.partial and all(column.name is not None for column in self.columns)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key: ``columns`` refer to the columns ``references`` of ``table``, or if empty to its primary key."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...] = ()
    on_update: str = "NO ACTION"
    on_delete: str = "NO ACTION"


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger and its CREATE statement."""

    name: str
    sql: str


@dataclass(frozen=True)
class Relation:
    """A table or view, or in the scope of a query also a common table expression or a subquery.

    A 'shadow' is an internal table of a 'virtual' one; a 'DataFrame' is a variable. ``broken`` is the error of a view
    or virtual table whose columns cannot be read. ``parsed`` marks a relation that is known only from the text of a
    statement: names and types of its columns, no keys and indexes. A ``temporary`` one is visible only to the
    connection that created it.
    """

    name: str
    kind: RelationKind = "table"
    columns: tuple[Column, ...] = ()
    indexes: tuple[Index, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    sql: str | None = None
    without_rowid: bool = False
    strict: bool = False
    broken: str = ""
    parsed: bool = False
    temporary: bool = False

    @classmethod
    def of(cls, name: str, columns: Iterable[tuple[str, str]] = (), kind: RelationKind = "table") -> Relation:
        """Return a parsed relation with these names and types of columns."""
        return cls(name, kind, tuple(Column(column, type_) for column, type_ in columns), parsed=True)

    @cached_property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the primary key, in its order."""
        return tuple(column.name for column in sorted(self.columns, key=lambda member: member.key) if column.key)

    @cached_property
    def unique_keys(self) -> tuple[tuple[str, ...], ...]:
        """The sets of columns that are unique, the primary key first."""
        keys = [tuple(part.name or "" for part in index.columns) for index in self.indexes if index.is_key]
        return tuple(dict.fromkeys([*([self.primary_key] if self.primary_key else []), *keys]))

    @cached_property
    def visible(self) -> tuple[Column, ...]:
        """The columns that ``SELECT *`` returns."""
        return tuple(column for column in self.columns if not column.hidden)

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """The names of the visible columns."""
        return tuple(column.name for column in self.visible)

    @cached_property
    def typed(self) -> TypedColumns:
        """The names and declared types of the visible columns."""
        return tuple((column.name, column.type) for column in self.visible)

    def column(self, name: str) -> Column:
        """Return the column of that name, ignoring case; UnknownName with the most similar name if it has none."""
        for column in self.columns:
            if same(column.name, name):
                return column
        if self.broken:
            raise UnknownName(f"cannot read the columns of {self.name}: {self.broken}")
        raise UnknownName(
            f"{self.kind} {self.name} has no column {name!r}",
            hint=did_you_mean(name, [column.name for column in self.columns]),
        )


@dataclass(frozen=True)
class Schema:
    """The tables and views of a database, sorted by name, at one schema version."""

    version: int
    relations: tuple[Relation, ...] = ()

    @property
    def tables(self) -> tuple[Relation, ...]:
        """The tables and virtual tables, without shadow tables."""
        return tuple(relation for relation in self.relations if relation.kind in ("table", "virtual"))

    @property
    def views(self) -> tuple[Relation, ...]:
        """The views."""
        return tuple(relation for relation in self.relations if relation.kind == "view")

    def __contains__(self, name: str) -> bool:
        return folded(name) in self._by_name

    def relation(self, name: str) -> Relation:
        """Return the table or view of that name, ignoring case; UnknownName with the most similar name."""
        match = self._by_name.get(folded(name))
        if match is None:
            raise no_relation(name, [relation.name for relation in self.relations])
        return match

    @cached_property
    def _by_name(self) -> dict[str, Relation]:
        return {folded(relation.name): relation for relation in self.relations}


def same(first: str, second: str) -> bool:
    """Return True if two names are the same to SQLite."""
    return folded(first) == folded(second)


def no_relation(name: str, names: Iterable[str]) -> UnknownName:
    """Return the error for an unknown table or view, with the most similar of ``names`` as its hint."""
    relations = tuple(names)
    first, point, rest = name.partition(".")
    alone = rest if point and same(first, "main") else name  # a name may contain a point
    with_point = next((other for other in relations if same(other, f"main.{name}")), "")
    dotted = f"write '{quote(with_point)}' for the table with a dot in its name" if with_point else ""
    hint = (
        dotted or did_you_mean(alone, relations) or did_you_mean(name, relations) or "%pipedb tables lists the tables"
    )
    return UnknownName(f"table or view {name!r} does not exist", hint=hint, relation=name)
