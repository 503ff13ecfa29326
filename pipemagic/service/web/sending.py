"""Send answers over ASGI: in pieces, each of which the client has to take in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from typing import Any

from pipemagic.service.http import Body, Response
from pipemagic.service.web.wire import ABORT

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

ONE_PIECE = 64 * 1024
"""Bytes of a body that is sent whole."""
PIECE = 256 * 1024
"""Bytes of a piece of a larger one: what a slow client has to take within the time-out."""


class HungUp(Exception):
    """The client is gone; there is nobody to answer."""


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
    chunks = response.chunks
    assert isinstance(chunks, list | tuple), "an answer made on the way is for send_stream"
    size = sum(map(len, chunks))
    await _start(send, response, *more_headers, ("content-length", str(size)))
    if size > ONE_PIECE:
        for piece in _pieces(chunks):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"" if size > ONE_PIECE else b"".join(chunks)})


async def send_stream(send: Send, response: Response, pull: Callable[[Body], Awaitable[bytes | None]]) -> None:
    """Send an answer that is made on the way: each piece when the one before it is taken."""
    body = response.chunks
    assert isinstance(body, Body)
    await _start(send, response)
    while (piece := await pull(body)) is not None:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _start(send: Send, response: Response, *more_headers: tuple[str, str]) -> None:
    headers = [(name.encode(), value.encode("latin-1")) for name, value in (*response.headers, *more_headers)]
    if response.content_type:
        headers.append((b"content-type", response.content_type.encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})


def _pieces(chunks: Sequence[bytes]) -> Iterator[bytes | memoryview]:
    """Cut what is too large; nothing is copied."""
    for chunk in chunks:
        if len(chunk) <= PIECE:
            yield chunk
        else:
            view = memoryview(chunk)
            for start in range(0, len(chunk), PIECE):
                yield view[start : start + PIECE]
