"""Measure 200 clients in a closed loop beside sqld.

sqld never syncs a commit to the disk and refuses ``PRAGMA synchronous``, pipemagic syncs each before it is
acknowledged. For equal durability both have their data on tmpfs, where a sync costs nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from benchmarks import servers
from benchmarks.closed_loop import SCHEMA, Outcome, load
from benchmarks.footprint import post
from benchmarks.lines import Line, at_least, at_most
from benchmarks.measure import Plan
from benchmarks.servers import Target

CLIENTS = 200
MEMORY = Path("/dev/shm")
AIMS = {"rate": at_least(2), "p99": at_most(1)}


def measure(plan: Plan) -> list[Line]:
    """Run each server for some seconds."""
    if not os.access(MEMORY, os.W_OK):
        print(f"without a crowd: {MEMORY} cannot be written", file=sys.stderr)
        return []
    seconds = plan.pick(30, 5)
    with servers.service(MEMORY) as target:
        ours = _run(target, seconds)
    if ours.failures:
        raise RuntimeError(f"{len(ours.failures)} requests failed, the first: {ours.failures[0]}")
    with servers.sqld(MEMORY) as other:
        theirs = _run(other, seconds) if other else None
    if theirs and theirs.failures:  # it refuses requests that waited for too long
        first = theirs.failures[0].splitlines()[0]
        print(f"sqld failed {len(theirs.failures)} of its requests, the first: {first}", file=sys.stderr)
    found, beside = _figures(ours), _figures(theirs) if theirs else {}
    return [
        Line(
            f"{CLIENTS} clients, equal durability: {name}", unit, [figure], "sqld" if theirs else "",
            [beside[name][0]] if theirs else None, AIMS.get(name),
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
