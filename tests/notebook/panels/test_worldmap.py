"""The world map: positions, shapes and labels of locations."""

from __future__ import annotations

import itertools
import json
from math import isclose
from xml.etree import ElementTree

import pytest

from pipemagic.geography import COORDINATES, Point, whereabouts
from pipemagic.notebook.panels import worldmap
from pipemagic.notebook.panels.worldmap import CHARACTER, LINE, WIDTH, Mark, Rectangle, draw
from pipemagic.service.locations import LOCATIONS

THREE_GROUPS = ["ams", "lhr", "cdg", "fra", "ewr", "iad", "bos", "nrt", "syd"]
CROWDED = ["lhr", "ams", "cdg", "fra", "bos", "ewr", "iad", "gdl", "qro", "gig", "gru", "yul", "yyz", "sjc", "lax"]
BOTTOM = worldmap._project(Point(worldmap.SOUTH, 0))[1]
LEGEND_WORDS = {*worldmap.KINDS, worldmap.NOT_IN_USE, worldmap.CLOSEST}


def marks_of(used, closest="ams"):
    kinds = {code: "replica" if number % 3 else "primary" for number, code in enumerate(used)}
    return [
        Mark(code, whereabouts(code), kinds.get(code, "free"), code == closest, f"about {code}") for code in LOCATIONS
    ]


class Drawn:
    """The content of a picture: its marks, labels and legend."""

    def __init__(self, marks, words="words", **options):
        self.svg = draw(marks, words, **options)
        self.root = ElementTree.fromstring(self.svg)
        shapes = [self._shape(group) for group in self.root.iter("g")]
        texts = [(text.text, self._box(text)) for text in self.root.iter("text")]
        self.marks = {words: box for words, _, box in shapes if words not in LEGEND_WORDS}
        self.kinds = {words: tags for words, tags, _ in shapes}
        self.labels = {words: box for words, box in texts if box.bottom <= BOTTOM + 0.1}
        self.legend = {words: box for words, box in texts if box.bottom > BOTTOM + 0.1}

    @staticmethod
    def _shape(group):
        title, *shapes = group
        edges = []
        for shape in shapes:
            if shape.tag == "circle":
                x, y, r = (float(shape.get(name)) for name in ("cx", "cy", "r"))
                edges += [(x - r, y - r), (x + r, y + r)]
            else:
                edges += [tuple(map(float, point.split(","))) for point in shape.get("points").split(" ")]
        across, down = zip(*edges, strict=True)
        tags = [f"ring {shape.tag}" if shape.get("fill") == "none" else shape.tag for shape in shapes]
        return title.text, tags, Rectangle(min(across), min(down), max(across), max(down))

    @staticmethod
    def _box(text):
        x, y, width = float(text.get("x")), float(text.get("y")), CHARACTER * len(text.text)
        left = x - width / 2 if text.get("text-anchor") == "middle" else x
        return Rectangle(left, y + 4 - LINE, left + width, y + 4)


def check_labels(drawn):
    """Fail where a label covers another one or a mark, or leaves the picture."""
    inside = {
        words: Rectangle(a + 0.2, b + 0.2, c - 0.2, d - 0.2) for words, (a, b, c, d) in drawn.labels.items()
    }  # rounded
    assert [pair for pair in itertools.combinations(inside, 2) if inside[pair[0]].overlaps(inside[pair[1]])] == []
    assert [(a, b) for a in inside for b, mark in drawn.marks.items() if inside[a].overlaps(mark)] == []
    assert all(a >= 0 and b >= 0 and c <= WIDTH and d <= BOTTOM for a, b, c, d in inside.values())


@pytest.mark.parametrize("used", [[], ["ams"], THREE_GROUPS, CROWDED, [*LOCATIONS]], ids=len)
def test_labels_cover_nothing_and_only_locations_in_use_have_one(used):
    drawn = Drawn(marks_of(used))
    check_labels(drawn)
    labelled = sorted(label.partition(" ")[0] for label in drawn.labels)
    assert labelled == sorted(used) if len(used) < len(LOCATIONS) else len(labelled) > 25


def test_a_label_without_room_is_omitted():
    crowd = [Mark(f"a-long-code-{n}", Point(50, 10), "primary", False, f"{n}") for n in range(60)]
    drawn = Drawn(crowd)
    assert 0 < len(drawn.labels) < 60
    check_labels(drawn)


def test_primary_replica_closest_and_other_locations_have_different_shapes():
    drawn = Drawn(marks_of(["ams", "fra"], closest="nrt"))
    assert drawn.root.get("aria-label") == "words"
    assert drawn.root.get("role") == "img"
    assert [drawn.kinds[f"about {code}"] for code in ("ams", "fra", "nrt", "syd")] == [
        ["polygon"], ["circle"], ["circle", "ring circle"], ["circle"],
    ]  # fmt: skip
    widths = [box.right - box.left for box in (drawn.marks["about fra"], drawn.marks["about syd"])]
    assert widths[0] > widths[1]
    assert list(drawn.labels) == ["ams (primary)", "fra"]
    assert list(drawn.legend) == ["primary", "replica", "not in use", "closest to the service"]


def test_names_are_escaped():
    drawn = Drawn([Mark("<x>&", Point(0, 0), "primary", False, "<script>\x00")], '"quoted" <b>')
    assert "<script>" not in drawn.svg
    assert "<b>" not in drawn.svg
    assert list(drawn.labels) == ["<x>& (primary)"]
    assert drawn.root.get("aria-label") == '"quoted" <b>'


def test_the_projection_is_equal_earth():
    # The values of the published polynomial at the pole and on the equator.
    assert isclose(worldmap._equal_earth(90, 0)[1], 1.3173627591574, abs_tol=1e-9)
    assert isclose(worldmap._equal_earth(0, 180)[0], 2.7066299836960, abs_tol=1e-9)
    assert worldmap._project(Point(0, worldmap.MIDDLE))[0] == WIDTH / 2


def test_every_location_is_drawn_at_its_place_on_the_map():
    marks = marks_of([])
    drawn = Drawn(marks)
    for mark in marks:
        left, top, right, bottom = drawn.marks[mark.description]
        assert ((left + right) / 2, (top + bottom) / 2) == pytest.approx(worldmap._project(mark.at), abs=0.06)
        assert left >= 0
        assert top >= 0
        assert right <= WIDTH
        assert bottom <= BOTTOM


def test_the_outline_is_small_and_has_no_line_across_the_map():
    rings = json.loads(worldmap.LAND.read_text("utf-8"))
    assert worldmap.LAND.stat().st_size < 12_000
    for ring in rings:
        assert len(ring) % 2 == 0
        assert max(abs(b - a) for a, b in itertools.pairwise(ring[::2])) < 600  # tenths of degrees
    assert len(draw([], "")) < 13_000  # saved in every notebook with the panel


def test_coordinates():
    assert set(LOCATIONS) <= set(COORDINATES)
    assert list(COORDINATES) == sorted(COORDINATES)
    assert whereabouts("us-east-1") == whereabouts("aws-us-east-1") == Point(39.04, -77.49)
    assert whereabouts("eu-west-3") == Point(48.86, 2.35)
    assert whereabouts("local") is None
