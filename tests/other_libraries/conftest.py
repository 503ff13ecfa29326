"""A database for libraries of others, and the environment beside with those that the tests do not import."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy
from client_packages import CannotInstall, install_python
from distributions import search_path
from magic_shell import make_database, service

import pipemagic
from pipemagic import dbapi
from pipemagic.client.database import Database
from pipemagic.dbapi.notebook import CurrentConnection
from pipemagic.session import Connection, Session

__all__ = ["service"]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TIMEOUT = 300  # seconds


@dataclass(frozen=True)
class Target:
    """A new database: its address, token, and the URL of its engine."""

    url: str
    token: str
    is_sqld: bool

    @property
    def engine_url(self) -> str:
        return f"sqlite+pipemagic://{self.url.removeprefix('http://')}"

    def addressed(self, text: str) -> str:
        """Return a text of the documentation with the address of this database."""
        text = text.replace("sqlite+pipemagic://flights-acme.example.io", self.engine_url)
        return text.replace("libsql://flights-acme.example.io", self.url)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Return the contents of the database, read without any library."""
        with pipemagic.connect(self.url, token=self.token) as database:
            return list(map(tuple, database.execute(sql).rows))

    def run(self, *statements: str) -> None:
        """Run statements, without any library."""
        with pipemagic.connect(self.url, token=self.token) as database:
            database.batch(statements)


@pytest.fixture(params=["embedded", "sqld"])
def target(request, monkeypatch) -> Target:
    """A new database on each server. Its token is in PIPEMAGIC_TOKEN, as users have it."""
    if request.param == "sqld":
        made = request.getfixturevalue("sqld_database")
        target = Target(made.url, made.token, is_sqld=True)
    else:
        target = Target(*make_database(request.getfixturevalue("service"), request.node.nodeid), is_sqld=False)
    monkeypatch.setenv("PIPEMAGIC_TOKEN", target.token)
    return target


@pytest.fixture
def connection(target):
    with closing(dbapi.connect(target.url, target.token)) as connection:
        yield connection


@pytest.fixture
def engine(target):
    engine = sqlalchemy.create_engine(target.engine_url)
    yield engine
    engine.dispose()


@pytest.fixture
def current(target):
    """The current connection of a notebook."""
    with Session(environ={}) as session:
        session.adopt(Connection("main", Database(target.url, target.token), "a test"))
        yield CurrentConnection(session, session.connection())


@pytest.fixture
def notebook_connection(current):
    return current.dbapi()


@pytest.fixture
def notebook_engine(current):
    engine = sqlalchemy.create_engine("sqlite+pipemagic://", creator=current.dbapi)
    yield engine
    engine.dispose()


@dataclass(frozen=True)
class Libraries:
    """The environment beside, with the pipemagic of this checkout."""

    python: Path
    search_path: str

    def run(self, folder: Path, command: str, *arguments: str | Path, given: str = "", status: int = 0) -> str:
        """Run a command of the environment in a folder, also its home; return its output. It ends with a status."""
        done = subprocess.run(
            [self.python.parent / command, *arguments], cwd=folder, input=given, capture_output=True,
            encoding="utf-8", timeout=TIMEOUT, env={
                **os.environ, "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": self.search_path, "HOME": str(folder), "PYTHONUTF8": "1",
                "PYTHONDONTWRITEBYTECODE": "1", "PLOOMBER_STATS_ENABLED": "false", "RUNTIME__DLTHUB_TELEMETRY": "false",
                "DLT_DATA_DIR": str(folder),
            },
        )  # fmt: skip
        assert done.returncode == status, f"{command}:\n{done.stdout}{done.stderr}"
        return done.stdout if status == 0 else done.stdout + done.stderr

    def run_cells(self, folder: Path, *cells: str) -> list[tuple[bool, str]]:
        """Run cells in one shell; return for each whether it succeeded, and its output."""
        answer = self.run(folder, "python", HERE / "run_cells.py", given=json.dumps(cells))
        return [(success, output) for success, output in json.loads(answer.splitlines()[0])]


@pytest.fixture(scope="session")
def libraries(request, tmp_path_factory, require_real: Callable[[str], None]) -> Libraries:
    """The environment with the packages of requirements.txt; it is kept between runs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    cache = getattr(request.config, "cache", None)
    folder = tmp_path_factory.mktemp("libraries")
    try:
        python = install_python(
            cache.mkdir("libraries") if cache else folder, HERE / "requirements.txt", project["dependencies"]
        )
    except CannotInstall as error:
        require_real(f"the libraries cannot be installed: {error}")
        raise
    return Libraries(python, search_path(folder / "metadata"))
