"""Take requests over ASGI: their bodies within a limit and in time, in memory or in a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl

from msgspec.structs import replace

from pipemagic.service.http import Refused, Request
from pipemagic.service.web.sending import HungUp, Message, Scope
from pipemagic.service.web.workers import Workers

Receive = Callable[[], Coroutine[Any, Any, Message]]

BODY_LIMIT = 128 * 1024 * 1024
BODY_TIMEOUT = 30.0
SLOWEST = 64 * 1024  # bytes a second: a large body has a second more for each of them that came

_SPOOLED_AT_ONCE = 1024 * 1024  # bytes that are written to a file together


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


class Receiver:
    """Reads requests whole: bodies of up to ``limit`` bytes that arrive within ``timeout`` seconds, or steadily.

    ``intake`` is asked about requests to the ``file_paths`` before their bodies are read: it may refuse them, or
    give a `Spool` for a body that is not to be in memory.
    """

    def __init__(
        self, workers: Workers, *, limit: int, timeout: float, file_paths: frozenset[str], intake: Intake
    ) -> None:
        self._workers, self._limit, self._timeout = workers, limit, timeout
        self._file_paths, self._intake = file_paths, intake
        self._reading: set[asyncio.Timeout] = set()
        self._stopping = False

    def stop(self) -> None:
        """Wait for no body any more; called in the event loop."""
        self._stopping = True
        for limit in self._reading:
            if not limit.expired():  # then its request is about to be told
                limit.reschedule(0.0)

    async def read(self, scope: Scope, receive: Receive, stack: AsyncExitStack) -> Request:
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
        if b"expect" in headers and declared.isdigit() and int(declared) > self._limit:
            raise self._too_large()  # the client waits to hear this before it sends anything
        first = _Begun(receive())
        if first.over and not first.message.get("more_body", False):  # most bodies come with their head
            return self._gathered([], 0, first.message)
        async with self._time_limit() as time:
            return await self._gather(await first, receive, time)

    @asynccontextmanager
    async def _time_limit(self) -> AsyncIterator[asyncio.Timeout]:
        """Refuse (408) a client that takes too long to send, (503) every one when the service stops."""
        try:
            async with asyncio.timeout(self._timeout) as limit:
                self._reading.add(limit)
                try:
                    yield limit
                finally:
                    self._reading.discard(limit)
        except TimeoutError:
            if self._stopping:
                raise Refused(503, "the service is stopping") from None
            line = f"the request body did not arrive within {self._timeout:g} s"
            raise Refused(408, line, "REQUEST_TIMEOUT") from None

    async def _gather(self, message: Message, receive: Receive, time: asyncio.Timeout) -> bytes:
        chunks: list[bytes] = []
        size, ends = 0, time.when()
        while message["type"] == "http.request" and message.get("more_body", False):
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self._limit:
                chunks.clear()  # the rest is read, else the client would see a broken pipe and no answer
            else:
                chunks.append(chunk)
                if ends is not None and not self._stopping:
                    time.reschedule(ends + size / SLOWEST)
            message = await receive()
        return self._gathered(chunks, size, message)

    def _gathered(self, chunks: list[bytes], size: int, last: Message) -> bytes:
        """Put a body together of its pieces and what came last."""
        if last["type"] == "http.disconnect":
            raise HungUp
        chunk = last.get("body", b"")
        if size + len(chunk) > self._limit:
            raise self._too_large()
        return b"".join([*chunks, chunk])

    def _too_large(self) -> Refused:
        return Refused(413, f"the request body is larger than {self._limit:,} bytes")


class _Begun:
    """A wait for a message that was begun: what is there already costs no clock and no turn of the loop."""

    def __init__(self, waiting: Coroutine[Any, Any, Message]) -> None:
        self._waiting, self.over = waiting, False
        self.message: Message = {}
        try:
            self._first = waiting.send(None)
        except StopIteration as arrived:
            self.over, self.message = True, arrived.value

    def __await__(self) -> Generator[Any, Any, Message]:
        """Wait for the message, if it is not there."""
        if self.over:
            return self.message
        asked = self._first
        try:
            while True:
                try:
                    given = yield asked
                except BaseException as error:  # noqa: BLE001 - handed on to who waits inside, as await does
                    asked = self._waiting.throw(error)
                else:
                    asked = self._waiting.send(given)
        except StopIteration as arrived:
            message: Message = arrived.value
            return message


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
