"""Send answers over ASGI: in pieces, each of which the client has to take in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, MutableMapping, Sequence
from typing import Any, Protocol

from pipemagic.service.http import Body, Response

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

ABORT = "pipemagic.abort"
"""Name of an ASGI extension: a function that drops the connection without waiting for its client."""


class App(Protocol):
    """An ASGI application that can also answer a short request at once."""

    async def __call__(self, scope: Scope, receive: Callable[[], Coroutine[Any, Any, Message]], send: Send) -> None:
        """Serve one request."""

    def at_once(self, scope: Scope, body: bytes) -> Response | None:
        """Answer a request that is here as a whole; None if that is for `__call__`, which follows."""


ONE_PIECE = 64 * 1024
"""Bytes of a body that is sent whole."""
PIECE = 256 * 1024
"""Bytes of a piece of a larger one: what a slow client has to take within the time-out."""


class HungUp(Exception):
    """The client is gone; there is nobody to answer."""


def is_small(response: Response) -> bool:
    """Tell whether an answer is here as a whole and can be sent in one piece, now."""
    return not (response.delay or isinstance(response.chunks, Body)) and size_of(response) <= ONE_PIECE


def size_of(response: Response) -> int:
    """Give the bytes of a body that is here as a whole."""
    return sum(map(len, _chunks(response)))


def body_of(response: Response) -> bytes:
    """Give a body that is here as a whole."""
    return b"".join(_chunks(response))


def _chunks(response: Response) -> Sequence[bytes]:
    chunks = response.chunks
    assert isinstance(chunks, list | tuple), "an answer made on the way is for send_stream"
    return chunks


def headers_of(response: Response, size: int) -> list[tuple[bytes, bytes]]:
    """Give the headers of an answer whose body has ``size`` bytes."""
    return _headers(response, ("content-length", str(size)))


def watched(send: Send, scope: Scope, timeout: float) -> Send:
    """Give a ``send`` that drops the connection, with `HungUp`, of a client that takes nothing for ``timeout`` s."""

    async def send_in_time(message: Message) -> None:
        try:
            async with asyncio.timeout(timeout):
                await send(message)
        except TimeoutError:
            abort = scope.get("extensions", {}).get(ABORT)
            if abort is not None:
                abort()
                await asyncio.sleep(0)  # the connection is lost in the loop's next round
            raise HungUp from None

    return send_in_time


async def send_response(send: Send, response: Response, *more_headers: tuple[str, str]) -> None:
    """Send an answer that was made beforehand, with its length."""
    size = size_of(response)
    await _start(send, response, *more_headers, ("content-length", str(size)))
    if size > ONE_PIECE:
        for piece in _pieces(_chunks(response)):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"" if size > ONE_PIECE else body_of(response)})


async def send_stream(send: Send, response: Response, pull: Callable[[Body], Awaitable[bytes | None]]) -> None:
    """Send an answer that is made on the way: each piece when the one before it is taken."""
    body = response.chunks
    assert isinstance(body, Body)
    await _start(send, response)
    while (piece := await pull(body)) is not None:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _start(send: Send, response: Response, *more_headers: tuple[str, str]) -> None:
    headers = _headers(response, *more_headers)
    await send({"type": "http.response.start", "status": response.status, "headers": headers})


def _headers(response: Response, *more: tuple[str, str]) -> list[tuple[bytes, bytes]]:
    headers = [(name.encode(), value.encode("latin-1")) for name, value in (*response.headers, *more)]
    if response.content_type:
        headers.append((b"content-type", response.content_type.encode()))
    return headers


def _pieces(chunks: Sequence[bytes]) -> Iterator[bytes | memoryview]:
    """Cut what is too large; nothing is copied."""
    for chunk in chunks:
        if len(chunk) <= PIECE:
            yield chunk
        else:
            view = memoryview(chunk)
            for start in range(0, len(chunk), PIECE):
                yield view[start : start + PIECE]
