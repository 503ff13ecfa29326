"""Recorded requests of a session, traces of cells, the time lines of their streams, and totals for each connection."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import islice
from operator import add
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from pipemagic.client.trace_format import Json, baton_of, format_json, idle_limit_of, outline, parse_body, redact
from pipemagic.client.tracing import RequestOrigin, Tally, Timing, TracedRequest, current_origin
from pipemagic.hrana.stream import IDLE_LIMIT, RELAXED, STRICT, TRANSACTION_LIMIT
from pipemagic.text import escape_controls, format_limit, format_size, plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.secrets import HeaderSecret
    from pipemagic.client.transport import Transport

CAPACITY = 200
"""The number of requests that are kept; with bodies of at most 16 kB each way they take a few MB."""

DURATIONS = ("duration_ms", "_seconds")
"""The ends of the names of fields that differ between runs, unlike ``stream_ttl_ms``."""

TOTALS = (
    "round trips", "bytes sent", "bytes received", "statements", "errors", "rows read", "rows written", "retries",
    "streams reopened", "seconds",
)  # fmt: skip
"""The totals of each connection. Bytes are the sizes of bodies as sent, compressed or not."""

UNSTABLE_TOTALS = ["bytes sent", "bytes received", "seconds"]
"""The totals that differ between runs: batons and times are part of bodies."""


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
        self._requests: deque[tuple[TracedRequest, tuple[HeaderSecret, ...]]] = deque(maxlen=CAPACITY)
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
        """Return a function that masks the secrets of the kept requests, and text that looks like a token."""
        with self._lock:
            secrets = {secret for _, secrets in self._requests for secret in secrets}
        return lambda text: redact(reduce(lambda part, secret: secret.redact(part), secrets, text))

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

    def stats(self, *, only: str | None = None, stable: bool = False) -> DataFrame:
        """Return the totals as a frame: a row for each connection, in the order of their first requests, and the sums.

        The column ``seconds`` is the waiting time. With ``only``, the frame has the row of that connection alone;
        with ``stable``, it omits bytes and seconds, which differ between runs.
        """
        from pandas import DataFrame

        totals = self.totals if only is None else {only: self.totals.get(only, [0] * len(TOTALS))}
        rows = list(totals.values())
        if only is None:
            rows.append([sum(column) for column in zip([0] * len(TOTALS), *rows, strict=True)])
        frame = DataFrame(rows, index=[*totals, *(["total"] if only is None else [])], columns=list(TOTALS))
        return frame.drop(columns=UNSTABLE_TOTALS) if stable else frame

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
            recorder._requests.append((request, (self._transport.token, self._transport.key)))
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


# -- time lines of streams

_ENDS = {
    "open": "open; expires {limit} after the last response",
    "closed": "closed in the last request",
    "overdue": "probably expired: no request for {limit}",
    "expired": "expired: the server no longer knows it",
    "lost": "lost: the response was incomplete, or the server refused the request",
}

_HOW_LONG = {STRICT: "at most", RELAXED: "at least"}
"""How long a transaction may last, compared with its limit, by what the server says about its limits."""

_GONE = frozenset({400, 404, 410})
"""The statuses with which servers refuse the baton of a stream that has ended; nothing of the request ran."""


class TraceEvent(NamedTuple):
    """A request, the batons that were sent and received, its number in the displayed cell.

    ``idle_limit`` is the number of seconds for which the stream lives after the response, None if the server does not
    say it.
    """

    request: TracedRequest
    sent: str
    received: str
    number: int | None
    idle_limit: float | None = None

    @property
    def refused(self) -> bool:
        """Whether the server refused the baton."""
        return bool(self.sent) and self.request.status in _GONE


@dataclass
class StreamTimeline:
    """The requests of one stream, and its state: ``open``, ``closed``, ``overdue``, ``expired`` or ``lost``.

    It is ``overdue`` if its idle time has passed, and ``expired`` if the server has refused its baton.
    """

    connection: str
    from_the_start: bool = True
    events: list[TraceEvent] = field(default_factory=list)
    end: str = "open"

    @property
    def started(self) -> float:
        """The time of its first known request."""
        return self.events[0].request.started

    @property
    def answered(self) -> float:
        """The time of its last response, without a refusal."""
        return next((event.request.ended for event in reversed(self.events) if not event.refused), self.started)

    @property
    def ended(self) -> float:
        """The time when it ended, or will end without another request."""
        last = self.events[-1].request.ended
        return self.answered + self.idle_limit if self.end in ("open", "overdue") else last

    @property
    def named_limit(self) -> float | None:
        """The seconds without a request after which it ends, as the server names them."""
        return next((event.idle_limit for event in reversed(self.events) if event.received), None)

    @property
    def idle_limit(self) -> float:
        """The seconds without a request after which it ends: an estimate if the server does not name them."""
        return IDLE_LIMIT if self.named_limit is None else self.named_limit

    @property
    def limit(self) -> str:
        """The idle limit as text."""
        return f"{'about ' if self.named_limit is None else ''}{format_limit(self.idle_limit)}"

    @property
    def transactions(self) -> list[tuple[int, int | None]]:
        """The indexes of the requests that began and ended each transaction; None for the end of an open one."""
        spans: list[tuple[int, int | None]] = []
        start: int | None = None
        for index, event in enumerate(self.events):
            state = event.request.transaction_open
            if state and start is None:
                start = index
            elif state is False and start is not None:
                spans.append((start, index))
                start = None
        return spans if start is None else [*spans, (start, None)]

    def add(self, event: TraceEvent) -> None:
        """Add the next request."""
        self.events.append(event)
        if event.request.status == 200:
            self.end = "open" if event.received else "closed"
        else:
            self.end = "expired" if event.refused else "lost"

    def lines(self, *, stable: bool = False) -> list[str]:
        """Return a line for each event, with ``stable`` without times."""
        begins, ends = ({transaction[side] for transaction in self.transactions} for side in (0, 1))
        lines, indent, response = [f"The stream of {self.connection}:"], "" if stable else " " * 11, self.started
        for index, event in enumerate(self.events):
            request, number = event.request, event.number
            if not stable and (idle := request.started - response) > 0.1:
                lines.append(f"  {indent}idle for {idle:.1f} of {self.limit}")
            response = request.ended
            time = "" if stable else f"{request.started - self.started:7.3f} s  "
            notes = [
                f"request {number}" if number else "a request of an earlier cell",
                " opens the stream" if not index and self.from_the_start else "",
                f"; a transaction is open, for {_HOW_LONG.get(request.limits, 'about')} {TRANSACTION_LIMIT:g} s"
                if index in begins
                else "",
                "; the transaction has ended" if index in ends else "",
                " is refused, nothing of it ran" if event.refused else "",
            ]
            lines.append(f"  {time}{''.join(notes)}")
        return [*lines, f"  {indent}{_ENDS[self.end].format(limit=self.limit)}"]


def timelines(events: Sequence[TraceEvent], now: float) -> list[StreamTimeline]:
    """Group requests into streams, by the batons that connect them."""
    streams: list[StreamTimeline] = []
    by_baton: dict[tuple[str, str], StreamTimeline] = {}
    for event in events:
        connection, path = event.request.connection, event.request.path
        if "/pipeline" not in path and "/cursor" not in path:
            continue
        stream = by_baton.pop((connection, event.sent), None) if event.sent else None
        if stream is None:
            stream = StreamTimeline(connection, from_the_start=not event.sent)
            streams.append(stream)
        stream.add(event)
        if event.received:
            by_baton[connection, event.received] = stream
    for stream in streams:
        if stream.end == "open" and now - stream.answered > stream.idle_limit:
            stream.end = "overdue"
    return streams
