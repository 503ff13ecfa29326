"""Rows as INSERT statements. They keep rowids, negative zero, and texts that contain NUL or are not valid Unicode."""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from pipemagic.hrana.values import SqlValue
from pipemagic.sql import folded, quote

CHUNK = 64 * 1024
"""Minimum size of a chunk of text, in characters."""
_VISIBLE = 0
"""`hidden` of columns that are neither generated nor arguments of a virtual table."""
_CODECS = {"UTF-8": "utf-8", "UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}


def rows_as_inserts(
    connection: apsw.Connection, table: str, encoding: str, *, has_rowid: bool | None = None
) -> Iterator[str]:
    """Yield an INSERT statement for each row of a table, in parts if a value is large.

    ``has_rowid`` is True if the statements name the rowid; None finds out whether a column of the table contains it.
    """
    # Not a table pragma_table_xinfo(?), which a table of that name hides.
    described = connection.execute(f"PRAGMA main.table_xinfo({quote(table)})").fetchall()
    columns = [quote(str(name)) for _, name, *_, hidden in described if hidden == _VISIBLE]
    names = {folded(str(name)) for _, name, *_ in described}
    rowid = next((name for name in ("rowid", "_rowid_", "oid") if name not in names), None)
    order = ""
    if has_rowid is None:
        has_rowid = _has_hidden_rowid(connection, table, [str(row[2]) for row in described if row[5]])
    if rowid is not None and has_rowid:
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
            literals = (_text_literal(value, codec) if kind == "text" else literal(value) for value, kind in cells)
            yield f"{head}{','.join(literals)});\n"


def _large_literal(value: SqlValue, kind: str, codec: str) -> Iterator[str]:
    """Yield the literal of a value in parts: its hexadecimal digits need twice the memory of the value."""
    if not isinstance(value, bytes):
        yield literal(value)
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
    return f"CAST(X'{data.hex()}' AS TEXT)" if text is None else literal(text)


def _text_of(data: bytes, codec: str) -> str | None:
    """Return a text that a literal can hold; None if it contains NUL characters, or is invalid."""
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def literal(value: SqlValue) -> str:
    """Return a value as SQL; zero keeps its sign."""
    negative_zero = value == 0 and str(value) == "-0.0"
    return "-0.0" if negative_zero else apsw.format_sql_value(value)
