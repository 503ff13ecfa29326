"""From a group to a transaction and a deletion through the panels: on the embedded service and on hosted ones."""

from __future__ import annotations

import re

import pytest
from hosted_api import Shapes
from panel_page import PanelPage
from waiting import until

from pipemagic import launcher
from pipemagic.notebook.panels import base, databases
from pipemagic.notebook.panels.opening import open_panel

HOSTED = {
    "as documented": Shapes(),
    "as client packages read it": Shapes(organizations="bare", sums="usage", deleted="object", storage="storage"),
    "lacking": Shapes(lacks=frozenset({"usage", "plans", "subscription", "instances", "wait"}), pending=2),
}

SOON = 30.0  # seconds

PANELS = ("locations", "groups", "databases", "databases", "session")


class Visit:
    """Several panels of a session, which must agree with each other."""

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
        until(
            lambda: self.databases.has_field("Group") and name in self.databases.options("Group"),
            f"{name} is not offered",
        )
        self.locations.wait(name)

    def add_location(self, group, code):
        self.groups.click(f"Add a location to {group}")
        self.groups.choose("New location", code)
        self.groups.submit("Add location")

    def places_of(self, group):
        """Return the codes of a group's locations in the Groups panel."""
        words = next(row for row in self.groups.rows("Groups") if row[0] == group)
        return set(re.findall(r"\(([a-z0-9-]+)\)", " ".join(words)))

    def create_database(self, name, group):
        self.databases.type("Database name", name)
        assert self.databases.error_of("Database name") == ""
        self.databases.choose("Group", group)
        self.databases.submit("Create database")
        until(lambda: self.databases.panel.created_connect in self.databases.widgets)
        self.other.wait_for(f"Details of {name}")

    def connect(self, name):
        self.databases.press(self.databases.panel.created_connect)
        until(lambda: self.session.current == name, "the database is not connected")
        self.other.wait_for(f"Close the connection {name}")

    def delete_database(self, name):
        self.databases.click(f"Details of {name}")
        self.databases.click("Delete database ...")
        self.databases.type(f"Type {name} to delete", name)
        self.databases.submit("Delete database")
        until(lambda: not self.databases.can(f"Details of {name}"), "the database is still there")
        until(lambda: not self.other.can(f"Details of {name}"), "the other panel still shows it")
        until(lambda: name not in self.session.connections, "the connection is still there")


def go(session, first, second):
    """Run the whole flow with a group at two locations."""
    visit = Visit(session)
    visit.create_group("edge", first)
    visit.add_location("edge", second)
    until(lambda: visit.places_of("edge") == {first, second}, "the location was not added")
    finish(visit)


def finish(visit):
    """Create a database in the group, run a transaction, delete the database."""
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
def test_on_a_hosted_service(hosted, shapes, monkeypatch):
    monkeypatch.setattr(databases, "PAUSES", (0.05,) * 5)
    _, session = hosted(shapes)
    go(session, *list(shapes.places)[:2])


def test_on_the_smallest_management_api(hosted):
    """It lists nothing and creates no database tokens: the panels show what was created here."""
    api, session = hosted(Shapes(seed_only=True))
    session.choose_organization("acme", at=api.url)  # it does not report its organization
    visit = Visit(session)
    visit.create_group("edge", "ams")
    visit.add_location("edge", "nrt")
    until(lambda: api.groups["edge"]["locations"] == ["ams", "nrt"])
    visit.create_database("flights", "edge")
    visit.databases.press(visit.databases.panel.created_connect)
    visit.databases.wait("the service creates no tokens for flights")


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
    until(
        lambda: any(alert.startswith("AUTH") for alert in visit.databases.alerts),
        "the refusal is not on the page",
        SOON,
    )
    session.choose_organization(at=api.url)
    finish(visit)


def test_a_service_that_does_not_respond_for_a_while(hosted, monkeypatch):
    """Until it responds, the panels show the running work and no click waits; then all work is done."""
    api, session = hosted()
    session.organization.create_group("edge", "ams")
    monkeypatch.setattr(base, "PATIENCE", 0.01)
    with api.silence():
        visit = Visit(session)
        assert visit.locations.is_busy
        assert "Loading ..." in visit.groups.words
        assert visit.groups.text == "Groups\nNo response had arrived when this was saved. Run the cell again."
    until(lambda: visit.databases.has_field("Database name") and visit.groups.has_field("Group name"))
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
