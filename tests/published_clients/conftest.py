"""Every published client against the service."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from client_packages import DRIVERS, CannotInstall, install_npm, install_python
from contract_servers import Database, OnPort, served
from encrypted_service import behind, encrypted
from published_clients import PUBLISHED, Driver, Published
from tls_terminator import TlsAuthority, TlsTerminator

__all__ = ["behind", "encrypted", "served"]


@dataclass
class Target:
    """A server at an address without host names, and a database in it."""

    url: str
    database: Database
    tls: TlsTerminator

    def rows(self, sql: str) -> list[list[Any]]:
        """Return the contents of the database, read without any of the clients."""
        return self.database.rows(sql)


@dataclass
class Client:
    """A published client, connected to a target. ``table`` is a unique name."""

    published: Published
    target: Target
    driver: Driver
    table: str = field(default_factory=lambda: "t" + uuid.uuid4().hex[:12])

    def __post_init__(self) -> None:
        self.execute, self.batch, self.call = self.driver.execute, self.driver.batch, self.driver.call
        self.open(self.target.database.token)

    def open(self, token: str, **options: str) -> None:
        """Connect again, with a token."""
        url = self.target.tls.url if self.published.tls else self.target.url
        self.driver.call("open", url=url, token=token, **options)

    def stored(self, columns: str = "*") -> list[list[Any]]:
        """The contents of the table, read without the client."""
        return self.target.rows(f"SELECT {columns} FROM {self.table} ORDER BY rowid")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "offers(*features): runs with the clients that offer all of these")
    config.addinivalue_line("markers", "package(name, registry): runs with this client only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "client" not in metafunc.fixturenames:
        return
    marks = {mark.name: mark for mark in metafunc.definition.iter_markers()}
    chosen = [published for published in PUBLISHED if _fits(published, marks)]
    metafunc.parametrize("client", chosen, ids=[published.id for published in chosen], indirect=True)


def _fits(one: Published, marks: dict[str, pytest.Mark]) -> bool:
    if "package" in marks and (one.package, one.registry) != marks["package"].args:
        return False
    return "offers" not in marks or one.offers.issuperset(marks["offers"].args)


@pytest.fixture
def client(request: pytest.FixtureRequest, target: Target, drivers: Callable[[Published], Driver]) -> Client:
    """A client that is connected to the service; `published_clients` lists the clients."""
    return Client(request.param, target, drivers(request.param))


@pytest.fixture(scope="session")
def target(served: OnPort, authority: TlsAuthority) -> Iterator[Target]:
    """A database of the service. At the service's own address the token names the database."""
    tls = authority.terminator(served.address)
    yield Target(served.address, served.database(), tls)
    tls.close()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TlsAuthority:
    return TlsAuthority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of installed packages, which is kept between runs."""
    cache = getattr(request.config, "cache", None)
    return cache.mkdir("clients") if cache else tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="session")
def npm_folder(packages: Path, require_real: Callable[[str], None]) -> Path:
    """The folder with the npm packages and the scripts that drive them."""
    try:
        return install_npm(packages)
    except CannotInstall as error:
        require_real(f"the npm packages cannot be installed: {error}")
        raise


@pytest.fixture(scope="session")
def clients_python(packages: Path, require_real: Callable[[str], None]) -> Path:
    """The interpreter of the environment with the Python packages."""
    try:
        return install_python(packages)
    except CannotInstall as error:
        require_real(f"the Python packages cannot be installed: {error}")
        raise


@pytest.fixture(scope="session")
def start(request: pytest.FixtureRequest, authority: TlsAuthority) -> Iterator[Callable[[str], Driver]]:
    """Start a script of the folder ``drivers``, until the end of the session."""
    started: list[Driver] = []

    def begin(script: str) -> Driver:
        name, *arguments = script.split()
        if name.endswith(".mjs"):
            command = ["node", request.getfixturevalue("npm_folder") / name, *arguments]
        else:
            command = [request.getfixturevalue("clients_python"), DRIVERS / name, *arguments]
        trust = {name: str(authority.file) for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")}
        driver = Driver(command, {**trust, "PYTHONPATH": ""})
        started.append(driver)
        return driver

    yield begin
    for driver in started:
        driver.close()


@pytest.fixture(scope="session")
def drivers(start: Callable[[str], Driver]) -> Callable[[Published], Driver]:
    """Return the driver of a package, which is started at its first use."""
    running: dict[Published, Driver] = {}

    def driver_of(published: Published) -> Driver:
        if published not in running:
            running[published] = start(published.script)
        return running[published]

    return driver_of
