"""Every status that the management API is known to answer with, at everything that panels ask of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from panel_page import PanelPage
from scripted_server import Answer, as_json, as_text
from waiting import until

from pipemagic.client import transport
from pipemagic.notebook.panels.opening import open_panel

SOON = 10.0  # seconds


@dataclass(frozen=True)
class Refusal:
    """An answer, and what the panel says of it: the code, and words of the server or of ours."""

    answer: Answer
    code: str
    says: str
    hint: str = ""


REFUSALS = {
    "400 bad field": Refusal(as_json({"error": "invalid location: xyz"}, 400), "SERVER", "invalid location: xyz"),
    "400 taken": Refusal(as_json({"error": "group already exists"}, 400), "ALREADY_EXISTS", "group already exists"),
    "401": Refusal(as_json({"error": "could not parse jwt id"}, 401), "AUTH", "could not parse jwt id"),
    "402": Refusal(
        as_json({"error": "a paid plan is needed"}, 402), "SERVER", "a paid plan is needed", "the organization's plan"
    ),
    "403": Refusal(as_json({"error": "out of scope"}, 403), "AUTH", "out of scope"),
    "404": Refusal(as_json({"error": "database not found"}, 404), "", "not found"),
    "409": Refusal(as_json({"error": "name is taken"}, 409), "ALREADY_EXISTS", "name is taken"),
    "422": Refusal(as_json({"error": "name not available"}, 422), "ALREADY_EXISTS", "name not available"),
    "429": Refusal(as_json({"error": "slow down"}, 429), "BUSY", "slow down", "later"),
    "500": Refusal(as_json({"error": "oh no"}, 500), "SERVER", "oh no", "parts of what was sent"),
    "502 without JSON": Refusal(as_text("<html>Bad <b>gateway</b></html>", 502), "SERVER", "(HTTP 502)"),
    "503 without a body": Refusal(Answer(503), "SERVER", "(HTTP 503)"),
    "an object as error": Refusal(as_json({"error": {"reason": "odd"}}, 400), "SERVER", "odd"),
    "no error member": Refusal(as_json({"detail": "else"}, 400), "SERVER", "(HTTP 400)"),
    "200 that is no JSON": Refusal(as_text("hello", 200), "PROTOCOL", "is not JSON"),
    "no answer": Refusal(Answer(vanish=True), "UNKNOWN_OUTCOME", "before a whole answer came"),
}


@dataclass(frozen=True)
class Deed:
    """Something that people do in a panel: what it asks for, how it is done, what is said when it is."""

    panel: str
    request: str
    do: Callable[[PanelPage], None]
    done: str
    instead: Mapping[str, str] = field(default_factory=dict)
    """What is said of some statuses instead of the server's words."""


def _create_database(page: PanelPage) -> None:
    page.type("Database name", "trips")
    page.submit("Create database")


def _connect(page: PanelPage) -> None:
    page.click("Connect to flights")


def _create_group(page: PanelPage) -> None:
    page.type("Group name", "asia")
    page.choose("Primary location", "nrt")
    page.submit("Create group")


def _add_location(page: PanelPage) -> None:
    page.click("Add a location to edge")
    page.choose("New location of edge", "ord")
    page.submit("Add location")


def _remove_location(page: PanelPage) -> None:
    page.click("Remove nrt from edge")
    page.submit("Remove nrt")


def _delete_group(page: PanelPage) -> None:
    page.click("Delete group edge")
    page.type("Type edge to delete the group", "edge")
    page.submit("Delete the group")


def _switch_overages_on(page: PanelPage) -> None:
    page.wait_for("Overages")
    page.click("Overages")


DEEDS = {
    "create a group": Deed("groups", "POST .*/groups$", _create_group, "Group asia is in nrt."),
    "add a location": Deed("groups", "POST .*/groups/edge/locations/ord", _add_location, "ord"),
    "remove a location": Deed(
        "groups",
        "DELETE .*/groups/edge/locations/nrt",
        _remove_location,
        "Group edge is in ams.",
    ),
    "delete a group": Deed("groups", "DELETE .*/groups/edge", _delete_group, "Group edge was deleted"),
    "overages": Deed("organization", "PATCH ", _switch_overages_on, "Overages of organization acme are"),
    "create a database": Deed("databases", "POST .*/databases$", _create_database, "trips"),
    "connect": Deed(
        "databases",
        "POST .*/databases/flights/auth/tokens",
        _connect,
        "Connected to flights",
        {"404": "the service makes no tokens"},
    ),
}


@pytest.fixture
def known(hosted, monkeypatch):
    """A hosted service with a group at two locations and a database, and a session that knows them."""
    monkeypatch.setattr(transport, "BUSY_PAUSES", (0.0,))
    api, session = hosted()
    session.platform.create_group("edge", "ams")
    session.platform.add_location("edge", "nrt")
    session.platform.create_database("flights", "edge")
    return api, session


@pytest.mark.parametrize("status", REFUSALS)
@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)
def test_a_refusal_is_shown_and_the_panel_goes_on(known, deed, status):
    api, session = known
    refusal = REFUSALS[status]
    says = deed.instead.get(status, refusal.says)
    code = refusal.code
    if code == "ALREADY_EXISTS" and deed.request.startswith("DELETE"):
        code = "SERVER"  # no name is taken by deleting
    page = PanelPage(open_panel(session, deed.panel))
    api.refuse(deed.request, refusal.answer)
    deed.do(page)
    page.wait(says, SOON)
    shown = page.alerts
    assert any(says in one and one.startswith(code) and refusal.hint in one for one in shown), shown
    secrets = [api.token, *api.issued]
    everything = json.dumps(page.panel.tree) + page.text + page.html + repr(page.panel)
    assert not [secret for secret in secrets if secret in everything]
    api.relent()
    until(lambda: not page.is_busy, seconds=SOON)
    deed.do(page)
    page.wait(deed.done, SOON)
    assert not page.alerts
