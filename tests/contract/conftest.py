"""Run every test of this folder against every server, and hold each difference to its line in `differences`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from contract_servers import Database, InProcess, OnPort, OnSqld, OnSqldEngine, Server, closing
from differences import DIFFERENCES, FACTS
from sqld_engine import SqldEngineProcess
from sqld_server import Sqld

SERVERS = ["in_process", "on_port", "sqld", "on_sqld_engine"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fake_clock: needs a clock that the test moves, so it runs in process only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" not in metafunc.fixturenames:
        return
    # Minutes of waiting would be needed where the clock is real: one test for each window does it there.
    servers = SERVERS[:1] if metafunc.definition.get_closest_marker("fake_clock") else SERVERS
    metafunc.parametrize("server", servers, indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect a failure for every listed difference; a test that passes all the same fails for it (strict)."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        server = callspec.params.get("server") if callspec else None
        for difference in DIFFERENCES:
            if difference.applies(item.name, server):
                reason = f"{server}: {difference.instead} ({difference.reason})"
                item.add_marker(pytest.mark.xfail(strict=True, reason=reason))


@pytest.fixture(scope="session")
def server_in_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with closing(InProcess(tmp_path_factory.mktemp("in-process"))) as server:
        yield server


@pytest.fixture(scope="session")
def server_on_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = OnPort(tmp_path_factory.mktemp("on-port"))
    with closing(made) as server:
        yield server
    # After everything that this suite sends: no token, and no bug that only the log knows of.
    assert not re.search(r"pmp_\w{8}|eyJ\w+\.", made.log)
    assert "Traceback" not in made.log


@pytest.fixture(scope="session")
def server_sqld(sqld: Sqld) -> Iterator[Server]:
    with closing(OnSqld(sqld)) as server:
        yield server


@pytest.fixture(scope="session")
def server_on_sqld_engine(sqld_engine: SqldEngineProcess) -> Iterator[Server]:
    with closing(OnSqldEngine(sqld_engine)) as server:
        yield server


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Server:
    """Each server in turn; it is kept to the end, as scenarios of other tests may be under way there."""
    return request.getfixturevalue(f"server_{request.param}")


@pytest.fixture
def db(server: Server) -> Iterator[Database]:
    """A fresh database."""
    yield server.database()
    if isinstance(server, InProcess):
        server.expire()


@pytest.fixture
def other(server: Server) -> Database:
    """Another fresh database of the same server."""
    return server.database()


@pytest.fixture
def fact(server: Server):
    """Look up what this server does where servers may differ."""
    name_of_facts = "sqld" if server.name == "on_sqld_engine" else server.name
    return lambda name: FACTS[name].get(name_of_facts, FACTS[name]["service"])
