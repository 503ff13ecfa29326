"""Each status with which a database itself may answer a panel: connecting, looking into its tables, exploring."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from panel_page import PanelPage
from refused_answers import REFUSALS
from some_refusals import some_refusals
from waiting import until

from pipemagic.client import transport
from pipemagic.notebook.panels.opening import open_panel

SQL = "(GET|POST) /v[23]"

CODES = {"ALREADY_EXISTS": "SERVER"}
"""A database has no names to take."""


@dataclass(frozen=True)
class Deed:
    """What is done in a panel, and what is there when it succeeded."""

    panel: str
    do: Callable[[PanelPage], None]
    done: str
    connected: bool = False


def _connect(page):
    page.wait_for("Connect to flights")
    page.click("Connect to flights")


def _look_inside(page):
    if page.can("Close details"):
        page.click("Close details")
    page.wait_for("Details of flights")
    page.click("Details of flights")


def _explore(page):
    page.wait_for("Refresh")
    page.click("Refresh")


DEEDS = {
    "connect": Deed("databases", _connect, "Connected to flights"),
    "tables, not connected": Deed("databases", _look_inside, "First rows of airport"),
    "tables, connected": Deed("databases", _look_inside, "First rows of airport", connected=True),
    "explore": Deed("explore", _explore, "Explore airport", connected=True),
}


@pytest.fixture(scope="module")
def scene(request, hosted_for_long):
    deed = DEEDS[request.param]
    api, session = hosted_for_long()
    session.platform.create_group("edge", "ams")
    session.platform.create_database("flights", "edge")
    session.connect("flights")
    session.run("CREATE TABLE airport (code TEXT)")
    if not deed.connected:
        session.close("flights")
    page = PanelPage(open_panel(session, deed.panel))
    if deed.panel == "databases":
        page.panel.view.view.model._pauses = (0.0,)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "BUSY_PAUSES", (0.0,))
        yield deed, api, session, page


@pytest.mark.parametrize(("scene", "status"), some_refusals(DEEDS, 6), indirect=["scene"])
def test_a_refusal_is_shown_and_the_panel_goes_on(scene, status):
    deed, api, session, page = scene
    api.relent()  # of a test before that failed
    refusal = REFUSALS[status]
    code = CODES.get(refusal.code, refusal.code)
    says = "" if code == "PROTOCOL" else refusal.says.rpartition(": ")[2]  # how it is none, depends on what was asked
    api.refuse(SQL, refusal.answer)
    deed.do(page)
    until(lambda: any(one.startswith(f"{code}: ") and says in one for one in page.alerts))
    assert not [secret for secret in (api.token, *api.issued) if secret in json.dumps(page.panel.tree) + page.html]
    api.relent()
    until(lambda: not page.is_busy)
    deed.do(page)
    until(lambda: deed.done in page.words or page.find("button", deed.done))
    until(lambda: not page.alerts)
    if deed.panel == "databases" and not deed.connected and "flights" in session.connections:
        session.close("flights")
        page.wait_for("Connect to flights")
