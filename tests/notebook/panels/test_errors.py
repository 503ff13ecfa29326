"""Errors of the management API in panels: two for each way in which a panel shows them.

tests/management_api has all errors, and tests/session/test_organization_hints.py the hints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hosted_api import HostedApi, Shapes
from panel_page import PanelPage
from refused_answers import REFUSALS, in_turn, pairs
from waiting import PATIENCE, until

from pipemagic.client import transport
from pipemagic.notebook.panels import databases, replicas
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.notebook.panels.organization_state import state_of
from pipemagic.session import Session

NEXT = in_turn()
"""The refusals in turn, so that many kinds occur."""


@dataclass
class Scene:
    """A hosted service, and a panel that stays open."""

    api: HostedApi
    session: Session
    page: PanelPage

    def wait(self) -> None:
        """Wait until nothing is requested any more."""
        state = state_of(self.session)
        until(lambda: not (state.task.busy or state._stale or self.page.is_busy))

    def check_secrets(self) -> None:
        """Fail if the panel holds a token."""
        held = self.page.held
        assert not [secret for secret in (self.api.token, *self.api.issued) if secret in held]

    def wait_for_alert(self, code: str, says: str, hint: str = "") -> None:
        """Wait for an error."""
        until(
            lambda: any(
                alert.startswith(f"{code}: ") and says in alert and hint in alert for alert in self.page.alerts
            ),
            f"{code}: {says} {hint} is not shown",
        )


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Let the client and the panels retry without a delay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "BUSY_PAUSES", (0.0,))
        patch.setattr(replicas, "FIRST", 0.0)
        patch.setattr(databases, "PAUSES", (0.0,))
        yield


@pytest.fixture(scope="module")
def start(hosted_for_long):
    """Start a hosted service with a group at two locations, and the database flights; return it and its session."""

    def start(shapes=None):
        api, session = hosted_for_long(shapes)
        api.teams.append("team")
        session.organization.create_group("edge", "ams")
        session.organization.add_location("edge", "nrt")
        session.organization.create_database("flights", "edge")
        return api, session

    return start


# -- actions


@dataclass(frozen=True)
class PanelAction:
    """An action in a panel: its request, how to perform it, and the message of the panel."""

    panel: str
    request: str
    do: Callable[[PanelPage], None]
    done: str
    undo: Callable[[Session], object] = lambda _: None
    instead: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The codes and messages that are shown for some statuses instead of the server's."""


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


def _switch_organization(page: PanelPage) -> None:
    until(lambda: page.has_field("Organization") and "team" in page.options("Organization"))
    page.choose("Organization", "team")


def _connect(page: PanelPage) -> None:
    page.wait_for("Connect to flights")
    page.click("Connect to flights")


