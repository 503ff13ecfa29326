"""Targets of connect, sources of tokens, and replaced connections."""

from __future__ import annotations

import pytest
from sqld_server import free_port

from pipemagic import launcher
from pipemagic.errors import AddressError, AuthError, ConnectError, NotFound, SessionError
from pipemagic.session import Session


@pytest.fixture
def make_session():
    sessions = []

    def make(environ=None, **options):
        sessions.append(Session(environ=environ or {}, **options))
        return sessions[-1]

    yield make
    for session in sessions:
        session.shut_down()


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder of this test, without a service."""
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    yield tmp_path / "data"
    launcher.stop()


# -- addresses


@pytest.mark.parametrize("variable", ["PIPEMAGIC_TOKEN", "TURSO_AUTH_TOKEN"])
def test_an_address_takes_its_token_from_the_usual_variables(make_session, sqld_database, variable):
    session = make_session({variable: sqld_database.token})
    connection = session.connect(sqld_database.url)
    assert (connection.name, connection.where) == (sqld_database.name, f"{sqld_database.name}.localhost")
    assert session.run("SELECT 1 AS one").to_dict("list") == {"one": [1]}


def test_without_a_target_the_address_is_that_of_a_variable(make_session, sqld_database):
    environ = {"PIPEMAGIC_URL": sqld_database.url, "PIPEMAGIC_TOKEN": sqld_database.token}
    assert make_session(environ).run("SELECT 1 AS one").to_dict("list") == {"one": [1]}
    session = make_session(environ)
    assert session.connect().where == f"{sqld_database.name}.localhost"
    session.close()
    assert session.run("SELECT 2 AS two").to_dict("list") == {"two": [2]}


def test_the_setting_of_a_target_wins_over_the_variable(make_session, sqld_database):
    environ = {"PIPEMAGIC_URL": f"http://127.0.0.1:{free_port()}", "PIPEMAGIC_TOKEN": sqld_database.token}
    assert make_session(environ, default=lambda: sqld_database.url).run("SELECT 1 AS one") is not None
    with pytest.raises(ConnectError):
        make_session(environ).run("SELECT 1")


def test_a_token_in_the_variable_for_the_address_is_refused(make_session):
    with pytest.raises(AddressError, match="contains a token") as caught:
        make_session({"PIPEMAGIC_URL": "https://db.example.org?authToken=secret"}).connect()
    assert "authToken=secret" not in str(caught.value)


def test_a_connection_has_the_marker_tables_that_exist(make_session, sqld_database, data):
    session = make_session({"PIPEMAGIC_TOKEN": sqld_database.token})
    for target in (sqld_database.url, None):
        connection = session.connect(target, temporary=target is None)
        assert connection.marker_tables == set()
        connection.database.execute("CREATE TABLE nest(x)")
        connection.database.execute("CREATE TABLE tree(x)")
    session.marker_tables |= {"nest", "egg'"}
    assert session.connect(sqld_database.url, name="again").marker_tables == {"nest"}
    assert session.connect(temporary=True, name="anew").marker_tables == {"nest"}


def test_a_token_is_asked_for_only_if_the_server_wants_one(make_session, sqld_database):
    asked = []

    def ask(where):
        asked.append(where)
        return sqld_database.token

    session = make_session(ask_token=ask)
    session.connect(sqld_database.url)
    assert asked == [f"{sqld_database.name}.localhost"]
    session.connect(sqld_database.url, token=sqld_database.token)
    assert len(asked) == 1


def test_a_wrong_token_is_found_out_at_once(make_session, sqld, sqld_database):
    other = sqld.database()
    with pytest.raises(AuthError, match="not accepted"):
        make_session({"PIPEMAGIC_TOKEN": "wrong"}).connect(sqld_database.url)
    with pytest.raises((AuthError, NotFound)):
        make_session({"PIPEMAGIC_TOKEN": other.token}).connect(sqld_database.url)
    with pytest.raises(AuthError, match="a token is required"):
        make_session().connect(sqld_database.url)  # and nobody to ask


# -- the current connection


def test_a_transaction_survives_the_change_to_another_connection_and_not_the_replacement(make_session, sqld):
    told = []
    one, two = sqld.database(), sqld.database()
    session = make_session(notify=told.append)
    session.connect(one.url, name="one", token=one.token)
    session.run("CREATE TABLE t (a); BEGIN; INSERT INTO t VALUES (1)")
    session.connect(two.url, name="two", token=two.token)
    assert told == []
    assert session.run("SELECT count(*) AS n FROM t", on="one")["n"].tolist() == [1]
    session.connect(one.url, name="one", token=one.token)
    assert told == ["The open transaction was rolled back."]
    assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [0]


# -- the embedded service


def test_without_a_target_everything_is_made_that_is_missing(make_session, data):
    session = make_session()
    connection = session.connect()
    assert (connection.name, connection.where) == ("main", "embedded service")
    organization = session.organization
    assert organization.slug == "local"
    assert [group.name for group in organization.groups().items] == ["default"]
    assert [(database.name, database.group) for database in organization.databases().items] == [("main", "default")]
    session.run("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    session.connect()
    assert session.run("SELECT a FROM t")["a"].tolist() == [1]


def test_a_bare_name_is_a_connection_or_a_database_of_the_organization(make_session, local_service):
    session = make_session()
    session.connect()
    session.organization.create_database("flights", "default")
    assert session.connect("flights").name == "flights"
    assert session.connect("flights", name="again").name == "again"
    kept = session.connections["main"]
    assert session.connect("main") is kept
    with pytest.raises(
        SessionError, match=r"database 'flight' does not exist in organization local\nHint: did you mean flights\?"
    ):
        session.connect("flight")
    with pytest.raises(SessionError, match="%pipedb create-database weather"):
        session.connect("weather")
    with pytest.raises(SessionError, match="%pipedb databases lists the existing ones"):
        session.connect("wéather")  # which no database can be called
    with pytest.raises(SessionError, match="a token is for an address"):
        session.connect("flights", token_env="MINE")


def test_an_organization_that_is_not_there_is_not_chosen(make_session, local_service):
    session = make_session()
    session.connect()
    with pytest.raises(SessionError, match="organization 'acme' does not exist"):
        session.choose_organization("acme")
    assert session.organization.slug == "local"
    assert session.choose_organization("local").slug == "local"


def test_a_stopped_service_is_started_again_by_the_next_cell(make_session, local_service):
    session = make_session()
    session.connect()
    session.run("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    assert session.stop()
    assert launcher.find() is None
    assert session.run("SELECT a FROM t")["a"].tolist() == [1]
    launcher.stop()  # as another notebook would
    assert session.connection().with_database(lambda database: database.health())


def test_a_temporary_service_takes_its_data_with_it(make_session, data):
    session = make_session()
    session.connect(temporary=True)
    assert (session.current, session.connection().where) == ("temporary", "temporary service")
    assert not data.exists()
    session.run("CREATE TABLE t (a)")
    again = session.connect(temporary=True)  # as when a notebook is run again: it is the same service
    assert (again.name, again.existing_tables) == ("temporary", ["t"])
    assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [0]
    assert session.stop()
    assert session.connections == {}
    with pytest.raises(SessionError, match="no database is connected"):
        session.run("SELECT 1")


def test_the_management_api_may_be_elsewhere(make_session, local_service):
    service = local_service
    session = make_session({"PIPEMAGIC_API_URL": service.url, "TURSO_API_TOKEN": service.platform_token()})
    assert session.organization.where == service.url.removeprefix("http://")  # with its port: there may be two
    assert session.organization.slug == "local"
    session.organization.create_group("g", "ams")
    session.organization.create_database("elsewhere", "g")
    assert session.connect("elsewhere").where == session.organization.where
    assert session.choose_organization().slug == "local"
    with pytest.raises(SessionError, match="no platform token for"):
        make_session().choose_organization("local", at=service.url)
    with pytest.raises(AuthError):
        make_session({"T": "wrong"}).choose_organization("local", at=service.url, token_env="T")
    with pytest.raises(SessionError, match="add --at URL"):
        make_session({"T": "x"}).choose_organization(token_env="T")


def test_a_temporary_and_an_embedded_service_have_connections_of_their_own(make_session, data):
    lines = []
    session = make_session(notify=lines.append)
    session.connect(temporary=True)
    session.run("CREATE TABLE a (x)")
    session.connect()
    session.run("CREATE TABLE b (x)")
    assert (session.current, sorted(session.connections)) == ("main", ["main", "temporary"])
    assert session.run("SELECT count(*) AS n FROM a", on="temporary")["n"].tolist() == [0]
    session.connect(temporary=True, name="mine")
    assert (session.current, sorted(session.connections)) == ("mine", ["main", "mine", "temporary"])
    assert session.temporary_databases() == ["main"]
    assert session.stop()
    assert (list(session.connections), session.temporary_databases()) == (["main"], None)
    assert session.run("SELECT count(*) AS n FROM b", on="main")["n"].tolist() == [0]
    assert lines == []
