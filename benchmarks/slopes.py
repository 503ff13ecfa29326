"""Measure how costs grow with the number of rows, columns, open streams, databases and tables: at most linearly."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import pipemagic
from benchmarks import data, servers
from benchmarks.cells import connected
from benchmarks.lines import Line, below
from benchmarks.measure import Plan, exponent, interleave, seconds
from benchmarks.servers import Target
from pipemagic.hrana.messages import Execute, Stmt

LINEAR = 1.1
"""The largest exponent that counts as linear: caches become too small as tables grow."""

ROUNDS = 5
COLUMNS = [1, 10, 100, 500]
TABLES = [10, 100, 1000]
CELL = "%%sql\nSELECT * FROM tab"


def measure(plan: Plan) -> list[Line]:
    """Measure all of them on the service."""
    with servers.service() as service:
        return [
            *_rows(service, plan.pick([10**3, 10**4, 10**5, 10**6], [10**3, 10**4, 10**5])),
            *_columns(service),
            *_tables(service),
            *_streams(service, plan.pick([1, 10, 100, 1000], [1, 10, 100])),
            *_databases(plan.pick([1, 100, 1000, 10_000], [1, 10, 100, 500])),
        ]


def _slope(what: str, sizes: Sequence[int], costs: Sequence[float], of: str) -> Line:
    """Return a line with all costs and the power by which they grow."""
    found = ", ".join(f"{size:,}: {1000 * cost:,.1f}" for size, cost in zip(sizes, costs, strict=True))
    return Line(f"{what}, ms by {of} ({found})", "exponent", [exponent(sizes, costs)], aim=below(LINEAR))


def _timed(calls: dict[int, Callable[[], object]]) -> list[float]:
    """Return the median time of the calls."""
    timed = {str(size): lambda call=call: seconds(call) for size, call in calls.items()}
    return [statistics.median(values) for values in interleave(ROUNDS, timed).values()]


def _rows(service: Target, sizes: Sequence[int]) -> list[Line]:
    with service.connect() as database:
        database.execute(data.CREATE_WIDE)
        database.load(data.wide(sizes[-1]), "wide", "append")
        costs = _timed({size: lambda size=size: database.query(f"{data.WIDE} LIMIT {size}") for size in sizes})
    return [_slope("reading", sizes, costs, "rows")]


def _columns(service: Target, rows: int = 1000) -> list[Line]:
    names = [f"c{number}" for number in range(COLUMNS[-1])]
    values = ", ".join(
        ["i", "'text ' || i", "i * 0.37", "nullif(i % 10, 0)"][number % 4] for number in range(len(names))
    )
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {rows})"
    with service.connect() as database:
        database.execute(f"CREATE TABLE broad({', '.join(names)})")
        database.execute(f"INSERT INTO broad {numbers} SELECT {values} FROM n")
        costs = _timed({
            size: lambda size=size: database.query(f"SELECT {', '.join(names[:size])} FROM broad") for size in COLUMNS
        })  # fmt: skip
    return [_slope(f"reading {rows:,} rows", COLUMNS, costs, "columns")]


def _streams(service: Target, sizes: Sequence[int]) -> list[Line]:
    """Open streams, keep them open, and send other requests meanwhile."""
    opened, beside, streams = [], [], []
    with service.connect() as database:
        start = time.perf_counter()
        for size in sizes:
            while len(streams) < size:
                streams.append(database.open_stream())
                streams[-1].send([Execute(Stmt("SELECT 1"))])
            opened.append(time.perf_counter() - start)
            beside.append(_median(lambda: database.execute("SELECT 1")))
        for stream in streams:
            stream.close()
    return [
        _slope("opening streams", sizes, opened, "streams"),
        _slope("a request beside open streams", sizes, beside, "streams"),
    ]


def _databases(sizes: Sequence[int]) -> list[Line]:
    """Create databases, and start the service over them."""
    created, listed, asked, started = [], [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder, spent = Path(name), 0.0
        for have, size in zip([0, *sizes], sizes, strict=False):
            with servers.running(folder) as (_, url, organization):
                with servers.platform(folder, url, organization) as api:
                    spent += _create(api, have, size)
                    listed.append(_median(api.databases))
                    token = api.create_token("db0")
                created.append(spent)
                with pipemagic.connect(url, token) as database:
                    asked.append(_median(lambda: database.execute("SELECT 1")))
            started.append(statistics.median(_start(folder) for _ in range(3)))
    return [
        _slope("creating databases", sizes, created, "databases"),
        _slope("listing databases", sizes, listed, "databases"),
        _slope("a request beside other databases", sizes, asked, "databases"),
        _slope("starting the service", sizes, started, "databases"),
    ]


def _create(api: pipemagic.Management, have: int, size: int) -> float:
    """Create the missing databases; return the seconds."""
    if not have:
        api.create_group("default", "ams")
    start = time.perf_counter()
    for number in range(have, size):
        api.create_database(f"db{number}", "default")
    return time.perf_counter() - start


def _start(folder: Path) -> float:
    start = time.perf_counter()
    with servers.running(folder):
        return time.perf_counter() - start


def _tables(service: Target) -> list[Line]:
    """Press Tab, and list the tables."""
    completed, listed, have = [], [], 0
    with service.connect() as database:
        for size in TABLES:
            database.batch([f"CREATE TABLE tab{number}(id INTEGER PRIMARY KEY, a, b)" for number in range(have, size)])
            have = size
            with connected(service) as shell, capture_output():
                _until_known(shell, size)
                completed.append(_median(lambda shell=shell: _tab(shell)))
                listed.append(_median(lambda shell=shell: shell.run_line_magic("pipedb", "tables")))
    most = TABLES[-1]
    return [
        _slope("completing the name of a table", TABLES, completed, "tables"),
        _slope("%pipedb tables", TABLES, listed, "tables"),
        Line(f"completing the name of a table, {most:,} tables", "s", [completed[-1]], aim=below(0.05)),
        Line(f"%pipedb tables, {most:,} tables", "s", [listed[-1]], aim=below(0.05)),
    ]


def _tab(shell: InteractiveShell, cell: str = CELL) -> list[str]:
    with provisionalcompleter():
        return [one.text for one in shell.Completer.completions(cell, len(cell))]


def _until_known(shell: InteractiveShell, size: int, patience: float = 30) -> None:
    """Press Tab until the schema has been read in the background."""
    end = time.monotonic() + patience
    while not _tab(shell, f"{CELL}{size - 1}"):
        if time.monotonic() > end:
            raise TimeoutError("the tables are not offered")


def _median(call: Callable[[], object], times: int = 21) -> float:
    call()
    return statistics.median(seconds(call) for _ in range(times))
