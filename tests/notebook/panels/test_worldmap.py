"""The map of the world: where points are, which shapes there are, labels that do not collide."""

from __future__ import annotations

import itertools
import json
from math import isclose

import pytest

from pipemagic.geography import COORDINATES, Point, whereabouts
from pipemagic.notebook.panels.ground import faces
from pipemagic.notebook.panels.locations import worldmap
from pipemagic.notebook.panels.locations.labels import Box, Wanted, placed
from pipemagic.notebook.panels.locations.worldmap import CHARACTER, LINE, SIZES, Mark, world_map
from pipemagic.service.locations import LOCATIONS

CROWDED = ["lhr", "ams", "cdg", "fra", "bos", "ewr", "iad", "gdl", "qro", "gig", "gru", "yul", "yyz", "sjc", "lax"]
USES = {
    "nothing": [],
    "one": ["ams"],
    "three groups": ["ams", "lhr", "cdg", "fra", "ewr", "iad", "bos", "nrt", "syd"],
    "where it is crowded": CROWDED,
    "all": [*LOCATIONS],
}


def marks(used, here="ams"):
    kinds = {code: "replica" if number % 3 else "primary" for number, code in enumerate(used)}
    return [
        Mark(code, whereabouts(code), kinds.get(code, "free"), code == here, f"about {code}", ("choose", code))
        for code in LOCATIONS
    ]


def spots(used, size):
    return [(mark, *worldmap._project(mark.at, SIZES[size])) for mark in marks(used)]


def frame(size):
    return Box(0, 0, SIZES[size], worldmap._height(SIZES[size]))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("used", USES.values(), ids=USES)
def test_labels_do_not_overlap_nor_leave_the_picture(used, size):
    labels = worldmap.labels(spots(used, size), frame(size).right, frame(size).bottom)
    assert not [(a.words, b.words) for a, b in itertools.combinations(labels, 2) if a.box.overlaps(b.box)]
    assert [label.words for label in labels if not frame(size).holds(label.box)] == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("used", [USES["one"], USES["three groups"], CROWDED], ids=["one", "three groups", "crowded"])
def test_no_label_covers_a_marker(used, size):
    labels = worldmap.labels(spots(used, size), frame(size).right, frame(size).bottom)
    covered = [
        (one.words, box) for one in labels for box in worldmap.markers(spots(used, size)) if one.box.overlaps(box)
    ]
    assert covered == []


def test_what_is_in_use_or_here_has_a_label_and_nothing_else():
    labels = worldmap.labels(spots(CROWDED, "wide"), frame("wide").right, frame("wide").bottom)
    assert sorted(label.words.partition(" ")[0] for label in labels) == sorted(CROWDED)
    assert "ams (here)" in [label.words for label in labels]
    assert "lhr (primary)" in [label.words for label in labels]
    assert [one.words for one in worldmap.labels(spots([], "narrow"), 380, 160)] == ["ams (here)"]


def test_the_wide_map_has_room_for_the_labels_of_all():
    assert len(worldmap.labels(spots([*LOCATIONS], "wide"), frame("wide").right, frame("wide").bottom)) == 41


def test_a_label_that_has_no_room_is_left_out():
    wanted = [Wanted(10, 10, 2, ("first",)), Wanted(10, 10, 2, ("second", "other"))]
    narrow = Box(0, 0, 60, 20)
    labels = placed(wanted, [], narrow, character=8, height=16)
    assert [label.words for label in labels] == ["first"]


def test_a_label_says_less_before_it_covers_a_marker():
    markers = [Box.around(50, 50, 4, 4), Box(70, 0, 200, 100)]
    (label,) = placed(
        [Wanted(50, 50, 2, ("ams (primary)", "ams"))], markers, Box(0, 40, 200, 60), character=8, height=8
    )
    assert label.words == "ams"
    assert not any(label.box.overlaps(marker) for marker in markers)


