"""Clients that send or read slowly, or not at all, hold no thread and block no other client."""

from __future__ import annotations

import json
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import httpx
from served_apps import serving
from service_calls import caller_of, execute
from waiting import until

from pipemagic.service.http_server import HttpProtocol
from pipemagic.service.service import Service

WAIT = 20.0
MANY = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2000000) SELECT n, 'row ' || n FROM c"
SOME = MANY.replace("2000000", "60000")  # 5 MB, more than the buffers of a connection


class Running:
    """A service on a port, with one database."""

    def __init__(self, service, app):
        self.service, self.app, self.url = service, app, app.url
        self.token = caller_of(service, "flights").token
        self.http = httpx.Client(base_url=self.url, headers=self.headers, timeout=WAIT, trust_env=False)

    @property
    def headers(self):
        return {"authorization": f"Bearer {self.token}"}

    def post(self, *requests, baton=None):
        return self.http.post("/v3/pipeline", json={"baton": baton, "requests": requests}).json()

    def select(self):
        """Send a short request, which must never take long."""
        answer = self.post(execute("SELECT 1"), {"type": "close"})
        return answer["results"][0]["response"]["result"]["rows"]

    def connect(self):
        return self.app.connect(receive_buffer=4096)  # so that little is buffered

    def ask(self, path, body):
        """Send a request and read only the first bytes of its response."""
        connection, data = self.connect(), json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x.localhost\r\nAuthorization: Bearer {self.token}\r\nContent-Length: "
        connection.sendall(head.replace("x.localhost", "localhost").encode() + b"%d\r\n\r\n" % len(data) + data)
        assert connection.recv(200).startswith(b"HTTP/1.1 200 OK\r\n")
        return connection


@contextmanager
def running(folder):
    service = Service(folder)
    service.catalog.create_group("local", "default", "ams")
    service.start()
    try:
        with serving(service) as app:
            db = Running(service, app)
            try:
                yield db
            finally:
                db.http.close()
    finally:
        service.close()


def read_rest(connection):
    """Read until the connection ends, properly or not."""
    data = b""
    with suppress(ConnectionError):
        while part := connection.recv(1 << 20):
            data = (data + part)[-1000:]
    return data


def waits_for_reader(stream):
    return stream.wait is not None and isinstance(stream.wait.awaited, bytes)


def test_slow_readers_hold_no_thread(tmp_path):
    with running(tmp_path / "data") as db, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(db.ask("/v3/cursor", {"batch": {"steps": [{"stmt": {"sql": MANY}}]}}))
            stack.enter_context(db.ask("/v2/pipeline", {"requests": [execute(SOME)]}))
        streams = db.service.engine.streams._streams
        until(
            lambda: (
                sum(stream.wait is not None and isinstance(stream.wait.awaited, bytes) for stream in streams.values())
                == 3
            )
        )
        for _ in range(10):
            assert db.select() == [[{"type": "integer", "value": "1"}]]
        until(lambda: db.app.runtime.executor.workers == 1)


def test_a_client_that_does_not_read_a_cursor_is_dropped_and_the_stream_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(HttpProtocol, "send_timeout", 0.3)
    request = {"batch": {"steps": [{"stmt": {"sql": MANY}}]}}
    with running(tmp_path / "data") as db, db.ask("/v3/cursor", request) as connection:
        until(lambda: len(db.service.engine.streams) == 0)
        assert b"step_end" not in read_rest(connection)[-100:]


def test_a_client_that_does_not_read_a_response_is_dropped_and_the_idle_time_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(HttpProtocol, "send_timeout", 1.0)
    with running(tmp_path / "data") as db, db.ask("/v2/pipeline", {"requests": [execute(SOME)]}):
        (stream,) = db.service.engine.streams._streams.values()
        assert stream.idle_since == float("inf")
        until(lambda: stream.idle_since < float("inf"))


def test_a_slow_but_steady_reader_gets_everything(tmp_path, monkeypatch):
    monkeypatch.setattr(HttpProtocol, "send_timeout", 5.0)
    few = MANY.replace("2000000", "20000")
    with running(tmp_path / "data") as db:
        with db.ask("/v3/cursor", {"batch": {"steps": [{"stmt": {"sql": few}}]}}) as connection:
            pieces = []
            while not (pieces and pieces[-1].endswith(b"0\r\n\r\n")):
                pieces.append(connection.recv(8192))
                assert pieces[-1], "the connection was dropped"
                time.sleep(0.002)
        # Some of the first rows arrived with the head.
        assert 19_500 < b"".join(pieces).count(b'"row","row"') <= 20_000


def test_the_idle_time_starts_when_the_last_byte_is_sent(tmp_path):
    with running(tmp_path / "data") as db, db.ask("/v2/pipeline", {"requests": [execute(SOME)]}) as connection:
        (stream,) = db.service.engine.streams._streams.values()
        assert stream.idle_since == float("inf")
        while stream.idle_since == float("inf"):
            assert connection.recv(1 << 20)
        assert stream.idle_since <= time.monotonic()


def test_a_client_of_http_1_0_gets_a_cursor_without_chunks(tmp_path):
    with running(tmp_path / "data") as db:
        for text, count in ((SOME, 60_000), ("SELECT 1, 'row 1'", 1)):
            body = json.dumps({"batch": {"steps": [{"stmt": {"sql": text}}]}})
            head = f"POST /v3/cursor HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {db.token}\r\n"
            with db.connect() as connection:
                connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
                with connection.makefile("rb") as answer:
                    head, _, lines = answer.read().partition(b"\r\n\r\n")
            assert b"transfer-encoding" not in head
            assert b"connection: close" in head
            assert b"content-length: %d" % len(lines) in head
            entries = [json.loads(line) for line in lines.splitlines()]
            assert entries[1]["type"] == "step_begin"
            assert sum(entry.get("type") == "row" for entry in entries) == count
            assert entries[-1]["type"] == "step_end"


def test_one_of_the_requests_that_continue_a_cursor_continues_at_its_end(tmp_path):
    batch = {"batch": {"steps": [{"stmt": {"sql": SOME}}]}}
    with running(tmp_path / "data") as db, ThreadPoolExecutor(2) as pool:
        with db.http.stream("POST", "/v3/cursor", json=batch) as answer:
            lines = answer.iter_lines()
            body = {"baton": json.loads(next(lines))["baton"], "requests": [execute("SELECT 1")]}
            (stream,) = db.service.engine.streams._streams.values()
            both = [pool.submit(db.http.post, "/v3/pipeline", json=body) for _ in range(2)]
            until(lambda: stream.done is None or len(stream.done._ended._done_callbacks) == 2)
            assert json.loads(deque(lines, maxlen=1).pop())["type"] == "step_end"
        assert sorted(future.result(WAIT).status_code for future in both) == [200, 400]
