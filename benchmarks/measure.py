"""Interleaved measurements: every candidate once in each round, so that noise affects all of them."""

from __future__ import annotations

import gc
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, TypeVar

from benchmarks.peers import Peers

Figure = TypeVar("Figure")


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
