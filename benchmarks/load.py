"""Many clients at once: 200 in a closed loop beside sqld, and what an open stream takes of the memory.

sqld never syncs a commit to the disk and refuses ``PRAGMA synchronous``, pipemagic syncs each before it is
acknowledged. For equal durability both have their data on tmpfs, where a sync costs nothing; the same on a disk
is shown beside it, where only pipemagic's commits are synced.
"""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from pathlib import Path

import psutil
from closed_loop import SCHEMA, Outcome, load

from benchmarks import servers
from benchmarks.measure import Line
from benchmarks.servers import Target

CLIENTS = 200
STREAMS = 500
MEMORY = Path("/dev/shm")


def measure(*, seconds: float) -> list[Line]:
    """Run each server for so many seconds on each kind of storage."""
    lines = []
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
        lines += _compare("equal durability", MEMORY, seconds, aims=True)
    lines += _compare("on disk, only ours synced", None, seconds, aims=False)
    with servers.service() as target:
        lines.append(Line(f"memory of an open stream ({STREAMS} of them)", "KB", [_stream_memory(target)], aim=200))
    return lines


def _compare(what: str, folder: Path | None, seconds: float, *, aims: bool) -> list[Line]:
    with servers.service(folder) as target:
        ours = _run(target, seconds)
    if ours.failures:
        raise RuntimeError(f"{len(ours.failures)} requests failed, the first: {ours.failures[0]}")
    with servers.sqld(folder) as other:
        theirs = _run(other, seconds) if other else None
    if theirs and theirs.failures:  # it refuses requests that waited for too long
        print(f"sqld failed {len(theirs.failures)} of its requests, the first: {theirs.failures[0].splitlines()[0]}")
    name, beside = f"{CLIENTS} clients, {what}", "sqld" if theirs else ""
    aimed = aims and theirs is not None
    return [
        Line(
            f"{name}: rate", "requests/s", [ours.rate], beside, [theirs.rate] if theirs else None,
            aim=2.0 if aimed else None, at_most=False,
        ),
        *(
            Line(
                f"{name}: p{share}", "s", [ours.percentile(share)], beside,
                [theirs.percentile(share)] if theirs else None, aim=1.0 if aimed and share == 99 else None,
            )
            for share in (50, 99)
        ),
        Line(
            f"{name}: the generator's share of a core", "%", [100 * ours.generator_seconds / ours.seconds], beside,
            [100 * theirs.generator_seconds / theirs.seconds] if theirs else None,
        ),
    ]  # fmt: skip


def _run(target: Target, seconds: float) -> Outcome:
    for sql in SCHEMA:
        post(target, {"requests": [{"type": "execute", "stmt": {"sql": sql}}, {"type": "close"}]})
    return asyncio.run(load(target.port, [target.headers], clients=CLIENTS, seconds=seconds))


def _stream_memory(target: Target) -> float:
    """Open streams that have read; give the kilobytes of the service's memory that one takes."""
    post(target, {"requests": [{"type": "execute", "stmt": {"sql": SCHEMA[0]}}, {"type": "close"}]})
    process = psutil.Process(target.pid)
    before = process.memory_info().rss
    for _ in range(STREAMS):
        post(target, {"requests": [{"type": "execute", "stmt": {"sql": "SELECT * FROM load"}}]})
    return (process.memory_info().rss - before) / STREAMS / 1024


def post(target: Target, body: dict[str, object]) -> None:
    """Send one pipeline."""
    request = urllib.request.Request(
        f"{target.loopback}/v2/pipeline", json.dumps(body).encode(), headers=target.headers, method="POST"
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
        if b'"type":"error"' in answer.read():
            raise RuntimeError(f"{body} failed")
