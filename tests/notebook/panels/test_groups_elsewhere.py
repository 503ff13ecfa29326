"""The Groups and Organization panels on services with fewer features, or with errors."""

from __future__ import annotations

import pytest
from hosted_api import HostedApi, Shapes
from ipywidgets import FloatProgress
from panel_page import PanelPage
from scripted_server import Answer, ScriptedServer, as_json, as_text
from waiting import until

from pipemagic.notebook.panels import replicas
from pipemagic.notebook.panels.groups import GroupsPanel
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session

SEED = {"locations": {"ams": "Amsterdam", "nrt": "Tokyo"}}


@pytest.fixture
def start(closing):
    """Open a panel on a service with scripted responses; return both."""
    opened = []

    def start(panel, api):
        session = Session(environ={"PIPEMAGIC_API_URL": api.url, "PIPEMAGIC_API_TOKEN": getattr(api, "token", "t")})
        session.choose_organization("acme")
        opened.append((api, session))
        return PanelPage(open_panel(session, panel))

    yield start
    closing()
    for api, session in opened:
        session.shut_down()
        api.close()


@pytest.fixture
def hosted(behind, start):
    """Open a panel on a hosted service with one group, ``edge``, in ams, and its database ``flights``."""

    def open_(panel="groups", shapes=None):
        api = HostedApi(behind, shapes)
        code = next(iter(api.shapes.places))
        api.groups["edge"] = {"name": "edge", "locations": [code], "primary": code, "version": "v0.24.18"}
        return api, start(panel, api)

    return open_


def create(api, name):
    """Create a database in the group without the panel."""
    session = Session(environ={"PIPEMAGIC_API_URL": api.url, "PIPEMAGIC_API_TOKEN": api.token})
    session.organization.create_database(name, "edge")
    session.shut_down()


def add(panel, code):
    panel.click("Add a location to edge")
    panel.choose("New location", code)
    panel.submit("Add location")


def test_the_panel_waits_for_a_service_that_lists_no_instances(hosted):
    api, panel = hosted(shapes=Shapes(lacks=frozenset({"instances"})))
    create(api, "flights")
    api.refuse(r"GET .*/locations/nrt/wait", Answer())
    add(panel, "nrt")
    panel.wait("The databases of edge are ready at nrt.")
    panel.wait("This service does not report replica lag.")


def test_progress_counts_databases(hosted):
    api, panel = hosted()
    for name in ("flights", "hotels", "trains"):
        create(api, name)
    ready = [{"name": "ams", "type": "primary"}, {"name": "nrt", "type": "replica"}]
    api.refuse(r"GET .*/flights/instances", as_json({"instances": ready}))
    api.refuse(r"GET .*/hotels/instances", as_json({"instances": [ready[0], {**ready[1], "status": "copying"}]}))
    api.refuse(r"GET .*/trains/instances", as_text("out of order", 500))
    add(panel, "nrt")
    panel.wait("Copying edge to nrt, 1 of 3 databases is ready.")
    panel.wait("copying, no response (1 of 3 caught up)")
    api.clear_refusals()
    panel.wait("The 3 databases of edge are ready at nrt.")


def test_watching_continues_after_repeated_errors(hosted):
    api, panel = hosted()
    for name in ("flights", "hotels"):
        create(api, name)
    api.refuse(r"GET .*/instances", as_text("out of order", 500))
    add(panel, "nrt")
    panel.wait("Cannot read the replicas of edge at nrt.\nSERVER: ")
    assert "HTTP 500" in panel.words
    api.clear_refusals()
    panel.wait("The 2 databases of edge are ready at nrt.")


# -- the requirement's five endpoints


class FiveEndpoints:
    """Only the required members."""

    def __call__(self, call):
        path = call.path.removeprefix("/v1/organizations/acme")
        match call.method, path.split("/"):
            case "GET", ["", "v1", "locations"]:
                return as_json(SEED)
            case "POST", ["", "groups" | "databases", *_]:
                return as_json({})
            case "PATCH", [""]:
                return as_json({})
        return Answer(404, content_type="text/plain")


