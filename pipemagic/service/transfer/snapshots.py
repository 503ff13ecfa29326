"""Copy a database that is in use, as it is at one moment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

from pipemagic.service.sqlite.backup import copy_pages


def snapshot(source: apsw.Connection, path: Path, stopped: Callable[[], bool]) -> None:
    """Copy the database behind a connection into a new file, in rollback-journal mode, synced.

    The copy is that of one moment: the connection holds a read transaction meanwhile, which blocks no writer of a
    database in WAL mode. Raise `Stopped` once ``stopped`` returns True.
    """
    source.execute("BEGIN")
    try:
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # the moment is that of the first read
        with closing(apsw.Connection(str(path))) as target:
            copy_pages(source, target, stopped)
            target.pragma("journal_mode", "delete")
    finally:
        source.execute("ROLLBACK")
