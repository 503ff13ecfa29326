"""Measure the latencies of other users of a service during an attack, and send raw requests of attackers."""

from __future__ import annotations

import http.client
import json
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from served import ORGANIZATION, Served

HOST = "127.0.0.1"
WAIT = 30.0
PROBE_TIMEOUT = 10.0
"""Seconds after which a probe counts as failed."""
RESOLUTION = 0.002
"""Seconds; a baseline counts as at least this, since one missed time slice of the machine takes more."""
PASSWORD = "a long enough pass phrase"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@dataclass
class Account:
    """An account of a service, its organization, and the group ``g`` in it."""

    service: Served
    name: str
    token: str

    @classmethod
    def sign_up(cls, service: Served, name: str) -> Account:
        answer = service.manage("POST", "/v1/auth/signup", json={"username": name, "password": PASSWORD})
        account = cls(service, name, answer.raise_for_status().json()["token"])
        account.manage("POST", "/groups", json={"name": "g", "location": "ams"})
        return account

    def manage(self, method: str, path: str, **options: Any) -> Any:
        """Call the management API below the account's organization; return the parsed body of a success."""
        path = ORGANIZATION.replace("local", self.name) + path
        answer = self.service.manage(method, path, headers={"authorization": f"Bearer {self.token}"}, **options)
        return answer.raise_for_status().json()

    def database(self, name: str) -> str:
        """Create a database and return a token for it."""
        self.manage("POST", "/databases", json={"name": name, "group": "g"})
        return self.issue(name)

    def issue(self, name: str, **query: str) -> str:
        """Return a new token for a database."""
        return str(self.manage("POST", f"/databases/{name}/auth/tokens", params=query)["jwt"])


def pipeline(*statements: str | dict[str, Any], baton: str | None = None, close: bool = True) -> bytes:
    """Return the body of a pipeline request; statements are texts or whole ``stmt`` objects."""
    steps = [{"sql": one} if isinstance(one, str) else one for one in statements]
    requests: list[Any] = [{"type": "execute", "stmt": stmt} for stmt in steps]
    return json.dumps({"baton": baton, "requests": requests + [{"type": "close"}] * close}).encode()


@dataclass(frozen=True)
class Probe:
    """A request; its response must be 200 without the error of a statement."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


HEALTH = Probe("GET", "/health")


def sql_probe(token: str, *statements: str) -> Probe:
    return Probe("POST", "/v2/pipeline", {"authorization": f"Bearer {token}"}, pipeline(*statements))


@dataclass
class Latencies:
    """Seconds that the requests of one probe took, and the failures among them."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def p50(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p95(self) -> float:
        return sorted(self.seconds)[int(len(self.seconds) * 0.95)]

    @property
    def p99(self) -> float:
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)]

    def __str__(self) -> str:
        figures = [f"{len(self.seconds)} requests, {len(self.failures)} failures"]
        if self.seconds:
            shown = {"p50": self.p50, "p99": self.p99, "longest": max(self.seconds)}
            figures += [f"{name} {seconds * 1000:.1f} ms" for name, seconds in shown.items()]
        return ", ".join(figures)


class Prober:
    """Send the probes in turn over one connection in a thread, and record the latencies of each.

    ``every`` is the pause in seconds before a probe, None for none. With a pause, a stall of the service counts for all
    probes that it kept from being sent, as in HdrHistogram's ``recordValueWithExpectedInterval``.
    """

    def __init__(self, port: int, probes: dict[str, Probe], *, every: float | None) -> None:
        self.latencies = {name: Latencies() for name in probes}
        self._port, self._probes, self._every = port, probes, every
        self._connection = http.client.HTTPConnection(HOST, port, timeout=PROBE_TIMEOUT)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, Latencies]:
        """Wait for the pending response and return the latencies."""
        self._over.set()
        self._thread.join(WAIT)
        return self.latencies

    def _run(self) -> None:
        while not self._over.is_set():
            for name, probe in self._probes.items():
                if self._every is not None:
                    time.sleep(self._every)
                began = time.perf_counter()
                try:
                    self._send(probe)
                except (OSError, http.client.HTTPException, AssertionError) as error:
                    self.latencies[name].failures.append(repr(error))
                    self._connection.close()
                else:
                    self._record(self.latencies[name], time.perf_counter() - began)
        self._connection.close()

    def _record(self, latencies: Latencies, seconds: float) -> None:
        latencies.seconds.append(seconds)
        if self._every is not None:
            interval = self._every * len(self._probes)
            latencies.seconds += [seconds - count * interval for count in range(1, int(seconds / interval) + 1)]

    def _send(self, probe: Probe) -> None:
        self._connection.request(probe.method, probe.path, probe.body or None, probe.headers)
        response = self._connection.getresponse()
        body = response.read()
        assert response.status == 200, f"{response.status} {body[:200]!r}"
        assert b'"type":"error"' not in body, body[:200]


