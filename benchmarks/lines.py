"""The lines of the table: a figure, its reference, the aim, and whether it is reached."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

MACHINE_UNITS = ("s", "KB", "MB")
"""Units of figures that depend on the machine: such a figure without a reference is never far off."""


class Of(Enum):
    """The figure of a line to which an aim applies."""

    VALUE = "value"
    RATIO = "ratio"  # ours by the reference's
    FASTER = "times faster"  # the reference's by ours


@dataclass(frozen=True)
class Aim:
    """The aim of a figure: at most or at least ``limit``."""

    limit: float
    of: Of = Of.RATIO
    at_most: bool = True

    def reached(self, figure: float) -> bool:
        """Return True if the figure reaches the aim."""
        return figure <= self.limit if self.at_most else figure >= self.limit

    def far_off(self, figure: float) -> bool:
        """Return True if the figure is not even half as good."""
        return figure > 2 * self.limit if self.at_most else figure < self.limit / 2


def at_most(limit: float) -> Aim:
    """Return an aim: ours divided by the reference's is at most this."""
    return Aim(limit)


def at_least(limit: float) -> Aim:
    """Return an aim: ours divided by the reference's is at least this."""
    return Aim(limit, at_most=False)


def faster(times: float) -> Aim:
    """Return an aim: ours is faster than the reference by at least this factor."""
    return Aim(times, Of.FASTER, at_most=False)


def below(limit: float) -> Aim:
    """Return an aim: ours is at most this, in the unit of the line."""
    return Aim(limit, Of.VALUE)


@dataclass(frozen=True)
class Line:
    """One line of the table; ``values`` and ``reference_values`` are in ``unit``, one for each round."""

    name: str
    unit: str
    values: Sequence[float]
    reference: str = ""
    reference_values: Sequence[float] | None = None
    aim: Aim | None = None

    @property
    def median(self) -> float:
        """The median of ours."""
        return statistics.median(self.values)

    @property
    def reference_median(self) -> float | None:
        """The median of the reference's."""
        return statistics.median(self.reference_values) if self.reference_values else None

    @property
    def ratio(self) -> float | None:
        """Ours divided by the reference's, or the inverse if the aim is to be faster."""
        if not self.reference_median:
            return None
        ratio = self.median / self.reference_median
        return 1 / ratio if self.aim and self.aim.of is Of.FASTER else ratio

    @property
    def judged(self) -> float | None:
        """The figure to which the aim applies; None without an aim, or without the reference that it needs."""
        if self.aim is None:
            return None
        return self.median if self.aim.of is Of.VALUE else self.ratio

    @property
    def reached(self) -> bool | None:
        """Whether the aim is reached; None if it is unknown."""
        return None if self.aim is None or self.judged is None else self.aim.reached(self.judged)

    @property
    def far_off(self) -> bool:
        """Whether the aim is missed by half, in a figure that does not depend on the machine."""
        if self.aim is None or self.judged is None:
            return False
        return self.aim.far_off(self.judged) and not (self.aim.of is Of.VALUE and self.unit in MACHINE_UNITS)

    def as_json(self) -> dict[str, Any]:
        """Return all values, for programs."""
        aim = self.aim and {"limit": self.aim.limit, "of": self.aim.of.value, "at_most": self.aim.at_most}
        derived = {"median": self.median, "reference_median": self.reference_median, "ratio": self.ratio}
        return {**asdict(self), "aim": aim, **derived, "reached": self.reached, "far_off": self.far_off}


def table(lines: Sequence[Line]) -> str:
    """Format the lines as a table."""
    rows = [("what", "median", "beside", "median", "ratio", "aim", ""), *map(_row, lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([texts[0], "  ".join("-" * width for width in widths), *texts[1:]])


def _row(line: Line) -> tuple[str, ...]:
    faster = line.aim is not None and line.aim.of is Of.FASTER
    return (
        line.name, _figure(line.median, line.unit), line.reference, _figure(line.reference_median, line.unit),
        "" if line.ratio is None else f"{line.ratio:.2f}{' faster' if faster else ''}", _aim(line),
        {True: "reached", False: "FAR OFF" if line.far_off else "MISSED", None: ""}[line.reached],
    )  # fmt: skip


def _aim(line: Line) -> str:
    if line.aim is None:
        return ""
    sign = "<=" if line.aim.at_most else ">="
    unit = f" {line.unit}".rstrip() if line.aim.of is Of.VALUE else " faster" if line.aim.of is Of.FASTER else ""
    return f"{sign} {line.aim.limit:g}{unit}"


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "s":
        return f"{value * 1000:.2f} ms" if value < 1 else f"{value:.2f} s"
    return f"{value:,.2f} {unit}".rstrip() if value < 10 else f"{value:,.0f} {unit}".rstrip()
