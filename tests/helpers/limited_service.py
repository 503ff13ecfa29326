"""A service in process with chosen limits, and a session on it; the test moves the clock of both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from scripted_server import Answer
from service_calls import Clock, caller_of, new_service
from service_http import ServiceTransport

from pipemagic.client.database import Database
from pipemagic.hrana.stream import LIMITS_HEADER
from pipemagic.service.limits import Limits
from pipemagic.service.service import Service
from pipemagic.session import CellResult, Connection, Session
from pipemagic.session.cell import RunOptions


class OddTransport(ServiceTransport):
    """Passes requests to a service that behaves like another server, and can lose a request or its response.

    It names no idle limit unless it ``names_limits``. ``refusal`` replaces the service's own refusal of a baton.
    ``lost_request`` and ``lost_response`` are texts: the next request that contains one does not arrive, or its
    response does not. ``before`` is called with the body of each request. ``requests`` are those bodies.
    """

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self.names_limits = False
        self.refusal: Answer | None = None
        self.before: Callable[[bytes], None] = lambda _: None
        self.lost_request = self.lost_response = ""
        self.requests: list[bytes] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        self.requests.append(body)
        self.before(body)
        if self.lost_request and self.lost_request.encode() in body:
            self.lost_request = ""
            raise httpx.ReadError("the connection was closed", request=request)
        response = super().handle_request(request)
        if self.lost_response and self.lost_response.encode() in body:
            self.lost_response = ""
            raise httpx.ReadError("the connection was closed", request=request)
        if self.refusal is not None and response.status_code == 400:
            headers = {"content-type": self.refusal.content_type}
            return httpx.Response(self.refusal.status, headers=headers, content=self.refusal.body)
        return response if self.names_limits else without_limits(response)


def without_limits(response: httpx.Response) -> httpx.Response:
    """Return a response without what only our service says of its limits."""
    headers = {
        name: value
        for name, value in response.headers.items()
        if name not in ("content-length", LIMITS_HEADER.decode())
    }
    content = re.sub(rb',"stream_ttl_ms":\d+', b"", response.read())
    return httpx.Response(response.status_code, headers=headers, content=content)


class LimitedService:
    """A service in process, and a session on its database with the table ``n`` and a row in it."""

    def __init__(self, service: Service, clock: Clock, *, names_limits: bool) -> None:
        self.service, self.clock, self.transport = service, clock, OddTransport(service)
        self.transport.names_limits = names_limits
        self.session = Session(environ={})
        self.session.adopt(self.connect("main"))
        self.run("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1)")

    def database(self) -> Database:
        """Return the database, as another client."""
        token, http = caller_of(self.service, "flights").token, httpx.Client(transport=self.transport)
        return Database("http://127.0.0.1:8080", token, http=http, clock=self.clock)

    def connect(self, name: str) -> Connection:
        """Return a new connection to the database."""
        return Connection(name, self.database(), "a test")

    @property
    def connection(self) -> Connection:
        """The connection of the session."""
        return self.session.connection()

    def run(self, cell: str, *, atomic: bool = False) -> CellResult:
        """Run a cell."""
        return self.session.run_cell(cell, options=RunOptions(atomic=atomic))

    def pause(self, seconds: float) -> None:
        """Let time pass; the service ends what is overdue."""
        self.clock.advance(seconds)
        self.service.engine.sweep()

    @property
    def open_transactions(self) -> int:
        """The number of transactions that are open at the service."""
        return self.service.engine.streams.count_transactions()

    @property
    def numbers(self) -> list[int]:
        """The rows that are committed."""
        with self.database() as other:
            return [i for (i,) in other.execute("SELECT i FROM n ORDER BY i").rows]


@pytest.fixture
def names_limits() -> bool:
    """Whether the service of `limited` names its limits; tests override it by a parameter."""
    return False


@pytest.fixture
def limited(limits: Limits, names_limits: bool, tmp_path: Path, clock: Clock) -> Iterator[LimitedService]:
    """A session on a service in process with ``limits``."""
    with new_service(tmp_path, clock=clock, limits=limits) as service:
        made = LimitedService(service, clock, names_limits=names_limits)
        yield made
        made.session.shut_down()
