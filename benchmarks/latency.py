"""Measure a cell of twenty statements with a round trip of 50 ms, beside twenty cells and other clients."""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from benchmarks import servers
from benchmarks.cells import connected, of_cells
from benchmarks.frames import READERS
from benchmarks.lines import Line, below, faster
from benchmarks.measure import Plan, interleave, seconds
from benchmarks.proxy import Proxy
from benchmarks.servers import Target

ONE_WAY = 0.025
STATEMENTS = [f"SELECT {number}" for number in range(20)]


def measure(plan: Plan) -> list[Line]:
    """Measure on sqld, which all clients support, or else on the service."""
    with servers.sqld() as sqld:
        if sqld is not None:
            return _measure(plan, sqld)
    with servers.service() as service:
        return _measure(plan, service)


def _measure(plan: Plan, target: Target) -> list[Line]:
    with Proxy(target.port, ONE_WAY) as proxy:
        near = f"http://127.0.0.1:{proxy.port}"
        with (
            connected(target, near) as shell,
            plan.peers.working(READERS, lambda peer: peer.seconds("open", url=near, token=target.token)) as peers,
        ):
            values = interleave(
                5,
                {
                    "one cell": lambda: seconds(lambda: _together(shell)),
                    "20 cells": lambda: seconds(lambda: _one_by_one(shell)),
                    **{
                        name: lambda peer=peer: peer.seconds("statements", texts=STATEMENTS)
                        for name, peer in peers.items()
                    },
                },
            )
    what = f"a cell of {len(STATEMENTS)} statements, {2000 * ONE_WAY:.0f} ms away"
    others = {"20 cells": "20 cells", **{name: f"20 times by {name}" for name in peers}}
    return [
        Line(f"{what}: requests", "", [_requests(target)], aim=below(1)),
        *(Line(what, "s", values["one cell"], text, values[name], faster(10)) for name, text in others.items()),
    ]


def _requests(target: Target) -> float:
    """Count the requests of the cell while no other client sends any."""
    with Proxy(target.port) as proxy, connected(target, f"http://127.0.0.1:{proxy.port}") as shell:
        proxy.requests.clear()
        _together(shell)
        return float(len(of_cells(proxy)))


def _together(shell: InteractiveShell) -> None:
    _run(shell, ";\n".join(STATEMENTS))


def _one_by_one(shell: InteractiveShell) -> None:
    for statement in STATEMENTS:
        _run(shell, statement)


def _run(shell: InteractiveShell, sql: str) -> None:
    """Run a cell as a notebook does, which displays every result."""
    with capture_output():
        shell.run_cell(f"%%sql\n{sql}").raise_error()
