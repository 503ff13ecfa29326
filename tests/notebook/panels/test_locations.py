"""The Locations panel."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hosted_api import STARTER, Shapes
from panel_page import PanelPage
from scripted_server import as_json
from waiting import until

from pipemagic.errors import ServerError
from pipemagic.notebook.panels.opening import open_panel


@pytest.fixture
def world(session):
    """Two groups at three locations, each with a database, in addition to the group `default` in ams."""
    organization = session.organization
    organization.create_group("shop", "fra")
    organization.add_location("shop", "nrt")
    organization.create_group("logs", "nrt")
    organization.create_database("orders", "shop")
    organization.create_database("lines", "logs")
    return organization


def rows(panel):
    """Return the cells of the table, place, groups, latency, by the code."""
    return {code: cells for code, *cells, _ in panel.rows("Locations")}


def picture(panel):
    return ElementTree.fromstring(panel.panel.map.value)


def labels(panel):
    """Return the labels of the map, without its legend."""
    return sorted(text.text for text in picture(panel).iter("text") if text.get("text-anchor") == "middle")


def test_which_groups_use_a_location(page, world):
    panel = page("locations")
    found = rows(panel)
    assert len(found) == 41
    assert list(found)[:3] == ["ams (closest)", "fra", "nrt"]  # those in use come first
    assert [code.startswith("aws-") for code in list(found)[3:]] == [True] * 6 + [False] * 32  # legacy codes come last
    assert found["ams (closest)"][:2] == ["Amsterdam, Netherlands", "default (primary)"]
    assert found["nrt"][:2] == ["Tokyo, Japan", "logs (primary), shop (replica)"]
    assert found["arn"] == ["Stockholm, Sweden", "–", ""]
    assert labels(panel) == ["ams (primary, closest)", "fra (primary)", "nrt (primary)"]
    words = (
        "World map of all groups: primary at ams, fra, nrt; closest to the service is ams. The table below lists the "
        "same data."
    )
    assert picture(panel).get("aria-label") == words
    titles = [title.text for title in picture(panel).iter("title")]
    assert "Tokyo, Japan (nrt): logs (primary), shop (replica)" in titles
    assert "Stockholm, Sweden (arn): not in use" in titles


def test_one_group_on_the_map(page, world):
    panel = page("locations")
    assert panel.options("Show group") == ["", "default", "logs", "shop"]
    panel.choose("Show group", "shop")
    assert labels(panel) == ["fra (primary)", "nrt"]
    assert ">not in this group<" in panel.panel.map.value
    words = "World map of group shop: primary at fra; replicas at nrt; closest to the service is ams."
    assert picture(panel).get("aria-label").startswith(words)
    assert panel.html.count("ams (primary, closest)") == 1  # saved notebooks show all groups
    world.delete_group("shop")
    until(lambda: labels(panel) == ["ams (primary, closest)", "nrt (primary)"])
    assert "not in this group" not in panel.panel.map.value
    assert panel.options("Show group") == ["", "default", "logs"]


def test_a_location_is_added_to_a_group(page, world, session):
    panel = page("locations")
    panel.click("Add syd to a group")
    assert "Sydney, Australia (syd)" in panel.words
    assert panel.options("Add to group") == ["default", "logs", "shop"]
    panel.choose("Add to group", "shop")
    panel.submit("Add syd")
    panel.wait("Group shop is in fra, nrt, syd.")
    panel.wait("The database of shop is ready at syd.")
    assert "%pipedb add-location shop syd" in panel.words
    until(lambda: rows(panel)["syd"][1] == "shop (replica)")
    assert "syd" in labels(panel)
    panel.click("Add syd to a group")
    assert panel.options("Add to group") == ["default", "logs"]
    panel.escape()
    assert not panel.has_field("Add to group")


def test_a_location_that_every_group_has_cannot_be_added_again(page, world):
    panel = page("locations")
    panel.click("Add nrt to a group")
    assert panel.options("Add to group") == ["default"]
    world.add_location("default", "nrt")  # while the form is open
    panel.wait("Tokyo, Japan (nrt): every group already has it.")
    assert not panel.can("Add nrt")
    assert not panel.has_field("Add to group")
    panel.click("Cancel")
    assert "every group already has it" not in panel.words
    assert "Add nrt to a group" not in panel.buttons


def test_the_latency_is_measured(page, world):
    panel = page("locations")
    panel.click("Measure latency")
    panel.wait("Measured 3 locations: median of five small requests to a database at each.")
    found = rows(panel)
    for code in ("ams (closest)", "fra", "nrt"):
        assert re.fullmatch(r"\d+(\.\d)? ms", found[code][2])
    assert found["arn"][2] == "–"
    assert "%pipedb locations --latency" in panel.words
    assert " ms" not in panel.text + panel.html


def test_without_a_group(page, session):
    session.organization.delete_group("default")
    panel = page("locations")
    assert "No group exists yet, so no location is in use." in panel.words
    assert labels(panel) == []
    assert "Add fra to a group" not in panel.buttons


def test_html_and_text_have_all_locations(page, world):
    panel = page("locations")
    lines = panel.text.splitlines()
    assert [re.sub("  +", " | ", line) for line in lines[:5]] == [
        "Locations",
        " | Code | Place | In use by",
        " | ams (closest) | Amsterdam, Netherlands | default (primary)",
        " | fra | Frankfurt, Germany | shop (primary)",
        " | nrt | Tokyo, Japan | logs (primary), shop (replica)",
    ]
    assert len(lines) == 43
    assert panel.html.count("<svg") == 1
    assert panel.html.count("<tr>") == 42
    assert "Measure" not in panel.html


def test_on_a_hosted_service(hosted):
    shapes = Shapes(locations="regions", more_locations=as_json(STARTER, 402))
    _api, session = hosted(shapes)
    first, second = list(shapes.places)[:2]
    session.organization.create_group("edge", first)
    session.organization.create_database("flights", "edge")
    panel = PanelPage(open_panel(session, "locations"))
    assert labels(panel) == [f"{first} (primary)"]
    assert "closest" not in panel.words
    assert "At this service, a group has one location: adding others is deprecated there." in panel.words
    assert f"Add {second} to a group" not in panel.buttons
    groups = PanelPage(open_panel(session, "groups"))
    assert groups.rows("Groups")[0][:3] == ["edge", f"{shapes.places[first]} ({first})", "1 database\nflights"]
    assert "Replicas" not in groups.text
    assert not groups.can("Add a location to edge")
    with pytest.raises(ServerError, match="this feature is not available for starter plans") as caught:
        session.organization.add_location("edge", second)
    assert caught.value.hint.startswith("the hosted service has deprecated more than one location")
    panel.click("Measure latency")
    panel.wait("Measured 1 location:")
    assert labels(panel) == [f"{first} (primary)"]


def test_a_location_without_coordinates(hosted):
    api, session = hosted(Shapes())
    api.refuse(
        "GET /v1/locations", as_json({"locations": {"ams": "Amsterdam", "us-east-1": "Virginia", "local": "Here"}})
    )
    panel = PanelPage(open_panel(session, "locations"))
    assert list(rows(panel)) == ["ams", "local", "us-east-1"]
    assert "Not on the map because their coordinates are unknown: local." in panel.words
    titles = [title.text for title in picture(panel).iter("title")]
    assert titles[:2] == ["Amsterdam (ams): not in use", "Virginia (us-east-1): not in use"]
    assert "Not on the map" in panel.text
