"""What tests of every part share: the real servers that they run against."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from service_calls import Clock
from sqld_engine import SqldEngineProcess
from sqld_server import Sqld, SqldDatabase

from pipemagic.service.core import Service
from pipemagic.service.sqld.binary import NoSqld, find

# Runs are alike and never fail for a slow machine; `--hypothesis-profile=search` looks for new cases.
settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile("suite")

REQUIRED = "PIPEMAGIC_REQUIRE_REAL"


@pytest.fixture(params=[pytest.param(False, id="short"), pytest.param(True, id="long", marks=pytest.mark.soak)])
def soak(request: pytest.FixtureRequest) -> bool:
    """Return True in the long form of a test, which only `pytest -m soak` runs; the short form is in the suite."""
    return bool(request.param)


def skip_or_fail(reason: str) -> None:
    """Skip a test whose real part is not here; where real parts are required, fail."""
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{REQUIRED}=1, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def require_real():
    """`skip_or_fail`, for tests that look for a real part by themselves."""
    return skip_or_fail


@pytest.fixture(scope="session")
def sqld_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a sqld binary."""
    try:
        return find(tmp_path_factory.mktemp("sqld-binary"))
    except NoSqld as reason:
        skip_or_fail(reason.message)
        raise


@pytest.fixture(scope="session")
def sqld(sqld_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sqld]:
    """A running sqld; `sqld.database()` makes a fresh database with `url` and `token`."""
    server = Sqld(sqld_binary, tmp_path_factory.mktemp("sqld"))
    yield server
    server.close()


@pytest.fixture
def sqld_database(sqld: Sqld) -> SqldDatabase:
    """A fresh database of sqld."""
    return sqld.database()


@pytest.fixture(scope="session")
def sqld_engine(sqld_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqldEngineProcess]:
    """A service in front of three nodes, for tests that take nothing down."""
    engine = SqldEngineProcess(sqld_binary, tmp_path_factory.mktemp("sqld-engine"))
    yield engine
    engine.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def service(tmp_path, clock):
    """A service by calls over a temporary folder; nothing sweeps unless the test does."""
    service = Service(tmp_path / "data", clock=clock)
    service.catalog.create_group("local", "default", "ams")
    yield service
    service.close()
