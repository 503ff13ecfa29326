"""The databases that are in use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from pipemagic.service.catalog import Catalog, DatabaseRecord
from pipemagic.service.connections import OpenDatabase
from pipemagic.service.http import Refused
from pipemagic.service.limits import Limits


class Databases:
    """The databases that are in use, by id."""

    def __init__(self, folder: Path, catalog: Catalog, limits: Limits, clock: Callable[[], float]) -> None:
        self._folder, self._catalog, self._limits, self._clock = folder, catalog, limits, clock
        self._lock = threading.Lock()
        self._open: dict[str, OpenDatabase] = {}

    def open(self, record: DatabaseRecord) -> OpenDatabase:
        """Give the database, opening its file if it is not in use; Refused (404) if it was deleted meanwhile."""
        with self._lock:
            database = self._open.get(record.id)
            if database is None:
                if self._catalog.database_by_id(record.id) is None:  # a deletion takes it out of the catalog first
                    raise Refused(404, "the database was deleted")
                database = self._open[record.id] = OpenDatabase(
                    self._folder / record.id / "primary.sqlite",
                    self._limits,
                    self._clock,
                    index=self._catalog.reserved_index(record.id),
                    reserve=lambda index: self._catalog.reserve_index(record.id, index),
                )
            return database

    def in_use(self) -> list[OpenDatabase]:
        """List the databases whose files are open."""
        with self._lock:
            return list(self._open.values())

    def get(self, identifier: str) -> OpenDatabase | None:
        """Give a database if it is in use."""
        with self._lock:
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

    def trim(self, now: float) -> None:
        """Close idle connections."""
        for database in self.in_use():
            database.trim(now)

    def close(self) -> None:
        """Close all databases."""
        with self._lock:
            databases, self._open = list(self._open.values()), {}
        for database in databases:
            database.close()
