"""The Databases panel on a hosted service that has only the required endpoints."""

from __future__ import annotations

from hosted_api import Shapes
from panel_page import PanelPage

from pipemagic.notebook.panels.opening import open_panel


def test_only_the_endpoints_of_the_requirement(hosted):
    _, session = hosted(Shapes(seed_only=True))
    session.choose_organization("acme")
    session.organization.create_group("edge", "ams")
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
    session.choose_organization("acme")
    panel = PanelPage(open_panel(session, "databases"))
    panel.wait("This service does not list groups: enter a group name.")
    panel.type("Database name", "flights")
    panel.submit("Create database")
    assert panel.alerts == ["no group was given; every database belongs to a group"]
    panel.type("Group", "edge")
    panel.submit("Create database")
    panel.wait("group not found")
