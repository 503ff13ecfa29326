"""The memory and the temporary files of a running statement, and what stops one that needs too much of either.

The memory that SQLite uses is counted for the whole process (its heap limit, see `apsw.hard_heap_limit`), with that of
the functions of the service that keep values (`hold`).

Temporary files hold what a sort, a DISTINCT or a materialized table needs beyond its memory. They have no limit of
their own, but the disk has a reserve: when less is free, the statement with the largest files is stopped. SQLite
unlinks these files as soon as it has created them, so no folder shows them; on Linux, the bytes that the thread of a
statement has written rank the statements. (They are more than the files contain: pages are written many times.) The
timer of the executor checks this, since gigabytes may be written between two calls of SQLite's progress handler.
For a statement that writes, the progress handler counts, too: only there it is known how much of the bytes SQLite's
page cache has written, which is the database itself. On other systems temporary files are kept in memory.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from functools import cache
from pathlib import Path

import apsw
import msgspec

from pipemagic.service.limits import MB, Limits

_THREAD_IO = "/proc/self/task/{thread}/io"
"""Source: https://man7.org/linux/man-pages/man5/proc_pid_io.5.html"""
_COUNTS_WRITES = sys.platform == "linux" and os.access("/proc/thread-self/io", os.R_OK)
FIRST_INTERVAL, SHORTEST_INTERVAL, LONGEST_INTERVAL = 100, 10, 10_000
"""Virtual machine instructions of SQLite between two checks: the longest takes some 0.1 ms.

Instructions on large values may take milliseconds each. More checks than are needed would cost other threads the
interpreter lock.
"""
_EVERY = 0.01
"""Seconds between two counts of what a statement that writes has written; one takes some 15 microseconds."""
_LARGE = 4 * MB
"""Bytes: a statement that has written fewer has not filled a disk."""
_QUICK, _SLOW = 0.0005, 0.004
"""Seconds of CPU time between two checks: the interval grows below the first and shrinks above the second."""


_held, _lock = 0, threading.Lock()
"""The bytes that functions of the service hold for aggregates, beside SQLite's memory."""


def memory_used() -> int:
    """Return the bytes that SQLite, and the functions of the service, use."""
    return apsw.memory_used() + _held


def hold(size: int) -> None:
    """Count bytes that a function has taken, or freed if negative; raise `apsw.NoMemError` if there are no more."""
    global _held
    with _lock:
        _held += size
    if size > 0 and 0 < apsw.hard_heap_limit(-1) < memory_used():
        raise apsw.NoMemError("out of memory")


class UsageExceeded(Exception):
    """A statement was stopped because it used too much memory or temporary space."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class StatementUsage(msgspec.Struct, eq=False):
    """The memory and disk space that one statement uses.

    ``memory_before``: `memory_used` at its start; ``exceeded``: the reason if it was stopped.
    """

    limits: Limits
    memory_before: int
    exceeded: UsageExceeded | None = None
    interval: int = FIRST_INTERVAL
    written: int = 0
    """The bytes that it has written, as far as counted, less those of the database."""
    _cpu_time: float = 0.0
    _counted: int = 0
    """What the thread had written, less what it wrote to the database, at the last count."""
    _thread: int = 0
    """The thread of the last count; 0: the next count is the first."""
    _due: float = 0.0

    def check_memory(self) -> bool:
        """Return True if the statement must be stopped; `exceeded` is then the reason.

        It may use half of the heap, and more while a quarter is left for others.
        """
        used, heap = memory_used(), apsw.hard_heap_limit(-1)
        if not 0 < heap * 3 < used * 4 or used - self.memory_before <= heap // 2:
            return False
        self.exceeded = UsageExceeded(
            f"out of memory: the statement used more than half of the {heap:,} bytes that all statements of "
            "this service have, and was stopped: use smaller values, or fewer at once",
            "SQLITE_NOMEM",
        )
        return True

    def is_due(self) -> bool:
        """Return True if a statement that writes is to be counted with `count`, which takes time."""
        now = time.monotonic()
        if now < self._due:
            return False
        first, self._due = not self._due, now + _EVERY
        return not first

    def count(self, thread: int, to_database: int = 0) -> None:
        """Count what the statement has written; it runs in a thread with this native id.

        ``to_database`` of the bytes that the thread wrote are no temporary files.
        """
        if (written := _written_by(thread)) is not None:
            written -= to_database
            if thread == self._thread:
                self.written += written - self._counted
            self._thread, self._counted = thread, written

    def needs_space(self) -> bool:
        """Return True if the statement has large temporary files, and their disk has less free than the reserve."""
        if self.written < _LARGE:
            return False
        disk = shutil.disk_usage(temporary_folder())
        return disk.free < min(self.limits.temporary_reserve, disk.total // 20)

    def exceed_disk(self) -> None:
        """Set `exceeded`: the disk is nearly full, and this statement has the largest temporary files."""
        self.exceeded = UsageExceeded(
            "the disk for temporary files is nearly full; the statement had the largest ones and was stopped: sort or "
            "group fewer rows or columns, or create an index that has the order",
            "SQLITE_FULL",
        )

    def restart_count(self) -> None:
        """Do not count what was written since the last count."""
        self._thread = 0

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


@cache
def temporary_folder() -> str:
    """Return the folder of SQLite's temporary files. Source: https://sqlite.org/tempfiles.html (section 5)."""
    named = (os.environ.get(name, "") for name in ("SQLITE_TMPDIR", "TMPDIR"))
    folders = (*named, "/var/tmp", "/usr/tmp", "/tmp")
    return next((name for name in folders if os.path.isdir(name) and os.access(name, os.W_OK | os.X_OK)), ".")


def _written_by(thread: int) -> int | None:
    """Return the bytes that a thread has written; None if it has ended or no file can be opened."""
    if not _COUNTS_WRITES:
        return None
    try:
        with open(_THREAD_IO.format(thread=thread), "rb", buffering=0) as file:
            return int(file.read().split(b"wchar: ", 1)[1].split(b"\n", 1)[0])
    except OSError:
        return None


def file_size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def keep_temporary_files_bounded(raw: apsw.Connection) -> None:
    """Keep temporary files in memory, which is limited, if they cannot be ranked."""
    if not _COUNTS_WRITES:
        raw.pragma("temp_store", "MEMORY")


def bound_temporary_tables(raw: apsw.Connection, limits: Limits) -> None:
    """Limit the size of the temporary tables of a connection, which outlive a statement."""
    raw.pragma("max_page_count", max(1, limits.temporary // raw.pragma("page_size", schema="temp")), schema="temp")
