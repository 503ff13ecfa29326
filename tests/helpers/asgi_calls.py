"""Call a service in process: its ASGI application in an event loop of its own thread, without a port."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as StillRunning
from functools import cache
from typing import Any
from urllib.parse import urlencode

from pipemagic.service.app import create_app
from pipemagic.service.endpoint import Runtime
from pipemagic.service.metrics import Metrics
from pipemagic.service.service import Service


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="asgi-calls", daemon=True).start()
    return loop


@cache
def runtime() -> Runtime:
    """The worker threads of all services of a test process."""
    return Runtime()


_running: set[Future[None]] = set()


class Disconnect:
    """The client's side of a connection, which the client may close."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Disconnect."""
        _loop().call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        await self._event.wait()


class Body(Iterator[bytes]):
    """The pieces of a body. The service waits after each one for the next request, as without buffers."""

    _call: Future[None]

    def __init__(self, connection: Disconnect) -> None:
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._wanted = asyncio.Semaphore(0)
        self._begun = False
        self._connection = connection

    def __next__(self) -> bytes:
        piece = asyncio.run_coroutine_threadsafe(self.get(), _loop()).result()
        if piece is None:
            self._call.result()
            raise StopIteration
        return piece

    def close(self) -> None:
        """Disconnect, and wait until the service has noticed it."""
        self._connection.set()
        wait([self._call])

    async def get(self) -> bytes | None:
        """Let the service continue, and return what it sends."""
        if self._begun:
            self._wanted.release()
        self._begun = True
        return await self._pieces.get()

    async def put(self, piece: bytes | None, *, more: bool) -> None:
        """Pass on a piece; if there are ``more``, wait until the next one is requested or the client disconnects."""
        self._pieces.put_nowait(piece)
        if more:
            waits = [asyncio.ensure_future(self._wanted.acquire()), asyncio.ensure_future(self._connection.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in waits:
                task.cancel()


class Reply:
    """A response: its status and headers, and its body as far as it was read."""

    def __init__(self, status: int, headers: Mapping[str, str], chunks: Body) -> None:
        self.status, self.headers, self.chunks = status, headers, chunks
        self.content_type = headers.get("content-type", "")
        self._body: bytes | None = None

    def read(self) -> bytes:
        """The whole body."""
        if self._body is None:
            self._body = b"".join(self.chunks)
        return self._body


def call(
    service: Service, method: str, path: str, *, headers: Mapping[str, str] | None = None,
    body: bytes | Sequence[bytes] = b"",
    query: Mapping[str, str] | None = None, connection: Disconnect | None = None, scheme: str = "http",
    client: str = "127.0.0.1", run_in: Runtime | None = None, **options: Any,
) -> Reply:  # fmt: skip
    """Send a request. The sweeper runs while the request waits, so that it waits for a write lock as in a process."""
    app = service.__dict__.get("_tested_app")
    if app is None or options or run_in is not None:
        app = create_app(service, run_in or runtime(), metrics=Metrics(), **options)
        if not options and run_in is None:
            service.__dict__["_tested_app"] = app
    connection = connection or Disconnect()
    started: Future[Reply] = Future()
    chunks = Body(connection)
    parts = [body] if isinstance(body, bytes) else body
    unread = deque({"type": "http.request", "body": part, "more_body": True} for part in parts)
    unread[-1]["more_body"] = False

    async def receive() -> dict[str, Any]:
        if unread:
            return unread.popleft()
        await connection.wait()
        return {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            names = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
            started.set_result(Reply(message["status"], names, chunks))
        elif message.get("body"):
            await chunks.put(bytes(message["body"]), more=message.get("more_body", False))

    scope = {
        "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(),
        "query_string": urlencode(query or {}).encode(), "root_path": "", "scheme": scheme,
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
        "client": (client, 1), "server": ("127.0.0.1", 8080), "state": {}, "extensions": {},
    }  # fmt: skip

    async def run() -> None:
        try:
            await app(scope, receive, send)
            if not started.done():
                raise ConnectionAbortedError("there was no response")
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise
        finally:
            await chunks.put(None, more=False)

    running = chunks._call = asyncio.run_coroutine_threadsafe(run(), _loop())
    _running.add(running)  # the loop itself does not keep it
    running.add_done_callback(_running.discard)
    while True:
        try:
            reply = started.result(timeout=0.05)
        except StillRunning:
            if started.done():  # since then, or with this error
                return started.result()
            service.engine.sweep()
        else:
            return reply
