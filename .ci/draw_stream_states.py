"""Draw the states of a stream and of its transaction from the tables in ``pipemagic/hrana/stream.py``.

Run it as ``python .ci/draw_stream_states.py`` after a change of the tables. It writes a picture of
``docs/analysts/transactions.md``; a test compares the picture with the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pipemagic import svg
from pipemagic.hrana.stream import ENDS, PHASES, TRANSACTIONS, Phase, Tx

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "stream-states.svg"

WIDTH, MARGIN, TITLE, ROW, GAP = 720, 16, 34, 26, 10
SIDE, MIDDLE = 104, 150
"""Widths of the states at the sides and in the middle, in pixels."""

Table = Mapping[tuple[Enum, Enum], Enum]


class Machine(NamedTuple):
    """A table and its picture: a state at each side, as high as the picture, and the others between them."""

    title: str
    table: Table
    left: Enum
    right: Enum
    fill: str
    stroke: str


MACHINES = (
    Machine("The stream", PHASES, Phase.IDLE, Phase.IN_USE, "#dbeafe", "#1d4ed8"),
    Machine("Its transaction", TRANSACTIONS, Tx.NONE, Tx.OPEN, "#fde68a", "#b45309"),
)


class Arrow(NamedTuple):
    """A line in a picture: where it begins and ends (pixels from the left), its row, and its events."""

    start: float
    end: float
    row: int
    events: str


def draw() -> str:
    """Return the picture."""
    parts, top = [], MARGIN
    for machine in MACHINES:
        drawn, height = _machine(machine, top)
        parts += drawn
        top += height + 2 * MARGIN
    for line in _ends():
        parts.append(svg.text(MARGIN, top, line))
        top += ROW
    title = "; ".join(_sentence(machine) for machine in MACHINES)
    return svg.picture(WIDTH, top, title, *parts, on_white=True) + "\n"


def _machine(machine: Machine, top: float) -> tuple[list[str], float]:
    """Return the elements of a machine, and their height."""
    bars = (MARGIN, WIDTH - MARGIN - SIDE)
    across = _arrows(machine, machine.left, machine.right, bars[0] + SIDE, bars[1], 0)
    parts, rows, begin = [], len({arrow.row for arrow in across}), (WIDTH - MIDDLE) / 2
    arrows = list(across)
    for state in _between(machine):
        found = [
            *_arrows(machine, machine.left, state, bars[0] + SIDE, begin, rows),
            *_arrows(machine, state, machine.right, begin + MIDDLE, bars[1], rows),
        ]
        count = max(2, max(arrow.row for arrow in found) + 1 - rows)
        parts += _state(machine, state, begin, top + TITLE + rows * ROW + GAP / 2, MIDDLE, count * ROW - GAP)
        arrows, rows = [*arrows, *found], rows + count
    if sum(len(arrow.events.split(", ")) for arrow in arrows) != len(machine.table):
        raise ValueError(f"a line of the table of {machine.title.lower()} has no place in the picture")
    height = rows * ROW
    for state, left in zip((machine.left, machine.right), bars, strict=True):
        parts += _state(machine, state, left, top + TITLE, SIDE, height)
    parts += [element for arrow in arrows for element in _arrow(arrow, top + TITLE)]
    return [svg.text(MARGIN, top + 14, machine.title, weight="bold"), *parts], TITLE + height


def _between(machine: Machine) -> list[Enum]:
    """Return the states that are neither at the left nor at the right."""
    return [state for state in type(machine.left) if state not in (machine.left, machine.right)]


def _arrows(machine: Machine, left: Enum, right: Enum, start: float, end: float, row: int) -> list[Arrow]:
    """Return the arrows between two states, each in a row of its own from ``row`` on."""
    there, back = _events(machine.table, left, right), _events(machine.table, right, left)
    lines = [(start, end, events) for events in there] + [(end, start, events) for events in back]
    return [Arrow(first, last, row + number, events) for number, (first, last, events) in enumerate(lines)]


def _events(table: Table, start: Enum, end: Enum) -> list[str]:
    """Return the events that lead from one state to the other, as one text; none if there are no such events."""
    events = [event.value for (state, event), after in table.items() if (state, after) == (start, end)]
    return [", ".join(events)] if events else []


def _state(machine: Machine, state: Enum, left: float, top: float, width: float, height: float) -> list[str]:
    box = {"x": left, "y": top, "width": width, "height": height, "rx": 5}
    drawn = svg.element("rect", {**box, "fill": machine.fill, "stroke": machine.stroke})
    return [drawn, svg.text(left + width / 2, top + height / 2 + 4, state.value, anchor="middle", weight="bold")]


def _arrow(arrow: Arrow, top: float) -> Iterator[str]:
    y, back = top + (arrow.row + 0.5) * ROW + 4, 7 if arrow.end > arrow.start else -7
    yield svg.line([(arrow.start, y), (arrow.end - back, y)], stroke=svg.INK)
    yield svg.polygon([(arrow.end, y), (arrow.end - back, y - 4), (arrow.end - back, y + 4)], fill=svg.INK)
    yield svg.text((arrow.start + arrow.end) / 2, y - 4, arrow.events, anchor="middle")


def _ends() -> Iterator[str]:
    """Yield what the end of a stream means for its transaction, as lines."""
    pairs = sorted(((end.value, event.value) for event, end in ENDS.items()), key=lambda pair: pair[0])
    for end, group in groupby(pairs, key=lambda pair: pair[0]):
        yield f"{' and '.join(event for _, event in group)} of the stream: {end} of an open transaction"


def _sentence(machine: Machine) -> str:
    """Return the table as text, for screen readers."""
    lines = [f"{state.value}, {event.value}: {after.value}" for (state, event), after in machine.table.items()]
    return f"{machine.title}: {'; '.join(lines)}"


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
