"""Interleaved measurements: every candidate once in each round, so that noise affects all of them."""

from __future__ import annotations

import gc
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, TypeVar

from benchmarks.peers import Peers

Figure = TypeVar("Figure")

FLAT = 0.2
"""Growth below this share of the fixed cost counts as noise."""


@dataclass(frozen=True)
class Plan:
    """The extent of the measurements: full, or ``short`` as for CI; and the peers, if any."""

    short: bool
    peers: Peers

    @property
    def rounds(self) -> int:
        """The number of calls of each candidate."""
        return self.pick(11, 5)

    def pick(self, full: Figure, short: Figure) -> Figure:
        """Return one of the two values."""
        return short if self.short else full


def interleave(rounds: int, candidates: Mapping[str, Callable[[], Figure]]) -> dict[str, list[Figure]]:
    """Call every candidate once in each round, in rotating order; each returns its figure."""
    values: dict[str, list[Figure]] = {name: [] for name in candidates}
    names = list(candidates)
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            gc.collect()
            value = candidates[name]()
            if number:  # the first round warms up
                values[name].append(value)
    return values


def seconds(call: Callable[[], Any], times: int = 1) -> float:
    """Time ``times`` calls; return the seconds of one."""
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def processor_seconds(call: Callable[[], Any]) -> float:
    """Return the processor time of a call in this process, in seconds."""
    start = time.process_time()
    call()
    return time.process_time() - start


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """Return the power of the size by which the cost grows between the two largest sizes: 1 is linear, 0 is constant.

    The lowest cost, that of a small size, counts as the fixed cost and is subtracted.
    """
    fixed, noise = min(costs), min(costs) * FLAT
    before, after = (max(cost - fixed, noise) for cost in costs[-2:])
    return math.log(after / before) / math.log((sizes[-1] - sizes[0]) / (sizes[-2] - sizes[0]))


def machine() -> str:
    """Return one line about the machine and the versions."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("pandas", "httpx", "apsw", "uvicorn"))
    return (
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}; "
        f"Python {platform.python_version()}, {versions}"
    )


def _processor() -> str:
    if sys.platform == "linux":
        with open("/proc/cpuinfo", encoding="utf-8") as cpus:
            for line in cpus:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
