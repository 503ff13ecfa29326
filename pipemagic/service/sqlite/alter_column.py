"""libSQL's ``ALTER TABLE t ALTER COLUMN c TO c definition``, which SQLite does not have.

The definition of the column is replaced in ``sqlite_schema``. It applies to rows written from then on; existing
rows are neither changed nor checked. As in libSQL, the name of the column, keys, UNIQUE constraints and generated
columns stay as they are.
Source: https://github.com/tursodatabase/libsql/blob/main/libsql-sqlite3/doc/libsql_extensions.md
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import apsw

from pipemagic.service.sqlite import functions
from pipemagic.sql import Token, quote, significant, unquote

_STORED = 3  # `hidden` of a column that is generated and stored
_PROPERTIES = (
    "SELECT lower(name), hidden, pk FROM pragma_table_xinfo(?)",
    "SELECT wr, strict FROM pragma_table_list(?)",
    "SELECT origin, x.name, coll FROM pragma_index_list(?) AS i, pragma_index_xinfo(i.name) AS x WHERE key "
    "ORDER BY i.name, seqno",
    "SELECT name FROM sqlite_schema WHERE name != ?",  # sqlite_sequence, if the table has an AUTOINCREMENT
)
"""Queries for what ALTER COLUMN keeps."""


@dataclass(frozen=True, slots=True)
class AlterColumn:
    """A parsed statement. Names have no quotes; ``schema`` is empty if the statement names none."""

    schema: str
    table: str
    column: str
    new_name: str
    definition: str
    """The new column as it is written, name included."""
    renaming: str
    """A statement of SQLite that fails if there is no such column, or if its table cannot be altered.

    The names are at the same positions, for SQLite's errors.
    """


def parse(text: str) -> AlterColumn | None:
    """Parse one statement; None if it is another one or malformed, which SQLite then reports."""
    found = [token for token in significant(text) if token.kind != "semi"]
    match [token.text.upper() for token in found]:
        case ["ALTER", "TABLE", _, ".", _, "ALTER", "COLUMN", _, "TO", _, *_]:
            schema, rest = unquote(found[2].text), found[4:10]
        case ["ALTER", "TABLE", _, "ALTER", "COLUMN", _, "TO", _, *_]:
            schema, rest = "", found[2:8]
        case _:
            return None
    table, alter, _, column, to, new_name = rest
    renaming = (
        f"{text[: alter.start]}{'RENAME':{column.start - alter.start}}{text[column.start : to.end]} {column.text}"
    )
    definition = text[new_name.start : found[-1].end]
    return AlterColumn(schema, unquote(table.text), unquote(column.text), unquote(new_name.text), definition, renaming)


def apply(connection: apsw.Connection, change: AlterColumn) -> None:
    """Change the column, or raise `apsw.SQLError` and change nothing.

    The connection's authorizer must allow all, and its defensive mode must be off.
    """
    connection.execute("SAVEPOINT alter_column")
    try:
        _replace_definition(connection, change)
    except BaseException:
        if not connection.get_autocommit():  # an interrupt may have ended the whole transaction
            connection.execute("ROLLBACK TO alter_column; RELEASE alter_column")
        raise
    connection.execute("RELEASE alter_column")


def _replace_definition(connection: apsw.Connection, change: AlterColumn) -> None:
    if change.new_name.lower() != change.column.lower():
        raise apsw.SQLError(f"ALTER COLUMN cannot rename {change.column} to {change.new_name}; use RENAME COLUMN")
    schema, name, number, hidden = connection.execute(
        "SELECT t.schema, t.name, cid, hidden FROM pragma_table_list(?) AS t, pragma_table_xinfo(t.name, t.schema) AS c"
        " WHERE t.schema = coalesce(nullif(lower(?), ''), t.schema) AND lower(c.name) = lower(?)"
        " ORDER BY t.schema = 'main'",  # a temporary table hides one of the same name
        (change.table, change.schema, change.column),
    ).get
    where = f"{schema}.sqlite_schema", "WHERE type = 'table' AND name = ?"
    old = str(connection.execute(f"SELECT sql FROM {where[0]} {where[1]}", (name,)).get)
    column = _columns(old)[number]
    new = old[: column[0].start] + change.definition + old[column[-1].end :]
    if len(_columns(f"({change.definition})")) > 1:
        raise apsw.SQLError('near ",": syntax error')
    if hidden == _STORED or _properties(name, old) != _properties(name, new):
        raise apsw.SQLError(
            f"error in {change.definition}: a generated column, UNIQUE constraint or PRIMARY KEY cannot be altered; "
            "create a new table, copy the rows, and rename it"
        )
    version = int(connection.pragma("schema_version", schema=schema))
    connection.pragma("writable_schema", True)
    try:
        connection.execute(f"UPDATE {where[0]} SET sql = ? {where[1]}", (new, name))
        connection.pragma("schema_version", version + 1, schema=schema)  # every connection reads the schema again
    finally:
        connection.pragma("writable_schema", False)
    connection.execute(f"REINDEX {schema}.{quote(name)}")  # a new collation changes the order of an index


def _columns(sql: str) -> list[list[Token]]:
    """Return the tokens of each column of a CREATE TABLE, followed by those of each constraint."""
    depth, columns = 0, [list[Token]()]
    for token in significant(sql):
        depth -= token.text == ")"
        if depth == 1 and token.text == ",":
            columns.append([])
        elif depth > 0:
            columns[-1].append(token)
        depth += token.text == "("
    return columns


def _properties(name: str, sql: str) -> list[object]:
    """Return the properties of a table that ALTER COLUMN keeps; raise `apsw.SQLError` if it does not parse."""
    with closing(apsw.Connection(":memory:")) as scratch:
        functions.install(scratch)
        scratch.execute(sql)
        return [scratch.execute(query, (name,)).fetchall() for query in _PROPERTIES]
