"""The schema of a database, read in one round trip: tables, views, columns, keys, indexes, triggers.

`read_schema` gives all of it, `read_relation` one table or view, `schema_version` the number that moves with every
change of the schema: whoever keeps a Schema asks for that number to know whether it still holds. (SQLite's
``data_version`` tells nothing here: it counts for one connection, and each request may have another.)

Left out are SQLite's own tables (``sqlite_...``), those of libSQL (``libsql_...``), and tables that a load is just
filling. Works on a server that knows nothing but ``execute``, with a read-only token as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from pipemagic.client.batch_runner import result_of
from pipemagic.client.bulk import PREFIX
from pipemagic.errors import StatementError, UnknownName
from pipemagic.explore.names import near, text
from pipemagic.hrana.messages import Close, Entry, ErrorEntry, Execute, Stmt
from pipemagic.hrana.values import decode

if TYPE_CHECKING:
    from pipemagic.client.database import Database

Kind = Literal["table", "view", "virtual", "shadow"]

_OWN = (r"sqlite\_%", r"libsql\_%", PREFIX.replace("_", r"\_") + "%")
# libSQL keeps a vector index in a table of its own, which it lists as any other.
_VECTORS = "SELECT name || '_shadow' FROM main.sqlite_master WHERE type = 'index' AND sql LIKE '%libsql_vector_idx%'"
LISTED = " AND ".join(
    ["l.schema = 'main'", *(rf"l.name NOT LIKE '{like}' ESCAPE '\'" for like in _OWN), f"l.name NOT IN ({_VECTORS})"]
)
"""The condition on ``pragma_table_list AS l`` for what is the user's."""

# All in one statement, so that it is the schema of one moment. The parts of a table are JSON: a row for each column
# of a thousand tables would take ten times as long. Only columns of plain tables are looked up by it: a view whose
# table is gone, or a virtual table whose module the server does not have, would make the whole statement fail.
_TABLES = """
WITH written(name, sql) AS MATERIALIZED (
    SELECT name, sql FROM main.sqlite_master WHERE type IN ('table', 'view')
), beside(home, parts) AS MATERIALIZED (
    SELECT lower(tbl_name), json_group_array(json_array(type, name, sql)) FROM main.sqlite_master
    WHERE type IN ('index', 'trigger') GROUP BY lower(tbl_name)
)
SELECT v.schema_version, l.name, l.type, l.wr, l.strict, w.sql, b.parts,
    CASE WHEN l.type IN ('table', 'shadow') THEN (
        SELECT json_group_array(json_array(x.name, x.type, x."notnull", x.dflt_value, x.pk, x.hidden))
        FROM pragma_table_xinfo(l.name, 'main') AS x) END,
    CASE WHEN l.type IN ('table', 'shadow') THEN (
        SELECT json_group_array(json_array(i.name, i."unique", i.origin, i.partial, json((
            SELECT json_group_array(json_array(c.name, c."desc", c.coll))
            FROM pragma_index_xinfo(i.name, 'main') AS c WHERE c.key))))
        FROM pragma_index_list(l.name, 'main') AS i) END,
    CASE WHEN l.type IN ('table', 'shadow') THEN (
        SELECT json_group_array(json_array(f.id, f."table", f."from", f."to", f.on_update, f.on_delete))
        FROM pragma_foreign_key_list(l.name, 'main') AS f) END
FROM pragma_schema_version AS v LEFT JOIN {listed} AS l ON {wanted}
LEFT JOIN written AS w ON w.name = l.name LEFT JOIN beside AS b ON b.home = lower(l.name)
"""

