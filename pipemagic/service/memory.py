"""The memory of the service: half is SQLite's heap, half is for bodies, responses and stored texts (`MemoryBudget`).

SQLite has one heap for the whole process. Page caches, sorts and prepared statements make statements fast and are not
needed: they stop growing when half of the heap is in use, and idle connections keep none when a quarter is. The last
eighth is for the catalog, so that statements that use up all memory do not affect tokens, management and health checks.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import apsw

from pipemagic.service.executor import Tenant, Waiter

_lock = threading.Lock()
_total = _users = 0
"""The size of the heap in bytes (0: without a limit), and how many threads use the catalog."""


def limit_heap(size: int) -> None:
    """Limit SQLite's heap to ``size`` bytes."""
    global _total
    with _lock:
        _total = size
        _set_limit()
        apsw.soft_heap_limit(size // 2)


def _set_limit() -> None:
    apsw.hard_heap_limit(_total if _users else _total - _total // 8)


@contextmanager
def for_catalog() -> Iterator[None]:
    """Use the reserve in a block: a statement of the catalog, which takes a moment."""
    global _users
    if not _total:
        yield
        return
    with _lock:
        _users += 1
        if _users == 1:
            _set_limit()
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _set_limit()


def allows_caches(*, idle: bool = False) -> bool:
    """Return True while caches may grow, or while connections that are ``idle`` may keep theirs."""
    return not 0 < apsw.soft_heap_limit(-1) < apsw.memory_used() * (2 if idle else 1)


class MemoryBudget:
    """Memory for the bodies, responses and stored texts of all clients together: up to ``total`` bytes. Thread-safe.

    A database may have as much as it leaves free: a single one half of the total, each of two a third, each of sixteen
    a seventeenth. So there is memory for another one, however many there are.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.largest = total // 2
        """The most bytes that one database can have."""
        self.lock = threading.Lock()
        self._taken = 0
        self._by_database: Counter[Tenant] = Counter()

    @property
    def taken(self) -> int:
        """The bytes that are in use."""
        return self._taken

    def add(self, tenant: Tenant, size: int) -> bool:
        """Take ``size`` bytes, or return them if negative; return False, and take nothing, if they are too many.

        Call it under ``lock``.
        """
        overall, own = self._taken + size, self._by_database[tenant] + size
        if size > 0 and own > self.total - overall:
            return False
        self._taken, self._by_database[tenant] = overall, own
        if not own:
            del self._by_database[tenant]
        return True


class Reservation:
    """The bytes of a `MemoryBudget` that one request, or the stored texts of one stream, have: none at first.

    Thread-safe.
    """

    def __init__(self, budget: MemoryBudget, tenant: Tenant) -> None:
        self._budget, self.tenant = budget, tenant
        self.size = 0
        self._thread_left: Waiter | None = None

    def resize(self, size: int) -> bool:
        """Change the reservation to ``size`` bytes; return False, and change nothing, if they are too many."""
        if size != self.size:
            with self._budget.lock:
                if not self._budget.add(self.tenant, size - self.size):
                    return False
                self.size = size
        return True

    def release(self) -> None:
        """Return all bytes: now, or when the thread that still uses them has left."""
        if self._thread_left is None:
            self.resize(0)
        else:
            self._thread_left.add_done_callback(partial(self.resize, 0))

    def release_after(self, thread_left: Waiter) -> None:
        """Let `release` wait for the thread of an abandoned statement, which uses the bytes until it has left."""
        self._thread_left = thread_left
