"""A database file as SQL text.

The text restores in SQLite's own shell, and in libSQL servers as a client sends it: statement by statement. It has
tables and their rows first, then virtual tables, indexes, views and triggers, so no trigger runs. What libSQL servers
refuse is in comments that begin with `OPTIONAL`, which `restore` runs. Unlike the dumps of SQLite's shell, of apsw and
of Python's `sqlite3`, it keeps rowids, negative zero, text that contains NUL characters or is not valid Unicode,
``user_version`` and ``application_id``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw

from pipemagic.service.sqlite.foreign_names import refuse_comparisons
from pipemagic.service.sqlite.sandbox import Sandbox
from pipemagic.service.sqlite.value_limit import LARGEST
from pipemagic.service.transfer.dump_rows import CHUNK, rows_as_inserts
from pipemagic.service.transfer.dump_virtual import Form, as_entries, as_statements, shown, virtual_tables
from pipemagic.sql import OPTIONAL, statements_of, terminated, tokens

CHECK_INTERVAL = 100_000
"""Virtual machine instructions of SQLite between two checks whether the dump must end."""
_LEFT_OUT = f"""\
-- libSQL servers refuse the lines that begin with {OPTIONAL.strip()}, so these are comments. pipemagic runs them;
-- for SQLite, remove the mark: sed 's/^{OPTIONAL}//'
"""

_SCHEMA = """
SELECT iif(type = 'table' AND rootpage = 0, 'virtual table', type), name, CAST(sql AS TEXT) FROM sqlite_schema
WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite^_%' ESCAPE '^' ORDER BY rowid
"""


def dump(path: Path, must_end: Callable[[], bool]) -> Iterator[bytes]:
    """Yield the SQL text (UTF-8) of a database file in chunks; the file must not change meanwhile.

    Its schema may be of a file that was uploaded, so it is read in the sandbox. ``must_end`` is called often; it may
    raise to end the dump.
    """
    with closing(_open(path, apsw.SQLITE_OPEN_READONLY, must_end)) as connection:
        pending, size = [], 0
        for part in _parts(connection, lambda: _breaks_checks(path, must_end)):
            pending.append(part)
            size += len(part)
            if size >= CHUNK:
                yield "".join(pending).encode()
                pending, size = [], 0
        yield "".join(pending).encode()


def _open(path: Path, flags: int, must_end: Callable[[], bool]) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=flags)
    Sandbox().install(connection, LARGEST)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    refuse_comparisons(connection)
    connection.set_progress_handler(must_end, CHECK_INTERVAL)
    return connection


def _parts(connection: apsw.Connection, breaks_checks: Callable[[], bool]) -> Iterator[str]:
    """Yield the text in parts that have at most some `CHUNK` characters: a value may be large."""
    encoding = str(connection.pragma("encoding"))
    schema: dict[str, dict[str, str]] = defaultdict(dict)
    for kind, name, sql in connection.execute(_SCHEMA):
        schema[str(kind)][str(name)] = str(sql).partition("\0")[0]  # the rest would be run by who restores the dump
    virtual = virtual_tables(connection, schema["virtual table"])
    shadows = {name for table in virtual for name in table.shadows}
    tables = {name: sql for name, sql in schema["table"].items() if name not in shadows}
    entries = [table for table in virtual if table.form is Form.ENTRY]
    application_id, user_version = (int(connection.pragma(name)) for name in ("application_id", "user_version"))
    has_statistics = connection.table_exists("main", "sqlite_stat1")
    checks = "ignore_check_constraints"
    has_checks = any(token.word == "CHECK" for sql in tables.values() for token in tokens(sql))
    ignores_checks = has_checks and breaks_checks()

    if application_id or has_statistics or entries:
        yield _LEFT_OUT
    if encoding != "UTF-8":
        yield f"PRAGMA encoding='{encoding}';\n"
    if application_id:
        yield _optional(f"PRAGMA application_id={application_id};")
    if user_version:  # libSQL servers refuse it in a transaction
        yield f"PRAGMA user_version={user_version};\n"
    yield "PRAGMA foreign_keys=OFF;\n"
    if ignores_checks:
        yield "-- Rows violate CHECK constraints. libSQL servers refuse the next line, and those rows:\n"
        yield f"PRAGMA {checks}=ON;\n"
    yield "BEGIN TRANSACTION;\n"
    for name, sql in tables.items():
        yield f"{terminated(sql)}\n"
        yield from rows_as_inserts(connection, name, encoding)
    if any(map(_has_autoincrement, tables.values())):
        yield "DELETE FROM sqlite_sequence;\n"
        yield from rows_as_inserts(connection, "sqlite_sequence", encoding)
    for table in virtual:
        if table.form is not Form.ENTRY:
            yield from as_statements(connection, table, encoding)
    for kind in ("index", "view", "trigger"):
        yield from (f"{terminated(sql)}\n" for sql in schema[kind].values())
    if has_statistics:
        statements = "".join(rows_as_inserts(connection, "sqlite_stat1", encoding))
        for statement in ("ANALYZE sqlite_schema", "DELETE FROM sqlite_stat1", *statements_of([statements])):
            yield _optional(f"{statement};")
    for table in entries:
        yield f"-- {shown(table.name)} is a virtual table of the module {shown(table.module)}, which is missing here.\n"
    yield from map(_optional, as_entries(entries))
    yield "COMMIT;\n"
    if ignores_checks:
        yield f"PRAGMA {checks}=OFF;\n"


def _has_autoincrement(sql: str) -> bool:
    """Return True if creating the table also creates ``sqlite_sequence``."""
    return any(token.word == "AUTOINCREMENT" for token in tokens(sql))


def _breaks_checks(path: Path, must_end: Callable[[], bool]) -> bool:
    """Return True if a row violates a CHECK constraint."""
    # With a connection for reading, the check leaves out these constraints.
    with closing(_open(path, apsw.SQLITE_OPEN_READWRITE, must_end)) as connection:
        connection.pragma("query_only", True)
        try:
            return any("CHECK constraint failed" in str(line) for (line,) in connection.execute("PRAGMA quick_check"))
        except apsw.SQLError:  # the constraint has a function that does not exist here
            return True


def _optional(statement: str) -> str:
    """Return a statement that not all servers accept as a comment of one line, which `restore` runs."""
    return f"{OPTIONAL}{statement}".replace("\n", "'||char(10)||'") + "\n"
