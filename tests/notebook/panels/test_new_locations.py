"""Several new locations of groups at once: each followed by itself, shown alike by the panels of a session."""

from __future__ import annotations

import threading

import pytest
from panel_page import PanelPage
from scripted_server import as_json
from started_services import crash
from waiting import PATIENCE, until

from pipemagic.notebook.panels.groups import catching_up
from pipemagic.notebook.panels.groups.asking import AT_ONCE, asking_of
from pipemagic.notebook.panels.groups.catching_up import CatchingUp
from pipemagic.notebook.panels.groups.new_locations import new_locations_of
from pipemagic.notebook.panels.holdings import holdings_of
from pipemagic.notebook.panels.opening import open_panel

QUICK_TRIES = 3


class Copying:
    """The states of a database's instances, as a test says; what it does not say is as the service tells it."""

    def __init__(self, platform):
        self.states, self._asking = {}, platform.instances
        platform.instances = self._ask

    def _ask(self, name):
        return [self._told(one) for one in self._asking(name)]

    def _told(self, instance):
        said = self.states.get(instance.name)
        if isinstance(said, Exception):
            raise said
        return instance if said is None else type(instance)(instance.name, "replica", "", said)


@pytest.fixture
def platform(session):
    """The organization with a group ``edge`` in ams that has two databases."""
    platform = session.platform
    platform.create_group("edge", "ams")
    for name in ("flights", "hotels"):
        platform.create_database(name, "edge")
    return platform


@pytest.fixture
def copying(platform):
    """Say how instances are: by code."""
    return Copying(platform)


def add(panel, code, group="edge"):
    panel.click(f"Add a location to {group}")
    panel.choose(f"New location of {group}", code)
    panel.submit("Add location")


def bars(panel):
    """Give how many databases are there and how many there are, by what the bars are called."""
    return {
        one.attributes["aria-label"]: (one.attributes["aria-valuenow"], one.attributes["aria-valuemax"])
        for one in panel.find("div")
        if one.attributes.get("role") == "progressbar"
    }


