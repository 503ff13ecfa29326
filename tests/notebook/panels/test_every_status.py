"""Statuses that the management API is known to answer with, at everything that is done in panels: a few for each deed.

tests/management_api/test_every_endpoint.py has every status at every endpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from panel_page import PanelPage
from refused_answers import REFUSALS
from some_refusals import some_refusals
from waiting import until

from pipemagic.client import transport
from pipemagic.notebook.panels.holdings import holdings_of
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session


@dataclass(frozen=True)
class Deed:
    """Something that people do in a panel: what it asks for, how it is done, what is said when it is."""

    panel: str
    request: str
    do: Callable[[PanelPage], None]
    done: str
    ready: Callable[[PanelPage], None] = lambda _: None
    """Opens what it is done in, before anything is refused."""
    undo: Callable[[Session], object] = lambda _: None
    after: Callable[[PanelPage], None] = lambda _: None
    """Leaves the panel as it was before, by hand."""
    instead: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """What is said of some statuses instead of the server's words: code and words."""


def _create_database(page: PanelPage) -> None:
    page.type("Database name", "trips")
    page.submit("Create database")


def _connect(page: PanelPage) -> None:
    page.wait_for("Connect to flights")
    page.click("Connect to flights")


def _create_group(page: PanelPage) -> None:
    page.type("Group name", "asia")
    page.choose("Primary location", "nrt")
    page.submit("Create group")


def _add_location(page: PanelPage) -> None:
    page.wait_for("Add a location to edge")
    page.click("Add a location to edge")
    until(lambda: "ord" in page.options("New location of edge"))
    page.choose("New location of edge", "ord")
    page.submit("Add location")


def _remove_location(page: PanelPage) -> None:
    page.wait_for("Remove nrt from edge")
    page.click("Remove nrt from edge")
    page.submit("Remove nrt")


def _delete_group(page: PanelPage) -> None:
    page.wait_for("Delete group edge")
    page.click("Delete group edge")
    page.type("Type edge to delete the group", "edge")
    page.submit("Delete the group")


def _switch_overages(page: PanelPage) -> None:
    page.wait_for("Overages")
    page.click("Overages")


def _switch_organization(page: PanelPage) -> None:
    until(lambda: page.has("Organization") and "team" in page.options("Organization"))
    page.choose("Organization", "team")
    page.submit("Switch")


def _open_details(page: PanelPage) -> None:
    page.wait_for("Details of flights")
    if not page.can("Close details"):
        page.click("Details of flights")
    until(lambda: not page.is_busy)


def _cancel(page: PanelPage) -> None:
    if page.can("Cancel"):
        page.click("Cancel")


def _make_token(page: PanelPage) -> None:
    _cancel(page)
    page.click("New token ...")
    page.choose("Expires", "7d")
    page.submit("Make token")


def _invalidate(page: PanelPage) -> None:
    _cancel(page)
    page.click("Invalidate all tokens ...")
    page.type("Type flights to invalidate all its tokens", "flights")
    page.submit("Invalidate all its tokens")


def _delete_database(page: PanelPage) -> None:
    _cancel(page)
    page.click("Delete flights ...")
    page.type("Type flights to delete", "flights")
    page.submit("Delete")


def _make_all(session: Session) -> None:
    session.platform.create_group("edge", "ams")
    session.platform.add_location("edge", "nrt")
    session.platform.create_database("flights", "edge")


NO_TOKENS = ("SESSION", "the service makes no tokens")

