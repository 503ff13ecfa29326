"""What panels show of one organization is not shown of another, and what one may not see hides nothing else."""

from __future__ import annotations

import threading
import uuid

import pytest
from hosted_api import Shapes
from panel_page import PanelPage
from scripted_server import as_json
from started_services import crash, shared_service
from waiting import until

from pipemagic.errors import AuthError, ConnectError, UnsupportedError
from pipemagic.notebook.panels.ground import widget
from pipemagic.notebook.panels.groups.replica_states import ReplicaStates
from pipemagic.notebook.panels.holdings import holdings_of
from pipemagic.notebook.panels.locations import panel as locations
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session.latency import Latency
from pipemagic.session.organization import Platform
from pipemagic.session.profiles import Profile, Profiles

__all__ = ["shared_service"]


@pytest.fixture
def club(session):
    """Another organization with a database of the same name as one of the first."""
    first = session.platform
    first.create_group("edge", "ams")
    first.create_database("flights", "edge")
    slug = f"club-{uuid.uuid4().hex[:8]}"
    first._ask(lambda api: api.create_organization(slug))
    other = first.sibling(slug)
    other.create_group("edge", "ams")
    other.create_database("flights", "edge")
    other.close()
    return slug


def test_details_of_a_database_are_not_shown_of_its_namesake(session, page, club):
    session.connect("flights")
    session.run("CREATE TABLE only_in_local (a)")
    panel = page("databases")
    panel.click("Details of flights")
    panel.wait("only_in_local")
    panel.click("New token ...")
    panel.submit("Make token")
    until(lambda: panel.secrets)
    panel.click("Delete flights ...")
    session.organization(club)
    panel.wait(f"-{club} comes after it.")
    panel.wait_for("Connect to flights")
    assert "only_in_local" not in panel.words
    assert not panel.secrets
    assert not panel.has("Type flights to delete")


def test_what_was_created_is_not_offered_in_another_organization(session, page, club):
    panel = page("databases")
    panel.type("Database name", "trips")
    panel.choose("Group", "edge")
    panel.submit("Create database")
    panel.wait_for("Connect to the new database trips")
    session.organization(club)
    panel.wait(f"-{club} comes after it.")
    assert "trips" not in panel.words


def test_an_organization_that_cannot_be_listed_shows_nothing_of_the_one_before(hosted):
    api, session = hosted()
    api.teams.append("other")
    session.platform.create_group("edge", "ams")
    session.platform.create_database("flights", "edge")
    panel = PanelPage(open_panel(session, "databases"))
    panel.wait("flights")
    api.refuse("GET .*/other/databases", as_json({"error": "out of scope"}, 403))
    session.organization("other")
    panel.wait("out of scope")
    assert "flights" not in panel.words
    api.relent()
    panel.click("Ask again")
    panel.wait("There is no group yet.")


def test_figures_of_another_organization_are_not_shown_as_those_of_this_one(hosted):
    api, session = hosted()
    api.teams.append("other")
    panel = PanelPage(open_panel(session, "organization"))
    panel.wait("Used in this calendar month (UTC)")
    api.refuse("GET .*/other$", as_json({"error": "oh no"}, 500))
    session.organization("other")
    panel.wait("oh no")
    assert [one.words for one in panel.find("strong")] == ["other"]
    assert "Plan:" not in panel.words
    assert not panel.find("button", "Overages")
    panel.wait_for("Switch")  # to leave it again


@pytest.mark.parametrize("question", ["subscription", "plans", "usage"])
def test_what_a_member_may_not_see_hides_nothing_else(hosted, question):
    api, session = hosted()
    api.refuse(f"GET .*/{question}$", as_json({"error": "only owners see this"}, 403))
    panel = PanelPage(open_panel(session, "organization"))
    panel.wait("only owners see this")
    assert any(one.startswith("AUTH: ") for one in panel.alerts)
    panel.click("Overages")
    panel.wait("Overages of organization acme are on.")


