"""A map of the world with locations on it, drawn as a tree: shapes for what a location is, labels that do not collide.

The projection is Equal Earth (Šavrič, Patterson and Jenny, 2018), with 10 degrees east in the middle: so no land but
Antarctica, which has no locations, is cut. The outline in land.json is made by .ci/outline.py from Natural Earth, which
is in the public domain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import asin, cos, radians, sin, sqrt
from pathlib import Path
from typing import Literal

from pipemagic.geography import Point
from pipemagic.notebook.panels.ground.tree import Action, Node, h
from pipemagic.notebook.panels.locations.labels import Box, Label, Wanted, placed

LAND = Path(__file__).parent / "land.json"

MIDDLE = 10.0
NORTH, SOUTH = 79.0, -57.0
"""Degrees east and north: the middle of the map, and what it shows."""

SIZES = {"wide": 640.0, "narrow": 380.0}
"""How many units wide each map is. A page shows the one that fits it: texts have the same size in both."""

CHARACTER, LINE = 6.8, 14.0
"""How wide and high a character of a label is, at most, in units."""

REACH = {"primary": 6.5, "replica": 4.5, "free": 2.4}
HERE = 9.5
"""How far the shape of each kind, and the ring around ``here``, reach from their middle, in units."""

Kind = Literal["primary", "replica", "free"]


@dataclass(frozen=True)
class Mark:
    """A location on the map. ``words`` tell all about it; ``action`` is what a click on it does."""

    code: str
    at: Point
    kind: Kind
    here: bool
    words: str
    action: Action

    @property
    def label(self) -> str:
        """What stands beside it; '' if it has no label."""
        roles = ", ".join(["primary"] * (self.kind == "primary") + ["here"] * self.here)
        if roles:
            return f"{self.code} ({roles})"
        return self.code if self.kind == "replica" else ""

    @property
    def reach(self) -> float:
        """How far it reaches from its middle, in units."""
        return HERE if self.here else REACH[self.kind]


def world_map(marks: Sequence[Mark], words: str, *, free: str = "not in use") -> Node:
    """Give the map in both sizes, and what its shapes mean; ``words`` tell those who do not see it what it shows.

    ``free`` is what the dots stand for.
    """
    # Locations in use are drawn last: over the others.
    ordered = tuple(sorted(marks, key=lambda mark: ("free", "replica", "primary").index(mark.kind)))
    return h("figure", [_picture(size, ordered, words) for size in SIZES], _legend(ordered, free), class_="pm-map")


@lru_cache(maxsize=16)
def _picture(size: str, marks: tuple[Mark, ...], words: str) -> Node:
    width = SIZES[size]
    height = round(_height(width), 1)
    spots = [(mark, *_project(mark.at, width)) for mark in marks]
    return h(
        "svg",
        h("path", d=_land(width), class_="pm-land"),
        h("path", d=_graticule(width), class_="pm-graticule"),
        list(_labels(spots, width, height)),
        [_marker(mark, x, y, size) for mark, x, y in spots],
        viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=words, class_=f"pm-{size}", key=size,
    )  # fmt: skip


def _legend(marks: Sequence[Mark], free: str) -> Node:
    kinds = {mark.kind for mark in marks}
    told = [
        ("primary", "primary", "primary" in kinds),
        ("replica", "replica", "replica" in kinds),
        ("free", free, "free" in kinds),
        ("here", "here: closest to the service", any(mark.here for mark in marks)),
    ]
    items = [
        h("span", h("svg", _shape(kind, 11, 11), viewBox="0 0 22 22", aria_hidden="true"), words, key=kind)
        for kind, words, is_there in told
        if is_there
    ]
    return h("figcaption", items, class_="pm-legend", aria_hidden="true")


def _marker(mark: Mark, x: float, y: float, size: str) -> Node:
    name = f"{mark.code} on the map" if size == "wide" else f"{mark.code} on the small map"
    return h(
        "g",
        h("title", mark.words),
        _shape("here", x, y) if mark.here else None,
        h("circle", cx=_short(x), cy=_short(y), r=7, class_="pm-hit"),
        _shape(mark.kind, x, y),
        class_="pm-mark", aria_label=name, key=mark.code, on={"click": list(mark.action)},
    )  # fmt: skip


def _shape(kind: str, x: float, y: float) -> Node:
    """Give a diamond, a disc, a dot, or a ring."""
    if kind == "primary":
        reach = REACH[kind]
        around = [(x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y)]
        return h("polygon", points=" ".join(f"{_short(u)},{_short(v)}" for u, v in around), class_="pm-primary")
    reach = HERE if kind == "here" else REACH[kind]
    return h("circle", cx=_short(x), cy=_short(y), r=reach, class_=f"pm-{kind}")


def _labels(spots: Sequence[tuple[Mark, float, float]], width: float, height: float) -> Iterator[Node]:
    for label in labels(spots, width, height):
        if label.line is not None:
            (x, y), (u, v) = label.line
            yield h("line", x1=_short(x), y1=_short(y), x2=_short(u), y2=_short(v), class_="pm-leader")
    for label in labels(spots, width, height):
        middle, base = (label.box.left + label.box.right) / 2, label.box.bottom - 0.27 * LINE
        yield h("text", label.words, x=_short(middle), y=_short(base), class_="pm-label")


def labels(spots: Sequence[tuple[Mark, float, float]], width: float, height: float) -> list[Label]:
    """Place the labels of what is in use or ``here``: those that say most first, then where it is most crowded."""
    named = [(mark, x, y) for mark, x, y in spots if mark.label]

    def crowd(x: float, y: float) -> int:
        return sum(abs(x - u) < 60 and abs(y - v) < 30 for _, u, v in named)

    named.sort(key=lambda one: (one[0].kind != "primary" and not one[0].here, -crowd(*one[1:]), one[0].code))
    wanted = [
        Wanted(x, y, mark.reach, tuple(dict.fromkeys([mark.label, mark.code]))) for mark, x, y in named
    ]  # fmt: skip
    return placed(wanted, markers(spots), Box(0, 0, width, height), character=CHARACTER, height=LINE)


def markers(spots: Sequence[tuple[Mark, float, float]]) -> list[Box]:
    """Give the boxes around the markers."""
    return [Box.around(x, y, 2 * mark.reach, 2 * mark.reach) for mark, x, y in spots]


# -- the Earth


def _project(at: Point, width: float) -> tuple[float, float]:
    """Give the place of a point in a map of that width."""
    x, y = _equal_earth(at.latitude, at.longitude - MIDDLE)
    scale = width / (2 * _equal_earth(0, 180)[0])
    return width / 2 + scale * x, scale * (_equal_earth(NORTH, 0)[1] - y)


def _height(width: float) -> float:
    return _project(Point(SOUTH, 0), width)[1]


def _equal_earth(latitude: float, longitude: float) -> tuple[float, float]:
    """Project degrees with the published polynomial: to the right and up, in radii of the Earth."""
    a, b, c, d = 1.340264, -0.081106, 0.000893, 0.003796
    theta = asin(sqrt(3) / 2 * sin(radians(latitude)))
    square = theta**2
    sixth = square**3
    slope = a + 3 * b * square + sixth * (7 * c + 9 * d * square)
    x = 2 * sqrt(3) * radians(longitude) * cos(theta) / (3 * slope)
    return x, theta * (a + b * square + sixth * (c + d * square))


@cache
def _land(width: float) -> str:
    """Give the outline as the data of a path."""
    rings = json.loads(LAND.read_text("utf-8"))
    return "".join(
        _steps([Point(y / 10, x / 10) for x, y in zip(ring[::2], ring[1::2], strict=True)], width) + "z"
        for ring in rings
    )


@cache
def _graticule(width: float) -> str:
    """Give the lines of every 30 degrees."""
    across = range(-170, 191, 30)
    meridians = [[Point(latitude, longitude) for latitude in range(-60, 81, 10)] for longitude in across]
    parallels = [[Point(latitude, -170), Point(latitude, 190)] for latitude in range(-60, 61, 30)]
    return "".join(_steps(line, width) for line in [*meridians, *parallels])


def _steps(line: Sequence[Point], width: float) -> str:
    """Give the data of a path, in half units from point to point."""
    halves = [(round(2 * x), round(2 * y)) for x, y in (_project(point, width) for point in line)]
    (x, y), written = halves[0], [f"M{halves[0][0] / 2:g} {halves[0][1] / 2:g}l"]
    for u, v in halves[1:]:
        if (u, v) != (x, y):
            written.append(f"{(u - x) / 2:g} {(v - y) / 2:g} ")
            x, y = u, v
    return "".join(written).rstrip().replace(" -", "-")


def _short(number: float) -> str:
    return f"{number:.1f}".rstrip("0").rstrip(".")
