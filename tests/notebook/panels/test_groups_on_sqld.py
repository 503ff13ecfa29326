"""The Groups panel on nodes of sqld, one of which is suspended, as on a frozen machine, and resumed."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack, contextmanager, suppress

import psutil
import pytest
from long_waits import side_by_side
from panel_page import PanelPage
from sqld_engine import SqldEngineProcess, nodes_of
from waiting import until

from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session


class Groups:
    """Groups panels; each scenario has its own groups, and suspends or pauses its own node."""

    def __init__(self, engine):
        self.engine = engine
        self.sessions = []

    def create(self, group):
        """Create a group at ams, with a database of the same name."""
        self.engine.manage("POST", "/groups", {"name": group, "location": "ams"})
        self.engine.manage("POST", "/databases", {"name": group, "group": group})

    def panel(self):
        """Open the panel; return it and its session."""
        session = Session(environ={"PIPEMAGIC_API_URL": self.engine.url, "PIPEMAGIC_API_TOKEN": self.engine.token})
        self.sessions.append(session)
        session.organization("local")
        return PanelPage(open_panel(session, "groups")), session

    def send(self, code, number):
        """Send a signal to the node of a location."""
        for pid, at in nodes_of(self.engine.folder):
            if at == code:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    @contextmanager
    def stopped(self, code):
        """Suspend the node of a location until the end of the block, also one that the service starts instead.

        That one is suspended before it responds: otherwise the service may send it a request, and wait 20 s.
        """
        over, before = threading.Event(), set(psutil.pids())
        data = str(self.engine.folder / "nodes" / code / "data")

        def keep():
            while not over.wait(0.01):
                for pid in set(psutil.pids()) - before:
                    with suppress(psutil.Error, ProcessLookupError):
                        if data in psutil.Process(pid).cmdline():
                            os.kill(pid, signal.SIGSTOP)

        self.send(code, signal.SIGSTOP)
        keeping = threading.Thread(target=keep)
        keeping.start()
        try:
            yield
        finally:
            over.set()
            keeping.join()
            self.send(code, signal.SIGCONT)


def replicas(panel, group):
    return panel.cells("Groups", group)["Replicas"]


def add(panel, group, code):
    panel.click(f"Add a location to {group}")
    panel.choose("New location", code)
    panel.submit("Add location")


def a_location_is_added_and_no_lag_is_shown(groups):
    groups.create("added")
    panel, _ = groups.panel()
    add(panel, "added", "ord")
    panel.wait("Group added is in ams, ord. Its database is ready.")
    until(lambda: "caught up" in replicas(panel, "added"))
    assert "lag" not in replicas(panel, "added")


def a_node_that_stops_is_shown_and_a_new_location_on_it_is_watched_until_it_continues(groups):
    groups.create("stops")
    groups.create("followed")
    groups.create("goes-on")  # its own, since a service may wait 20 s for a suspended node
    panel, session = groups.panel()
    add(panel, "stops", "nrt")
    panel.wait("Group stops is in ams, nrt. Its database is ready.")
    until(lambda: "caught up" in replicas(panel, "stops"))
    with ExitStack() as until_it_goes_on:
        adding = session.platform.add_location

        def add_and_stop(*given):
            """Suspend the node after it was added: before that, the service would wait 20 s for it."""
            added = adding(*given)
            until_it_goes_on.enter_context(groups.stopped("nrt"))
            return added

        session.platform.add_location = add_and_stop
        add(panel, "followed", "nrt")
        panel.wait("followed: down")
        assert "0 of 1 database are ready." in panel.words
        session.platform.add_location = adding
        panel.click("Delete group stops")
        panel.click("Cancel")
        add(panel, "goes-on", "ord")
        panel.wait("Group goes-on is in ams, ord. Its database is ready.")
        until(lambda: "down" in replicas(panel, "stops"), replicas(panel, "stops"))
    panel.wait("Group followed is in ams, nrt. Its database is ready.")
    until(lambda: all("caught up" in replicas(panel, one) for one in ("stops", "followed", "goes-on")))


def a_location_that_is_paused_elsewhere_is_shown(groups):
    groups.create("held")
    panel, _ = groups.panel()
    add(panel, "held", "syd")
    panel.wait("Group held is in ams, syd. Its database is ready.")
    groups.engine.manage("POST", "/groups/held/locations/syd/pause")
    until(lambda: "paused" in replicas(panel, "held"), replicas(panel, "held"))
    groups.engine.manage("POST", "/groups/held/locations/syd/resume")
    until(lambda: "caught up" in replicas(panel, "held"), replicas(panel, "held"))


@pytest.fixture(scope="module")
def outcome(request, sqld_binary, tmp_path_factory, closing):
    engine = SqldEngineProcess(sqld_binary, tmp_path_factory.mktemp("sqld-panels"), count=4)
    groups = Groups(engine)
    with side_by_side(request, test_on_nodes_of_sqld, groups) as outcome:
        yield outcome
    closing()
    for session in groups.sessions:
        session.shut_down()
    engine.close()


SCENARIOS = [
    a_location_is_added_and_no_lag_is_shown,
    a_node_that_stops_is_shown_and_a_new_location_on_it_is_watched_until_it_continues,
    a_location_that_is_paused_elsewhere_is_shown,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_on_nodes_of_sqld(outcome, scenario):
    outcome(scenario)
