"""Connections, which are sockets with or without TLS, and the pool of idle ones."""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import httpx

from pipemagic.http.tls import tls_context

RECEIVE_SIZE = 256 * 1024
"""Bytes of the receive buffer, which fit the cache of the processor."""

FIRST_RECEIVE_SIZE = 16 * 1024
"""Bytes of the buffer until a response fills it: most connections are kept and get only small responses."""

TLS_RECORD = 2**14
"""The most bytes of a record of TLS. A part of a record cannot be read by the server."""

KEEP_ALIVE = {
    "TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 6, "TCP_USER_TIMEOUT": 60_000,
}  # fmt: skip
"""TCP options, on platforms that have them, to notice a vanished peer within a minute."""

IDLE_LIMIT = 60.0
"""Seconds an idle connection is kept: less than the 75 s of the servers, so that ours closes first."""

MAX_IDLE = 20
"""Idle connections that are kept; there is no limit for those in use."""


Challenge = Callable[[], tuple[str, bytes]]
"""Returns the path of a request, and the body that only the right server responds with. May raise OSError."""


class Origin(NamedTuple):
    """The peer of a connection; ``server_name`` is the name that its certificate must have, None without TLS."""

    host: str
    port: int
    server_name: str | None


class ClosedUnsent(httpx.ConnectError):
    """A kept connection was closed by the server, and the system accepted no byte of the request."""


class Connection:
    """An open socket. After an error of `send` or `receive` it must be closed.

    ``has_sent`` is True once the system accepted a byte of the request, with TLS a record.
    """

    def __init__(self, sock: socket.socket, origin: Origin) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self.has_sent = False
        self._socket = sock
        self._at_once = None if origin.server_name is None else TLS_RECORD  # of several, some may have been sent
        self._process = os.getpid()
        self._buffer = memoryview(bytearray(FIRST_RECEIVE_SIZE))

    def send(self, data: bytes, timeout: float | None) -> bool:
        """Send all data; return False if the server closed its end, possibly after a response.

        ``timeout`` is for each part. `socket.sendall` would limit the total time.
        """
        unsent = memoryview(data)
        try:
            self._socket.settimeout(timeout)
            while unsent:
                unsent = unsent[self._socket.send(unsent[: self._at_once]) :]
                self.has_sent = True
        except TimeoutError:
            raise httpx.WriteTimeout("the server does not accept more data") from None
        except OSError:
            return False
        return True

    def receive(self, timeout: float | None) -> memoryview:
        """Return received data, at least one byte, or empty at the end; the next call overwrites the buffer."""
        if self._socket.gettimeout() != timeout:
            self._socket.settimeout(timeout)
        try:
            data = self._buffer[: self._socket.recv_into(self._buffer)]
        except TimeoutError:
            raise httpx.ReadTimeout("the server does not respond") from None
        except OSError as error:
            raise httpx.ReadError(str(error)) from None
        if len(data) == len(self._buffer) == FIRST_RECEIVE_SIZE:
            self._buffer = memoryview(bytearray(RECEIVE_SIZE))
        return data

    def is_stale(self) -> bool:
        """Return True if data arrived without a request: usually the end, since the server closed the connection.

        In a forked process the connections of the parent are stale, too: both would read the same responses.
        """
        if self._process != os.getpid():
            return True
        if sys.platform == "win32":  # without poll; select has no limit on the number of a socket
            return bool(select.select([self._socket], [], [], 0)[0])
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def abort(self) -> None:
        """Shut down both directions, which wakes the waiting thread. That thread closes the socket."""
        with suppress(OSError):  # it is no longer connected
            # Not the method of SSLSocket: it ends TLS first, and the other thread would send plain text.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


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
        limit = self._clock() - IDLE_LIMIT
        unusable = []
        with self._lock:
            while self._idle and self._idle[0].idle_since < limit:
                unusable.append(self._idle.pop(0))
            while (
                match := next((connection for connection in reversed(self._idle) if connection.origin == origin), None)
            ) is not None:
                self._idle.remove(match)
                if not match.is_stale():
                    break
                unusable.append(match)
        for connection in unusable:
            connection.close()
        return match

    def put(self, connection: Connection) -> None:
        """Keep a connection whose response ended."""
        connection.idle_since = self._clock()
        surplus = []
        with self._lock:
            self._idle.append(connection)
            while self._idle and (self.is_closed or len(self._idle) > MAX_IDLE):
                surplus.append(self._idle.pop(0))
        for other in surplus:
            other.close()

    def close(self) -> None:
        """Close the idle connections; those in use are closed when they are put back."""
        with self._lock:
            idle, self._idle, self.is_closed = self._idle, [], True
        for connection in idle:
            connection.close()


def connect(origin: Origin, timeout: float | None) -> Connection:
    """Open a connection; ``timeout`` is the seconds for each address of the host, and for the TLS handshake."""
    context = tls_context() if origin.server_name is not None else None
    try:
        sock = socket.create_connection((origin.host, origin.port), timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for option in keep_alive_options():
                with suppress(OSError):  # an option unknown to this system
                    sock.setsockopt(*option)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname=origin.server_name)
        except BaseException:
            sock.close()
            raise
    except UnicodeError as error:
        raise httpx.InvalidURL(f"invalid host name: {error}") from None
    except TimeoutError as error:
        raise httpx.ConnectTimeout(str(error)) from error
    except OSError as error:
        raise httpx.ConnectError(str(error)) from error
    return Connection(sock, origin)


def keep_alive_options() -> list[tuple[int, int, int]]:
    """Return the keep-alive options for `socket.setsockopt`."""
    pairs = ((getattr(socket, name, None), value) for name, value in KEEP_ALIVE.items())
    options = [(socket.IPPROTO_TCP, option, value) for option, value in pairs if option is not None]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *options]
