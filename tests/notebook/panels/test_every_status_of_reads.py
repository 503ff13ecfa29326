"""Statuses of the management API for requests that panels send without an action: a few for each request.

tests/management_api/test_every_endpoint.py has every status at every endpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hosted_api import HostedApi, Shapes
from panel_page import PanelPage
from refused_answers import REFUSALS
from some_refusals import some_refusals
from waiting import PATIENCE, until

from pipemagic.client import transport
from pipemagic.notebook.panels import replicas
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.notebook.panels.organization_state import state_of
from pipemagic.session import Session


@dataclass(frozen=True)
class PanelRequest:
    """A request of a panel, with the button that repeats it."""

    panel: str
    pattern: str
    again: str
    stays: str
    """Texts that are shown in spite of the error."""
    silent: frozenset[str] = field(default=frozenset())
    """Statuses that mean that the service has no such data."""
    note: str = ""
    """The text before the error where only its message is shown."""


GONE = frozenset({"404"})

REQUESTS = {
    "the locations": PanelRequest("locations", "GET /v1/locations$", "Refresh", "Tokyo, Japan"),
    "the groups": PanelRequest("groups", "GET .*/groups$", "Refresh", "Amsterdam, Netherlands"),
    "the databases": PanelRequest("databases", "GET .*/databases$", "Refresh", "Group edge"),
    "the databases, in another panel": PanelRequest("organization", "GET .*/databases$", "Refresh", "acme"),
    "the settings": PanelRequest("organization", "GET .*/organizations/acme$", "Refresh", "acme"),
    "the organizations": PanelRequest("organization", "GET .*/organizations$", "Refresh", "Plan: starter."),
    "the usage": PanelRequest("organization", "GET .*/usage$", "Refresh", "Plan: starter."),
    "the plans": PanelRequest("organization", "GET .*/plans$", "Refresh", "2 databases"),
    "the subscription": PanelRequest("organization", "GET .*/subscription$", "Refresh", "2 databases"),
    "the replicas": PanelRequest(
        "groups", "GET .*/instances$", "Refresh", "Amsterdam, Netherlands", GONE, "may be out of date: "
    ),
    "the sizes": PanelRequest("databases", "GET .*/usage$", "Refresh", "Group edge"),
    "the latency": PanelRequest("locations", "GET .*/instances$", "Measure latency", "Tokyo, Japan", GONE),
}


@dataclass
class Scene:
    """A request to a hosted service, in a panel that stays open."""

    request: PanelRequest
    api: HostedApi
    session: Session
    page: PanelPage


@pytest.fixture(scope="module")
def start(hosted_for_long):
    """Start a hosted service with a group at two locations, and two databases; the client retries at once."""

    def start(shapes=None):
        api, session = hosted_for_long(shapes)
        session.platform.create_group("edge", "ams")
        session.platform.add_location("edge", "nrt")
        for name in ("flights", "trips"):
            session.platform.create_database(name, "edge")
        return api, session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "BUSY_PAUSES", (0.0,))
        patch.setattr(replicas, "FIRST", 0.0)
        yield start


@pytest.fixture(scope="module")
def scene(request, start):
    request = REQUESTS[request.param]
    api, session = start()
    return Scene(request, api, session, PanelPage(open_panel(session, request.panel)))


def expected(status):
    """Return the parts of the error that are shown for a request that changes nothing: code, message, hint."""
    refusal = REFUSALS[status]
    if refusal.code == "ALREADY_EXISTS":
        return "SERVER", refusal.says, ""  # reading takes no name
    return refusal.code, refusal.says, refusal.hint_of_get or refusal.hint


def wait_for(page, status, note=""):
    code, says, hint = expected(status)
    if note:
        until(lambda: any(note in line and says in line for line in page.words.splitlines()), f"{says!r} is not shown")
        return
    until(
        lambda: any(one.startswith(f"{code}: ") and says in one and hint in one for one in page.alerts),
        f"{expected(status)} is not shown",
    )


def wait_for_all(session, page):
    state = state_of(session)
    until(lambda: not (state.task.busy or state._stale or page.is_busy))


def shows_no_secret(api, page):
    held = page.held
    return not [secret for secret in (api.token, *api.issued) if secret in held]


SILENT = [(name, status) for name, request in REQUESTS.items() for status in request.silent]


@pytest.mark.parametrize(("scene", "status"), some_refusals(REQUESTS, more=SILENT), indirect=["scene"])
def test_an_error_is_shown_with_the_known_data(scene, status):
    request, api, page = scene.request, scene.api, scene.page
    api.clear_refusals()  # of an earlier test that failed
    wait_for_all(scene.session, page)
    until(lambda: not page.alerts)
    api.refuse(request.pattern, REFUSALS[status].answer)
    page.wait_for(request.again)
    page.click(request.again)
    if status in request.silent:
        wait_for_all(scene.session, page)
        assert not page.alerts
    else:
        wait_for(page, status, request.note)
    assert request.stays in page.words
    assert shows_no_secret(api, page)
    api.clear_refusals()
    page.wait_for(request.again)
    page.click(request.again)
    until(lambda: not page.alerts and not (request.note and request.note in page.words))


OPENINGS = {"locations": "GET /v1/locations$", "groups": "GET .*/groups$", "databases": "GET .*/databases$",
            "organization": "GET .*/organizations$"}  # fmt: skip


@pytest.fixture(scope="module")
def known(start):
    return start()


@pytest.fixture
def newly_opened(known):
    """Open a panel of a session that has not read anything of the service yet; return the service and the page."""
    api, _ = known
    api.clear_refusals()
    pages = []

    def open_(panel, pattern, answer):
        api.refuse(pattern, answer)
        pages.append(PanelPage(open_panel(session, panel)))
        return api, pages[0]

    with Session(environ=api.environment) as session:
        yield open_
        for page in pages:
            page.panel.close()
            assert all(task.wait(PATIENCE) for task in page.panel.tasks)


@pytest.mark.parametrize(("panel", "status"), some_refusals(OPENINGS, 6))
def test_a_panel_that_cannot_be_opened_shows_the_reason_and_can_retry(newly_opened, panel, status):
    api, page = newly_opened(panel, OPENINGS[panel], REFUSALS[status].answer)
    wait_for(page, status)
    assert shows_no_secret(api, page)
    api.clear_refusals()
    page.click("Try again")
    until(lambda: page.panel.state.known and not page.alerts)


FEW = ["404", "500", "200 that is no JSON", "a redirect", "cut in the middle"]


@pytest.mark.parametrize("status", FEW)
def test_nothing_depends_on_the_closest_location(newly_opened, status):
    _, page = newly_opened("locations", "GET .*/closest", REFUSALS[status].answer)
    page.wait("edge (primary)")
    assert not page.alerts


@pytest.fixture(scope="module")
def without_states(start):
    """A service that does not report states of replicas, only when they are ready."""
    api, session = start(Shapes(lacks=frozenset({"instances"})))
    return api, session, PanelPage(open_panel(session, "groups"))


@pytest.mark.parametrize("status", FEW)
def test_a_location_without_a_wait_endpoint_was_added(without_states, status):
    api, session, page = without_states
    api.clear_refusals()
    wait_for_all(session, page)
    api.refuse("GET .*/wait$", REFUSALS[status].answer)
    page.wait_for("Add a location to edge")
    page.click("Add a location to edge")
    page.choose("New location", "ord")
    page.submit("Add location")
    wait_for(page, status)
    assert api.groups["edge"]["locations"] == ["ams", "nrt", "ord"]
    assert any("ord was added to edge" in one for one in page.alerts), page.alerts
    until(lambda: page.can("Remove ord from edge"))
    api.clear_refusals()
    session.platform.remove_location("edge", "ord")
