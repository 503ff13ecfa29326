"""The panel of locations."""

from __future__ import annotations

import re
from contextlib import closing

import pytest
from hosted_api import STARTER, Shapes
from panel_page import PanelPage
from scripted_server import ScriptedServer, as_json, as_text
from waiting import until

from pipemagic.notebook.panels.opening import open_panel
from pipemagic.session import Session


@pytest.fixture
def world(session):
    """Two groups over three locations, and a database in each; besides the group `default` in ams."""
    platform = session.platform
    platform.create_group("shop", "fra")
    platform.add_location("shop", "nrt")
    platform.create_group("logs", "nrt")
    platform.create_database("orders", "shop")
    platform.create_database("lines", "logs")
    return platform


def rows(panel):
    """Give the table's cells: code, place, groups, latency."""
    body = next(node for node in panel.tree.walk() if node.tag == "tbody")
    return {row.children[0].words: [cell.words for cell in row.children[1:4]] for row in body.children}


def kinds(panel):
    """Give the locations in use, as the map shows them."""
    found = {}
    for node in panel.tree.walk():
        if node.attributes.get("class") == "pm-mark":
            (kind,) = [
                one.attributes["class"].removeprefix("pm-")
                for one in node.children
                if one.attributes.get("class") in ("pm-primary", "pm-replica", "pm-free")
            ]
            if kind != "free":
                found[node.attributes["aria-label"].partition(" ")[0]] = kind
    return found


def test_which_groups_use_a_location(page, world):
    panel = page("locations")
    found = rows(panel)
    assert len(found) == 41
    assert list(found)[:3] == ["ams (here)", "fra", "nrt"]  # those in use come first
    assert [code.startswith("aws-") for code in list(found)[3:]] == [True] * 6 + [False] * 32  # legacy codes come last
    assert found["ams (here)"][:2] == ["Amsterdam, Netherlands", "default (primary)"]
    assert found["nrt"][:2] == ["Tokyo, Japan", "logs (primary), shop (replica)"]
    assert found["arn"] == ["Stockholm, Sweden", "–", ""]
    assert kinds(panel) == {"ams": "primary", "fra": "primary", "nrt": "primary"}
    words = "World map of all groups: primary at ams, fra, nrt; closest to the service is ams."
    (picture, _) = panel.find("svg", f"{words} The table below has the same.")
    assert picture.attributes["role"] == "img"


def test_one_group_on_the_map(page, world):
    panel = page("locations")
    assert panel.options("Show group") == ["", "default", "logs", "shop"]
    panel.choose("Show group", "shop")
    assert kinds(panel) == {"fra": "primary", "nrt": "replica"}
    assert "not in shop" in panel.words
    words = "World map of group shop: primary at fra; replicas at nrt; closest to the service is ams."
    assert panel.find("svg", f"{words} The table below has the same.")
    world.delete_group("shop")
    until(lambda: kinds(panel) == {"ams": "primary", "nrt": "primary"})


@pytest.mark.parametrize(
    ("typed", "codes"),
    [("fra", ["fra", "cdg"]), ("  PARIS ", ["cdg"]), ("shop", ["fra", "nrt"]), ("aws-eu", ["aws-eu-west-1"])],
)
def test_the_filter_takes_code_place_and_group(page, world, typed, codes):
    panel = page("locations")
    panel.type("Filter", typed)
    assert list(rows(panel)) == codes


def test_a_filter_that_nothing_matches(page, world):
    panel = page("locations")
    panel.type("Filter", "moon")
    assert "No location matches 'moon'." in panel.words
    panel.type("Filter", "")
    assert len(rows(panel)) == 41


def test_a_location_is_added_to_a_group(page, world, session):
    panel = page("locations")
    panel.click("Add syd to a group")
    assert "Sydney, Australia (syd)" in panel.words
    assert panel.options("Add to group") == ["default", "logs", "shop"]
    panel.choose("Add to group", "shop")
    panel.submit("Add syd")
    panel.wait("Group shop is in fra, nrt, syd. Its database is there.")
    assert "%pipedb add-location shop syd" in panel.words
    until(lambda: rows(panel)["syd"][1] == "shop (replica)")
    assert kinds(panel)["syd"] == "replica"
    panel.click("Add syd to a group")
    assert panel.options("Add to group") == ["default", "logs"]
    panel.escape("add syd")
    assert panel.find("form") == []


def test_look_again_shows_what_others_changed(page, world, session):
    panel = page("locations")
    with Session(environ={}) as other:
        other.connect()
        other.platform.create_group("elsewhere", "syd")
    panel.click("Refresh locations and groups")
    until(lambda: rows(panel)["syd"][1] == "elsewhere (primary)")


def test_a_marker_does_what_the_row_does(page, world):
    panel = page("locations")
    panel.click("nrt on the map")
    assert panel.options("Add to group") == ["default"]
    panel.click("Cancel")
    panel.click("nrt on the small map")
    panel.choose("Add to group", "default")
    panel.submit("Add nrt")
    panel.wait("Group default is in ams, nrt.")
    until(lambda: not panel.can("Add nrt to a group"), "every group is there")
    panel.click("nrt on the map")
    assert "Tokyo, Japan (nrt): every group is there." in "".join(node.words for node in panel.find("form"))
    panel.click("Close")
    assert panel.find("form") == []


