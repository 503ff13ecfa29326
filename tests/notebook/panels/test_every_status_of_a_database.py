"""Statuses of a database for requests of panels: connecting, reading its tables, exploring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from panel_page import PanelPage
from refused_answers import REFUSALS
from some_refusals import some_refusals
from waiting import until

from pipemagic.client import transport
from pipemagic.notebook.panels import databases
from pipemagic.notebook.panels.opening import open_panel

SQL = "(GET|POST) /v[23]"

CODES = {"ALREADY_EXISTS": "SERVER"}
"""Names of a database cannot be taken."""


@dataclass(frozen=True)
class PanelAction:
    """An action in a panel, and what it shows after a success."""

    panel: str
    do: Callable[[PanelPage], None]
    done: str
    connected: bool = False


def _connect(page):
    page.click("Connect to flights")


def _open_details(page):
    if page.can("Close details"):
        page.click("Close details")
    page.click("Details of flights")


def _explore(page):
    page.click("Refresh")


ACTIONS = {
    "connect": PanelAction("databases", _connect, "Connected to flights"),
    "tables, not connected": PanelAction("databases", _open_details, "airport"),
    "tables, connected": PanelAction("databases", _open_details, "airport", connected=True),
    "explore": PanelAction("explore", _explore, "airport", connected=True),
}


@pytest.fixture(scope="module")
def scene(request, hosted_for_long):
    action = ACTIONS[request.param]
    api, session = hosted_for_long()
    session.platform.create_group("edge", "ams")
    session.platform.create_database("flights", "edge")
    session.connect("flights")
    session.run("CREATE TABLE airport (code TEXT)")
    if not action.connected:
        session.close("flights")
    page = PanelPage(open_panel(session, action.panel))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(databases, "PAUSES", (0.0,))
        patch.setattr(transport, "BUSY_PAUSES", (0.0,))
        yield action, api, session, page


@pytest.mark.parametrize(("scene", "status"), some_refusals(ACTIONS, 6), indirect=["scene"])
def test_an_error_is_shown_and_the_panel_can_be_used_again(scene, status):
    action, api, session, page = scene
    api.clear_refusals()  # of an earlier test that failed
    refusal = REFUSALS[status]
    code = CODES.get(refusal.code, refusal.code)
    says = "" if code == "PROTOCOL" else refusal.says.rpartition(": ")[2]  # how depends on the request
    api.refuse(SQL, refusal.answer)
    action.do(page)
    until(lambda: any(one.startswith(f"{code}: ") and says in one for one in page.alerts))
    held = page.held
    assert not [secret for secret in (api.token, *api.issued) if secret in held]
    api.clear_refusals()
    until(lambda: not page.is_busy)
    action.do(page)
    page.wait(action.done)
    until(lambda: not page.alerts)
    if action.panel == "databases" and not action.connected and "flights" in session.connections:
        session.close("flights")
        page.wait_for("Connect to flights")
