"""libSQL's ``ALTER TABLE t ALTER COLUMN c TO c definition``, which SQLite does not have.

The definition of the column is replaced in ``sqlite_schema``. It applies to rows written from then on; what is stored
is neither changed nor checked. As in libSQL, the name of the column, keys, UNIQUE constraints and generated columns
stay as they are.
Source: https://github.com/tursodatabase/libsql/blob/main/libsql-sqlite3/doc/libsql_extensions.md
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Any

import apsw

from pipemagic import sql as sqltext
from pipemagic.service.sqlite.sandbox import only_create_table
from pipemagic.sql import Token, folded, quote, significant, tokens, unquote
from pipemagic.sql.type_affinity import affinity

LONGEST = 250_000
"""Characters of a statement and of the definition of a table: their tokens need a hundred times the memory."""
_STORED = 3  # `hidden` of a column that is generated and stored


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
    parts = [token for token in significant(text) if token.kind != "semi"]
    match [token.text.upper() for token in parts]:
        case ["ALTER", "TABLE", _, ".", _, "ALTER", "COLUMN", _, "TO", _, *_]:
            schema, rest = unquote(parts[2].text), parts[4:10]
        case ["ALTER", "TABLE", _, "ALTER", "COLUMN", _, "TO", _, *_]:
            schema, rest = "", parts[2:8]
        case _:
            return None
    table, alter, _, column, to, new_name = rest
    renaming = (
        f"{text[: alter.start]}{'RENAME':{column.start - alter.start}}{text[column.start : to.end]} {column.text}"
    )
    definition = text[new_name.start : parts[-1].end]
    return AlterColumn(schema, unquote(table.text), unquote(column.text), unquote(new_name.text), definition, renaming)


Scratch = Callable[[], apsw.Connection]
WritableSchema = Callable[[str], AbstractContextManager[None]]


def apply(connection: apsw.Connection, change: AlterColumn, scratch: Scratch, writable_schema: WritableSchema) -> None:
    """Change the column, or raise `apsw.SQLError` and change nothing.

    ``scratch`` opens an empty database with the sandbox, limits and time of the connection. In a block of
    ``writable_schema``, the named schema's table of definitions can be written.
    """
    undo = "ROLLBACK" if connection.get_autocommit() else "ROLLBACK TO alter_column; RELEASE alter_column"
    connection.execute("SAVEPOINT alter_column")
    try:
        _replace_definition(connection, change, scratch, writable_schema)
        connection.execute("RELEASE alter_column")
    except BaseException:
        try:
            _undo(connection, undo)
        except apsw.InterruptError:  # which came at this very moment
            _undo(connection, undo)
        raise


def _undo(connection: apsw.Connection, undo: str) -> None:
    if not connection.get_autocommit():  # an interrupt may have ended the whole transaction
        connection.execute(undo)


def _replace_definition(
    connection: apsw.Connection, change: AlterColumn, scratch: Scratch, writable_schema: WritableSchema
) -> None:
    if folded(change.new_name) != folded(change.column):
        raise apsw.SQLError(f"ALTER COLUMN cannot rename {change.column} to {change.new_name}; use RENAME COLUMN")
    schema, name = _find_table(connection, change)
    columns = _columns_of(connection, schema, name)
    number, hidden = next((row[0], row[-1]) for row in columns if folded(row[1]) == folded(change.column))
    where = f"{schema}.sqlite_schema", "WHERE type = 'table' AND name = ?"
    old = connection.execute(f"SELECT sql FROM {where[0]} {where[1]}", (name,)).get
    if not isinstance(old, str):  # a file that was uploaded has the name in another case
        raise apsw.SQLError(f"error in table {name}: its definition has another name")
    if len(old) > LONGEST:
        raise apsw.SQLError(f"error in table {name}: its definition is too long for ALTER COLUMN")
    new = _with_definition(old, number, change.definition)
    before, after = (_parse(scratch, name, text) for text in (old, new))
    if hidden == _STORED or _kept(before, number) != _kept(after, number):
        raise apsw.SQLError(
            f"error in {change.definition}: a generated column, UNIQUE constraint or PRIMARY KEY cannot be altered; "
            "create a new table, copy the rows, and rename it"
        )
    with writable_schema(schema):
        connection.execute(f"UPDATE {where[0]} SET sql = ? {where[1]}", (new, name))
    # SQLite reads the schema again: a definition that it understands in another way is not committed.
    written = connection.execute(f"SELECT sql FROM {where[0]} {where[1]}", (name,)).fetchall()
    if written != [(new,)] or _columns_of(connection, schema, name) != after[0]:
        raise apsw.SQLError(f"error in {change.definition}: it does not define one column")
    connection.execute(f"REINDEX {schema}.{quote(name)}")  # a new collation changes the order of an index


def _with_definition(sql: str, number: int, definition: str) -> str:
    """Return a CREATE TABLE with another definition of column ``number``.

    Raise `apsw.SQLError` if the definition is not that of one column, or changes how the text around it is read, such
    as an unfinished string.
    """
    column = _split(sql)[number]
    parts = sql[: column[0].start], definition, sql[column[-1].end :]
    new = "".join(parts)
    depth = 0
    for token in significant(definition):
        depth += (token.text == "(") - (token.text == ")")
        if depth < 0 or (depth == 0 and token.text == ",") or token.kind == "semi":
            raise apsw.SQLError(f'near "{token.text}": syntax error')
    if depth or [*_texts(new)] != [text for part in parts for text in _texts(part)] or len(sqltext.split(new)) != 1:
        raise apsw.SQLError(f"error in {definition}: the definition is not finished")
    return new


def _texts(sql: str) -> list[str]:
    return [token.text for token in tokens(sql)]


def _split(sql: str) -> list[list[Token]]:
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


def _parse(scratch: Scratch, name: str, sql: str) -> tuple[list[Any], list[Any]]:
    """Return the columns and the properties of a table; raise `apsw.SQLError` if SQLite does not parse it.

    Nothing but one CREATE TABLE runs: the text is made of what users wrote, also in files that they uploaded.
    """
    with closing(scratch()) as connection:
        sandbox, connection.authorizer = connection.authorizer, only_create_table(name)
        try:
            connection.execute(sql)
        except apsw.AuthError:
            raise apsw.SQLError(f"error in table {name}: its definition is not one CREATE TABLE") from None
        connection.authorizer = sandbox
        return _columns_of(connection, "main", name), _properties(connection, name)


def _find_table(connection: apsw.Connection, change: AlterColumn) -> tuple[str, str]:
    """Return the schema of a table and its name as stored; a temporary table hides one of the same name."""
    tables = [row[:2] for row in _rows(connection, f"PRAGMA table_list({quote(change.table)})")]
    for schema, name in sorted(tables, reverse=True):
        if folded(change.schema) in ("", schema):
            return schema, name
    raise apsw.SQLError(f"no such table: {change.table}")


def _columns_of(connection: apsw.Connection, schema: str, name: str) -> list[Any]:
    """Return the number, name, type, NOT NULL, default, place in the key, and kind of each column."""
    return _rows(connection, f"PRAGMA {schema}.table_xinfo({quote(name)})")


def _properties(connection: apsw.Connection, name: str) -> list[Any]:
    """Return what ALTER COLUMN keeps: the options of a table, its keys and constraints, and whether it counts rows."""
    options = [row[4:] for row in _rows(connection, f"PRAGMA table_list({quote(name)})")]
    keys = []
    for _, index, _, origin, *_ in _rows(connection, f"PRAGMA index_list({quote(name)})"):
        columns = _rows(connection, f"PRAGMA index_xinfo({quote(index)})")
        keys.append((origin, [column for column in columns if column[-1]]))  # without those that are only stored
    return [options, keys, _rows(connection, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]


def _rows(connection: apsw.Connection, sql: str) -> list[Any]:
    """Return the rows of a query. It is a PRAGMA, not a table ``pragma_...``: users may create one of that name."""
    return connection.execute(sql).fetchall()


def _kept(table: tuple[list[Any], list[Any]], number: int) -> object:
    """Return what a new definition of column ``number`` must not change."""
    columns, properties = table
    _, name, declared, *_, key, hidden = columns[number]
    traits = folded(name), key, hidden, key and affinity(declared)  # with another one, SQLite does not find old keys
    return columns[:number], traits, columns[number + 1 :], properties
