"""Requests a second of `SELECT 1` and close, the service beside sqld, over a few connections at once."""

from __future__ import annotations

import asyncio
import time

from benchmarks.measure import Line, interleave
from benchmarks.servers import Target

BODY = b'{"requests":[{"type":"execute","stmt":{"sql":"SELECT 1"}},{"type":"close"}]}'


class Caller(asyncio.Protocol):
    """One connection: sends the next request as soon as an answer is whole. Cheap, so that it is not measured."""

    def __init__(self, request: bytes, wanted: int, done: asyncio.Future[None]) -> None:
        self.request, self.wanted, self.done = request, wanted, done
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Look for the end of an answer."""
        self.buffer += data
        head, blank, body = self.buffer.partition(b"\r\n\r\n")
        if not blank or len(body) < length_of(head):
            return
        if not head.startswith(b"HTTP/1.1 200") or b'"type":"error"' in body:
            self.done.set_exception(RuntimeError(self.buffer.decode("utf-8", "replace")))
            self.transport.close()
            return
        self.buffer = b""
        self.wanted -= 1
        if self.wanted:
            self.transport.write(self.request)
        else:
            self.done.set_result(None)
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail if it was too early."""
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed the connection"))


def length_of(head: bytes) -> int:
    """Read Content-Length."""
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])


async def load(target: Target, connections: int, each: int) -> float:
    """Send ``each`` requests over each connection; gives requests a second."""
    head = "".join(f"{name}: {value}\r\n" for name, value in target.headers.items())
    request = f"POST /v2/pipeline HTTP/1.1\r\nContent-Length: {len(BODY)}\r\n{head}\r\n".encode() + BODY
    loop = asyncio.get_running_loop()
    all_done = [loop.create_future() for _ in range(connections)]
    start = time.perf_counter()
    for done in all_done:
        await loop.create_connection(lambda done=done: Caller(request, each, done), "127.0.0.1", target.port)
    await asyncio.gather(*all_done)
    return connections * each / (time.perf_counter() - start)


def measure(service: Target, sqld: Target | None, rounds: int, each: int) -> list[Line]:
    """Compare both servers with one connection and with eight."""
    lines = []
    for connections in (1, 8):
        candidates = {"service": lambda n=connections: asyncio.run(load(service, n, each // n))}
        if sqld is not None:
            candidates["sqld"] = lambda n=connections: asyncio.run(load(sqld, n, each // n))
        values = interleave(rounds, candidates)
        plural = "connection" if connections == 1 else "connections"
        lines.append(
            Line(
                f"SELECT 1 + close, {connections} {plural}", "requests/s", values["service"],
                "sqld" if sqld else "", values.get("sqld"), aim=1.0 if sqld else None, at_most=False,
            )
        )  # fmt: skip
    return lines
