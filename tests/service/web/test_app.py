"""The ASGI shell on a real server, with small services behind it that do one thing each."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
import uvicorn
from waiting import until

from pipemagic.service import http
from pipemagic.service.http import Generated, Refused, Response
from pipemagic.service.transfer.uploads import Spool
from pipemagic.service.turns import Turn
from pipemagic.service.web import receiving
from pipemagic.service.web.app import Shell

WAIT = 10.0


class Waits:
    """Runs until its client hangs up; notes what happens."""

    def __init__(self):
        self.running, self.cancelled = threading.Event(), threading.Event()

    def steps(self, request, cancel):
        cancel.listen(self.cancelled.set)
        self.running.set()
        assert self.cancelled.wait(WAIT)
        return http.json({"cancelled": cancel.is_set}, 503)
        yield


class Queues:
    """Parks every request below /wait until its turn is fired."""

    def __init__(self):
        self.turns = []
        self.parked = threading.Semaphore(0)

    def steps(self, request, cancel):
        if request.path == "/wait":
            turn = Turn(deadline=0.0)
            self.turns.append(turn)
            self.parked.release()
            yield turn
            return http.json({"granted": turn.granted, "cancelled": cancel.is_set})
        return http.json("at once")


class Streams:
    """Answers with a body that is made on the way."""

    def __init__(self, fail_after=None):
        self.closed = threading.Event()
        self.fail_after = fail_after

    def steps(self, request, cancel):
        return Response(200, Generated(b"", self.chunks(request)), "text/plain")
        yield

    def chunks(self, request):
        try:
            for number in range(int(request.query.get("n", "3"))):
                if number == self.fail_after:
                    raise RuntimeError("half-way")
                yield b"%d\n" % number
            return b""
        finally:
            self.closed.set()


class Tells:
    """Answers with what it was asked."""

    def __init__(self):
        self.seen = []

    def steps(self, request, cancel):
        self.seen.append(request.path)
        if request.path == "/empty":
            return http.empty(405, ("allow", "POST"))
        if request.path == "/large":
            return Response(200, [b"x" * 100_000, b"y" * 200_000, b"z"])
        return http.json({
            "method": request.method, "path": request.path, "query": dict(request.query), "host": request.host,
            "size": len(request.body), "token": request.headers.get("authorization"),
        })  # fmt: skip
        yield


@contextmanager
def serving(core, **options):
    """Serve a core on a port of its own; gives shell and address."""
    shell = Shell(core, **options)
    config = uvicorn.Config(shell, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False,
                            server_header=False, timeout_graceful_shutdown=2)  # fmt: skip
    server = uvicorn.Server(config)
    started = threading.Event()
    startup = server.startup

    async def start(sockets=None):
        await startup(sockets)
        started.set()

    server.startup = start
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert started.wait(WAIT)
            yield shell, f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(WAIT)
            shell.close()


def raw(url):
    """Open a bare connection."""
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=WAIT)


def read_all(connection):
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def test_a_request_arrives_whole():
    with serving(Tells()) as (_, url):
        answer = httpx.post(f"{url}/a%20b?x=1&y=&z", content=b"12345", headers={"Authorization": "Bearer t"})
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert "server" not in answer.headers
        assert answer.json() == {
            "method": "POST", "path": "/a b", "query": {"x": "1", "y": "", "z": ""}, "host": "127.0.0.1",
            "size": 5, "token": "Bearer t",
        }  # fmt: skip
        assert httpx.post(f"{url}/?").json()["query"] == {}
        assert (
            httpx.get(url, headers={"Host": "flights-local.LOCALHOST:99"}).json()["host"] == "flights-local.localhost"
        )


def test_a_chunked_body_and_an_empty_answer():
    with serving(Tells()) as (_, url):
        assert httpx.post(url, content=iter([b"a" * 70_000, b"b" * 70_000])).json()["size"] == 140_000
        answer = httpx.get(f"{url}/empty")
        assert (answer.status_code, answer.content, answer.headers["allow"]) == (405, b"", "POST")
        assert "content-type" not in answer.headers
        large = httpx.get(f"{url}/large")
        assert (len(large.content), large.headers["content-length"]) == (300_001, "300001")
        assert httpx.head(f"{url}/large").headers["content-length"] == "300001"


def test_many_requests_share_a_connection():
    with serving(Tells()) as (_, url), httpx.Client(base_url=url) as client:
        for number in range(20):
            assert client.post("/", content=b"x" * number).json()["size"] == number


def test_a_body_that_is_too_large():
    """The answer arrives although the client is still sending, and no memory is spent on the rest."""
    with serving(Tells(), body_limit=1000) as (_, url):
        assert httpx.post(url, content=b"x" * 1000).status_code == 200
        for content in (b"x" * 1001, b"x" * 3_000_000, iter([b"x" * 600] * 3)):
            answer = httpx.post(url, content=content)
            assert answer.status_code == 413
            assert answer.json()["error"] == "the request body is larger than 1,000 bytes"
            assert answer.headers["connection"] == "close"


def test_a_client_that_asks_first_need_not_send_a_body_that_is_too_large():
    with serving(Tells(), body_limit=1000) as (_, url), raw(url) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_does_not_arrive():
    with serving(Tells(), body_timeout=0.3) as (_, url), raw(url) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        answer = read_all(connection)  # ends: the connection is closed
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"the request body did not arrive within 0.3 s" in answer


def test_a_slow_but_steady_body_has_the_time_it_needs(monkeypatch):
    monkeypatch.setattr(receiving, "SLOWEST", 20)  # bytes a second
    with serving(Tells(), body_timeout=0.3) as (_, url), raw(url) as connection:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 400\r\nConnection: close\r\n\r\n"
        for piece in [head + b"x" * 50, *[b"x" * 50] * 7]:
            connection.sendall(piece)
            time.sleep(0.1)  # the pace of the client
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_leaves_before_its_body_is_there():
    core = Tells()
    with serving(core) as (_, url):
        with raw(url) as connection:
            connection.sendall(b"POST /half HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        httpx.get(f"{url}/whole")
        assert core.seen == ["/whole"]


def test_hanging_up_cancels_the_call():
    core = Waits()
    with serving(core) as (_, url):
        with raw(url) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert core.running.wait(WAIT)
            assert not core.cancelled.is_set()
        assert core.cancelled.wait(WAIT)


def test_stopping_cancels_what_runs_and_what_comes():
    core = Waits()
    with serving(core) as (shell, url), ThreadPoolExecutor(1) as pool:
        answer = pool.submit(httpx.get, url, timeout=WAIT)
        assert core.running.wait(WAIT)
        loop = next(iter(shell._exchanges))._loop
        loop.call_soon_threadsafe(shell.stop)
        assert (answer.result().status_code, answer.result().json()) == (503, {"cancelled": True})
        assert httpx.get(url).json() == {"cancelled": True}


def test_stopping_in_the_moment_in_which_a_body_is_late():
    """Its time is over, its request has not been told, and in the same round of the loop the service stops."""
    shell, sent, calls, problems = Shell(Tells(), body_timeout=0.1), [], [], []

    async def receive():
        calls.append(len(calls))
        if len(calls) > 1:
            await asyncio.sleep(WAIT)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(message):
        sent.append(message.get("status"))

    async def main():
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
        serving = asyncio.create_task(shell(scope, receive, send))
        async with asyncio.timeout(WAIT):
            while not shell._receiver._reading:
                await asyncio.sleep(0)
        (limit,) = shell._receiver._reading
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(context))
        loop.call_at(limit.when() - 0.02, time.sleep, 0.05)  # so that both are due together
        loop.call_at(limit.when() + 0.001, shell.stop)
        await serving

    asyncio.run(main())
    shell.close()
    assert sent[0] == 503
    assert problems == []


def test_waiting_for_a_turn_holds_no_thread():
    core = Queues()
    with serving(core, threads=1) as (_, url), ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(httpx.get, f"{url}/wait", timeout=WAIT) for _ in range(8)]
        for _ in waiting:
            assert core.parked.acquire(timeout=WAIT)
        assert httpx.get(url).json() == "at once"
        assert not any(one.done() for one in waiting)
        for turn in core.turns:
            turn.granted = True
            turn.fire()
        assert [one.result().json() for one in waiting] == [{"granted": True, "cancelled": False}] * 8


class Gathers:
    """Parks requests to /wait until one turn for all is fired; then they run until the gate is opened."""

    def __init__(self, *, exclusive):
        self.turn, self.gate = Turn(deadline=0.0, exclusive=exclusive), threading.Event()
        self.parked, self.entered = threading.Semaphore(0), threading.Semaphore(0)

    def steps(self, request, cancel):
        if request.path == "/wait":
            self.parked.release()
            yield self.turn
            self.entered.release()
            assert self.gate.wait(WAIT)
        return http.json("done")


@contextmanager
def gathered(*, exclusive, count=4):
    """Have as many requests of one token wait as there are threads, then let them go on together."""
    core = Gathers(exclusive=exclusive)
    with serving(core, threads=count) as (_, url), ThreadPoolExecutor(count) as pool:
        headers = {"authorization": "Bearer greedy"}
        waiting = [pool.submit(httpx.get, f"{url}/wait", headers=headers, timeout=WAIT) for _ in range(count)]
        for _ in waiting:
            assert core.parked.acquire(timeout=WAIT)
        core.turn.fire()
        yield core, url
        core.gate.set()
        assert [one.result().json() for one in waiting] == ["done"] * count


def test_those_who_waited_for_the_same_go_on_within_their_share():
    with gathered(exclusive=False) as (core, url):
        for _ in range(3):
            assert core.entered.acquire(timeout=WAIT)
        assert httpx.get(url, headers={"authorization": "Bearer other"}, timeout=WAIT / 2).json() == "done"
        assert not core.entered.acquire(blocking=False)


def test_who_is_waited_for_goes_on_beyond_its_share():
    with gathered(exclusive=True) as (core, _):
        for _ in range(4):
            assert core.entered.acquire(timeout=WAIT)


def test_a_turn_that_is_there_already():
    core = Queues()
    with serving(core) as (_, url), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(httpx.get, f"{url}/wait", timeout=WAIT)
        assert core.parked.acquire(timeout=WAIT)
        core.turns[0].fire()  # before or after the shell listens: both must do
        assert waiting.result().json()["granted"] is False


def test_hanging_up_ends_the_waiting():
    core = Queues()
    done = threading.Event()
    steps = core.steps

    def watched(request, cancel):
        response = yield from steps(request, cancel)
        if cancel.is_set:
            done.set()
        return response

    core.steps = watched
    with serving(core) as (_, url):
        with raw(url) as connection:
            connection.sendall(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
            assert core.parked.acquire(timeout=WAIT)
        assert done.wait(WAIT)


def test_an_answer_made_on_the_way():
    core = Streams()
    with serving(core) as (_, url):
        answer = httpx.get(url)
        assert (answer.text, answer.headers["transfer-encoding"]) == ("0\n1\n2\n", "chunked")
        assert core.closed.is_set()


def test_an_answer_that_breaks_is_cut():
    core = Streams(fail_after=2)
    with serving(core) as (_, url), pytest.raises(httpx.RemoteProtocolError):
        httpx.get(url)
    assert core.closed.is_set()


def test_an_answer_nobody_reads_to_the_end_is_given_up():
    core = Streams()
    with serving(core) as (_, url):
        with raw(url) as connection:
            connection.sendall(b"GET /?n=1000000000 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(100)
        assert core.closed.wait(WAIT)


class Far:
    """Answers at /far as if the way to its client took an hour; notes who comes."""

    def __init__(self):
        self.seen = threading.Semaphore(0)

    def steps(self, request, cancel):
        self.seen.release()
        return Response(200, [b"{}"], delay=3600.0 if request.path == "/far" else 0.01)
        yield


def test_a_delayed_answer_holds_no_thread_and_ends_with_the_service():
    core = Far()
    with serving(core, threads=1) as (shell, url), ThreadPoolExecutor(4) as pool:
        delayed = [pool.submit(httpx.get, f"{url}/far", timeout=WAIT) for _ in range(4)]
        for _ in delayed:
            assert core.seen.acquire(timeout=WAIT)
        started = time.monotonic()
        assert httpx.get(url).json() == {}
        assert time.monotonic() - started >= 0.01
        assert not any(one.done() for one in delayed)
        next(iter(shell._exchanges))._loop.call_soon_threadsafe(shell.stop)
        assert [one.result().status_code for one in delayed] == [200] * 4


@pytest.mark.parametrize("target", [b"/\xff", b"no-slash", b"http://[", b"/%zz", b"/%ff"])
def test_odd_targets_do_no_harm(target):
    with serving(Tells()) as (_, url):
        with raw(url) as connection:
            connection.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = read_all(connection)
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 200 "))
        assert json.loads(httpx.get(url).text)["path"] == "/"


# -- bodies that go to files


class Takes:
    """Takes the bodies of /file as files; says what was in them."""

    def __init__(self, folder, *, limit=10_000_000, refusal=None):
        self.folder, self.limit, self.refusal = folder, limit, refusal

    def intake(self, request):
        assert request.body == b""  # it is asked before anything is read
        if self.refusal is not None:
            raise self.refusal
        return Spool(self.folder / "body", self.limit)

    def steps(self, request, cancel):
        data = request.file.read_bytes() if request.file else b"?"
        return http.json({"size": len(data), "first": data[:1].decode(), "in memory": len(request.body)})
        yield


@pytest.fixture
def taking(tmp_path):
    """Serve a core that takes files; afterwards none is left."""

    @contextmanager
    def taking(core=None, **options):
        core = core or Takes(tmp_path)
        with serving(core, file_paths=frozenset({"/file"}), intake=core.intake, **options) as (_, url):
            yield url
        assert list(tmp_path.iterdir()) == []

    return taking


def test_a_body_that_goes_to_a_file(taking):
    with taking(body_limit=1000) as url:
        for content in (b"x" * 5_000_000, iter([b"x" * 600_000] * 5), b""):
            size = len(content) if isinstance(content, bytes) else 3_000_000
            answer = httpx.post(f"{url}/file", content=content).json()
            assert answer == {"size": size, "first": "x" if size else "", "in memory": 0}
        assert httpx.post(f"{url}/other", content=b"x" * 1001).status_code == 413  # all others as before


def test_a_file_that_is_too_large(taking, tmp_path):
    """The answer arrives although the client is still sending."""
    with taking(Takes(tmp_path, limit=2_000_000)) as url:
        answer = httpx.post(f"{url}/file", content=iter([b"x" * 600_000] * 20))
        assert answer.status_code == 413
        assert "2,000,000 bytes" in answer.json()["error"]


def test_a_file_that_is_refused_beforehand(taking, tmp_path):
    with taking(Takes(tmp_path, refusal=Refused(401, "no"))) as url:
        assert httpx.post(f"{url}/file", content=b"x" * 20_000_000).status_code == 401
        with raw(url) as connection:  # it need not be sent at all
            connection.sendall(b"POST /file HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 50\r\n\r\n")
            assert read_all(connection).startswith(b"HTTP/1.1 401 ")


def test_a_file_that_stops_arriving(taking):
    with taking(body_timeout=0.3) as url, raw(url) as connection:
        started = time.monotonic()
        connection.sendall(b"POST /file HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        assert read_all(connection).startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - started < WAIT / 4


def test_a_client_that_leaves_in_the_middle_of_its_file(taking, tmp_path):
    with taking() as url:
        with raw(url) as connection:
            connection.sendall(b"POST /file HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
            until(lambda: list(tmp_path.iterdir()))
        until(lambda: not list(tmp_path.iterdir()))
