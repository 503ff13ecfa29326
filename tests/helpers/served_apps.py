"""Serve a service's application on a port of this process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from waiting import PATIENCE

from pipemagic.service.app import HostedService, create_app
from pipemagic.service.endpoint import Runtime
from pipemagic.service.executor import Executor
from pipemagic.service.metrics import Metrics
from pipemagic.service.server import Listener, Server


@dataclass
class ServedApp:
    """A running server. ``port`` is on 127.0.0.1."""

    port: int
    runtime: Runtime
    server: Server
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self, *, receive_buffer: int | None = None) -> socket.socket:
        """Open a bare connection."""
        connection = socket.socket()
        if receive_buffer is not None:  # before the connection: TCP announces a window then
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", self.port))
        return connection

    def stop(self) -> None:
        """Begin to stop, as the process does: cancel the requests under way. The server goes on."""
        self.loop.call_soon_threadsafe(self.runtime.stop)


@contextmanager
def serving(
    service: HostedService, runtime: Runtime | None = None, *, threads: int | None = None
) -> Iterator[ServedApp]:
    """Serve a service until the end of the block, by at most so many worker threads."""
    runtime = runtime or Runtime()
    if threads is not None:
        runtime.close()
        runtime.executor = Executor(threads)
    started, loops = threading.Event(), []

    def ready() -> None:
        loops.append(asyncio.get_running_loop())
        started.set()

    app = create_app(service, runtime, metrics=Metrics())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(app, [Listener(listener)], on_ready=ready, on_stopping=runtime.stop)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            assert started.wait(PATIENCE)
            yield ServedApp(listener.getsockname()[1], runtime, server, loops[0])
        finally:
            server.stop()
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the server does not stop"
            runtime.close()
