"""Pools of clean SQLite connections, kept for the next stream."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable

import apsw

from pipemagic.service import memory
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.connection import Connection

log = logging.getLogger(__name__)

MOST_IDLE = 8
"""Clean connections that are kept for one database."""


class Closed(Refused):
    """The pool is closed."""

    def __init__(self) -> None:
        super().__init__(404, "the database was deleted, or the service is stopping")


class TooManyConnections(Refused):
    """No connection can be opened: most likely there are no more file handles."""

    def __init__(self) -> None:
        super().__init__(429, "Too many open connections; close the streams that are not needed")


class Pool:
    """Clean connections to one file, kept for the next stream."""

    def __init__(self, connect: Callable[[], Connection], clock: Callable[[], float]) -> None:
        self._connect, self._clock = connect, clock
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False

    def take(self) -> Connection:
        """Return a connection in the state of a new one; raise `Refused` if none can be opened."""
        with self._lock:
            if self._closed:
                raise Closed
            if self._idle:
                return self._idle.pop()
        try:
            connection = self._connect()
        except apsw.CantOpenError as error:
            log.warning("no connection can be opened: %s", error)
            raise TooManyConnections from None
        connection.release = self.release
        return connection

    def release(self, connection: Connection) -> None:
        """Keep a clean connection for the next stream; close any other."""
        if connection.call is not None and connection.call.left is not None:  # the thread of its statement has left
            connection.close()
            return
        try:
            if connection.raw.in_transaction:
                connection.rollback()
        except apsw.Error as error:
            log.warning("a connection could not be rolled back and is closed: %s", error)
            connection.close()
            return
        if not connection.sandbox.dirty:
            connection.reset()
            if not memory.allows_caches(idle=True):
                connection.free_caches()
            connection.idle_since = self._clock()
            with self._lock:
                if not self._closed and len(self._idle) < MOST_IDLE:
                    self._idle.append(connection)
                    return
        connection.close()

    def idle(self) -> list[float]:
        """Return the times since which the connections are idle."""
        return [connection.idle_since for connection in list(self._idle)]

    def trim(self, oldest: float) -> None:
        """Close connections that have been idle since before ``oldest``."""
        with self._lock:
            late = [connection for connection in self._idle if connection.idle_since < oldest]
            self._idle = [connection for connection in self._idle if connection.idle_since >= oldest]
        for connection in late:
            connection.close()

    def close(self) -> None:
        """Close the idle connections, and each other one when it is returned."""
        with self._lock:
            self._closed = True
        self.trim(math.inf)
