"""The panel of databases on hosted services, and on one with nothing but the requirement's endpoints."""

from __future__ import annotations

import pytest
from hosted_api import Shapes
from panel_page import PanelPage
from scripted_server import as_json
from waiting import until

from pipemagic.notebook.panels.opening import open_panel


@pytest.fixture
def service(hosted):
    """A hosted service with a group, and its session."""

    def make(shapes: Shapes):
        api, session = hosted(shapes)
        session.organization("acme")
        session.platform.create_group("edge", next(iter(shapes.places)))
        return api, session

    return make


def created(session) -> PanelPage:
    panel = PanelPage(open_panel(session, "databases"))
    panel.type("Database name", "flights")
    panel.submit("Create database")
    panel.wait("Database flights is in group edge.")
    panel.wait_for("Details of flights")
    return panel


@pytest.mark.parametrize("shapes", [Shapes(), Shapes(organizations="bare", sums="usage", deleted="object")])
def test_tokens_tables_and_deletion(service, shapes):
    _, session = service(shapes)
    panel = created(session)
    assert session.platform.databases().items[0].url in panel.text  # the same tomorrow
    panel.click("Connect to flights")
    panel.wait("Connected to flights")
    session.run("CREATE TABLE t(a); INSERT INTO t VALUES (1)")
    panel.click("Details of flights")
    panel.wait("1 row")
    panel.click("New token ...")
    panel.submit("Make token")
    panel.wait("A token for flights that never expires:")
    panel.click("Invalidate all tokens ...")
    panel.type("Type flights to invalidate all its tokens", "flights")
    panel.submit("Invalidate all its tokens")
    panel.wait("All tokens of flights are invalid.")
    panel.wait("flights goes on with a new token.")
    panel.click("Delete flights ...")
    panel.type("Type flights to delete", "flights")
    panel.submit("Delete")
    panel.wait("Database flights is deleted.\nClosed flights.")
    until(lambda: "No databases yet." in panel.words)


def test_a_new_database_that_does_not_answer_yet_is_tried_again(service):
    _, session = service(Shapes(pending=3))
    panel = created(session)
    panel.click("Connect to the new database flights")
    panel.wait("flights does not answer yet, as new databases do for some seconds. Trying again ...")
    panel.wait("Connected to flights")


def test_a_refused_creation_says_why_and_the_next_one_works(service):
    api, session = service(Shapes())
    panel = PanelPage(open_panel(session, "databases"))
    api.refuse(r"POST .*/databases", as_json({"error": "maximum of 1 databases reached"}, 402))
    panel.type("Database name", "flights")
    panel.submit("Create database")
    panel.wait("maximum of 1 databases reached")
    api.relent()
    panel.submit("Create database")
    panel.wait("Database flights is in group edge.")
    assert "maximum of 1" not in panel.words


def test_only_the_endpoints_of_the_requirement(service):
    _, session = service(Shapes(seed_only=True))
    panel = PanelPage(open_panel(session, "databases"))
    panel.wait("This service has no list of databases; these are the ones made here.")
    panel.type("Database name", "flights")
    panel.submit("Create database")
    panel.wait("Database flights is in group edge.")
    panel.wait_for("Details of flights")
    panel.wait("This service does not tell how large databases are.")
    panel.click("Details of flights")
    panel.wait("the service makes no tokens for flights")
    panel.click("New token ...")
    panel.submit("Make token")
    panel.wait("this management API does not offer tokens")
    panel.click("Delete flights ...")
    panel.type("Type flights to delete", "flights")
    panel.submit("Delete")
    panel.wait("this management API does not offer deleting databases")
    panel.click("Connect to flights")
    panel.wait("%pipedb connect http")


def test_without_known_groups_the_group_is_typed(hosted):
    _, session = hosted(Shapes(seed_only=True))
    session.organization("acme")
    panel = PanelPage(open_panel(session, "databases"))
    panel.wait("This service lists no groups: type the name of one.")
    panel.type("Database name", "flights")
    panel.submit("Create database")
    panel.wait("a database belongs to a group: name it")
    panel.type("Group", "edge")
    panel.submit("Create database")
    panel.wait("group not found")
