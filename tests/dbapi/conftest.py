"""DB-API connections to the embedded service and to sqld, and sessions on the same databases."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from magic_shell import make_database

from pipemagic import dbapi, launcher
from pipemagic.client.database import Database
from pipemagic.session import Connection, Session


@pytest.fixture(scope="package")
def service_of_its_own():
    """The embedded service in another process."""
    with launcher.temporary() as lease:
        yield lease.service


@pytest.fixture(params=["embedded", "sqld"])
def address(request):
    """The address and a token of an empty database, on each server."""
    if request.param == "sqld":
        made = request.getfixturevalue("sqld_database")
        return made.url, made.token
    return make_database(request.getfixturevalue("service_of_its_own"), request.node.name)


@pytest.fixture
def connect(address):
    """Return a function that opens another connection to the database; all are closed at the end."""
    with ExitStack() as stack:

        def connect(**options):
            connection = dbapi.connect(*address, **options)
            stack.callback(connection.close)
            return connection

        yield connect


@pytest.fixture
def session(address):
    """A session on the database."""
    with Session(environ={}) as session:
        session.adopt(Connection("main", Database(*address), "a test"))
        yield session
