"""SQLite connections that nothing was changed on, kept for the next stream."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import apsw

from pipemagic.service.embedded.connections import Connection
from pipemagic.service.http import Refused
from pipemagic.service.limits import Limits

log = logging.getLogger(__name__)


class Closed(Refused):
    """The pool gives no connections any more."""

    def __init__(self) -> None:
        super().__init__(404, "the database was deleted, or the service is stopping")


class Pool:
    """Clean connections to one file, kept for the next stream."""

    def __init__(self, connect: Callable[[], Connection], limits: Limits, clock: Callable[[], float]) -> None:
        self._connect, self._limits, self._clock = connect, limits, clock
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False

    def __len__(self) -> int:
        """Count the connections that are kept."""
        return len(self._idle)

    def take(self) -> Connection:
        """Give a connection without any trace of an earlier stream; Refused if there can be none."""
        with self._lock:
            if self._closed:
                raise Closed
            if self._idle:
                return self._idle.pop()
        try:
            connection = self._connect()
        except apsw.CantOpenError as error:  # no more file handles, in all likelihood
            log.warning("no connection can be opened: %s", error)
            raise Refused(429, "Too many open connections; close the streams that are not needed") from None
        connection.home = self
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep a clean connection for the next stream, close any other."""
        try:
            connection.rollback()
        except apsw.Error as error:
            log.warning("a connection could not be rolled back and is closed: %s", error)
            connection.close()
            return
        if connection.reusable:
            connection.reset()
            connection.idle_since = self._clock()
            with self._lock:
                if not self._closed and len(self._idle) < self._limits.idle_connections:
                    self._idle.append(connection)
                    return
        connection.close()

    def idle(self) -> list[float]:
        """Say since when each of the connections that are kept is idle."""
        return [one.idle_since for one in list(self._idle)]

    def trim(self, oldest: float) -> None:
        """Close connections that are idle since before ``oldest``."""
        with self._lock:
            late = [one for one in self._idle if one.idle_since < oldest]
            self._idle = [one for one in self._idle if one.idle_since >= oldest]
        for connection in late:
            connection.close()

    def close(self) -> None:
        """Close the idle connections, and each other one when it is given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
