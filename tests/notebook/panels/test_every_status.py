"""Statuses of the management API for every action of the panels: a few for each action.

tests/management_api/test_every_endpoint.py has every status at every endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from panel_page import PanelPage
from refused_answers import REFUSALS
from some_refusals import some_refusals
from waiting import PATIENCE, until

from pipemagic.client import transport
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.notebook.panels.organization_state import state_of
from pipemagic.session import Session


@dataclass(frozen=True)
class PanelAction:
    """An action in a panel: its request, how to perform it, and the message of the panel."""

    panel: str
    request: str
    do: Callable[[PanelPage], None]
    done: str
    ready: Callable[[PanelPage], None] = lambda _: None
    """Opens the form of the action, before anything is refused."""
    undo: Callable[[Session], object] = lambda _: None
    after: Callable[[PanelPage], None] = lambda _: None
    """Restores the panel."""
    instead: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The codes and messages that are shown for some statuses instead of the server's."""


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
    until(lambda: "ord" in page.options("New location"))
    page.choose("New location", "ord")
    page.submit("Add location")


def _remove_location(page: PanelPage) -> None:
    page.wait_for("Remove nrt from edge")
    page.click("Remove nrt from edge")
    page.submit("Remove nrt")


def _delete_group(page: PanelPage) -> None:
    page.wait_for("Delete group edge")
    page.click("Delete group edge")
    page.type("Type edge to delete the group", "edge")
    page.submit("Delete group")


def _change_overages(page: PanelPage) -> None:
    page.click(page.panel.overages.description)


def _switch_organization(page: PanelPage) -> None:
    until(lambda: page.has_field("Organization") and "team" in page.options("Organization"))
    page.choose("Organization", "team")
    page.submit("Switch")


def _open_details(page: PanelPage) -> None:
    page.wait_for("Details of flights")
    if not page.can("Close details"):
        page.click("Details of flights")
    browser = page.panel.details.browser  # it creates tokens, too
    assert all(one.wait(PATIENCE) for one in (browser.task, browser.quiet))


def _cancel(page: PanelPage) -> None:
    if page.can("Cancel"):
        page.click("Cancel")


def _create_token(page: PanelPage) -> None:
    _cancel(page)
    page.click("New token ...")
    page.choose("Expires", "7d")
    page.submit("Create token")


def _invalidate(page: PanelPage) -> None:
    _cancel(page)
    page.click("Invalidate all tokens ...")
    page.type("Type flights to invalidate all its tokens", "flights")
    page.submit("Invalidate all tokens")


def _delete_database(page: PanelPage) -> None:
    _cancel(page)
    page.click("Delete database ...")
    page.type("Type flights to delete", "flights")
    page.submit("Delete database")


def _create_all(session: Session) -> None:
    session.platform.create_group("edge", "ams")
    session.platform.add_location("edge", "nrt")
    session.platform.create_database("flights", "edge")


NO_TOKENS = ("SESSION", "the service creates no tokens")

ACTIONS = {
    "create a group": PanelAction(
        "groups", "POST .*/groups$", _create_group, "Group asia is in nrt.",
        undo=lambda session: session.platform.delete_group("asia"),
    ),
    "add a location": PanelAction(
        "groups", "POST .*/groups/edge/locations/ord", _add_location, "Group edge is in ams, nrt, ord.",
        undo=lambda session: session.platform.remove_location("edge", "ord"),
    ),
    "remove a location": PanelAction(
        "groups", "DELETE .*/groups/edge/locations/nrt", _remove_location, "Group edge is no longer in nrt;",
        undo=lambda session: session.platform.add_location("edge", "nrt"),
    ),
    "delete a group": PanelAction(
        "groups", "DELETE .*/groups/edge", _delete_group, "Deleted group edge and its databases:",
        undo=_create_all,
    ),
    "overages": PanelAction("organization", "PATCH ", _change_overages, "Overages of organization acme are"),
    "switch the organization": PanelAction(
        "organization", "GET .*/organizations/team/groups", _switch_organization, "Organization team (",
        undo=lambda session: session.organization("acme"), instead={"404": ("SESSION", "no organization 'team'")},
    ),
    "create a database": PanelAction(
        "databases", "POST .*/databases$", _create_database, "Database trips is in group edge.",
        undo=lambda session: session.platform.delete_database("trips"),
    ),
    "connect": PanelAction(
        "databases", "POST .*/databases/flights/auth/tokens", _connect, "Connected to flights",
        undo=lambda session: session.close("flights"), instead={"404": NO_TOKENS},
    ),
    "create a token": PanelAction(
        "databases", "POST .*/databases/flights/auth/tokens", _create_token, "The token was created.",
        ready=_open_details, after=lambda page: page.click("Done"),
    ),
    "invalidate the tokens": PanelAction(
        "databases", "POST .*/databases/flights/auth/rotate", _invalidate, "All tokens of flights are invalid.",
        ready=_open_details,
    ),
    "delete a database": PanelAction(
        "databases", "DELETE .*/databases/flights", _delete_database, "Deleted database flights.",
        ready=_open_details, undo=lambda session: session.platform.create_database("flights", "edge"),
    ),
}  # fmt: skip


@dataclass
class Scene:
    """An action on a hosted service with a group at two locations and a database, in a panel that stays open."""

    action: PanelAction
    api: object
    session: Session
    page: PanelPage


@pytest.fixture(scope="module")
def quick_retries():
    """Let the client retry after 429 without a delay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "BUSY_PAUSES", (0.0,))
        yield


@pytest.fixture(scope="module")
def scene(request, hosted_for_long, quick_retries):
    action = ACTIONS[request.param]
    api, session = hosted_for_long()
    api.teams.append("team")
    _create_all(session)
    return Scene(action, api, session, PanelPage(open_panel(session, action.panel)))


# Names that are taken, and a 404 with its own message.
SPECIAL = [
    ("create a group", "409"), ("create a database", "422"), ("create a database", "400 taken"),
    *((name, status) for name, action in ACTIONS.items() for status in action.instead),
]  # fmt: skip


@pytest.mark.parametrize(("scene", "status"), some_refusals(ACTIONS, more=SPECIAL), indirect=["scene"])
def test_an_error_is_shown_and_the_panel_can_be_used_again(scene, status):
    action, api, session, page = scene.action, scene.api, scene.session, scene.page
    refusal = REFUSALS[status]
    hint = refusal.hint_of_get if refusal.hint_of_get and action.request.startswith("GET") else refusal.hint
    code, says = refusal.code, refusal.says
    if code == "ALREADY_EXISTS" and not action.request.startswith("POST"):
        code, hint = "SERVER", ""  # no name is taken
    if status in action.instead:
        code, says = action.instead[status]
        hint = ""
    api.clear_refusals()  # of an earlier test that failed
    action.ready(page)
    api.refuse(action.request, refusal.answer)
    action.do(page)
    page.wait(says)
    until(lambda: not page.is_busy)
    shown = page.alerts
    assert any(one.startswith(f"{code}: ") and says in one and hint in one for one in shown), shown
    held = page.held
    assert not [secret for secret in (api.token, *api.issued) if secret in held]
    api.clear_refusals()
    action.do(page)
    page.wait(action.done)
    page.click("Refresh")  # tables whose token was refused, too
    until(lambda: not page.alerts)
    action.after(page)
    action.undo(session)
    state = state_of(session)
    until(lambda: not (state.task.busy or state._stale or page.is_busy))
