"""Short requests on a port: answered in the event loop, in one piece; what takes longer is served as all others."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
from waiting import until

from pipemagic.service import http
from pipemagic.service.haste import ELSEWHERE
from pipemagic.service.http import Generated, Response
from pipemagic.service.turns import Turn
from pipemagic.service.web import server as servers
from pipemagic.service.web.access_log import AccessLog
from pipemagic.service.web.app import Shell
from pipemagic.service.web.server import Listener, Server
from pipemagic.service.web.traffic import Key, Traffic, Watched

WAIT = 10.0


class Core:
    """Answers with the request's path and size, and where it was made."""

    def __init__(self):
        self.threads = []
        self.held, self.running, self.cancelled = threading.Event(), threading.Event(), threading.Event()
        self.turns = []

    def steps(self, request, cancel):
        if request.path == "/moves":
            yield from cancel.haste.end()
            self.running.set()
            cancel.listen(self.cancelled.set)
            assert self.held.wait(WAIT)
        if request.path == "/waits":
            turn = Turn(deadline=0.0)
            self.turns.append(turn)
            self.running.set()
            yield turn
        if request.path == "/busy":
            end = time.monotonic() + 0.001
            while time.monotonic() < end:
                pass
        self.threads.append(threading.current_thread().name)
        match request.path:
            case "/fails":
                raise RuntimeError("a bug")
            case "/page":
                return Response(200, [b"x" * 4000])
            case "/large":
                return Response(200, [b"x" * 300_000])
            case "/made":
                return Response(200, Generated(b"", self.made()), "text/plain")
            case "/far":
                return Response(200, [b"far"], delay=0.05)
            case "/empty":
                return http.empty(405, ("allow", "POST"))
        return http.json({"path": request.path, "size": len(request.body), "haste": cancel.haste.on})

    def made(self):
        yield b"one,"
        return b"two"


