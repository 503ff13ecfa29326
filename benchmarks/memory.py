"""Measure the memory and time of a large result from the embedded service, by cursor.

    python -m benchmarks.memory ROWS HOW

reads it by a ``cell``, or by ``fetchmany`` or ``fetchall`` of `pipemagic.dbapi`. It runs in a separate process, since
only processes have a peak, and prints JSON: ``growth`` is the growth of the peak memory in bytes, ``frame`` the size
that the DataFrame reports (0 without one), ``seconds`` the time from the request to the last row, ``cpu`` the processor
time of this process in it, and ``cells`` the number of cells.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.lines import Line, at_most
from benchmarks.measure import Plan

if TYPE_CHECKING:
    import pandas as pd

    from benchmarks.servers import Target

SMALL, LARGE = 200_000, 2_000_000
"""Rows of five columns: 10^6 and 10^7 cells."""

ROWS = """WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < {} - 1)
    INSERT INTO wide SELECT n, CASE n % 3 WHEN 0 THEN 'Zoë ' WHEN 1 THEN 'Łódź ' ELSE 'customer ' END || (n % 1000),
    n * 1000 / 7.0, CASE WHEN n % 10 THEN n * 7919 % 1000000 END, date('2010-01-01', (n % 5000) || ' days') FROM c"""
TABLE = "CREATE TABLE wide(id INTEGER PRIMARY KEY, name TEXT, price REAL, amount INTEGER, day TEXT)"


def measure(plan: Plan) -> list[Line]:
    """Compare the peak with the size of the DataFrame, and the time with that of a tenth of the cells."""
    rounds = plan.pick(5, 1)
    small, large = ([measured(rows) for _ in range(rounds)] for rows in (SMALL, LARGE))
    growth, frame = ([run[key] / 1e6 for run in large] for key in ("growth", "frame"))
    fetched, held = ([measured(LARGE, how)["growth"] / 1e6 for _ in range(rounds)] for how in ("fetchmany", "fetchall"))
    cost, cost_of_small = ([run["cpu"] / run["cells"] * 1e9 for run in runs] for runs in (large, small))
    return [
        Line(
            "10^7 cells over the cursor, growth of the peak", "MB", growth, "the DataFrame itself", frame, at_most(1.7)
        ),
        Line("10^7 cells, processor time of a cell", "ns", cost, "10^6 cells", cost_of_small, at_most(1.5)),
        Line("10^7 cells by fetchmany, streamed, growth of the peak", "MB", fetched, "fetchall", held, at_most(0.1)),
    ]


def measured(rows: int, how: str = "cell") -> dict[str, Any]:
    """Measure a result with this number of rows in a separate process."""
    command = [sys.executable, "-m", "benchmarks.memory", str(rows), how]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parents[1])
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def measure_here(rows: int, how: str) -> dict[str, Any]:
    """Measure it in this process, which must be a new one."""
    from benchmarks.servers import service

    with service() as target:
        with target.connect() as database:
            database.batch([TABLE, ROWS.format(rows)])
        with _reading(how, target) as read:
            read("SELECT * FROM wide LIMIT 5000")  # imports and other work that is done once
            reset_peak()
            before, started, worked = peak(), time.perf_counter(), time.process_time()
            count, size = read("SELECT * FROM wide")
            seconds, cpu, after = time.perf_counter() - started, time.process_time() - worked, peak()
        assert count == rows
    return {"cells": 5 * rows, "growth": after - before, "frame": size, "seconds": seconds, "cpu": cpu}


@contextmanager
def _reading(how: str, target: Target) -> Iterator[Callable[[str], tuple[int, int]]]:
    """Return a function that reads a query, and returns the number of rows and the size of their DataFrame."""
    if how == "cell":
        from pipemagic.session import Session

        with Session(environ={"PIPEMAGIC_TOKEN": target.token}) as session:
            session.connect(target.url, name="bench")
            yield lambda sql: _size(session.run_cell(sql).frame)
        return
    from pipemagic import dbapi

    with closing(dbapi.connect(target.url, target.token)) as connection:
        cursor = connection.cursor(stream=how == "fetchmany")
        if how == "fetchall":
            yield lambda sql: (len(cursor.execute(sql).fetchall()), 0)
        else:
            yield lambda sql: (sum(map(len, iter(partial(cursor.execute(sql).fetchmany, 1000), []))), 0)


def _size(frame: pd.DataFrame | None) -> tuple[int, int]:
    assert frame is not None
    return len(frame), int(frame.memory_usage(deep=True).sum())


def reset_peak() -> None:
    """Reset the peak, if the system supports it."""
    if os.path.exists("/proc/self/clear_refs"):
        Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Return the peak memory of this process in bytes."""
    if sys.platform == "linux":
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


if __name__ == "__main__":
    print(json.dumps(measure_here(int(sys.argv[1]), sys.argv[2])))
