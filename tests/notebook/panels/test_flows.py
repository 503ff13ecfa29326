"""A visitor's whole way through the panels without a browser: on the embedded service and on hosted ones."""

from __future__ import annotations

import re

import pytest
from hosted_api import STARTER, Shapes
from panel_page import PanelPage
from scripted_server import Answer, as_json
from waiting import until

from pipemagic import launcher
from pipemagic.notebook.panels.ground import widget
from pipemagic.notebook.panels.holdings import holdings_of
from pipemagic.notebook.panels.opening import open_panel

HOSTED = {
    "as documented": Shapes(),
    "as the client package reads it": Shapes(organizations="bare", sums="usage", deleted="object", taken=400),
    "as the command-line tool reads it": Shapes(locations="two levels", sums="usage", taken=422),
    "regions": Shapes(locations="regions", storage="storage"),
    "lacking": Shapes(lacks=frozenset({"usage", "plans", "subscription", "instances", "wait"})),
    "slow": Shapes(pending=2),
}

REFUSED = {
    "400": as_json({"error": "this group may have one location only"}, 400),
    "402": as_json({"error": "more locations need a paid plan"}, 402),
    "starter plan": as_json(STARTER, 402),
}
"""How a hosted service may refuse a second location."""

SOON = 30.0  # seconds

PANELS = ("locations", "groups", "databases", "databases", "session")


class Visit:
    """All panels of a session, side by side: each has to agree with the others."""

    def __init__(self, session):
        self.session = session
        self.locations, self.groups, self.databases, self.other, self.panel = (
            PanelPage(open_panel(session, name)) for name in PANELS
        )

    def create_group(self, name, code):
        self.groups.type("Group name", name)
        self.groups.choose("Primary location", code)
        self.groups.submit("Create group")
        self.groups.wait(f"Group {name} is in {code}.")
        until(lambda: self.databases.has("Group") and name in self.databases.options("Group"), f"{name} is not offered")
        self.locations.wait(name)

    def add_location(self, group, code):
        self.groups.click(f"Add a location to {group}")
        self.groups.choose(f"New location of {group}", code)
        self.groups.submit("Add location")

    def places_of(self, group):
        """Give the codes of a group's locations, as the groups' panel shows them."""
        words = next(row.words for row in self.groups.find("tr") if row.attributes.get("key") == group)
        return set(re.findall(r"\(([a-z0-9-]+)\)", words))

    def create_database(self, name, group):
        self.databases.type("Database name", name)
        assert self.databases.error_of("Database name") == ""
        self.databases.choose("Group", group)
        self.databases.submit("Create database")
        self.databases.wait_for(f"Connect to the new database {name}")
        self.other.wait_for(f"Details of {name}")

    def connect(self, name):
        self.databases.click(f"Connect to the new database {name}")
        until(lambda: self.session.current == name, "the database is not connected")
        self.other.wait_for(f"Close the connection {name}")

    def delete_database(self, name):
        self.databases.click(f"Details of {name}")
        self.databases.click(f"Delete {name} ...")
        self.databases.type(f"Type {name} to delete", name)
        self.databases.submit("Delete")
        until(lambda: not self.databases.can(f"Details of {name}"), "the database is still there")
        until(lambda: not self.other.can(f"Details of {name}"), "the other panel still shows it")
        until(lambda: name not in self.session.connections, "the connection is still there")


def go(session, first, second):
    """Go the whole way: two locations by code."""
    visit = Visit(session)
    visit.create_group("edge", first)
    visit.add_location("edge", second)
    until(lambda: visit.places_of("edge") == {first, second}, "the location was not added")
    finish(visit)


def finish(visit):
    """From a group to a database, a transaction, and away again."""
    visit.create_database("flights", "edge")
    visit.connect("flights")
    session = visit.session
    session.run("CREATE TABLE airport (code TEXT)")
    session.run("BEGIN; INSERT INTO airport VALUES ('JFK')")
    visit.panel.wait_for("Commit flights")
    visit.panel.click("Commit flights")
    visit.panel.wait("Committed")
    assert session.run("SELECT code FROM airport")["code"].tolist() == ["JFK"]
    visit.delete_database("flights")