_DELICATE = """
SELECT l.name, (
    SELECT json_group_array(json_array(x.name, x.type, x."notnull", x.dflt_value, x.pk, x.hidden))
    FROM pragma_table_xinfo(l.name, 'main') AS x)
FROM {listed} AS l WHERE {wanted} AND l.type IN ('view', 'virtual')
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: ``type`` as declared ('' if it is not), ``key`` its place in the primary key from 1 (0: none).

    ``default`` is SQL text. ``generated`` is 'virtual', 'stored' or ''; ``hidden`` is a virtual table's hidden column,
    which ``SELECT *`` does not give.
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
    """An index. ``origin`` is 'create' (by CREATE INDEX, with its ``sql``), 'unique' or 'primary key'."""

    name: str
    columns: tuple[IndexColumn, ...]
    unique: bool = False
    origin: Literal["create", "unique", "primary key"] = "create"
    partial: bool = False
    sql: str | None = None

    @property
    def is_key(self) -> bool:
        """Whether no two rows can have the same values in its columns (NULLs aside)."""
        return self.unique and not self.partial and all(column.name is not None for column in self.columns)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """``columns`` refer to the ``references`` of ``table``; these are empty where it is that table's primary key."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...] = ()
    on_update: str = "NO ACTION"
    on_delete: str = "NO ACTION"


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger and its CREATE text."""

    name: str
    sql: str


@dataclass(frozen=True)
class Relation:
    """A table or view. ``kind`` is 'table', 'view', 'virtual' or 'shadow' (a table that serves a virtual one).

    ``broken`` says why the columns of a view or virtual table cannot be told (its table is gone, say).
    """

    name: str
    kind: Kind = "table"
    columns: tuple[Column, ...] = ()
    indexes: tuple[Index, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    sql: str | None = None
    without_rowid: bool = False
    strict: bool = False
    broken: str = ""

    @cached_property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the primary key, in its order."""
        return tuple(column.name for column in sorted(self.columns, key=lambda one: one.key) if column.key)

    @cached_property
    def unique_keys(self) -> tuple[tuple[str, ...], ...]:
        """The column sets that are unique, the primary key first."""
        found = [tuple(part.name or "" for part in index.columns) for index in self.indexes if index.is_key]
        return tuple(dict.fromkeys([*([self.primary_key] if self.primary_key else []), *found]))

    @property
    def visible(self) -> tuple[Column, ...]:
        """The columns that ``SELECT *`` gives."""
        return tuple(column for column in self.columns if not column.hidden)

    def column(self, name: str) -> Column:
        """Give the column of that name, whatever the case of its letters; UnknownName with the nearest one."""
        for column in self.columns:
            if same(column.name, name):
                return column
        if self.broken:
            raise UnknownName(f"the columns of {self.name} cannot be told: {self.broken}")
        raise UnknownName(
            f"{self.kind} {self.name} has no column {name!r}", hint=near(name, [one.name for one in self.columns])
        )


@dataclass(frozen=True)
class Schema:
    """The tables and views of a database, by name; ``version`` moves with every change of the schema."""

    version: int
    relations: tuple[Relation, ...] = ()

    @property
    def tables(self) -> tuple[Relation, ...]:
        """The tables, also virtual ones, without those that only serve a virtual one."""
        return tuple(relation for relation in self.relations if relation.kind in ("table", "virtual"))

    @property
    def views(self) -> tuple[Relation, ...]:
        """The views."""
        return tuple(relation for relation in self.relations if relation.kind == "view")

    def __contains__(self, name: str) -> bool:
        return folded(name) in self._by_name

    def relation(self, name: str) -> Relation:
        """Give the table or view of that name, whatever the case of its letters; UnknownName with the nearest one."""
        found = self._by_name.get(folded(name))
        if found is None:
            raise no_relation(name, [relation.name for relation in self.relations])
        return found

    @cached_property
    def _by_name(self) -> dict[str, Relation]:
        return {folded(relation.name): relation for relation in self.relations}


_SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)


def folded(name: str) -> str:
    """Give a name as SQLite compares names: ASCII letters in small."""
    return name.translate(_SMALL)


def same(one: str, other: str) -> bool:
    """Tell whether two names are one to SQLite."""
    return folded(one) == folded(other)


def no_relation(name: str, names: Iterable[str]) -> UnknownName:
    """Give the error for a table or view that there is not."""
    known = tuple(names)
    first, point, rest = name.partition(".")
    alone = rest if point and same(first, "main") else name  # a name with a point in it is one name here
    hint = near(alone, known) or near(name, known) or "%pipedb tables lists what there is"
    return UnknownName(f"there is no table or view {name!r}", hint=hint)


def read_schema(database: Database) -> Schema:
    """Read the whole schema in one round trip (a second one if a view is broken)."""
    return _read(database, "pragma_table_list", LISTED)


def read_relation(database: Database, name: str) -> Relation:
    """Read one table or view in one round trip; UnknownName with the nearest one."""
    found = () if "\0" in name else _read(database, f"pragma_table_list({text(name)})", "l.schema = 'main'").relations
    if not found:
        raise no_relation(name, names(database))
    return found[0]


def names(database: Database) -> list[str]:
    """Give the names of the tables and views, sorted."""
    found = database.execute(f"SELECT l.name FROM pragma_table_list AS l WHERE {LISTED} AND l.type <> 'shadow'")
    return sorted((str(row[0]) for row in found.rows), key=folded)


