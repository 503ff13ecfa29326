"""Statuses that the management API is known to answer with, at all that panels ask by themselves: a few for each.

tests/management_api/test_every_endpoint.py has every status at every endpoint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from hosted_api import HostedApi, Shapes
from panel_page import PanelPage
from refused_answers import REFUSALS
from some_refusals import some_refusals
from waiting import PATIENCE, until

from pipemagic.client import transport
from pipemagic.notebook.panels.ground.work import WorkingModel
from pipemagic.notebook.panels.groups import catching_up
from pipemagic.notebook.panels.holdings import holdings_of
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session


@dataclass(frozen=True)
class Question:
    """What a panel asks, with the button by which it asks again."""

    panel: str
    request: str
    again: str
    stays: str
    """What is on the page all the same."""
    silent: frozenset[str] = field(default=frozenset())
    """Statuses by which the service says that there is nothing."""


LOCATIONS, GROUPS = "Refresh locations and groups", "Refresh groups and replicas"
ORGANIZATION = "Refresh the organization"
GONE = frozenset({"404"})

QUESTIONS = {
    "the locations": Question("locations", "GET /v1/locations$", LOCATIONS, "Tokyo, Japan"),
    "the groups": Question("groups", "GET .*/groups$", GROUPS, "Amsterdam, Netherlands"),
    "the databases": Question("databases", "GET .*/databases$", "Refresh", "Group edge"),
    "the databases, in another panel": Question("organization", "GET .*/databases$", ORGANIZATION, "acme"),
    "the settings": Question("organization", "GET .*/organizations/acme$", ORGANIZATION, "acme"),
    "the organizations": Question("organization", "GET .*/organizations$", ORGANIZATION, "Plan: starter."),
    "the usage": Question("organization", "GET .*/usage$", ORGANIZATION, "Plan: starter."),
    "the plans": Question("organization", "GET .*/plans$", ORGANIZATION, "2 databases"),
    "the subscription": Question("organization", "GET .*/subscription$", ORGANIZATION, "2 databases"),
    "the replicas": Question("groups", "GET .*/instances$", GROUPS, "Amsterdam, Netherlands", GONE),
    "the sizes": Question("databases", "GET .*/usage$", "Refresh", "Group edge"),
    "the latency": Question("locations", "GET .*/instances$", "Measure latency", "Tokyo, Japan", GONE),
}


@dataclass
class Scene:
    """A question to a hosted service, in a panel that stays open."""

    question: Question
    api: HostedApi
    session: Session
    page: PanelPage


@pytest.fixture(scope="module")
def start(hosted_for_long):
    """Start a hosted service with a group at two locations, and two databases; the client waits for nothing."""

    def start(shapes=None):
        api, session = hosted_for_long(shapes)
        session.platform.create_group("edge", "ams")
        session.platform.add_location("edge", "nrt")
        for name in ("flights", "trips"):
            session.platform.create_database(name, "edge")
        return api, session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "BUSY_PAUSES", (0.0,))
        patch.setattr(catching_up, "QUICK", 0.0)
        yield start


@pytest.fixture(scope="module")
def scene(request, start):
    question = QUESTIONS[request.param]
    api, session = start()
    return Scene(question, api, session, PanelPage(open_panel(session, question.panel)))


def told(status):
    """Give what is told of a status where nothing was to be changed: the code, words, and what to do next."""
    refusal = REFUSALS[status]
    if refusal.code == "ALREADY_EXISTS":
        return "SERVER", refusal.says, ""  # asking takes no name
    return refusal.code, refusal.says, refusal.hint_of_get or refusal.hint


def is_shown(page, status):
    code, says, hint = told(status)
    return any(one.startswith(f"{code}: ") and says in one and hint in one for one in page.alerts)


def wait_for(page, status):
    try:
        until(lambda: is_shown(page, status))
    except AssertionError:
        raise AssertionError(f"{told(status)} is not shown: {page.alerts}") from None


def settle(session, page):
    has = holdings_of(session)
    until(lambda: not (has.busy or has._stale or page.is_busy))


def shows_no_secret(api, page):
    everything = json.dumps(page.panel.tree) + page.text + page.html + repr(page.panel)
    return not [secret for secret in (api.token, *api.issued) if secret in everything]


SILENT = [(name, status) for name, question in QUESTIONS.items() for status in question.silent]


@pytest.mark.parametrize(("scene", "status"), some_refusals(QUESTIONS, more=SILENT), indirect=["scene"])
def test_a_refusal_is_shown_with_what_is_known(scene, status):
    question, api, page = scene.question, scene.api, scene.page
    api.relent()  # of a test before that failed
    settle(scene.session, page)
    until(lambda: not page.alerts)
    api.refuse(question.request, REFUSALS[status].answer)
    page.wait_for(question.again)
    page.click(question.again)
    if status in question.silent:
        settle(scene.session, page)
        assert not page.alerts
    else:
        wait_for(page, status)
    assert question.stays in page.words
    assert shows_no_secret(api, page)
    api.relent()
    page.wait_for(question.again)
    page.click(question.again)
    until(lambda: not page.alerts)


OPENINGS = {"locations": "GET /v1/locations$", "groups": "GET .*/groups$", "databases": "GET .*/databases$",
            "organization": "GET .*/organizations$"}  # fmt: skip


@pytest.fixture(scope="module")
def known(start):
    return start()


@pytest.fixture
def newcomer(known):
    """Open a panel of a session that knows nothing yet of the service; gives that, the session and the page."""
    api, _ = known
    api.relent()
    pages = []

    def open_(panel, request, answer):
        api.refuse(request, answer)
        pages.append(PanelPage(open_panel(session, panel)))
        return api, session, pages[0]

    with Session(environ=api.environment) as session:
        yield open_
        for page in pages:
            page.panel.close()
            assert all(model.wait(PATIENCE) for model in page.panel.view.models() if isinstance(model, WorkingModel))


@pytest.mark.parametrize(("panel", "status"), some_refusals(OPENINGS, 6))
def test_a_panel_that_cannot_be_opened_says_why_and_asks_again(newcomer, panel, status):
    api, session, page = newcomer(panel, OPENINGS[panel], REFUSALS[status].answer)
    wait_for(page, status)
    assert shows_no_secret(api, page)
    api.relent()
    page.click("Ask again")
    until(lambda: holdings_of(session).known and not page.alerts)


FEW = ["404", "500", "200 that is no JSON", "a redirect", "cut in the middle"]


@pytest.mark.parametrize("status", FEW)
def test_nothing_depends_on_the_closest_location(newcomer, status):
    _, _, page = newcomer("locations", "GET .*/closest", REFUSALS[status].answer)
    page.wait("edge (primary)")
    assert not page.alerts


@pytest.fixture(scope="module")
def without_states(start):
    """A service that does not tell of replicas, only when they are there."""
    api, session = start(Shapes(lacks=frozenset({"instances"})))
    return api, session, PanelPage(open_panel(session, "groups"))


@pytest.mark.parametrize("status", FEW)
def test_a_location_that_cannot_be_waited_for_was_added(without_states, status):
    api, session, page = without_states
    api.relent()
    settle(session, page)
    api.refuse("GET .*/wait$", REFUSALS[status].answer)
    page.wait_for("Add a location to edge")
    page.click("Add a location to edge")
    page.choose("New location of edge", "ord")
    page.submit("Add location")
    wait_for(page, status)
    assert api.groups["edge"]["locations"] == ["ams", "nrt", "ord"]
    assert any("ord was added to edge" in one for one in page.alerts), page.alerts
    until(lambda: page.can("Remove ord from edge"))
    api.relent()
    session.platform.remove_location("edge", "ord")
