"""What the cells of a session said to their servers: the exchanges of late, counts of all."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING

from pipemagic.client.exchanges import Exchange
from pipemagic.session.transcripts import Passage, Transcript

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.secrets import Token
    from pipemagic.client.transport import Transport

KEPT = 200
"""How many exchanges are kept; with bodies of at most 16 KB each way that is some MB at the very most."""


@dataclass
class Counts:
    """What went over the wire of one connection. Bytes are those of bodies, compressed where they were."""

    round_trips: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    statements: int = 0
    errors: int = 0
    rows_read: int = 0
    rows_written: int = 0
    retries: int = 0
    streams_reopened: int = 0
    seconds: float = 0.0

    def exchanged(self, exchange: Exchange) -> None:
        """Count an exchange."""
        self.round_trips += exchange.attempts
        self.retries += exchange.attempts - 1
        self.bytes_sent += exchange.sent_size * exchange.attempts
        self.bytes_received += exchange.received_size
        self.seconds += exchange.seconds
        self.errors += bool(exchange.error)
        self.statements += exchange.status == 200 and exchange.path.endswith("/cursor")  # which has one, uncounted

    def understood(self, exchange: Exchange) -> None:
        """Count what its statements did."""
        self.streams_reopened += exchange.reopened
        if (tally := exchange.tally) is not None:
            self.statements += tally.statements
            self.errors += tally.errors
            self.rows_read += tally.rows_read
            self.rows_written += tally.rows_written

    def add(self, other: Counts) -> None:
        """Add those of another connection."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


class Wire:
    """Records the exchanges of all connections of a session.

    ``on`` tells whether a notebook shows those of each cell below it, ``only`` of which connection, ``stable`` leaves
    out what differs between two runs. What is kept is bounded: the newest `KEPT` exchanges, large bodies only in
    outline.
    """

    def __init__(self) -> None:
        self.on = False
        self.stable = False
        self.only: str | None = None
        self.counts: dict[str, Counts] = {}
        self._kept: deque[Passage] = deque(maxlen=KEPT)
        self._cell = 0
        self._numbers = 0
        self._begun = 0.0
        self._recorded: dict[int, float] = {}  # how long the cells took whose exchanges are kept
        self._lock = threading.Lock()

    def watch(self, name: str, transport: Transport) -> None:
        """Record what goes over a transport, under the name of its connection."""
        transport.observer = _Recorder(self, name, transport)

    @property
    def last(self) -> Transcript:
        """What the last cell said that said anything; an empty transcript if none did."""
        return self.transcript(only=self.only, stable=self.stable)

    def transcript(self, *, only: str | None = None, stable: bool = False) -> Transcript:
        """Give what the last cell said, on all connections or on one; ``stable`` without what differs between runs."""
        with self._lock:
            kept = list(self._kept)
        number = max((passage.cell for passage in kept), default=0)
        return Transcript(kept, number, self._recorded.get(number, 0.0), stable=stable, only=only)

    def newest(self, count: int) -> list[Passage]:
        """Give the newest exchanges, the newest first."""
        with self._lock:
            return list(islice(reversed(self._kept), count))

    def begin(self) -> None:
        """Begin a cell, unless one has begun: all exchanges until `end` are its own."""
        if not self._cell:
            self._numbers += 1
            self._cell, self._begun = self._numbers, perf_counter()

    def end(self) -> bool:
        """End the cell; tells whether it had exchanges."""
        number, self._cell = self._cell, 0
        if number not in self._recorded:
            return False
        self._recorded[number] = perf_counter() - self._begun
        return True

    @contextmanager
    def cell(self) -> Iterator[None]:
        """Take what happens inside as one cell, if it is not part of one already."""
        if self._cell:
            yield
            return
        self.begin()
        try:
            yield
        finally:
            self.end()

    def stats(self, *, seconds: bool = False) -> DataFrame:
        """Give the counts as a frame: a row for each connection, in the order of their first exchange, and the total.

        ``seconds`` adds how long they were waited for.
        """
        from pandas import DataFrame

        total = Counts()
        for counts in self.counts.values():
            total.add(counts)
        names = [one.name for one in fields(Counts) if seconds or one.name != "seconds"]
        rows = [[getattr(counts, name) for name in names] for counts in (*self.counts.values(), total)]
        index = [*self.counts, "total"]
        return DataFrame(rows, index=index, columns=[name.replace("_", " ") for name in names])

    def reset(self) -> None:
        """Begin to count anew."""
        self.counts.clear()

    def _exchanged(self, name: str, exchange: Exchange, token: Token) -> None:
        with self._lock:
            self._kept.append(Passage(name, self._cell, exchange, token))
            if self._cell:
                self._recorded.setdefault(self._cell, 0.0)
                if len(self._recorded) > KEPT:
                    del self._recorded[next(iter(self._recorded))]
            self.counts.setdefault(name, Counts()).exchanged(exchange)

    def _understood(self, name: str, exchange: Exchange) -> None:
        with self._lock:
            self.counts.setdefault(name, Counts()).understood(exchange)


class _Recorder:
    """The observer of one connection."""

    def __init__(self, wire: Wire, name: str, transport: Transport) -> None:
        self._wire, self._name, self._transport = wire, name, transport

    def exchanged(self, exchange: Exchange) -> None:
        self._wire._exchanged(self._name, exchange, self._transport.token)

    def understood(self, exchange: Exchange) -> None:
        self._wire._understood(self._name, exchange)
