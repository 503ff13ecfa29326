"""Endless bodies and responses that are not read: the memory of the service stays bounded."""

from __future__ import annotations

import select
import socket
import sys
from contextlib import suppress

import psutil
import pytest
from probes import HOST, WAIT, answered, connections, pipeline, request, statuses
from promises import Promise
from served import Served
from waiting import until

pytestmark = [
    pytest.mark.promise(Promise.MEMORY),
    pytest.mark.skipif(sys.platform == "win32", reason="the figures are of Unix processes"),
]

MB = 1024 * 1024
BODIES, BODY, UNFINISHED = 8, 100 * 1000 * 1000, 95 * 1000 * 1000
PIECE = b" " * MB
EARLY = 16 * MB
"""Bytes that may be in the buffers of both sides when the service refuses a body after 64 kB."""
BUDGET = 700 * MB
"""Growth of the memory that all bodies, or all responses, may cause; without a limit it would be 900 MB or more."""
LARGE = "hex(randomblob(500000))"
RESULTS = {
    "large rows": (110, LARGE, "identity"),
    "large rows behind small ones": (2000, f"iif(i <= 1890, '', {LARGE})", "identity"),
    "compressed": (110, LARGE, "gzip"),
}
"""Number of rows, column, and Accept-Encoding, of responses of 110 MB each, compressed some 55 MB."""
SILENCE = 0.5
"""Seconds after which a sender gives up because the service reads nothing."""


class Growth:
    """Measures the maximum growth of a process's resident memory."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._began, self.most = self._process.memory_info().rss, 0

    def sample(self) -> int:
        self.most = max(self.most, self._process.memory_info().rss - self._began)
        return self.most


def send_until_answered(connection: socket.socket, data: bytes, *, size: int, growth: Growth) -> tuple[int, bytes]:
    """Send a head and up to ``size`` bytes of a body; return how many were sent before a response, and that.

    The sender gives up if the service does not read for a while.
    """
    connection.sendall(data)
    sent = 0
    while sent < size:
        readable, writable, _ = select.select([connection], [connection], [], SILENCE)
        growth.sample()
        if readable:
            break
        if not writable:
            return sent, b""
        try:
            sent += connection.send(PIECE)
        except ConnectionError:
            break
    readable, _, _ = select.select([connection], [], [], SILENCE if sent < size else 0.0)
    try:
        return sent, connection.recv(65536) if readable else b""
    except ConnectionError:
        return sent, b""


FOREIGN = "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJpZCI6ImEifQ." + "A" * 86
CHUNKED = f"POST /v2/pipeline HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n{BODY:x}\r\n".encode()
UNAUTHORIZED = {
    "no token": request("POST", "/v2/pipeline", length=BODY),
    "a token of another service": request("POST", "/v3/cursor", f"Authorization: Bearer {FOREIGN}", length=BODY),
    "no token, in chunks": CHUNKED,
}


@pytest.mark.parametrize("head", UNAUTHORIZED.values(), ids=UNAUTHORIZED)
def test_a_body_without_a_token_is_refused_before_it_is_read(scene, head):
    growth = Growth(scene.service.process.pid)
    with connections(scene.service, 1) as [connection]:
        connection.setblocking(False)
        sent, answer = send_until_answered(connection, head, size=UNFINISHED, growth=growth)
    assert statuses(answer) == [401]
    assert sent < EARLY


def test_unfinished_bodies_of_all_clients_have_one_budget(fresh_scene):
    service = fresh_scene.service
    growth = Growth(service.process.pid)
    with connections(service, BODIES) as opened:
        head = request("POST", "/v2/pipeline", f"Authorization: Bearer {fresh_scene.attacker}", length=BODY)
        for connection in opened:
            connection.setblocking(False)
            send_until_answered(connection, head, size=UNFINISHED, growth=growth)
        fresh_scene.others_work()
        growth.sample()
    print(f"\n{BODIES} unfinished bodies: {growth.most / MB:.0f} MB")
    assert growth.most < BUDGET


def query(token: str, rows: int, column: str, encoding: str) -> bytes:
    """Return a request for ``rows`` rows, which are numbered by ``i``."""
    sql = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) SELECT {column} FROM n"
    lines = [f"Authorization: Bearer {token}", f"Accept-Encoding: {encoding}"]
    return request("POST", "/v2/pipeline", *lines, body=pipeline(sql))


@pytest.mark.parametrize(
    ("databases", "responses", "result"),
    [(1, 9, "large rows"), (4, 9, "large rows behind small ones"), (4, 16, "compressed")],
)
def test_responses_that_are_not_read_have_one_budget(fresh_scene, databases, responses, result):
    service = fresh_scene.service
    tokens = [fresh_scene.attacker]
    tokens += [fresh_scene.database(f"friend{number}") for number in range(databases - 1)]
    growth = Growth(service.process.pid)
    with connections(service, responses, receive_buffer=4096) as opened:
        for number, connection in enumerate(opened):
            connection.sendall(query(tokens[number % databases], *RESULTS[result]))
        until(lambda: growth.sample() and len(answered(opened)) == responses, seconds=4 * WAIT)
        growth.sample()
    print(f"\n{responses} responses of 110 MB: {growth.most / MB:.0f} MB")
    assert growth.most < BUDGET
    # The clients disconnected, so their memory is free again.
    until(lambda: is_result(service, query(tokens[-1], *RESULTS["large rows"])), seconds=4 * WAIT)


def is_result(service: Served, data: bytes) -> bool:
    """Send a query; return True if its response begins with a result in time. The rest is not read."""
    with suppress(TimeoutError), connections(service, 1) as [connection]:
        connection.sendall(data)
        received = b""
        while b'"type":"' not in received:
            received += connection.recv(4096)
        received += connection.recv(4096)
        return b'{"type":"ok"' in received
    return False
