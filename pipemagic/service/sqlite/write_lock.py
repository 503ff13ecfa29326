"""The write lock of a database: writers wait in order of arrival and hold no thread.

A `Waiter` is what a generator yields while it waits: the executor resumes the generator when the waiter is done.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class Waiter:
    """A wait that ends once: ``granted``, or expired at its ``deadline`` (seconds of the service's clock)."""

    def __init__(self, deadline: float, *, exclusive: bool = False) -> None:
        self.deadline = deadline
        self.exclusive = exclusive
        """Whether other requests wait for the lock that this one gets, so that its job goes ahead of the queue."""
        self.granted = False
        self._done = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @classmethod
    def finished(cls) -> Waiter:
        """Return a wait that is over: a generator that yields it goes to the end of the queue."""
        waiter = cls(0.0)
        waiter.finish()
        return waiter

    @classmethod
    def until_done(cls, other: Waiter, add_cancel_callback: Callable[[Callable[[], None]], None]) -> Waiter:
        """Return a wait that ends with another one, or when the client hangs up."""
        waiter = cls(other.deadline)
        other.add_done_callback(waiter.finish)
        add_cancel_callback(waiter.finish)
        return waiter

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the wait ends, in the thread that ends it; immediately if it has ended."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread; return True if the wait has ended."""
        return self._done.wait(timeout)

    def finish(self) -> None:
        """End the wait, granted or not."""
        with self._lock:
            if self._done.is_set():
                return
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class WriteLock:
    """The write lock of one database, first come, first served."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._holder: Waiter | None = None
        self._since = 0.0
        self._waiting: deque[Waiter] = deque()

    @property
    def waiting(self) -> int:
        """The number of waiters."""
        return len(self._waiting)

    def acquire(self, deadline: float) -> Waiter:
        """Take the lock or a place in the queue; ``granted`` of the waiter shows which."""
        waiter = Waiter(deadline, exclusive=True)
        with self._lock:
            if self._holder is None:
                self._grant(waiter)
            else:
                self._waiting.append(waiter)
        if waiter.granted:
            waiter.finish()
        return waiter

    def release(self, waiter: Waiter) -> None:
        """Release the lock, or leave the queue; the next waiter gets the lock. A second call does nothing."""
        successor: Waiter | None = None
        with self._lock:
            if self._holder is waiter:
                self._holder = None
                if self._waiting:
                    successor = self._waiting.popleft()
                    self._grant(successor)
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
        waiter.finish()
        if successor is not None:
            successor.finish()

    def _grant(self, waiter: Waiter) -> None:
        self._holder, self._since = waiter, self._clock()
        waiter.granted = True

    def expire(self, now: float) -> None:
        """End the waits whose deadline has passed; they are not granted."""
        if not self._waiting:
            return
        with self._lock:
            late = [waiter for waiter in self._waiting if waiter.deadline <= now]
            for waiter in late:
                self._waiting.remove(waiter)
        for waiter in late:
            waiter.finish()

    def next_deadline(self) -> float | None:
        """Return the earliest deadline of a waiter; None if there is none."""
        if not self._waiting:
            return None
        with self._lock:
            return min((waiter.deadline for waiter in self._waiting), default=None)

    def holder_age(self) -> float:
        """Return the seconds for which the lock has been held; 0 if it is free."""
        with self._lock:
            return self._clock() - self._since if self._holder else 0.0
