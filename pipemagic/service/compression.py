"""gzip for responses that are large enough, if the client accepts it.

Starlette's middleware does not flush the pieces of a stream, so a client could not read one before later ones arrive.
"""

from __future__ import annotations

import zlib

from starlette.requests import Request
from starlette.responses import Response

from pipemagic.service.executor import Steps
from pipemagic.service.responses import ServiceResponse

SMALLEST = 4096
"""Smallest body, in bytes, that is compressed: smaller ones arrive as early without."""
LEVEL = 1
"""The fastest level: it compresses rows as JSON to a seventh, the slowest to a tenth."""

_GZIP = 16 + zlib.MAX_WBITS


def compress(response: ServiceResponse, request: Request) -> None:
    """Compress a response in place, if the client of the request accepts it."""
    if not _prepare(response, request):
        return
    stream = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    pieces = response.pieces or [bytes(response.body)]
    for number, piece in enumerate(pieces):
        pieces[number] = stream.compress(piece)  # in place of what is no longer needed
    pieces.append(stream.flush())
    if not response.pieces:
        response.body = b"".join(pieces)
    response.headers["content-length"] = str(sum(map(len, pieces)))


def compressed(response: Response, request: Request, steps: Steps) -> Steps:
    """Compress the pieces of a streamed response, if the client of the request accepts it."""
    if not _prepare(response, request):
        return (yield from steps)
    stream = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    try:
        while True:
            piece = next(steps)
            yield stream.compress(piece) + stream.flush(zlib.Z_SYNC_FLUSH) if isinstance(piece, bytes) else piece
    except StopIteration as end:
        return stream.compress(end.value) + stream.flush()
    finally:
        steps.close()


def _prepare(response: Response, request: Request) -> bool:
    """Set the headers; return True if the body is to be compressed."""
    response.headers["vary"] = "accept-encoding"
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        return False
    response.headers["content-encoding"] = "gzip"
    return True


def accepts_gzip(header: str) -> bool:
    """Return True if an Accept-Encoding header accepts gzip; a quality of 0 refuses it."""
    taken = {}
    for part in header.lower().split(","):
        coding, _, parameters = part.partition(";")
        quality = parameters.strip().removeprefix("q=")
        taken[coding.strip()] = quality.strip("0.") != "" or not quality
    return taken.get("gzip", taken.get("x-gzip", taken.get("*", False)))
