"""Copy a database page by page, as it is at one moment."""

from __future__ import annotations

from collections.abc import Callable

import apsw

PAGES = 1000
"""Pages that are copied between two checks of whether the copy is still wanted."""


class Stopped(Exception):
    """The copy is no longer wanted."""


def copy_pages(source: apsw.Connection, target: apsw.Connection, stopped: Callable[[], bool]) -> None:
    """Copy all pages; raise `Stopped` once ``stopped`` returns True. The source must hold a read transaction."""
    with target.backup("main", source, "main") as backup:
        while not backup.done:
            if stopped():
                raise Stopped
            backup.step(PAGES)
