"""Prepare SQLite files of the user for an upload, and create them from SQL text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from pipemagic.errors import TransferError
from pipemagic.service.responses import Refused
from pipemagic.service.transfer import dumps
from pipemagic.service.transfer.snapshots import snapshot
from pipemagic.service.transfer.uploads import check_header, normalise

BUSY_TIMEOUT = 5000  # milliseconds to wait for a program that writes to the file
SHOWN = 60  # characters of a statement that failed


def prepare(source: Path, target: Path) -> None:
    """Copy a SQLite file that others may be using into a new one of the form that services take for an upload.

    That is WAL mode, pages of 4096 bytes, no auto-vacuum; nothing is left beside the file.
    """
    try:
        check_header(source)
    except Refused as refused:
        raise TransferError(f"{source}: {refused.message}") from None
    except OSError as error:
        raise TransferError(f"{source} cannot be read: {error.strerror}") from None
    with _explained(str(source)):
        with _opened(source) as original:
            original.set_busy_timeout(BUSY_TIMEOUT)
            snapshot(original, target, lambda: False)
        with _opened(target) as copy:
            normalise(copy)
            copy.pragma("journal_mode", "wal")


def restore(text: Iterable[str], path: Path, name: str) -> None:
    """Create a SQLite file from SQL text; ``name`` is that of the text, for errors."""
    count, last = 0, ""

    def seen(statement: str) -> None:
        nonlocal count, last
        count, last = count + 1, statement

    try:
        dumps.restore(text, path, seen)
    except apsw.Error as error:
        start = " ".join(last[: 4 * SHOWN].split())
        shown = start if len(start) <= SHOWN else start[:SHOWN] + "..."
        raise TransferError(
            f"{name}: statement {count:,}: {error}", hint=f"nothing was kept; the statement is: {shown}"
        ) from None
    if not count:
        raise TransferError(f"{name}: there is no SQL in it", hint="did the program that should write it fail?")


@contextmanager
def _opened(path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        yield connection
    finally:
        connection.close()


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise TransferError(f"{name}: the database is damaged: {error}") from None
    except apsw.BusyError:
        raise TransferError(f"{name} is being written to", hint="try again when that program is done") from None
    except apsw.Error as error:
        raise TransferError(f"{name}: {error}") from None
