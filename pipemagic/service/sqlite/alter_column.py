"""libSQL's ``ALTER TABLE t ALTER COLUMN c TO c definition``, which SQLite does not have.

The definition of the column is replaced in ``sqlite_schema``. It applies to rows written from then on; existing
rows are neither changed nor checked. As in libSQL, the name of the column, keys, UNIQUE constraints and generated
columns stay as they are.
Source: https://github.com/tursodatabase/libsql/blob/main/libsql-sqlite3/doc/libsql_extensions.md
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import apsw

from pipemagic.service.sqlite import functions
from pipemagic.sql import Token, quote, tokens, unquote

_GENERATED = "a generated column"
_STORED = 3  # `hidden` of a column that is generated and stored
_CONSTRAINTS = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"})
"""First words of what may follow the columns in a CREATE TABLE; none of them can be a name without quotes."""


@dataclass(frozen=True, slots=True)
class AlterColumn:
    """A parsed statement. Names have no quotes; ``schema`` is '' if the statement names none."""

    schema: str
    table: str
    column: str
    new_name: str
    definition: str
    """The new column as it is written, name included."""


def parse(text: str) -> AlterColumn | None:
    """Parse one statement; None if it is another one or malformed, which SQLite then reports."""
    found = [token for token in tokens(text) if token.kind not in ("space", "comment", "semi")]
    if _words(found[:2]) != ["ALTER", "TABLE"]:
        return None
    qualified = len(found) > 3 and found[3].text == "."
    names, rest = (found[2:5:2], found[5:]) if qualified else (found[2:3], found[3:])
    if len(rest) < 5 or _words(rest[:2]) != ["ALTER", "COLUMN"] or _words(rest[3:4]) != ["TO"]:
        return None
    if not all(token.kind in ("word", "quoted") for token in (*names, rest[2], rest[4])):
        return None
    if any(token.kind == "param" for token in rest) or not _is_one_definition(rest[4:]):
        return None
    schema = unquote(names[0].text) if qualified else ""
    definition = text[rest[4].start : rest[-1].start + len(rest[-1].text)]
    return AlterColumn(schema, unquote(names[-1].text), unquote(rest[2].text), unquote(rest[4].text), definition)


def _words(found: Sequence[Token]) -> list[str]:
    return [token.text.upper() for token in found if token.kind == "word"]


def _is_one_definition(found: Sequence[Token]) -> bool:
    """Return True unless the tokens hold a comma or a parenthesis that ends the list of columns."""
    depth = 0
    for token in found:
        depth += (token.text == "(") - (token.text == ")")
        if depth < 0 or (depth == 0 and token.text == ","):
            return False
    return depth == 0


def check(connection: apsw.Connection, change: AlterColumn) -> tuple[str, str, str]:
    """Return the table's schema, its name and its new CREATE TABLE; raise `apsw.SQLError` if it cannot be changed."""
    schema, name, old = _definition(connection, change)
    start, end = _column_span(old, change.column)
    if change.new_name.lower() != change.column.lower():
        raise apsw.SQLError(
            f'ALTER COLUMN cannot rename "{change.column}" to "{change.new_name}"; '
            f"use ALTER TABLE {quote(name)} RENAME COLUMN {quote(change.column)} TO {quote(change.new_name)}"
        )
    new = old[:start] + change.definition + old[end:]
    before, after = _structure(name, old), _structure(name, new)
    for part in before:
        stored = part == _GENERATED and dict(before[part]).get(change.column.lower()) == _STORED
        if before[part] != after[part] or stored:  # existing rows would keep the values of the old expression
            raise apsw.SQLError(
                f"error in {change.definition}: {part} cannot be altered; "
                "create a new table, copy the rows, and rename it"
            )
    return schema, name, new


