"""Servers to talk to: odd ones of our own, sqld, and the embedded service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scripted_server import Answer, Call, ScriptedServer
from seed_server import SeedServer

from pipemagic.client import urls
from pipemagic.client.stream import ClientStream, Dialect
from pipemagic.client.transport import Transport

Script = Answer | Callable[[Call], Answer]


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
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
    """Give a stream to a server, on the test's clock."""
    transports: list[Transport] = []

    def make(server: ScriptedServer, dialect: Dialect = Dialect.V3, token: str = "a-secret-token") -> ClientStream:
        transports.append(Transport(urls.parse(server.url), token, sleep=pauses.append, timeout=5))
        return ClientStream(transports[-1], dialect=dialect, clock=clock)

    yield make
    for transport in transports:
        transport.close()
