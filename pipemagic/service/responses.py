"""The responses of the service, their compression, and the errors that become responses."""

from __future__ import annotations

import errno
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apsw
import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from pipemagic.service.executor import Steps

JSON = "application/json"
TEXT = "text/plain"

PART = 256 * 1024
"""Bytes of a large body that are sent at once."""

SMALLEST = 4096
"""Smallest body, in bytes, that is compressed: smaller ones arrive as early without."""
LEVEL = 1
"""The fastest level of compression: it compresses rows as JSON to a seventh, the slowest to a tenth."""

_GZIP = 16 + zlib.MAX_WBITS
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
    parts, size = [], 0
    for piece in pieces:
        for start in range(0, len(piece), PART):
            parts.append(memoryview(piece)[start : start + PART])
            size += len(parts[-1])
            if size >= PART:
                yield b"".join(parts)
                parts, size = [], 0
    yield b"".join(parts)


class StreamedResponse(StreamingResponse):
    """A response with a body that is produced while it is sent."""

    delay: float = 0.0
    on_sent: Callable[[], None] | None = None

    def __init__(self, content_type: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__((), 200, {**(headers or {}), "content-type": content_type})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the body; the endpoint itself watches for a client that disconnects."""
        await self.stream_response(send)


def json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> ServiceResponse:
    """Return a response with a JSON body."""
    return ServiceResponse(_ENCODER.encode(body), status, headers, media_type=JSON)


def in_pieces(pieces: list[bytes], headers: Mapping[str, str]) -> ServiceResponse:
    """Return a response with a large body, which is not joined."""
    size = sum(map(len, pieces))
    response = ServiceResponse(None, 200, {**headers, "content-length": str(size)})
    response.pieces = pieces
    return response


def text(line: str, status: int = 200, headers: Mapping[str, str] | None = None) -> ServiceResponse:
    """Return a response with one line of plain text."""
    return ServiceResponse(line, status, {"content-type": TEXT, **(headers or {})})


def empty(status: int, headers: Mapping[str, str] | None = None) -> ServiceResponse:
    """Return a response without a body."""
    return ServiceResponse(None, status, headers)


def compress_if_large(response: ServiceResponse, request: Request) -> None:
    """Compress a response in place, unless it is small or the client of the request does not accept it.

    It is called in a worker: Starlette's middleware compresses in the event loop, which 12 MB then hold up for 70 ms.
    """
    pieces = response.pieces or [bytes(response.body)]
    if sum(map(len, pieces)) < SMALLEST or not _prepare_gzip(response, request):
        return
    stream = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    for number, piece in enumerate(pieces):
        pieces[number] = stream.compress(piece)  # in place of what is no longer needed
    pieces.append(stream.flush())
    if not response.pieces:
        response.body = b"".join(pieces)
    response.headers["content-length"] = str(sum(map(len, pieces)))


def compress_stream(response: Response, request: Request, first: bytes, rest: Steps[bytes]) -> Steps[bytes]:
    """Yield a streamed response and the pieces of its body, compressed if the client of the request accepts it.

    Each piece is flushed, so that its client can read it before later ones arrive.
    """
    compressed = _prepare_gzip(response, request)
    yield response
    if not compressed:
        yield first
        return (yield from rest)
    stream = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    piece: Any = first
    try:
        while True:
            yield stream.compress(piece) + stream.flush(zlib.Z_SYNC_FLUSH) if isinstance(piece, bytes) else piece
            piece = next(rest)
    except StopIteration as end:
        return stream.compress(end.value) + stream.flush()


def _prepare_gzip(response: Response, request: Request) -> bool:
    """Set the headers; return True if the body is to be compressed."""
    response.headers["vary"] = "accept-encoding"
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        return False
    response.headers["content-encoding"] = "gzip"
    return True


def accepts_gzip(header: str) -> bool:
    """Return True if an Accept-Encoding header accepts gzip; a quality of 0 refuses it."""
    accepted = {}
    for part in header.lower().split(","):
        coding, _, parameters = part.partition(";")
        quality = parameters.strip().removeprefix("q=")
        accepted[coding.strip()] = quality.strip("0.") != "" or not quality
    return accepted.get("gzip", accepted.get("x-gzip", accepted.get("*", False)))


class Refused(Exception):
    """Ends a request with an HTTP error, which `app.Hosts` turns into the response."""

    def __init__(
        self, status: int, message: str = "", code: str | None = None, *, plain: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status, self.message, self.plain, self.headers = status, message, plain, headers
        self.code = code or _CODES.get(status, "ERROR")

    def response(self) -> ServiceResponse:
        """Return the response: a line of text, JSON with ``error``, ``message`` and ``code``, or one without a body.

        Published clients differ in which of these members they read.
        """
        if not self.message:
            return empty(self.status, self.headers)
        if self.plain:
            return text(self.message, self.status, self.headers)
        return json({"error": self.message, "message": self.message, "code": self.code}, self.status, self.headers)


def wrong_method(allowed: str) -> Refused:
    """Return the error for a path that has other methods."""
    return Refused(405, headers={"allow": allowed})


_CODES = {
    400: "BAD_REQUEST", 401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED",
    409: "CONFLICT", 413: "BODY_TOO_LARGE", 421: "MISDIRECTED", 429: "TOO_MANY_REQUESTS", 500: "INTERNAL",
    503: "UNAVAILABLE",
}  # fmt: skip

_FULL = 507, "DISK_FULL", "the disk of the service is full: make room on it and try again; nothing is lost"
_READ_ONLY = 503, "DISK_READ_ONLY", "the service cannot write to its data folder: make it writable and try again"
_DAMAGED = 503, "FILE_DAMAGED", (
    "a file of the service is damaged, so this cannot be done; other databases are not affected: "
    "put a copy of the file back, or delete the database"
)  # fmt: skip
_UNREADABLE = 503, "DISK_ERROR", "the disk of the service failed to read or write; see service.log"
_HANDLES = 503, "TOO_MANY_FILES", "the service is out of file handles: close streams that are not needed, try again"
_NO_MEMORY = 503, "OUT_OF_MEMORY", "the service is temporarily out of memory: try again; no data was lost"

_BY_TYPE = {
    MemoryError: _NO_MEMORY, apsw.NoMemError: _NO_MEMORY, apsw.FullError: _FULL, apsw.ReadOnlyError: _READ_ONLY,
    apsw.CorruptError: _DAMAGED, apsw.NotADBError: _DAMAGED, apsw.CantOpenError: _UNREADABLE, apsw.IOError: _UNREADABLE,
}  # fmt: skip
_BY_NUMBER = {
    errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EFBIG: _FULL, errno.EROFS: _READ_ONLY, errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY, errno.EMFILE: _HANDLES, errno.ENFILE: _HANDLES, errno.EIO: _UNREADABLE,
}  # fmt: skip


def storage_refusal(error: Exception) -> Refused | None:
    """Return the HTTP error for an error of disk or memory; None for any other error."""
    fault = _BY_NUMBER.get(error.errno or 0) if isinstance(error, OSError) else _BY_TYPE.get(type(error))
    if fault is None:
        return None
    status, code, message = fault
    return Refused(status, f"{message} ({error})", code)
