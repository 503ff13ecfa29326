"""Copies of a database as it is at one moment, while it goes on being used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

PAGES = 2000
"""How many pages are copied between two looks at whether anybody still waits."""


class Stopped(Exception):
    """Nobody waits for the copy any more."""


def snapshot(source: apsw.Connection, path: Path, stopped: Callable[[], bool]) -> None:
    """Copy the database behind a connection into a new file, in rollback-journal mode, synced.

    The copy is that of one moment: the connection holds a read transaction meanwhile, which blocks no writer of a
    database in WAL mode. Raises Stopped as soon as ``stopped`` says so.
    """
    source.execute("BEGIN")
    try:
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # the moment is that of the first read
        _copy(source, path, stopped)
    finally:
        source.execute("ROLLBACK")


def _copy(source: apsw.Connection, path: Path, stopped: Callable[[], bool]) -> None:
    target = apsw.Connection(str(path))
    try:
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                if stopped():
                    raise Stopped
                backup.step(PAGES)
        target.pragma("journal_mode", "delete")
    finally:
        target.close()