def test_groups_without_lists(start):
    panel = start("groups", ScriptedServer(FiveEndpoints()))
    panel.wait("No groups were created here yet. This service does not list other groups.")
    panel.type("Group name", "edge")
    panel.submit("Create group")
    panel.wait("Group edge is in ams.")
    panel.wait("This service does not list groups and databases: only those created here are shown.")
    add(panel, "nrt")
    panel.wait("Group edge is in ams, nrt.")
    panel.wait("This service does not report replica lag.")
    until(lambda: panel.can("Remove nrt from edge"))
    panel.click("Remove nrt from edge")
    panel.submit("Remove nrt")
    panel.wait("this management API does not offer removing locations")
    panel.click("Delete group edge")
    panel.type("Type edge to delete the group", "edge")
    panel.submit("Delete group")
    panel.wait("this management API does not offer deleting groups")
    panel.wait_for("Create group")


def test_an_organization_without_details(start):
    panel = start("groups", ScriptedServer(FiveEndpoints()))
    panel.click("Usage")
    panel.wait("This service does not report its settings, plan and quotas and usage.")
    panel.wait("This service does not report whether overages are on.")
    panel.click("Switch overages on")
    panel.wait("Overages are on for organization acme.")
    panel.choose("Organization", "")
    panel.wait("This service does not list organizations.")
    panel.submit("Switch")
    panel.wait("no organization was given")
    panel.type("Slug of the organization", "club")
    panel.submit("Switch")
    panel.wait("Using organization club (")
    panel.wait("club \u2013 ")
    assert panel.options("Organization") == ["club", ""]


# -- hosted organizations


def test_a_hosted_organization(hosted):
    _, panel = hosted("groups", Shapes(organizations="bare", storage="storage"))
    panel.click("Usage")
    panel.wait("Plan: starter.")
    lines = panel.words.splitlines()
    assert "120 of 1,000,000,000 rows read (<0.1%)" in lines
    assert "0 B of 9.0 GB stored (0.0%)" in lines
    assert "1 of 1 group (100.0%, used up)" in lines
    assert [widget.bar_style for widget in panel.widgets if isinstance(widget, FloatProgress)].count("danger") >= 1
    assert panel.options("Organization") == ["acme"]
    panel.click("Switch overages on")
    panel.wait("Overages are on for organization acme.")


def at_two(api, *names):
    """Create groups at ams and nrt, each with a database of the same name."""
    told = {"locations": [{"name": "ams", "status": "ok"}, {"name": "nrt", "status": "ok"}]}
    for name in names:
        api.groups[name] = {"name": name, "locations": ["ams", "nrt"], "primary": "ams", "status": told}
        session = Session(environ={"PIPEMAGIC_API_URL": api.url, "PIPEMAGIC_API_TOKEN": api.token})
        session.organization.create_database(name, name)
        session.shut_down()


def test_a_group_whose_replicas_cannot_be_read_hides_no_other(behind, start):
    api = HostedApi(behind)
    at_two(api, "edge", "asia")
    api.refuse("GET .*/databases/edge/instances", as_json({"error": "oh no"}, 500))
    panel = start("groups", api)
    panel.wait("oh no")
    panel.wait("caught up")
    assert panel.words.count("caught up") == 1


def test_replicas_are_read_again_when_the_service_responds_again(behind, start, monkeypatch):
    monkeypatch.setattr(GroupsPanel, "interval", 0.1)
    monkeypatch.setattr(replicas, "POLL", 0.2)
    api = HostedApi(behind)
    at_two(api, "edge")
    panel = start("groups", api)
    panel.wait("caught up")
    api.refuse("GET .*/(instances|groups)", as_json({"error": "oh no"}, 500))
    panel.wait("The states of replicas may be out of date.\nSERVER: the server refused the request (HTTP 500): oh no")
    api.clear_refusals()
    until(lambda: "oh no" not in panel.words and "caught up" in panel.words, "they were not read again")
