"""The ASGI shell: reads a request, lets the service work on it in a thread, sends the answer.

It knows nothing of SQL. It adds what only a network needs: a limit and a time limit for bodies, an eye on
clients that hang up, and requests that wait for the writer's turn without holding a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl

from pipemagic.service.http import Cancel, Refused, Request, Response
from pipemagic.service.turns import Turn
from pipemagic.service.workers import Job, Workers

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Steps = Generator[Turn, None, Response]

_LOG = logging.getLogger(__name__)

BODY_LIMIT = 128 * 1024 * 1024
BODY_TIMEOUT = 30.0
THREADS = 32

_WATCH_AFTER = 0.01  # most calls are over by then and need no task that watches their client
_ONE_PIECE = 64 * 1024
_SPOOLED_AT_ONCE = 1024 * 1024  # bytes that are written to a file together
_CLOSE = ("connection", "close")


class Spool(Protocol):
    """Where the body of a request goes that is too large for memory; its methods block."""

    path: Path

    def write(self, data: bytes) -> None:
        """Append; Refused if there is too much, or no room."""

    def finish(self) -> None:
        """Have everything in the file."""

    def discard(self) -> None:
        """Remove the file, if it is still there."""


Intake = Callable[[Request], Spool | None]


class Core(Protocol):
    """What the shell needs of the service."""

    def steps(self, request: Request, cancel: Cancel) -> Steps:
        """Answer a request; yields a Turn while it waits for the writer's turn."""


class HungUp(Exception):
    """The client is gone; there is nobody to answer."""


