"""The Groups panel."""

from __future__ import annotations

import pytest
from waiting import until

from pipemagic import launcher
from pipemagic.notebook.panels.groups import GroupsPanel


@pytest.fixture
def organization(session):
    return session.organization


@pytest.fixture
def edge(organization):
    """A group in ams with two databases."""
    organization.create_group("edge", "ams")
    for name in ("flights", "hotels"):
        organization.create_database(name, "edge")
    return "edge"


def cells(panel, group):
    return panel.cells("Groups", group)


def replica_states(panel, group):
    """Return the states that the table shows, with the places."""
    return cells(panel, group)["Replicas"]


def test_the_lifecycle_of_a_group(page, session):
    panel = page("groups")
    panel.type("Group name", "edge")
    assert panel.error_of("Group name") == ""
    panel.choose("Primary location", "fra")
    panel.submit("Create group")
    panel.wait("Group edge is in fra.")
    assert "%pipedb create-group edge --location fra" in panel.words
    until(lambda: panel.can("Add a location to edge"))
    assert cells(panel, "edge")["Primary"] == "Frankfurt, Germany (fra)"
    assert replica_states(panel, "edge") == "none"
    panel.click("Add a location to edge")
    assert "fra" not in panel.options("New location")
    panel.choose("New location", "nrt")
    panel.submit("Add location")
    panel.wait("Group edge is in fra, nrt.")
    panel.wait("edge has no databases yet.")
    assert "%pipedb add-location edge nrt" in panel.words
    until(lambda: "Tokyo, Japan (nrt)\nnothing to copy yet" in replica_states(panel, "edge"))
    panel.click("Remove nrt from edge")
    assert "The replicas of edge at Tokyo, Japan (nrt) will be deleted; its databases stay at fra." in panel.words
    panel.submit("Remove nrt")
    panel.wait("Group edge is no longer in nrt; it is in fra.")
    assert "%pipedb remove-location edge nrt" in panel.words
    panel.click("Delete group edge")
    assert "Group edge has no databases." in panel.words
    panel.type("Type edge to delete the group", "edge")
    panel.submit("Delete group")
    panel.wait("Deleted group edge.")
    assert "%pipedb delete-group edge --confirm" in panel.words
    until(lambda: "Delete group edge" not in panel.buttons)
    assert [group.name for group in session.organization.groups().items] == ["default"]


def test_protection_from_deletion(page, session):
    panel = page("groups")
    panel.click("Protect group default from deletion")
    panel.wait("Group default is protected from deletion.")
    assert "%pipedb protect-group default" in panel.words
    until(lambda: panel.rows("Groups")[0][0] == "default\nprotected")
    assert not panel.can("Delete group default")
    panel.click("Allow the deletion of group default")
    panel.wait("Group default can be deleted again.")
    until(lambda: panel.can("Delete group default"))


def test_a_name_is_checked_while_it_is_typed(page):
    panel = page("groups")
    panel.type("Group name", "default")
    assert panel.error_of("Group name") == "default already exists"
    panel.type("Group name", "Edge")
    assert (
        panel.error_of("Group name")
        == "the name of a group can contain only lower-case letters, digits and hyphens, not E"
    )
    panel.type("Group name", "a" * 58)
    assert panel.error_of("Group name") == (
        "the name of a group can have at most 57 characters here, which leaves room for -local in a host name, not 58"
    )
    panel.type("Group name", "a" * 57)
    assert panel.error_of("Group name") == ""
    panel.type("Group name", "")
    assert panel.error_of("Group name") == ""


def test_a_wrong_name_is_refused_when_it_is_submitted(page, session):
    panel = page("groups")
    panel.submit("Create group")
    assert panel.error_of("Group name") == "Enter a group name."
    panel.type("Group name", "default")
    panel.panel.name.explain(error="")  # as if Enter were faster than the check
    panel.submit("Create group")
    assert panel.error_of("Group name") == "default already exists"
    assert "default already exists" in panel.words
    assert len(session.organization.groups().items) == 1


def test_the_closest_location_is_the_first_choice(page, session):
    panel = page("groups")
    here = session.organization.closest()
    assert panel.options("Primary location")[0] == here
    assert len(panel.options("Primary location")) == len(session.organization.locations())
    assert ", closest" in panel.words


