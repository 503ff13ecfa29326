"""Connections to databases with a table of penguins: in process, on sqld, on a server that knows only the seed."""

from __future__ import annotations

import httpx
import pytest
from seed_server import SeedServer
from service_calls import caller_of
from service_http import ServiceTransport

from pipemagic.client.database import Database
from pipemagic.session import Connection, Session
from pipemagic.teaching.exercises import results

ROWS = """
CREATE TABLE penguins (id INTEGER PRIMARY KEY, species TEXT NOT NULL, island TEXT, mass REAL);
INSERT INTO penguins VALUES
  (1, 'Adelie', 'Torgersen', 3750), (2, 'Adelie', 'Biscoe', 3800), (3, 'Adelie', 'Torgersen', NULL),
  (4, 'Gentoo', 'Biscoe', 5700), (5, 'Gentoo', 'Biscoe', 4500.5), (6, 'Chinstrap', 'Dream', 3500);
CREATE TABLE islands (name TEXT, area INTEGER);
INSERT INTO islands VALUES ('Torgersen', 1), ('Biscoe', 130), ('Dream', 2), ('Anvers', 2432)
"""


@pytest.fixture(autouse=True)
def no_results():
    """Forget the checks of other tests."""
    results.clear()


@pytest.fixture
def in_process(service, clock):
    token = caller_of(service, "lessons").token
    with Database(
        "http://127.0.0.1:8080", token, http=httpx.Client(transport=ServiceTransport(service)), clock=clock
    ) as database:
        yield database


@pytest.fixture
def on_sqld(sqld_database):
    with Database(sqld_database.url, sqld_database.token) as database:
        yield database


@pytest.fixture
def on_seed(tmp_path):
    server = SeedServer(tmp_path)
    with Database(server.url, "a-secret-token") as database:
        yield database
    server.close()


def connected(database):
    """Return a session with the connection ``main`` to a database with the tables."""
    session = Session(environ={})
    session.adopt(Connection("main", database, "a test"))
    session.run(ROWS)
    return session


@pytest.fixture
def session(in_process):
    return connected(in_process)


@pytest.fixture(params=["in_process", "on_sqld"])
def any_session(request):
    """A session on either engine, or on the server that a test names, such as one that knows only the seed."""
    return connected(request.getfixturevalue(request.param))