class Shell:
    """An ASGI application around a service. ``body_timeout`` is in seconds, ``body_limit`` in bytes.

    ``intake`` is asked about requests to the ``file_paths`` before their bodies are read: it may refuse them, or give
    a `Spool` for a body that is not to be in memory.
    """

    def __init__(
        self, service: Core, *,
        threads: int = THREADS, body_limit: int = BODY_LIMIT, body_timeout: float = BODY_TIMEOUT,
        file_paths: frozenset[str] = frozenset(), intake: Intake = lambda _: None,
    ) -> None:  # fmt: skip
        self._service = service
        self._workers = Workers(threads, "pipemagic")
        self._body_limit = body_limit
        self._body_timeout = body_timeout
        self._file_paths = file_paths
        self._intake = intake
        self._reading: set[asyncio.Timeout] = set()
        self._exchanges: set[_Exchange] = set()
        self._stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        async with AsyncExitStack() as stack:
            try:
                request = await self._request(scope, receive, stack)
            except HungUp:
                return
            except Refused as refused:
                await send_response(send, refused.response(), _CLOSE)
                return
            await self._serve(scope, request, receive, send)

    async def _serve(self, scope: Scope, request: Request, receive: Receive, send: Send) -> None:
        exchange = _Exchange(self._workers, receive)
        self._exchanges.add(exchange)
        try:
            if self._stopping:
                exchange.hang_up()
            response = await exchange.answer(self._service.steps(request, exchange.cancel))
            if response.delay:
                await exchange.pause(response.delay)
            await send_response(send, response, pull=exchange.pull)
        except HungUp:
            _LOG.debug("%s %s: the client hung up", scope["method"], scope["path"])
        finally:
            exchange.end()
            self._exchanges.discard(exchange)

    def stop(self) -> None:
        """End the calls that are running, as if their clients had hung up; called in the event loop."""
        self._stopping = True
        for limit in self._reading:
            limit.reschedule(0.0)
        for exchange in list(self._exchanges):
            exchange.hang_up()

    def close(self) -> None:
        """Wait for the threads to end."""
        self._workers.close()

    async def _request(self, scope: Scope, receive: Receive, stack: AsyncExitStack) -> Request:
        """Read the request; ``stack`` removes the file of one whose body is in a file."""
        if scope["path"] not in self._file_paths:
            return read_request(scope, await self._body(scope, receive))
        head = read_request(scope)
        try:
            spool = await self._workers.run(self._intake, head)
            if spool is None:
                return replace(head, body=await self._body(scope, receive))
            stack.push_async_callback(self._workers.run, spool.discard)
            await self._fill(spool, receive)
        except Refused:
            if "expect" not in head.headers:
                await self._drain(receive)
            raise
        return replace(head, file=spool.path)

    async def _fill(self, spool: Spool, receive: Receive) -> None:
        """Write the body to its file; the time limit is for each part of it."""
        pending, size, more = [], 0, True
        while more:
            async with self._time_limit():
                message = await receive()
            if message["type"] == "http.disconnect":
                raise HungUp
            chunk, more = message.get("body", b""), message.get("more_body", False)
            pending.append(chunk)
            size += len(chunk)
            if size >= _SPOOLED_AT_ONCE or not more:
                await self._workers.run(spool.write, b"".join(pending))
                pending, size = [], 0
        await self._workers.run(spool.finish)

    async def _drain(self, receive: Receive) -> None:
        """Read what is still sent, for a while: else the client would see a broken pipe and no answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._body_timeout):
                while (message := await receive())["type"] != "http.disconnect" and message.get("more_body", False):
                    pass

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"0")
        if b"expect" in headers and declared.isdigit() and int(declared) > self._body_limit:
            raise self._too_large()  # the client waits to hear this before it sends anything
        async with self._time_limit():
            return await self._read(receive)

    @asynccontextmanager
    async def _time_limit(self) -> AsyncIterator[None]:
        """Refuse (408) a client that takes too long to send, (503) every one when the service stops."""
        try:
            async with asyncio.timeout(self._body_timeout) as limit:
                self._reading.add(limit)
                try:
                    yield
                finally:
                    self._reading.discard(limit)
        except TimeoutError:
            if self._stopping:
                raise Refused(503, "the service is stopping") from None
            line = f"the request body did not arrive within {self._body_timeout:g} s"
            raise Refused(408, line, "REQUEST_TIMEOUT") from None

    async def _read(self, receive: Receive) -> bytes:
        chunks: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise HungUp
            chunk, more = message.get("body", b""), message.get("more_body", False)
            size += len(chunk)
            if size > self._body_limit:
                chunks.clear()  # the rest is read, else the client would see a broken pipe and no answer
            else:
                chunks.append(chunk)
        if size > self._body_limit:
            raise self._too_large()
        return b"".join(chunks)

    def _too_large(self) -> Refused:
        return Refused(413, f"the request body is larger than {self._body_limit:,} bytes")


class Parked:
    """A call that waits without a thread; it goes on once, whoever says so first, from any thread."""

    def __init__(self, workers: Workers, call: Callable[..., Turn | Response], *arguments: Any) -> None:
        self.job = Job(call, arguments)
        self._workers = workers
        self._waiting = [self.job]

    def go_on(self) -> None:
        """Have a thread make the call now, before all others."""
        if self.withdraw():
            self._workers.run_ahead(self.job)

    def withdraw(self) -> bool:
        """Take the call back; False if it went on already."""
        try:
            self._waiting.pop()  # in one step: two threads cannot both get it
        except IndexError:
            return False
        return True


class _Exchange:
    """One request while the service works on it."""

    def __init__(self, workers: Workers, receive: Receive) -> None:
        self.cancel = Cancel()
        self._loop = asyncio.get_running_loop()
        self._workers = workers
        self._receive = receive
        self._parked: Parked | None = None
        self._paused: asyncio.Future[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._alarm = self._loop.call_later(_WATCH_AFTER, self._watch)

    async def answer(self, steps: Steps) -> Response:
        """Run the call to its end, a thread for each part, none while it waits for a turn."""
        outcome = await self._workers.run(_advance, steps)
        while not isinstance(outcome, Response):
            outcome = await self._after(outcome, steps)
        return outcome

    async def pull(self, chunks: Iterator[bytes]) -> bytes | None:
        """Get the next piece of an answer that is made while it is sent; None at its end."""
        if self.cancel.is_set:
            raise HungUp
        return await self._workers.run(_next, chunks)

    async def pause(self, seconds: float) -> None:
        """Let time pass before the answer is sent, as if the way to the client were longer; no thread waits."""
        paused = self._paused = self._loop.create_future()
        if not self.cancel.is_set:
            await asyncio.wait([paused], timeout=seconds)

    def hang_up(self) -> None:
        """Note that nobody waits for the answer any more."""
        self.cancel.set()
        if self._parked is not None:
            self._parked.go_on()
        if self._paused is not None and not self._paused.done():
            self._paused.set_result(None)

    def end(self) -> None:
        """Stop watching the client."""
        self._alarm.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    async def _after(self, turn: Turn, steps: Steps) -> Turn | Response:
        """Go on when it is the request's turn: at once, since all who want to write wait for it.

        So the thread that gave the turn up hands it on by itself; by way of the loop it took ten times as long.
        """
        parked = self._parked = Parked(self._workers, _advance, steps)
        turn.on_ready(parked.go_on)
        if self.cancel.is_set:
            parked.go_on()
        try:
            return await parked.job.future
        except asyncio.CancelledError:
            if parked.withdraw():
                steps.close()  # the server is going down: leave the queue
            raise

    def _watch(self) -> None:
        self._watcher = self._loop.create_task(self._until_gone())

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.hang_up()


def _advance(steps: Steps) -> Turn | Response:
    try:
        return next(steps)
    except StopIteration as end:
        response: Response = end.value
        return response


def _next(chunks: Iterator[bytes]) -> bytes | None:
    return next(chunks, None)


def read_request(scope: Scope, body: bytes = b"") -> Request:
    """Make the service's request from an ASGI scope."""
    query = scope["query_string"]
    return Request(
        scope["method"], scope["path"],
        dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else {},
        {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
        body,
    )  # fmt: skip


async def send_response(
    send: Send, response: Response, *more_headers: tuple[str, str],
    pull: Callable[[Iterator[bytes]], Awaitable[bytes | None]] | None = None,
) -> None:  # fmt: skip
    """Send an answer: one made beforehand with its length, one made on the way (through ``pull``) in chunks."""
    headers = [(name.encode(), value.encode("latin-1")) for name, value in (*response.headers, *more_headers)]
    if response.content_type:
        headers.append((b"content-type", response.content_type.encode()))
    if isinstance(response.chunks, list | tuple):
        size = sum(map(len, response.chunks))
        headers.append((b"content-length", b"%d" % size))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        pieces = response.chunks if size > _ONE_PIECE else ()
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"" if pieces else b"".join(response.chunks)})
        return
    assert pull is not None, "only an exchange can pull chunks"
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    chunks = iter(response.chunks)
    try:
        while (chunk := await pull(chunks)) is not None:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    finally:
        if isinstance(chunks, Generator):
            with suppress(ValueError):  # it runs in its thread, where it finds that it was cancelled
                chunks.close()
    await send({"type": "http.response.body", "body": b""})
