"""Sessions on three servers: the service in process (tests move its clock), sqld, and a server with the seed alone."""

from __future__ import annotations

import httpx
import pytest
from encrypted_service import behind, encrypted
from keyring_backend import ring
from seed_server import SeedServer
from service_calls import caller_of, new_service
from service_http import ServiceTransport
from started_services import local_service, shared_service

from pipemagic.client.database import Database
from pipemagic.errors import InterruptedRequest
from pipemagic.session import Connection, Session

__all__ = ["behind", "encrypted", "local_service", "ring", "shared_service"]


@pytest.fixture
def transport(service):
    return ServiceTransport(service)


@pytest.fixture
def make_database(service, transport, clock):
    """Make a database of the service in process, with a client on the same clock."""

    def make(name="flights", **options):
        token = caller_of(service, name, **options).token
        http = httpx.Client(transport=transport)
        return Database("http://127.0.0.1:8080", token, http=http, clock=clock)

    return make


@pytest.fixture
def timed(make_database):
    """A session on the service in process."""
    return session_on(make_database())


@pytest.fixture
def seed_server(tmp_path):
    server = SeedServer(tmp_path)
    yield server
    server.close()


@pytest.fixture
def seed_session(seed_server):
    with Database(seed_server.url, "token") as database:
        yield session_on(database)


@pytest.fixture(params=["sqld", "seed"])
def session(request):
    """A session with one connection, ``main``, on a server with the whole protocol, and on one with the seed alone."""
    if request.param == "seed":
        yield request.getfixturevalue("seed_session")
        return
    made = request.getfixturevalue("sqld_database")
    with Database(made.url, made.token) as database:
        yield session_on(database)


@pytest.fixture(scope="module")
def messages_session(request, tmp_path_factory):
    """A session for all tests of a module whose statements fail: on the service in process, or on sqld."""
    if request.param == "sqld":
        made = request.getfixturevalue("sqld").database()
        with Database(made.url, made.token) as database:
            yield session_on(database)
        return
    with new_service(tmp_path_factory.mktemp("messages")) as service:
        token, http = caller_of(service, "flights").token, httpx.Client(transport=ServiceTransport(service))
        with Database("http://127.0.0.1:8080", token, http=http) as database:
            yield session_on(database)


@pytest.fixture
def lose_answer(transport, monkeypatch):
    """Run a cell that the server applies, whose response an interrupt loses; return the error."""

    def lose(session, cell, kind=InterruptedRequest):
        handle = transport.handle_request

        def interrupted(request):
            handle(request)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(transport, "handle_request", interrupted)
            with pytest.raises(kind) as caught:
                session.run(cell)
        return caught.value

    return lose


def session_on(database, **options):
    session = Session(environ={}, **options)
    session.adopt(Connection("main", database, "a test"))
    return session