def apply(connection: apsw.Connection, change: AlterColumn) -> None:
    """Change the column, or raise `apsw.SQLError` and change nothing.

    The connection's authorizer must allow all, and its defensive mode must be off.
    """
    connection.execute("SAVEPOINT alter_column")
    try:
        schema, name, definition = check(connection, change)
        version = int(connection.pragma("schema_version", schema=schema))
        connection.pragma("writable_schema", True)
        try:
            connection.execute(
                f"UPDATE {schema}.sqlite_schema SET sql = ? WHERE type = 'table' AND name = ?", (definition, name)
            )
            connection.pragma("schema_version", version + 1, schema=schema)  # every connection reads the schema again
        finally:
            connection.pragma("writable_schema", False)
        connection.execute(f"REINDEX {schema}.{quote(name)}")  # a new collation changes the order of an index
    except BaseException:
        if not connection.get_autocommit():  # an interrupt may have ended the whole transaction
            connection.execute("ROLLBACK TO alter_column")
            connection.execute("RELEASE alter_column")
        raise
    connection.execute("RELEASE alter_column")


def _definition(connection: apsw.Connection, change: AlterColumn) -> tuple[str, str, str]:
    """Return the schema, the name and the CREATE TABLE of the table as they are stored."""
    for schema in [change.schema.lower()] if change.schema else ["temp", "main"]:
        if schema not in ("temp", "main"):
            raise apsw.SQLError(f"unknown database {change.schema}")
        found = connection.execute(
            f"SELECT type, name, sql FROM {schema}.sqlite_schema "
            "WHERE type IN ('table', 'view') AND lower(name) = lower(?)",
            (change.table,),
        ).fetchone()
        if found is not None:
            break
    else:
        if change.table.lower().startswith("sqlite_"):
            raise apsw.SQLError(f"table {change.table} may not be altered")
        raise apsw.SQLError(f"no such table: {'.'.join(filter(None, (change.schema, change.table)))}")
    kind, name, sql = found
    if kind == "view":
        raise apsw.SQLError(f'cannot alter columns of view "{name}"')
    if name.lower().startswith("sqlite_") or not sql.upper().startswith("CREATE TABLE"):
        raise apsw.SQLError(f"table {name} may not be altered")
    return schema, name, sql


def _column_span(sql: str, column: str) -> tuple[int, int]:
    """Return where the definition of a column begins and ends in a CREATE TABLE."""
    depth, piece = 0, list[Token]()
    for token in tokens(sql):
        if token.kind in ("space", "comment"):
            continue
        depth -= token.text == ")"
        if depth == 0 or (depth == 1 and token.text == ","):
            if piece and not _is_constraint(piece[0]) and unquote(piece[0].text).lower() == column.lower():
                return piece[0].start, piece[-1].start + len(piece[-1].text)
            piece = []
        else:
            piece.append(token)
        depth += token.text == "("
        if token.text == ")" and depth == 0:
            break
    raise apsw.SQLError(f'no such column: "{column}"')


def _is_constraint(token: Token) -> bool:
    return token.kind == "word" and token.text.upper() in _CONSTRAINTS


def _structure(name: str, sql: str) -> dict[str, Any]:
    """Return the parts of a table that ALTER COLUMN keeps, by name; raise `apsw.SQLError` if it does not parse."""
    with closing(apsw.Connection(":memory:")) as scratch:
        functions.install(scratch)
        scratch.execute(sql)
        columns = scratch.execute("SELECT lower(name), hidden, pk FROM pragma_table_xinfo(?)", (name,)).fetchall()
        options = scratch.execute("SELECT wr, strict FROM pragma_table_list WHERE lower(name) = lower(?)", (name,))
        without_rowid, strict = next(options)
        # REINDEX does not sort the rows of a WITHOUT ROWID table again, so its key keeps its collations.
        indexes = scratch.execute(
            "SELECT origin, (SELECT group_concat(name || iif(?, ' ' || coll, '')) "
            "FROM pragma_index_xinfo(l.name) WHERE key) FROM pragma_index_list(?) AS l ORDER BY 1, 2",
            (without_rowid, name),
        ).fetchall()
        autoincrement = scratch.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_sequence'").fetchall()
    return {
        "a PRIMARY KEY": (
            [(column, pk) for column, _, pk in columns if pk],
            [index for index in indexes if index[0] == "pk"],
            autoincrement,
        ),
        "a UNIQUE constraint": [index for index in indexes if index[0] == "u"],
        _GENERATED: [(column, hidden) for column, hidden, _ in columns if hidden],
        "the list of columns": [column for column, _, _ in columns],
        "WITHOUT ROWID or STRICT": (without_rowid, strict),
    }
