"""A world map with locations, as SVG. Locations in use are labelled.

The projection is Equal Earth (Šavrič, Patterson and Jenny, 2018), centred on 10 degrees east. The outline in
land.json is the land of Natural Earth at 1:110 million (https://www.naturalearthdata.com, in the public domain), as in
the npm package world-atlas 2.0.2. It has no Antarctica, no islands of less than 4 square degrees, and only the points
that change it by more than 0.6 degrees; each ring lists tenths of degrees: longitude, latitude, longitude, ...
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import asin, cos, radians, sin, sqrt
from pathlib import Path
from typing import Literal, NamedTuple

from pipemagic import svg
from pipemagic.geography import Point

LAND = Path(__file__).parent / "land.json"
WIDTH = 640.0
MIDDLE, NORTH, SOUTH = 10.0, 79.0, -57.0
"""Degrees: the central meridian, and the northern and southern edges of the map."""

CHARACTER, LINE = 6.8, 14.0
"""Width and height of a character in labels, rounded up."""

LEGEND = 26.0
"""Height of the legend below the map."""

Kind = Literal["primary", "replica", "free"]
KINDS: tuple[Kind, ...] = ("primary", "replica", "free")
NOT_IN_USE, CLOSEST = "not in use", "closest to the service"

REACH: dict[Kind, float] = {"primary": 6.5, "replica": 4.5, "free": 2.4}
RING = 9.5
"""The radius of each shape, and of the ring around the closest location."""

DIRECTIONS = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1))
DISTANCES = (2.0, 14.0, 28.0, 44.0)


class Rectangle(NamedTuple):
    """A rectangle of the picture."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Rectangle) -> bool:
        """Return True if the interiors of the two rectangles intersect."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )  # fmt: skip


@dataclass(frozen=True)
class Mark:
    """A location on the map; ``description`` is its text for screen readers."""

    code: str
    at: Point
    kind: Kind
    closest: bool
    description: str

    @cached_property
    def place(self) -> tuple[float, float]:
        """Its position in the picture."""
        return _project(self.at)

    @property
    def reach(self) -> float:
        """Its radius."""
        return RING if self.closest else REACH[self.kind]

    @property
    def box(self) -> Rectangle:
        """The rectangle around it."""
        (x, y), reach = self.place, self.reach
        return Rectangle(x - reach, y - reach, x + reach, y + reach)

    @property
    def label(self) -> str:
        """The text beside it; '' for a location that is not in use."""
        roles = ", ".join(["primary"] * (self.kind == "primary") + ["closest"] * self.closest)
        return "" if self.kind == "free" else f"{self.code} ({roles})" if roles else self.code


def draw(marks: Sequence[Mark], description: str, *, free: str = NOT_IN_USE) -> str:
    """Return the map; ``description`` is the text for screen readers, ``free`` that of unused locations."""
    marks = sorted(marks, key=lambda mark: KINDS.index(mark.kind), reverse=True)  # primaries on top
    bottom = _project(Point(SOUTH, 0))[1]
    attributes = {
        "viewBox": f"0 0 {WIDTH:g} {bottom + LEGEND:.1f}", "role": "img", "aria_label": description, "class": "pm-map",
        "style": "display: block; margin: 0 auto; max-width: 820px; width: 100%",
    }  # fmt: skip
    land = svg.element("path", {"d": _land(), "fill": svg.SHADE, "stroke": svg.LINE, "stroke_width": 0.5})
    shapes = [_shape(mark.kind, mark.closest, *mark.place, mark.description) for mark in marks]
    labels = [
        _text((box.left + box.right) / 2, box.bottom - 4, mark.label, "middle") for mark, box in _labels(marks, bottom)
    ]
    return svg.element("svg", attributes, land, *shapes, *labels, *_legend(marks, free, bottom + LEGEND - 8))


def _legend(marks: Sequence[Mark], free: str, y: float) -> Iterator[str]:
    """Yield the legend for the shapes on the map."""
    entries: list[tuple[Kind, bool, str]] = [
        (kind, False, free if kind == "free" else kind) for kind in KINDS if any(mark.kind == kind for mark in marks)
    ]
    if any(mark.closest for mark in marks):
        entries.append(("free", True, CLOSEST))
    x = (WIDTH - sum(CHARACTER * len(label) + 40 for *_, label in entries)) / 2
    for kind, closest, label in entries:
        yield _shape(kind, closest, x + 10, y - 4, label)
        yield _text(x + 24, y, label, "start")
        x += CHARACTER * len(label) + 40


def _shape(kind: Kind, closest: bool, x: float, y: float, words: str) -> str:
    center, color = {"cx": f"{x:.1f}", "cy": f"{y:.1f}"}, svg.FAINT if kind == "free" else svg.ACCENT
    parts = [svg.element("title", {}, svg.escaped(words))]
    if kind == "primary":
        reach = REACH[kind]
        parts.append(svg.polygon([(x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y)], fill=color))
    else:
        parts.append(svg.element("circle", {**center, "r": REACH[kind], "fill": color}))
    if closest:
        ring = {"fill": "none", "stroke": svg.INK, "stroke_dasharray": "3 1.5"}
        parts.append(svg.element("circle", {**center, "r": RING, **ring}))
    return svg.element("g", {}, *parts)


def _text(x: float, y: float, words: str, anchor: str) -> str:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text_anchor": anchor}
    return svg.element("text", {**place, "fill": svg.INK, "font_size": 11}, svg.escaped(words))


def _labels(marks: Sequence[Mark], bottom: float) -> Iterator[tuple[Mark, Rectangle]]:
    """Yield the positions of labels, which cover nothing; omit labels without room."""
    covered = [mark.box for mark in marks]
    for mark in reversed(marks):
        free = (box for box in _boxes(mark, bottom) if not any(map(box.overlaps, covered)))
        if mark.label and (place := next(free, None)) is not None:
            covered.append(place)
            yield mark, place


def _boxes(mark: Mark, bottom: float) -> Iterator[Rectangle]:
    """Yield candidate rectangles for a label, best first."""
    (x, y), width = mark.place, CHARACTER * len(mark.label) + 4
    for distance in DISTANCES:
        for right, down in DIRECTIONS:
            u = x + right * (mark.reach + distance + width / 2)
            v = y + down * (mark.reach + distance + LINE / 2)
            box = Rectangle(u - width / 2, v - LINE / 2, u + width / 2, v + LINE / 2)
            if box.left >= 0 and box.top >= 0 and box.right <= WIDTH and box.bottom <= bottom:
                yield box


def _project(at: Point) -> tuple[float, float]:
    """Return the position of a point on the map."""
    x, y = _equal_earth(at.latitude, at.longitude - MIDDLE)
    scale = WIDTH / (2 * _equal_earth(0, 180)[0])
    return WIDTH / 2 + scale * x, scale * (_equal_earth(NORTH, 0)[1] - y)


def _equal_earth(latitude: float, longitude: float) -> tuple[float, float]:
    """Project degrees with the published polynomial; return x and y in Earth radii."""
    a, b, c, d = 1.340264, -0.081106, 0.000893, 0.003796
    theta = asin(sqrt(3) / 2 * sin(radians(latitude)))
    square, sixth = theta**2, theta**6
    slope = a + 3 * b * square + sixth * (7 * c + 9 * d * square)
    up = theta * (a + b * square + sixth * (c + d * square))
    return 2 * sqrt(3) * radians(longitude) * cos(theta) / (3 * slope), up


@cache
def _land() -> str:
    """Return the outline as SVG path data."""
    return "".join(_ring(ring) for ring in json.loads(LAND.read_text("utf-8")))


def _ring(tenths: Sequence[int]) -> str:
    """Return a closed line; ``tenths`` are alternating longitudes and latitudes in tenths of degrees."""
    places = [_project(Point(y / 10, x / 10)) for x, y in zip(tenths[::2], tenths[1::2], strict=True)]
    return f"M{'L'.join(f'{x:.1f} {y:.1f}' for x, y in places)}z"
