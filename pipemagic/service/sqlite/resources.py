"""The memory and the temporary files of a running statement, and what stops one that needs too much of either.

The memory that SQLite uses is counted for the whole process (its heap limit, see `apsw.hard_heap_limit`), with that of
the functions of the service that keep values (`hold`).

Temporary files hold what a sort, a DISTINCT or a materialized table needs beyond its memory. They have no limit of
their own, but the disk has a reserve: when less is free, the statement with the largest files is stopped. SQLite counts
only some of these files, and those of a sort only at its end. Linux counts the bytes that each thread has written to a
disk for the first time; the thread of a statement reads this in SQLite's progress handler, and subtracts what SQLite's
page cache has written, which is the database itself. Where this is not counted, temporary files are kept in memory.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import apsw
import msgspec

from pipemagic.service.limits import MB

if sys.platform == "linux":
    import resource

log = logging.getLogger(__name__)

FIRST_INTERVAL, SHORTEST_INTERVAL, LONGEST_INTERVAL = 100, 10, 10_000
"""Virtual machine instructions of SQLite between two checks: the longest takes some 0.1 ms.

The first is short because an instruction on large values may take milliseconds, and write as many bytes. More checks
than are needed would cost other threads the interpreter lock.
"""
TEMPORARY_TABLES = 256 * MB
"""Bytes of the temporary tables of one stream."""
RESERVE = 256 * MB
"""Free space of a disk, of a small one a twentieth, below which the statement with the largest temporary files is
stopped."""
_LARGE = 4 * MB
"""Bytes: a statement that has written fewer has not filled a disk."""
_QUICK, _SLOW = 0.0005, 0.004
"""Seconds of CPU time between two checks: the interval grows below the first and shrinks above the second."""


_total, _lock = 0, threading.Lock()
"""The bytes that functions of the service hold for aggregates, beside SQLite's memory."""


def memory_used() -> int:
    """Return the bytes that SQLite, and the functions of the service, use."""
    return apsw.memory_used() + _total


def hold(size: int) -> None:
    """Count bytes that a function has taken, or freed if negative; raise `apsw.NoMemError` if there are no more."""
    global _total
    with _lock:
        _total += size
    if size > 0 and 0 < apsw.hard_heap_limit(-1) < memory_used():
        raise apsw.NoMemError("out of memory")


