"""uvicorn, with several listeners of which some speak TLS, and calls when it listens and when it begins to stop."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

import uvicorn

from pipemagic.service.web.wire import Connection

KEEP_ALIVE = 75  # seconds; clients drop idle connections before that, so they never meet a closing one
GRACE = 1  # seconds that running answers get at the end


class Listener(NamedTuple):
    """A bound socket; ``tls`` is None for plain HTTP."""

    socket: socket.socket
    tls: ssl.SSLContext | None = None


class Server(uvicorn.Server):
    """Serves an ASGI application. A signal ends it, as `stop` does, and the exit code stays 0."""

    def __init__(
        self, app: Any, listeners: Sequence[Listener], *,
        on_ready: Callable[[], None], on_stopping: Callable[[], None], connections: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(uvicorn.Config(
            app, http=Connection, ws="none", lifespan="off", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, interface="asgi3",
            # uvicorn refuses when so many are open, this one included.
            limit_concurrency=None if connections is None else connections + 1,
            timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=GRACE,
        ))  # fmt: skip
        self._listeners = listeners
        self._on_ready = on_ready
        self._on_stopping = on_stopping

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self.server_state.connections)

    def stop(self) -> None:
        """Begin to end."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        """Listen on all sockets; uvicorn itself knows one TLS context for all of them."""
        servers = []
        for listener in self._listeners:
            self.config.ssl = listener.tls
            await super().startup([listener.socket])
            servers += self.servers
        self.servers = servers
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        """Stop listening and end what runs."""
        self._on_stopping()
        await super().shutdown([listener.socket for listener in self._listeners])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Take a signal as the usual way to end."""
        self.stop()
