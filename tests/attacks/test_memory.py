"""Endless bodies and responses that are not read: the memory of the service stays bounded."""

from __future__ import annotations

import select
import socket
import sys
import time
from contextlib import suppress

import psutil
import pytest
from probes import HOST, WAIT, Account, check_p99, connections, pipeline, quieter_period, request, statuses, undisturbed
from served import Served
from waiting import pause, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the figures are of Unix processes")

MB = 1024 * 1024
BODIES, BODY, UNFINISHED = 12, 130 * 1000 * 1000, 125 * 1000 * 1000
PIECE = b" " * MB
EARLY = 16 * MB
"""Bytes that may be in the buffers of both sides when the service refuses a body after 64 kB."""
WITHOUT_TOKEN, BUDGET = 100 * MB, 700 * MB
"""Growth of the memory that all bodies, or all responses, may cause."""
SECONDS = 6.0
LARGE = "hex(randomblob(500000))"
RESULTS = {
    "large rows": (110, LARGE, "identity"),
    "large rows behind small ones": (2000, f"iif(i <= 1890, '', {LARGE})", "identity"),
    "compressed": (110, LARGE, "gzip"),
}
"""Number of rows, column, and Accept-Encoding, of responses of 110 MB each."""
RESPONSES = 20


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

    The sender gives up if the service does not read for a second.
    """
    connection.sendall(data)
    sent = 0
    while sent < size:
        readable, writable, _ = select.select([connection], [connection], [], 1.0)
        growth.sample()
        if readable:
            break
        if not writable:
            return sent, b""
        try:
            sent += connection.send(PIECE)
        except ConnectionError:
            break
    readable, _, _ = select.select([connection], [], [], 1.0 if sent < size else 0.0)
    try:
        return sent, connection.recv(65536) if readable else b""
    except ConnectionError:
        return sent, b""


FOREIGN = "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJpZCI6ImEifQ." + "A" * 86
UNAUTHORIZED = {
    "a pipeline without a token": ("/v2/pipeline", []),
    "a cursor without a token": ("/v3/cursor", []),
    "a token that is none": ("/v3/pipeline", ["Authorization: Bearer nonsense"]),
    "a token of another service": ("/v2/pipeline", [f"Authorization: Bearer {FOREIGN}"]),
}


@pytest.mark.parametrize(("path", "lines"), UNAUTHORIZED.values(), ids=UNAUTHORIZED)
def test_bodies_without_a_token_are_refused_before_they_are_read(fresh_scene, path, lines):
    service = fresh_scene.service
    growth = Growth(service.process.pid)
    with connections(service, BODIES) as opened:
        answers = []
        for connection in opened:
            connection.setblocking(False)
            head = request("POST", path, *lines, length=BODY)
            answers.append(send_until_answered(connection, head, size=UNFINISHED, growth=growth))
    print(f"\n{BODIES} bodies: {growth.sample() / MB:.0f} MB, sent {max(sent for sent, _ in answers) / MB:.0f} MB each")
    assert growth.most < WITHOUT_TOKEN
    for sent, answer in answers:
        assert statuses(answer) == [401]
        assert sent < EARLY


def test_a_chunked_body_without_a_token_is_refused_before_it_is_read(scene):
    head = f"POST /v2/pipeline HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n{BODY:x}\r\n"
    with connections(scene.service, 1) as [connection]:
        connection.setblocking(False)
        growth = Growth(scene.service.process.pid)
        sent, answer = send_until_answered(connection, head.encode(), size=UNFINISHED, growth=growth)
    assert statuses(answer) == [401]
    assert sent < EARLY


@pytest.mark.usefixtures("alone")
def test_unfinished_bodies_of_all_clients_have_one_budget(fresh_scene):
    service = fresh_scene.service
    growth = Growth(service.process.pid)
    probes = {"SELECT 1 of another account": fresh_scene.probes["SELECT 1 of another account"]}
    before = undisturbed(service, probes)
    with connections(service, BODIES) as opened:
        head = request("POST", "/v2/pipeline", f"Authorization: Bearer {fresh_scene.attacker}", length=BODY)
        for connection in opened:
            connection.setblocking(False)
            send_until_answered(connection, head, size=UNFINISHED, growth=growth)
        during = quieter_period(service, probes, seconds=1)
        growth.sample()
    print(f"\n{BODIES} unfinished bodies: {growth.most / MB:.0f} MB")
    assert growth.most < BUDGET
    check_p99(before, during)


def query(token: str, rows: int, column: str, encoding: str) -> bytes:
    """Return a request for ``rows`` rows, which are numbered by ``i``."""
    sql = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) SELECT {column} FROM n"
    lines = [f"Authorization: Bearer {token}", f"Accept-Encoding: {encoding}"]
    return request("POST", "/v2/pipeline", *lines, body=pipeline(sql))


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("accounts", [1, 4])
@pytest.mark.usefixtures("alone")  # beside other tests, more of the responses are produced at the same time
def test_responses_that_are_not_read_have_one_budget(fresh_scene, accounts, result):
    service = fresh_scene.service
    tokens = [fresh_scene.attacker]
    tokens += [Account.sign_up(service, f"friend{number}").database("work") for number in range(accounts - 1)]
    growth = Growth(service.process.pid)
    with connections(service, RESPONSES, receive_buffer=4096) as opened:
        for number, connection in enumerate(opened):
            connection.sendall(query(tokens[number % accounts], *result))
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            growth.sample()
            pause(0.05)
    print(f"\n{RESPONSES} responses of 110 MB: {growth.most / MB:.0f} MB")
    assert growth.most < BUDGET
    for token in tokens:  # the clients disconnected, so their memory is free again
        until(lambda token=token: is_result(service, query(token, *RESULTS["large rows"])), seconds=4 * WAIT)


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
