"""Measure the time to the first response and the memory at rest, beside sqld."""

from __future__ import annotations

import json
import tempfile
import time
import urllib.request
from pathlib import Path

from benchmarks import servers
from benchmarks.lines import Line, below
from benchmarks.measure import Plan
from benchmarks.servers import Target
from pipemagic.service.sqld.local_nodes import NoSqld

READ = {"type": "execute", "stmt": {"sql": "SELECT count(*) FROM sqlite_schema"}}


def measure(plan: Plan) -> list[Line]:
    """Start each server in each round."""
    with tempfile.TemporaryDirectory() as folder:
        ours, resting = _starts(Path(folder), plan.rounds)
    theirs, their_resting = _sqld_starts(plan.rounds)
    beside = "sqld" if theirs else ""
    return [
        Line("service, from its start to the first response", "s", ours, beside, theirs, below(0.5)),
        Line("service, memory at rest", "MB", resting, beside, their_resting, below(80)),
    ]


def _starts(folder: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Start the service over a folder with a database; return seconds, and megabytes after one response."""
    with servers.running(folder) as (_, url, organization), servers.management(folder, url, organization) as api:
        api.create_group("default", "ams")
        api.create_database("bench", "default")
        token = api.create_token("bench")
    times, memory = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        with servers.running(folder) as (process, url, _):
            port = int(url.rpartition(":")[2])
            target = Target("the service", port, f"127.0.0.1:{port}", token, process.pid, folder)
            post(target, READ, {"type": "close"})
            times.append(time.perf_counter() - start)
            memory.append(target.memory / 1e6)
    return times, memory


def _sqld_starts(rounds: int) -> tuple[list[float], list[float]]:
    """Do the same with sqld."""
    times, memory = [], []
    with tempfile.TemporaryDirectory() as name:
        try:
            binary = servers.find_sqld(Path(name))
        except NoSqld:
            return [], []
        for number in range(rounds):
            start = time.perf_counter()
            server = servers.Sqld(binary, Path(name) / str(number))
            try:
                database = server.database("127")
                target = Target("sqld", server.port, database.host, database.token, server.process.pid, Path(name))
                post(target, READ, {"type": "close"})
                times.append(time.perf_counter() - start)
                memory.append(target.memory / 1e6)
            finally:
                server.close()
    return times, memory


def post(target: Target, *requests: dict[str, object]) -> None:
    """Send one pipeline over a new connection."""
    request = urllib.request.Request(
        f"{target.loopback}/v2/pipeline", json.dumps({"requests": requests}).encode(), target.headers, method="POST"
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
        if b'"type":"error"' in answer.read():
            raise RuntimeError(f"{requests} failed")
