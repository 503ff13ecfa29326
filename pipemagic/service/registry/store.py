"""The catalog's file: one connection for all threads, and changes that are whole and durable."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from pipemagic.service.registry.schema import open_catalog

Run = Callable[[str, Sequence[Any]], list[Any]]
"""Runs one statement of a change and gives its rows."""


class Store:
    """What the parts of the catalog share. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.RLock()
        self.on_change: list[Callable[[], object]] = []
        """Called after each change, under the lock: what was remembered of the catalog is to be forgotten."""
        self._connection = open_catalog(path)
        self._path, self._identity = path, _identity(path)

    def close(self) -> None:
        """Close the file. Twice is fine."""
        with self.lock:
            self._connection.close()

    def check(self, sql: str) -> None:
        """Read from the file; apsw.Error if that cannot be. The own connection would answer from its memory."""
        self.rows(sql)
        if _identity(self._path) != self._identity:
            raise apsw.CantOpenError("the file was removed or replaced while the service runs")
        with closing(apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)) as fresh:
            fresh.execute(sql).fetchall()

    def rows(self, sql: str, arguments: Sequence[Any] = ()) -> list[Any]:
        """Run one statement, give its rows."""
        with self.lock:
            return self._connection.execute(sql, tuple(arguments)).fetchall()

    @contextmanager
    def change(self) -> Iterator[Run]:
        """Change something: all of it or nothing, durably. Inside another change it is part of that."""
        with self.lock:
            try:
                with self._connection:
                    yield self.rows
            finally:
                for forget in self.on_change:
                    forget()

    @contextmanager
    def note(self) -> Iterator[Run]:
        """Write figures down that nobody remembers: as `change`, but nothing is to be forgotten."""
        with self.lock, self._connection:
            yield self.rows


def _identity(path: Path) -> tuple[int, int] | None:
    """Tell one file from another of the same name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
