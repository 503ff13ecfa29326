"""SQLite's memory, one heap for the whole process: what statements, caches and the catalog may have of it.

Page caches, sorts and prepared statements make statements fast and are not needed: they stop growing when half of the
heap is in use, and idle connections keep none when a quarter is. The last eighth is for the catalog, so that
statements that use up all memory do not affect tokens, management and health checks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

_lock = threading.Lock()
_total = _users = 0
"""The size of the heap in bytes (0: without a limit), and how many threads use the catalog."""


def limit(size: int) -> None:
    """Limit the heap to ``size`` bytes."""
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


def allows_caches() -> bool:
    """Return True while caches may grow."""
    return not 0 < apsw.soft_heap_limit(-1) < apsw.memory_used()


def allows_idle_caches() -> bool:
    """Return True while idle connections may keep their caches."""
    return not 0 < apsw.soft_heap_limit(-1) < 2 * apsw.memory_used()