def test_a_panel_that_is_shown_again_is_patient_again(hosted):
    api, session = hosted()
    session.platform.create_group("edge", "ams")
    panel = PanelPage(open_panel(session, "databases"))
    panel.panel.view.view.model._pauses = (0.2,) * 50
    for seen in (False, True):
        panel.panel._heard(panel.panel, {"seen": seen}, [])
    panel.type("Database name", "flights")
    panel.submit("Create database")
    panel.wait_for("Connect to the new database flights")
    api.refuse("POST .*/flights/auth/tokens", as_json({"error": "database not found"}, 404))
    panel.click("Connect to the new database flights")
    until(lambda: sum(call.path.split("?")[0].endswith("/flights/auth/tokens") for call in api.calls) > 2)
    api.relent()
    panel.wait("Connected to flights")


def test_a_group_whose_databases_are_not_listed_is_not_called_empty(hosted):
    api, session = hosted(Shapes(seed_only=True))
    api.groups["edge"] = {"name": "edge", "locations": ["ams"], "primary": "ams"}  # somebody else made it
    session.organization("acme", at=api.url)
    panel = PanelPage(open_panel(session, "locations"))
    until(lambda: panel.find("button", "Add nrt to a group"))
    panel.click("Add nrt to a group")
    panel.type("Add to group", "edge")
    panel.submit("Add nrt")
    panel.wait("This service does not tell how far its replicas are.")
    assert "no databases" not in panel.words


def test_a_service_that_tells_of_replicas_again_is_heard(hosted):
    api, session = hosted(Shapes(lacks=frozenset({"instances"})))
    session.platform.create_group("edge", "ams")
    session.platform.add_location("edge", "nrt")
    session.platform.create_database("flights", "edge")
    holdings = holdings_of(session)
    holdings.refresh()
    until(lambda: holdings.databases)
    states = ReplicaStates(holdings)
    states.look()
    until(lambda: not states.told)
    api.shapes = Shapes()
    states.wait()
    states.look()
    until(lambda: states.told)
    assert "nrt" in states.found["edge"]


def test_closing_ends_measuring(session, page, monkeypatch):
    panel = page("locations")
    model = panel.panel.view.view.model
    asked = []

    def slowly(_places):
        for code in ("ams", "nrt", "ord"):
            asked.append(code)
            panel.panel._heard(panel.panel, {"seen": False}, [])
            yield Latency(code, 0.1)

    monkeypatch.setattr(locations, "latencies", slowly)
    panel.click("Measure latency")
    assert model.wait(10)
    assert asked == ["ams"]
    assert "Measured 1 location" in model.message


def test_an_action_is_for_the_organization_on_the_page(session, page, club, monkeypatch):
    panel = page("databases")
    panel.click("Details of flights")
    panel.click("Delete flights ...")
    panel.type("Type flights to delete", "flights")
    first = session.platform
    monkeypatch.setattr(holdings_of(session), "refresh", lambda: None)  # the page does not know yet
    second = session.organization(club)
    panel.submit("Delete")
    panel.wait("Database flights is deleted.")
    assert "flights" not in [one.name for one in first.databases().items]
    assert [one.name for one in second.databases().items] == ["flights"]


def test_a_database_is_connected_to_in_the_organization_on_the_page(session, page, club, monkeypatch):
    session.connect("flights")
    session.run("CREATE TABLE only_in_local (a)")
    session.close("flights")
    panel = page("databases")
    monkeypatch.setattr(holdings_of(session), "refresh", lambda: None)  # the page does not know yet
    session.organization(club)
    panel.click("Connect to flights")
    panel.wait("Connected to flights")
    assert session.connection().profile.organization == "local"
    assert session.run("SELECT name FROM sqlite_schema")["name"].tolist() == ["only_in_local"]
    assert session.platform.organization == club


