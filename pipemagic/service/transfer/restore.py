"""A database file from SQL text: of `dump`, of SQLite's shell (``.dump``, ``.recover``), and of Python's iterdump."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from textwrap import shorten

import apsw

from pipemagic.errors import TransferError
from pipemagic.service.sqlite import functions
from pipemagic.service.sqlite.foreign_names import place_of, refuse_comparisons
from pipemagic.sql import SHELL_SETTINGS, folded, parse, quote, statements_of, unquote

EXCERPT = 60
"""Characters of a failed statement that its error shows."""
_REFUSED = frozenset({"load_extension", "fts3_tokenizer", "temp_store_directory", "data_store_directory"})
"""Functions and pragmas that load code or name files."""
_INTO_SCHEMA = re.compile(r"\s*INSERT\b[^'(]*\bINTO\b[^'(]*\bsqlite_(?:master|schema)\b", re.IGNORECASE)
_END_OF_WRITES = re.compile(r"\s*PRAGMA\s+writable_schema\s*=\s*(?:off|0|no|false|reset)\b", re.IGNORECASE)


def restore(text: Iterable[str], path: Path, name: str) -> None:
    """Create a database file from SQL text, one statement at a time.

    Raise `TransferError` if a statement fails; ``name`` is the name of the text in the message. The statements cannot
    access other files or load code. The changes of an unfinished transaction are not in the file.
    """
    count, statement, place = 0, "", ""
    try:
        with closing(apsw.Connection(str(path))) as connection:
            functions.install(connection)
            refuse_comparisons(connection)
            connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            connection.pragma("synchronous", "off")  # the file of a process that crashed is not used
            connection.authorizer = _authorize
            entries = _SchemaEntries(connection)
            statements = _without_commands(statements_of(text, optional=True), name)
            for count, statement in enumerate(statements, start=1):  # noqa: B007
                try:
                    entries.execute(statement)
                except apsw.Error as error:
                    place = place_of(error, connection, statement)
                    raise
            connection.authorizer = None
            if not connection.get_autocommit():
                connection.execute("ROLLBACK")
            connection.pragma("journal_mode", "wal")  # writes the header of the file, also of an empty database
            connection.pragma("journal_mode", "delete")
        entries.check(path, name)
    except apsw.Error as error:
        excerpt = shorten(statement[: 4 * EXCERPT], EXCERPT, placeholder="...")
        hint = f"nothing was kept; the statement is: {excerpt}"
        where = f", in {place}" if place else ""
        raise TransferError(f"{name}: statement {count:,}: {error}{where}", hint=hint) from None
    if not count:
        raise TransferError(f"{name} contains no SQL", hint="check whether the program that writes it failed")


def _authorize(action: int, first: str | None, second: str | None, _schema: str | None, _inner: str | None) -> int:
    name = second if action == apsw.SQLITE_FUNCTION else first
    by_name = action in (apsw.SQLITE_FUNCTION, apsw.SQLITE_PRAGMA)
    refused = action in (apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH) or (by_name and (name or "").lower() in _REFUSED)
    return int(apsw.SQLITE_DENY if refused else apsw.SQLITE_OK)


def _without_commands(statements: Iterable[str], name: str) -> Iterator[str]:
    """Yield the statements without settings of SQLite's shell, which ``.recover`` writes; refuse its other commands."""
    for statement in statements:
        rest = statement
        while rest.startswith("."):
            line, _, rest = rest.partition("\n")
            word = line[1:].split(maxsplit=1)[0].lower() if line[1:].strip() else ""
            if word not in SHELL_SETTINGS:
                raise TransferError(
                    f"{name}: {shorten(line, EXCERPT, placeholder='...')} is a command of SQLite's shell, not SQL",
                    hint="remove the line, or run the text in the shell (sqlite3 FILE < TEXT) and use --from-file FILE",
                )
            rest = rest.lstrip()
        if rest:
            yield rest


class _SchemaEntries:
    """Virtual tables that a text enters into the schema table, without creating them.

    Their shadow tables follow in the text. iterdump also writes their rows, which SQLite cannot insert before it has
    read the schema again: they are counted, and compared with the table at the end.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._rows: dict[str, int] = {}
        """The number of rows in the text for each virtual table, by its folded name."""
        self._writes = False
        """True after the first entry, until writes to the schema table end."""

    def execute(self, statement: str) -> None:
        if self._writes and (table := self._table_of(statement)) is not None:
            self._rows[table] += 1
            return
        self._connection.execute(statement)
        if _INTO_SCHEMA.match(statement):
            self._writes = True
            query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage = 0"
            self._rows = {folded(str(name)): 0 for (name,) in self._connection.execute(query)} | self._rows
        elif self._writes and _END_OF_WRITES.match(statement):
            self._writes = False

    def _table_of(self, statement: str) -> str | None:
        """Return the virtual table into which a statement inserts a row; None for other statements."""
        if statement[:6].upper() != "INSERT":
            return None
        table = folded(unquote(parse(statement).changed_table))
        return table if table in self._rows else None

    def check(self, path: Path, name: str) -> None:
        """Raise `TransferError` if the shadow tables of a virtual table are missing, or have other rows."""
        if not self._rows:
            return
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            for table, expected in self._rows.items():
                try:
                    ((count,),) = connection.execute(f"SELECT count(*) FROM {quote(table)}").fetchall()
                    problem = f"the text has {expected:,} rows, of which {count:,} are in its shadow tables"
                    problem = problem if expected not in (0, count) else ""
                except apsw.SQLError as error:
                    problem = str(error)
                    if f"main.{table}_" not in folded(problem) and "vtable constructor failed" not in problem:
                        continue  # as in the original: its module or the table with its content may be missing
                if problem:
                    raise TransferError(
                        f"{name}: the virtual table {table} cannot be restored: {problem}",
                        hint="the text enters it into sqlite_master and lacks the tables that hold its data: "
                        "give the file with --from-file, or write the text with pipemagic db dump",
                    )