def test_on_the_embedded_service(session):
    go(session, "ams", "nrt")


@pytest.mark.parametrize("shapes", HOSTED.values(), ids=HOSTED)
def test_on_a_hosted_service(hosted, shapes):
    _, session = hosted(shapes)
    go(session, *list(shapes.places)[:2])


@pytest.mark.parametrize("refusal", REFUSED.values(), ids=REFUSED)
def test_a_service_with_one_location_for_each_group(hosted, refusal):
    _, session = hosted(Shapes(more_locations=refusal))
    visit = Visit(session)
    visit.create_group("edge", "ams")
    visit.add_location("edge", "nrt")
    words = refusal.body.decode().partition('"error": "')[2].partition('"')[0]
    until(lambda: any(words in one for one in visit.groups.alerts), f"{words!r} is not on the page", SOON)
    finish(visit)


def test_on_the_smallest_management_api(hosted):
    """It lists nothing and makes no database tokens: what was made here is shown, and the rest is said."""
    api, session = hosted(Shapes(seed_only=True))
    session.organization("acme", at=api.url)  # nothing there tells which organization it is
    visit = Visit(session)
    visit.create_group("edge", "ams")
    visit.add_location("edge", "nrt")
    until(lambda: api.groups["edge"]["locations"] == ["ams", "nrt"])
    visit.create_database("flights", "edge")
    visit.databases.click("Connect to the new database flights")
    visit.databases.wait("the service makes no tokens for flights")


def test_the_service_is_killed_in_the_middle(session, service_folder):
    visit = Visit(session)
    visit.create_group("edge", "ams")
    for child in launcher._started:
        if str(service_folder) in child.args:
            child.kill()
            child.wait()
    visit.create_database("flights", "edge")
    visit.connect("flights")
    assert session.run("SELECT 1 AS a")["a"].tolist() == [1]


def test_the_token_is_revoked_in_the_middle(hosted):
    api, session = hosted()
    visit = Visit(session)
    visit.create_group("edge", "ams")
    api.environment["PIPEMAGIC_API_TOKEN"] = api.renew_token()
    visit.databases.type("Database name", "flights")
    visit.databases.submit("Create database")
    until(lambda: any(one.startswith("AUTH") for one in visit.databases.alerts), "the refusal is not on the page", SOON)
    session.organization(at=api.url)
    finish(visit)


HICCUPS = {
    "500": as_json({"error": "oh no"}, 500),
    "503": Answer(503, headers={"Retry-After": "1"}),
    "a page of a proxy": Answer(502, b"<html>Bad gateway</html>", "text/html"),
    "no answer": Answer(vanish=True),
}


@pytest.mark.parametrize("hiccup", HICCUPS.values(), ids=HICCUPS)
def test_each_list_fails_once_after_every_change(hosted, hiccup):
    """What cannot be listed after a change is asked for by hand, and nothing is lost."""
    api, session = hosted()
    session.platform.create_group("edge", "ams")
    visit, has = Visit(session), holdings_of(session)
    for name, list_ in [
        ("flights", "GET .*/databases$"),
        ("trips", "GET .*/groups$"),
        ("trains", "GET /v1/locations$"),
    ]:
        until(lambda: not (has.busy or has._stale))  # else asking once more comes by itself
        api.refuse(list_, hiccup, times=1)
        visit.databases.type("Database name", name)
        visit.databases.submit("Create database")
        visit.databases.wait(f"Database {name} is in group edge.")
        visit.other.wait_for("Ask the organization again")
        assert "What is below may be out of date: the organization could not be asked." in visit.groups.words
        visit.other.click("Ask the organization again")
        visit.databases.wait_for(f"Details of {name}")
        until(lambda: not (visit.databases.alerts or visit.groups.alerts or visit.locations.alerts))
    visit.connect("trains")
    visit.delete_database("trains")


