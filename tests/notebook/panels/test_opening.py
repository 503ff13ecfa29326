"""The list of panels, and their content before an organization is in use."""

from __future__ import annotations

import threading

import pytest
from panel_page import PanelPage
from waiting import PATIENCE, until

from pipemagic import launcher, panels, plugins
from pipemagic.errors import ConnectError, SessionError
from pipemagic.notebook.commands.status import PANELS as IN_COMMAND
from pipemagic.notebook.panels.base import NOT_CONNECTED
from pipemagic.notebook.panels.opening import NAMES, PANELS, open_panel
from pipemagic.notebook.panels.organization_state import state_of
from pipemagic.session import Session

IN_ORGANIZATION = [name for name in PANELS if name not in ("session", "explore")]


@pytest.fixture
def unconnected(tmp_path, monkeypatch, closing):
    """A session that is not connected, and a folder in which no service runs."""
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    session = Session(environ={})
    yield session
    closing()
    session.shut_down()
    launcher.stop()


def test_the_command_knows_every_panel():
    assert (*NAMES, *plugins.named("panels")) == IN_COMMAND


@pytest.mark.parametrize("name", IN_ORGANIZATION)
def test_before_connect_a_panel_shows_how_to_connect_and_starts_nothing(name, unconnected, tmp_path):
    panel = PanelPage(open_panel(unconnected, name))
    assert panel.words == f"{name.capitalize()}\n{NOT_CONNECTED}\nConnect"
    assert panel.text == f"{name.capitalize()}\n{NOT_CONNECTED}"
    assert not (tmp_path / "data").exists()


def test_connecting_reads_the_organization_once_and_keeps_its_message(unconnected):
    panel = PanelPage(open_panel(unconnected, "databases"))
    state = panel.panel.state
    panel.click("Connect")
    assert state.task.wait(PATIENCE)
    assert (state.task.message, state.task.line) == (unconnected.connection().greeting, "%pipedb connect")
    assert state.revision == 1


def test_an_error_of_connecting_is_shown_also_after_an_organization_was_chosen(unconnected, monkeypatch):
    def refuse(*_arguments, **_options):
        assert unconnected.organization.groups()  # about the organization
        unconnected.changes.send("organization")
        raise ConnectError("the database does not respond", hint="try again")

    panel = PanelPage(open_panel(unconnected, "databases"))
    monkeypatch.setattr(unconnected, "connect", refuse)
    panel.click("Connect")
    panel.wait("the database does not respond")
    assert panel.panel.state.task.wait(PATIENCE)
    assert panel.alerts == ["CONNECT: the database does not respond try again"]
    assert "out of date" not in panel.words
    assert panel.panel.state.known  # and was read
    panel.click("Try again")
    until(lambda: not panel.alerts)


def test_a_panel_follows_when_a_cell_connects(unconnected):
    panel = PanelPage(open_panel(unconnected, "databases"))
    unconnected.connect()
    panel.wait("main")


def test_every_panel_is_available_in_python(session):
    assert set(panels.__all__) == {*NAMES, "everything"}
    for name in NAMES:
        assert str(getattr(panels, name)(session)).splitlines()[0] == name.capitalize()
    assert str(panels.everything(session)).splitlines()[0] == "Explore"


def test_panels_of_plugins_have_functions(session):
    assert "class_" in dir(panels)
    assert panels.class_(session=session).title == "Class"
    assert panels.class_.__doc__ == "Return the panel of a plugin."
    with pytest.raises(AttributeError, match="'nope'"):
        _ = panels.nope


def test_a_panel_from_python_uses_the_session_of_the_notebook(shell, data, closing):
    shell("%pipedb connect\nimport pipemagic\np = pipemagic.panels.databases()")
    assert "main" in str(shell.names["p"])
    closing()


def test_the_error_of_a_panel_from_python_without_the_extension_has_a_hint(plain_shell):
    with pytest.raises(SessionError, match="pipemagic is not loaded") as caught:
        panels.databases()
    assert caught.value.hint == "run %load_ext pipemagic"


def test_the_error_of_a_panel_in_a_program_has_another_hint():
    with pytest.raises(SessionError, match="no notebook is running") as caught:
        panels.databases()
    assert caught.value.hint == "pass a pipemagic.session.Session"


def test_the_tabs_open_on_databases_and_on_explore_if_there_is_a_connection(unconnected):
    tabs = open_panel(unconnected)
    assert list(tabs.titles) == ["Databases", "Explore", "Groups", "Locations", "Session"]
    assert tabs.front.title == "Databases"
    unconnected.connect()
    assert open_panel(unconnected).front.title == "Explore"
    unconnected.close("main")
    assert open_panel(unconnected).front.title == "Databases"


def test_only_the_selected_tab_follows_changes_and_sends_requests(page, session):
    panel = page()
    panel.click("Databases")
    front, others = panel.panel.front, [other for other in panel.panel.panels if other is not panel.panel.front]
    assert front.mounted
    assert not any(other.mounted for other in others)
    for other in others:  # a page that shows the tabs
        if other.children:
            other.events.receive({"shown": "page"})
    assert not any(other.mounted for other in others)
    sent = []
    for other in others:
        other.update = lambda title=other.title: sent.append(title)
    session.organization.create_database("flights", "default")
    panel.wait("flights")
    assert sent == []


def test_a_table_in_details_opens_in_the_explore_tab(page, session):
    session.run("CREATE TABLE airport (code)")
    panel = page()
    panel.click("Databases")
    panel.click("Details of main")
    panel.click("Explore airport")
    panel.wait("airport in main")
    panel.click("Open in Explore")
    assert panel.panel.front.title == "Explore"
    panel.wait_for("Profile all columns")
    assert "airport in main" in panel.words


def test_a_change_at_the_very_end_of_a_refresh_is_not_missed(session, monkeypatch):
    state = state_of(session)
    state.subscribe(lambda: None)
    state.refresh()
    assert state.task.wait(PATIENCE)
    organization, read = session.organization, state._read
    changes = [lambda: organization.create_group("late", "fra")]

    def read_and_change():
        read()
        if changes:
            changes.pop()()  # the lists are read already, and the work has not ended
        return ""

    monkeypatch.setattr(state, "_read", read_and_change)
    state.refresh()
    until(lambda: "late" in [group.name for group in state.groups])


def test_a_request_at_the_end_of_the_session_starts_no_service(unconnected, tmp_path, monkeypatch):
    unconnected.connect()
    state, ended, read = state_of(unconnected), threading.Event(), state_of(unconnected)._read
    monkeypatch.setattr(state, "_read", lambda: ended.wait(PATIENCE) and read())
    state.refresh()
    unconnected.shut_down()
    launcher.stop()
    ended.set()
    assert state.task.wait(PATIENCE)
    assert state.task.error.message == "the session was shut down"
    assert launcher.find(tmp_path / "data") is None
