"""The write lock of a database: writers wait in order of arrival and hold no thread."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable

from pipemagic.service.executor import Waiter


class WriteLock:
    """The write lock of one database, first come, first served."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._holder: Waiter | None = None
        self.held_since = 0.0
        """When its holder got it."""
        self._kept: Waiter | None = None
        """The holder whose statement was given up: it releases the lock when that has ended."""
        self._waiting: deque[Waiter] = deque()

    def waiters(self) -> list[Waiter]:
        """Return the waits that were not granted yet; one that expired leaves the queue with `release`."""
        with self._lock:
            return list(self._waiting)

    @property
    def is_wanted(self) -> bool:
        """Whether a writer waits for it."""
        return bool(self._waiting)

    def try_acquire(self) -> Waiter | None:
        """Take the lock if it is free; otherwise return None, and do not wait."""
        waiter = Waiter(math.inf, exclusive=True)
        with self._lock:
            if self._holder is not None or self._waiting:
                return None
            self._waiting.append(waiter)
            self._grant_next()
        waiter.finish()
        return waiter

    def acquire(self, deadline: float) -> Waiter:
        """Take the lock or a place in the queue; ``granted`` of the waiter shows which."""
        waiter = Waiter(deadline, exclusive=True)
        with self._lock:
            self._waiting.append(waiter)
            self._grant_next()
        if waiter.granted:
            waiter.finish()
        return waiter

    def release(self, waiter: Waiter) -> None:
        """Release the lock, or leave the queue; the next waiter gets the lock. A second call does nothing."""
        with self._lock:
            if self._holder is waiter:
                self._holder = None
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            successor = self._grant_next()
        waiter.finish()
        if successor is not None:
            successor.finish()

    def _grant_next(self) -> Waiter | None:
        """Grant the lock to the next waiter, if it is free and there is one. Call it under ``_lock``."""
        if self._holder is not None or not self._waiting:
            return None
        self._holder, self.held_since = self._waiting.popleft(), self._clock()
        self._holder.granted = True
        return self._holder

    def keep_held(self, waiter: Waiter) -> None:
        """Record that the statement of this holder was given up and has not ended."""
        self._kept = waiter

    @property
    def is_kept(self) -> bool:
        """Whether its holder's statement was given up and has not ended."""
        return self._kept is not None and self._kept is self._holder

    def holder_age(self) -> float:
        """Return the seconds for which the lock has been held; 0 if it is free."""
        with self._lock:
            return self._clock() - self.held_since if self._holder else 0.0
