"""The history of a stream: its requests, its transactions, and its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pipemagic.client.tracing import TracedRequest
from pipemagic.hrana.stream import IDLE_LIMIT, RELAXED, STRICT, TRANSACTION_LIMIT
from pipemagic.text import format_limit

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