@contextmanager
def probing(
    service: Served, probes: dict[str, Probe], *, every: float | None = 0.005
) -> Iterator[dict[str, Latencies]]:
    """Probe a service during a block; the latencies are complete at its end."""
    prober = Prober(service.port, probes, every=every)
    try:
        yield prober.latencies
    finally:
        prober.stop()


def undisturbed(
    service: Served, probes: dict[str, Probe], *, seconds: float = 1.5, every: float | None = 0.005
) -> dict[str, Latencies]:
    """Return the latencies without other users of the service, after half a second to warm up."""
    measure(service, probes, seconds=0.5, every=every)
    return quieter_period(service, probes, seconds=seconds, every=every)


def measure(service: Served, probes: dict[str, Probe], *, seconds: float, every: float | None) -> dict[str, Latencies]:
    """Probe a service for some seconds; no probe may fail."""
    with probing(service, probes, every=every) as latencies:
        time.sleep(seconds)
    for name, found in latencies.items():
        assert not found.failures, (name, found.failures[:3], str(found))
    return latencies


def quieter_period(
    service: Served, probes: dict[str, Probe], *, seconds: float, every: float | None = 0.005
) -> dict[str, Latencies]:
    """Measure twice, since other programs on the machine may slow one period; return the lower p99 of each probe."""
    periods = [measure(service, probes, seconds=seconds, every=every) for _ in range(2)]
    return {name: min((one[name] for one in periods), key=lambda found: found.p99) for name in probes}


def check_p99(before: dict[str, Latencies], during: dict[str, Latencies], factor: float = 20.0) -> None:
    """Fail if a probe failed, or if its p99 exceeds the undisturbed one by more than the factor."""
    for name in before:
        print(f"\n{name}: undisturbed {before[name]}; during the attack {during[name]}", end="")
        assert not during[name].failures, (name, during[name].failures[:3], str(during[name]))
        assert meets_p99({name: before[name]}, during, factor), (name, str(before[name]), str(during[name]))


def meets_p99(before: dict[str, Latencies], during: dict[str, Latencies], factor: float = 20.0) -> bool:
    """Return whether no p99 exceeds the undisturbed one by more than the factor."""
    return all(during[name].p99 <= factor * max(one.p99, RESOLUTION) for name, one in before.items())


def request(method: str, path: str, *lines: str, body: bytes = b"", length: int | None = None) -> bytes:
    """Return a request as bytes; ``length`` overrides the declared length of the body."""
    declared = len(body) if length is None else length
    head = [f"{method} {path} HTTP/1.1", f"Host: {HOST}", *lines, f"Content-Length: {declared}"]
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


def receive(connection: socket.socket) -> bytes:
    """Return one response, which has a declared length."""
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
        head, blank, body = received.partition(b"\r\n\r\n")
        if blank and len(body) >= int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]):
            break
    return received


def statuses(received: bytes) -> list[int]:
    """Return the status of each response."""
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


class HeavyStream:
    """A stream that runs a statement repeatedly in a thread."""

    def __init__(self, port: int, token: str, sql: str, over: threading.Event) -> None:
        self._port, self._token, self._sql, self._over = port, token, sql, over
        self.responses = 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        baton, headers = None, {"authorization": f"Bearer {self._token}"}
        connection = http.client.HTTPConnection(HOST, self._port, timeout=WAIT)
        # The service may have stopped, or refuse the stream.
        with suppress(OSError, http.client.HTTPException, KeyError, json.JSONDecodeError):
            while not self._over.is_set():
                connection.request("POST", "/v2/pipeline", pipeline(self._sql, baton=baton, close=False), headers)
                baton = json.loads(connection.getresponse().read())["baton"]
                self.responses += 1
        connection.close()


@contextmanager
def repeating(service: Served, token: str, sql: str, *, streams: int) -> Iterator[list[HeavyStream]]:
    """Run a statement repeatedly in streams of one token during a block."""
    over = threading.Event()
    opened = [HeavyStream(service.port, token, sql, over) for _ in range(streams)]
    try:
        yield opened
    finally:
        over.set()
        for stream in opened:
            stream.thread.join(WAIT)