def test_a_profile_of_another_organization_is_not_what_the_page_connects_to(session, page, club, tmp_path):
    panel = page("databases")
    session.profiles = Profiles(tmp_path / "profiles.toml")
    session.profiles.save(Profile("flights", database="flights", organization=club))
    panel.click("Connect to flights")
    panel.wait("the profile flights leads to another database")
    assert "flights" not in session.connections
    assert session.platform.organization == "local"


def test_the_same_organization_with_another_token_is_the_one_on_the_page(hosted, monkeypatch):
    api, session = hosted()
    session.platform.create_group("edge", "ams")
    panel = PanelPage(open_panel(session, "databases"))
    panel.wait("edge")
    api.environment["PIPEMAGIC_API_TOKEN"] = api.renew_token()
    monkeypatch.setattr(holdings_of(session), "refresh", lambda: None)  # the page does not know yet
    session.organization(at=api.url)
    panel.type("Database name", "flights")
    panel.submit("Create database")
    panel.wait("Database flights is in group edge.")


def test_the_progress_of_a_new_location_is_that_of_the_organization_that_is_shown(session, page, club):
    first = session.platform
    asking, going = first.instances, threading.Event()
    first.instances = lambda name: going.wait(30) and asking(name)
    panel = page("groups")
    panel.click("Add a location to edge")
    panel.choose("New location of edge", "nrt")
    panel.submit("Add location")
    panel.wait("Copying group edge to nrt ...")
    session.organization(club)
    panel.wait_for("Add a location to edge")
    until(lambda: "Copying group edge to nrt ..." not in panel.words)
    session.organization("local")
    panel.wait("Copying group edge to nrt ...")
    going.set()
    panel.wait("Group edge is in ams, nrt. Its database is there.")


def test_a_service_that_is_started_again_is_asked_about_the_same_organization(session, service_folder, page, club):
    panel = page("groups")
    crash(service_folder)
    panel.click("Refresh groups and replicas")
    panel.wait_for("Delete group default")  # which the other one has not
    session.platform.create_database("trips", "edge")
    assert [one.name for one in session.platform.databases().items] == ["flights", "main", "trips"]
    assert session.platform.organization == "local"


@pytest.fixture
def moved(session, club, monkeypatch):
    """Use the other organization without the open panels knowing; gives the first one and the other."""

    def move():
        first = session.platform
        monkeypatch.setattr(holdings_of(session), "refresh", lambda: None)
        return first, session.organization(club)

    return move


def test_tokens_are_made_invalid_in_the_organization_on_the_page(session, page, moved):
    session.connect("flights")
    panel = page("databases")
    panel.click("Details of flights")
    panel.click("Invalidate all tokens ...")
    panel.type("Type flights to invalidate all its tokens", "flights")
    moved()
    session.connect("flights", name="theirs")
    panel.submit("Invalidate all its tokens")
    panel.wait("All tokens of flights are invalid.")
    panel.wait("flights goes on with a new token.")
    assert "theirs goes on" not in panel.words
    assert session.run("SELECT 1 AS one", on="flights")["one"].tolist() == [1]
    assert session.run("SELECT 1 AS one", on="theirs")["one"].tolist() == [1]


def test_sizes_and_tables_are_those_of_the_organization_on_the_page(session, page, moved, monkeypatch):
    session.connect("flights")
    session.run("CREATE TABLE only_in_local (a)")
    session.close("flights")
    panel = page("databases")
    moved()
    asked, asking = [], Platform.usage
    monkeypatch.setattr(Platform, "usage", lambda one: asked.append(one.organization) or asking(one))
    panel.click("Refresh")
    until(lambda: asked)
    assert asked == ["local"]
    panel.click("Details of flights")
    panel.wait("only_in_local")


