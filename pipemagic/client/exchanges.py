"""What went over the wire: one record for each HTTP exchange, told to whoever observes a transport.

An observer costs a request some microseconds, whatever its size: bodies are referred to, never copied or read again,
and of large ones only an outline is kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipemagic.client.outlines import Json, outline
from pipemagic.client.urls import Endpoint
from pipemagic.hrana.messages import (
    BatchResponse,
    Entry,
    ErrorEntry,
    ExecuteResponse,
    OkEntry,
    PipelineRequest,
    PipelineResponse,
    StmtResult,
)

WHOLE = 16 * 1024
"""Bytes of a body that is kept as it was; of a larger one there is an outline, if it was a pipeline."""

HEAD = 2048
"""Bytes that are kept, about, of the beginning of an answer that came in pieces."""

_DURATION = re.compile(r"[^;,]*;\s*dur=([0-9.]+)\s*(ns|\S{0,2}\u00b5s|ms|s)?")
_SECONDS = {"ns": 1e-9, "s": 1.0, "ms": 1e-3, "": 1e-3}  # without a unit: milliseconds, by the specification


@dataclass(slots=True)
class Tally:
    """What the statements of an answer did; ``server_ms`` is the time that they took, as the server says."""

    statements: int = 0
    errors: int = 0
    rows: int = 0
    rows_read: int = 0
    rows_written: int = 0
    server_ms: float = 0.0

    def add(self, result: StmtResult) -> None:
        """Take in the result of a statement."""
        self.statements += 1
        self.rows += len(result.rows)
        self.rows_read += result.rows_read or 0
        self.rows_written += result.rows_written or 0
        self.server_ms += result.query_duration_ms or 0.0

    def fail(self) -> None:
        """Take in a statement that failed."""
        self.statements += 1
        self.errors += 1


@dataclass(slots=True, eq=False)
class Exchange:
    """One request and what became of it.

    Times are in seconds of ``time.perf_counter``; ``encoding`` and ``decoding`` are what JSON took on this side.
    Sizes are those of the bodies on the wire, compressed where they were. ``sent`` and ``received`` are None for what
    was too large to keep, or streamed. ``status`` is None if no answer came; ``error`` then says why. ``attempts``
    counts how often it was sent (again after 429). ``transaction_open`` is what was known after it, None if nothing
    was. ``reopened`` tells that it opened a stream in the place of one that had ended.
    """

    method: str
    path: str
    endpoint: Endpoint = field(repr=False)
    started: float
    ended: float = 0.0
    status: int | None = None
    error: str = ""
    attempts: int = 1
    sent: bytes | Json = field(default=None, repr=False)
    sent_size: int = 0
    received: bytes | Json = field(default=None, repr=False)
    received_size: int = 0
    server_timing: str = field(default="", repr=False)
    encoding: float = 0.0
    decoding: float = 0.0
    tally: Tally | None = None
    transaction_open: bool | None = None
    reopened: bool = False

    @property
    def host(self) -> str:
        """The host that was named, without a port."""
        return self.endpoint.named_host

    @property
    def seconds(self) -> float:
        """How long the request was waited for."""
        return self.ended - self.started

    @property
    def server_seconds(self) -> float:
        """How long the server worked on it, as it says itself; 0.0 if it does not."""
        timing = _DURATION.match(self.server_timing)  # the first entry is that of the whole request
        if timing is not None:
            said = float(timing[1]) * _SECONDS.get(timing[2] or "", 1e-6)
        else:
            said = self.tally.server_ms / 1000 if self.tally is not None else 0.0
        return min(said, self.seconds)

    @property
    def network_seconds(self) -> float:
        """How long it was waited for beyond that: the way there and back, and HTTP on both sides."""
        return self.seconds - self.server_seconds


class Observer(Protocol):
    """Is told of every exchange of a transport, in the thread that made it, and must not raise."""

    def exchanged(self, exchange: Exchange) -> None:
        """Take in an exchange that is over, well or not."""

    def understood(self, exchange: Exchange) -> None:
        """Take in the same exchange again when its answer was read: it has its `Tally` now."""


def keep(body: bytes | None) -> bytes | None:
    """Give a body if it is small enough to be kept."""
    return body if body is not None and len(body) <= WHOLE else None


def read(
    exchange: Exchange, request: PipelineRequest, response: PipelineResponse, *, encoding: float, decoding: float
) -> None:
    """Note what an answer held; large bodies are noted in outline."""
    exchange.encoding, exchange.decoding = encoding, decoding
    exchange.tally = tally(response.results)
    if exchange.sent is None:
        exchange.sent = outline(request)
    if exchange.received is None:
        exchange.received = outline(response)


def tally(entries: Sequence[Entry]) -> Tally:
    """Count what the statements of an answer did."""
    counts = Tally()
    for entry in entries:
        match entry:
            case OkEntry(ExecuteResponse(result)):
                counts.add(result)
            case OkEntry(BatchResponse(batch)):
                for one in batch.step_results:
                    if one is not None:
                        counts.add(one)
                for _ in filter(None, batch.step_errors):
                    counts.fail()
            case ErrorEntry():
                counts.fail()
    return counts
