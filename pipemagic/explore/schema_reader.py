"""Read the schema of a database in one round trip.

`read_schema` returns all of it, `read_relation` one table or view. `schema_version` returns a number that changes with
the schema, to check a cached one. (``data_version`` does not serve: it belongs to one connection, and each request may
use another.)

Internal tables of SQLite (``sqlite_...``) and libSQL (``libsql_...``) and staging tables of loads are left out. All
queries run on a server with only ``execute``, and with a read-only token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from pipemagic.client.batch_runner import result_of
from pipemagic.client.bulk import PREFIX
from pipemagic.errors import StatementError
from pipemagic.explore.conditions import literal
from pipemagic.explore.schema import (
    Column,
    ForeignKey,
    Index,
    IndexColumn,
    Relation,
    RelationKind,
    Schema,
    Trigger,
    no_relation,
)  # fmt: skip
from pipemagic.hrana.messages import Close, Entry, ErrorEntry, Execute, Stmt
from pipemagic.hrana.values import decode
from pipemagic.sql import folded

if TYPE_CHECKING:
    from pipemagic.client.database import Database

_INTERNAL = (r"sqlite\_%", r"libsql\_%", PREFIX.replace("_", r"\_") + "%")
# libSQL stores a vector index in a table, which it lists like any other.
_VECTORS = "SELECT name || '_shadow' FROM main.sqlite_master WHERE type = 'index' AND sql LIKE '%libsql_vector_idx%'"
_NOT_INTERNAL = [rf"l.name NOT LIKE '{pattern}' ESCAPE '\'" for pattern in _INTERNAL]
_MAIN = "l.schema = 'main'"
LISTED = " AND ".join([_MAIN, *_NOT_INTERNAL, f"l.name NOT IN ({_VECTORS})"])
"""The condition on ``temp.pragma_table_list AS l`` that leaves out internal tables."""

# The schema `temp`: a table of the database hides a function of its name, which SQLite looks for after the tables of
# the named schema. Only a temporary table of the same stream would hide these, and the tables of `main`; there is none,
# since this stream is new. The new engine of the hosted service takes no schema as the second argument.
#
# One statement, so that all of it belongs to one schema version. The parts of a table are JSON: a row for each column
# of a thousand tables would take ten times as long. Columns are only those of plain tables: a view whose table was
# dropped, or a virtual table whose module is missing on the server, would make the whole statement fail.
_TABLES = """
WITH created(name, sql) AS MATERIALIZED (
    SELECT name, sql FROM main.sqlite_master WHERE type IN ('table', 'view')
), owned(owner, parts) AS MATERIALIZED (
    SELECT lower(tbl_name), json_group_array(json_array(type, name, sql)) FROM main.sqlite_master
    WHERE type IN ('index', 'trigger') GROUP BY lower(tbl_name)
)
SELECT v.schema_version, l.name, l.type, l.wr, l.strict, w.sql, b.parts,
    CASE WHEN l.type IN ('table', 'shadow') THEN (
        SELECT json_group_array(json_array(x.name, x.type, x."notnull", x.dflt_value, x.pk, x.hidden))
        FROM temp.pragma_table_xinfo(l.name) AS x) END,
    CASE WHEN l.type IN ('table', 'shadow') THEN (
        SELECT json_group_array(json_array(i.name, i."unique", i.origin, i.partial, json((
            SELECT json_group_array(json_array(c.name, c."desc", c.coll))
            FROM temp.pragma_index_xinfo(i.name) AS c WHERE c.key))))
        FROM temp.pragma_index_list(l.name) AS i) END,
    CASE WHEN l.type IN ('table', 'shadow') THEN (
        SELECT json_group_array(json_array(f.id, f."table", f."from", f."to", f.on_update, f.on_delete))
        FROM temp.pragma_foreign_key_list(l.name) AS f) END
FROM temp.pragma_schema_version AS v LEFT JOIN {listed} AS l ON {condition}
LEFT JOIN created AS w ON w.name = l.name LEFT JOIN owned AS b ON b.owner = lower(l.name)
"""

_VIEWS = """
SELECT l.name, (
    SELECT json_group_array(json_array(x.name, x.type, x."notnull", x.dflt_value, x.pk, x.hidden))
    FROM temp.pragma_table_xinfo(l.name) AS x)
