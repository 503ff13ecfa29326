"""The number of the project's functions that a service calls for one request."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import profiled_cli
import pytest
from served import Served, serve
from waiting import until

FUNCTIONS, MODULES = 80, 18
WARM = 8
"""Requests after which nothing more is opened, compiled or cached."""
RUNS = 10
"""The number of counted requests; the smallest count includes no function of a timer."""


def count(request: Callable[[], None], service: Served, report: Path) -> str:
    """Return a line for each function that the service calls for a request: calls, module, name."""
    done = report.with_suffix(".done")
    service.process.send_signal(signal.SIGUSR2)
    until(report.exists)
    request()
    service.process.send_signal(signal.SIGUSR2)
    until(done.exists)
    text = done.read_text()
    done.unlink()
    return text


@pytest.mark.skipif(sys.platform == "win32", reason="the profile is switched by a signal of Unix")
def test_a_warm_pipeline_calls_few_functions_of_few_modules(tmp_path):
    report = tmp_path / "hops"
    program = (str(Path(profiled_cli.__file__)), str(report))
    with serve(tmp_path / "data", "--port", "0", program=program) as service, service.database("db") as db:

        def request() -> None:
            body = {"requests": [{"type": "execute", "stmt": {"sql": "SELECT 1"}}, {"type": "close"}]}
            answer = db.http.post("/v2/pipeline", json=body)
            assert answer.json()["results"][0]["type"] == "ok"

        for _ in range(WARM):
            request()
        counts = min((count(request, service, report) for _ in range(RUNS)), key=lambda text: text.count("\n"))
    lines = [line.split(" ", 2) for line in counts.splitlines()]
    modules = {module for _, module, _ in lines}
    summary = f"{len(lines)} functions in {len(modules)} modules, {sum(int(calls) for calls, _, _ in lines)} calls"
    print(f"\none warm pipeline: {summary}")
    assert lines, "nothing was counted"
    assert len(lines) <= FUNCTIONS, f"{summary}\n{counts}"
    assert len(modules) <= MODULES, f"{summary}\n{counts}"
