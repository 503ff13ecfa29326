"""The databases that are in use."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from pipemagic.service.embedded.primaries import OpenDatabase
from pipemagic.service.files import sync_folder, write_private
from pipemagic.service.http import Refused
from pipemagic.service.limits import Limits
from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.records import DatabaseRecord

PRIMARY = "primary.sqlite"
ARRIVING = "arriving"  # in the folder of a database that is being created with a file
AWAITS_UPLOAD = "awaits-upload"  # in the folder of a database that was created for a file
UPLOAD_PATH = "/v1/upload"


class Databases:
    """The databases that are in use, by id. ``replicate`` gives a database the replicas that its record asks for."""

    def __init__(
        self,
        folder: Path,
        catalog: Catalog,
        limits: Limits,
        clock: Callable[[], float],
        replicate: Callable[[OpenDatabase, DatabaseRecord], None] = lambda *_: None,
    ) -> None:
        self._folder, self._catalog, self._limits, self._clock = folder, catalog, limits, clock
        self._replicate = replicate
        self._lock = threading.Lock()
        self._open: dict[str, OpenDatabase] = {}

    # -- files that are made elsewhere

    def place(self, identifier: str, file: Path) -> None:
        """Have a new database begin with a file, which is moved; called before the catalog has it for good."""
        folder = self._folder / identifier
        folder.mkdir(parents=True)
        write_private(folder / ARRIVING, b"")
        os.replace(file, folder / PRIMARY)
        sync_folder(folder)

    def await_upload(self, identifier: str) -> None:
        """Have a new database be of no use until `supply`; called before the catalog has it for good."""
        folder = self._folder / identifier
        folder.mkdir(parents=True)
        write_private(folder / AWAITS_UPLOAD, b"")

    def awaits_upload(self, identifier: str) -> bool:
        """Whether a database still waits for its file."""
        return (self._folder / identifier / AWAITS_UPLOAD).exists()

    def supply(self, record: DatabaseRecord, file: Path) -> None:
        """Give a database the file that it waits for, which is moved; Refused (404) if it was deleted meanwhile."""
        folder = self._folder / record.id
        with self._lock:
            try:
                if self._catalog.database_by_id(record.id) is None:
                    raise FileNotFoundError
                os.replace(file, folder / PRIMARY)
                sync_folder(folder)
                (folder / AWAITS_UPLOAD).unlink()
                sync_folder(folder)
            except FileNotFoundError:
                raise Refused(404, "the database was deleted") from None

    def finish_arrivals(self) -> None:
        """Clean up behind a crash in the middle of a creation; called before any database is opened."""
        for name in (ARRIVING, AWAITS_UPLOAD):
            for mark in self._folder.glob(f"*/{name}"):
                if self._catalog.database_by_id(mark.parent.name) is None:
                    shutil.rmtree(mark.parent, ignore_errors=True)
                elif name == ARRIVING:
                    mark.unlink()

    # -- in use

    def open(self, record: DatabaseRecord) -> OpenDatabase:
        """Give the database, opening its file if it is not in use.

        Refused (404) if it was deleted meanwhile, (409) if it waits for its file.
        """
        database = self._open.get(record.id)
        if database is not None:  # without the lock, which may be held for long, to open another one
            return database
        with self._lock:
            database = self._open.get(record.id)
            if database is None:
                current = self._catalog.database_by_id(record.id)
                if current is None:  # a deletion takes it out of the catalog first
                    raise Refused(404, "the database was deleted")
                if self.awaits_upload(record.id):
                    raise Refused(
                        409, f"the database {record.name} waits for its file: POST it to {UPLOAD_PATH}", "AWAITS_UPLOAD"
                    )
                path = self._folder / record.id / PRIMARY
                database = OpenDatabase(
                    path,
                    self._limits,
                    self._clock,
                    # One that began with a file has had a commit, too.
                    index=max(self._catalog.reserved_index(record.id), int(path.exists())),
                    reserve=lambda index: self._catalog.reserve_index(record.id, index),
                    primary=current.locations[0],
                )
                try:
                    self._replicate(database, current)
                except BaseException:  # without its replicas it would commit what they never hear of
                    database.close()
                    raise
                self._open[record.id] = database
            return database

    def in_use(self) -> list[OpenDatabase]:
        """List the databases whose files are open."""
        with self._lock:
            return list(self._open.values())

    def get(self, identifier: str) -> OpenDatabase | None:
        """Give a database if it is in use; waits for nobody."""
        return self._open.get(identifier)

    def size(self, identifier: str) -> int:
        """Give the bytes of a database's file; 0 if it was never used. What is still in the WAL is not counted."""
        try:
            return (self._folder / identifier / "primary.sqlite").stat().st_size
        except FileNotFoundError:
            return 0

    def pop(self, identifier: str) -> OpenDatabase | None:
        """Take a database out of use."""
        with self._lock:
            return self._open.pop(identifier, None)

    def expire(self, now: float) -> None:
        """End the waiting of those whose deadline has passed."""
        for database in self.in_use():
            database.expire(now)

    def next_deadline(self) -> float | None:
        """When the first of those who wait gives up."""
        times = (database.next_deadline() for database in self.in_use())
        return min((time for time in times if time is not None), default=None)

    def trim(self, now: float) -> None:
        """Close connections that nobody wanted for a while, and beyond some hundred the ones idle longest.

        Else requests to ever more databases would use up all file handles.
        """
        databases, most = self.in_use(), self._limits.idle_connections_in_all
        idle = sorted(since for database in databases for since in database.idle())
        oldest = now - self._limits.idle_connection_age
        if len(idle) > most:
            oldest = max(oldest, idle[-most])
        if idle and idle[0] < oldest:
            for database in databases:
                database.trim(oldest)

    def close(self) -> None:
        """Close all databases."""
        with self._lock:
            databases, self._open = list(self._open.values()), {}
        for database in databases:
            database.close()