def schema_version(database: Database) -> int:
    """Give the number that moves with every change of the schema."""
    (version,) = database.execute("PRAGMA schema_version").rows[0]
    return int(version or 0)


def _read(database: Database, listed: str, wanted: str) -> Schema:
    plain = _TABLES.format(listed=listed, wanted=wanted)
    delicate = _DELICATE.format(listed=listed, wanted=wanted)
    with database.open_stream() as stream:
        first, second, *_ = stream.send([Execute(Stmt(plain)), Execute(Stmt(delicate)), Close()])
    version, found = _plain(first, plain)
    try:
        columns = {name: _columns(parts) for name, parts in _rows(second, delicate)}
    except StatementError:
        return Schema(version, tuple(_one_by_one(database, found)))
    return Schema(version, tuple(replace(one, columns=columns.get(one.name, one.columns)) for one in found))


def _rows(entry: Entry, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(map(decode, row)) for row in result_of(entry, sql).rows]


def _plain(entry: Entry, sql: str) -> tuple[int, list[Relation]]:
    """Give the version and the relations, views and virtual tables without columns."""
    rows = _rows(entry, sql)
    found = [_relation(*row[1:]) for row in rows if row[1] is not None]
    return int(rows[0][0]), sorted(found, key=lambda one: folded(one.name))


def _one_by_one(database: Database, found: list[Relation]) -> Iterator[Relation]:
    """Look at each view and virtual table by itself, in one round trip: one of them, at least, is broken."""
    looks = {
        one.name: _DELICATE.format(listed=f"pragma_table_list({text(one.name)})", wanted="l.schema = 'main'")
        for one in found
        if one.kind in ("view", "virtual")
    }
    with database.open_stream() as stream:
        entries = stream.send([*(Execute(Stmt(sql)) for sql in looks.values()), Close()])
    answers = dict(zip(looks, entries, strict=False))
    for one in found:
        yield one if one.name not in answers else _looked_at(one, answers[one.name], looks[one.name])


def _looked_at(relation: Relation, entry: Entry, sql: str) -> Relation:
    if isinstance(entry, ErrorEntry):
        return replace(relation, broken=entry.error.message.removeprefix("SQLite error: "))
    rows = _rows(entry, sql)
    return replace(relation, columns=_columns(rows[0][1])) if rows else relation


def _relation(
    name: str, kind: Kind, wr: int, strict: int, sql: str | None, beside: str | None,
    columns: str | None, indexes: str | None, keys: str | None,
) -> Relation:  # fmt: skip
    written = {(kind, name): sql for kind, name, sql in _parsed(beside)}
    found = tuple(_index(written, *row) for row in reversed(_parsed(indexes)))
    own_key = any(index.origin == "primary key" for index in found)
    return Relation(
        name, kind, _columns(columns, rowid=not (own_key or wr)), found, _foreign_keys(keys),
        tuple(Trigger(one, text or "") for (kind_, one), text in written.items() if kind_ == "trigger"),
        sql, bool(wr), bool(strict),
    )  # fmt: skip


def _parsed(parts: str | None) -> list[Any]:
    found: list[Any] = msgspec.json.decode(parts) if parts else []
    return found


def _columns(parts: str | None, *, rowid: bool = False) -> tuple[Column, ...]:
    """Read the columns; with ``rowid`` a primary key without an index of its own is the rowid, which is never NULL."""
    return tuple(
        Column(
            name, kind or "", not (notnull or (rowid and pk)), default, pk,
            "virtual" if hidden == 2 else "stored" if hidden == 3 else "", hidden == 1,
        )
        for name, kind, notnull, default, pk, hidden in _parsed(parts)
    )  # fmt: skip


def _index(
    sqls: dict[tuple[str, str], str], name: str, unique: int, origin: str, partial: int, columns: list[Any]
) -> Index:
    parts = tuple(IndexColumn(column, bool(down), coll or "BINARY") for column, down, coll in columns)
    made: Any = {"c": "create", "u": "unique", "pk": "primary key"}[origin]
    return Index(name, parts, bool(unique), made, bool(partial), sqls.get(("index", name)))


def _foreign_keys(parts: str | None) -> tuple[ForeignKey, ...]:
    """Read the foreign keys, first the one that was declared first: SQLite lists them from the last one on."""
    found = []
    for _, rows in groupby(_parsed(parts), key=lambda row: row[0]):
        _, tables, columns, references, updates, deletes = zip(*rows, strict=True)
        named = tuple(name for name in references if name is not None)
        found.append(ForeignKey(columns, tables[0], named, updates[0], deletes[0]))
    return tuple(reversed(found))