def test_what_the_map_does_by_mouse_the_table_does_by_keyboard(page, world):
    panel = page("locations")
    nodes = list(panel.tree.walk())
    by_mouse = {tuple(n.attributes["on"]["click"]) for n in nodes if n.attributes.get("class") == "pm-mark"}
    by_keys = {
        tuple(n.attributes["on"]["click"]) for n in nodes if n.tag == "button" and "click" in n.attributes.get("on", {})
    }
    assert len(by_mouse) == 41
    assert by_mouse <= by_keys


def test_what_the_service_refuses_is_shown(page, world):
    panel = page("locations")
    panel.click("Add syd to a group")
    panel.choose("Add to group", "logs")
    world.delete_group("logs")  # as somebody else would
    panel.panel.view.view.model.add("logs", "syd")
    panel.panel.view.view.model.new_locations.find("logs", "syd").wait(10)
    assert [node.words for node in panel.tree.walk() if node.attributes.get("role") == "alert"] == [
        "NOT_FOUND: not found: group not found%pipedb groups lists what there is"
    ]


def test_the_latency_is_measured(page, world):
    panel = page("locations")
    panel.click("Measure latency")
    panel.wait("Measured 3 locations: the median of five small requests to a database there.")
    found = rows(panel)
    for code in ("ams (here)", "fra", "nrt"):
        assert re.fullmatch(r"\d+(\.\d)? ms", found[code][2])
    assert found["arn"][2] == "–"
    assert "%pipedb locations --latency" in panel.words
    assert " ms" not in panel.text + panel.html


def test_nothing_to_measure(page, session):
    for one in session.platform.databases().items:
        session.platform.delete_database(one.name)
    panel = page("locations")
    panel.click("Measure latency")
    panel.wait("There is no database to measure the way to.")


def test_without_a_group(page, session):
    session.platform.delete_group("default")
    panel = page("locations")
    assert "There is no group yet, so nothing is in use." in panel.words
    assert kinds(panel) == {}
    panel.click("fra on the map")
    panel.wait(": there is no group yet. Groups makes one, or %pipedb create-group NAME --location fra.")


def test_the_saved_faces(page, world):
    panel = page("locations")
    panel.type("Filter", "moon")
    lines = panel.text.splitlines()
    assert [re.sub("  +", " | ", line) for line in lines[:5]] == [
        "Locations",
        " | Code | Place | In use by",
        " | ams (here) | Amsterdam, Netherlands | default (primary)",
        " | fra | Frankfurt, Germany | shop (primary)",
        " | nrt | Tokyo, Japan | logs (primary), shop (replica)",
    ]
    assert len(panel.text.splitlines()) == 43
    assert panel.html.count("<svg") == 2 + 3
    assert "Measure" not in panel.html
    assert "Actions" not in panel.html


@pytest.mark.parametrize("locations", ["airports", "regions", "two levels"])
def test_on_a_hosted_service(hosted, locations):
    shapes = Shapes(locations=locations, more_locations=as_json(STARTER, 402))
    _api, session = hosted(shapes)
    first, second = list(shapes.places)[:2]
    session.platform.create_group("edge", first)
    session.platform.create_database("flights", "edge")
    panel = PanelPage(open_panel(session, "locations"))
    assert kinds(panel) == {first: "primary"}
    assert "closest" not in panel.words
    panel.click(f"Add {second} to a group")
    panel.submit(f"Add {second}")
    panel.wait("this feature is not available for starter plans")
    panel.wait_for("Measure latency")
    panel.click("Measure latency")
    panel.wait("Measured 1 location:")
    assert kinds(panel) == {first: "primary"}


def test_a_location_whose_place_is_not_known(hosted):
    api, session = hosted(Shapes())
    api.refuse(
        "GET /v1/locations", as_json({"locations": {"ams": "Amsterdam", "us-east-1": "Virginia", "local": "Here"}})
    )
    panel = PanelPage(open_panel(session, "locations"))
    assert list(rows(panel)) == ["ams", "local", "us-east-1"]
    assert "Not on the map, since it is not known where they are: local." in panel.words
    assert panel.find("g", "us-east-1 on the map")
    assert "Not on the map" in panel.text


def test_on_a_service_that_lists_no_groups():
    def answer(call):
        """Answer as little as the requirement allows."""
        if (call.method, call.path) == ("GET", "/v1/locations"):
            return as_json({"locations": {"ams": "Amsterdam", "nrt": "Tokyo"}})
        return as_json({}) if call.method == "POST" else as_text("404 page not found", 404)

    with closing(ScriptedServer(answer)) as api:
        session = Session(environ={"PIPEMAGIC_API_URL": api.url, "PIPEMAGIC_API_TOKEN": "t"})
        session.organization("acme")
        panel = PanelPage(open_panel(session, "locations"))
        assert "This service does not list its groups: only those that were made here are known." in panel.words
        panel.click("Add nrt to a group")
        panel.submit("Add nrt")
        assert "no group was named" in panel.words
        panel.type("Add to group", "edge")
        panel.submit("Add nrt")
        panel.wait("Group edge is in nrt.")
        until(lambda: kinds(panel) == {"nrt": "replica"})
        panel.click("Measure latency")
        panel.wait("There is no database to measure the way to.")
        session.shut_down()


def test_a_group_that_is_gone_is_not_the_one_that_the_map_shows(session, page):
    session.platform.create_group("edge", "ams")
    panel = page("locations")
    panel.choose("Show group", "edge")
    panel.wait("not in edge")
    session.platform.delete_group("edge")
    until(lambda: "edge" not in panel.options("Show group"))
    assert "not in edge" not in panel.words
    assert not [one for one in panel.find("svg") if "group edge" in str(one.attributes)]
