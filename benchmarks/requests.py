"""Measure requests per second of `SELECT 1` and close, and their p99: the service beside sqld."""

from __future__ import annotations

import asyncio
import statistics
import time

from benchmarks import servers
from benchmarks.lines import Line, at_least, at_most
from benchmarks.measure import Plan, interleave
from benchmarks.servers import Target

BODY = b'{"requests":[{"type":"execute","stmt":{"sql":"SELECT 1"}},{"type":"close"}]}'


class Caller(asyncio.Protocol):
    """One connection: sends the next request as soon as a response is complete, with little work."""

    def __init__(self, request: bytes, wanted: int, done: asyncio.Future[list[float]]) -> None:
        self.request, self.wanted, self.done = request, wanted, done
        self.buffer = b""
        self.latencies: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._send()

    def _send(self) -> None:
        self.sent = time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Search for the end of a response."""
        self.buffer += data
        head, blank, body = self.buffer.partition(b"\r\n\r\n")
        if not blank or len(body) < length_of(head):
            return
        self.latencies.append(time.perf_counter() - self.sent)
        if not head.startswith(b"HTTP/1.1 200") or b'"type":"error"' in body:
            self.done.set_exception(RuntimeError(self.buffer.decode("utf-8", "replace")))
            self.transport.close()
            return
        self.buffer = b""
        if len(self.latencies) < self.wanted:
            self._send()
        else:
            self.done.set_result(self.latencies)
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Record a connection that was closed too early."""
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed the connection"))


def length_of(head: bytes) -> int:
    """Read Content-Length."""
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])


async def load(target: Target, connections: int, each: int) -> tuple[float, float]:
    """Send ``each`` requests over each connection; return requests per second and the p99 in seconds."""
    head = "".join(f"{name}: {value}\r\n" for name, value in target.headers.items())
    request = f"POST /v2/pipeline HTTP/1.1\r\nContent-Length: {len(BODY)}\r\n{head}\r\n".encode() + BODY
    loop = asyncio.get_running_loop()
    all_done = [loop.create_future() for _ in range(connections)]
    start = time.perf_counter()
    for done in all_done:
        await loop.create_connection(lambda done=done: Caller(request, each, done), "127.0.0.1", target.port)
    latencies = [one for each_of in await asyncio.gather(*all_done) for one in each_of]
    took = time.perf_counter() - start
    return len(latencies) / took, statistics.quantiles(latencies, n=100)[98]


def measure(plan: Plan) -> list[Line]:
    """Compare both servers with one connection and with sixteen."""
    count, lines = plan.pick(4000, 1600), []
    with servers.service() as service, servers.sqld() as sqld:
        for connections in (1, 16):
            candidates = {
                target.name: lambda target=target, n=connections: asyncio.run(load(target, n, count // n))
                for target in filter(None, (service, sqld))
            }
            values = interleave(plan.rounds, candidates)
            (rates, slowest), (their_rates, their_slowest) = (
                zip(*values[name], strict=True) if name in values else (None, None) for name in ("the service", "sqld")
            )
            beside = "sqld" if sqld else ""
            name = f"SELECT 1 + close, {connections} connection{'s' * (connections > 1)}"
            lines += [
                Line(f"{name}: rate", "requests/s", rates, beside, their_rates, at_least(2)),
                Line(f"{name}: p99", "s", slowest, beside, their_slowest, at_most(1)),
            ]
    return lines