@contextmanager
def serving(core, **options):
    shell, traffic, started = Shell(core, brief=lambda _path, size: size <= 1000), Traffic(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(
            Watched(shell, traffic, options.get("log")), [Listener(listener)],
            on_ready=started.set, on_stopping=shell.stop,
        )  # fmt: skip
        thread = threading.Thread(target=server.run, name="the-loop")
        thread.start()
        try:
            assert started.wait(WAIT)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", traffic
        finally:
            core.held.set()
            server.stop()
            thread.join(WAIT)
            shell.close()
        assert not thread.is_alive()


def address_of(url):
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def connect(url):
    return socket.create_connection(address_of(url), timeout=WAIT)


def head(path, size, *lines):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {size}", *lines, "", ""]).encode()


def read_answer(stream):
    """Read one answer of known length: its status line, headers and body."""
    status = stream.readline().decode().strip()
    headers = {}
    while line := stream.readline().strip():
        name, _, value = line.decode().partition(": ")
        headers[name] = value
    return status, headers, stream.read(int(headers["content-length"]))


def test_a_short_request_is_answered_in_the_loop_in_one_piece():
    core = Core()
    with serving(core) as (url, traffic), connect(url) as connection:
        connection.sendall(head("/a", 3) + b"abc")
        with connection.makefile("rb") as stream:
            status, headers, body = read_answer(stream)
        assert status == "HTTP/1.1 200 OK"
        assert headers.pop("date").endswith("GMT")
        assert headers == {"content-length": str(len(body)), "content-type": "application/json"}
        assert json.loads(body) == {"path": "/a", "size": 3, "haste": True}
        assert core.threads == ["the-loop"]
        assert (traffic.requests[Key("POST", "other", 200)], traffic.received, traffic.sent) == (1, 3, len(body))


def test_requests_that_come_together_are_answered_in_order():
    with serving(Core()) as (url, _), connect(url) as connection:
        paths = [f"/{number}" for number in range(50)]
        connection.sendall(b"".join(head(path, 1) + b"x" for path in paths))
        with connection.makefile("rb") as stream:
            assert [json.loads(read_answer(stream)[2])["path"] for _ in paths] == paths


def test_among_requests_that_come_together_the_slow_one_keeps_its_place():
    core = Core()
    with serving(core) as (url, traffic), connect(url) as connection:
        paths = ["/1", "/moves", "/2", "/large", "/3", "/waits", "/4"]
        connection.sendall(b"".join(head(path, 1) + b"x" for path in paths))
        with connection.makefile("rb") as stream:
            first = read_answer(stream)
            assert core.running.wait(WAIT)
            core.running.clear()
            core.held.set()
            answers = [first, *(read_answer(stream) for _ in range(4))]
            assert core.running.wait(WAIT)
            core.turns[0].granted = True
            core.turns[0].fire()
            answers += [read_answer(stream) for _ in range(2)]
        told = [b"/large" if body.startswith(b"xxx") else json.loads(body)["path"].encode() for _, _, body in answers]
        assert told == [path.encode() for path in paths]
        until(lambda: traffic.requests[Key("POST", "other", 200)] == 7)  # it is counted once it has been sent
        assert traffic.received == 7


@pytest.mark.parametrize("lines", [("Connection: close",), ()])
def test_a_connection_ends_if_the_client_says_so(lines):
    with serving(Core()) as (url, _), connect(url) as connection:
        connection.sendall(head("/a", 0, *lines))
        with connection.makefile("rb") as stream:
            _, headers, _ = read_answer(stream)
            assert headers.get("connection") == ("close" if lines else None)
            if lines:
                assert stream.read() == b""
        if not lines:
            connection.sendall(head("/b", 0))
            assert connection.recv(20).startswith(b"HTTP/1.1 200")


def test_a_body_that_comes_later_is_waited_for_elsewhere():
    core = Core()
    with serving(core) as (url, traffic), connect(url) as connection:
        connection.sendall(head("/a", 6) + b"abc")
        until(lambda: traffic.in_flight)  # so that they are two pieces
        connection.sendall(b"def")
        with connection.makefile("rb") as stream:
            assert json.loads(read_answer(stream)[2]) == {"path": "/a", "size": 6, "haste": False}
        assert core.threads[0].startswith("pipemagic-")
        assert traffic.received == 6


def test_a_body_in_chunks_arrives_whole():
    with serving(Core()) as (url, _), connect(url) as connection:
        connection.sendall(
            b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        )
        with connection.makefile("rb") as stream:
            assert json.loads(read_answer(stream)[2]) == {"path": "/a", "size": 5, "haste": True}


def test_who_asks_whether_to_send_a_body_is_told():
    with serving(Core()) as (url, _), connect(url) as connection:
        connection.sendall(head("/a", 3, "Expect: 100-continue"))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"abc")
        with connection.makefile("rb") as stream:
            assert json.loads(read_answer(stream)[2])["size"] == 3


def test_large_bodies_other_methods_and_http_1_0_are_served_in_threads():
    core = Core()
    with serving(core) as (url, _), connect(url) as connection:
        assert httpx.post(url, content=b"x" * 1001).json()["haste"] is False
        assert httpx.get(url).json()["haste"] is False
        connection.sendall(b"POST /a HTTP/1.0\r\nContent-Length: 1\r\n\r\nx")
        assert b'"haste":false' in b"".join(iter(lambda: connection.recv(1000), b""))
        assert all(name.startswith("pipemagic-") for name in core.threads)


def test_answers_of_every_kind_arrive():
    with serving(Core()) as (url, traffic), httpx.Client(base_url=url) as client:
        assert client.post("/large").content == b"x" * 300_000
        assert client.post("/made").content == b"one,two"
        assert client.post("/far").content == b"far"
        empty = client.post("/empty")
        assert (empty.status_code, empty.headers["allow"], empty.content) == (405, "POST", b"")
        assert empty.headers["content-length"] == "0"
        assert "content-type" not in empty.headers
        until(lambda: sum(traffic.requests.values()) == 4)  # the last is counted once it has been sent
        assert traffic.sent == 300_000 + 7 + 3


def test_a_bug_is_told_and_the_connection_goes_on():
    with serving(Core()) as (url, traffic), httpx.Client(base_url=url) as client:
        assert client.post("/fails").status_code == 500
        assert client.post("/a").status_code == 200
        until(lambda: traffic.requests[Key("POST", "other", 500)] == 1)


