"""Validation of an uploaded SQLite file, in a process of its own.

SQLite evaluates the expressions of a file's indexes and generated columns to validate it, and cannot be stopped inside
one function; a damaged file may also make it use much memory. So `upload` starts this module as a process, and kills
it when its time is up. The process gets no secrets: its task is the first line of its standard input, its result the
only line of its output. It ends with its parent, which holds the other end of the input.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from pipemagic.service.limits import MB
from pipemagic.service.sqlite import functions
from pipemagic.service.sqlite.foreign_names import ForeignName, foreign_name, stand_in
from pipemagic.service.sqlite.sandbox import Sandbox
from pipemagic.sql import folded

PAGE_SIZE = 4096
"""Page size of the databases of this service; files with another one are rewritten."""
MEMORY = 128 * MB
"""Bytes that SQLite may use for a validation. An indexed value of 40 MB takes about 80 MB."""
PROCESS_MEMORY = 1024 * MB
"""Bytes of addresses that the process may have, where the system has such a limit: also what Python uses."""
INVALID, TOO_LARGE = "CORRUPT_DATABASE", "CHECK_MEMORY"
"""Codes of the errors of a file."""

_BREAKS_CONSTRAINT = re.compile(r"(?:NULL|NUMERIC|TEXT|non-\w+) value in ")
"""Rows that violate a constraint that ALTER COLUMN added later are not damage."""
_OF_AN_INDEX = re.compile(r"(?: index|PRIMARY KEY order for) (.+)")
"""A problem that depends on how values compare, and the name of its index or table."""
_OF_THE_SERVICE = apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError
"""Errors that the disk causes, not the file."""
_DEFINITIONS = (
    "SELECT typeof(type), typeof(name), typeof(tbl_name), typeof(sql), type, name, tbl_name, sql FROM sqlite_schema"
)


class ValidationResult(NamedTuple):
    """The result: an empty ``problem`` if the file is valid.

    ``code`` is that of an error of the file, or the name of apsw's class for an error of the disk.
    """

    problem: str = ""
    code: str = ""


class InvalidFile(Exception):
    """The file cannot become a database."""


def validate(path: Path) -> ValidationResult:
    """Check a file, and convert it to the form of this service's databases.

    The schema is not trusted: CHECK constraints, triggers and views are not evaluated. Generated columns and indexes
    are, with values up to the size of the file.
    """
    try:
        with closing(open_untrusted(path)) as connection:
            functions.install(connection)
            size = path.stat().st_size
            Sandbox().install(connection, min(max(size, MB), 2**31 - 1))
            _check(connection, size)
        with closing(open_untrusted(path)) as connection:  # without what stands in for collations, which VACUUM needs
            functions.install(connection)
            convert(connection)
    except (apsw.NoMemError, MemoryError):
        line = f"checking the file took more than {MEMORY:,} bytes of memory: are its indexed values large?"
        return ValidationResult(line, TOO_LARGE)
    except _OF_THE_SERVICE as error:
        return ValidationResult(str(error), type(error).__name__)
    except apsw.SQLError as error:
        return ValidationResult(
            describe(error) if foreign_name(error) else f"the database is damaged: {error}", INVALID
        )
    except (InvalidFile, apsw.Error, UnicodeDecodeError) as error:
        return ValidationResult(f"the database is damaged: {error}", INVALID)
    return ValidationResult()


def _check(connection: apsw.Connection, size: int) -> None:
    if size % int(connection.pragma("page_size")):
        raise InvalidFile("the file is truncated")  # SQLite would read zeros
    connection.pragma("cell_size_check", True)
    connection.pragma("ignore_check_constraints", True)
    for problem in _problems(connection):
        if problem != "ok" and not _BREAKS_CONSTRAINT.match(problem):
            raise InvalidFile(problem.strip()[:300])
    for row in connection.execute(_DEFINITIONS):
        _check_definition(row[:4], row[4:])


def _problems(connection: apsw.Connection) -> Iterator[str]:
    """Yield what SQLite reports, without the order of indexes for which the file needs code of another program."""
    names: set[ForeignName] = set()
    while True:
        try:
            problems = [str(line) for (line,) in connection.execute("PRAGMA integrity_check(2147483647)")]
            break
        except apsw.SQLError as error:
            name = foreign_name(error)
            if name is None or name in names:
                raise
            names.add(name)
            stand_in(connection, name)
    unknown = _depending_on(connection, names) if names else set()
    for problem in problems:
        match = _OF_AN_INDEX.search(problem)
        if match is None or folded(match[1]) not in unknown:
            yield problem


def _depending_on(connection: apsw.Connection, names: Collection[ForeignName]) -> set[str]:
    """Return the folded names of the tables with definitions that contain one of the names, and of their indexes."""
    schema = connection.execute("SELECT name, tbl_name, ifnull(sql, '') FROM sqlite_schema").fetchall()
    tables = {table for _, table, sql in schema for name in names if folded(name.name) in folded(str(sql))}
    return {folded(str(name)) for name, table, _ in schema if table in tables}


def _check_definition(types: tuple[str, ...], values: tuple[object, ...]) -> None:
    """Raise `InvalidFile` for a row of the schema of which SQLite would read only a part."""
    *names, sql_type = types
    if set(names) != {"text"} or sql_type not in ("text", "null"):
        raise InvalidFile(f"the definition of {str(values[1])[:100]!r} is not text")
    if any("\0" in value for value in values if isinstance(value, str)):
        raise InvalidFile(f"the definition of {str(values[1])[:100]!r} contains a NUL character")


def open_untrusted(path: Path) -> apsw.Connection:
    """Open an existing file with an untrusted schema."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    return connection


def describe(error: apsw.SQLError) -> str:
    """Return the message for a file that cannot be rewritten without the code of another program."""
    return f"the database has pages of another size than {PAGE_SIZE} bytes and cannot be rewritten: {error}"


def convert(connection: apsw.Connection) -> None:
    """Convert a database to WAL mode, which syncs the file, and rewrite it if its pages have another form."""
    connection.pragma("journal_mode", "delete")
    if int(connection.pragma("page_size")) != PAGE_SIZE or int(connection.pragma("auto_vacuum")):
        connection.pragma("auto_vacuum", 0)
        connection.pragma("page_size", PAGE_SIZE)
        connection.execute("VACUUM")
    connection.pragma("journal_mode", "wal")


# The process.


def main() -> None:
    """Validate the file that is named on the first line of standard input, and print the result."""
    path = Path(json.loads(_read_line()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _limit_resources()
    os.write(1, json.dumps(validate(path)).encode())
    os._exit(0)  # the thread above is in a read


def _read_line() -> bytes:
    """Read a line without a buffer, which would hold a lock in the other thread."""
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(0, 65536) or b"\n"
    return line


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


def _limit_resources() -> None:
    apsw.hard_heap_limit(MEMORY)
    if sys.platform != "win32":
        import resource

        os.nice(10)  # statements go first
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would contain the file
        if sys.platform == "linux":  # macOS has the name but not the limit
            resource.setrlimit(resource.RLIMIT_AS, (PROCESS_MEMORY, PROCESS_MEMORY))
