"""The open databases of the service."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipemagic.config import sync_folder, write_private
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.catalog.records import DatabaseRecord
from pipemagic.service.executor import Waiter
from pipemagic.service.files import PRIMARY_FILE, UNFINISHED_FILE
from pipemagic.service.limits import Limits
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.connection import KEPT_WAL
from pipemagic.service.sqlite.database import OpenDatabase
from pipemagic.service.sqlite.pool import Closed
from pipemagic.service.sqlite.resources import file_size

UPLOAD_PATH = "/v1/upload"

MOST_IDLE = 500
"""Clean connections that are kept for all databases; each needs three file handles and 200 kB."""
IDLE_TIME = 60.0
"""Seconds for which a clean connection is kept."""


class Databases:
    """The databases that are in use, by id. ``replicate`` starts the replicas that a database's record names."""

    def __init__(
        self,
        folder: Path,
        catalog: Catalog,
        limits: Limits,
        clock: Callable[[], float],
        replicate: Callable[[OpenDatabase, DatabaseRecord], None],
        *,
        unicode: bool = False,
    ) -> None:
        self._folder, self._catalog, self._limits, self._clock = folder, catalog, limits, clock
        self._replicate, self._unicode = replicate, unicode
        self._lock = threading.Lock()
        """Guards the fields below and is held only briefly: the sweeper and every request need it."""
        self._open: dict[str, OpenDatabase] = {}
        self.get = self._open.get
        """Return a database that is in use, by id, or None; does not block."""
        self.before_write: Callable[[OpenDatabase], None] = lambda _: None
        """The function of that name for each database that is opened."""
        self._locks: dict[str, threading.Lock] = {}
        """Locks by database, held while its file is opened (which may take long), moved into place or closed."""
        self._closed = False

    # -- files from elsewhere

    def await_upload(self, identifier: str) -> None:
        """Make a new database unavailable until `supply`; called before the catalog entry is committed."""
        folder = self._folder / identifier
        folder.mkdir(parents=True)
        write_private(folder / UNFINISHED_FILE, b"")

    def place(self, identifier: str, file: Path) -> None:
        """Move a file into place for a new database; called before the catalog entry is committed."""
        self.await_upload(identifier)
        self._move(identifier, file)

    def _move(self, identifier: str, file: Path) -> None:
        folder = self._folder / identifier
        os.replace(file, folder / PRIMARY_FILE)
        sync_folder(folder)

    def awaits_upload(self, identifier: str) -> bool:
        """Return True if a database still waits for its file."""
        folder = self._folder / identifier
        return (folder / UNFINISHED_FILE).exists() and not (folder / PRIMARY_FILE).exists()

    def supply(self, record: DatabaseRecord, file: Path) -> None:
        """Move into place the file that a database waits for.

        Raise `Refused`: 404 if the database was deleted meanwhile, 409 if it has a file already.
        """
        with self._lock_of(record.id):
            try:
                if self._catalog.database_by_id(record.id) is None:
                    raise FileNotFoundError
                if not self.awaits_upload(record.id):
                    raise Refused(409, f"the database {record.name} has its file already", "NOT_AWAITED")
                self._move(record.id, file)
            except FileNotFoundError:
                raise Refused(404, "the database was deleted") from None

    @contextmanager
    def existing(self, identifier: str) -> Iterator[None]:
        """Keep the folder of a database from being deleted; raise `Refused` (404) if the database was deleted."""
        with self._lock_of(identifier):
            if self._catalog.database_by_id(identifier) is None:
                raise Refused(404, "the database was deleted")
            yield

    def discard(self, identifier: str) -> None:
        """Remove the folder of a creation that failed, unless the database exists."""
        if self._catalog.database_by_id(identifier) is None:
            shutil.rmtree(self._folder / identifier, ignore_errors=True)

    def finish_arrivals(self) -> None:
        """Clean up after a crash during a creation; called before any database is opened.

        Files without a mark stay although the catalog does not list them: the catalog may have been lost.
        """
        for folder in self._folder.glob("*/"):
            mark = folder / UNFINISHED_FILE
            if mark.exists() or not any(folder.iterdir()):
                self.discard(folder.name)
            if mark.exists() and (folder / PRIMARY_FILE).exists():
                mark.unlink()

    # -- in use

    def may_be_read(self, record: DatabaseRecord) -> bool:
        """Return False if the reads of a database have been blocked, which an older record does not show."""
        present = self._catalog.database_by_id(record.id)
        return present is None or not present.configuration.block_reads

    def open(self, record: DatabaseRecord) -> OpenDatabase:
        """Return the database; open its file if it is not in use.

        Raise `Refused`: 404 if it was deleted meanwhile, 409 if it waits for its file.
        """
        database = self._open.get(record.id)
        if database is not None:
            return database
        with self._lock_of(record.id):
            return self._open.get(record.id) or self._open_file(record)

    def _lock_of(self, identifier: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(identifier, threading.Lock())

    def _open_file(self, record: DatabaseRecord) -> OpenDatabase:
        """Open a database under its own lock; SQLite may have to recover a large WAL first."""
        current = self._catalog.database_by_id(record.id)
        if current is None:  # a deletion removes it from the catalog first
            raise Refused(404, "the database was deleted")
        if self.awaits_upload(record.id):
            raise Refused(
                409, f"the database {record.name} waits for its file: POST it to {UPLOAD_PATH}", "AWAITS_UPLOAD"
            )
        path = self._folder / record.id / PRIMARY_FILE
        database = OpenDatabase(
            path,
            self._limits,
            self._clock,
            # A database that was created from a file has had a commit, too.
            index=max(self._catalog.reserved_index(record.id), int(path.exists())),
            reserve=lambda index: self._catalog.reserve_index(record.id, index),
            primary=current.locations[0],
            unicode=self._unicode,
        )
        database.before_write = self.before_write
        try:
            self._replicate(database, current)
            with self._lock:
                if self._closed:
                    raise Closed
                self._open[record.id] = database
        except BaseException:  # without its replicas it would commit what they never receive
            database.close()
            raise
        return database

    def in_use(self) -> list[OpenDatabase]:
        """List the databases with open files."""
        with self._lock:
            return list(self._open.values())

    def size(self, identifier: str) -> int:
        """Return the bytes of a database's file and of its WAL beyond `KEPT_WAL`; 0 if it was never used."""
        path = self._folder / identifier / PRIMARY_FILE
        return file_size(path) + max(0, file_size(path.with_name(path.name + "-wal")) - KEPT_WAL)

    def truncate_large_wals(self) -> None:
        """Truncate the large WALs of databases that are not in use at the moment."""
        for database in self.in_use():
            database.truncate_large_wal()

    def pop(self, identifier: str) -> OpenDatabase | None:
        """Remove a deleted database, after any opening of it has finished."""
        with self._lock_of(identifier), self._lock:
            # Threads that wait for this lock, or create another one, find the database deleted.
            self._locks.pop(identifier, None)
            return self._open.pop(identifier, None)

    def expire(self, now: float) -> None:
        """End the waits that have passed their deadline."""
        for waiter in self._waiters():
            if waiter.deadline <= now:
                waiter.finish()

    def next_deadline(self) -> float | None:
        """Return the earliest deadline of a waiter; None if there is none."""
        return min((waiter.deadline for waiter in self._waiters()), default=None)

    def _waiters(self) -> list[Waiter]:
        return [waiter for database in self.in_use() for waiter in database.waiters() if not waiter.done]

    def trim(self, now: float) -> None:
        """Close connections that were idle for long, and the ones idle longest if there are too many.

        Otherwise requests to ever more databases would use up all file handles.
        """
        pools = [pool for database in self.in_use() for pool in database.pools()]
        most = MOST_IDLE
        idle = sorted(since for pool in pools for since in pool.idle())
        oldest = now - IDLE_TIME
        if len(idle) > most:
            oldest = max(oldest, idle[-most])
        if idle and idle[0] < oldest:
            for pool in pools:
                pool.trim(oldest)

    def close(self) -> None:
        """Close all databases, after any opening has finished; no further one can be opened."""
        with self._lock:
            self._closed, locks = True, list(self._locks.values())
        for lock in locks:
            with lock:
                pass
        with self._lock:
            databases = list(self._open.values())
            self._open.clear()
        for database in databases:
            database.close()