FROM {listed} AS l WHERE {condition} AND l.type IN ('view', 'virtual')
"""


def read_schema(database: Database) -> Schema:
    """Read the whole schema in one round trip, in two if a view is broken."""
    return _read(database, "temp.pragma_table_list", LISTED)


def read_relation(database: Database, name: str) -> Relation:
    """Read one table or view in one round trip; UnknownName with the most similar name."""
    if "\0" not in name and (relations := _read(database, f"temp.pragma_table_list({literal(name)})", _MAIN).relations):
        return relations[0]
    raise no_relation(name, names(database))


def names(database: Database) -> list[str]:
    """Return the names of the tables and views, sorted."""
    result = database.execute(f"SELECT l.name FROM temp.pragma_table_list AS l WHERE {LISTED} AND l.type <> 'shadow'")
    return sorted((str(row[0]) for row in result.rows), key=folded)


def schema_version(database: Database) -> int:
    """Return a number that changes with the schema."""
    (version,) = database.execute("PRAGMA schema_version").rows[0]
    return int(version or 0)


def _read(database: Database, listed: str, condition: str) -> Schema:
    tables = _TABLES.format(listed=listed, condition=condition)
    views = _VIEWS.format(listed=listed, condition=condition)
    with database.open_stream() as stream:
        first, second, *_ = stream.send([Execute(Stmt(tables)), Execute(Stmt(views)), Close()])
    version, relations = _without_view_columns(first, tables)
    try:
        columns = {name: _columns(parts) for name, parts in _rows(second, views)}
    except StatementError:
        return Schema(version, tuple(_read_views_separately(database, relations)))
    return Schema(
        version,
        tuple(replace(relation, columns=columns.get(relation.name, relation.columns)) for relation in relations),
    )


def _rows(entry: Entry, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(map(decode, row)) for row in result_of(entry, sql).rows]


def _without_view_columns(entry: Entry, sql: str) -> tuple[int, list[Relation]]:
    """Return the version and the relations; views and virtual tables still lack their columns."""
    rows = _rows(entry, sql)
    relations = [_relation(*row[1:]) for row in rows if row[1] is not None]
    return int(rows[0][0]), sorted(relations, key=lambda relation: folded(relation.name))


def _read_views_separately(database: Database, relations: list[Relation]) -> Iterator[Relation]:
    """Read each view and virtual table by a statement of its own, since at least one of them is broken."""
    queries = {
        relation.name: _VIEWS.format(listed=f"temp.pragma_table_list({literal(relation.name)})", condition=_MAIN)
        for relation in relations
        if relation.kind in ("view", "virtual")
    }
    with database.open_stream() as stream:
        entries = stream.send([*(Execute(Stmt(sql)) for sql in queries.values()), Close()])
    results = dict(zip(queries, entries, strict=False))
    for relation in relations:
        yield (
            relation
            if relation.name not in results
            else _with_columns(relation, results[relation.name], queries[relation.name])
        )


def _with_columns(relation: Relation, entry: Entry, sql: str) -> Relation:
    if isinstance(entry, ErrorEntry):
        return replace(relation, broken=entry.error.message.removeprefix("SQLite error: "))
    rows = _rows(entry, sql)
    return replace(relation, columns=_columns(rows[0][1])) if rows else relation


def _relation(
    name: str, kind: RelationKind, wr: int, strict: int, sql: str | None, owned: str | None,
    columns: str | None, indexes: str | None, keys: str | None,
) -> Relation:  # fmt: skip
    created = {(kind, name): sql for kind, name, sql in _decode(owned)}
    own_indexes = tuple(_index(created, *row) for row in reversed(_decode(indexes)))
    own_key = any(index.origin == "primary key" for index in own_indexes)
    return Relation(
        name, kind, _columns(columns, rowid=not (own_key or wr)), own_indexes, _foreign_keys(keys),
        tuple(Trigger(trigger, text or "") for (kind_, trigger), text in created.items() if kind_ == "trigger"),
        sql, bool(wr), bool(strict),
    )  # fmt: skip


def _decode(parts: str | None) -> list[Any]:
    entries: list[Any] = msgspec.json.decode(parts) if parts else []
    return entries


def _columns(parts: str | None, *, rowid: bool = False) -> tuple[Column, ...]:
    """Return the columns; with ``rowid`` the primary key has no index, so it is the rowid, which is never NULL."""
    return tuple(
        Column(
            name, type_ or "", not (notnull or (rowid and pk)), default, pk,
            "virtual" if hidden == 2 else "stored" if hidden == 3 else "", hidden == 1,
        )
        for name, type_, notnull, default, pk, hidden in _decode(parts)
    )  # fmt: skip


def _index(
    sqls: dict[tuple[str, str], str], name: str, unique: int, origin: str, partial: int, columns: list[Any]
) -> Index:
    parts = tuple(IndexColumn(column, bool(down), coll or "BINARY") for column, down, coll in columns)
    created_by: Any = {"c": "create", "u": "unique", "pk": "primary key"}[origin]
    return Index(name, parts, bool(unique), created_by, bool(partial), sqls.get(("index", name)))


def _foreign_keys(parts: str | None) -> tuple[ForeignKey, ...]:
    """Return the foreign keys in the order of their declaration, which SQLite lists backwards."""
    foreign_keys = []
    for _, rows in groupby(_decode(parts), key=lambda row: row[0]):
        _, tables, columns, references, updates, deletes = zip(*rows, strict=True)
        named = tuple(name for name in references if name is not None)
        foreign_keys.append(ForeignKey(columns, tables[0], named, updates[0], deletes[0]))
    return tuple(reversed(foreign_keys))
