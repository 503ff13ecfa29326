"""A database file -> SQL text that makes the same database again, and back.

The text is what SQLite's own shell would restore: tables with their rows first, then indexes, views and triggers, so
that no trigger runs; virtual tables by their entry in the schema and the tables that hold their data. Beyond the
shell's own dump it keeps rowids, floats bit for bit, text with NUL characters or that is no Unicode,
``user_version`` and ``application_id``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from pipemagic.service.sqlite import functions
from pipemagic.sql import quote, statements_of, tokens

PIECE = 64 * 1024
"""Characters of a piece of text, at least."""

HEAD = ["PRAGMA foreign_keys=OFF;", "PRAGMA ignore_check_constraints=ON;"]
TAIL = ["COMMIT;", "PRAGMA ignore_check_constraints=OFF;"]

_OBJECTS = """
SELECT type, name, sql, rootpage FROM sqlite_schema
WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite^_%' ESCAPE '^' AND (?1 = type OR ?1 = '') ORDER BY rowid
"""


class _Object(NamedTuple):
    """An entry of the schema."""

    type: str
    name: str
    sql: str
    rootpage: int

    @property
    def is_virtual(self) -> bool:
        """Whether it is a virtual table."""
        return self.type == "table" and not self.rootpage


# -- out


def dump(path: Path) -> Iterator[bytes]:
    """Yield the text (UTF-8) of a database file in pieces; the file must not change meanwhile."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        yield from _pieces(_lines(connection))
    finally:
        connection.close()


def _pieces(lines: Iterator[bytes]) -> Iterator[bytes]:
    pending: list[bytes] = []
    size = 0
    for line in lines:
        pending.append(line)
        size += len(line)
        if size >= PIECE:
            yield b"\n".join(pending) + b"\n"
            pending, size = [], 0
    yield b"".join(line + b"\n" for line in pending)


def _lines(connection: apsw.Connection) -> Iterator[bytes]:
    encoding = str(connection.pragma("encoding"))
    if encoding != "UTF-8":
        yield f"PRAGMA encoding='{encoding}';".encode()
    for line in [*HEAD, "BEGIN TRANSACTION;"]:
        yield line.encode()
    yield from _tables(connection, _Writer(encoding))
    for name in ("user_version", "application_id"):
        if value := int(connection.pragma(name)):
            yield f"PRAGMA {name}={value};".encode()
    for line in TAIL:
        yield line.encode()


def _tables(connection: apsw.Connection, writer: _Writer) -> Iterator[bytes]:
    tables = _objects(connection, "table")
    virtual = [table for table in tables if table.is_virtual]
    for table in tables:
        if not table.is_virtual:
            yield _ended(table.sql)
            yield from writer.rows(connection, table.name)
    yield from _system_tables(connection, writer, counted=any(map(_is_counted, tables)))
    for kind in ("index", "view"):
        for one in _objects(connection, kind):
            yield _ended(one.sql)
    for trigger in _objects(connection, "trigger"):
        yield _ended(trigger.sql)
    if virtual:
        # Their CREATE would make the tables of their data once more: only the entry in the schema is missing.
        yield b"PRAGMA writable_schema=ON;"
        for table in virtual:
            name, sql = literal(table.name), literal(table.sql)
            yield (
                f"INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) VALUES('table',{name},{name},0,{sql});"
            ).encode("utf-8", "surrogatepass")
        yield b"PRAGMA writable_schema=OFF;"


def _is_counted(table: _Object) -> bool:
    """Return True if creating the table also creates ``sqlite_sequence``."""
    return any(token.kind == "word" and token.text.upper() == "AUTOINCREMENT" for token in tokens(table.sql))


def _system_tables(connection: apsw.Connection, writer: _Writer, *, counted: bool) -> Iterator[bytes]:
    """Yield the counters of AUTOINCREMENT and the results of ANALYZE, which are in tables of SQLite."""
    known = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if counted and "sqlite_sequence" in known:
        yield b"DELETE FROM sqlite_sequence;"
        yield from writer.rows(connection, "sqlite_sequence", rowids=False)
    if "sqlite_stat1" in known:
        yield b"ANALYZE sqlite_schema;"
        yield b"DELETE FROM sqlite_stat1;"
        yield from writer.rows(connection, "sqlite_stat1", rowids=False)


def _objects(connection: apsw.Connection, kind: str) -> list[_Object]:
    return [_Object(*row) for row in connection.execute(_OBJECTS, (kind,))]


def _ended(sql: str) -> bytes:
    """End a statement of the schema, which may itself end with a comment."""
    *_, last = tokens(sql)
    end = ";"
    if last.kind == "comment":
        end = "\n;" if last.text.startswith("--") else ";" if last.text.endswith("*/") else "*/;"
    return (sql + end).encode("utf-8", "surrogatepass")


