"""The responses of the service, and the error that becomes one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

JSON = "application/json"
TEXT = "text/plain"

PART = 256 * 1024
"""Bytes of a large body that are sent at once."""

_ENCODER = msgspec.json.Encoder()


class ServiceResponse(Response):
    """A response of the service. It is sent after ``delay`` seconds; then ``on_sent`` is called."""

    delay: float = 0.0
    on_sent: Callable[[], None] | None = None
    pieces: list[bytes] | None = None
    """The body if it is in pieces; ``body`` is then empty."""

    async def send_in_parts(self, send: Send, disconnected: Callable[[], bool]) -> None:
        """Send a large body in parts, each after the client has taken the previous one.

        uvicorn returns from the last message of a body before any of it is sent.
        """
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for part in _parts(self.pieces or [self.body]):
            if disconnected():
                return
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _parts(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Cut large pieces and join small ones: yield parts of at least `PART` bytes, and of less than twice as many."""
    gathered, size = [], 0
    for piece in pieces:
        for start in range(0, len(piece), PART):
            gathered.append(memoryview(piece)[start : start + PART])
            size += len(gathered[-1])
            if size >= PART:
                yield b"".join(gathered)
                gathered, size = [], 0
    yield b"".join(gathered)


class StreamedResponse(StreamingResponse):
    """A response whose body is produced while it is sent."""

    delay: float = 0.0
    on_sent: Callable[[], None] | None = None

    def __init__(self, content_type: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(_nothing(), 200, {**(headers or {}), "content-type": content_type})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the body; the endpoint itself watches for a client that hangs up."""
        await self.stream_response(send)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


def json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> ServiceResponse:
    """Return a response with a JSON body."""
    return ServiceResponse(_ENCODER.encode(body), status, headers, media_type=JSON)


def in_pieces(pieces: list[bytes], headers: Mapping[str, str]) -> ServiceResponse:
    """Return a response with a large body, which is not joined."""
    size = sum(map(len, pieces))
    response = ServiceResponse(None, 200, {**headers, "content-length": str(size)})
    response.pieces = pieces
    return response


def text(line: str, status: int = 200) -> ServiceResponse:
    """Return a response with one line of plain text."""
    return ServiceResponse(line, status, {"content-type": TEXT})


def empty(status: int, headers: Mapping[str, str] | None = None) -> ServiceResponse:
    """Return a response without a body."""
    return ServiceResponse(None, status, headers)


class Refused(Exception):
    """Ends a request with an HTTP error, which `app.Errors` turns into the response.

    ``close`` is set if the connection cannot be used afterwards.
    """

    close = False

    def __init__(self, status: int, message: str, code: str | None = None, *, plain: bool = False) -> None:
        super().__init__(message)
        self.status, self.message, self.plain = status, message, plain
        self.code = code or _CODES.get(status, "ERROR")

    def response(self) -> ServiceResponse:
        """Return the response: a line of text, or JSON with ``error``, ``message`` and ``code``.

        Published clients differ in which of these members they read.
        """
        if self.plain:
            response = text(self.message, self.status)
        else:
            response = json({"error": self.message, "message": self.message, "code": self.code}, self.status)
        if self.close:
            response.headers["connection"] = "close"
        return response


class MethodNotAllowed(Refused):
    """The path does not have the method; ``allow`` lists those that it has."""

    def __init__(self, allow: str) -> None:
        super().__init__(405, "")
        self.allow = allow

    def response(self) -> ServiceResponse:
        """Return the response, which has no body."""
        return empty(405, {"allow": self.allow})


_CODES = {
    400: "BAD_REQUEST", 401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT_FOUND", 409: "CONFLICT",
    413: "BODY_TOO_LARGE", 421: "MISDIRECTED", 429: "TOO_MANY_REQUESTS", 500: "INTERNAL", 503: "UNAVAILABLE",
}  # fmt: skip
