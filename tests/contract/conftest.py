"""Run the tests of this folder against the service in process, also with an encryption key, and against sqld.

A difference is listed in `differences`.

Tests of what depends on the way to a server (HTTP, processes) have the marker ``every_server``: they also run against
the service as a process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from contract_servers import Database, InProcess, OnPort, OnSqld, Server, WithKey, closing
from differences import DIFFERENCES, FACTS
from sqld_server import Sqld

SERVERS = ["in_process", "with_key", "sqld"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fake_clock: needs a clock that the test moves, so it runs in process only")
    config.addinivalue_line("markers", "every_server: depends on the way to the server, so it runs on a port, too")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" not in metafunc.fixturenames:
        return
    # With a real clock these tests would take minutes; one test for each window waits there.
    servers = SERVERS[:1] if metafunc.definition.get_closest_marker("fake_clock") else SERVERS
    if metafunc.definition.get_closest_marker("every_server"):
        servers = [*SERVERS, "on_port"]
    metafunc.parametrize("server", servers, indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect a failure for every listed difference; such a test that passes is reported as a failure (strict)."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        server = callspec.params.get("server") if callspec else None
        for difference in DIFFERENCES:
            in_process = server == "with_key"  # the same service
            name = item.name.replace("[with_key-", "[in_process-") if in_process else item.name
            if difference.applies(name, "in_process" if in_process else server):
                reason = f"{server}: {difference.instead} ({difference.reason})"
                item.add_marker(pytest.mark.xfail(strict=True, reason=reason))


@pytest.fixture(scope="session")
def server_in_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with closing(InProcess(tmp_path_factory.mktemp("in-process"))) as server:
        yield server


@pytest.fixture(scope="session")
def server_with_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with closing(WithKey(tmp_path_factory.mktemp("with-key"))) as server:
        yield server


@pytest.fixture(scope="session")
def server_on_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = OnPort(tmp_path_factory.mktemp("on-port"))
    with closing(made) as server:
        yield server
    # After the whole suite the log must contain no token and no traceback.
    assert not re.search(r"pmp_\w{8}|eyJ\w+\.", made.log)
    assert "Traceback" not in made.log


@pytest.fixture(scope="session")
def server_sqld(sqld: Sqld) -> Iterator[Server]:
    with closing(OnSqld(sqld)) as server:
        yield server


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Server:
    """Return each server in turn, running until the end: scenarios of other tests may still use it."""
    return request.getfixturevalue(f"server_{request.param}")


@pytest.fixture
def db(server: Server) -> Iterator[Database]:
    """Return a new database."""
    yield server.database()
    if isinstance(server, InProcess):
        server.expire()


@pytest.fixture(scope="session")
def empty(server: Server) -> Database:
    """Return a database that tests do not change."""
    return server.database()


@pytest.fixture
def other(server: Server) -> Database:
    """Return another new database of the same server."""
    return server.database()


@pytest.fixture
def fact(server: Server):
    """Return a function that looks up the behaviour of this server where servers may differ."""
    return lambda name: FACTS[name].get(server.name, FACTS[name]["service"])