def test_a_size_that_is_told_after_another_organization_is_in_use_is_not_shown(session, page, club, monkeypatch):
    going, asked, asking = threading.Event(), threading.Event(), Platform.usage

    def usage(platform):
        if platform.organization == club:
            raise AuthError("only owners see this", status=403)
        asked.set()
        going.wait(30)
        return asking(platform)

    monkeypatch.setattr(Platform, "usage", usage)
    monkeypatch.setattr(widget, "PATIENCE", 0.0)  # the first size comes only below
    panel = page("databases")
    assert asked.wait(30)
    session.organization(club)
    panel.wait(f"-{club} comes after it.")
    going.set()
    sizes = panel.panel.view.view.model.sizes
    until(lambda: sizes.error and not sizes.busy)
    assert sizes.sizes == {}


def test_what_is_created_late_is_not_offered_in_another_organization(session, page, club):
    first = session.platform
    going, creating = threading.Event(), first.create_database

    def create(*given):
        going.wait(30)
        return creating(*given)

    first.create_database = create
    panel = page("databases")
    panel.type("Database name", "trips")
    panel.choose("Group", "edge")
    panel.submit("Create database")
    session.organization(club)
    panel.wait(f"-{club} comes after it.")
    going.set()
    panel.wait("Database trips is in group edge.")
    assert not panel.find("button", "Connect to the new database trips")


def test_latency_is_that_of_the_organization_on_the_page(session, page, moved, monkeypatch):
    measured = []
    monkeypatch.setattr(locations, "addresses", lambda platform: measured.append(platform.organization) or {})
    panel = page("locations")
    moved()
    panel.click("Measure latency")
    panel.wait("There is no database to measure the way to.")
    assert measured == ["local"]


def test_replicas_are_those_of_the_organization_on_the_page(session, page, club, monkeypatch):
    session.platform.add_location("edge", "nrt")
    other = session.platform.sibling(club)
    other.add_location("edge", "nrt")
    other.close()
    panel = page("groups")
    panel.wait("caught up")
    going, asking = threading.Event(), Platform.instances

    def instances(platform, database):
        if platform.organization == club:
            going.wait(30)
            raise AuthError("only owners see this", status=403)
        return asking(platform, database)

    monkeypatch.setattr(Platform, "instances", instances)
    session.organization(club)
    until(lambda: holdings_of(session).known and holdings_of(session).organization == club)
    panel.wait("asking ...")
    assert "caught up" not in panel.words
    going.set()
    until(lambda: any("only owners see this" in one for one in panel.alerts))
    assert "caught up" not in panel.words


def test_forms_about_a_group_close_when_another_organization_is_in_use(session, page, club):
    groups, places = page("groups"), page("locations")
    groups.click("Delete group edge")
    groups.type("Type edge to delete the group", "edge")
    places.click("Add nrt to a group")
    places.choose("Show group", "edge")
    until(lambda: "not in edge" in places.words)
    session.organization(club)
    for panel in (groups, places):
        until(lambda panel=panel: holdings_of(session).organization == club and "edge" in panel.words)
    assert not groups.has("Type edge to delete the group")
    assert not places.has("Add to group")
    assert "not in edge" not in places.words


def test_an_organization_is_looked_for_in_the_service_on_the_page(hosted, monkeypatch):
    first, session = hosted()
    first.teams.append("team")
    second, _ = hosted()
    second.token, second.slug = first.token, "other"
    panel = PanelPage(open_panel(session, "organization"))
    panel.wait_for("Switch")
    monkeypatch.setattr(holdings_of(session), "refresh", lambda: None)  # the page does not know yet
    monkeypatch.setattr(panel.panel.view.view.model.figures, "look", lambda: None)
    session.organization("other", at=second.url)
    panel.choose("Organization", "team")
    panel.submit("Switch")
    panel.wait("Organization team (")
    assert session.platform.address == first.url


