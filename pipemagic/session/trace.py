"""Recorded requests of a session, traces of cells, and totals for each connection."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from itertools import islice
from operator import add
from time import perf_counter
from typing import TYPE_CHECKING

from pipemagic.client.trace_format import Json, baton_of, format_json, idle_limit_of, outline, parse_body, redact
from pipemagic.client.tracing import RequestOrigin, Tally, Timing, TracedRequest, current_origin
from pipemagic.session.stream_timeline import StreamTimeline, TraceEvent, timelines
from pipemagic.text import escape_controls, format_size, plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.secrets import Token
    from pipemagic.client.transport import Transport

CAPACITY = 200
"""The number of requests that are kept; with bodies of at most 16 kB each way they take a few MB."""

DURATIONS = ("duration_ms", "_seconds")
"""The ends of the names of fields that differ between runs, unlike ``stream_ttl_ms``."""

TOTALS = (
    "round trips", "bytes sent", "bytes received", "statements", "errors", "rows read", "rows written", "retries",
    "streams reopened", "seconds",
)  # fmt: skip
"""The totals of each connection. Bytes are those of bodies as sent, compressed or not."""


class RequestRecorder:
    """Records the requests of all connections of a session.

    ``on`` is whether a notebook shows the requests of each cell below it, ``only`` for which connection; ``stable``
    omits everything that differs between runs. At most `CAPACITY` requests are kept, with an outline of large bodies.
    """

    def __init__(self) -> None:
        self.on = False
        self.stable = False
        self.only: str | None = None
        self.totals: dict[str, list[float]] = {}
        self._requests: deque[tuple[TracedRequest, Token]] = deque(maxlen=CAPACITY)
        self._cell: RequestOrigin | None = None
        self._lock = threading.Lock()

    def watch(self, name: str, transport: Transport) -> None:
        """Record the requests of a transport under the name of its connection."""
        transport.observer = _ConnectionRecorder(self, name, transport)

    @property
    def last(self) -> Trace:
        """The requests of the last cell that made any; an empty trace if none did."""
        return self.trace(only=self.only, stable=self.stable)

    def trace(self, *, only: str | None = None, stable: bool = False) -> Trace:
        """Return the trace of the last cell, on all connections or one; ``stable`` omits what differs between runs."""
        with self._lock:
            requests = [request for request, _ in self._requests]
        cells = [request.origin for request in requests if request.origin is not None and request.origin.owner is self]
        matching = [request for request in requests if only in (None, request.connection)]
        return Trace(matching, cells[-1] if cells else None, self.redactor(), stable=stable)

    def newest(self, count: int) -> list[TracedRequest]:
        """Return the newest requests, the newest first."""
        with self._lock:
            return [request for request, _ in islice(reversed(self._requests), count)]

    def redactor(self) -> Callable[[str], str]:
        """Return a function that masks the tokens of the kept requests, and text that looks like a token."""
        with self._lock:
            tokens = {token for _, token in self._requests}
        return lambda text: redact(reduce(lambda part, token: token.redact(part), tokens, text))

    def begin(self) -> None:
        """Begin a cell, unless one is running: the requests of this context are part of it until `end`."""
        if self._cell is None:
            self._cell = RequestOrigin(owner=self, started=perf_counter())
        current_origin.set(self._cell)

    def end(self) -> bool:
        """End the cell; return True if it made requests."""
        cell, self._cell = self._cell, None
        if cell is None:
            return False
        cell.seconds = perf_counter() - cell.started
        current_origin.set(None)
        return any(request.origin is cell for request in self.newest(CAPACITY))

    @contextmanager
    def cell(self) -> Iterator[None]:
        """Record the requests inside the block as one cell, unless a cell is running."""
        current = current_origin.get()
        if current is not None and current.owner is self and current.seconds is None:
            yield
            return
        cell = RequestOrigin(owner=self, started=perf_counter())
        before = current_origin.set(cell)
        try:
            yield
        finally:
            current_origin.reset(before)
            cell.seconds = perf_counter() - cell.started

    def stats(self, *, seconds: bool = False) -> DataFrame:
        """Return the totals as a frame: a row for each connection, in the order of their first requests, and the sums.

        With ``seconds`` it has a column with the waiting time.
        """
        from pandas import DataFrame

        rows = list(self.totals.values())
        rows.append([sum(column) for column in zip([0] * len(TOTALS), *rows, strict=True)])
        frame = DataFrame(rows, index=[*self.totals, "total"], columns=list(TOTALS))
        return frame if seconds else frame.drop(columns="seconds")

    def reset(self) -> None:
        """Set the totals to zero."""
        self.totals.clear()


class _ConnectionRecorder:
    """The observer of one connection."""

    def __init__(self, recorder: RequestRecorder, name: str, transport: Transport) -> None:
        self._recorder, self._name, self._transport = recorder, name, transport

    def exchanged(self, request: TracedRequest) -> None:
        recorder, tally = self._recorder, request.tally or Tally()
        request.connection, request.limits = self._name, self._transport.limits
        if request.origin is not None and request.origin.seconds is not None:
            request.origin = None
        # A cursor has one statement, which the server does not count.
        cursor = request.status == 200 and request.path.endswith("/cursor")
        amounts = (
            request.attempts, request.sent_size * request.attempts, request.received_size, tally.statements + cursor,
            tally.errors + bool(request.error), tally.rows_read, tally.rows_written, request.attempts - 1,
            request.reopened, request.ended - request.started,
        )  # fmt: skip
        with recorder._lock:
            recorder._requests.append((request, self._transport.token))
            totals = recorder.totals.get(self._name, [0] * len(TOTALS))
            recorder.totals[self._name] = list(map(add, totals, amounts))


class Trace:
    """The requests of one cell, in order and without tokens.

    ``newest`` are the newest requests, including those of ``cell``; earlier ones show the history of its streams.
    ``redact`` masks tokens in a text. ``stable`` omits what differs between runs: times, sizes, and the
    text of batons.
    """

    def __init__(
        self,
        newest: Sequence[TracedRequest],
        cell: RequestOrigin | None,
        redact: Callable[[str], str] = redact,
        *,
        stable: bool = False,
    ) -> None:
        self.requests = [request for request in newest if cell is not None and request.origin is cell]
        self.stable = stable
        self._newest, self._cell, self._redact = newest, cell, redact

    def __len__(self) -> int:
        return len(self.requests)

    @cached_property
    def batons(self) -> dict[str, str]:
        """The names of the batons, in order of appearance: B1, B2."""
        bodies = (body for request in self.requests for body in (request.sent, request.received))
        batons = dict.fromkeys(filter(None, map(baton_of, bodies)))
        return {
            baton: f"B{number}" if self.stable else f"B{number} (…{baton[-6:]})"
            for number, baton in enumerate(batons, 1)
        }

    @cached_property
    def timelines(self) -> list[StreamTimeline]:
        """The streams that the cell used, from their start if it is still known."""
        numbers = {id(request): number for number, request in enumerate(self.requests, 1)}
        events = [
            TraceEvent(
                request, baton_of(request.sent), baton_of(request.received), numbers.get(id(request)),
                idle_limit_of(request.received),
            )
            for request in self._newest
        ]  # fmt: skip
        now = max((request.ended for request in self._newest), default=0.0) if self.stable else perf_counter()
        return [stream for stream in timelines(events, now) if any(event.number for event in stream.events)]

    @cached_property
    def timing(self) -> Timing:
        """The time of the whole cell by network, server and client; the rest is the client's."""
        timings = [request.timing for request in self.requests]
        network, server = sum(timing.network for timing in timings), sum(timing.server for timing in timings)
        cell = (self._cell and self._cell.seconds) or 0.0
        return Timing(max(cell - network - server, sum(timing.client for timing in timings)), network, server)

    def body(self, body: bytes | Json) -> Json:
        """Return the outline of the body of a request or a response; None if there is none to show."""
        return self._named(outline(parse_body(body)) if isinstance(body, bytes) else body)

    def headline(self, number: int) -> str:
        """Return a line on a request and its outcome."""
        request = self.requests[number - 1]
        status = f"HTTP {request.status}" if request.status is not None else "no response"
        again = f", sent {request.attempts} times" if request.attempts > 1 else ""
        line = f"{number}. {request.connection}: {request.method} {redact(request.path)} → {status}{again}"
        return line if self.stable else f"{line}; {_sizes([request])}; {request.timing}"

    def summary(self) -> str:
        """Return a line on the whole cell."""
        if not self.requests:
            return "No cell has sent a request yet."
        line = plural(len(self.requests), "request")
        return f"{line}." if self.stable else f"{line}, {_sizes(self.requests)}; {self.timing}."

    def __str__(self) -> str:
        lines = [self.summary()]
        for number, request in enumerate(self.requests, 1):
            lines += ["", self.headline(number)]
            lines += self._body_lines("→", request.sent, request.sent_size)
            lines += self._body_lines("←", request.received, request.received_size)
            lines += [f"✗ {request.error}"] if request.error else []
        for stream in self.timelines:
            lines += ["", *stream.lines(stable=self.stable)]
        return escape_controls("\n".join(lines), keep="\n\t")

    __repr__ = __str__

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        from pipemagic.session import trace_html

        sections = [
            trace_html.Section(
                self.headline(number), self.body(request.sent), request.sent_size,
                self.body(request.received), request.received_size, request.error,
            )
            for number, request in enumerate(self.requests, 1)
        ]  # fmt: skip
        timing = self.timing if self.requests and not self.stable else None
        page = trace_html.page(self.summary(), timing, sections, self.timelines, stable=self.stable)
        return {"text/plain": str(self), "text/html": page}

    def _body_lines(self, mark: str, body: bytes | Json, size: int) -> list[str]:
        value = self.body(body)
        if value is None:
            return [f"{mark} ({format_size(size)}, not kept)"] if size else []
        return f"{mark} {format_json(value)}".replace("\n", "\n  ").split("\n")

    def _named(self, value: Json) -> Json:
        """Replace batons by names and mask tokens; for a stable trace replace durations, too."""
        if isinstance(value, dict):
            return {
                key: self.batons.get(str(inner), "…") if key == "baton" and inner
                else "…" if self.stable and key.endswith(DURATIONS)
                else self._named(inner)
                for key, inner in value.items()
            }  # fmt: skip
        if isinstance(value, list):
            return [self._named(inner) for inner in value]
        return self._redact(value) if isinstance(value, str) else value


def _sizes(requests: Sequence[TracedRequest]) -> str:
    sent, received = sum(request.sent_size for request in requests), sum(request.received_size for request in requests)
    return f"{format_size(sent)} out, {format_size(received)} in"