class UsageExceeded(Exception):
    """A statement was stopped because it used too much memory or temporary space."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class StatementUsage(msgspec.Struct, eq=False):
    """The memory and disk space that one statement uses.

    ``database``: the path of its file; ``memory_before``: `memory_used` at its start; ``exceeded``: the reason if it
    was stopped.
    """

    database: Path
    memory_before: int
    exceeded: UsageExceeded | None = None
    interval: int = FIRST_INTERVAL
    spilled: int = 0
    """The bytes of its temporary files, as far as counted."""
    _cpu_time: float = 0.0
    _written_before: int = 0

    def begin(self, written: int, stop: Callable[[], None]) -> None:
        """Record that the statement begins; ``stop`` stops it from any thread. ``written``: as for `resume_count`."""
        self._written_before = written
        _running[self] = stop

    def end(self) -> None:
        """Record that the statement has ended: its temporary files are freed."""
        with _stopping:
            _running.pop(self, None)

    @property
    def must_end(self) -> bool:
        """True if the running statement must end because of what it uses."""
        return self.exceeded is not None and self in _running

    def check_memory(self) -> bool:
        """Return True if the statement must be stopped; `exceeded` is then the reason.

        It may use half of the heap, and more while a quarter is left for others.
        """
        memory, heap = memory_used(), apsw.hard_heap_limit(-1)
        if not 0 < heap * 3 < memory * 4 or memory - self.memory_before <= heap // 2:
            return False
        self.exceeded = UsageExceeded(
            f"out of memory: the statement used more than half of the {heap:,} bytes that all statements of "
            "this service have, and was stopped: use smaller values, or fewer at once",
            "SQLITE_NOMEM",
        )
        return True

    def resume_count(self, written: int) -> None:
        """Count from here on. ``written``: what this thread has written to temporary files, for any statement."""
        self._written_before = written - self.spilled

    def count(self, written: int) -> None:
        """Count. ``written``: as for `resume_count`."""
        self.spilled = written - self._written_before

    def check_space(self) -> None:
        """Stop the statement with the largest temporary files, if this one has large ones and their disk gets full."""
        if self.spilled < _LARGE:
            return
        disk = shutil.disk_usage(temporary_folder())
        if disk.free < min(RESERVE, disk.total // 20):
            largest = max(list(_running), key=lambda usage: usage.spilled, default=self)
            largest.stop_for_space()

    def stop_for_space(self) -> None:
        """Stop the statement, unless it has ended: the disk is nearly full, and it has the largest temporary files."""
        with _stopping:
            stop = _running.get(self)
            if stop is not None and self.exceeded is None:
                self.exceeded = UsageExceeded(
                    "the disk for temporary files is nearly full; the statement had the largest ones and was stopped: "
                    "sort or group fewer rows or columns, or create an index that has the order",
                    "SQLITE_FULL",
                )
                log.warning("%s: a statement was stopped: %s", self.database, self.exceeded)
                stop()

    def adapt_interval(self) -> bool:
        """Adapt `interval` to the CPU time since the last check; return True if it has changed.

        The time that the thread waits for the interpreter lock does not count: more checks would only prolong it.
        SQLite has begun the next interval when it calls its progress handler, so a change takes effect after that one.
        """
        before, began, self._cpu_time = self.interval, self._cpu_time, time.thread_time()
        if began and self._cpu_time - began < _QUICK:
            self.interval = min(LONGEST_INTERVAL, before * 4)
        elif began and self._cpu_time - began > _SLOW:
            self.interval = max(SHORTEST_INTERVAL, before // 16)
        return self.interval != before


_running: dict[StatementUsage, Callable[[], None]] = {}
"""What stops each statement, of all databases, that runs, waits for its slice or waits for its reader."""
_stopping = threading.Lock()
"""Held while a statement is stopped because of its temporary files, so that this does not stop the next one."""


def check_space() -> None:
    """Check all running statements: a sort may write gigabytes before its progress handler does."""
    for usage in list(_running):
        usage.check_space()


@cache
def temporary_folder() -> str:
    """Return the folder of SQLite's temporary files. Source: https://sqlite.org/tempfiles.html (section 5)."""
    settings = (os.environ.get(name, "") for name in ("SQLITE_TMPDIR", "TMPDIR"))
    folders = (*settings, "/var/tmp", "/usr/tmp", "/tmp")
    return next((name for name in folders if os.path.isdir(name) and os.access(name, os.W_OK | os.X_OK)), ".")


def written_by_thread() -> int:
    """Return the bytes that this thread has written to disks; 0 where they are not counted."""
    if sys.platform == "linux":
        return resource.getrusage(resource.RUSAGE_THREAD).ru_oublock * 512
    return 0


@cache
def counts_temporary_files() -> bool:
    """Return True if the system counts what a thread writes to temporary files. It does not if they are in memory."""
    before = written_by_thread()
    try:
        with tempfile.TemporaryFile(dir=temporary_folder(), buffering=0) as file:
            file.write(bytes(64 * 1024))
    except OSError:  # the disk is full, say
        return False
    return written_by_thread() > before


def file_size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def keep_temporary_files_bounded(raw: apsw.Connection) -> None:
    """Keep temporary files in memory, which is limited, if they cannot be counted."""
    if not counts_temporary_files():
        raw.pragma("temp_store", "MEMORY")


def bound_temporary_tables(raw: apsw.Connection) -> None:
    """Limit the size of the temporary tables of a connection, which outlive a statement."""
    raw.pragma("max_page_count", max(1, TEMPORARY_TABLES // raw.pragma("page_size", schema="temp")), schema="temp")
