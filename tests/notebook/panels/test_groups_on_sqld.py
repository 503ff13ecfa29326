"""The panel of groups on nodes of sqld: one that stops, as a frozen machine does, and goes on."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest
from panel_page import PanelPage
from sqld_engine import SqldEngineProcess, nodes_of
from waiting import until

from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session


@pytest.fixture(scope="module")
def engine(sqld_binary, tmp_path_factory):
    """A service with three nodes that may be stopped."""
    made = SqldEngineProcess(sqld_binary, tmp_path_factory.mktemp("sqld-panels"))
    yield made
    made.close()


@pytest.fixture
def panel(engine, closing):
    """The panel of groups; the group ``default`` is at ams, with a database of its own."""
    for one in engine.manage("GET", "/databases")["databases"]:
        engine.manage("DELETE", f"/databases/{one['Name']}")
    for code in set(engine.states()) - {"ams"}:
        engine.manage("DELETE", f"/groups/default/locations/{code}")
    engine.create("flights")
    session = Session(environ={"PIPEMAGIC_API_URL": engine.url, "PIPEMAGIC_API_TOKEN": engine.token})
    session.organization("local")
    yield PanelPage(open_panel(session, "groups"))
    closing()
    session.shut_down()


def send(engine, code, number):
    """Send a signal to the node of a location: also to the one that the service started in place of another."""
    for pid, at in nodes_of(engine.folder):
        if at == code:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    return True


def replicas(panel):
    row = next(one for one in panel.find("tr") if one.attributes.get("key") == "default")
    return next(one for one in row.children if one.attributes.get("data-heading") == "Replicas").words


def add(panel, code):
    panel.click("Add a location to default")
    panel.choose("New location of default", code)
    panel.submit("Add location")


def test_a_location_is_added_and_its_lag_is_not_made_up(panel):
    add(panel, "nrt")
    panel.wait("Group default is in ams, nrt. Its database is there.")
    until(lambda: "caught up" in replicas(panel))
    assert "lag" not in replicas(panel)


def test_a_node_that_stops_is_told_and_the_panel_goes_on(engine, panel):
    add(panel, "nrt")
    panel.wait("Its database is there.")
    until(lambda: "caught up" in replicas(panel))
    try:
        # The service starts a node that hangs again: that one is stopped, too.
        until(lambda: send(engine, "nrt", signal.SIGSTOP) and "down" in replicas(panel), replicas(panel))
        panel.click("Delete group default")
        panel.click("Cancel")
        add(panel, "ord")
        until(lambda: send(engine, "nrt", signal.SIGSTOP) and "Its database is there." in panel.words, panel.words)
        assert "down" in replicas(panel)
    finally:
        send(engine, "nrt", signal.SIGCONT)
    until(lambda: "down" not in replicas(panel) and replicas(panel).count("caught up") == 2, replicas(panel))


def test_a_new_location_whose_node_has_stopped_is_followed_until_it_goes_on(engine, panel):
    send(engine, "nrt", signal.SIGSTOP)
    try:
        add(panel, "nrt")
        until(lambda: send(engine, "nrt", signal.SIGSTOP) and "flights: down" in panel.words, panel.words)
        assert "0 of 1 database are there." in panel.words
    finally:
        send(engine, "nrt", signal.SIGCONT)
    panel.wait("Group default is in ams, nrt. Its database is there.")


def test_a_location_that_is_paused_by_others_is_told(engine, panel):
    add(panel, "nrt")
    panel.wait("Its database is there.")
    engine.manage("POST", "/groups/default/locations/nrt/pause")
    until(lambda: "paused" in replicas(panel), replicas(panel))
    engine.manage("POST", "/groups/default/locations/nrt/resume")
    until(lambda: "caught up" in replicas(panel), replicas(panel))
