"""Measure 200 clients in a closed loop beside sqld.

sqld never syncs a commit to the disk and refuses ``PRAGMA synchronous``, pipemagic syncs each before it is
acknowledged. For equal durability both have their data on tmpfs, where a sync costs nothing; the same on a disk
is shown as well, where only pipemagic's commits are synced.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from closed_loop import SCHEMA, Outcome, load

from benchmarks import servers
from benchmarks.footprint import post
from benchmarks.lines import Aim, Line, at_least, at_most
from benchmarks.measure import Plan
from benchmarks.servers import Target

CLIENTS = 200
MEMORY = Path("/dev/shm")


def measure(plan: Plan) -> list[Line]:
    """Run each server for some seconds on each kind of storage."""
    seconds, lines = plan.pick(30, 5), []
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
        lines += _compare("equal durability", MEMORY, seconds, {"rate": at_least(2), "p99": at_most(1)})
    return lines + _compare("on disk, only ours synced", None, seconds, {})


def _compare(what: str, folder: Path | None, seconds: float, aims: dict[str, Aim]) -> list[Line]:
    with servers.service(folder) as target:
        ours = _run(target, seconds)
    if ours.failures:
        raise RuntimeError(f"{len(ours.failures)} requests failed, the first: {ours.failures[0]}")
    with servers.sqld(folder) as other:
        theirs = _run(other, seconds) if other else None
    if theirs and theirs.failures:  # it refuses requests that waited for too long
        first = theirs.failures[0].splitlines()[0]
        print(f"sqld failed {len(theirs.failures)} of its requests, the first: {first}", file=sys.stderr)
    found, beside = _figures(ours), _figures(theirs) if theirs else {}
    return [
        Line(
            f"{CLIENTS} clients, {what}: {name}", unit, [figure], "sqld" if theirs else "",
            [beside[name][0]] if theirs else None, aims.get(name),
        )
        for name, (figure, unit) in found.items()
    ]  # fmt: skip


def _figures(run: Outcome) -> dict[str, tuple[float, str]]:
    return {
        "rate": (run.rate, "requests/s"),
        "p50": (run.percentile(50), "s"),
        "p99": (run.percentile(99), "s"),
        "the generator's share of a core": (100 * run.generator_seconds / run.seconds, "%"),
    }


def _run(target: Target, seconds: float) -> Outcome:
    for sql in SCHEMA:
        post(target, {"type": "execute", "stmt": {"sql": sql}}, {"type": "close"})
    return asyncio.run(load(target.port, [target.headers], clients=CLIENTS, seconds=seconds))
