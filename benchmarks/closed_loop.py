"""Clients in a closed loop: each sends its next request after the response. Raw sockets, one event loop.

It must be cheaper than the server that it measures: a request takes some 30 us of one core.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

ROWS = 1000
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS load(id INTEGER PRIMARY KEY, v INTEGER NOT NULL, s TEXT)",
    f"INSERT INTO load WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {ROWS}) "
    "SELECT x, 0, 'row number ' || x FROM c",
)
READ = "SELECT id, v, s FROM load WHERE id = ?"
WRITE = "UPDATE load SET v = v + 1 WHERE id = ?"


@dataclass
class Outcome:
    """The result of a run. ``latencies`` are in seconds; ``writes`` is the number of acknowledged writes."""

    seconds: float = 0.0
    generator_seconds: float = 0.0  # of processor time
    latencies: list[float] = field(default_factory=list)
    writes: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Requests per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: int) -> float:
        """Return a percentile of the latencies, in seconds."""
        return statistics.quantiles(self.latencies, n=100)[share - 1]


class Client(asyncio.Protocol):
    """One connection, used until ``end`` (of the clock); failed requests are recorded."""

    def __init__(self, requests: Iterator[tuple[bool, bytes]], end: float, outcome: Outcome) -> None:
        self.requests, self.end, self.outcome = requests, end, outcome
        self.done = asyncio.get_running_loop().create_future()
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._send()

    def _send(self) -> None:
        self.writes, request = next(self.requests)
        self.sent = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Search for the end of a response."""
        self.buffer += data
        head, blank, body = self.buffer.partition(b"\r\n\r\n")
        if not blank or len(body) < int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]):
            return
        now = time.perf_counter()
        if not head.startswith(b"HTTP/1.1 200") or b'"type":"error"' in body:
            self.outcome.failures.append(self.buffer.decode("utf-8", "replace"))
        else:
            self.outcome.latencies.append(now - self.sent)
            self.outcome.writes += self.writes
        self.buffer = b""
        if now < self.end:
            self._send()
        else:
            self.done.set_result(None)
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Record a connection that was closed too early."""
        self._fail(f"the server closed the connection: {error}")

    def _fail(self, why: str) -> None:
        if not self.done.done():
            self.outcome.failures.append(why)
            self.done.set_result(None)
            self.transport.close()


def bodies(number: int, *, writes_in_100: int) -> Iterator[tuple[bool, bytes]]:
    """Yield the bodies of one client endlessly, and whether each writes."""
    for count in itertools.count(number * 37):
        key, writes = (count * 7919) % ROWS + 1, count % 100 < writes_in_100
        yield (
            writes,
            (
                f'{{"requests":[{{"type":"execute","stmt":{{"sql":"{WRITE if writes else READ}",'
                f'"args":[{{"type":"integer","value":"{key}"}}]}}}},{{"type":"close"}}]}}'
            ).encode(),
        )


def requests(number: int, headers: Mapping[str, str], *, writes_in_100: int) -> Iterator[tuple[bool, bytes]]:
    """Yield the requests of one client, head and body."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    for writes, body in bodies(number, writes_in_100=writes_in_100):
        yield writes, f"POST /v2/pipeline HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def load(
    port: int, headers: list[Mapping[str, str]], *, clients: int, seconds: float, writes_in_100: int = 10
) -> Outcome:
    """Run ``clients`` against a server on loopback for some seconds; they use the ``headers`` in turn."""
    outcome, loop = Outcome(), asyncio.get_running_loop()
    began, processor = time.perf_counter(), time.process_time()
    all_done = []
    for number in range(clients):
        feed = requests(number, headers[number % len(headers)], writes_in_100=writes_in_100)
        _, client = await loop.create_connection(
            lambda feed=feed: Client(feed, began + seconds, outcome), "127.0.0.1", port
        )
        all_done.append(client.done)
    await asyncio.wait_for(asyncio.gather(*all_done), seconds + 30)
    outcome.seconds, outcome.generator_seconds = time.perf_counter() - began, time.process_time() - processor
    return outcome