def test_what_fails_after_a_call_does_not_have_it_made_again():
    class FullLog:
        def write(self, *_):
            raise RuntimeError("a bug after the call")

    core = Core()
    with serving(core, log=FullLog()) as (url, _), connect(url) as connection:
        connection.sendall(head("/a", 0))
        assert b"".join(iter(lambda: connection.recv(1000), b"")).startswith(b"HTTP/1.1 400")
        assert len(core.threads) == 1


def test_while_one_call_is_long_others_are_answered():
    core = Core()
    with serving(core) as (url, traffic), connect(url) as slow, httpx.Client(base_url=url) as client:
        slow.sendall(head("/moves", 0))
        assert core.running.wait(WAIT)
        assert [client.post(f"/{number}").status_code for number in range(20)] == [200] * 20
        until(lambda: traffic.in_flight == 1)  # the others are counted once they have been sent
        core.held.set()
        with slow.makefile("rb") as stream:
            assert json.loads(read_answer(stream)[2]) == {"path": "/moves", "size": 0, "haste": False}


def test_a_client_that_leaves_a_long_call_ends_it():
    core = Core()
    with serving(core) as (url, traffic):
        with connect(url) as connection:
            connection.sendall(head("/moves", 0))
            assert core.running.wait(WAIT)
        assert core.cancelled.wait(WAIT)
        core.held.set()  # it answers after all, to nobody
        until(lambda: traffic.requests)
        assert (sum(traffic.requests.values()), traffic.in_flight) == (1, 0)


def test_who_reads_nothing_fills_no_memory():
    """Answers wait in the buffers of the connection, and the requests behind them until these are taken."""
    core = Core()
    with serving(core) as (url, _), socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before TCP has promised more
        connection.connect(address_of(url))
        request = head("/page", 900) + b"x" * 900
        connection.settimeout(1.0)
        sent, stuck = 0, False
        while sent < 50_000_000 and not stuck:
            try:
                sent += connection.send(request * 50)
            except TimeoutError:
                stuck = True
        assert stuck
        assert httpx.post(url).status_code == 200


def test_connections_end_when_nothing_comes_for_a_while_and_not_before(monkeypatch):
    monkeypatch.setattr(servers, "KEEP_ALIVE", 2.0)
    with serving(Core()) as (url, _), connect(url) as connection, connection.makefile("rb") as stream:
        for _ in range(2):  # the second begins the time anew
            time.sleep(0.7)
            began = time.monotonic()
            connection.sendall(head("/a", 0))
            assert read_answer(stream)[0] == "HTTP/1.1 200 OK"
        connection.sendall(b"\r\n")  # which is no request
        assert stream.read() == b""
        assert 1.9 < time.monotonic() - began < WAIT / 2


def test_a_connection_with_a_request_under_way_is_not_idle(monkeypatch):
    """Although the answer to the one before it, which came with it, is long complete."""
    monkeypatch.setattr(servers, "KEEP_ALIVE", 0.3)
    core = Core()
    with serving(core) as (url, _), connect(url) as connection, connection.makefile("rb") as stream:
        connection.sendall(head("/a", 0) + head("/moves", 0))
        assert json.loads(read_answer(stream)[2])["path"] == "/a"
        time.sleep(0.6)
        core.held.set()
        assert json.loads(read_answer(stream)[2])["path"] == "/moves"


def test_many_requests_that_come_together_let_others_in_between():
    core = Core()
    with serving(core) as (url, _), connect(url) as connection, connection.makefile("rb") as stream:
        connection.sendall(head("/busy", 0) * 200)
        assert httpx.post(f"{url}/other", timeout=WAIT).status_code == 200
        answers = [json.loads(read_answer(stream)[2])["haste"] for _ in range(200)]
        assert answers[0]
        assert answers.count(False) > 100


def test_short_requests_are_in_the_access_log(tmp_path):
    with AccessLog(tmp_path / "access.log") as log, serving(Core(), log=log) as (url, _):
        httpx.post(f"{url}/a", content=b"x")
    (line,) = (tmp_path / "access.log").read_text().splitlines()
    assert line.split()[1:6] == ["127.0.0.1", "POST", line.split()[3], "/a", "200"]


def test_elsewhere_is_no_turn_to_wait_for():
    fired = []
    ELSEWHERE.on_ready(lambda: fired.append(True))
    assert fired == [True]
    assert ELSEWHERE.block(0)
