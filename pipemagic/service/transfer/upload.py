"""SQLite files for uploads: a client prepares them, the service validates them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import apsw

from pipemagic.errors import TransferError
from pipemagic.service.limits import MB, Limits
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite import functions
from pipemagic.service.sqlite.database import snapshot
from pipemagic.service.sqlite.sandbox import Sandbox

MAGIC = b"SQLite format 3\0"
HEADER_SIZE = 100
PAGE_SIZE = 4096
"""Page size of the databases of this service; files with another one are rewritten."""
BUSY_TIMEOUT = 5000
"""Milliseconds to wait for a program that writes to the file."""
CHECK_TIME, CHECK_RATE = 10.0, MB
"""Time limit of the validation of a file: seconds, and bytes for each further second."""
SCHEMA_SQL = 250_000
"""Largest SQL, in bytes, of a table, index, view or trigger: SQLite cannot be interrupted within an expression."""

_CHECK_INTERVAL = 100_000
"""Virtual machine instructions of SQLite between two checks whether the validation must end."""
_BREAKS_CONSTRAINT = re.compile(r"(?:NULL|NUMERIC|TEXT|non-\w+) value in ")
"""Rows that violate a constraint that ALTER COLUMN added later are not damage."""


def validate_upload(path: Path, limits: Limits, must_end: Callable[[], bool]) -> None:
    """Check an uploaded file and convert it to the form of this service's databases.

    Raise `Refused` (400) if it is invalid, or if that takes too long. ``must_end`` is called often; it may raise to end
    the validation. The schema is not trusted: CHECK constraints, triggers and views are not evaluated. Generated
    columns and indexes are, with values up to the size of the file.
    """
    check_header(path)
    size = path.stat().st_size
    seconds = CHECK_TIME + size / CHECK_RATE
    with closing(_open(path)) as connection:
        functions.install(connection)
        functions.bound(connection, limits.value, must_end)
        sandbox = Sandbox()
        value, sql = min(limits.value, max(size, MB)), min(limits.statement, SCHEMA_SQL)
        sandbox.install(connection, replace(limits, value=value, statement=sql))
        connection.set_progress_handler(must_end, _CHECK_INTERVAL)
        timer = threading.Timer(seconds, connection.interrupt)  # a single instruction may take long
        timer.start()
        try:
            if size % int(connection.pragma("page_size")):
                raise _damaged("the file is truncated")  # SQLite would read zeros
            connection.pragma("cell_size_check", True)
            connection.pragma("ignore_check_constraints", True)
            for (problem,) in connection.execute("PRAGMA integrity_check(2147483647)"):
                if problem != "ok" and not _BREAKS_CONSTRAINT.match(str(problem)):
                    raise _damaged(str(problem).strip()[:300])
            for name, sql in connection.execute("SELECT name, sql FROM sqlite_schema"):
                if not isinstance(sql, str | None) or "\0" in f"{name}{sql}":  # of which SQLite reads only the start
                    raise _damaged(f"the definition of {str(name)[:100]!r} contains a NUL character, or is a blob")
            sandbox.bypass = True  # for the pragmas of the form
            _convert(connection)
        except apsw.InterruptError:
            line = f"checking the file took more than {seconds:.0f} s: are its generated columns or indexes slow?"
            raise Refused(400, line, "CHECK_TIMEOUT") from None
        except (apsw.FullError, apsw.IOError, apsw.NoMemError):  # of the service, not of the file
            raise
        except (apsw.Error, UnicodeDecodeError) as error:
            raise _damaged(error) from None
        finally:
            timer.cancel()


def check_header(path: Path) -> None:
    """Raise `Refused` (400) for a file without the header of a SQLite database."""
    with path.open("rb") as file:
        header = file.read(HEADER_SIZE)
    if len(header) < HEADER_SIZE or not header.startswith(MAGIC):
        raise Refused(400, "the file is not a SQLite database", "NOT_A_DATABASE")
    if max(header[18:20]) > 2:  # SQLite would open it for reading only
        raise _damaged(f"unknown version of the file format {max(header[18:20])}")


def _damaged(problem: object) -> Refused:
    return Refused(400, f"the database is damaged: {problem}", "CORRUPT_DATABASE")


def _open(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    return connection


def _convert(connection: apsw.Connection) -> None:
    """Convert a database to WAL mode, which syncs the file, and rewrite it if its pages have another form."""
    connection.pragma("journal_mode", "delete")
    if int(connection.pragma("page_size")) != PAGE_SIZE or int(connection.pragma("auto_vacuum")):
        connection.pragma("auto_vacuum", 0)
        connection.pragma("page_size", PAGE_SIZE)
        connection.execute("VACUUM")
    connection.pragma("journal_mode", "wal")


def prepare_upload(source: Path, target: Path) -> None:
    """Copy a SQLite file that other programs may be using into a new file that services accept as an upload.

    It is in WAL mode, with pages of 4096 bytes and without auto-vacuum. Raise `TransferError` if that is not possible.
    """
    try:
        check_header(source)
        with closing(_open(source)) as original:
            original.set_busy_timeout(BUSY_TIMEOUT)
            snapshot(original, target, lambda: False)
        with closing(_open(target)) as copy:
            _convert(copy)
    except Refused as refused:
        raise TransferError(f"{source}: {refused.message}") from None
    except OSError as error:
        raise TransferError(f"{source} cannot be read: {error.strerror}") from None
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise TransferError(f"{source}: the database is damaged: {error}") from None
    except apsw.BusyError:
        raise TransferError(f"{source} is being written to", hint="try again when that program has finished") from None
    except apsw.Error as error:
        raise TransferError(f"{source}: {error}") from None
