"""Measure `%%sql SELECT 1` in a warm kernel beside an httpx POST of the same body, and JupySQL on local SQLite.

Measure `%%sql --grid` of a million rows, too, beside the same of a thousand.

The POST is a cell magic, too, so both figures include the work of IPython: it adds names to Python's built-in ones and
removes them afterwards, which invalidates caches of the interpreter.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

import httpx
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from benchmarks import servers
from benchmarks.lines import Line, at_most, below
from benchmarks.measure import Plan, interleave, seconds
from benchmarks.proxy import Proxy
from benchmarks.servers import Target

CELL = "SELECT 1"
MANY, FEW = 1_000_000, 1000
ROWS = """CREATE TABLE rows_of_a_grid (id INTEGER PRIMARY KEY, name TEXT, amount REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})
INSERT INTO rows_of_a_grid SELECT i, 'name ' || i % 1000, i * 1.5 FROM n"""
GRID = "SELECT * FROM rows_of_a_grid WHERE id <= {}"
BATON = re.compile(rb'"baton":"([^"]*)"')
MEMBER = re.compile(rb'"baton":"[^"]*",|,"baton":"[^"]*"')


@contextmanager
def connected(target: Target, url: str | None = None) -> Iterator[InteractiveShell]:
    """Return an IPython without history files, connected to a database, or to another address if it is given."""
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    os.environ["BENCHMARK_TOKEN"] = target.token
    with capture_output():
        shell.run_line_magic("load_ext", "pipemagic")
        shell.run_line_magic("pipedb", f"connect {url or target.url} --token-env BENCHMARK_TOKEN")
    shell.run_cell_magic("sql", "", CELL)
    try:
        yield shell
    finally:
        with capture_output():
            shell.run_line_magic("pipedb", "close")


def recorded(target: Target) -> tuple[str, dict[str, str], bytes]:
    """Return the path, the headers and the body of the request that a cell sends."""
    with Proxy(target.port) as proxy:
        address = target.url.replace(str(target.port), str(proxy.port))
        with connected(target, address) as shell:
            proxy.requests.clear()
            shell.run_cell_magic("sql", "", CELL)
            (request,) = of_cells(proxy)
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    kept = {name: value for name, value in headers.items() if name.lower() not in ("host", "content-length")}
    return first.split()[1], {**kept, "Host": target.host}, body


def of_cells(proxy: Proxy) -> list[bytes]:
    """Return the requests on an open stream; the schema may be read in the background without a stream."""
    return [request for request in proxy.requests if BATON.search(request)]


def bare(client: httpx.Client, target: Target) -> Callable[[], None]:
    """Return a function that sends the request of a cell with the newest baton."""
    path, headers, body = recorded(target)
    before, _, after = body.partition(baton_of(body))
    url = f"{target.loopback}{path}"
    baton = baton_of(client.post(url, content=MEMBER.sub(b"", body), headers=headers).content)

    def post() -> None:
        nonlocal baton
        baton = baton_of(client.post(url, content=before + baton + after, headers=headers).content)

    return post


def baton_of(body: bytes) -> bytes:
    """Return the baton in a request or a response."""
    found = BATON.search(body)
    if found is None or b'"type":"error"' in body:
        raise RuntimeError(body.decode())
    return found[1]


def measure(plan: Plan) -> list[Line]:
    """Compare the three, on the service and on sqld."""
    lines = []
    with servers.service() as service, servers.sqld() as sqld:
        for target in filter(None, (service, sqld)):
            lines += _measure(plan, target)
            lines += _measure_grids(plan, target)
    return lines


def _measure(plan: Plan, target: Target) -> list[Line]:
    times = plan.pick(300, 50)
    with (
        httpx.Client(trust_env=False) as client,
        plan.peers.working(["jupysql"], lambda peer: peer.seconds("connect")) as peers,
    ):
        post = bare(client, target)
        with connected(target) as shell:
            shell.register_magic_function(lambda _line, _cell: post(), "cell", "post")
            candidates = {
                "cell": lambda: seconds(lambda: shell.run_cell_magic("sql", "", CELL), times),
                "httpx POST of the same body": lambda: seconds(lambda: shell.run_cell_magic("post", "", CELL), times),
            }
            for peer in peers.values():
                for name, frames in {"JupySQL, its own result": False, "JupySQL, a DataFrame": True}.items():
                    candidates[name] = lambda peer=peer, frames=frames: peer.seconds(
                        "cells", sql=CELL, times=times, frames=frames
                    )
            values = interleave(plan.rounds, candidates)
    cell = values.pop("cell")
    return [
        Line(f"%%sql {CELL}, on {target.name}", "s", cell, name, theirs, at_most(1.0))
        for name, theirs in values.items()
    ]


def _measure_grids(plan: Plan, target: Target) -> list[Line]:
    """Open a grid of many rows and one of few: the seconds to the first page, and the KB that its widgets hold."""
    from ipywidgets.widgets.widget import _instances as widgets

    with connected(target) as shell:
        with capture_output():
            shell.run_cell_magic("sql", "", ROWS.format(MANY))
        sizes: dict[int, list[float]] = {MANY: [], FEW: []}

        def opened(count: int) -> float:
            before = set(widgets)
            start = perf_counter()
            grid = shell.run_cell_magic("sql", "--grid", GRID.format(count))
            grid.mount()
            took = perf_counter() - start
            grid.wait()
            held = [widgets[key] for key in set(widgets) - before]
            states = [[widget.get_state(), getattr(widget, "rows", [])] for widget in held]
            sizes[count].append(len(json.dumps(states, default=str)) / 1000)
            grid.close()
            return took

        values = interleave(plan.rounds, {"many": lambda: opened(MANY), "few": lambda: opened(FEW)})
    name = f"%%sql --grid of {MANY:,} rows, on {target.name}"
    return [
        Line(f"{name}, to its first page", "s", values["many"], f"of {FEW:,} rows", values["few"], below(1.0)),
        Line(f"{name}, in its widgets", "KB", sizes[MANY], f"of {FEW:,} rows", sizes[FEW], at_most(1.1)),
    ]
