"""The HTTP server: uvicorn with several listeners, some of them with TLS, and limits on connections and logs."""

from __future__ import annotations

import logging
import socket
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import uvicorn

from pipemagic.errors import ServiceError
from pipemagic.service.files import write_private
from pipemagic.service.hosting import LOOPBACK
from pipemagic.service.http_protocol import HttpProtocol

KEEP_ALIVE = 75  # seconds; clients drop idle connections before that, so they never use one that is being closed
GRACE = 1  # seconds in which running requests may end when the server stops
CONNECTIONS_SHARE = 4
"""The limit of connections is the number of file handles divided by this: a stream of a client needs three more."""
LOG_INTERVAL = 5.0
"""Seconds between two log lines about the same kind of event that clients can cause."""


class Listener(NamedTuple):
    """A bound socket; ``tls`` is None for plain HTTP."""

    socket: socket.socket
    tls: ssl.SSLContext | None = None


class Server(uvicorn.Server):
    """Serves an ASGI application. A signal ends it like `stop`, with exit code 0.

    ``connections``: how many may be open; further ones get 503. None derives it from the file handles.
    """

    def __init__(
        self, app: Any, listeners: Sequence[Listener], *,
        on_ready: Callable[[], None], on_stopping: Callable[[], None], connections: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(uvicorn.Config(
            app, http=HttpProtocol, ws="none", lifespan="off", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, interface="asgi3",
            limit_concurrency=default_connection_limit() if connections is None else connections,
            timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=GRACE,
        ))  # fmt: skip
        self._listeners = listeners
        self._on_ready = on_ready
        self._on_stopping = on_stopping

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self.server_state.connections)

    def stop(self) -> None:
        """Begin to stop."""
        self.should_exit = True

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `stop` or a signal."""
        logs, log_limit = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")], LogLimit()
        for log in logs:
            log.addFilter(log_limit)
        try:
            await super().serve(sockets)
        finally:
            for log in logs:
                log.removeFilter(log_limit)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        """Listen on all sockets; uvicorn itself has one TLS context for all of them."""
        servers = []
        for listener in self._listeners:
            self.config.ssl = listener.tls
            await super().startup([listener.socket])
            servers += self.servers
        self.servers = servers
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        """Stop listening and end running requests."""
        self._on_stopping()
        await super().shutdown([listener.socket for listener in self._listeners])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Stop on a signal, without raising it again afterwards."""
        self.stop()


def default_connection_limit() -> int | None:
    """Return how many connections the file handles of this process allow beside databases; None for any number."""
    if sys.platform == "win32":
        return None
    import resource

    handles, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if handles == resource.RLIM_INFINITY else handles // CONNECTIONS_SHARE


class LogLimit(logging.Filter):
    """Limits the rate of what clients can cause: each warning of uvicorn, and the errors of asyncio.

    A request that is not HTTP is such a warning. asyncio of Python 3.11 reports a failing accept 2,048 times a second
    when there are no file handles left.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._next: dict[str, float] = {}
        self._suppressed: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record is to be logged; its message states how many were not."""
        if record.levelno == logging.WARNING:
            kind = str(record.msg)
        elif record.name == "asyncio":  # whose messages name sockets and tasks
            kind = record.name
        else:
            return True
        now = self._clock()
        if now < self._next.get(kind, now):
            self._suppressed[kind] += 1
            return False
        self._next[kind] = now + LOG_INTERVAL
        if suppressed := self._suppressed.pop(kind, 0):
            record.msg = f"{record.msg} ({suppressed} more of these were not logged)"
        return True


@contextmanager
def listen(host: str, port: int) -> Iterator[socket.socket]:
    """Bind a socket to an address and port of this machine; raise `ServiceError` if that is not possible."""
    try:
        listener = _bound(host, port)
    except OSError as error:
        raise _failure(f"{host}, port {port}", error) from error
    with listener:
        yield listener


@contextmanager
def listen_locally(port_file: Path, port: int | None) -> Iterator[socket.socket]:
    """Bind a socket to loopback and write the port to a file, so that addresses survive a restart.

    ``port``: None takes the one of the last start if it is free, else any; 0 takes any.
    """
    wanted = [port] if port is not None else [*last_port(port_file), 0]
    for candidate in wanted:
        try:
            listener = _bound(LOOPBACK, candidate)
            break
        except OSError as error:
            failure = error
    else:
        raise _failure(f"port {port}", failure) from failure
    with listener:
        write_private(port_file, str(listener.getsockname()[1]).encode())
        yield listener


def last_port(port_file: Path) -> list[int]:
    """Return the port of the last start; an empty list if there is none."""
    try:
        port = int(port_file.read_text())
    except (OSError, ValueError):
        return []
    return [port] if 0 < port < 65536 else []


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol left to the system, asyncio would not switch Nagle's delay (40 ms for each response) off.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":  # there SO_REUSEADDR would let others take the port over
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # all addresses, those of IPv4 too
        listener.bind((host, port))
    except BaseException:
        listener.close()
        raise
    return listener


def _failure(where: str, error: OSError) -> ServiceError:
    if isinstance(error, PermissionError):
        hint = "ports below 1024 need a right of their own: pipemagic serve --print-systemd shows how to give it"
        return ServiceError(f"cannot listen on {where}: {error.strerror}", hint=hint, code="PORT_NOT_ALLOWED")
    return ServiceError(
        f"cannot listen on {where}: {error.strerror}",
        hint="choose another one with --port, or --port 0 for any that is free", code="PORT_IN_USE",
    )  # fmt: skip