DEEDS = {
    "create a group": Deed(
        "groups", "POST .*/groups$", _create_group, "Group asia is in nrt.",
        undo=lambda session: session.platform.delete_group("asia"),
    ),
    "add a location": Deed(
        "groups", "POST .*/groups/edge/locations/ord", _add_location, "Group edge is in ams, nrt, ord.",
        undo=lambda session: session.platform.remove_location("edge", "ord"),
    ),
    "remove a location": Deed(
        "groups", "DELETE .*/groups/edge/locations/nrt", _remove_location, "Group edge is in ams.",
        undo=lambda session: session.platform.add_location("edge", "nrt"),
    ),
    "delete a group": Deed(
        "groups", "DELETE .*/groups/edge", _delete_group, "Group edge was deleted with its 1 database.", undo=_make_all
    ),
    "overages": Deed("organization", "PATCH ", _switch_overages, "Overages of organization acme are"),
    "switch the organization": Deed(
        "organization", "GET .*/organizations/team/groups", _switch_organization, "Organization team (",
        undo=lambda session: session.organization("acme"), instead={"404": ("SESSION", "no organization 'team'")},
    ),
    "create a database": Deed(
        "databases", "POST .*/databases$", _create_database, "Database trips is in group edge.",
        undo=lambda session: session.platform.delete_database("trips"),
    ),
    "connect": Deed(
        "databases", "POST .*/databases/flights/auth/tokens", _connect, "Connected to flights",
        undo=lambda session: session.close("flights"), instead={"404": NO_TOKENS},
    ),
    "create a token": Deed(
        "databases", "POST .*/databases/flights/auth/tokens", _make_token, "The token is made. It is shown only now.",
        ready=_open_details, after=lambda page: page.click("Done"),
    ),
    "invalidate the tokens": Deed(
        "databases", "POST .*/databases/flights/auth/rotate", _invalidate, "All tokens of flights are invalid.",
        ready=_open_details,
    ),
    "delete a database": Deed(
        "databases", "DELETE .*/databases/flights", _delete_database, "Database flights is deleted.",
        ready=_open_details, undo=lambda session: session.platform.create_database("flights", "edge"),
    ),
}  # fmt: skip


@dataclass
class Scene:
    """A deed on a hosted service with a group at two locations and a database, in a panel that stays open."""

    deed: Deed
    api: object
    session: Session
    page: PanelPage


@pytest.fixture(scope="module")
def quick_retries():
    """Let the client wait for nothing between its attempts after 429."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "BUSY_PAUSES", (0.0,))
        yield


@pytest.fixture(scope="module")
def scene(request, hosted_for_long, quick_retries):
    deed = DEEDS[request.param]
    api, session = hosted_for_long()
    api.teams.append("team")
    _make_all(session)
    return Scene(deed, api, session, PanelPage(open_panel(session, deed.panel)))


# A name that is taken, and a 404 that is told in words of its own.
OF_THEIR_OWN = [
    ("create a group", "409"), ("create a database", "422"), ("create a database", "400 taken"),
    *((name, status) for name, deed in DEEDS.items() for status in deed.instead),
]  # fmt: skip


@pytest.mark.parametrize(("scene", "status"), some_refusals(DEEDS, more=OF_THEIR_OWN), indirect=["scene"])
def test_a_refusal_is_shown_and_the_panel_goes_on(scene, status):
    deed, api, session, page = scene.deed, scene.api, scene.session, scene.page
    refusal = REFUSALS[status]
    hint = refusal.hint_of_get if refusal.hint_of_get and deed.request.startswith("GET") else refusal.hint
    code, says = refusal.code, refusal.says
    if code == "ALREADY_EXISTS" and not deed.request.startswith("POST"):
        code, hint = "SERVER", ""  # no name is taken
    if status in deed.instead:
        code, says = deed.instead[status]
        hint = ""
    api.relent()  # of a test before that failed
    deed.ready(page)
    api.refuse(deed.request, refusal.answer)
    deed.do(page)
    page.wait(says)
    until(lambda: not page.is_busy)
    shown = page.alerts
    assert any(one.startswith(f"{code}: ") and says in one and hint in one for one in shown), shown
    everything = json.dumps(page.panel.tree) + page.text + page.html + repr(page.panel)
    assert not [secret for secret in (api.token, *api.issued) if secret in everything]
    api.relent()
    deed.do(page)
    page.wait(deed.done)
    until(lambda: not page.alerts)
    deed.after(page)
    deed.undo(session)
    has = holdings_of(session)
    until(lambda: not (has.busy or has._stale or page.is_busy))