def test_a_deletion_lists_the_databases_and_requires_the_name_of_the_group(page, edge, session):
    session.connect("flights")
    panel = page("groups")
    panel.click("Delete group edge")
    assert (
        "2 databases and all their data will be deleted: flights, hotels. Connections that will be closed: flights."
    ) in panel.words
    panel.submit("Delete group")
    assert "nothing was deleted: the typed name is not edge" in panel.words
    panel.type("Type edge to delete the group", "edg")
    panel.submit("Delete group")
    assert "nothing was deleted" in panel.words
    panel.type("Type edge to delete the group", "edge")
    panel.submit("Delete group")
    panel.wait("Deleted group edge and its databases: flights, hotels.\nClosed flights: its database was deleted.")
    assert list(session.connections) == ["main"]
    assert [database.name for database in session.organization.databases().items] == ["main"]


def test_escape_and_cancel_close_a_form(page, edge):
    panel = page("groups")
    panel.click("Delete group edge")
    panel.escape()
    assert "Type edge to delete the group" not in panel.words
    panel.click("Add a location to edge")
    panel.click("Cancel")
    assert "New location" not in panel.words


def test_the_text_has_places_and_names(page, edge, organization):
    organization.add_location("edge", "nrt")
    panel = page("groups")
    assert panel.text == (
        "Groups\n"
        "  Group    Primary                       Replicas            Databases\n"
        "  default  Amsterdam, Netherlands (ams)  none                1: main\n"
        "  edge     Amsterdam, Netherlands (ams)  Tokyo, Japan (nrt)  2: flights, hotels"
    )
    until(lambda: "caught up" in replica_states(panel, "edge"))
    assert "caught up" not in panel.text


def test_many_databases_are_counted_and_the_replicas_of_some_are_read(page, organization):
    organization.add_location("default", "nrt")
    for number in range(24):
        organization.api.create_database(f"d{number:02}", "default")
    panel = page("groups")
    panel.wait("Lag is measured on up to 20 databases per group.")
    until(lambda: panel.panel.state.replicas.summaries.get("default", {}).get("nrt") is not None)
    assert panel.panel.state.replicas.summaries["default"]["nrt"].total == 20
    assert panel.text.endswith("25: d00, d01, d02, d03, d04, d05, d06, d07 and 17 more")
    panel.click("Delete group default")
    assert "25 databases and all their data will be deleted: d00," in panel.words


def test_a_closed_panel_reads_nothing(page, edge, session, closing):
    panel = page("groups")
    until(lambda: not panel.panel.state.task.busy)
    asked = []
    session.organization.instances = session.organization.groups = lambda *given: asked.append(given)
    panel.panel.close()
    session.organization.add_location("edge", "nrt")
    closing()  # ends when all threads have ended
    assert asked == []
    assert panel.panel.state.replicas.summaries == {}


def test_a_location_that_is_paused_elsewhere_is_shown(page, edge, organization, monkeypatch):
    monkeypatch.setattr(GroupsPanel, "interval", 0.1)
    organization.add_location("edge", "nrt")
    panel = page("groups")
    until(lambda: "caught up, lag" in replica_states(panel, "edge"))
    organization.api.pause_location("edge", "nrt")  # without this session
    until(lambda: "paused (0 of 2 caught up)" in replica_states(panel, "edge"))
    organization.api.resume_location("edge", "nrt")
    until(lambda: "caught up, lag" in replica_states(panel, "edge"))


def test_polling_replicas_starts_no_service_that_was_stopped(page, edge, organization, service_folder, monkeypatch):
    monkeypatch.setattr(GroupsPanel, "interval", 0.1)
    organization.add_location("edge", "nrt")
    panel = page("groups")
    until(lambda: "caught up, lag" in replica_states(panel, "edge"))
    launcher.stop(service_folder)
    panel.wait("The states of replicas may be out of date.\nCONNECT: ")
    assert launcher.find(service_folder) is None
    panel.click("Refresh")
    until(lambda: "may be out of date" not in panel.words)
    until(lambda: "caught up, lag" in replica_states(panel, "edge"))
