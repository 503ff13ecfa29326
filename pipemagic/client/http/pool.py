"""Connections that wait for the next request, shared by threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pipemagic.client.http.connection import Connection, Origin

KEEPALIVE = 60.0
"""Seconds an idle connection is kept: less than the 75 s of the servers, so that ours closes first."""

MOST_IDLE = 20
"""Idle connections that are kept; there is no limit for those in use."""


class Pool:
    """Keeps idle connections. The one that was used last is given first, so that the others grow old and go."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_closed = False
        self._clock = clock
        self._idle: list[Connection] = []  # the oldest first
        # Where the lock is held the collector may find an answer that nobody reads to its end: it comes here, too.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, origin: Origin) -> Connection | None:
        """Give a connection that is still good, None if there is none."""
        self._close_old()
        while (found := self._pop(origin)) is not None:
            if not found.is_stale():
                return found
            found.close()
        return None

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose answer came to its end."""
        connection.idle_since = self._clock()
        surplus = []
        with self._lock:
            self._idle.append(connection)
            while self._idle and (self.is_closed or len(self._idle) > MOST_IDLE):
                surplus.append(self._idle.pop(0))
        for one in surplus:
            one.close()

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it is given back."""
        with self._lock:
            idle, self._idle, self.is_closed = self._idle, [], True
        for one in idle:
            one.close()

    def _pop(self, origin: Origin) -> Connection | None:
        with self._lock:
            found = next((one for one in reversed(self._idle) if one.origin == origin), None)
            if found is not None:
                self._idle.remove(found)
        return found

    def _close_old(self) -> None:
        limit = self._clock() - KEEPALIVE
        old = []
        with self._lock:
            while self._idle and self._idle[0].idle_since < limit:
                old.append(self._idle.pop(0))
        for one in old:
            one.close()
