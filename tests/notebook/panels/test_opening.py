"""Which panels there are, and what they show before there is anything to ask."""

from __future__ import annotations

import threading

import pytest
from panel_page import PanelPage
from waiting import PATIENCE, until

from pipemagic import launcher, panels
from pipemagic.errors import SessionError
from pipemagic.notebook.commands import panel as command
from pipemagic.notebook.panels.holdings import holdings_of
from pipemagic.notebook.panels.opening import IN_ORGANIZATION, NAMES, open_panel
from pipemagic.session import Session

TITLES = [name.capitalize() for name in NAMES]


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
    assert command.NAME.choices == NAMES


@pytest.mark.parametrize("name", IN_ORGANIZATION)
def test_before_connect_a_panel_says_what_to_do_and_starts_nothing(name, unconnected, tmp_path):
    panel = PanelPage(open_panel(unconnected, name))
    assert panel.words == (
        f"{name.capitalize()}\n"
        "No organization is in use yet, so nothing was asked and no service was started.\n"
        "Connect here or with %pipedb connect: either finds the embedded service, or starts it.\n"
        "Connect\n"
    )
    assert panel.text == panel.words.replace("\nConnect\n", "")
    assert not (tmp_path / "data").exists()


def test_connecting_from_a_panel(unconnected):
    panel = PanelPage(open_panel(unconnected, "databases"))
    panel.click("Connect")
    panel.wait("main")
    assert unconnected.current == "main"
    assert panel.find("table", "Databases")


def test_a_panel_follows_when_a_cell_connects(unconnected):
    panel = PanelPage(open_panel(unconnected, "databases"))
    unconnected.connect()
    panel.wait("main")


def test_every_panel_is_there_in_python(session):
    functions = [one for one in panels.__all__ if one != "everything"]
    assert set(NAMES) <= set(functions)
    for name in NAMES:
        panel = getattr(panels, name)(session)
        assert str(panel).splitlines()[0] == name.capitalize()
    assert "Databases" in str(panels.everything(session)).splitlines()


def test_a_panel_from_python_uses_the_session_of_the_notebook(shell, data, closing):
    shell("%pipedb connect\nimport pipemagic\np = pipemagic.panels.databases()")
    assert "main" in str(shell.names["p"])
    closing()


def test_without_the_extension_a_panel_from_python_says_what_to_type():
    with pytest.raises(SessionError, match="pipemagic is not loaded here") as caught:
        panels.databases()
    assert caught.value.hint == "%load_ext pipemagic"


def test_the_tabs_are_saved_one_below_the_other(page):
    panel = page()
    assert [one.words for one in panel.find("button") if one.attributes.get("role") == "tab"] == TITLES
    assert len([one for one in panel.find("h2") if one.words in TITLES]) == 1
    for title in TITLES:
        assert f"<h2>{title}</h2>" in panel.html
        assert title in panel.text.splitlines()


def test_a_change_that_comes_at_the_very_end_of_asking_is_not_missed(session, monkeypatch):
    holdings = holdings_of(session)
    holdings.refresh()
    until(lambda: holdings.known and not holdings.busy)
    platform, read = session.platform, holdings._read_connections
    changes = [lambda: platform.create_group("late", "fra")]

    def read_and_change():
        read()
        if changes:
            changes.pop()()  # the lists are read already, and the work is not over

    monkeypatch.setattr(holdings, "_read_connections", read_and_change)
    holdings.start("Asking ...", holdings._fetch)
    until(lambda: "late" in [one.name for one in holdings.groups])


def test_what_a_panel_begins_to_ask_when_the_session_ends_starts_no_service(unconnected, tmp_path, monkeypatch):
    unconnected.connect()
    holdings, ended = holdings_of(unconnected), threading.Event()
    is_stale = holdings._is_stale
    monkeypatch.setattr(holdings, "_is_stale", lambda: ended.wait(PATIENCE) and is_stale())
    holdings.refresh()
    unconnected.shut_down()
    launcher.stop()
    ended.set()
    assert holdings.wait(PATIENCE)
    assert holdings.error == "the session was shut down"
    assert launcher.find(tmp_path / "data") is None
