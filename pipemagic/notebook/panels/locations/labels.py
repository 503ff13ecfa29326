"""Places for the labels of a map: beside what they name, over nothing else, inside the picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import cos, inf, pi, sin

DISTANCES = (2.0, 8.0, 16.0, 26.0, 38.0, 52.0, 68.0)
"""How far from its marker a label may be."""

DIRECTIONS = tuple((cos(2 * pi * part / 16), sin(2 * pi * part / 16)) for part in range(16))

COVERED = 1000.0
"""What it costs to cover a marker: more than any distance."""

BESIDE = 4.0
"""How much wider than its words a label is: neighbours do not touch."""

SHORTENED = 30.0
"""What it costs to say less."""

CROSSED = 40.0
"""What it costs when a label and the line to another one cross."""


@dataclass(frozen=True)
class Box:
    """A rectangle; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Tell whether they have more than an edge in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )  # fmt: skip

    def holds(self, other: Box) -> bool:
        """Tell whether another one is wholly inside."""
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.top <= other.top
            and other.bottom <= self.bottom
        )  # fmt: skip

    def nearest(self, x: float, y: float) -> tuple[float, float]:
        """Give its point that is nearest to another."""
        return min(max(x, self.left), self.right), min(max(y, self.top), self.bottom)

    @classmethod
    def around(cls, x: float, y: float, width: float, height: float) -> Box:
        """Give the one with its middle at a point."""
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


@dataclass(frozen=True)
class Wanted:
    """A label for a marker at (x, y) that reaches so far from there; ``words`` from the fullest to the shortest."""

    x: float
    y: float
    reach: float
    words: tuple[str, ...]


@dataclass(frozen=True)
class Label:
    """A label that has its place. ``line`` leads to it from its marker, where it is not right beside that."""

    words: str
    box: Box
    line: tuple[tuple[float, float], tuple[float, float]] | None


def placed(
    wanted: Sequence[Wanted], markers: Sequence[Box], frame: Box, *, character: float, height: float
) -> list[Label]:
    """Place labels, the most important first; one that has no room without covering another is left out.

    A ``character`` is so wide, a line of text has that ``height``. No marker is covered where that can be avoided.
    """
    found: list[Label] = []
    for one in wanted:
        least, best = inf, None
        for cost, label in _places(one, frame, character, height):
            if cost < least and not any(label.box.overlaps(other.box) for other in found):
                cost += _harm(label, found, markers)
                if cost < least:
                    least, best = cost, label
        if best is not None:
            found.append(best)
    return found


def _places(one: Wanted, frame: Box, character: float, height: float) -> Iterator[tuple[float, Label]]:
    """Give the places in the picture that a label can have, the better ones with less cost."""
    for shorter, words in enumerate(one.words):
        width = character * len(words) + BESIDE
        for distance in DISTANCES:
            far = one.reach + distance
            for right, down in DIRECTIONS:
                box = Box.around(one.x + right * (far + width / 2), one.y + down * (far + height / 2), width, height)
                if frame.holds(box):
                    yield distance + SHORTENED * shorter - right, Label(words, box, _line(one, box, distance))


def _line(one: Wanted, box: Box, distance: float) -> tuple[tuple[float, float], tuple[float, float]] | None:
    return ((one.x, one.y), box.nearest(one.x, one.y)) if distance > DISTANCES[1] else None


def _harm(label: Label, others: Sequence[Label], markers: Sequence[Box]) -> float:
    covered = sum(label.box.overlaps(marker) for marker in markers)
    crossed = sum(_cross(label, other) or _cross(other, label) for other in others)
    return COVERED * covered + CROSSED * crossed


def _cross(label: Label, other: Label) -> bool:
    """Tell whether the line to a label goes over another label; looked at in some points of it."""
    if label.line is None:
        return False
    (x, y), (u, v) = label.line
    points = ((x + part / 8 * (u - x), y + part / 8 * (v - y)) for part in range(9))
    return any(other.box.nearest(*point) == point for point in points)
