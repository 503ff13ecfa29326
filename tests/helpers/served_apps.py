"""Serve a service's application on a port of this process."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue

from waiting import PATIENCE

from pipemagic.service.app import create_app
from pipemagic.service.endpoint import Runtime
from pipemagic.service.executor import Executor
from pipemagic.service.http_server import HttpServer
from pipemagic.service.listeners import Listener, listen
from pipemagic.service.metrics import Metrics
from pipemagic.service.service import Service


@dataclass
class ServedApp:
    """A running server. ``port`` is on 127.0.0.1."""

    port: int
    runtime: Runtime
    server: HttpServer
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
        """Begin to stop, as the process does: cancel the running requests. The server continues."""
        self.loop.call_soon_threadsafe(self.runtime.stop)


@contextmanager
def serving(
    service: Service, runtime: Runtime | None = None, *, of_database: int | None = None, proxies: Sequence[str] = (),
    tls: ssl.SSLContext | None = None,
) -> Iterator[ServedApp]:  # fmt: skip
    """Serve a service until the end of the block, with a maximum number of long-running jobs of one database."""
    runtime = runtime or Runtime()
    if of_database is not None:
        runtime.executor.close()
        runtime.executor = Executor(of_database=of_database)
    app = create_app(service, runtime, metrics=Metrics())
    with listen("127.0.0.1", 0) as listener:
        server = HttpServer(app, [Listener(listener, tls)], proxies=proxies)
        started: SimpleQueue[asyncio.AbstractEventLoop] = SimpleQueue()
        serve = server.serve(on_start=lambda: started.put(asyncio.get_running_loop()), on_stop=runtime.stop)
        thread = threading.Thread(target=asyncio.run, args=[serve])
        thread.start()
        try:
            yield ServedApp(listener.getsockname()[1], runtime, server, started.get(timeout=PATIENCE))
        finally:
            server.stop()
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the server does not stop"
            runtime.executor.close()
