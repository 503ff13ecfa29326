"""Fixtures for the test suites of others: the suites, and new databases on the service and on sqld."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from client_packages import CannotInstall, download_sources
from contract_servers import served

__all__ = ["served"]

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


@dataclass(frozen=True)
class Server:
    """A server that creates databases."""

    name: str
    create: Callable[[], tuple[str, str]]
    """Create a database; return its address and a token."""


@pytest.fixture(scope="session")
def download(request: pytest.FixtureRequest, require_real: Callable[[str], None]) -> Callable[[Path], Path]:
    """Return a function that downloads source archives that a file pins, into a folder that is kept between runs."""
    cache = getattr(request.config, "cache", None)
    folder = cache.mkdir("suites") if cache else request.getfixturevalue("tmp_path_factory").mktemp("suites")

    def download(requirements: Path) -> Path:
        try:
            return download_sources(folder, requirements)
        except CannotInstall as error:
            require_real(f"the suites cannot be downloaded: {error}")
            raise

    return download


@pytest.fixture(scope="session")
def archives(download: Callable[[Path], Path]) -> Path:
    """The folder of the source archives of the suites for PEP 249."""
    return download(REQUIREMENTS)


@pytest.fixture(params=["service", "sqld"])
def server(request: pytest.FixtureRequest) -> Server:
    """The service and sqld in turn."""
    if request.param == "sqld":
        sqld = request.getfixturevalue("sqld")

        def create() -> tuple[str, str]:
            database = sqld.database()
            return database.url, database.token
    else:
        served = request.getfixturevalue("served")

        def create() -> tuple[str, str]:
            return served.address, served.database().token  # at this address the token names the database

    return Server(request.param, create)
