"""One replica: a file of its own for reads, at an index that never decreases."""

from __future__ import annotations

import os
import shutil
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import apsw

from pipemagic.config import sync_folder
from pipemagic.service.executor import Waiter
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.connection import Connection
from pipemagic.service.sqlite.database import Fingerprint, OpenDatabase, fingerprint
from pipemagic.service.sqlite.pool import Closed, Pool

FOLDER = "replicas"
"""Beside the primary's file."""
READER_TIMEOUT = 5000
"""Milliseconds that a reader waits while a large commit is written."""
LOCK_TIMEOUT = 50
"""Milliseconds for which new readers wait while the running ones finish."""

_DAY = 24 * 3600 * 10**9  # ns

# Offsets in the header of a database. Source: https://www.sqlite.org/fileformat2.html#the_database_header
_JOURNAL_MODE = 18  # write and read version, one byte each: 1 is a rollback journal, 2 a WAL
_COUNTER, _PAGES, _COOKIE, _VALID_FOR = 24, 28, 40, 92
_HEADER_SIZE = 100


class Replica:
    """The replica of one database at the location ``code``.

    Streams take connections from it as from the primary, for reading only. One thread at a time writes it. An existing
    file is used if it is a complete copy of a primary with the fingerprint ``unchanged``, otherwise removed.
    """

    def __init__(
        self, code: str, unchanged: Fingerprint | None, primary: OpenDatabase, end_streams: Callable[[Replica], None]
    ) -> None:
        self.code, self.limits, self._clock = code, primary.limits, primary.clock
        self._end_streams, self.unicode = end_streams, primary.unicode
        self.path = primary.path.with_name(FOLDER) / f"{code}.sqlite"
        self._draft = self.path.with_name(self.path.name + ".new")
        self.paused = False
        self.stalled = False
        """True if it receives no changes once it can be read."""
        self.copied: int | None = 0
        """Number of pages in the new copy of the primary; None if no copy is being made."""
        self.changed: set[int] = set()
        """Numbers of the pages that the primary wrote and that are to be written here."""
        self.schema_changes = 0
        self.behind_since: float | None = None
        """The time (of the service's clock) of the oldest commit that it has not applied; None if it has all."""
        self.index = 0
        """The ``replication_index`` that it has reached."""
        self._lock = threading.Lock()
        self.pool: Pool | None = None
        """Its connections; None while it cannot be read."""
        self._file: ReplicaFile | None = None
        self._waiting: list[tuple[int, Waiter]] = []
        self._closed = False
        with suppress(FileNotFoundError):
            size, changed = fingerprint(self.path)
            if (size, changed + _DAY) == unchanged:  # see `mark_complete`
                self.copied = None
            else:
                self.path.unlink()

    @property
    def state(self) -> str:
        """Return paused, ok (it can be read) or copying."""
        ready = "copying" if self.pool is None else "ok"
        return "paused" if self.paused else ready

    @property
    def follows(self) -> bool:
        """True if it is to be written: it is not paused, and may receive changes or cannot be read yet."""
        return not self.paused and not (self.stalled and self.pool is not None)

    def lag(self) -> float:
        """Return the age of the oldest commit that it lacks, in seconds."""
        since = self.behind_since
        return 0.0 if since is None else max(0.0, self._clock() - since)

    # Connections, as of the primary.

    def take(self) -> Connection:
        """Return a read-only connection; raise `Refused` (503) if the replica has no file yet, or is paused."""
        pool = self.pool
        if pool is not None and not self.paused:
            with suppress(Closed):  # by `detach`, a moment ago: the database itself is open
                return pool.take()
        raise Refused(503, f"the replica at {self.code} is not ready: {self.state}", "REPLICA_NOT_READY")

    # Writing.

    def start_over(self) -> None:
        """Begin a new copy of the primary. The existing file can be read until it is complete."""
        self._close_file()
        self._draft.unlink(missing_ok=True)
        self.copied, self.changed = 0, set()

    def open_file(self, size: int) -> ReplicaFile:
        """Return the file to write; begin a new copy of ``size`` bytes if it is needed. Raise OSError."""
        if self._file is None:
            if self.copied is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                if shutil.disk_usage(self.path.parent).free < size:
                    raise OSError(f"the disk has no room for a copy of {size:,} bytes")
                self._draft.touch()
            self._file = ReplicaFile(self.path if self.copied is None else self._draft)
        return self._file

    def take_pages(self, count: int, most: int) -> tuple[Collection[int], bool]:
        """Return the numbers of the pages to write next, and whether the replica has all ``count`` pages then.

        These are the next ``most`` pages of a copy, otherwise the changed pages. They count as written from now on.
        """
        if self.copied is None or self.copied >= count:
            changed, self.changed = self.changed, set()
            return changed, True
        begin, self.copied = self.copied, self.copied + most
        return range(begin + 1, self.copied + 1), False

    def complete(self, index: int) -> None:
        """Record that it has all pages of the commit ``index``: it can be read from now on."""
        if self.copied is not None:
            self.detach()
            self._draft.replace(self.path)
            sync_folder(self.path.parent)
            self.copied = None
        if self.pool is None:
            self.pool = Pool(partial(Connection, self, busy_timeout=READER_TIMEOUT), self._clock)
        self.index = max(self.index, index)
        with self._lock:
            reached = [waiter for least, waiter in self._waiting if least <= self.index]
        for waiter in reached:
            waiter.granted = True
            waiter.finish()

    # Waiting for an index.

    def wait_for(self, index: int, deadline: float) -> Waiter:
        """Return a waiter that is granted when reads see ``index``; it is not granted if the replica is closed."""
        waiter = Waiter(deadline)
        with self._lock:
            waiter.granted = self.pool is not None and index <= self.index
            if waiter.granted or self._closed:
                waiter.finish()
            else:
                self._waiting.append((index, waiter))
        return waiter

    def waiters(self) -> list[Waiter]:
        """Return the waits for a later index, without those that have ended."""
        with self._lock:
            self._waiting = [entry for entry in self._waiting if not entry[1].done]
            return [waiter for _, waiter in self._waiting]

    def end_waits(self) -> None:
        """End all waits; they are not granted."""
        for waiter in self.waiters():
            waiter.finish()

    # Closing.

    def detach(self) -> None:
        """Close the file, which is about to be replaced, and end the streams that read it.

        The pool is closed first, so that no stream takes a connection after the others have ended.
        """
        pool, self.pool = self.pool, None
        if pool is not None:
            pool.close()
        self.end_streams()
        self._close_file()

    def end_streams(self) -> None:
        """End the streams that read it."""
        self._end_streams(self)

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def close(self) -> None:
        """End the streams and close all connections."""
        self.detach()
        self._closed = True  # before `end_waits` takes the lock: a later `wait_for` sees it
        self.end_waits()

    def mark_complete(self, primary: Fingerprint) -> None:
        """Set the file's modification time to a day before the primary's, which marks a complete copy.

        Any later write changes the time.
        """
        os.utime(self.path, ns=(primary[1] - _DAY, primary[1] - _DAY))


class ReplicaFile:
    """The file of one replica, open for writing pages beneath SQLite, under SQLite's own exclusive lock."""

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
