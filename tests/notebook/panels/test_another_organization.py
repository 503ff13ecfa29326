"""Panels show and change only the selected organization."""

from __future__ import annotations

import threading
import uuid

import pytest
from panel_page import PanelPage
from scripted_server import as_json
from started_services import crash, shared_service
from waiting import until

from pipemagic.errors import AuthError, ConnectError
from pipemagic.notebook.panels import base, databases, locations
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.notebook.panels.organization_state import state_of
from pipemagic.session.organization import Organization
from pipemagic.session.profiles import Profile, Profiles

__all__ = ["shared_service"]


@pytest.fixture
def club(session):
    """Another organization with a database of the same name as one of the first."""
    first = session.organization
    first.create_group("edge", "ams")
    first.create_database("flights", "edge")
    slug = f"club-{uuid.uuid4().hex[:8]}"
    first.api.create_organization(slug)
    other = first.sibling(slug)
    other.create_group("edge", "ams")
    other.create_database("flights", "edge")
    other.close()
    return slug


def wait_until_shown(session, organization):
    """Wait until the panels show an organization."""
    state = state_of(session)
    until(lambda: state.known and state.identity[0] == organization and state.task.wait(0))


@pytest.fixture
def moved(session, club, monkeypatch):
    """Return a function that uses the other organization without the open panels; it returns both organizations."""

    def move():
        first = session.organization
        monkeypatch.setattr(state_of(session), "refresh", lambda: None)
        return first, session.choose_organization(club)

    return move


def test_details_of_a_database_are_not_those_of_its_namesake(session, page, club):
    panel = page("databases")
    panel.click("Details of flights")
    panel.click("New token ...")
    panel.submit("Create token")
    until(lambda: panel.secrets)
    panel.click("Delete database ...")
    session.choose_organization(club)
    wait_until_shown(session, club)
    panel.wait_for("Connect to flights")
    assert not panel.secrets
    assert not panel.has_field("Type flights to delete")


def test_an_organization_that_cannot_be_listed_shows_nothing_of_the_previous_one(hosted):
    api, session = hosted()
    api.teams.append("other")
    session.organization.create_group("edge", "ams")
    session.organization.create_database("flights", "edge")
    panel = PanelPage(open_panel(session, "databases"))
    panel.wait("flights")
    api.refuse("GET .*/other/databases", as_json({"error": "out of scope"}, 403))
    session.choose_organization("other")
    panel.wait("out of scope")
    assert "flights" not in panel.words
    api.clear_refusals()
    panel.click("Try again")
    panel.wait("No group exists yet.")


def test_usage_of_another_organization_is_not_shown(hosted):
    api, session = hosted()
    api.teams.append("other")
    panel = PanelPage(open_panel(session, "groups"))
    panel.click("Usage")
    panel.wait("Used in this calendar month (UTC)")
    api.refuse("GET .*/other$", as_json({"error": "oh no"}, 500))
    session.choose_organization("other")
    panel.wait("oh no")
    panel.wait("other – ")
    assert "Plan:" not in panel.words
    assert "Switch overages on" not in panel.buttons
    panel.choose("Organization", "acme")  # to leave it again
    panel.wait("Plan: starter.")


def test_a_panel_that_is_shown_again_waits_for_a_new_database_again(hosted, monkeypatch):
    monkeypatch.setattr(databases, "PAUSES", (0.02,) * 500)
    api, session = hosted()
    session.organization.create_group("edge", "ams")
    panel = PanelPage(open_panel(session, "databases"))
    for message in ({"hidden": "page"}, {"shown": "page"}):
        panel.panel.events.receive(message)
    panel.type("Database name", "flights")
    panel.submit("Create database")
    panel.wait_for("Connect")
    api.refuse("POST .*/flights/auth/tokens", as_json({"error": "database not found"}, 404))
    panel.click("Connect")
    until(lambda: sum(call.path.split("?")[0].endswith("/flights/auth/tokens") for call in api.calls) > 2)
    api.clear_refusals()
    panel.wait("Connected to flights")


def test_an_action_is_for_the_organization_on_the_page(session, page, moved):
    panel = page("databases")
    panel.click("Details of flights")
    panel.click("Delete database ...")
    panel.type("Type flights to delete", "flights")
    first, second = moved()
    panel.submit("Delete database")
    panel.wait("Deleted database flights.")
    assert "flights" not in [database.name for database in first.databases().items]
    assert [database.name for database in second.databases().items] == ["flights"]


