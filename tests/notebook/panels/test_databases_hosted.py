"""The Databases panel on hosted services, and on one that has only the required endpoints."""

from __future__ import annotations

import pytest
from hosted_api import Shapes
from panel_page import PanelPage
from scripted_server import as_json

from pipemagic.notebook.panels.opening import open_panel


@pytest.fixture
def service(hosted):
    """Start a hosted service with a group; return it and its session."""

    def start(shapes: Shapes):
        api, session = hosted(shapes)
        session.organization("acme")
        session.platform.create_group("edge", next(iter(shapes.places)))
        return api, session

    return start


def create(session) -> PanelPage:
    """Create the database flights in the panel."""
    panel = PanelPage(open_panel(session, "databases"))
    panel.type("Database name", "flights")
    panel.submit("Create database")
    panel.wait("Database flights is in group edge.")
    panel.wait_for("Details of flights")
    return panel


def test_connection_tokens_and_deletion(service):
    _, session = service(Shapes(sums="usage", deleted="object"))
    panel = create(session)
    assert session.platform.databases().items[0].url in panel.text  # identical in every run
    panel.press(panel.panel.created_connect)
    panel.wait("Connected to flights")
    session.run("CREATE TABLE t(a); INSERT INTO t VALUES (1)")
    panel.click("Details of flights")
    panel.click("New token ...")
    panel.submit("Create token")
    panel.wait("A token for flights that never expires:")
    panel.click("Invalidate all tokens ...")
    panel.type("Type flights to invalidate all its tokens", "flights")
    panel.submit("Invalidate all tokens")
    panel.wait("All tokens of flights are invalid.")
    panel.wait("flights continues with a new token.")
    panel.click("Delete database ...")
    panel.type("Type flights to delete", "flights")
    panel.submit("Delete database")
    panel.wait("Deleted database flights.\nClosed flights, whose database was deleted.")
    panel.wait("No databases yet.")


def test_a_refused_creation_is_explained_and_the_next_one_works(service):
    api, session = service(Shapes())
    panel = PanelPage(open_panel(session, "databases"))
    api.refuse(r"POST .*/databases", as_json({"error": "maximum of 1 databases reached"}, 402))
    panel.type("Database name", "flights")
    panel.submit("Create database")
    panel.wait("maximum of 1 databases reached")
    api.clear_refusals()
    panel.submit("Create database")
    panel.wait("Database flights is in group edge.")
    assert "maximum of 1" not in panel.words


def test_only_the_endpoints_of_the_requirement(service):
    _, session = service(Shapes(seed_only=True))
    panel = PanelPage(open_panel(session, "databases"))
    panel.wait("This service does not list databases: only those created here are shown.")
    panel.type("Database name", "flights")
    panel.submit("Create database")
    panel.wait("Database flights is in group edge.")
    panel.wait_for("Details of flights")
    panel.wait("This service does not report sizes.")
    panel.click("Details of flights")
    panel.click("New token ...")
    panel.submit("Create token")
    panel.wait("this management API does not offer tokens")
    panel.click("Delete database ...")
    panel.type("Type flights to delete", "flights")
    panel.submit("Delete database")
    panel.wait("this management API does not offer deleting databases")
    panel.click("Close details")
    panel.panel.table.click("connect", "flights")
    panel.wait("%pipedb connect http")


def test_without_known_groups_the_group_is_typed(hosted):
    _, session = hosted(Shapes(seed_only=True))
    session.organization("acme")
    panel = PanelPage(open_panel(session, "databases"))
    panel.wait("This service does not list groups: enter a group name.")
    panel.type("Database name", "flights")
    panel.submit("Create database")
    assert panel.alerts == ["no group was given; every database belongs to a group"]
    panel.type("Group", "edge")
    panel.submit("Create database")
    panel.wait("group not found")
