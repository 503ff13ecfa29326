"""Panels change connections and the organization from threads of their own, while cells run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from waiting import until

from pipemagic import launcher
from pipemagic.errors import ConnectError, PipemagicError, SessionError
from pipemagic.hrana.stream import Tx
from pipemagic.session import Profile, Session
from pipemagic.session.organization import Organization

ROWS = 1_000_000
SLOW = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) SELECT count(*) AS n FROM n"
AT_MOST = 60.0  # seconds


@pytest.fixture
def session(local_service):
    """A session on an embedded service, with the connections main and other."""
    session = Session(environ={})
    session.connect()
    session.organization.create_database("other", "default")
    session.connect("other")
    session.use("main")
    yield session
    session.shut_down()


def together(*works):
    """Run all at the same time; gives what each returned, or raises what one raised."""
    start = threading.Barrier(len(works))

    def run(work):
        start.wait(AT_MOST)
        return work()

    with ThreadPoolExecutor(len(works)) as threads:
        return [future.result(AT_MOST) for future in [threads.submit(run, work) for work in works]]


def during_a_cell(session, sql, work):
    """Do some work in another thread while a cell runs; gives the cell's frame and what the work gave."""
    connection = session.connection()

    def meanwhile():
        until(lambda: runs_a_cell(connection))
        return work()

    with ThreadPoolExecutor() as threads:
        done = threads.submit(meanwhile)
        return session.run(sql), done.result(AT_MOST)


def runs_a_cell(connection):
    free = connection._lock.acquire(blocking=False)
    if free:
        connection._lock.release()
    return not free


def test_a_cell_goes_on_while_another_connection_is_made_the_current_one(session):
    frame, _ = during_a_cell(session, f"BEGIN; {SLOW}", lambda: session.use("other"))
    assert frame["n"].tolist() == [ROWS]
    assert session.current == "other"
    assert session.connections["main"].transaction is Tx.OPEN  # it was not rolled back behind the cell's back


def test_a_connection_that_is_closed_meanwhile_ends_after_its_cell(session):
    frame, name = during_a_cell(session, SLOW, lambda: session.close("main"))
    assert (frame["n"].tolist(), name) == ([ROWS], "main")
    assert (list(session.connections), session.current) == (["other"], None)


def test_a_cell_on_a_closed_connection_is_an_error(session):
    connection = session.connection()
    session.close("main")
    with pytest.raises(SessionError, match="the connection main was closed\nHint: %pipedb connect main"):
        connection.begin()


def test_a_connection_that_is_closed_while_it_is_asked_is_not_opened_again(session):
    """The connections that it opens would stay open."""
    connection = session.connection("other")
    asked = []

    def ask(database):
        asked.append(database)
        session.close("other")
        return database.execute("SELECT 1")

    with pytest.raises(SessionError, match="the connection other was closed"):
        connection.with_database(ask)
    assert asked == [connection.database]


def test_many_threads_connect_use_and_close(session):
    said = set()

    def churn():
        for _ in range(5):
            try:
                session.connect("other")
                session.use("main")
                session.close("other")
            except PipemagicError as error:  # another one closed it between two steps
                said.add(error.message)

    def cells():
        return [session.run("SELECT 1 AS a", on="main")["a"].tolist() for _ in range(20)]

    *_, found = together(churn, churn, churn, cells)
    assert found == [[1]] * 20
    assert said <= {"connection 'other' does not exist"}
    assert session.current in (None, "main", "other")
    assert set(session.connections) <= {"main", "other"}


def test_one_service_is_started_however_many_ask_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    told = []
    with Session(environ={}, while_starting=lambda: told.append("starting")) as session:
        organizations = together(*[lambda: session.organization] * 6)
        assert len(set(map(id, organizations))) == 1
        assert told == ["starting"]
        connections = together(*[lambda: session.connect()] * 4)
        assert {connection.name for connection in connections} == {"main"}
        assert session.run("SELECT 1 AS a")["a"].tolist() == [1]
    launcher.stop()


def test_a_service_that_was_stopped_is_found_by_all_threads(session):
    session.stop()
    names = together(*[lambda: [database.name for database in session.organization.databases().items]] * 6)
    assert names == [["main", "other"]] * 6
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]


def test_organizations_are_chosen_while_others_ask(session):
    def choose():
        for _ in range(5):
            assert session.choose_organization("local").slug == "local"

    def ask():
        return [[database.name for database in session.organization.databases().items] for _ in range(10)]

    _, _, found = together(choose, choose, ask)
    assert found == [["main", "other"]] * 10
    session.organization.delete_database("other")
    assert list(session.connections) == ["main"]


def test_requests_of_other_threads_start_no_service_after_the_end(session):
    session.shut_down()
    launcher.stop()
    for ask in (lambda: session.organization, session.connect, lambda: session.connect(temporary=True)):
        with pytest.raises(SessionError, match="the session was shut down") as caught:
            ask()
        assert caught.value.hint == "%load_ext pipemagic starts another; open its panels again"
    assert session.organization_in_use is None
    assert launcher.find() is None


def test_a_connection_that_is_there_only_after_the_end_is_closed(session):
    late = session.open(Profile("other", database="other"))
    session.shut_down()
    with pytest.raises(SessionError, match="the session was shut down"):
        session.adopt(late)
    assert not session.connections
    with pytest.raises(ConnectError, match="it was closed here"):
        late.database.execute("SELECT 1")


def test_an_organization_that_is_chosen_only_after_the_end_is_closed(session, monkeypatch):
    chosen = []

    def check(organization):
        chosen.append(organization)
        session.shut_down()

    monkeypatch.setattr(Organization, "check", check)
    with pytest.raises(SessionError, match="the session was shut down"):
        session.choose_organization("local")
    with pytest.raises(ConnectError, match="it was closed here"):
        chosen[0].groups()
