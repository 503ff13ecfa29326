"""The HTTP protocol and the server, on real sockets, with a small ASGI application."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from unittest.mock import Mock

import httpx
import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from waiting import pause, until

from pipemagic.service import http_server
from pipemagic.service.http_server import HEAD_LIMIT, MOST_HEADERS, SEND_MINIMUM, HttpProtocol, HttpServer
from pipemagic.service.listeners import Listener
from pipemagic.service.logs import LOG_INTERVAL, LogLimit

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
        if path.startswith("/refuse"):  # without reading the body
            await self.answer(send, b"no", 413, *([(b"connection", b"close")] if path == "/refuse-close" else []))
            return
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

    async def answer(self, send, body, status=200, *more):
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"text/plain"), *more]
        await send({"type": "http.response.start", "status": status, "headers": headers})
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
        server, started = HttpServer(app, [Listener(listener)], connections=connections), threading.Event()
        serve = server.serve(on_start=started.set, on_stop=lambda: None)
        thread = threading.Thread(target=asyncio.run, args=[serve])
        thread.start()
        try:
            assert started.wait(WAIT)
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
    return [int(match) for match in re.findall(rb"HTTP/1\.1 (\d+)", data)]


CLOSE = "Connection: close"


# -- heads


def test_a_head_that_is_not_received_in_time(service, monkeypatch):
    monkeypatch.setattr(HttpProtocol, "head_timeout", 0.2)
    response = exchange(service, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
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


def test_the_time_of_a_head_does_not_begin_again_with_each_byte(service, monkeypatch):
    monkeypatch.setattr(HttpProtocol, "head_timeout", 0.5)
    with service.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        connection.settimeout(0.02)
        answer = b""
        for _ in range(1000):
            with suppress(TimeoutError):
                answer = connection.recv(100)
                break
            connection.sendall(b"x")
        assert statuses(answer) == [408]


LARGE = {
    "of one header": b"GET /a HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * HEAD_LIMIT + b"\r\n\r\n",
    "of many headers": b"GET /a HTTP/1.1\r\nHost: x\r\n" + b"X: 1\r\n" * MOST_HEADERS + b"\r\n",
    "without end": b"GET /a HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 140_000,
}


@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE)
def test_a_large_head(service, large):
    response = exchange(service, large)
    assert response.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert service.app.running == []


def test_a_head_just_below_the_limit(service):
    more = [f"X-{number}: 1" for number in range(MOST_HEADERS - 3)]
    large = head("/a", "X-Long: " + "x" * (HEAD_LIMIT - 2000), *more, size=1) + b"x"
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


TRAILERS = {
    "one": b"X-Long: " + b"x" * 200_000,
    "many": b"X: 1\r\n" * 2 * MOST_HEADERS,
}


@pytest.mark.parametrize("trailers", TRAILERS.values(), ids=TRAILERS)
def test_large_trailers(service, trailers):
    response = exchange(service, chunked("/a"), b"0\r\n", trailers)
    assert statuses(response) == [431]
    assert b"connection: close\r\n" in response
    until(lambda: service.app.disconnected == ["/a"])


def test_a_chunk_extension_without_end(service):
    assert statuses(exchange(service, chunked("/a"), b"1;" + b"x" * 200_000)) == [431]


def test_small_chunks_and_short_extensions(service):
    parts = b"1\r\nx\r\n" * 50_000 + (b"100;signature=" + b"a" * 64 + b"\r\n" + b"x" * 256 + b"\r\n") * 2_000
    with service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(chunked("/a") + parts + b"0\r\nX-Checksum: 1\r\n\r\n")
        assert read_response(stream)[2].startswith(b"/a %d " % (50_000 + 2_000 * 256))


# -- another protocol that a client offers


OFFERS = {
    "h2c": ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"],
    "websocket": ["Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"],
    "TLS": ["Upgrade: TLS/1.2", "Connection: upgrade"],
    "several": ["Connection: Upgrade", "Upgrade: h2c", "Upgrade: websocket, foo/2"],
}  # fmt: skip
BODIES = {
    "a length": (["Content-Length: 300000"], b"x" * 300_000),
    "chunks": (
        ["Transfer-Encoding: chunked"],
        b"249f0\r\n" + b"x" * 150_000 + b"\r\n" + b"1\r\nx\r\n" * 150_000 + b"0\r\n\r\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS)
@pytest.mark.parametrize(("lines", "body"), BODIES.values(), ids=BODIES)
def test_an_offer_of_another_protocol_is_ignored_and_the_connection_continues(service, offer, lines, body):
    start = "\r\n".join(["POST /a HTTP/1.1", "Host: x", *offer, *lines, "", ""]).encode()
    with service.connect() as connection, connection.makefile("rb") as stream:
        for path, whole in (("a", True), ("b", False)):
            request = start.replace(b"/a", f"/{path}".encode()) + body
            for begin, end in pairwise([0, len(request)] if whole else [0, 30, len(start) + 10, len(request)]):
                connection.sendall(request[begin:end])
            status, _, answer = read_response(stream)
            assert (status, answer.split()[:2]) == (200, [f"/{path}".encode(), b"300000"])
            assert b"upgrade" not in answer.split()[2].split(b",")
        connection.sendall(head("/c", size=3) + b"abc")
        assert read_response(stream)[2].startswith(b"/c 3 ")


@pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS)
def test_an_offer_without_a_body(service, offer):
    request = "\r\n".join(["GET /a HTTP/1.1", "Host: x", *offer, "", ""]).encode()
    with service.connect() as connection, connection.makefile("rb") as stream:
        for _ in range(2):
            connection.sendall(request)
            assert read_response(stream)[2].startswith(b"/a 0 ")


def test_a_body_that_waits_for_100_continue_behind_an_offer(service):
    with service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(head("/a", *OFFERS["h2c"], "Expect: 100-continue", size=3))
        assert [stream.readline(), stream.readline()] == [b"HTTP/1.1 100 Continue\r\n", b"\r\n"]
        connection.sendall(b"abc")
        assert read_response(stream)[2].startswith(b"/a 3 ")


def test_an_offer_behind_a_running_request_ends_the_connection_behind_its_response(service):
    with service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(head("/wait", *OFFERS["h2c"]) + head("/second", *OFFERS["h2c"], size=3) + b"abc")
        until(lambda: service.app.waiting == 1)
        service.app.proceed()
        assert (read_response(stream)[0], stream.read()) == (200, b"")
    assert service.app.running == ["/wait"]


@pytest.mark.parametrize("large", [name for name in LARGE if "without end" not in name])
def test_a_large_head_with_an_offer(service, large):
    offer = "\r\n".join(["", *OFFERS["h2c"], "Host:"]).encode()
    assert statuses(exchange(service, LARGE[large].replace(b"\r\nHost:", offer, 1))) == [431]


@pytest.mark.parametrize("lines", [[], ["Content-Length: 3"], OFFERS["h2c"]])
def test_a_tunnel_is_refused(service, lines):
    request = "\r\n".join(["CONNECT x:443 HTTP/1.1", "Host: x:443", *lines, "", ""]).encode()
    assert statuses(exchange(service, request + b"abc")) == [400]
    assert service.app.running == []


# -- requests behind a running one


BEHIND = {
    "a request": head("/second"), "many": head("/second") * 5_000, "a large head": LARGE["without end"],
    "a large body": head("/second", size=10_000_000) + b"x" * 10_000_000, "garbage": b"HELLO\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_what_is_sent_behind_a_running_request_ends_the_connection_behind_its_response(service, behind):
    with service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(head("/wait") + behind)
        until(lambda: service.app.waiting == 1)
        service.app.proceed()
        status, headers, body = read_response(stream)
        assert (status, headers["connection"], body[:5]) == (200, "close", b"/wait")
        assert stream.read() == b""
    assert service.app.running == ["/wait"]


@pytest.mark.parametrize("behind", [b"", head("/second")])
def test_disconnecting_ends_the_running_request(service, behind):
    with service.connect() as connection:
        connection.sendall(head("/until-hang-up") + behind)
        until(lambda: service.app.running)
    until(lambda: service.app.disconnected == ["/until-hang-up"])
    assert service.app.running == ["/until-hang-up"]


# -- responses before the end of what the client sends (RFC 9112, 9.6)

MUCH = 20_000_000
"""Bytes that no buffer of a connection holds: a client that sends them before it reads needs a server that reads."""

EARLY = {
    "a response": (head("/refuse", size=MUCH), 413), "a last response": (head("/refuse-close", size=MUCH), 413),
    "to a client that closes": (head("/refuse", CLOSE, size=MUCH), 413), "a large head": (LARGE["without end"], 431),
    "no HTTP": (b"HELLO\r\n\r\n", 400), "a bad body": (chunked("/a") + b"nonsense\r\n", 400),
    "no host": (b"POST / HTTP/1.1\r\nContent-Length: 20000000\r\n\r\n", 400),
}  # fmt: skip


@pytest.mark.parametrize(("start", "status"), EARLY.values(), ids=EARLY)
def test_a_client_that_sends_everything_first_gets_an_early_response(service, start, status):
    with service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(start + b"x" * MUCH)
        connection.shutdown(socket.SHUT_WR)
        assert read_response(stream)[0] == status
        assert stream.read() == b""
    until(lambda: service.server.connections == 0)


def test_a_connection_continues_behind_a_body_that_nobody_read(service):
    with service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(head("/refuse", size=MUCH) + b"x" * MUCH + head("/a"))
        assert [read_response(stream)[0] for _ in range(2)] == [413, 200]


@pytest.mark.parametrize("path", ["/refuse", "/refuse-close"])
def test_what_is_discarded_is_limited_in_size(service, monkeypatch, path):
    monkeypatch.setattr(http_server, "DISCARD_LIMIT", 1_000_000)
    with service.connect() as connection, pytest.raises(ConnectionError):
        connection.sendall(head(path, size=2 * MUCH) + b"x" * 2 * MUCH)
    until(lambda: service.server.connections == 0)


@pytest.mark.parametrize("path", ["/refuse", "/refuse-close"])
def test_what_is_discarded_is_limited_in_time(service, monkeypatch, path):
    monkeypatch.setattr(HttpProtocol, "discard_timeout", 0.2)
    with service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(head(path, size=MUCH))
        assert read_response(stream)[0] == 413
        until(lambda: service.server.connections == 0)


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
    loop.time.return_value = 0.0
    transport.get_write_buffer_size.side_effect = [1_000_000, 1_000_000 - taken, 0]
    protocol = HttpProtocol.__new__(HttpProtocol)
    protocol.loop, protocol.transport, protocol.flow = loop, transport, FlowControl(transport)
    protocol.timeout_keep_alive_task = None
    protocol.pause_writing()
    (_, check) = loop.call_at.call_args.args
    check()
    assert transport.abort.called is dropped
    assert loop.call_at.call_count == (1 if dropped else 2)


# -- idle connections


def test_idle_connections_end(monkeypatch):
    monkeypatch.setattr(http_server, "KEEP_ALIVE", 0.3)
    with serving() as service, service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(head("/a"))
        assert read_response(stream)[0] == 200
        connection.sendall(b"\r\n")  # no request
        assert stream.read() == b""


def test_connections_without_a_request_end(monkeypatch):
    monkeypatch.setattr(http_server, "KEEP_ALIVE", 0.3)
    with serving() as service, service.connect() as connection:
        assert read_all(connection) == b""


def test_a_connection_with_a_running_request_is_not_idle(monkeypatch):
    monkeypatch.setattr(http_server, "KEEP_ALIVE", 0.2)
    with serving() as service, service.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(head("/a"))
        assert read_response(stream)[0] == 200
        connection.sendall(head("/wait"))
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
    assert [message for message in messages if message != "a bug"] == [
        "Invalid HTTP request received.",
        "Invalid HTTP request received. (999 more of these were not logged)",
    ]
