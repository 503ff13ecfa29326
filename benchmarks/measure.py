"""Interleaved measuring: every candidate once a round, so that a noisy minute hits all of them alike."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any


@dataclass(frozen=True)
class Line:
    """One line of the table: ours beside a reference, and the ratio that is aimed at.

    ``values`` are in ``unit``; ``at_most`` says which side of ``aim`` is good. ``aim`` is for the ratio to the
    reference, or for the value itself where there is none.
    """

    name: str
    unit: str
    values: list[float]
    reference: str = ""
    reference_values: list[float] | None = None
    aim: float | None = None
    at_most: bool = True

    @property
    def median(self) -> float:
        """Ours."""
        return statistics.median(self.values)

    @property
    def reference_median(self) -> float | None:
        """The reference's."""
        return statistics.median(self.reference_values) if self.reference_values else None

    @property
    def ratio(self) -> float | None:
        """Ours by the reference's."""
        return self.median / self.reference_median if self.reference_median else None

    @property
    def reached(self) -> bool | None:
        """Whether the aim is reached; None without one."""
        judged = self.median if self.ratio is None else self.ratio
        if self.aim is None:
            return None
        return judged <= self.aim if self.at_most else judged >= self.aim

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        derived = {"median": self.median, "reference_median": self.reference_median, "ratio": self.ratio}
        return {**asdict(self), **derived, "reached": self.reached}


def interleave(rounds: int, candidates: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Call every candidate once a round, in turning order; each gives its own figure."""
    values: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            gc.collect()
            value = candidates[name]()
            if number:  # the first round warms up
                values[name].append(value)
    return values


def seconds(call: Callable[[], Any], times: int = 1) -> float:
    """Time ``times`` calls; gives seconds for one."""
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def machine() -> str:
    """One line on what it was measured with."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("pandas", "httpx", "apsw", "uvicorn"))
    return (
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}; "
        f"Python {platform.python_version()}, {versions}"
    )


def _processor() -> str:
    if sys.platform == "linux":
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def table(lines: list[Line]) -> str:
    """Lay the lines out for people."""
    rows = [("what", "median", "beside", "median", "ratio", "aim", "")]
    for line in lines:
        aim = (
            ""
            if line.aim is None
            else f"{'<=' if line.at_most else '>='} {line.aim:g}{'' if line.ratio else ' ' + line.unit}"
        )
        rows.append((
            line.name, _figure(line.median, line.unit), line.reference, _figure(line.reference_median, line.unit),
            f"{line.ratio:.2f}" if line.ratio else "", aim, {True: "reached", False: "MISSED", None: ""}[line.reached],
        ))  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([texts[0], "  ".join("-" * width for width in widths), *texts[1:]])


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "s":
        return f"{value * 1000:.2f} ms" if value < 1 else f"{value:.2f} s"
    return f"{value:,.0f} {unit}"
