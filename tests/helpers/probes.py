"""Raw requests of attackers."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from metrics_page import read_samples
from served import Served

HOST = "127.0.0.1"
WAIT = 30.0
PING = b'{"requests":[{"type":"execute","stmt":{"sql":"SELECT 1"}},{"type":"close"}]}'
"""The body of a valid pipeline."""
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


def pipeline(*statements: str | dict[str, Any], baton: str | None = None, close: bool = True) -> bytes:
    """Return the body of a pipeline request; statements are texts or whole ``stmt`` objects."""
    steps = [{"sql": statement} if isinstance(statement, str) else statement for statement in statements]
    requests: list[Any] = [{"type": "execute", "stmt": stmt} for stmt in steps]
    return json.dumps({"baton": baton, "requests": requests + [{"type": "close"}] * close}).encode()


def request(method: str, path: str, *lines: str, body: bytes = b"", length: int | None = None) -> bytes:
    """Return a request as bytes; ``length`` overrides the declared length of the body."""
    declared = len(body) if length is None else length
    head = [f"{method} {path} HTTP/1.1", f"Host: {HOST}", *lines, f"Content-Length: {declared}"]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body


def raw_post(token: str, *lines: str, body: bytes = PING, path: str = "/v2/pipeline") -> bytes:
    """Return a request as bytes; the length of its body is up to ``lines``."""
    head = [f"POST {path} HTTP/1.1", f"Host: {HOST}", f"Authorization: Bearer {token}", *lines, "Connection: close"]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body


def post_sql(token: str, *statements: str | dict[str, Any], scheme: str = "Bearer ", keep: bool = True) -> bytes:
    """Return a pipeline request as bytes; ``scheme`` stands before the token."""
    lines = [f"Authorization: {scheme}{token}", *([] if keep else ["Connection: close"])]
    return request("POST", "/v2/pipeline", *lines, body=pipeline(*statements))


@contextmanager
def connections(service: Served, count: int, *, receive_buffer: int | None = None) -> Iterator[list[socket.socket]]:
    """Open connections to a service; they are closed at the end of the block."""
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            connection = socket.socket()
            opened.append(connection)
            if receive_buffer is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            connection.settimeout(WAIT)
            connection.connect((HOST, service.port))
        yield opened
    finally:
        for connection in opened:
            connection.close()


def exchange(service: Served, data: bytes, *, timeout: float = WAIT) -> bytes:
    """Send bytes on a connection and return all that arrives until the service closes it or is silent."""
    with socket.create_connection((HOST, service.port), timeout=timeout) as connection:
        received = b""
        with suppress(ConnectionError):  # the service may respond and close before it has read everything
            connection.sendall(data)
        with suppress(TimeoutError, ConnectionError):
            while chunk := connection.recv(65536):
                received += chunk
        return received


def statuses(received: bytes) -> list[int]:
    """Return the status of each response."""
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


def answered(connections: Sequence[socket.socket]) -> list[socket.socket]:
    """Return the connections on which something has arrived."""
    return select.select(connections, [], [], 0)[0]


def open_streams(service: Served) -> float:
    """Return how many streams are open, those of running statements included."""
    return read_samples(service.metrics())["pipemagic_streams_open",]