def test_a_database_is_connected_to_in_the_organization_on_the_page(session, page, club, moved):
    session.connect("flights")
    session.run("CREATE TABLE only_in_local (a)")
    session.close("flights")
    panel = page("databases")
    moved()
    panel.click("Connect to flights")
    panel.wait("Connected to flights")
    assert session.connection().profile.organization == "local"
    assert session.run("SELECT name FROM sqlite_schema")["name"].tolist() == ["only_in_local"]
    assert session.organization.slug == club


def test_a_profile_of_another_organization_is_not_what_the_page_connects_to(session, page, club, tmp_path):
    panel = page("databases")
    session.profiles = Profiles(tmp_path / "profiles.toml")
    session.profiles.save(Profile("flights", database="flights", organization=club))
    panel.click("Connect to flights")
    panel.wait("the profile flights belongs to another database")
    assert "flights" not in session.connections
    assert session.organization.slug == "local"


def test_the_progress_of_a_new_location_is_shown_in_its_organization_only(session, page, club):
    first = session.organization
    asking, going = first.instances, threading.Event()
    first.instances = lambda name: going.wait(30) and asking(name)
    panel = page("groups")
    panel.click("Add a location to edge")
    panel.choose("New location", "nrt")
    panel.submit("Add location")
    panel.wait("Copying edge to nrt")
    session.choose_organization(club)
    panel.wait_for("Add a location to edge")
    until(lambda: "Copying edge to nrt" not in panel.words)
    session.choose_organization("local")
    panel.wait("Copying edge to nrt")
    going.set()
    panel.wait("The database of edge is ready at nrt.")


def test_tokens_are_invalidated_in_the_organization_on_the_page(session, page, moved):
    session.connect("flights")
    panel = page("databases")
    panel.click("Details of flights")
    panel.click("Invalidate all tokens ...")
    panel.type("Type flights to invalidate all its tokens", "flights")
    moved()
    session.connect("flights", name="theirs")
    panel.submit("Invalidate all tokens")
    panel.wait("All tokens of flights are invalid.")
    panel.wait("flights continues with a new token.")
    assert "theirs goes on" not in panel.words
    assert session.run("SELECT 1 AS one", on="flights")["one"].tolist() == [1]
    assert session.run("SELECT 1 AS one", on="theirs")["one"].tolist() == [1]


def test_a_size_that_arrives_after_another_organization_was_selected_is_not_shown(session, page, club, monkeypatch):
    going, asked, asking = threading.Event(), threading.Event(), Organization.usage

    def usage(organization):
        if organization.slug == club:
            raise AuthError("only owners see this", status=403)
        asked.set()
        going.wait(30)
        return asking(organization)

    monkeypatch.setattr(Organization, "usage", usage)
    monkeypatch.setattr(base, "PATIENCE", 0.0)  # the first size arrives only below
    panel = page("databases")
    assert asked.wait(30)
    session.choose_organization(club)
    wait_until_shown(session, club)
    going.set()
    panel.wait("only owners see this")
    assert panel.panel.sizes == {}


def test_a_database_that_is_created_late_is_not_offered_in_another_organization(session, page, club):
    first = session.organization
    going, creating = threading.Event(), first.create_database

    def create(*given, **options):
        going.wait(30)
        return creating(*given, **options)

    first.create_database = create
    panel = page("databases")
    panel.type("Database name", "trips")
    panel.choose("Group", "edge")
    panel.submit("Create database")
    session.choose_organization(club)
    wait_until_shown(session, club)
    going.set()
    panel.wait("Database trips is in group edge.")
    assert "Connect" not in panel.buttons


def test_forms_about_a_group_close_when_another_organization_is_chosen(session, page, club):
    groups, places = page("groups"), page("locations")
    groups.click("Delete group edge")
    groups.type("Type edge to delete the group", "edge")
    places.click("Add nrt to a group")
    places.choose("Show group", "edge")
    assert ">not in this group<" in places.panel.map.value
    session.choose_organization(club)
    wait_until_shown(session, club)
    for panel in (groups, places):
        panel.wait("edge")
    assert not groups.has_field("Type edge to delete the group")
    assert not places.has_field("Add to group")
    assert "not in this group" not in places.panel.map.value
    groups.click("Delete group edge")
    assert groups.field("Type edge to delete the group").value == ""


