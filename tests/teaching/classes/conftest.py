"""Services on which classes are created: the embedded one, libSQL servers, and a hosted management API."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from hosted_api import HostedApi
from served import serve

from pipemagic import cli, connect
from pipemagic.client.database import Database
from pipemagic.management_api.client import Management, management

CONTENT = """
CREATE TABLE city(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, share REAL, photo BLOB);
INSERT INTO city(name, share, photo) VALUES ('Köln', 0.1, x'00ff'), ('it''s; --x', 1e308, NULL), ('', -0.5, x'');
DELETE FROM city WHERE id = 3;
CREATE TABLE street(name TEXT, city INTEGER REFERENCES city(id));
INSERT INTO street VALUES ('Domgasse', 1);
CREATE INDEX by_city ON street(city);
CREATE VIEW streets AS SELECT street.name, city.name AS city FROM street JOIN city ON city.id = street.city;
CREATE TRIGGER renamed AFTER INSERT ON street BEGIN UPDATE city SET share = share + 1 WHERE id = new.city; END;
"""
"""The content of the template."""


class Place(NamedTuple):
    """A service: its management API, and the hosted API itself if it is that."""

    api: Management
    token: str
    hosted: HostedApi | None = None

    def template(self, name: str = "lesson", content: str = CONTENT) -> str:
        """Create the template in the group default."""
        self.api.create_database(name, "default")
        with self.open(name) as database, database.transaction() as inside:
            for statement in split(content):
                inside.execute(statement)
        return name

    def open(self, name: str) -> Database:
        """Open a database with a new token."""
        return connect(self.api.database(name).url, str(self.api.create_token(name)))

    def names(self) -> set[str]:
        """Return the names of the databases."""
        return {database.name for database in self.api.databases()}


def split(script: str) -> list[str]:
    from pipemagic import sql

    return [statement.text for statement in sql.split(script)]


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """The embedded service, as a process."""
    with serve(tmp_path_factory.mktemp("classes")) as served:
        yield served


@pytest.fixture(autouse=True)
def settings_folder(tmp_path, monkeypatch):
    """The folder of the settings, with the files of the classes."""
    folder = tmp_path / "config"
    monkeypatch.setenv("PIPEMAGIC_CONFIG", str(folder))
    return folder


def _embedded(request) -> Iterator[Place]:
    served = request.getfixturevalue("served")
    with management(served.url, served.platform_token, organization="local") as api:
        if "default" not in [group.name for group in api.groups()]:
            api.create_group("default", "ams")
        yield Place(api, served.platform_token)


def _on_sqld(request) -> Iterator[Place]:
    engine = request.getfixturevalue("sqld_engine")
    with management(engine.url, engine.token, organization="local") as api:
        yield Place(api, engine.token)


def _hosted(request) -> Iterator[Place]:
    hosted = HostedApi(request.getfixturevalue("served"))
    with management(hosted.url, hosted.token, organization="acme") as api:
        api.create_group("default", "ams")
        yield Place(api, hosted.token, hosted)
    hosted.close()


PLACES: dict[str, Callable[..., Iterator[Place]]] = {"embedded": _embedded, "hosted": _hosted, "on_sqld": _on_sqld}
"""The embedded service copies the template; the others get it as SQL."""


def _cleaned(places: Iterator[Place]) -> Iterator[Place]:
    for place in places:
        before = place.names()
        yield place
        for name in place.names() - before:
            place.api.delete_database(name)


@pytest.fixture(params=["embedded", "hosted"])
def place(request):
    """A service of each kind, or that of ``on_every_service``, without databases of earlier tests."""
    yield from _cleaned(PLACES[request.param](request))


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """Long waits of the commands, in seconds; each takes a moment only."""
    waits, real = list[float](), threading.Event.wait

    def wait(event, timeout=None):
        if timeout is not None and timeout > 1:
            waits.append(timeout)
            timeout = 0.01
        return real(event, timeout)

    monkeypatch.setattr(threading.Event, "wait", wait)
    return waits


@pytest.fixture
def embedded(request, monkeypatch):
    """The embedded service, which commands use."""
    for place in _cleaned(_embedded(request)):
        monkeypatch.setenv("PIPEMAGIC_API_URL", place.api.url)
        monkeypatch.setenv("PIPEMAGIC_API_TOKEN", place.token)
        yield place


@pytest.fixture
def command(embedded, tmp_path, monkeypatch, capsys):
    """Run a command on the embedded service, in an empty folder; return code, output and messages."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.main([*arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def hosted(request):
    """A hosted management API."""
    yield from _cleaned(_hosted(request))


@pytest.fixture
def on_sqld(request):
    """LibSQL servers behind the management API."""
    yield from _cleaned(_on_sqld(request))
