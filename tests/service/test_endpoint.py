"""Endpoints on a port: bodies and their limits, waiting, streamed and delayed responses, uploads, and the end."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from served_apps import serving
from starlette.routing import Route
from waiting import until

from pipemagic.service import endpoint as module
from pipemagic.service import responses
from pipemagic.service.endpoint import Endpoint, Runtime
from pipemagic.service.executor import Waiter
from pipemagic.service.limits import MB, Limits
from pipemagic.service.memory import MemoryBudget, Reservation
from pipemagic.service.responses import Refused, StreamedResponse
from pipemagic.service.transfer.endpoints import NO_LIMIT, UploadEndpoint

WAIT = 10.0


class Service:
    """One endpoint at every path. Subclasses handle its requests; the account is the value of Authorization."""

    own_hosts = frozenset({"127.0.0.1", "x"})
    body_limit = MB

    def routes(self, runtime):
        return [Route("/{rest:path}", self.endpoint(runtime))]

    @property
    def engine(self):
        return self

    def database_routes(self, _runtime):
        return []

    def recall_host(self, _host):
        return None

    def find_host(self, host):
        raise Refused(421, f"not {host}")

    def endpoint(self, runtime):
        return OneEndpoint(runtime, self)

    def handle(self, request, body):
        raise NotImplementedError


class OneEndpoint(Endpoint):
    def __init__(self, runtime, service):
        super().__init__(runtime, service.handle, body_limit=service.body_limit)

    async def admit(self, request):
        return request.url.path.split("/")[1]  # the requests of /wait are of one database


class Echo(Service):
    """Responds with the size of the body of the request."""

    def __init__(self, *, body_limit=MB):
        self.body_limit, self.seen = body_limit, []

    def handle(self, request, body):
        self.seen.append(request.scope["path"])
        return responses.json({"size": len(body)})
        yield


class UntilCancelled(Service):
    """Runs until its client disconnects."""

    def __init__(self):
        self.running, self.cancelled = threading.Event(), threading.Event()

    def handle(self, request, body):
        request.add_callback(self.cancelled.set)
        self.running.set()
        assert self.cancelled.wait(WAIT)
        return responses.json({"cancelled": request.cancelled}, 503)
        yield


class Waits(Service):
    """Waits below /wait until its waiter is done, then until the gate is opened."""

    def __init__(self, *, exclusive=False):
        self.exclusive = exclusive
        self.waiters = []
        self.gate = threading.Event()
        self.waiting, self.resumed = threading.Semaphore(0), threading.Semaphore(0)

    def handle(self, request, body):
        if request.url.path.startswith("/wait"):
            waiter = Waiter(deadline=0.0, exclusive=self.exclusive)
            self.waiters.append(waiter)
            self.waiting.release()
            yield waiter
            self.resumed.release()
            assert self.gate.wait(WAIT)
            return responses.json({"granted": waiter.granted, "cancelled": request.cancelled})
        return responses.json("at once")


class Streams(Service):
    """Responds with a body that fails while it is sent."""

    def __init__(self):
        self.closed = threading.Event()

    def handle(self, request, body):
        try:
            yield StreamedResponse("text/plain")
            yield b"0\n"
            raise RuntimeError("half-way")
        finally:
            self.closed.set()


class Far(Service):
    """Responds at /far with a delay of an hour."""

    def __init__(self):
        self.seen = threading.Semaphore(0)

    def handle(self, request, body):
        self.seen.release()
        response = responses.json({})
        response.delay = 3600.0 if request.url.path == "/far" else 0.01
        return response
        yield


class Uploads(Service):
    """Writes the body of /file to a file of a folder; responds with its content."""

    def __init__(self, folder, *, limit=10_000_000, refusal=None):
        self.folder, self.limit, self.refusal = folder, limit, refusal

    def endpoint(self, runtime):
        return UploadToFile(runtime, self)

    @contextmanager
    def begin_upload(self, _grant, size):
        if self.refusal is not None:
            raise self.refusal
        path = self.folder / "body"
        try:
            with path.open("xb") as file:
                self.check_size(size)
                yield file
        finally:
            path.unlink()

    def write(self, _grant, file, data):
        self.check_size(file.tell() + len(data))
        file.write(data)

    def check_size(self, size):
        if size > self.limit:
            raise module.too_large(self.limit)


class UploadToFile(UploadEndpoint):
    def __init__(self, runtime, service):
        Endpoint.__init__(self, runtime, self.respond, body_limit=NO_LIMIT)
        self.transfers = service

    async def admit(self, request):
        request.grant = None  # `begin_upload` of this service needs none
        return "db"

    def respond(self, _request, body):
        data = Path(body.name).read_bytes()
        return responses.json({"size": len(data), "first": data[:1].decode()})
        yield


def read_all(connection):
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def head(method="POST", target="/", *lines):
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: x", *lines, "", ""]).encode()


# -- requests and bodies


def test_a_body_that_is_too_large():
    """The response arrives although the client is still sending, and the connection can be used again."""
    service = Echo(body_limit=1000)
    with serving(service) as app, httpx.Client(base_url=app.url) as client:
        for content in (b"x" * 1001, b"x" * 3_000_000, iter([b"x" * 600] * 3)):
            answer = client.post("/", content=content)
            assert answer.status_code == 413
            assert answer.json()["error"] == "the request body is larger than 1,000 bytes"
        assert service.seen == []
        assert client.post("/", content=b"x" * 1000).status_code == 200
        body = head("POST", "/", "Content-Length: 3000000") + b"x" * 3_000_000
        with app.connect() as connection:
            connection.sendall(body + head("GET", "/next", "Connection: close"))
            answers = read_all(connection)
        assert answers.startswith(b"HTTP/1.1 413 ")
        assert answers.count(b"HTTP/1.1 ") == 2
        assert service.seen == ["/", "/next"]


def test_a_body_that_does_not_arrive():
    with serving(Echo(), Runtime(body_timeout=0.3)) as app, app.connect() as connection:
        connection.sendall(head("POST", "/", "Content-Length: 10") + b"half")
        answer = read_all(connection)  # ends: the connection is closed
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"the request body did not arrive within 0.3 s" in answer


def test_a_slow_but_steady_body_has_the_time_it_needs(monkeypatch):
    monkeypatch.setattr(module, "SLOWEST", 20)  # bytes a second
    with serving(Echo(), Runtime(body_timeout=0.3)) as app, app.connect() as connection:
        begin = head("POST", "/", "Content-Length: 400", "Connection: close")
        for piece in [begin + b"x" * 50, *[b"x" * 50] * 7]:
            connection.sendall(piece)
            time.sleep(0.1)  # the speed of the client
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")


# -- the memory for requests


def test_a_database_has_as_much_as_it_leaves_free():
    for count in (1, 2, 16):
        budget = MemoryBudget(1700)
        reservations = [Reservation(budget, f"database {number}") for number in range(count)]
        share = 1700 // (count + 1)
        assert all(reservation.resize(share) for reservation in reservations)
        assert not reservations[0].resize(share + 2)
        newcomer = Reservation(budget, "newcomer")
        assert newcomer.resize(share // 2)
        assert budget.taken == count * share + share // 2
        for reservation in (*reservations, newcomer):
            reservation.release()
        assert budget.taken == 0


def test_the_reservations_of_a_database_are_added_up():
    budget = MemoryBudget(1000)
    first, second = Reservation(budget, "a"), Reservation(budget, "a")
    assert first.resize(300)
    assert not second.resize(201)
    assert second.resize(200)
    assert first.resize(100)  # returning is always possible
    assert second.resize(400)
    assert (first.size, second.size, budget.taken) == (100, 400, 500)


class Holds(Echo):
    """Responds when the gate is opened."""

    def __init__(self):
        super().__init__(body_limit=100 * MB)
        self.gate, self.running = threading.Event(), threading.Semaphore(0)

    def handle(self, request, body):
        self.running.release()
        assert self.gate.wait(WAIT)
        return responses.json({"size": len(body)})
        yield


SMALL = Limits(memory=64 * MB)  # of which a database can have 16


def test_a_body_that_can_never_fit_is_413_and_others_wait_for_memory():
    service = Holds()
    with serving(service, Runtime(SMALL)) as app, ThreadPoolExecutor(2) as pool:
        refused = httpx.post(app.url, content=b"x" * (16 * MB + 1), timeout=WAIT)
        assert refused.status_code == 413
        assert "16,777,217 bytes" in refused.json()["error"]
        first = pool.submit(httpx.post, f"{app.url}/a", content=b"x" * (10 * MB), timeout=WAIT)
        assert service.running.acquire(timeout=WAIT)
        assert app.runtime.memory.taken == 10 * MB
        second = pool.submit(httpx.post, f"{app.url}/a", content=b"x" * (8 * MB), timeout=WAIT)
        other = pool.submit(httpx.post, f"{app.url}/b", content=b"x" * MB, timeout=WAIT)
        service.gate.set()
        assert [answer.result().status_code for answer in (first, second, other)] == [200] * 3
        until(lambda: app.runtime.memory.taken == 0)


def test_what_is_only_declared_takes_no_memory():
    with serving(Holds(), Runtime(SMALL)) as app, app.connect() as connection:
        connection.sendall(head("POST", "/a", "Content-Length: 16000000") + b"x" * 1000)
        until(lambda: app.runtime._reading)
        assert app.runtime.memory.taken == 0
        connection.sendall(b"x" * 200_000)
        until(lambda: app.runtime.memory.taken == app.runtime.memory.largest)  # it may need more than 16 MB
    until(lambda: app.runtime.memory.taken == 0)


# -- disconnecting and stopping


def test_stopping_cancels_running_and_later_requests():
    service = UntilCancelled()
    with serving(service) as app, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(httpx.get, app.url, timeout=WAIT)
        assert service.running.wait(WAIT)
        app.stop()
        assert (answer.result().status_code, answer.result().json()) == (503, {"cancelled": True})
        assert httpx.get(app.url).status_code == 503


def test_stopping_refuses_a_body_that_is_being_read():
    with serving(Echo()) as app, app.connect() as connection:
        connection.sendall(head("POST", "/", "Content-Length: 10") + b"half")
        until(lambda: app.runtime._reading)
        app.stop()
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"the service is stopping" in answer


# -- waiting


@contextmanager
def resumed(*, exclusive, count=4):
    """Let requests of one database wait, of which two may be long-running; then end all waits at the same time."""
    service = Waits(exclusive=exclusive)
    with serving(service, of_database=2) as app, ThreadPoolExecutor(count) as pool:
        waiting = [pool.submit(httpx.get, f"{app.url}/wait/{number}", timeout=WAIT) for number in range(count)]
        for _ in waiting:
            assert service.waiting.acquire(timeout=WAIT)
        for waiter in service.waiters:
            waiter.finish()
        yield service, app
        service.gate.set()
        assert {future.result().status_code for future in waiting} == {200}


def test_requests_that_waited_continue_within_the_limit_of_their_database():
    with resumed(exclusive=False) as (service, app):
        for _ in range(2):
            assert service.resumed.acquire(timeout=WAIT)
        assert httpx.get(app.url, timeout=WAIT / 2).json() == "at once"
        assert not service.resumed.acquire(blocking=False)


def test_requests_that_others_wait_for_continue_beyond_the_limit_of_their_database():
    with resumed(exclusive=True) as (service, _):
        for _ in range(4):
            assert service.resumed.acquire(timeout=WAIT)


# -- streamed and delayed responses


def test_a_streamed_response_that_fails_is_cut():
    service = Streams()
    with serving(service) as app, pytest.raises(httpx.RemoteProtocolError):
        httpx.get(app.url)
    assert service.closed.is_set()


def test_a_delayed_response_holds_no_thread_and_ends_with_the_service():
    service = Far()
    with serving(service) as app, ThreadPoolExecutor(4) as pool:
        delayed = [pool.submit(httpx.get, f"{app.url}/far", timeout=WAIT) for _ in range(4)]
        for _ in delayed:
            assert service.seen.acquire(timeout=WAIT)
        assert httpx.get(app.url).json() == {}
        assert app.runtime.executor.workers == 1
        assert not any(future.done() for future in delayed)
        app.stop()
        assert [future.result().status_code for future in delayed] == [200] * 4


# -- uploads


@pytest.fixture
def taking(tmp_path):
    """Serve uploads; afterwards no file is left."""

    @contextmanager
    def taking(runtime=None, **options):
        with serving(Uploads(tmp_path, **options), runtime) as app:
            yield app
        assert list(tmp_path.iterdir()) == []

    return taking


def test_a_file_that_is_too_large(taking):
    """The response arrives although the client is still sending."""
    with taking(limit=2_000_000) as app:
        for content in (iter([b"x" * 600_000] * 20), b"x" * 12_000_000):
            answer = httpx.post(f"{app.url}/file", content=content)
            assert answer.status_code == 413
            assert "2,000,000 bytes" in answer.json()["error"]


def test_a_file_that_is_refused_beforehand(taking):
    with taking(refusal=Refused(401, "no")) as app:
        assert httpx.post(f"{app.url}/file", content=b"x" * 20_000_000).status_code == 401
        with app.connect() as connection:  # it need not be sent at all
            connection.sendall(head("POST", "/file", "Expect: 100-continue", "Content-Length: 50"))
            assert connection.recv(1000).startswith(b"HTTP/1.1 401 ")


def test_a_file_that_stops_arriving(taking):
    with taking(Runtime(body_timeout=0.3)) as app, app.connect() as connection:
        connection.sendall(head("POST", "/file", "Content-Length: 10") + b"half")
        assert read_all(connection).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_disconnects_in_the_middle_of_its_file(taking, tmp_path):
    with taking() as app:
        with app.connect() as connection:
            connection.sendall(head("POST", "/file", "Content-Length: 10") + b"half")
            until(lambda: list(tmp_path.iterdir()))
        until(lambda: not list(tmp_path.iterdir()))
