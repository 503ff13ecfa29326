"""Write pages into the file of a replica beneath SQLite, under SQLite's own exclusive lock.

Source of the offsets: https://www.sqlite.org/fileformat2.html#the_database_header
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

_JOURNAL_MODE = 18  # write and read version, one byte each: 1 is a rollback journal, 2 a WAL
_COUNTER, _PAGES, _COOKIE, _VALID_FOR = 24, 28, 40, 92
_HEADER_SIZE = 100
LOCK_TIMEOUT = 50
"""Milliseconds for which new readers wait while the running ones finish."""


class ReplicaFile:
    """The file of one replica, open for writing pages."""

    def __init__(self, path: Path) -> None:
        # Of SQLite's VFS, which keeps track of its locks.
        self._file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0])
        self._locker = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        self._locker.set_busy_timeout(LOCK_TIMEOUT)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude readers. Raise apsw.BusyError if one does not finish.

        After an error in the block, the file is not a database any more; it stays locked until it is closed.
        """
        self._locker.execute("BEGIN EXCLUSIVE")
        try:
            yield
        except BaseException:
            with suppress(apsw.Error):  # waiting readers must not read a partly written file
                self._file.xWrite(bytes(_HEADER_SIZE), 0)
            raise
        self._locker.execute("ROLLBACK")

    def write(self, pages: Iterable[tuple[int, bytes]], count: int, page_size: int) -> bool:
        """Write the pages and set the size of the file to ``count`` pages; return True if the schema changed.

        The caller holds the lock.
        """
        old = first = self._file.xRead(page_size, 0)
        for number, data in pages:
            if number == 1:
                first = data
            else:
                self._file.xWrite(data, (number - 1) * page_size)
        counter = int.from_bytes(old[_COUNTER : _COUNTER + 4], "big") + 1
        self._file.xWrite(_replica_header(first, counter, count), 0)
        self._file.xTruncate(count * page_size)  # after page 1: SQLite refuses a file that is shorter than page 1 says
        return old[_COOKIE : _COOKIE + 4] != first[_COOKIE : _COOKIE + 4]

    def sync(self) -> None:
        """Make the file durable."""
        self._file.xSync(apsw.SQLITE_SYNC_NORMAL)

    def close(self) -> None:
        """Close the file."""
        self._locker.close(True)
        self._file.xClose()


def _replica_header(first: bytes, counter: int, count: int) -> bytes:
    """Return page 1 for a replica: rollback journal, ``count`` pages, and a change counter that readers compare."""
    page = bytearray(first)
    page[_JOURNAL_MODE : _JOURNAL_MODE + 2] = b"\1\1"
    for place, number in ((_COUNTER, counter & 0xFFFFFFFF), (_PAGES, count), (_VALID_FOR, counter & 0xFFFFFFFF)):
        struct.pack_into(">I", page, place, number)
    return bytes(page)