REVOKED = {
    "a group": ("groups", lambda page: (page.type("Group name", "asia"), page.choose("Primary location", "nrt"),
                                        page.submit("Create group"))),
    "a location": ("groups", lambda page: (page.click("Add a location to edge"),
                                           page.choose("New location of edge", "ord"), page.submit("Add location"))),
    "a removal": ("groups", lambda page: (page.click("Remove nrt from edge"), page.submit("Remove nrt"))),
    "a deletion": ("groups", lambda page: (page.click("Delete group edge"),
                                           page.type("Type edge to delete the group", "edge"),
                                           page.submit("Delete the group"))),
    "a database": ("databases", lambda page: (page.type("Database name", "trips"), page.submit("Create database"))),
    "a connection": ("databases", lambda page: page.click("Connect to flights")),
    "a look inside": ("databases", lambda page: page.click("Details of flights")),
    "overages": ("organization", lambda page: page.click("Overages")),
    "a look": ("locations", lambda page: page.click("Refresh locations and groups")),
    "latency": ("locations", lambda page: page.click("Measure latency")),
}  # fmt: skip


@pytest.mark.parametrize(("panel", "do"), REVOKED.values(), ids=REVOKED)
def test_a_token_that_is_revoked_before_each_deed(hosted, panel, do):
    api, session = hosted()
    session.platform.create_group("edge", "ams")
    session.platform.add_location("edge", "nrt")
    session.platform.create_database("flights", "edge")
    page = PanelPage(open_panel(session, panel))
    until(lambda: not page.is_busy)
    old, new = api.token, api.renew_token()
    do(page)
    until(lambda: any(one.startswith("AUTH: the token was not accepted") for one in page.alerts))
    renewal = f"then %pipedb organization acme --at {api.url} --token-env PIPEMAGIC_API_TOKEN"
    assert any(renewal in one for one in page.alerts), page.alerts
    until(lambda: not page.is_busy)
    api.environment["PIPEMAGIC_API_TOKEN"] = new
    session.organization("acme", at=api.url, token_env="PIPEMAGIC_API_TOKEN")
    for name in ("Refresh groups and replicas", "Refresh", "Refresh the organization"):
        if page.can(name):
            page.click(name)
    session.platform.create_group("last", "ord")
    until(lambda: any(one.name == "last" for one in holdings_of(session).groups))
    everything = "".join([*page.alerts, page.words, page.text, page.html, repr(page.panel.tree)])
    assert not [secret for secret in (old, new) if secret in everything]


def test_a_service_that_keeps_everybody_waiting(hosted, monkeypatch):
    """While it does not answer the panels say what they do, nothing that is pressed waits, and then all is done."""
    api, session = hosted()
    session.platform.create_group("edge", "ams")
    monkeypatch.setattr(widget, "PATIENCE", 0.01)
    with api.silence():
        visit = Visit(session)
        assert visit.locations.is_busy
        assert "Asking ..." in visit.groups.words
        assert visit.groups.text == "Groups\nNo answer had come when this was saved: run the cell again."
    until(lambda: visit.databases.has("Database name") and visit.groups.has("Group name"))
    assert "edge" in visit.groups.text
    with api.silence():
        visit.databases.type("Database name", "flights")
        visit.databases.submit("Create database")
        assert "Creating flights ..." in visit.databases.words
        assert not visit.databases.can("Create database")
        visit.groups.type("Group name", "asia")
        visit.groups.choose("Primary location", "nrt")
        visit.groups.submit("Create group")
        assert "Creating group asia ..." in visit.groups.words
    visit.databases.wait("Database flights is in group edge.")
    visit.groups.wait("Group asia is in nrt.")
    visit.connect("flights")
    visit.delete_database("flights")


def test_the_smallest_management_api_cannot_tell_which_organization_it_is(hosted):
    _, session = hosted(Shapes(seed_only=True))
    page = PanelPage(open_panel(session, "groups"))
    page.wait("which organization? This management API does not list them")
    assert "%pipedb organization SLUG --at ADDRESS" in page.words
