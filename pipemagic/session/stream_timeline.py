"""The history of a stream: its requests, its transactions, and its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pipemagic.client.tracing import TracedRequest
from pipemagic.hrana.stream import IDLE_LIMIT, TRANSACTION_LIMIT

_ENDS = {
    "open": f"open; expires {IDLE_LIMIT:.0f} s after the last response",
    "closed": "closed in the last request",
    "expired": f"expired: no request for {IDLE_LIMIT:.0f} s",
    "lost": "lost: the response was incomplete, or the server refused the request",
}


class TraceEvent(NamedTuple):
    """A request with the batons that were sent and received, and its number in the displayed cell."""

    request: TracedRequest
    sent: str
    received: str
    number: int | None


@dataclass
class StreamTimeline:
    """The requests of one stream, and its state: ``open``, ``closed``, ``expired`` or ``lost``."""

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
        """The time of its last response."""
        return self.events[-1].request.ended

    @property
    def ended(self) -> float:
        """The time when it ended, or will end without another request."""
        return self.answered + IDLE_LIMIT if self.end in ("open", "expired") else self.answered

    @property
    def transactions(self) -> list[tuple[int, int | None]]:
        """The indexes of the requests that began and ended each transaction; None for the end of an open one."""
        found: list[tuple[int, int | None]] = []
        opened: int | None = None
        for index, event in enumerate(self.events):
            state = event.request.transaction_open
            if state and opened is None:
                opened = index
            elif state is False and opened is not None:
                found.append((opened, index))
                opened = None
        return found if opened is None else [*found, (opened, None)]

    def add(self, event: TraceEvent) -> None:
        """Add the next request."""
        status = event.request.status
        if status == 400 and event.sent and self.events:
            self.end = "expired"  # the server no longer knows the baton; nothing of the request ran
            return
        self.events.append(event)
        self.end = "lost" if status != 200 else "open" if event.received else "closed"

    def lines(self, *, stable: bool = False) -> list[str]:
        """Return a line for each event, with ``stable`` without times."""
        begun, over = ({one[side] for one in self.transactions} for side in (0, 1))
        lines, indent, answered = [f"The stream of {self.connection}:"], "" if stable else " " * 11, self.started
        for index, (request, _, _, number) in enumerate(self.events):
            if not stable and (idle := request.started - answered) > 0.1:
                lines.append(f"  {indent}idle for {idle:.1f} of {IDLE_LIMIT:.0f} s")
            answered = request.ended
            time = "" if stable else f"{request.started - self.started:7.3f} s  "
            notes = [
                f"request {number}" if number else "a request of an earlier cell",
                " opens the stream" if not index and self.from_the_start else "",
                f"; a transaction is open, for at most {TRANSACTION_LIMIT:.0f} s" if index in begun else "",
                "; the transaction has ended" if index in over else "",
            ]
            lines.append(f"  {time}{''.join(notes)}")
        return [*lines, f"  {indent}{_ENDS[self.end]}"]


def timelines(events: Sequence[TraceEvent], now: float) -> list[StreamTimeline]:
    """Group requests into streams, by the batons that connect them."""
    found: list[StreamTimeline] = []
    by_baton: dict[tuple[str, str], StreamTimeline] = {}
    for event in events:
        connection, path = event.request.connection, event.request.path
        if "/pipeline" not in path and "/cursor" not in path:
            continue
        stream = by_baton.pop((connection, event.sent), None) if event.sent else None
        if stream is None:
            stream = StreamTimeline(connection, from_the_start=not event.sent)
            found.append(stream)
        stream.add(event)
        if event.received:
            by_baton[connection, event.received] = stream
    for stream in found:
        if stream.end == "open" and now - stream.answered > IDLE_LIMIT:
            stream.end = "expired"
    return found