def test_two_services_on_one_machine_are_distinguished(hosted):
    first, session = hosted()
    second, _ = hosted()
    second.token = first.token
    for api in (first, second):
        session.choose_organization("acme", at=api.url)
        session.organization.create_group("edge", "ams")
        session.organization.create_database("flights", "edge")
    session.choose_organization("acme", at=first.url)
    session.connect("flights")
    panel = PanelPage(open_panel(session, "databases"))
    panel.wait_for("Close the connection flights")
    session.choose_organization("acme", at=second.url)
    panel.wait_for("Connect to flights")
    panel.click("Details of flights")
    panel.click("Delete database ...")
    panel.type("Type flights to delete", "flights")
    panel.submit("Delete database")
    panel.wait("Deleted database flights.")
    assert "flights" in first.databases
    assert session.run("SELECT 1 AS one", on="flights")["one"].tolist() == [1]


def test_a_connection_survives_a_restart_of_the_service_also_after_another_organization(session, club, service_folder):
    for slug in (club, "local", club):  # there and back: it is the one that was left
        session.choose_organization(slug)
    session.connect("flights")
    session.run("CREATE TABLE t (a)")
    session.choose_organization("local")
    crash(service_folder)
    assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [0]


def test_an_organization_that_was_left_is_closed_with_the_session_or_when_it_has_another_token(hosted):
    api, session = hosted()
    api.teams.append("team")
    session.choose_organization("acme", at=api.url)
    first = session.organization
    session.choose_organization("team")
    team = session.organization
    assert session.choose_organization("acme") is first
    session.choose_organization("acme", at=api.url)
    for left in (first, team):
        if left is team:
            left.locations()
            session.shut_down()
        with pytest.raises(ConnectError, match="it was closed here"):
            left.locations()


def test_tables_are_those_of_the_organization_on_the_page(session, page, club, monkeypatch):
    session.connect("flights")
    session.run("CREATE TABLE only_in_local (a)")
    session.close("flights")
    panel = page("databases")
    panel.click("Details of flights")
    panel.wait("only_in_local")
    session.choose_organization(club)
    wait_until_shown(session, club)
    panel.wait_for("Details of flights")
    assert "only_in_local" not in panel.words
    panel.click("Details of flights")
    panel.wait("No tables")
    monkeypatch.setattr(state_of(session), "refresh", lambda: None)  # the page is late
    session.choose_organization("local")
    panel.click("Close details")
    panel.click("Details of flights")
    panel.wait("No tables")
    assert "only_in_local" not in panel.words


def test_sizes_are_those_of_the_organization_on_the_page(session, page, moved, monkeypatch):
    panel = page("databases")
    moved()
    asked, usage = [], Organization.usage
    monkeypatch.setattr(
        Organization, "usage", lambda organization: asked.append(organization.slug) or usage(organization)
    )
    panel.click("Refresh")
    until(lambda: asked)
    assert asked == ["local"]


def test_latency_is_that_of_the_organization_on_the_page(session, page, moved, monkeypatch):
    measured = []
    monkeypatch.setattr(locations, "instances_in_use", lambda organization: measured.append(organization.slug) or {})
    panel = page("locations")
    moved()
    panel.click("Measure latency")
    panel.wait("No location has a database to measure.")
    assert measured == ["local"]


def test_replicas_are_those_of_the_organization_on_the_page(session, page, club, monkeypatch):
    session.organization.add_location("edge", "nrt")
    other = session.organization.sibling(club)
    other.add_location("edge", "nrt")
    other.close()
    panel = page("groups")
    panel.wait("caught up")
    going, asking = threading.Event(), Organization.instances

    def instances(organization, database):
        if organization.slug == club:
            going.wait(30)
            raise AuthError("only owners see this", status=403)
        return asking(organization, database)

    monkeypatch.setattr(Organization, "instances", instances)
    session.choose_organization(club)
    wait_until_shown(session, club)
    panel.wait("reading ...")
    assert "caught up" not in panel.words
    going.set()
    panel.wait("only owners see this")
    assert "caught up" not in panel.words
