"""Virtual tables in SQL text: every server can run the statements, also one whose shadow tables cannot be written.

So full-text and R-tree tables are created and filled again, which makes their shadow tables. What can only be kept as
it is stored follows as rows of the shadow tables, which SQLite and sqld accept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

import apsw

from pipemagic.service.transfer.dump_rows import literal, rows_as_inserts
from pipemagic.sql import folded, quote, significant, terminated, unquote

_FULL_TEXT, _TREES = ("fts3", "fts4", "fts5"), ("rtree", "rtree_i32", "geopoly")
_OWN_STORAGE = frozenset({"languageid", "locale", "compress", "uncompress", "tokendata"})
"""Options of full-text tables with which a row is more than the values of its columns."""


class Form(Enum):
    """The form of a virtual table in the text."""

    ROWS = "its rows"
    REBUILT = "built from the table that has its content"
    STORED = "the rows of its shadow tables"
    ENTRY = "its entry in the schema: its module is missing"


class VirtualTable(NamedTuple):
    """A virtual table; ``shadows`` are the tables that hold its data, for which the text has no definitions."""

    name: str
    sql: str
    module: str
    form: Form
    shadows: tuple[str, ...]


def virtual_tables(connection: apsw.Connection, definitions: Mapping[str, str]) -> list[VirtualTable]:
    """Return the virtual tables with these definitions, by their names."""
    shadows: dict[str, list[str]] = defaultdict(list)
    for schema, name, kind, *_ in connection.execute("PRAGMA table_list").fetchall():
        if (schema, kind) == ("main", "shadow"):
            shadows[folded(str(name).rpartition("_")[0])].append(str(name))
    tables = []
    for name, sql in definitions.items():
        words = significant(sql)
        using = next(at for at, token in enumerate(words) if token.word == "USING")
        module, *arguments = [unquote(token.text).lower() for token in words[using + 1 :]]
        form = _form(connection, name, module, arguments, stored=bool(shadows[folded(name)]))
        own = () if form is Form.ENTRY else tuple(sorted(shadows[folded(name)]))
        tables.append(VirtualTable(name, sql, module, form, own))
    return tables


def _form(connection: apsw.Connection, name: str, module: str, arguments: list[str], *, stored: bool) -> Form:
    try:
        connection.execute(f"SELECT 1 FROM {quote(name)} LIMIT 1").fetchall()
    except apsw.SQLError as error:
        without_content = stored and module in _FULL_TEXT and "no such table" in str(error)
        return Form.STORED if without_content else Form.ENTRY
    if not stored or module in _TREES:
        return Form.ROWS
    triples = zip(arguments, arguments[1:], arguments[2:], strict=False)
    options = {option: value for option, sign, value in triples if sign == "="}
    if module not in _FULL_TEXT or not _OWN_STORAGE.isdisjoint(options):
        return Form.STORED
    if "content" not in options:
        return Form.ROWS
    return Form.REBUILT if options["content"] and _is_complete(connection, name, module) else Form.STORED


def _is_complete(connection: apsw.Connection, name: str, module: str) -> bool:
    """Return True if a full-text index contains exactly the rows of the table that has its content."""
    indexed = f"SELECT {'id' if module == 'fts5' else 'docid'} FROM {quote(f'{name}_docsize')}"
    content = f"SELECT rowid FROM {quote(name)}"
    differs = f"EXISTS ({indexed} EXCEPT {content}) OR EXISTS ({content} EXCEPT {indexed})"
    try:
        return connection.execute(f"SELECT {differs}").fetchall() == [(0,)]
    except apsw.SQLError:  # it keeps no sizes, or the table does not exist
        return False


def as_statements(connection: apsw.Connection, table: VirtualTable, encoding: str) -> Iterator[str]:
    """Yield the statements that create a virtual table and its content, in parts; not for `Form.ENTRY`."""
    name = quote(table.name)
    yield f"{terminated(table.sql)}\n"
    if table.form is Form.STORED:
        yield f"-- The tables in which {shown(table.name)} is stored. SQLite in defensive mode refuses these lines:\n"
        for shadow in table.shadows:
            yield f"DELETE FROM {quote(shadow)};\n"
            yield from rows_as_inserts(connection, shadow, encoding)
        return
    if table.module == "fts5":
        for key, value in connection.execute(f"SELECT k, v FROM {quote(f'{table.name}_config')} WHERE k <> 'version'"):
            yield f"INSERT INTO {name}({name},rank) VALUES({literal(key)},{literal(value)});\n"
    if table.form is Form.REBUILT:
        yield f"INSERT INTO {name}({name}) VALUES('rebuild');\n"
    elif table.shadows:
        yield from rows_as_inserts(connection, table.name, encoding, has_rowid=not table.module.startswith("rtree"))


def as_entries(tables: list[VirtualTable]) -> Iterator[str]:
    """Yield the statements that enter virtual tables into the schema without their modules."""
    if tables:
        yield "PRAGMA writable_schema=ON;"
        for table in tables:
            values = f"'table',{literal(table.name)},{literal(table.name)},0,{literal(table.sql)}"
            yield f"INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) VALUES({values});"
        yield "PRAGMA writable_schema=OFF;"


def shown(name: str) -> str:
    """Return a name for a comment of one line."""
    return " ".join(name.split())