def test_two_at_once_have_a_bar_a_stop_and_an_end_of_their_own(page, platform, copying):
    copying.states = {"nrt": "copying", "fra": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    add(panel, "fra")
    until(lambda: bars(panel) == {"edge at nrt": (0, 2), "edge at fra": (0, 2)}, panel.words)
    until(lambda: "Copying group edge to nrt ..." in panel.words, panel.words)
    assert "Copying group edge to fra ..." in panel.words
    del copying.states["fra"]
    panel.wait("Its 2 databases are there.")
    assert "%pipedb add-location edge fra" in panel.words
    assert bars(panel) == {"edge at nrt": (0, 2)}
    panel.click("Stop watching edge at nrt")
    panel.wait("The service goes on copying to nrt; 0 of 2 databases were there.")
    assert bars(panel) == {}


def test_locations_of_several_groups_at_once(page, platform, copying):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    add(panel, "nrt", group="default")
    until(lambda: bars(panel) == {"edge at nrt": (0, 2), "default at nrt": (0, 1)}, panel.words)
    copying.states.clear()
    panel.wait("Its 2 databases are there.")
    panel.wait("Its database is there.")


def test_both_panels_show_the_same_and_either_stops_it(page, platform, copying):
    copying.states = {"nrt": "copying", "syd": "copying"}
    groups, locations = page("groups"), page("locations")
    add(groups, "nrt")
    locations.click("syd on the map")
    locations.choose("Add to group", "edge")
    locations.submit("Add syd")
    both = {"edge at nrt": (0, 2), "edge at syd": (0, 2)}
    until(lambda: bars(groups) == bars(locations) == both)
    locations.click("Stop watching edge at nrt")
    groups.wait("The service goes on copying to nrt; 0 of 2 databases were there.")
    groups.click("Stop watching edge at syd")
    locations.wait("The service goes on copying to syd; 0 of 2 databases were there.")


def test_a_panel_that_is_opened_later_shows_what_is_under_way(page, platform, copying):
    copying.states = {"nrt": "copying"}
    add(page("groups"), "nrt")
    later = page("locations")
    until(lambda: bars(later) == {"edge at nrt": (0, 2)})


def test_the_same_location_twice_is_refused_with_words(page, platform, copying):
    copying.states = {"nrt": "copying"}
    groups, locations = page("groups"), page("locations")
    groups.click("Add a location to edge")  # the form is older than the location
    groups.choose("New location of edge", "nrt")
    locations.click("Add nrt to a group")
    locations.choose("Add to group", "edge")
    model = groups.panel.view.view.model
    model.add("edge", "nrt")
    locations.panel.view.view.model.add("edge", "nrt")
    assert "nrt is being added to group edge alreadychoose another group, or watch that one" in locations.alerts
    model.add("edge", "nrt")
    assert "nrt is being added to group edge alreadychoose another location, or watch that one" in groups.alerts
    until(lambda: bars(groups) == {"edge at nrt": (0, 2)})
    assert platform._ask(lambda api: api.group("edge")).locations == ("ams", "nrt")


def test_what_was_stopped_is_watched_again(page, platform, copying):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    panel.wait_for("Stop watching edge at nrt")
    panel.click("Stop watching edge at nrt")
    panel.wait_for("Watch again edge at nrt")
    panel.click("Watch again edge at nrt")
    until(lambda: bars(panel) == {"edge at nrt": (0, 2)})
    copying.states.clear()
    panel.wait("Group edge is in nrt. Its 2 databases are there.")
    assert not panel.can("Watch again edge at nrt")


def test_watching_again_is_not_forgotten_if_the_last_watch_ends_just_then(page, platform, copying, monkeypatch):
    copying.states = {"nrt": "copying"}
    followed, go_on = threading.Event(), threading.Event()
    follow, start = CatchingUp._follow, CatchingUp.start

    def follow_and_wait(self, platform):
        said = follow(self, platform)
        followed.set()
        go_on.wait(PATIENCE)
        return said

    def start_or_wait_for_the_end(self, *given):
        started = start(self, *given)
        if not started:
            last = self._worker
            go_on.set()
            last.join(PATIENCE)
        return started

    monkeypatch.setattr(CatchingUp, "_follow", follow_and_wait)
    monkeypatch.setattr(CatchingUp, "start", start_or_wait_for_the_end)
    panel = page("groups")
    add(panel, "nrt")
    panel.click("Stop watching edge at nrt")
    assert followed.wait(PATIENCE)
    panel.panel.view.view.new_locations.again("edge", "nrt")
    copying.states.clear()
    panel.wait("Group edge is in nrt. Its 2 databases are there.")


def test_what_has_not_caught_up_stays_until_it_is_dismissed(page, platform, copying):
    copying.states = {"nrt": "paused"}
    panel = page("groups")
    add(panel, "nrt")
    add(panel, "fra")
    panel.wait("nrt is paused: its replicas follow when it is resumed.")
    panel.wait("Its 2 databases are there.")
    panel.click("Delete group edge")
    panel.click("Cancel")
    assert "nrt is paused" in panel.words
    assert "Its 2 databases are there." not in panel.words
    panel.click("Dismiss edge at nrt")
    assert "nrt is paused" not in panel.words


def test_a_location_that_is_removed_is_followed_no_more(page, platform, copying):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    until(lambda: bars(panel))
    panel.wait_for("Remove nrt from edge")
    panel.click("Remove nrt from edge")
    panel.submit("Remove nrt")
    panel.wait("Group edge is in ams.")
    assert bars(panel) == {}


def test_a_group_that_is_deleted_is_followed_no_more(page, platform, copying):
    copying.states = {"nrt": "copying", "fra": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    add(panel, "fra")
    until(lambda: len(bars(panel)) == 2)
    panel.click("Delete group edge")
    panel.type("Type edge to delete the group", "edge")
    panel.submit("Delete the group")
    panel.wait("Group edge was deleted with its 2 databases.")
    assert bars(panel) == {}


def test_without_a_panel_nothing_is_followed_and_the_next_one_goes_on(page, platform, session, copying):
    copying.states = {"nrt": "copying"}
    groups, locations = page("groups"), page("locations")
    add(groups, "nrt")
    until(lambda: bars(groups))
    new = new_locations_of(session)
    one = new.find("edge", "nrt")
    groups.panel.close()
    until(lambda: bars(locations) == {"edge at nrt": (0, 2)})
    locations.panel.close()
    until(lambda: not one.busy)
    again = page("locations")
    until(lambda: bars(again) == {"edge at nrt": (0, 2)})
    assert new.find("edge", "nrt") is one


# -- many databases


def test_many_databases_and_locations_are_asked_about_a_few_at_a_time(page, platform):
    for number in range(40):
        platform._ask(lambda api, number=number: api.create_database(f"d{number:02}", "edge"))
    platform.on_change(())
    asking, under_way, most = platform.instances, threading.Semaphore(AT_ONCE), []

    def ask(name):
        alone = under_way.acquire(blocking=False)
        most.append(alone)
        try:
            return asking(name)
        finally:
            if alone:
                under_way.release()

    platform.instances = ask
    panel = page("groups")
    panel.wait("42 databases")
    for code in ("nrt", "fra", "syd"):
        add(panel, code)
    until(lambda: panel.words.count("Its 42 databases are there.") == 3, panel.words)
    assert len(most) >= 3 * 42
    assert all(most), f"more than {AT_ONCE} requests at a time"


def test_a_stop_does_not_wait_for_requests_that_hang(page, platform):
    asking, hung = platform.instances, threading.Event()
    platform.instances = lambda name: hung.wait() and asking(name)
    panel = page("groups")
    add(panel, "nrt")
    panel.wait_for("Stop watching edge at nrt")
    panel.click("Stop watching edge at nrt")
    panel.wait("The service goes on copying to nrt; 0 of 2 databases were there.")
    hung.set()


def test_one_session_asks_with_one(session):
    held = asking_of(session)
    assert asking_of(session) is held


# -- when the service fails in the middle


def test_a_service_that_is_killed_in_the_middle_is_followed_on(page, platform, copying, service_folder):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    until(lambda: bars(panel) == {"edge at nrt": (0, 2)})
    crash(service_folder)
    copying.states.clear()
    panel.wait("Group edge is in ams, nrt. Its 2 databases are there.")
    add(panel, "fra")
    panel.wait("Group edge is in ams, nrt, fra. Its 2 databases are there.")


@pytest.fixture
def edge_elsewhere(hosted):
    """A hosted service with a group ``edge`` and a database in it; and a panel of groups."""
    api, session = hosted()
    session.platform.create_group("edge", "ams")
    session.platform.create_database("flights", "edge")
    return api, session, PanelPage(open_panel(session, "groups"))


COPYING = as_json({"instances": [{"name": "nrt", "type": "replica", "status": "copying"}]})


def test_a_service_that_does_not_answer_for_long_is_watched_again(edge_elsewhere, monkeypatch):
    monkeypatch.setattr(catching_up, "TRIES", QUICK_TRIES)
    monkeypatch.setattr(catching_up, "QUICK", 0.05)
    api, _, panel = edge_elsewhere
    api.refuse(r"GET .*/instances", COPYING)
    add(panel, "nrt")
    until(lambda: bars(panel) == {"edge at nrt": (0, 1)})
    api.relent()
    api.refuse("", as_json({"error": "out of order"}, 500))
    panel.wait_for("Watch again edge at nrt")
    assert any("out of order" in one for one in panel.alerts)
    api.relent()
    panel.click("Watch again edge at nrt")
    panel.wait("Group edge is in nrt. Its database is there.")


def test_a_token_that_is_revoked_in_the_middle_is_told_and_another_goes_on(edge_elsewhere):
    api, session, panel = edge_elsewhere
    api.refuse(r"GET .*/instances", COPYING)
    add(panel, "nrt")
    until(lambda: bars(panel) == {"edge at nrt": (0, 1)})
    api.environment["PIPEMAGIC_API_TOKEN"] = api.renew_token()
    api.relent()  # not before: a question between the two would find the replica there
    until(lambda: any(one.startswith("AUTH") for one in panel.alerts))
    panel.wait_for("Watch again edge at nrt")
    session.organization(at=api.url)
    panel.click("Watch again edge at nrt")
    panel.wait("Group edge is in nrt. Its database is there.")


def test_a_database_that_is_deleted_meanwhile_is_not_waited_for_nor_counted(page, platform, copying):
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    until(lambda: bars(panel) == {"edge at nrt": (0, 2)}, panel.words)
    platform.delete_database("hotels")
    until(lambda: bars(panel) == {"edge at nrt": (0, 1)}, panel.words)
    copying.states.clear()
    panel.wait("Its database is there.")


def test_what_another_thread_shows_no_more_does_not_come_back(session, platform, copying):
    copying.states = {"nrt": "copying", "fra": "copying", "syd": "copying"}
    model = new_locations_of(session)
    holdings_of(session).refresh()
    until(lambda: holdings_of(session).known)
    for code in ("nrt", "fra"):
        assert model.add("edge", code)
    nrt, fra = model.all

    def unobserve(*_):  # another thread is quicker
        model._replace(fra, None)

    nrt.unobserve = unobserve
    model.drop("edge", "nrt")
    assert model.all == []
    fra.stop()


def test_it_is_followed_on_while_one_of_two_panels_is_open(page, platform, copying):
    copying.states = {"nrt": "copying"}
    panel, other = page("groups"), page("locations")
    add(panel, "nrt")
    until(lambda: bars(other) == {"edge at nrt": (0, 2)}, other.words)
    panel.panel.close()
    copying.states.clear()
    other.wait("Its 2 databases are there.")


def test_of_many_databases_that_are_late_three_are_named(page, platform, copying):
    for name in ("boats", "cars", "trains"):
        platform.create_database(name, "edge")
    copying.states = {"nrt": "copying"}
    panel = page("groups")
    add(panel, "nrt")
    panel.wait("and 2 more")
    assert len([one for one in panel.find("li") if one.words.endswith(": copying")]) == 3


def test_what_is_shown_no_more_is_not_followed_when_a_panel_is_opened_again(session, platform, copying):
    copying.states = {"nrt": "copying"}
    model, holdings = new_locations_of(session), holdings_of(session)
    holdings.refresh()
    until(lambda: holdings.known)
    model.follow()
    model.add("edge", "nrt")
    (one,) = model.all
    until(lambda: one.unfinished)
    model.leave()
    assert one.wait(PATIENCE)
    model.drop("edge", "nrt")
    model.follow()
    assert not one.busy
    assert model.all == []
