"""Records of requests: bodies, outcome and timing.

A transport with an observer creates a `TracedRequest` for each request. Recording takes some microseconds, whatever the
size: bodies are referenced, never copied or read again, and only an outline of large ones is kept.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from pipemagic.client.address import Endpoint
from pipemagic.client.trace_format import Json, format_seconds, outline
from pipemagic.hrana.messages import (
    BatchResponse,
    ErrorEntry,
    ExecuteResponse,
    OkEntry,
    PipelineRequest,
    PipelineResponse,
    StmtResult,
)

BODY_LIMIT = 16 * 1024
"""The maximum size in bytes of a body that is kept unchanged; larger pipeline bodies are outlined."""

HEAD = 2048
"""The approximate number of bytes that are kept of the start of a streamed response."""

_DURATION = re.compile(r"[^;,]*;\s*dur=([0-9.]+)\s*(ns|\S{0,2}\u00b5s|ms|s)?")
_SECONDS = {"ns": 1e-9, "s": 1.0, "ms": 1e-3, "": 1e-3}  # milliseconds, by the specification


@dataclass(slots=True)
class Tally:
    """Totals of the statements of a response; ``server_ms`` is their time as reported by the server."""

    statements: int = 0
    errors: int = 0
    rows: int = 0
    rows_read: int = 0
    rows_written: int = 0
    server_ms: float = 0.0


@dataclass(frozen=True)
class Timing:
    """The time of requests by part, in seconds."""

    client: float
    network: float
    server: float

    def __str__(self) -> str:
        parts = {"client": self.client, "network": self.network, "server": self.server}
        return ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in parts.items())


@dataclass(slots=True, eq=False)
class RequestOrigin:
    """The origin of requests: a cell of the session of ``owner``, or a task of a background thread.

    ``seconds`` is its duration, None while it runs. Later requests do not belong to it.
    """

    name: str = "a cell"
    owner: object = None
    started: float = 0.0
    seconds: float | None = None


current_origin: ContextVar[RequestOrigin | None] = ContextVar("current_origin", default=None)
"""The origin of the requests that are made in this context; a new thread has none."""


@dataclass(slots=True, eq=False)
class TracedRequest:
    """One request and its outcome.

    Times are in seconds of ``time.perf_counter``; ``encoding`` and ``decoding`` are for JSON. Sizes are those of the
    bodies as sent, compressed or not. ``sent`` and ``received`` are None for a body that was too large to keep, or
    streamed. ``status`` is None without a response; ``error`` is then the reason. ``attempts`` counts how often the
    request was sent, again after 429 and 503. ``tally`` is None for requests other than pipelines. ``transaction_open``
    is the state after the request, None if unknown. ``reopened`` is True if the request opened a stream that replaced
    an ended one. A session sets ``connection``, and as ``limits`` what the server says about them (`LIMITS_HEADER`).
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
    connection: str = ""
    limits: str = ""
    origin: RequestOrigin | None = field(default_factory=current_origin.get, repr=False)

    @property
    def host(self) -> str:
        """The host of the address, without a port."""
        return self.endpoint.named_host

    @property
    def seconds(self) -> float:
        """The time until the response was complete."""
        return self.ended - self.started

    @property
    def timing(self) -> Timing:
        """The time by part: on the server as reported, the rest of the waiting, and JSON in the client."""
        if reported := _DURATION.match(self.server_timing):  # the first entry is that of the whole request
            server = float(reported[1]) * _SECONDS.get(reported[2] or "", 1e-6)
        else:
            server = self.tally.server_ms / 1000 if self.tally is not None else 0.0
        server = min(server, self.seconds)
        return Timing(self.encoding + self.decoding, self.seconds - server, server)

    def add_results(self, sent: PipelineRequest, response: PipelineResponse) -> None:
        """Add the totals of the statements, and keep outlines of large bodies."""
        results: list[StmtResult] = []
        errors = 0
        for entry in response.results:
            match entry:
                case OkEntry(ExecuteResponse(result)):
                    results.append(result)
                case OkEntry(BatchResponse(batch)):
                    results.extend(filter(None, batch.step_results))
                    errors += sum(error is not None for error in batch.step_errors)
                case ErrorEntry():
                    errors += 1
        self.tally = Tally(len(results) + errors, errors)
        for result in results:
            self.tally.rows += len(result.rows)
            self.tally.rows_read += result.rows_read or 0
            self.tally.rows_written += result.rows_written or 0
            self.tally.server_ms += result.query_duration_ms or 0.0
        if self.sent is None:
            self.sent = outline(sent)
        if self.received is None:
            self.received = outline(response)


class Observer(Protocol):
    """Receives each request of a transport once, in its thread; must not raise."""

    def exchanged(self, request: TracedRequest) -> None:
        """Receive a request that failed, or after its response was read."""