class _Writer:
    """Writes the rows of tables as INSERT statements."""

    def __init__(self, encoding: str) -> None:
        self._codec = {"UTF-8": "utf-8", "UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}[encoding]

    def rows(self, connection: apsw.Connection, table: str, *, rowids: bool = True) -> Iterator[bytes]:
        """Yield a statement for each row."""
        columns, generated, numbers_rows, has_rowid = _columns(connection, table)
        read = [quote(name) for name in columns]
        # Text is read as the bytes that it is: it may hold NUL characters, or be no Unicode.
        pairs = [f"iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name}), typeof({name})" for name in read]
        rowid = _free_name(columns + generated) if rowids and has_rowid and not numbers_rows else None
        if rowid is not None:
            read, pairs = [rowid, *read], [f"{rowid}, 'integer'", *pairs]
        head = f"INSERT INTO {quote(table)}({','.join(read)}) VALUES("
        order = f" ORDER BY {rowid}" if rowid is not None else ""
        if not read:
            return
        for row in connection.execute(f"SELECT {', '.join(pairs)} FROM {quote(table)}{order}"):
            values = ",".join(map(self._literal, row[::2], row[1::2]))
            yield f"{head}{values});".encode("utf-8", "surrogatepass")

    def _literal(self, value: Any, kind: str) -> str:
        if kind != "text":
            return literal(value)
        try:
            text = bytes(value).decode(self._codec)
        except UnicodeDecodeError:
            text = "\0"
        return f"CAST(X'{value.hex()}' AS TEXT)" if "\0" in text else literal(text)


def _columns(connection: apsw.Connection, table: str) -> tuple[list[str], list[str], bool, bool]:
    """Return the stored columns, the generated ones, whether one is the rowid, and whether the table has a rowid."""
    described = connection.execute("SELECT name, type, pk, hidden FROM pragma_table_xinfo(?)", (table,)).fetchall()
    stored = [str(name) for name, _, _, hidden in described if hidden not in (2, 3)]
    generated = [str(name) for name, _, _, hidden in described if hidden in (2, 3)]
    keys = [(name, str(kind)) for name, kind, pk, _ in described if pk]
    without = connection.execute("SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'", (table,)).fetchone()
    alias = len(keys) == 1 and keys[0][1].upper() == "INTEGER" and not _has_key_index(connection, table)
    return stored, generated, alias, not (without and without[0])


def _has_key_index(connection: apsw.Connection, table: str) -> bool:
    """Return True if the primary key has an index (``INTEGER PRIMARY KEY DESC`` is no rowid)."""
    listed = connection.execute("SELECT origin FROM pragma_index_list(?)", (table,))
    return any(origin == "pk" for (origin,) in listed)


def _free_name(columns: Sequence[str]) -> str | None:
    taken = {name.lower() for name in columns}
    return next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)


def literal(value: Any) -> str:
    """Write a value as SQL; NaN, which SQLite does not store, is NULL."""
    match value:
        case None:
            return "NULL"
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case float() if math.isinf(value):
            return "9.0e999" if value > 0 else "-9.0e999"
        case float():
            return repr(value) if not math.isnan(value) else "NULL"
    return str(value)


# -- in


def restore(text: Iterable[str], path: Path, seen: Callable[[str], None] = lambda _: None) -> None:
    """Create a database file from SQL text, one statement at a time; raise apsw.Error if one fails.

    ``seen`` is called with each statement before it runs. The statements reach no other file and load no code. What an
    unfinished transaction did is not in the file.
    """
    connection = apsw.Connection(str(path))
    try:
        functions.install(connection)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.pragma("synchronous", "off")  # a crash leaves a file that nobody uses
        connection.authorizer = _judge
        for statement in statements_of(text):
            seen(statement)
            connection.execute(statement)
        connection.authorizer = None
        if not connection.get_autocommit():
            connection.execute("ROLLBACK")
        connection.pragma("journal_mode", "wal")  # writes the file's header, also where nothing is in the database
        connection.pragma("journal_mode", "delete")
    finally:
        connection.close()


def _judge(action: int, first: str | None, second: str | None, _schema: str | None, _inner: str | None) -> int:
    if action in (apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH):
        return int(apsw.SQLITE_DENY)
    if action == apsw.SQLITE_FUNCTION and (second or "").lower() in ("load_extension", "fts3_tokenizer"):
        return int(apsw.SQLITE_DENY)
    if action == apsw.SQLITE_PRAGMA and (first or "").lower() in ("temp_store_directory", "data_store_directory"):
        return int(apsw.SQLITE_DENY)
    return int(apsw.SQLITE_OK)
