"""New locations: one line of all panels of a session shows how many databases have caught up."""

from __future__ import annotations

import threading

import pytest
from panel_page import PanelPage
from scripted_server import as_json
from started_services import crash
from waiting import PATIENCE, until

from pipemagic.notebook.panels import replicas
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.notebook.panels.organization_state import state_of
from pipemagic.notebook.panels.replicas import REQUESTS


class Copying:
    """The states of a database's instances that a test sets; the service reports the others."""

    def __init__(self, organization):
        self.states, self._instances = {}, organization.instances
        organization.instances = lambda name: [self._changed(instance) for instance in self._instances(name)]

    def _changed(self, instance):
        state = self.states.get(instance.name)
        return instance if state is None else type(instance)(instance.name, "replica", "", state)


@pytest.fixture
def organization(session):
    """The organization with a group ``edge`` in ams that has two databases."""
    organization = session.organization
    organization.create_group("edge", "ams")
    for name in ("flights", "hotels"):
        organization.create_database(name, "edge")
    return organization


@pytest.fixture
def copying(organization):
    """The states of instances, by code."""
    return Copying(organization)


def add(panel, code, group="edge"):
    panel.click(f"Add a location to {group}")
    panel.choose("New location", code)
    panel.submit("Add location")


def test_two_at_a_time_are_one_line(page, organization, copying):
    copying.states = {"nrt": "copying", "fra": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    panel.wait("Copying edge to nrt, 0 of 2 databases are ready.")
    assert "%pipedb add-location edge nrt" in panel.words
    add(panel, "fra")
    panel.wait("Copying edge to nrt, 0 of 2 databases are ready. Copying edge to fra, 0 of 2 databases are ready.")
    del copying.states["fra"]
    panel.wait("Copying edge to nrt, 0 of 2 databases are ready. The 2 databases of edge are ready at fra.")
    copying.states.clear()
    panel.wait("The 2 databases of edge are ready at nrt. The 2 databases of edge are ready at fra.")
    until(lambda: not panel.is_busy)


def test_locations_of_several_groups_at_a_time(page, organization, copying):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    panel.wait("Copying edge to nrt, 0 of 2")
    add(panel, "nrt", group="default")
    panel.wait("Copying default to nrt, 0 of 1 database")
    copying.states.clear()
    panel.wait("The 2 databases of edge are ready at nrt. The database of default is ready at nrt.")


def test_both_panels_show_the_same(page, organization, copying):
    copying.states = {"nrt": "copying", "syd": "copying"}
    groups, locations = page("groups"), page("locations")
    add(groups, "nrt")
    locations.click("Add syd to a group")
    locations.choose("Add to group", "edge")
    locations.submit("Add syd")
    for panel in (groups, locations):
        panel.wait("Copying edge to nrt, 0 of 2 databases are ready.")
        panel.wait("Copying edge to syd, 0 of 2 databases are ready.")


def test_a_paused_location_is_shown_after_those_that_have_caught_up(page, organization, copying):
    copying.states = {"nrt": "paused"}
    panel = page("groups")
    add(panel, "nrt")
    panel.wait("nrt is paused: replication continues when it is resumed.")
    add(panel, "fra")
    panel.wait("The 2 databases of edge are ready at fra.")
    panel.click("Delete group edge")
    panel.click("Cancel")
    until(lambda: "are ready at fra" not in panel.words)
    assert "nrt is paused" in panel.words


def test_a_location_that_is_removed_is_not_watched(page, organization, copying):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    panel.wait("Copying edge to nrt")
    panel.wait_for("Remove nrt from edge")
    panel.click("Remove nrt from edge")
    panel.submit("Remove nrt")
    panel.wait("Group edge is no longer in nrt; it is in ams.")
    until(lambda: "Copying" not in panel.words)


def test_a_group_that_is_deleted_is_not_watched(page, organization, copying):
    copying.states = {"nrt": "copying", "fra": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    panel.wait("Copying edge to nrt")
    add(panel, "fra")
    panel.wait("Copying edge to fra")
    panel.click("Delete group edge")
    panel.type("Type edge to delete the group", "edge")
    panel.submit("Delete group")
    panel.wait("Deleted group edge and its databases:")
    until(lambda: "Copying" not in panel.words)


def test_a_location_or_group_that_is_removed_elsewhere_is_not_watched(page, organization, copying):
    copying.states = {"nrt": "copying", "fra": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    panel.wait("Copying edge to nrt, 0 of 2")
    add(panel, "fra")
    panel.wait("Copying edge to fra, 0 of 2")
    organization.api.remove_location("edge", "nrt")
    panel.wait("nrt was removed from edge. Copying edge to fra, 0 of 2")
    organization.api.delete_group("edge")
    panel.wait("nrt was removed from edge. fra was removed from edge.")
    until(lambda: not panel.is_busy)


def test_a_double_click_adds_a_location_once(page, organization, copying):
    panel = page("groups")
    panel.click("Add a location to edge")
    panel.choose("New location", "nrt")
    button = panel.panel.add.submit
    panel.press(button)
    panel.wait("The 2 databases of edge are ready at nrt.")
    button.click()  # the second click arrives after the end of the first request
    assert not panel.is_busy
    assert panel.alerts == []
    assert "Group edge is in ams, nrt." in panel.words


def test_nothing_is_watched_without_a_panel_and_the_next_one_resumes(page, organization, session, copying):
    copying.states = {"nrt": "copying"}
    groups, locations = page("groups"), page("locations")
    add(groups, "nrt")
    locations.wait("Copying edge to nrt, 0 of 2")
    task = state_of(session).replicas.task
    groups.panel.close()
    assert not task.wait(0)
    locations.panel.close()
    assert task.wait(PATIENCE)
    copying.states.clear()
    again = page("locations")
    again.wait("The 2 databases of edge are ready at nrt.")


class Stop(threading.Event):
    """Records the pauses between reads; set after five of them."""

    def __init__(self):
        super().__init__()
        self.pauses = []

    def wait(self, timeout=None):
        self.pauses.append(timeout)
        return len(self.pauses) > 5


def test_a_location_without_changes_is_read_less_and_less_often(page, organization, session, copying):
    copying.states = {"nrt": "paused"}
    panel = page("groups")
    add(panel, "nrt")
    panel.wait("nrt is paused")
    states = state_of(session).replicas
    panel.panel.unmount()
    assert states.task.wait(PATIENCE)
    stop = Stop()
    states._follow(stop)
    first = replicas.FIRST
    assert stop.pauses == [0.0, *(pytest.approx(first * 1.3**number) for number in range(5))]


def test_tabs_do_not_interrupt_watching(page, organization, session, copying, monkeypatch):
    copying.states = {"nrt": "copying"}
    tabs = page()
    tabs.click("Groups")
    add(tabs, "nrt")
    tabs.wait("Copying edge to nrt, 0 of 2")
    states, stopping = state_of(session).replicas, []
    stop = states.stop
    monkeypatch.setattr(states, "stop", lambda: (stopping.append(threading.current_thread()), stop()))
    tabs.click("Locations")
    assert threading.current_thread() not in stopping
    assert "Copying edge to nrt, 0 of 2" in tabs.words
    monkeypatch.undo()
    copying.states.clear()
    tabs.wait("The 2 databases of edge are ready at nrt.")


# -- many databases


def test_few_requests_about_many_databases_and_locations_run_at_a_time(page, organization):
    for number in range(12):
        organization.api.create_database(f"d{number:02}", "edge")
    organization.on_change(())
    asking, under_way, most = organization.instances, threading.Semaphore(REQUESTS), []

    def ask(name):
        alone = under_way.acquire(blocking=False)
        most.append(alone)
        try:
            return asking(name)
        finally:
            if alone:
                under_way.release()

    organization.instances = ask
    panel = page("groups")
    panel.wait("14 databases")
    for code in ("nrt", "fra", "syd"):
        add(panel, code)
        panel.wait(f"The 14 databases of edge are ready at {code}.")
    assert len(most) >= 3 * 14
    assert all(most), f"more than {REQUESTS} requests at a time"


def test_the_end_of_a_panel_does_not_wait_for_requests_that_hang(page, organization, session):
    asking, hung = organization.instances, threading.Event()
    organization.instances = lambda name: hung.wait() and asking(name)
    panel = page("groups")
    add(panel, "nrt")
    panel.wait("Copying edge to nrt.")
    task = state_of(session).replicas.task
    panel.panel.close()
    assert task.wait(PATIENCE)
    hung.set()


# -- when the service fails in the middle


def test_watching_continues_after_the_service_was_killed(page, organization, copying, service_folder):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    panel.wait("Copying edge to nrt, 0 of 2")
    crash(service_folder)
    copying.states.clear()
    panel.wait("The 2 databases of edge are ready at nrt.")
    add(panel, "fra")
    panel.wait("The 2 databases of edge are ready at fra.")


@pytest.fixture
def edge_elsewhere(hosted):
    """A hosted service with a group ``edge`` and a database in it; and a panel of groups."""
    api, session = hosted()
    session.organization.create_group("edge", "ams")
    session.organization.create_database("flights", "edge")
    return api, session, PanelPage(open_panel(session, "groups"))


COPYING = as_json({"instances": [{"name": "nrt", "type": "replica", "status": "copying"}]})


def test_a_revoked_token_is_shown_and_another_one_continues(edge_elsewhere):
    api, session, panel = edge_elsewhere
    api.refuse(r"GET .*/instances", COPYING)
    add(panel, "nrt")
    panel.wait("Copying edge to nrt, 0 of 1 database")
    api.environment["PIPEMAGIC_API_TOKEN"] = api.renew_token()
    api.clear_refusals()  # not before: a request between the two would find the replica there
    panel.wait("Cannot read the replicas of edge at nrt.\nAUTH: ")
    assert "Hint: " in panel.words
    session.choose_organization(at=api.url)
    panel.wait("The database of edge is ready at nrt.")


def test_a_database_that_is_deleted_meanwhile_is_not_counted(page, organization, copying):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    panel.wait("Copying edge to nrt, 0 of 2")
    organization.delete_database("hotels")
    panel.wait("Copying edge to nrt, 0 of 1 database")
    copying.states.clear()
    panel.wait("The database of edge is ready at nrt.")


def test_a_location_is_watched_if_the_panel_returns_while_it_is_being_added(page, session, organization, copying):
    adding, go_on = organization.add_location, threading.Event()
    organization.add_location = lambda *given: go_on.wait(PATIENCE) and adding(*given)
    panel = page("groups")
    add(panel, "nrt")
    panel.panel.unmount()
    panel.panel.mount()
    go_on.set()
    panel.wait("The 2 databases of edge are ready at nrt.")
