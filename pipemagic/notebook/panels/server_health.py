"""Health of the servers of a session's connections, and the timer of the panels that show it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from pipemagic.errors import AnswerTimeout, ConnectError, PipemagicError
from pipemagic.hrana.stream import Tx

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.client.transport import Transport
    from pipemagic.session import Connection, Session

OPEN = 1.0
"""Seconds after which a server is queried again while a transaction is open: it may have stopped."""

INTERVAL = 0.3
"""Seconds between updates of the panels, which send no requests."""

TIMEOUT = 3.0
"""Timeout of each request in seconds."""

RETRY = 5.0
"""Seconds after which a server is queried again if it did not respond or a cell is waiting for it."""


@dataclass(frozen=True)
class ServerHealth:
    """The report of a server, or in ``error`` why there is none. ``at`` is a time of `time.monotonic`."""

    version: str = ""
    health: str = ""
    seconds: float | None = None
    error: str = ""
    reading: bool = False
    at: float = field(default_factory=time.monotonic, compare=False)

    def __str__(self) -> str:
        trip = "" if self.seconds is None else f"round trip {self.seconds * 1000:.1f} ms"
        reading = "reading ..." if self.reading else ""
        return ", ".join(filter(None, [self.error or self.version, self.health, trip, reading]))


class SessionHealth:
    """The health of a session's servers, for all panels that show it.

    While a panel follows it, one thread updates the panels at regular intervals. It reads the health of a server once,
    beside the stream of the cells, and again while a transaction is open, the server does not respond, or a cell has
    waited for long.
    """

    def __init__(self, session: Session) -> None:
        self._session = ref(session)
        self._known: WeakKeyDictionary[Connection, ServerHealth] = WeakKeyDictionary()
        self._running: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
        self._transports: set[Transport] = set()
        self._listeners: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, listener: Callable[[], None]) -> None:
        """Call a function at regular intervals."""
        with self._lock:
            if listener not in self._listeners:
                self._listeners.append(listener)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pipemagic: session panels", daemon=True)
                self._thread.start()

    def unfollow(self, listener: Callable[[], None]) -> None:
        """Remove a listener; without listeners the thread ends."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)
            if self._listeners:
                return
            self._thread, transports = None, list(self._transports)
        self._wake.set()
        for transport in transports:
            transport.abort()

    def of(self, connection: Connection) -> ServerHealth:
        """Return the last known health of a connection's server."""
        return self._known.get(connection) or ServerHealth()

    def running_since(self, connection: Connection) -> float | None:
        """Return since when a cell is known to run on a connection, in Unix seconds; None if none runs."""
        with connection.between_cells() as free:
            if free:
                self._running.pop(connection, None)
                return None
        return self._running.setdefault(connection, time.time())

    def read(self) -> None:
        """Read the health of all servers in the background, also at the new address of one that has moved."""
        for connection in self._connections():
            self._read(connection, find=True)

    def _run(self) -> None:
        while self._thread is threading.current_thread() and self._session() is not None:
            for connection in self._connections():
                self._read_if_due(connection)
            for listener in list(self._listeners):
                listener()
            self._wake.wait(INTERVAL)
            self._wake.clear()

    def _connections(self) -> list[Connection]:
        session = self._session()
        return [] if session is None else list(session.connections.values())

    def _read_if_due(self, connection: Connection) -> None:
        status, since = self._known.get(connection), self.running_since(connection)
        waits = since is not None and time.time() - since > RETRY
        is_open = since is None and connection.transaction is Tx.OPEN
        due = OPEN if is_open else RETRY if waits or (status and status.error) else None
        if status is None or (due is not None and time.monotonic() - status.at > due):
            self._read(connection, find=False)

    def _read(self, connection: Connection, *, find: bool) -> None:
        with self._lock:
            status = self.of(connection)
            if status.reading or not self._listeners:
                return
            self._known[connection] = replace(status, reading=True)

        def work() -> None:
            health = ServerHealth(error="BUG: see the kernel's log")
            try:
                health = self._health_of(connection, find=find)
            finally:
                with self._lock:
                    if self._listeners:
                        self._known[connection] = health
                    else:  # aborted: read again when a panel is displayed
                        self._known.pop(connection, None)
                self._wake.set()

        threading.Thread(target=work, name="pipemagic: health of a server", daemon=True).start()

    def _health_of(self, connection: Connection, *, find: bool) -> ServerHealth:
        try:
            return self._read_health(connection.database, find=find)
        except AnswerTimeout:
            return ServerHealth(error=f"no response within {TIMEOUT:.0f} s")
        except PipemagicError as error:
            return ServerHealth(error=error.message.partition("\n")[0])

    def _read_health(self, database: Database, *, find: bool) -> ServerHealth:
        with database.sibling(timeout=TIMEOUT, finds_again=find) as beside:
            self._transports.add(beside.transport)
            try:
                version = _version(beside)
                started = time.perf_counter()
                health = "healthy" if beside.health() else "reports that it is not healthy"
                return ServerHealth(version, health, time.perf_counter() - started)
            finally:
                self._transports.discard(beside.transport)


def _version(database: Database) -> str:
    try:
        return database.version()
    except (ConnectError, AnswerTimeout):
        raise
    except PipemagicError:
        return "unknown version"


_health: WeakKeyDictionary[Session, SessionHealth] = WeakKeyDictionary()


def health_of(session: Session) -> SessionHealth:
    """Return the health of a session's servers: the same for all of its panels."""
    if session not in _health:
        _health[session] = SessionHealth(session)
    return _health[session]
