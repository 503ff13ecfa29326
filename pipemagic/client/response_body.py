"""Read response bodies, as a whole or in chunks, decompressed and within limits."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf

import httpx

from pipemagic.client.tracing import HEAD
from pipemagic.errors import UnknownOutcome

MAX_SIZE = 256 * 1024 * 1024
"""The most bytes of a response that is read as a whole, decompressed; cursors and downloads have no limit."""

MIN_RATE = 100
"""The lowest rate of a response that is read as a whole, in bytes a second."""

RATE_PERIOD = 10.0
"""The shortest time in seconds over which the rate is measured."""

_UNPACKED_SIZE = 1024 * 1024
"""The maximum number of bytes to decompress at once."""

_SMALL_CHUNK = 8 * 1024
"""Size in bytes below which a chunk is small."""

_SMALL_CHUNKS_AT_ONCE = 16
"""The number of small chunks that are returned without a pause: a short response is complete immediately."""

_PAUSE = 0.005
"""Seconds to wait between further small chunks: sqld sends each row separately, which costs a wake-up each time."""


class BodyTooLarge(Exception):
    """A response exceeds `MAX_SIZE`."""


@dataclass(frozen=True)
class HttpResponse:
    """A complete response: status, content type (lower case, '' if none), body, and Date header.

    ``retry_after`` is the Retry-After header, a number of seconds or a date; ``location`` the address of a redirect.
    """

    status: int
    content_type: str
    body: bytes = field(repr=False)
    date: str = ""
    retry_after: str = ""
    location: str = ""

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class Chunks:
    """The body of a response in chunks as they arrive; iterate once, and close.

    ``failure`` converts an exception of httpx. ``on_end`` is called once at the end, with the error, if any,
    and the first bytes.
    """

    status = 200

    def __init__(
        self,
        response: httpx.Response,
        chunks: Iterator[bytes],
        failure: Callable[[BaseException], UnknownOutcome],
        on_end: Callable[[BaseException | None, bytes], None],
    ) -> None:
        self._response, self._chunks, self._failure = response, chunks, failure
        self._on_end = on_end
        self._head = b""
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """Return the next chunk. Raise UnknownOutcome for an incomplete body, AnswerTimeout, InterruptedRequest."""
        try:
            chunk = next(self._chunks)
        except (httpx.RequestError, KeyboardInterrupt) as error:
            failure = self._failure(error)
            self._end(failure)
            raise failure from None
        if len(self._head) < HEAD:
            self._head += chunk[:HEAD]
        return chunk

    def close(self) -> None:
        """Close the connection, unless the response is complete: then it can be reused."""
        self._response.close()
        self._end()

    def _end(self, error: BaseException | None = None) -> None:
        if not self._ended:
            self._ended = True
            self._on_end(error, self._head)


def read_whole(response: httpx.Response, deadline: float = inf, timeout: float | None = None) -> bytes:
    """Return the body of a response; raise TooLarge, or httpx.ReadTimeout for one that is too slow.

    Without a ``timeout`` there is no minimum rate.
    """
    chunks: list[bytes] = []
    period = inf if timeout is None else max(timeout, RATE_PERIOD)
    size, size_before, end = 0, 0, time.monotonic() + period
    for chunk in read_chunks(response, deadline):
        chunks.append(chunk)
        size += len(chunk)
        if max(size, response.num_bytes_downloaded) > MAX_SIZE:
            raise BodyTooLarge
        if period != inf and time.monotonic() > end:
            if size - size_before < MIN_RATE * period:
                raise httpx.ReadTimeout("the response is too slow")
            size_before, end = size, time.monotonic() + period
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def read_chunks(
    response: httpx.Response, deadline: float = inf, pause: Callable[[float], None] | None = None
) -> Iterator[bytes]:
    """Yield the body of a response as it arrives, decompressed; raise httpx.ReadTimeout after the deadline.

    With ``pause`` wait for small chunks to grow.
    """
    if response.is_stream_consumed:  # by a hook of the user's client, or without a network
        yield response.content
        return
    packed = response.headers.get("content-encoding", "").lower() in ("gzip", "x-gzip", "deflate")
    unpacker = Unpacker() if packed else None
    small = 0
    try:
        for chunk in response.iter_raw():
            if deadline != inf and time.monotonic() > deadline:
                raise httpx.ReadTimeout("the response did not end in time")
            if unpacker is None:
                yield chunk
            else:
                yield from unpacker.feed(chunk)
                yield b""  # for the limits of size and rate: a chunk may decompress to nothing
            if pause is not None and len(chunk) < _SMALL_CHUNK:
                small += 1
                if small > _SMALL_CHUNKS_AT_ONCE:
                    pause(_PAUSE)
        if unpacker is not None:
            unpacker.end()
    finally:
        response.close()


class Unpacker:
    """Decompress gzip (or zlib's format, which HTTP calls deflate) chunk by chunk."""

    def __init__(self) -> None:
        self._inner = _decompressor()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed content of a chunk, in parts of limited size."""
        self._begun = self._begun or bool(data)
        if self._inner.eof and (data := data.lstrip(b"\0")):  # zlib would buffer data after the end
            self._inner = _decompressor()
        while data:
            try:
                unpacked = self._inner.decompress(data, _UNPACKED_SIZE)
            except zlib.error as error:
                raise httpx.DecodingError(f"cannot read the compressed response: {error}") from None
            if unpacked:
                yield unpacked
            data = self._inner.unconsumed_tail
            if rest := self._inner.unused_data.lstrip(b"\0"):  # gzip data may have several members
                self._inner, data = _decompressor(), rest

    def end(self) -> None:
        """Raise httpx.DecodingError if the data are incomplete."""
        if self._begun and not self._inner.eof:
            raise httpx.DecodingError("the compressed response is incomplete")


def _decompressor() -> zlib._Decompress:
    return zlib.decompressobj(zlib.MAX_WBITS | 32)
