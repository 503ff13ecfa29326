"""Records of requests: what was sent, what came back, and how long it took.

A transport with an observer makes one `TracedRequest` for each request. Recording costs some microseconds, whatever the
size: bodies are referred to, never copied or read again, and only an outline of large ones is kept.
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
"""Bytes up to which a body is kept unchanged; a larger pipeline body is kept in outline."""

HEAD = 2048
"""Bytes that are kept, about, of the beginning of a streamed response."""

_DURATION = re.compile(r"[^;,]*;\s*dur=([0-9.]+)\s*(ns|\S{0,2}\u00b5s|ms|s)?")
_SECONDS = {"ns": 1e-9, "s": 1.0, "ms": 1e-3, "": 1e-3}  # without a unit: milliseconds, by the specification


@dataclass(slots=True)
class Tally:
    """What the statements of a response did; ``server_ms`` is the time that they took, as reported by the server."""

    statements: int = 0
    errors: int = 0
    rows: int = 0
    rows_read: int = 0
    rows_written: int = 0
    server_ms: float = 0.0


@dataclass(frozen=True)
class Timing:
    """Where the time of requests went, in seconds."""

    client: float
    network: float
    server: float

    def __str__(self) -> str:
        parts = {"client": self.client, "network": self.network, "server": self.server}
        return ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in parts.items())


@dataclass(slots=True, eq=False)
class RequestOrigin:
    """What makes requests: a cell of the session of ``owner``, or a task of a background thread.

    ``seconds`` is how long it took, None while it runs. Requests made afterwards are not its own.
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

    Times are in seconds of ``time.perf_counter``; ``encoding`` and ``decoding`` are the JSON work of the client. Sizes
    are those of the bodies on the wire, compressed where they were. ``sent`` and ``received`` are None for a body that
    was too large to keep, or streamed. ``status`` is None without a response; ``error`` then says why. ``attempts``
    counts how often the request was sent (again after 429). ``tally`` is None for what is not a pipeline.
    ``transaction_open`` is the state after the request, None if unknown. ``reopened`` is true if the request opened a
    stream in the place of one that had ended. A session sets ``connection``.
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
    origin: RequestOrigin | None = field(default_factory=current_origin.get, repr=False)

    @property
    def host(self) -> str:
        """The host that was named, without a port."""
        return self.endpoint.named_host

    @property
    def seconds(self) -> float:
        """The time until the response was complete."""
        return self.ended - self.started

    @property
    def timing(self) -> Timing:
        """Where the time went: the server's own account, the rest of the waiting, and JSON on this side."""
        if reported := _DURATION.match(self.server_timing):  # the first entry is that of the whole request
            server = float(reported[1]) * _SECONDS.get(reported[2] or "", 1e-6)
        else:
            server = self.tally.server_ms / 1000 if self.tally is not None else 0.0
        server = min(server, self.seconds)
        return Timing(self.encoding + self.decoding, self.seconds - server, server)

    def add_results(self, sent: PipelineRequest, response: PipelineResponse) -> None:
        """Count what the statements did, and keep outlines of large bodies."""
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
    """Receives each request of a transport once, in the thread that made it; must not raise.

    An observer may also have a method ``understood``, which gets a request again if it has a `Tally`.
    """

    def exchanged(self, request: TracedRequest) -> None:
        """Take a request whose response was read, or that failed."""
