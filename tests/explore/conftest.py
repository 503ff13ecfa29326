"""Databases to ask: of the embedded service in process, of sqld, and of a server that knows only the seed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from seed_server import SeedServer
from service_http import ServiceTransport
from sqld_server import SqldDatabase

from pipemagic.client.database import Database
from pipemagic.service.service import Service


@pytest.fixture
def embedded(service: Service, clock) -> Iterator[Database]:
    yield from in_process(service, clock, "flights")


@pytest.fixture
def embedded_too(service: Service, clock) -> Iterator[Database]:
    """Another database of the same service."""
    yield from in_process(service, clock, "others")


def in_process(service: Service, clock, name: str) -> Iterator[Database]:
    record = service.catalog.create_database("local", name, "default")
    token = service.tokens.issue_database(record, read_only=False, expires_in=None, subject="ada")
    with Database(
        "http://127.0.0.1:8080", token, http=httpx.Client(transport=ServiceTransport(service)), clock=clock
    ) as database:
        yield database


@pytest.fixture
def read_only(service: Service, clock, embedded: Database) -> Iterator[Database]:
    """The embedded database with a token that reads only."""
    record = service.catalog.database("local", "flights")
    token = service.tokens.issue_database(record, read_only=True, expires_in=None, subject="ada")
    with Database(
        "http://127.0.0.1:8080", token, http=httpx.Client(transport=ServiceTransport(service)), clock=clock
    ) as database:
        yield database


@pytest.fixture
def on_sqld(sqld_database: SqldDatabase) -> Iterator[Database]:
    with Database(sqld_database.url, sqld_database.token) as database:
        yield database


@pytest.fixture
def on_seed(tmp_path: Path) -> Iterator[Database]:
    server = SeedServer(tmp_path)
    with Database(server.url, "a-secret-token") as database:
        yield database
    server.close()


@pytest.fixture(params=["embedded", "on_sqld"])
def database(request: pytest.FixtureRequest) -> Database:
    """A database of either engine, or of the kind that a test names, such as of a server that knows only the seed."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def count_requests(monkeypatch):
    """Count the pipelines that are sent from now on."""

    def watch(database: Database) -> list[int]:
        sent: list[int] = []
        send = database.transport.send

        def counted(message):
            sent.append(1)
            return send(message)

        monkeypatch.setattr(database.transport, "send", counted)
        return sent

    return watch