def test_primary_replica_here_and_the_others_have_shapes_of_their_own():
    drawn = world_map(marks(["ams", "fra"], here="nrt"), "words")
    wide = next(node for node in drawn.walk() if node.tag == "svg" and node.attributes.get("class") == "pm-wide")
    assert wide.attributes["aria-label"] == "words"
    shapes = {
        node.attributes["aria-label"]: [
            one.tag + " " + one.attributes["class"] for one in node.children if one.tag != "title"
        ]
        for node in wide.walk()
        if node.attributes.get("class") == "pm-mark"
    }
    hit = "circle pm-hit"
    assert shapes["ams on the map"] == [hit, "polygon pm-primary"]
    assert shapes["fra on the map"] == [hit, "circle pm-replica"]
    assert shapes["nrt on the map"] == ["circle pm-here", hit, "circle pm-free"]
    legend = next(node for node in drawn.walk() if node.tag == "figcaption")
    assert [node.words for node in legend.children] == [
        "primary",
        "replica",
        "not in use",
        "here: closest to the service",
    ]


def test_the_legend_explains_only_what_is_there():
    legend = next(node for node in world_map(marks([], here=""), "words").walk() if node.tag == "figcaption")
    assert [node.words for node in legend.children] == ["not in use"]


def test_the_saved_picture_is_escaped_and_acts_no_more():
    mark = Mark("<x>", Point(0, 0), "primary", False, "<script>", ("choose", "<x>"))
    html = faces.html(world_map([mark], '"quoted"'))
    assert "<script>" not in html
    assert "<x>" not in html
    assert "&lt;x&gt; (primary)" in html
    assert "choose" not in html
    assert faces.text(world_map([mark], "words")) == ""


def test_the_projection_is_equal_earth():
    # The values of the published polynomial at the pole and on the equator.
    assert isclose(worldmap._equal_earth(90, 0)[1], 1.3173627591574, abs_tol=1e-9)
    assert isclose(worldmap._equal_earth(0, 180)[0], 2.7066299836960, abs_tol=1e-9)
    assert worldmap._project(Point(0, worldmap.MIDDLE), 640)[0] == 320


def test_every_location_is_on_the_map():
    for size in SIZES:
        assert [m.code for m, x, y in spots([], size) if not frame(size).holds(Box.around(x, y, 8, 8))] == []


def test_the_outline_is_small_and_goes_nowhere_twice():
    rings = json.loads(worldmap.LAND.read_text("utf-8"))
    assert worldmap.LAND.stat().st_size < 12_000
    for ring in rings:
        assert len(ring) % 2 == 0
        jumps = [abs(b - a) for a, b in itertools.pairwise(ring[::2])]
        assert max(jumps) < 600  # tenths of degrees: none across the whole map
    assert len(worldmap._land(640.0)) < 8000


def test_coordinates():
    assert set(LOCATIONS) <= set(COORDINATES)
    assert list(COORDINATES) == sorted(COORDINATES)
    assert whereabouts("us-east-1") == whereabouts("aws-us-east-1") == Point(39.04, -77.49)
    assert whereabouts("eu-west-3") == Point(48.86, 2.35)
    assert whereabouts("local") is None
    assert CHARACTER < LINE


@pytest.mark.parametrize("size", SIZES)
def test_every_marker_is_drawn_at_its_place(size):
    picture = world_map(marks([]), "the world").children[list(SIZES).index(size)]
    drawn = {
        mark.attributes["key"]: (float(hit.attributes["cx"]), float(hit.attributes["cy"]))
        for mark in picture.walk()
        if mark.attributes.get("class") == "pm-mark"
        for hit in mark.walk()
        if hit.attributes.get("class") == "pm-hit"
    }
    assert drawn == {
        mark.code: (pytest.approx(x, abs=0.06), pytest.approx(y, abs=0.06)) for mark, x, y in spots([], size)
    }