ACTIONS = {
    "create a group": PanelAction(
        "groups", "POST .*/groups$", _create_group, "Group asia is in nrt.",
        undo=lambda session: session.organization.delete_group("asia"),
    ),
    "switch the organization": PanelAction(
        "databases", "GET .*/organizations/team/groups", _switch_organization, "Using organization team (",
        undo=lambda session: session.choose_organization("acme"),
        instead={"404": ("SESSION", "organization 'team' does not exist")},
    ),
    "connect": PanelAction(
        "databases", "POST .*/databases/flights/auth/tokens", _connect, "Connected to flights",
        undo=lambda session: session.close("flights"),
        instead={"404": ("SESSION", "the service creates no tokens")},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def acting(request, start):
    action = ACTIONS[request.param]
    api, session = start()
    return action, Scene(api, session, PanelPage(open_panel(session, action.panel)))


# A name that is taken, and a 404 with its own message.
SPECIAL = [("create a group", "409"), ("switch the organization", "404"), ("connect", "404")]


@pytest.mark.parametrize(
    ("acting", "status"),
    sorted({*pairs(ACTIONS, NEXT), *SPECIAL}),  # each scene is set up once
    indirect=["acting"],
)
def test_the_error_of_an_action_is_shown_and_the_panel_can_be_used_again(acting, status):
    action, scene = acting
    api, page, refusal = scene.api, scene.page, REFUSALS[status]
    hint = refusal.hint_of_get if refusal.hint_of_get and action.request.startswith("GET") else refusal.hint
    code, says = refusal.code, refusal.says
    if code == "ALREADY_EXISTS" and not action.request.startswith("POST"):
        code, hint = "SERVER", ""  # no name is taken
    if status in action.instead:
        code, says = action.instead[status]
        hint = ""
    api.clear_refusals()  # of an earlier test that failed
    api.refuse(action.request, refusal.answer)
    action.do(page)
    scene.wait_for_alert(code, says, hint)
    until(lambda: not page.is_busy)
    scene.check_secrets()
    api.clear_refusals()
    action.do(page)
    page.wait(action.done)
    page.click("Refresh")  # tables whose token was refused, too
    until(lambda: not page.alerts)
    action.undo(scene.session)
    scene.wait()


# -- reads without an action


@dataclass(frozen=True)
class PanelRead:
    """A request that a panel sends by itself, with the button that repeats it."""

    panel: str
    pattern: str
    again: str
    stays: str
    """Texts that are shown in spite of the error."""
    silent: bool = False
    """Whether a 404 means that the service has no such data."""
    note: str = ""
    """The text before the error where only its message is shown."""
    opens: str = ""
    """The button that shows the data."""


READS = {
    "the groups": PanelRead("groups", "GET .*/groups$", "Refresh", "Amsterdam, Netherlands"),
    "the subscription": PanelRead("groups", "GET .*/subscription$", "Refresh", "1 database", opens="Usage"),
    "the replicas": PanelRead(
        "groups", "GET .*/instances$", "Refresh", "Amsterdam, Netherlands", True, "may be out of date."
    ),
    "the sizes": PanelRead("databases", "GET .*/usage$", "Refresh", "Group edge"),
    "the latency": PanelRead("locations", "GET .*/instances$", "Measure latency", "Tokyo, Japan", True),
}


@pytest.fixture(scope="module")
def reading(request, start):
    read = READS[request.param]
    api, session = start()
    page = PanelPage(open_panel(session, read.panel))
    if read.opens:
        page.click(read.opens)
    return read, Scene(api, session, page)


def expected(status):
    """Return the parts of the error that are shown for a request that changes nothing: code, message, hint."""
    refusal = REFUSALS[status]
    if refusal.code == "ALREADY_EXISTS":
        return "SERVER", refusal.says, ""  # reading takes no name
    return refusal.code, refusal.says, refusal.hint_of_get or refusal.hint


SILENT = [(name, "404") for name, read in READS.items() if read.silent]


@pytest.mark.parametrize(("reading", "status"), sorted({*pairs(READS, NEXT), *SILENT}), indirect=["reading"])
def test_the_error_of_a_read_is_shown_with_the_known_data(reading, status):
    read, scene = reading
    api, page = scene.api, scene.page
    api.clear_refusals()  # of an earlier test that failed
    scene.wait()
    until(lambda: not page.alerts)
    api.refuse(read.pattern, REFUSALS[status].answer)
    page.wait_for(read.again)
    page.click(read.again)
    if read.silent and status == "404":
        scene.wait()
        assert not page.alerts
    elif read.note:
        says = expected(status)[1]
        until(lambda: any(read.note in line and says in below for line, below in pairwise(page.words.splitlines())))
    else:
        scene.wait_for_alert(*expected(status))
    assert read.stays in page.words
    scene.check_secrets()
    api.clear_refusals()
    page.wait_for(read.again)
    page.click(read.again)
    until(lambda: not page.alerts and not (read.note and read.note in page.words))


OPENINGS = {"locations": "GET /v1/locations$", "groups": "GET .*/groups$"}


@pytest.fixture(scope="module")
def known(start):
    return start()


@pytest.fixture
def newly_opened(known):
    """Open a panel of a session that has not read anything of the service yet."""
    api, _ = known
    api.clear_refusals()
    pages = []

    def open_(panel, pattern, answer):
        api.refuse(pattern, answer)
        pages.append(PanelPage(open_panel(session, panel)))
        return Scene(api, session, pages[0])

    with Session(environ=api.environment) as session:
        yield open_
        for page in pages:
            page.panel.close()
            assert all(task.wait(PATIENCE) for task in page.panel.tasks)


@pytest.mark.parametrize(("panel", "status"), pairs(OPENINGS, NEXT))
def test_a_panel_that_cannot_be_opened_shows_the_reason_and_can_retry(newly_opened, panel, status):
    scene = newly_opened(panel, OPENINGS[panel], REFUSALS[status].answer)
    scene.wait_for_alert(*expected(status))
    scene.check_secrets()
    scene.api.clear_refusals()
    scene.page.click("Try again")
    until(lambda: scene.page.panel.state.known and not scene.page.alerts)


@pytest.mark.parametrize("status", ["404", "500", "200 that is no JSON"])
def test_nothing_depends_on_the_closest_location(newly_opened, status):
    page = newly_opened("locations", "GET .*/closest", REFUSALS[status].answer).page
    page.wait("edge (primary)")
    assert not page.alerts


def test_a_location_without_a_wait_endpoint_was_added(start):
    """The service does not report states of replicas, only when they are ready."""
    api, session = start(Shapes(lacks=frozenset({"instances"})))
    scene = Scene(api, session, PanelPage(open_panel(session, "groups")))
    scene.wait()
    api.refuse("GET .*/wait$", REFUSALS["500"].answer)
    scene.page.wait_for("Add a location to edge")
    _add_location(scene.page)
    failed = "the server refused the request (HTTP 500): oh no"
    scene.page.wait(f"Cannot read the replicas of edge at ord.\nSERVER: {failed}\nHint: ")
    assert api.groups["edge"]["locations"] == ["ams", "nrt", "ord"]
    scene.page.wait_for("Remove ord from edge")
