"""The ASGI shell: reads a request, lets the service work on it in a thread, sends the answer.

It knows nothing of SQL. It adds what only a network needs: a limit and a time limit for bodies, an eye on
clients that hang up, and requests that wait for the writer's turn without holding a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import parse_qsl

from pipemagic.service import sending
from pipemagic.service.http import Body, Cancel, Refused, Request, Response
from pipemagic.service.sending import HungUp, Message, Scope, Send
from pipemagic.service.turns import Turn
from pipemagic.service.workers import Job, Workers

Receive = Callable[[], Awaitable[Message]]
Steps = Generator[Turn, None, Response]

_LOG = logging.getLogger(__name__)

BODY_LIMIT = 128 * 1024 * 1024
BODY_TIMEOUT = 30.0
SEND_TIMEOUT = 30.0
THREADS = 32

_WATCH_AFTER = 0.01  # most calls are over by then and need no task that watches their client
_SPOOLED_AT_ONCE = 1024 * 1024  # bytes that are written to a file together
_CLOSE = ("connection", "close")


class _Work(Protocol):
    """What is done in parts, with a Turn wherever it waits: the steps of a call, the body of its answer."""

    def close(self) -> None: ...


T = TypeVar("T")
W = TypeVar("W", bound=_Work)


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


class Shell:
    """An ASGI application around a service.

    ``body_limit`` is in bytes; ``body_timeout`` in seconds, for the whole body of a request; ``send_timeout`` in
    seconds, for a client that takes nothing of its answer. ``intake`` is asked about requests to the ``file_paths``
    before their bodies are read: it may refuse them, or give a `Spool` for a body that is not to be in memory.
    """

    def __init__(
        self, service: Core, *,
        threads: int = THREADS, body_limit: int = BODY_LIMIT, body_timeout: float = BODY_TIMEOUT,
        send_timeout: float = SEND_TIMEOUT,
        file_paths: frozenset[str] = frozenset(), intake: Intake = lambda _: None,
    ) -> None:  # fmt: skip
        self._service = service
        self._workers = Workers(threads, "pipemagic")
        self._body_limit = body_limit
        self._body_timeout = body_timeout
        self._send_timeout = send_timeout
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
                await sending.send_response(send, refused.response(), _CLOSE)
                return
            await self._serve(scope, request, receive, send)

    async def _serve(self, scope: Scope, request: Request, receive: Receive, send: Send) -> None:
        exchange = _Exchange(self._workers, receive)
        self._exchanges.add(exchange)
        try:
            if self._stopping:
                exchange.hang_up()
            response = await exchange.answer(self._service.steps(request, exchange.cancel))
            await exchange.send(sending.watched(send, scope, self._send_timeout), response)
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
        head, spool = read_request(scope), None
        try:
            spool = await self._workers.run(self._intake, head)
            if spool is None:
                return replace(head, body=await self._body(scope, receive))
            stack.push_async_callback(self._workers.run, spool.discard)
            await self._fill(spool, receive)
        except Refused as refused:
            sends = spool is not None or "expect" not in head.headers  # else the client waits to hear this
            if sends and refused.status not in (408, 503):
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
        with suppress(Refused):
            async with self._time_limit():
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


class Parked(Generic[T]):
    """A call that waits without a thread; it goes on once, whoever says so first, from any thread."""

    def __init__(self, workers: Workers, call: Callable[..., T], *arguments: Any) -> None:
        self.job: Job[T] = Job(call, arguments)
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
        self._gone = False
        self._parked: Parked[Any] | None = None
        self._paused: asyncio.Future[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._alarm = self._loop.call_later(_WATCH_AFTER, self._watch)

    async def answer(self, steps: Steps) -> Response:
        """Run the call to its end, a thread for each part, none while it waits for a turn."""
        outcome = await self._workers.run(_advance, steps)
        while not isinstance(outcome, Response):
            outcome = await self._after(outcome, _advance, steps)
        return outcome

    async def send(self, send: Send, response: Response) -> None:
        """Send an answer, one that is made on the way as far as the client takes it."""
        try:
            if response.delay:
                await self._pause(response.delay)
            if isinstance(response.chunks, Body):
                await sending.send_stream(send, response, self._pull)
            else:
                await sending.send_response(send, response)
        finally:
            if isinstance(response.chunks, Body):
                await self._workers.run(response.chunks.close)
            if response.sent is not None:
                response.sent()

    async def _pull(self, body: Body) -> bytes | None:
        """Get the next piece; None at its end. When the service stops, the body itself ends with a word about it."""
        if self._gone:
            raise HungUp
        outcome = await self._workers.run(_next, body)
        while isinstance(outcome, Turn):
            outcome = await self._after(outcome, _next, body)
        return outcome

    async def _pause(self, seconds: float) -> None:
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

    async def _after(self, turn: Turn, call: Callable[[W], T], work: W) -> T:
        """Go on when it is the request's turn: at once, since all who want to write wait for it.

        So the thread that gave the turn up hands it on by itself; by way of the loop it took ten times as long.
        """
        parked: Parked[T] = Parked(self._workers, call, work)
        self._parked = parked
        turn.on_ready(parked.go_on)
        if self.cancel.is_set:
            parked.go_on()
        try:
            return await parked.job.future
        except asyncio.CancelledError:
            if parked.withdraw():
                work.close()  # the server is going down: leave the queue
            raise

    def _watch(self) -> None:
        self._watcher = self._loop.create_task(self._until_gone())

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self.hang_up()


def _advance(steps: Steps) -> Turn | Response:
    try:
        return next(steps)
    except StopIteration as end:
        response: Response = end.value
        return response


def _next(body: Body) -> bytes | Turn | None:
    return next(body, None)


def read_request(scope: Scope, body: bytes = b"") -> Request:
    """Make the service's request from an ASGI scope.

    A proxy in front that speaks TLS says so. Anybody may: it shows in nothing but the addresses of his own answers.
    """
    query = scope["query_string"]
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    outside = headers.get("x-forwarded-proto", "").lower()
    return Request(
        scope["method"], scope["path"],
        dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else {},
        headers, body, scheme=outside if outside in ("http", "https") else scope.get("scheme", "http"),
    )  # fmt: skip
