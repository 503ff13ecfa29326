"""gzip for answers, when the client takes it and it pays."""

from __future__ import annotations

import zlib
from dataclasses import replace

from pipemagic.service.http import Body, Request, Response
from pipemagic.service.turns import Turn

SMALLEST = 4096
"""Bytes of an answer from which it pays: a smaller one arrives as early without."""
LEVEL = 1
"""The fastest: JSON of rows shrinks to a seventh by it, and to a tenth by the slowest."""

_GZIP = 16 + zlib.MAX_WBITS
_TYPES = frozenset({"application/json", "text/plain"})
_HEADERS = (("content-encoding", "gzip"), ("vary", "accept-encoding"))


def compressed(response: Response, request: Request) -> Response:
    """Give the answer as the client asked for it; one that is made while it is sent stays so."""
    if response.content_type not in _TYPES or not accepts_gzip(request.headers.get("accept-encoding", "")):
        return response
    chunks = response.chunks
    if isinstance(chunks, Body):
        return replace(response, chunks=Gzipped(chunks), headers=response.headers + _HEADERS)
    assert isinstance(chunks, list | tuple), "an answer is made beforehand or by a Body"
    if sum(map(len, chunks)) < SMALLEST:
        return response
    press = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    packed = [data for data in map(press.compress, chunks) if data]
    return replace(response, chunks=[*packed, press.flush()], headers=response.headers + _HEADERS)


def accepts_gzip(header: str) -> bool:
    """Read an Accept-Encoding header; a quality of 0 is a refusal."""
    taken = {}
    for part in header.lower().split(","):
        coding, _, parameters = part.partition(";")
        quality = parameters.strip().removeprefix("q=")
        taken[coding.strip()] = quality.strip("0.") != "" or not quality
    return taken.get("gzip", taken.get("x-gzip", taken.get("*", False)))


class Gzipped(Body):
    """Compresses each piece as it comes, so that the client can read it whole."""

    def __init__(self, plain: Body) -> None:
        self._plain = plain
        self._press = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
        self._over = False

    def __next__(self) -> bytes | Turn:
        if self._over:
            raise StopIteration
        piece = next(self._plain, None)
        if piece is None:
            self._over = True
            return self._press.flush()
        if isinstance(piece, Turn):
            return piece
        return self._press.compress(piece) + self._press.flush(zlib.Z_SYNC_FLUSH)

    def close(self) -> None:
        """Close the body that is compressed."""
        self._plain.close()
