"""Servers to talk to: odd ones of our own, sqld, and the embedded service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted_server import Answer, Call, ScriptedServer
from seed_server import SeedServer
from service_http import ServiceTransport
from sqld_server import SqldDatabase
from version_2 import version_2

from pipemagic.client.address import parse_address
from pipemagic.client.database import Database
from pipemagic.client.stream import ClientStream, Dialect
from pipemagic.client.transport import Transport
from pipemagic.service.limits import Limits
from pipemagic.service.service import Service

Script = Answer | Callable[[Call], Answer]


class Clock:
    """Seconds that pass only when a test advances them."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.step = 0.0  # what passes at every look

    def __call__(self) -> float:
        self.time += self.step
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pauses() -> list[float]:
    """How long the client under test would have slept."""
    return []


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedServer]]:
    """Start a server that answers POST by the given script."""
    servers: list[ScriptedServer] = []

    def start(*script: Script) -> ScriptedServer:
        servers.append(ScriptedServer(*script))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def seed(tmp_path: Path, clock: Clock) -> Iterator[SeedServer]:
    server = SeedServer(tmp_path, clock)
    yield server
    server.close()


@pytest.fixture
def stream_to(clock: Clock, pauses: list[float]) -> Iterator[Callable[..., ClientStream]]:
    """Return a stream to a server, on the test's clock."""
    transports: list[Transport] = []

    def make(
        server: ScriptedServer, dialect: Dialect = Dialect.V3, token: str = "a-secret-token", **options: Any
    ) -> ClientStream:
        transports.append(Transport(parse_address(server.url), token, sleep=pauses.append, timeout=5))
        return ClientStream(transports[-1], dialect=dialect, clock=clock, **options)

    yield make
    for transport in transports:
        transport.close()


def connect_in_process(service: Service, clock: Clock, name: str = "flights") -> Database:
    record = service.catalog.create_database("local", name, "default")
    token = service.tokens.issue_database(record, read_only=False, expires_in=None, subject="ada")
    http = httpx.Client(transport=ServiceTransport(service))
    return Database("http://127.0.0.1:8080", token, http=http, clock=clock)


@pytest.fixture
def embedded(service: Service, clock: Clock) -> Iterator[Database]:
    """A database of the embedded service."""
    with connect_in_process(service, clock) as database:
        yield database


@pytest.fixture
def limited(tmp_path: Path, clock: Clock) -> Iterator[Callable[[Limits], tuple[Service, Database]]]:
    """Create an embedded service with other limits, and a client of its database ``flights``."""
    with ExitStack() as stack:

        def create(limits: Limits) -> tuple[Service, Database]:
            service = Service(tmp_path / "limited", clock=clock, limits=limits)
            stack.callback(service.close)
            service.catalog.create_group("local", "default", "ams")
            return service, stack.enter_context(connect_in_process(service, clock))

        yield create


@pytest.fixture
def on_sqld(sqld_database: SqldDatabase) -> Iterator[Database]:
    """A database of sqld."""
    with Database(sqld_database.url, sqld_database.token) as database:
        yield database


@pytest.fixture
def on_seed(seed: SeedServer, clock: Clock) -> Iterator[Database]:
    """A database of a server that knows the seed and nothing else."""
    with Database(seed.url, "a-secret-token", clock=clock) as database:
        yield database


@pytest.fixture
def on_version_2(sqld_database: SqldDatabase) -> Iterator[Database]:
    """A database of a server without version 3 of the protocol."""
    with version_2(sqld_database) as database:
        yield database


@pytest.fixture(params=["on_sqld", "on_version_2", "on_seed"])
def database(request: pytest.FixtureRequest) -> Database:
    """A database of a server with the whole protocol, of one without version 3, and of one with the seed alone."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["embedded", "on_sqld"])
def full(request: pytest.FixtureRequest) -> Database:
    """A database of both servers with the whole protocol."""
    return request.getfixturevalue(request.param)
