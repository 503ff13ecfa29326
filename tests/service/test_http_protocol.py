"""The HTTP protocol and the server, on real sockets, with a small ASGI application."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
from contextlib import ExitStack, contextmanager
from unittest.mock import Mock

import httpx
import pytest
from waiting import pause, until

from pipemagic.service import server
from pipemagic.service.http_protocol import HEAD_LIMIT, PIPELINE_LIMIT, SEND_MINIMUM, HttpProtocol
from pipemagic.service.logs import LOG_INTERVAL, LogLimit
from pipemagic.service.server import Listener, Server

WAIT = 15.0


class App:
    """Responds to each request with its path, the size of its body and the names of its headers."""

    def __init__(self):
        self.loop = None
        self.release = None
        self.running, self.disconnected, self.finished = [], [], []
        self.received = self.waiting = 0

    async def __call__(self, scope, receive, send):
        if self.loop is None:
            self.loop, self.release = asyncio.get_running_loop(), asyncio.Event()
        path = scope["path"]
        self.running.append(path)
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.disconnected.append(path)
                return
            size += len(message["body"])
            self.received += len(message["body"])
            more = message["more_body"]
        if path == "/wait":
            self.waiting += 1
            await self.release.wait()
        if path == "/until-hang-up":
            assert (await receive())["type"] == "http.disconnect"
            self.disconnected.append(path)
            return
        if path.startswith("/send/"):
            await self.send_many(send, int(path[6:]))
        else:
            names = b",".join(name for name, _ in scope["headers"])
            await self.answer(send, b"%s %d %s" % (path.encode(), size, names))
        self.finished.append(path)

    async def answer(self, send, body):
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def send_many(self, send, size):
        headers = [(b"content-length", b"%d" % size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for start in range(0, size, 100_000):
            body = b"x" * min(100_000, size - start)
            await send({"type": "http.response.body", "body": body, "more_body": start + len(body) < size})

    def proceed(self):
        self.loop.call_soon_threadsafe(self.release.set)


class Service:
    """A running server."""

    def __init__(self, app, server, port):
        self.app, self.server, self.port = app, server, port
        self.url = f"http://127.0.0.1:{port}"

    def connect(self, receive_buffer=None):
        connection = socket.socket()
        if receive_buffer is not None:  # before the connection: TCP announces a window then
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(WAIT)
        connection.connect(("127.0.0.1", self.port))
        return connection


@contextmanager
def serving(connections=None):
    app = App()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(app, [Listener(listener)], connections=connections)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            until(lambda: server.started)
            yield Service(app, server, listener.getsockname()[1])
        finally:
            if app.release is not None:
                app.proceed()
            server.stop()
            thread.join(WAIT)
        assert not thread.is_alive()


@pytest.fixture
def service():
    with serving() as service:
        yield service


def head(path, *lines, size=0):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {size}", *lines, "", ""]).encode()


def chunked(path, *lines):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", *lines, "", ""]).encode()


def read_response(stream):
    """Read one response of known length: its status, headers and body."""
    status = int(stream.readline().split()[1])
    headers = {}
    while line := stream.readline().strip():
        name, _, value = line.decode().partition(": ")
        headers[name] = value
    return status, headers, stream.read(int(headers["content-length"]))


def read_all(connection):
    data = b""
    try:
        while part := connection.recv(65536):
            data += part
    except ConnectionError:
        pass  # closed while more was being sent to it
    return data


def exchange(service, *parts):
    """Send data until the server closes the connection; return what it sent."""
    with service.connect() as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except ConnectionError:
            pass
        return read_all(connection)


def statuses(data):
    return [int(one) for one in re.findall(rb"HTTP/1\.1 (\d+)", data)]


CLOSE = "Connection: close"


# -- heads


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_a_head_that_is_not_received_in_time(service, monkeypatch, sent):
    monkeypatch.setattr(HttpProtocol, "head_timeout", 0.2)
    response = exchange(service, sent)
    assert response.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"connection: close\r\n" in response


def test_the_second_head_of_a_connection_has_the_same_time(service, monkeypatch):
    monkeypatch.setattr(HttpProtocol, "head_timeout", 0.3)
    with service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(head("/a"))
        assert read_response(stream)[0] == 200
        pause(0.6)  # an idle connection is not a slow head
        connection.sendall(head("/b"))
        assert read_response(stream)[0] == 200
        connection.sendall(b"POST /c")
        assert read_response(stream)[0] == 408
        assert stream.read() == b""


LARGE = {
    "complete": b"GET /a HTTP/1.1\r\nHost: x\r\n" + b"X-Short: 1\r\n" * 9_000 + b"\r\n",
    "without end": b"GET /a HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 140_000,
}


@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE)
def test_a_large_head(service, large):
    response = exchange(service, large)
    assert response.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert service.app.running == []


@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE)
def test_a_large_head_behind_a_pending_request_is_answered_behind_it(service, large):
    with service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(head("/wait") + head("/second") + large)
        until(lambda: service.app.running)
        pause(0.1)  # the client cannot detect that the large head was read
        service.app.proceed()
        assert [read_response(stream)[0] for _ in range(3)] == [200, 200, 431]
        assert stream.read() == b""
    assert service.app.running == ["/wait", "/second"]


def test_a_head_just_below_the_limit(service):
    large = head("/a", "X-Long: " + "x" * (HEAD_LIMIT - 1000), size=1) + b"x"
    with service.connect() as connection, connection.makefile("rb") as stream:
        for _ in range(3):
            connection.sendall(large)
            assert read_response(stream)[0] == 200


HOSTS = {
    "none": [], "the same twice": ["Host: a", "Host: a"], "a path": ["Host: a/b"], "credentials": ["Host: user@a"],
    "half an IPv6 address": ["Host: [::1"], "not ASCII": ["Host: \xe4"],
}  # fmt: skip


@pytest.mark.parametrize("lines", HOSTS.values(), ids=HOSTS)
def test_host_headers_that_are_refused(service, lines):
    response = exchange(service, "\r\n".join(["GET /a HTTP/1.1", *lines, "", ""]).encode("latin-1"))
    assert statuses(response) == [400]
    assert service.app.running == []


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x02\x00", b"HELLO\r\n\r\n"])
def test_data_that_is_not_http(service, garbage):
    response = exchange(service, garbage)
    assert statuses(response) == [400]
    assert b"content-type: text/plain\r\n" in response


# -- bodies (`tests/security/test_http.py` has those whose framing is ambiguous)


OVERHEAD = {"extensions": (b"1;" + b"x" * 1_000 + b"\r\nx\r\n") * 200, "trailer": b"0\r\nX-Long: " + b"x" * 200_000}


@pytest.mark.parametrize("overhead", OVERHEAD.values(), ids=OVERHEAD)
def test_large_chunk_extensions_and_trailers(service, overhead):
    response = exchange(service, chunked("/a"), overhead)
    assert statuses(response) == [400]
    assert b"connection: close\r\n" in response
    assert service.app.finished == []


def test_small_chunks_and_short_extensions(service):
    parts = b"1\r\nx\r\n" * 50_000 + (b"100;signature=" + b"a" * 64 + b"\r\n" + b"x" * 256 + b"\r\n") * 2_000
    with service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(chunked("/a") + parts + b"0\r\nX-Checksum: 1\r\n\r\n")
        assert read_response(stream)[2].startswith(b"/a %d " % (50_000 + 2_000 * 256))


# -- pipelines


def test_pipelined_requests_are_answered_in_order(service):
    paths = [f"/{number}" for number in range(3 * PIPELINE_LIMIT)]
    with service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(b"".join(head(path, size=1) + b"x" for path in paths))
        assert [read_response(stream)[2].split()[0].decode() for _ in paths] == paths


@pytest.mark.parametrize("behind", [0, 5])
def test_disconnecting_ends_the_running_request(service, behind):
    with service.connect() as connection:
        connection.sendall(head("/until-hang-up"))
        until(lambda: service.app.running)
        for number in range(behind):
            connection.sendall(head(f"/{number}"))
            pause(0.05)  # the client cannot detect that it was read
    until(lambda: service.app.disconnected == ["/until-hang-up"])
    assert service.app.running == ["/until-hang-up"]


@pytest.mark.parametrize("size", [0, 200_000])
def test_requests_that_wait_behind_another_are_limited(service, size):
    with service.connect() as connection:
        connection.sendall(head("/wait"))
        until(lambda: service.app.running)
        connection.settimeout(1.0)
        request = (head("/page", size=size) + b"x" * size) * 100
        with pytest.raises(TimeoutError):
            connection.sendall(request * (50_000_000 // len(request)))
        assert httpx.post(service.url).status_code == 200
        (waiting,) = (one for one in service.server.server_state.connections if one.pipeline)
        assert sum(len(cycle.body) for cycle, _ in waiting.pipeline) < 1_000_000
        assert len(waiting.pipeline) < 2_000


# -- responses that the client does not read


def test_a_client_that_does_not_read_the_end_of_a_response_is_dropped(service, monkeypatch):
    """The response fills the buffers of the connection; it is complete, and the connection is to be closed."""
    monkeypatch.setattr(HttpProtocol, "send_timeout", 0.3)
    with service.connect(receive_buffer=4096) as connection:
        size = 10_000_000
        connection.sendall(head(f"/send/{size}", CLOSE))
        until(lambda: service.server.connections == 0)


@pytest.mark.parametrize(("taken", "dropped"), [(SEND_MINIMUM, False), (SEND_MINIMUM - 1, True)])
def test_a_client_must_take_a_part_of_what_waits_in_each_period(taken, dropped):
    loop, transport = Mock(), Mock()
    transport.get_write_buffer_size.side_effect = [1_000_000, 1_000_000 - taken, 0]
    protocol = HttpProtocol.__new__(HttpProtocol)
    protocol.loop, protocol.transport = loop, transport
    protocol._start_send_timer()
    (_, check) = loop.call_later.call_args.args
    check()
    assert transport.abort.called is dropped
    assert loop.call_later.call_count == (1 if dropped else 2)


# -- idle connections


def test_idle_connections_end(monkeypatch):
    monkeypatch.setattr(server, "KEEP_ALIVE", 0.3)
    with serving() as service, service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(head("/a"))
        assert read_response(stream)[0] == 200
        connection.sendall(b"\r\n")  # no request
        assert stream.read() == b""


def test_a_connection_with_a_pending_request_is_not_idle(monkeypatch):
    monkeypatch.setattr(server, "KEEP_ALIVE", 0.2)
    with serving() as service, service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(head("/a") + head("/wait"))
        assert read_response(stream)[0] == 200
        pause(0.5)
        service.app.proceed()
        assert read_response(stream)[2].startswith(b"/wait")


# -- the server


def test_a_new_connection_beyond_the_limit_closes_the_one_that_has_been_idle_longest(monkeypatch):
    monkeypatch.setattr(HttpProtocol, "least_idle_time", 0.0)
    with serving(connections=3) as service, ExitStack() as stack:
        busy, silent, used = (stack.enter_context(service.connect()) for _ in range(3))
        busy.sendall(head("/wait", CLOSE))
        until(lambda: service.app.waiting == 1)
        answers = stack.enter_context(used.makefile("rb"))
        used.sendall(head("/a"))
        assert read_response(answers)[0] == 200
        assert httpx.get(service.url).status_code == 200
        assert read_all(silent) == b""  # it has sent nothing since it was opened
        used.sendall(head("/b"))
        assert read_response(answers)[2].startswith(b"/b")
        for _ in range(2):
            late = stack.enter_context(service.connect())
            late.sendall(head("/c"))
            assert read_response(late.makefile("rb"))[0] == 200
        assert read_all(used) == b""
        service.app.proceed()
        assert statuses(read_all(busy)) == [200]


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_exceptions_of_the_loop_are_logged_at_a_bounded_rate(caplog):
    clock, loop = Clock(), asyncio.new_event_loop()
    log, limit = logging.getLogger("asyncio"), LogLimit(clock)
    log.addFilter(limit)
    try:
        for number in range(1000):
            loop.call_exception_handler(
                {"message": "accept failed", "socket": number, "exception": OSError("no handles")}
            )
        clock.now = LOG_INTERVAL
        loop.call_exception_handler({"message": "accept failed", "socket": 1000})
    finally:
        log.removeFilter(limit)
        loop.close()
    assert [record.getMessage() for record in caplog.records] == [
        "accept failed\nsocket: 0", "accept failed\nsocket: 1000 (999 more of these were not logged)",
    ]  # fmt: skip


def test_warnings_about_requests_are_logged_at_a_bounded_rate(caplog):
    clock = Clock()
    log, limit = logging.getLogger("uvicorn.error"), LogLimit(clock)
    log.addFilter(limit)
    try:
        for _ in range(1000):
            log.warning("Invalid HTTP request received.")
            log.error("a bug")
        clock.now = LOG_INTERVAL
        log.warning("Invalid HTTP request received.")
    finally:
        log.removeFilter(limit)
    messages = [record.getMessage() for record in caplog.records]
    assert messages.count("a bug") == 1000
    assert [one for one in messages if one != "a bug"] == [
        "Invalid HTTP request received.",
        "Invalid HTTP request received. (999 more of these were not logged)",
    ]