def test_two_services_on_one_machine_are_told_apart(hosted):
    first, session = hosted()
    second, _ = hosted()
    second.token = first.token
    for api in (first, second):
        session.organization("acme", at=api.url)
        session.platform.create_group("edge", "ams")
        session.platform.create_database("flights", "edge")
    session.organization("acme", at=first.url)
    session.connect("flights")
    panel = PanelPage(open_panel(session, "databases"))
    panel.wait_for("Close the connection flights")
    session.organization("acme", at=second.url)
    panel.wait_for("Connect to flights")
    panel.click("Details of flights")
    panel.click("Delete flights ...")
    panel.type("Type flights to delete", "flights")
    panel.submit("Delete")
    panel.wait("Database flights is deleted.")
    assert "flights" in first.databases
    assert session.run("SELECT 1 AS one", on="flights")["one"].tolist() == [1]


def test_a_connection_goes_on_when_the_service_restarts_also_after_another_organization(session, club, service_folder):
    for slug in (club, "local", club):  # there and back: it is the one that was left
        session.organization(slug)
    session.connect("flights")
    session.run("CREATE TABLE t (a)")
    session.organization("local")
    crash(service_folder)
    assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [0]


def test_what_was_begun_goes_on_in_the_organization_that_is_left(hosted):
    api, session = hosted()
    api.teams.append("team")
    session.platform.create_group("edge", "ams")
    session.platform.create_database("flights", "edge")
    panel = PanelPage(open_panel(session, "groups"))
    copying = {"instances": [{"name": "nrt", "type": "replica", "status": "copying"}]}
    api.refuse("GET .*/instances", as_json(copying))
    panel.click("Add a location to edge")
    panel.choose("New location of edge", "nrt")
    panel.submit("Add location")
    panel.wait("0 of 1 database are there.")
    session.organization("team")
    until(lambda: "edge" not in panel.words)
    api.relent()
    session.organization("acme")
    panel.wait("Group edge is in ams, nrt. Its database is there.")
    assert not panel.alerts


def test_a_click_on_a_page_that_is_late_works_in_its_organization(hosted, monkeypatch):
    api, session = hosted()
    api.teams.append("team")
    session.platform.create_group("edge", "ams")
    session.platform.create_database("flights", "edge")
    panel = PanelPage(open_panel(session, "databases"))
    panel.wait_for("Connect to flights")
    monkeypatch.setattr(holdings_of(session), "refresh", lambda: None)  # the page does not know yet
    session.organization("team")
    panel.click("Connect to flights")
    panel.wait("Connected to flights")
    assert session.connection().profile.organization == "acme"


def test_an_organization_that_was_left_is_closed_with_the_session_or_when_it_has_another_token(hosted):
    api, session = hosted()
    api.teams.append("team")
    session.organization("acme", at=api.url)
    first = session.platform
    session.organization("team")
    team = session.platform
    assert session.organization("acme") is first
    session.organization("acme", at=api.url)
    for left in (first, team):
        if left is team:
            left.locations()
            session.shut_down()
        with pytest.raises(ConnectError, match="it was closed here"):
            left.locations()


def test_sizes_are_not_shown_of_a_namesake(session, page, club, monkeypatch):
    panel = page("databases")
    sizes = panel.panel.view.view.model.sizes
    until(lambda: "flights" in sizes.sizes)

    def refused(_platform):
        raise UnsupportedError("no usage here")

    monkeypatch.setattr(Platform, "usage", refused)
    session.organization(club)
    until(lambda: sizes.sizes == {}, "the size of another database is shown")
    panel.wait_for("Connect to flights")


def test_an_organization_that_cannot_be_listed_can_be_left_in_its_panel(hosted):
    api, session = hosted()
    api.teams.append("team")
    panel = PanelPage(open_panel(session, "organization"))
    api.refuse("GET .*/team/databases", as_json({"error": "out of scope"}, 403))
    panel.choose("Organization", "team")
    panel.submit("Switch")
    until(lambda: any("out of scope" in one for one in panel.alerts))
    panel.choose("Organization", "acme")
    panel.submit("Switch")
    panel.wait("Organization acme (")
    until(lambda: not panel.alerts)
