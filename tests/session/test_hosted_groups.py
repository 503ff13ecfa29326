"""Groups of the hosted service: archived ones, and those whose location is a region of AWS."""

from __future__ import annotations

import pytest
from hosted_api import HostedApi, Shapes
from panel_page import PanelPage
from panel_session import close_panels

from pipemagic import cli
from pipemagic.errors import ServerError, SessionError
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session

ARCHIVED = "database flights is archived with its group edge, which was not used for some days"


@pytest.fixture
def api(behind):
    """A hosted service with a group edge, which has a database flights."""
    api = HostedApi(behind)
    session = Session(environ=api.environment)
    session.organization.create_group("edge", "ams")
    session.organization.create_database("flights", "edge")
    session.shut_down()
    yield api
    api.close()


@pytest.fixture
def session(api):
    session = Session(environ=api.environment)
    yield session
    close_panels()
    session.shut_down()


def test_connecting(api, session):
    api.archive("edge")
    assert [database.status for database in session.organization.databases().items] == ["archived"]
    assert [group.health for group in session.organization.groups().items] == ["archived"]
    with pytest.raises(SessionError, match=ARCHIVED) as caught:
        session.connect("flights")
    assert caught.value.code == "ARCHIVED"
    assert caught.value.hint == "%pipedb unarchive-group edge makes it available again"
    session.organization.unarchive_group("edge")
    session.connect("flights")
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]


def test_a_connection_of_before(api, session):
    session.connect("flights")
    session.run("CREATE TABLE t (a)")
    api.archive("edge")
    with pytest.raises(ServerError) as caught:
        session.run("SELECT * FROM t")
    assert caught.value.status == 502
    assert caught.value.hint == f"{ARCHIVED}; %pipedb unarchive-group edge makes it available again"
    session.organization.unarchive_group("edge")
    assert session.run("SELECT * FROM t").empty


def test_creating_a_database(api, session):
    api.archive("edge")
    with pytest.raises(ServerError, match="cannot create database on group edge because it is sleeping") as caught:
        session.organization.create_database("hotels", "edge")
    assert caught.value.hint == "%pipedb unarchive-group edge makes its databases available again"


def test_the_panels(api, session):
    api.archive("edge")
    panel = PanelPage(open_panel(session, "databases"))
    panel.click("Details of flights")
    assert panel.rows("Details")[0][-1] == "archived"
    panel.click("Unarchive group edge")
    panel.wait("Group edge is not archived; its databases are available.\n%pipedb unarchive-group edge")
    panel.wait_for("Suspend database ...")
    api.archive("edge")
    groups = PanelPage(open_panel(session, "groups"))
    groups.click("Refresh")
    groups.wait_for("Unarchive group edge")
    groups.click("Unarchive group edge")
    groups.wait_for("Add a location to edge")
    assert not api.groups["edge"]["archived"]


def test_the_command_line(api, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PIPEMAGIC_CONFIG", str(tmp_path))
    for name, value in api.environment.items():
        monkeypatch.setenv(name, value)

    def run(*arguments):
        return cli.main([*arguments, "--org", "acme"]), *capsys.readouterr()

    api.archive("edge")
    assert run("group", "list")[1].splitlines()[1].split() == ["edge", "ams", "(primary)", "archived", "no"]
    code, _, err = run("db", "shell", "flights", "SELECT 1")
    hint = "Hint: `pipemagic group unarchive edge` makes it available again"
    assert (code, err) == (1, f"Error: {ARCHIVED}\n{hint}\n")
    assert run("group", "unarchive", "edge") == (0, "edge\n", "")
    assert run("db", "shell", "flights", "SELECT 1 AS a")[:2] == (0, "a\n-\n1\n")
    assert run("group", "unarchive", "nope")[0] == 1


def test_adding_a_location_is_deprecated_there(behind, monkeypatch, capsys, tmp_path):
    api = HostedApi(behind, Shapes(locations="regions"))
    first, second = api.shapes.places
    monkeypatch.setenv("PIPEMAGIC_CONFIG", str(tmp_path))
    for name, value in api.environment.items():
        monkeypatch.setenv(name, value)
    assert cli.main(["group", "create", "edge", "--location", first, "--org", "acme"]) == 0
    capsys.readouterr()
    assert cli.main(["group", "locations", "add", "edge", second, "--org", "acme"]) == 0
    out, err = capsys.readouterr()
    assert (out, err.strip()) == (
        f"{second}\n", "At this service, a group has one location: adding others is deprecated there.",
    )  # fmt: skip
    api.close()
