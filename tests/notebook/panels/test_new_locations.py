"""Several new locations at a time: each is watched separately and shown by all panels of a session."""

from __future__ import annotations

import threading

import pytest
from ipywidgets import IntProgress
from panel_page import PanelPage
from scripted_server import as_json
from started_services import crash
from waiting import PATIENCE, until

from pipemagic.notebook.panels import replicas
from pipemagic.notebook.panels.groups import Progress
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


def bars(panel):
    """Return the numbers of ready databases and of all databases, by group and location."""
    lines = [line for widget in panel.widgets if isinstance(widget, Progress) for line in widget.children]
    found = {f"{line.location.group} at {line.location.code}": (line.bar.value, line.bar.max) for line in lines}
    assert len(found) == len(lines)
    shown = [widget for widget in panel.widgets if isinstance(widget, IntProgress)]
    return {name: counts for (name, counts), line in zip(found.items(), lines, strict=True) if line.bar in shown}


def test_two_at_a_time_have_their_own_bar_stop_button_and_end(page, organization, copying):
    copying.states = {"nrt": "copying", "fra": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    add(panel, "fra")
    until(lambda: bars(panel) == {"edge at nrt": (0, 2), "edge at fra": (0, 2)}, panel.words)
    until(lambda: "Copying group edge to nrt ..." in panel.words, panel.words)
    assert "Copying group edge to fra ..." in panel.words
    del copying.states["fra"]
    panel.wait("Its 2 databases are ready.")
    assert "%pipedb add-location edge fra" in panel.words
    assert bars(panel) == {"edge at nrt": (0, 2)}
    panel.click("Stop watching edge at nrt")
    panel.wait("The service continues copying to nrt; 0 of 2 databases were ready.")
    assert bars(panel) == {}


def test_locations_of_several_groups_at_a_time(page, organization, copying):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    add(panel, "nrt", group="default")
    until(lambda: bars(panel) == {"edge at nrt": (0, 2), "default at nrt": (0, 1)}, panel.words)
    copying.states.clear()
    panel.wait("Its 2 databases are ready.")
    panel.wait("Its database is ready.")


def test_both_panels_show_the_same_and_either_stops_it(page, organization, copying):
    copying.states = {"nrt": "copying", "syd": "copying"}
    groups, locations = page("groups"), page("locations")
    add(groups, "nrt")
    locations.click("Add syd to a group")
    locations.choose("Add to group", "edge")
    locations.submit("Add syd")
    both = {"edge at nrt": (0, 2), "edge at syd": (0, 2)}
    until(lambda: bars(groups) == bars(locations) == both)
    locations.click("Stop watching edge at nrt")
    groups.wait("The service continues copying to nrt; 0 of 2 databases were ready.")
    groups.click("Stop watching edge at syd")
    locations.wait("The service continues copying to syd; 0 of 2 databases were ready.")


def test_a_location_that_is_being_added_is_refused(page, organization, copying):
    copying.states = {"nrt": "copying"}
    groups, locations, late = page("groups"), page("locations"), page("groups")
    for panel in (groups, late):
        panel.click("Add a location to edge")
        panel.choose("New location", "nrt")
    locations.click("Add nrt to a group")
    locations.choose("Add to group", "edge")
    for panel in (late, locations):  # pages may be older than the running work
        panel.panel.state.unsubscribe(panel.panel.changed)
    groups.submit("Add location")
    until(lambda: bars(groups) == {"edge at nrt": (0, 2)})
    for panel, button, other in ((late, "Add location", "another location"), (locations, "Add nrt", "another group")):
        panel.submit(button)
        assert f"nrt is being added to group edge already choose {other}, or watch that one" in panel.alerts
    assert organization.api.group("edge").locations == ("ams", "nrt")


def test_watching_is_resumed_while_the_last_watch_ends(page, organization, copying):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    panel.wait_for("Stop watching edge at nrt")
    (one,) = panel.panel.state.new_locations
    one.stop()
    one.watch()  # immediately: the other one has not ended
    copying.states.clear()
    panel.wait("Group edge is in nrt. Its 2 databases are ready.")


def test_a_location_that_has_not_caught_up_stays_until_it_is_dismissed(page, organization, copying):
    copying.states = {"nrt": "paused"}
    panel = page("groups")
    add(panel, "nrt")
    add(panel, "fra")
    panel.wait("nrt is paused: replication continues when it is resumed.")
    panel.wait("Its 2 databases are ready.")
    panel.click("Delete group edge")
    panel.click("Cancel")
    assert "nrt is paused" in panel.words
    assert "Its 2 databases are ready." not in panel.words
    panel.click("Dismiss edge at nrt")
    assert "nrt is paused" not in panel.words


def test_a_location_that_is_removed_is_not_watched(page, organization, copying):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    until(lambda: bars(panel))
    panel.wait_for("Remove nrt from edge")
    panel.click("Remove nrt from edge")
    panel.submit("Remove nrt")
    panel.wait("Group edge is no longer in nrt; it is in ams.")
    assert bars(panel) == {}


def test_a_group_that_is_deleted_is_not_watched(page, organization, copying):
    copying.states = {"nrt": "copying", "fra": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    add(panel, "fra")
    until(lambda: len(bars(panel)) == 2)
    panel.click("Delete group edge")
    panel.type("Type edge to delete the group", "edge")
    panel.submit("Delete group")
    panel.wait("Deleted group edge and its databases:")
    assert bars(panel) == {}


def test_nothing_is_watched_without_a_panel_and_the_next_one_resumes(page, organization, session, copying):
    copying.states = {"nrt": "copying"}
    groups, locations = page("groups"), page("locations")
    add(groups, "nrt")
    until(lambda: bars(groups))
    (one,) = state_of(session).new_locations
    groups.panel.close()
    until(lambda: bars(locations) == {"edge at nrt": (0, 2)})
    locations.panel.close()
    until(lambda: not one.task.busy)
    again = page("locations")
    until(lambda: bars(again) == {"edge at nrt": (0, 2)})
    assert state_of(session).new_locations == [one]


def test_tabs_do_not_interrupt_watching(page, organization, session, copying, monkeypatch):
    copying.states = {"nrt": "copying"}
    tabs = page()
    tabs.click("Groups")
    add(tabs, "nrt")
    until(lambda: bars(tabs) == {"edge at nrt": (0, 2)})
    (one,) = state_of(session).new_locations
    monkeypatch.setattr(one, "stop", lambda: pytest.fail("watching was stopped"))
    tabs.click("Locations")
    assert bars(tabs) == {"edge at nrt": (0, 2)}
    copying.states.clear()
    tabs.wait("Its 2 databases are ready.")


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
    until(lambda: panel.words.count("Its 14 databases are ready.") == 3, panel.words)
    assert len(most) >= 3 * 14
    assert all(most), f"more than {REQUESTS} requests at a time"


def test_a_stop_does_not_wait_for_requests_that_hang(page, organization):
    asking, hung = organization.instances, threading.Event()
    organization.instances = lambda name: hung.wait() and asking(name)
    panel = page("groups")
    add(panel, "nrt")
    panel.wait_for("Stop watching edge at nrt")
    panel.click("Stop watching edge at nrt")
    panel.wait("The service continues copying to nrt; 0 of 2 databases were ready.")
    hung.set()


# -- when the service fails in the middle


def test_watching_continues_after_the_service_was_killed(page, organization, copying, service_folder):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    until(lambda: bars(panel) == {"edge at nrt": (0, 2)})
    crash(service_folder)
    copying.states.clear()
    panel.wait("Group edge is in ams, nrt. Its 2 databases are ready.")
    add(panel, "fra")
    panel.wait("Group edge is in ams, nrt, fra. Its 2 databases are ready.")


@pytest.fixture
def edge_elsewhere(hosted):
    """A hosted service with a group ``edge`` and a database in it; and a panel of groups."""
    api, session = hosted()
    session.organization.create_group("edge", "ams")
    session.organization.create_database("flights", "edge")
    return api, session, PanelPage(open_panel(session, "groups"))


COPYING = as_json({"instances": [{"name": "nrt", "type": "replica", "status": "copying"}]})


def test_watching_is_resumed_when_the_service_responds_again(edge_elsewhere, monkeypatch):
    monkeypatch.setattr(replicas, "ATTEMPTS", 3)
    api, _, panel = edge_elsewhere
    api.refuse(r"GET .*/instances", COPYING)
    add(panel, "nrt")
    until(lambda: bars(panel) == {"edge at nrt": (0, 1)})
    api.clear_refusals()
    api.refuse("", as_json({"error": "out of order"}, 500))
    panel.wait_for("Watch again edge at nrt")
    assert any("out of order" in alert for alert in panel.alerts)
    api.clear_refusals()
    panel.click("Watch again edge at nrt")
    panel.wait("Group edge is in nrt. Its database is ready.")


def test_a_revoked_token_ends_watching_and_another_one_resumes_it(edge_elsewhere):
    api, session, panel = edge_elsewhere
    api.refuse(r"GET .*/instances", COPYING)
    add(panel, "nrt")
    until(lambda: bars(panel) == {"edge at nrt": (0, 1)})
    api.environment["PIPEMAGIC_API_TOKEN"] = api.renew_token()
    api.clear_refusals()  # not before: a request between the two would find the replica there
    until(lambda: any(alert.startswith("AUTH") for alert in panel.alerts))
    panel.wait_for("Watch again edge at nrt")
    session.choose_organization(at=api.url)
    panel.click("Watch again edge at nrt")
    panel.wait("Group edge is in nrt. Its database is ready.")


def test_a_database_that_is_deleted_meanwhile_is_not_counted(page, organization, copying):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    until(lambda: bars(panel) == {"edge at nrt": (0, 2)}, panel.words)
    organization.delete_database("hotels")
    until(lambda: bars(panel) == {"edge at nrt": (0, 1)}, panel.words)
    copying.states.clear()
    panel.wait("Its database is ready.")


def test_of_many_databases_that_are_late_three_are_named(page, organization, copying):
    for name in ("boats", "cars", "trains"):
        organization.create_database(name, "edge")
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    panel.wait("and 2 more")
    assert sum(line.endswith(": copying") for line in panel.words.splitlines()) == 3


def test_a_location_is_still_watched_if_the_panel_returns_while_it_is_being_added(session, organization, copying):
    copying.states = {"nrt": "copying"}
    state, listener, adding, go_on = state_of(session), lambda: None, organization.add_location, threading.Event()
    organization.add_location = lambda *given: go_on.wait(PATIENCE) and adding(*given)
    state.refresh()
    until(lambda: state.known)
    state.subscribe(listener)
    state.add_location("edge", "nrt")
    state.unsubscribe(listener)
    state.subscribe(listener)
    go_on.set()
    (one,) = state.new_locations
    until(lambda: one.behind)
    copying.states.clear()
    assert one.task.wait(PATIENCE)
    assert one.task.message == "Group edge is in ams, nrt. Its 2 databases are ready."
