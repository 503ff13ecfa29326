"""A database file as SQL text, and the reverse.

The text restores in SQLite's own shell. It has tables and their rows first, then indexes, views and triggers, so no
trigger runs. Virtual tables are restored by their schema entry and the tables that hold their data. Unlike the dumps of
SQLite's shell, of apsw and of Python's `sqlite3`, it keeps rowids, negative zero, text that contains NUL characters or
is not valid Unicode, ``user_version`` and ``application_id``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from textwrap import shorten

import apsw

from pipemagic.errors import TransferError
from pipemagic.hrana.values import SqlValue
from pipemagic.service.sqlite import functions
from pipemagic.service.sqlite.sandbox import Sandbox
from pipemagic.service.sqlite.value_limit import LARGEST
from pipemagic.sql import folded, quote, statements_of, terminated, tokens

CHUNK = 64 * 1024
"""Minimum size of a chunk of text, in characters."""
CHECK_INTERVAL = 100_000
"""Virtual machine instructions of SQLite between two checks whether the dump must end."""
EXCERPT = 60
"""Characters of a failed statement that its error shows."""

_SCHEMA = """
SELECT iif(type = 'table' AND rootpage = 0, 'virtual table', type), name, CAST(sql AS TEXT) FROM sqlite_schema
WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite^_%' ESCAPE '^' ORDER BY rowid
"""
_REFUSED = frozenset({"load_extension", "fts3_tokenizer", "temp_store_directory", "data_store_directory"})
"""Functions and pragmas that load code or name files."""
_GENERATED = (2, 3)
"""`hidden` of columns that are generated."""
_CODECS = {"UTF-8": "utf-8", "UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}


def dump(path: Path, must_end: Callable[[], bool]) -> Iterator[bytes]:
    """Yield the SQL text (UTF-8) of a database file in chunks; the file must not change meanwhile.

    Its schema may be of a file that was uploaded, so it is read in the sandbox. ``must_end`` is called often; it may
    raise to end the dump.
    """
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        Sandbox().install(connection, LARGEST)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.set_progress_handler(must_end, CHECK_INTERVAL)
        pending, size = [], 0
        for part in _parts(connection):
            pending.append(part)
            size += len(part)
            if size >= CHUNK:
                yield "".join(pending).encode()
                pending, size = [], 0
        yield "".join(pending).encode()


def _parts(connection: apsw.Connection) -> Iterator[str]:
    """Yield the text in parts that have at most some `CHUNK` characters: a value may be large."""
    encoding = str(connection.pragma("encoding"))
    if encoding != "UTF-8":
        yield f"PRAGMA encoding='{encoding}';\n"
    yield "PRAGMA foreign_keys=OFF;\nPRAGMA ignore_check_constraints=ON;\nBEGIN TRANSACTION;\n"
    schema: dict[str, dict[str, str]] = defaultdict(dict)
    for kind, name, sql in connection.execute(_SCHEMA):
        schema[str(kind)][str(name)] = str(sql).partition("\0")[0]  # the rest would be run by who restores the dump
    for name, sql in schema["table"].items():
        yield f"{terminated(sql)}\n"
        yield from _inserts(connection, name, encoding)
    yield from _system_tables(connection, any(map(_has_autoincrement, schema["table"].values())), encoding)
    for kind in ("index", "view", "trigger"):
        yield from (f"{terminated(sql)}\n" for sql in schema[kind].values())
    yield from _virtual_tables(schema["virtual table"])
    for name in ("user_version", "application_id"):
        if value := int(connection.pragma(name)):
            yield f"PRAGMA {name}={value};\n"
    yield "COMMIT;\nPRAGMA ignore_check_constraints=OFF;\n"


def _system_tables(connection: apsw.Connection, has_counters: bool, encoding: str) -> Iterator[str]:
    """Yield the counters of AUTOINCREMENT and the results of ANALYZE, which SQLite keeps in tables of its own."""
    if has_counters:
        yield "DELETE FROM sqlite_sequence;\n"
        yield from _inserts(connection, "sqlite_sequence", encoding)
    if connection.table_exists("main", "sqlite_stat1"):
        yield "ANALYZE sqlite_schema;\n"
        yield "DELETE FROM sqlite_stat1;\n"
        yield from _inserts(connection, "sqlite_stat1", encoding)


def _has_autoincrement(sql: str) -> bool:
    """Return True if creating the table also creates ``sqlite_sequence``."""
    return any(token.word == "AUTOINCREMENT" for token in tokens(sql))


def _virtual_tables(tables: Mapping[str, str]) -> Iterator[str]:
    """Yield the schema entries of virtual tables: CREATE would also create the tables that hold their data."""
    if tables:
        yield "PRAGMA writable_schema=ON;\n"
        for name, sql in tables.items():
            values = f"'table',{_literal(name)},{_literal(name)},0,{_literal(sql)}"
            yield f"INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) VALUES({values});\n"
        yield "PRAGMA writable_schema=OFF;\n"


def _inserts(connection: apsw.Connection, table: str, encoding: str) -> Iterator[str]:
    """Yield an INSERT statement for each row of a table, in parts if a value is large."""
    # Not a table pragma_table_xinfo(?), which a table of that name hides.
    described = connection.execute(f"PRAGMA main.table_xinfo({quote(table)})").fetchall()
    columns = [quote(str(name)) for _, name, *_, hidden in described if hidden not in _GENERATED]
    names = {folded(str(name)) for _, name, *_ in described}
    rowid = next((name for name in ("rowid", "_rowid_", "oid") if name not in names), None)
    order = ""
    if rowid is not None and _has_hidden_rowid(connection, table, [str(row[2]) for row in described if row[5]]):
        columns.insert(0, rowid)
        order = f" ORDER BY {rowid}"
    if not columns:
        return
    # Text is read as bytes: it may contain NUL characters, or be invalid.
    pairs = [f"iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name}), typeof({name})" for name in columns]
    head, codec = f"INSERT INTO {quote(table)}({','.join(columns)}) VALUES(", _CODECS[encoding]
    for row in connection.execute(f"SELECT {', '.join(pairs)} FROM {quote(table)}{order}"):
        cells = list(zip(row[::2], row[1::2], strict=True))
        if any(isinstance(value, bytes) and len(value) > CHUNK for value, _ in cells):
            yield head
            for number, (value, kind) in enumerate(cells):
                yield "," if number else ""
                yield from _large_literal(value, kind, codec)
            yield ");\n"
        else:
            literals = (_text_literal(value, codec) if kind == "text" else _literal(value) for value, kind in cells)
            yield f"{head}{','.join(literals)});\n"


def _large_literal(value: SqlValue, kind: str, codec: str) -> Iterator[str]:
    """Yield the literal of a value in parts: its hexadecimal digits need twice the memory of the value."""
    if not isinstance(value, bytes):
        yield _literal(value)
        return
    text = _text_of(value, codec) if kind == "text" else None
    if text is not None:
        yield "'"
        yield from (text[start : start + CHUNK].replace("'", "''") for start in range(0, len(text), CHUNK))
        yield "'"
        return
    yield "CAST(X'" if kind == "text" else "X'"
    yield from (value[start : start + CHUNK].hex() for start in range(0, len(value), CHUNK))
    yield "' AS TEXT)" if kind == "text" else "'"


def _has_hidden_rowid(connection: apsw.Connection, table: str, key: list[str]) -> bool:
    """Return True if a table has a rowid that none of its columns contains; ``key``: the types of its primary key."""
    [*_, without_rowid, _] = connection.execute(f"PRAGMA main.table_list({quote(table)})").fetchall()[0]
    if without_rowid:
        return False
    # INTEGER PRIMARY KEY DESC is not the rowid: it has an index.
    indexes = connection.execute(f"PRAGMA main.index_list({quote(table)})").fetchall()
    return [kind.upper() for kind in key] != ["INTEGER"] or any(row[3] == "pk" for row in indexes)


def _text_literal(data: bytes, codec: str) -> str:
    text = _text_of(data, codec)
    return f"CAST(X'{data.hex()}' AS TEXT)" if text is None else _literal(text)


def _text_of(data: bytes, codec: str) -> str | None:
    """Return a text that a literal can hold; None if it contains NUL characters, or is invalid."""
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _literal(value: SqlValue) -> str:
    negative_zero = value == 0 and str(value) == "-0.0"
    return "-0.0" if negative_zero else apsw.format_sql_value(value)


def restore(text: Iterable[str], path: Path, name: str) -> None:
    """Create a database file from SQL text, one statement at a time.

    Raise `TransferError` if a statement fails; ``name`` is the name of the text in the message. The statements cannot
    access other files or load code. The changes of an unfinished transaction are not in the file.
    """
    count, statement = 0, ""
    try:
        with closing(apsw.Connection(str(path))) as connection:
            functions.install(connection)
            connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            connection.pragma("synchronous", "off")  # the file of a process that crashed is not used
            connection.authorizer = _authorize
            for count, statement in enumerate(statements_of(text), start=1):  # noqa: B007
                connection.execute(statement)
            connection.authorizer = None
            if not connection.get_autocommit():
                connection.execute("ROLLBACK")
            connection.pragma("journal_mode", "wal")  # writes the header of the file, also of an empty database
            connection.pragma("journal_mode", "delete")
    except apsw.Error as error:
        excerpt = shorten(statement[: 4 * EXCERPT], EXCERPT, placeholder="...")
        hint = f"nothing was kept; the statement is: {excerpt}"
        raise TransferError(f"{name}: statement {count:,}: {error}", hint=hint) from None
    if not count:
        raise TransferError(f"{name} contains no SQL", hint="check whether the program that writes it failed")


def _authorize(action: int, first: str | None, second: str | None, _schema: str | None, _inner: str | None) -> int:
    name = second if action == apsw.SQLITE_FUNCTION else first
    by_name = action in (apsw.SQLITE_FUNCTION, apsw.SQLITE_PRAGMA)
    refused = action in (apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH) or (by_name and (name or "").lower() in _REFUSED)
    return int(apsw.SQLITE_DENY if refused else apsw.SQLITE_OK)
