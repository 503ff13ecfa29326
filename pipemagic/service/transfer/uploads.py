"""Uploaded files: written to disk as they arrive, and checked before they are used."""

from __future__ import annotations

import errno
import re
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import apsw

from pipemagic.service.endpoint import CancelToken
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite import functions

MAGIC = b"SQLite format 3\0"
PAGE_SIZE = 4096  # of the databases of this service; others are rewritten
PROGRESS = 100_000  # SQLite's instructions between two checks for a client that hung up


class Spool:
    """A request's body on its way to a file; ``limit`` is in bytes, None without one."""

    def __init__(self, path: Path, limit: int | None) -> None:
        self.path = path
        self._limit = limit
        self._size = 0
        self._file: BinaryIO = path.open("xb")

    def expect(self, size: int) -> None:
        """Raise `Refused` (413) if a body of this size is too large."""
        if self._limit is not None and size > self._limit:
            raise Refused(413, f"the file is larger than the {self._limit:,} bytes that the database may have")

    def write(self, data: bytes) -> None:
        """Append to the file; raise `Refused` if the body is too large (413) or the disk is full (507)."""
        self._size += len(data)
        self.expect(self._size)
        try:
            self._file.write(data)
        except OSError as error:
            raise no_room(error) from None

    def finish(self) -> None:
        """Flush and close the file."""
        try:
            self._file.close()
        except OSError as error:
            raise no_room(error) from None

    def discard(self) -> None:
        """Remove the file, unless it was moved."""
        with suppress(OSError):
            self._file.close()
        with suppress(FileNotFoundError):
            self.path.unlink()


def no_room(error: OSError | apsw.Error) -> Refused:
    """Return the error for a file that could not be written: 507 if the disk is full, otherwise 500."""
    if isinstance(error, apsw.FullError) or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return Refused(507, "the disk of the service is full; nothing was kept", "DISK_FULL")
    return Refused(500, f"the service cannot write the file: {error}; nothing was kept")


def adopt(path: Path, cancel: CancelToken) -> None:
    """Check an uploaded file and convert it to the form of this service's databases; raise `Refused` (400) if invalid.

    Nothing of its schema runs: it is not trusted, and rows are read but not changed. What the file may do later is
    limited as for every database.
    """
    check_header(path)
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error as error:
        raise _damaged(error) from None
    try:
        functions.install(connection)  # a CHECK may use them
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.set_progress_handler(lambda: cancel.cancelled, PROGRESS)
        connection.pragma("cell_size_check", True)
        _check(connection)
        normalise(connection)
    except (apsw.FullError, apsw.IOError) as error:
        raise no_room(error) from None
    except apsw.InterruptError:
        raise Refused(503, "the upload was given up") from None
    except (apsw.Error, UnicodeDecodeError) as error:
        raise _damaged(error) from None
    finally:
        connection.close()


_MOST_PROBLEMS = 2**31 - 1
_BREAKS_CONSTRAINT = re.compile(r"(?:NULL|NUMERIC|TEXT|non-\w+) value in |CHECK constraint failed in ")
"""Rows from before a constraint, as ALTER COLUMN leaves them, are no damage."""


def check_header(path: Path) -> None:
    """Raise `Refused` (400) for a file without the header of a SQLite database."""
    with path.open("rb") as file:
        head = file.read(100)
    if not head:
        raise Refused(400, "the file is empty: it is no SQLite database", "NOT_A_DATABASE")
    if len(head) < 100 or not head.startswith(MAGIC):
        raise Refused(400, "the file is no SQLite database", "NOT_A_DATABASE")


def _check(connection: apsw.Connection) -> None:
    for (found,) in connection.execute(f"PRAGMA integrity_check({_MOST_PROBLEMS})"):
        if found != "ok" and not _BREAKS_CONSTRAINT.match(str(found)):
            raise Refused(400, f"the database is damaged: {str(found).strip()[:300]}", "CORRUPT_DATABASE")


def normalise(connection: apsw.Connection) -> None:
    """Take the file out of WAL mode, and rewrite it if its pages have another form."""
    connection.pragma("journal_mode", "delete")
    if int(connection.pragma("page_size")) != PAGE_SIZE or int(connection.pragma("auto_vacuum")):
        connection.pragma("auto_vacuum", 0)
        connection.pragma("page_size", PAGE_SIZE)
        connection.execute("VACUUM")


def _damaged(error: Exception) -> Refused:
    return Refused(400, f"the database is damaged: {error}", "CORRUPT_DATABASE")
