"""Connections that wait for the next request, shared by threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pipemagic.http.connection import Connection, Origin

KEEPALIVE = 60.0
"""Seconds an idle connection is kept: less than the 75 s of the servers, so that ours closes first."""

MAX_IDLE = 20
"""Idle connections that are kept; there is no limit for those in use."""


class Pool:
    """Keep idle connections. The one that was used last is taken first, so that the others expire."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_closed = False
        self._clock = clock
        self._idle: list[Connection] = []  # the oldest first
        # While the lock is held the garbage collector may find a response that was not read to its end, whose
        # connection comes here: in the same thread.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, origin: Origin) -> Connection | None:
        """Return a connection that can still be used, None if there is none."""
        limit = self._clock() - KEEPALIVE
        unusable = []
        with self._lock:
            while self._idle and self._idle[0].idle_since < limit:
                unusable.append(self._idle.pop(0))
            while (found := next((one for one in reversed(self._idle) if one.origin == origin), None)) is not None:
                self._idle.remove(found)
                if not found.is_stale():
                    break
                unusable.append(found)
        for one in unusable:
            one.close()
        return found

    def put(self, connection: Connection) -> None:
        """Keep a connection whose response ended."""
        connection.idle_since = self._clock()
        surplus = []
        with self._lock:
            self._idle.append(connection)
            while self._idle and (self.is_closed or len(self._idle) > MAX_IDLE):
                surplus.append(self._idle.pop(0))
        for one in surplus:
            one.close()

    def close(self) -> None:
        """Close the idle connections; those in use are closed when they are put back."""
        with self._lock:
            idle, self._idle, self.is_closed = self._idle, [], True
        for one in idle:
            one.close()
