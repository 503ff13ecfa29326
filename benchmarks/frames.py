"""Measure rows to DataFrames: from sqld beside `curl` and other clients, from the service beside pandas."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pandas as pd

from benchmarks import data, servers
from benchmarks.cells import connected
from benchmarks.lines import Line, at_most, faster
from benchmarks.measure import Plan, interleave, seconds
from benchmarks.servers import SQLD_UNLIMITED, UNLIMITED, Target
from pipemagic.frames import to_frame
from pipemagic.frames.files import write_csv
from pipemagic.hrana import messages

READERS = ("libsql", "turso-serverless", "libsql-client")


def measure(plan: Plan) -> list[Line]:
    """Measure results that fit into one response, and results by cursor."""
    rows, flight_rows = plan.pick(data.ROWS, 50_000), plan.pick(len(data.flights()), 10_000)
    lines = []
    with servers.service(options=UNLIMITED) as service, servers.sqld(options=SQLD_UNLIMITED) as sqld:
        for target in filter(None, (service, sqld)):
            with target.connect() as database:
                data.fill(database, rows, flight_rows)
        lines += _wide(plan, service, sqld, rows)
        lines += _flights(service, sqld, flight_rows)
        lines.append(_csv(service, flight_rows))
    with servers.sqld() as limited:
        if limited is not None:
            # A result that fits into one response would not use the cursor.
            lines += _over_the_cursor(plan, limited, data.ROWS)
    return lines


def _wide(plan: Plan, service: Target, sqld: Target | None, rows: int) -> list[Line]:
    what = f"{rows * data.COLUMNS:,} cells"
    with _readers(plan, sqld, data.WIDE) as readers:
        values = interleave(plan.rounds, {**_ours(service, sqld, data.WIDE), **readers})
    return [
        *_beside(what, values, 1.6),
        *(
            Line(f"{what} from sqld to a DataFrame", "s", values["sqld"], name, values[name], faster(5))
            for name in READERS
            if name in values
        ),
    ]


def _flights(service: Target, sqld: Target | None, rows: int) -> list[Line]:
    values = interleave(5, _ours(service, sqld, data.FLIGHTS))
    return _beside(f"{rows:,} flights", values, 1.8)


def _csv(service: Target, rows: int) -> Line:
    """Compare writing a result to a CSV file with pandas writing the same frame."""
    with tempfile.TemporaryDirectory() as folder, service.connect() as database:
        result = database.execute(data.FLIGHTS).wire
        frame = to_frame(result)
        path = Path(folder) / "flights.csv"
        values = interleave(
            3,
            {
                "ours": lambda: seconds(lambda: write_csv(path, result.cols, [result.rows])),
                "pandas": lambda: seconds(lambda: frame.to_csv(path, index=False)),
            },
        )
    return Line(
        f"{rows:,} flights to a CSV file", "s", values["ours"], "DataFrame.to_csv", values["pandas"], at_most(1.0)
    )


def _beside(what: str, values: dict[str, list[float]], curl: float) -> list[Line]:
    """Compare reads from both servers with the measured references."""
    ours = values["the service"]
    lines = [
        Line(f"{what} from the service to a DataFrame", "s", ours, "pandas.read_sql", values["pandas"], at_most(1.2))
    ]
    if "sqld" in values:
        theirs = values["sqld"]
        lines.append(Line(f"{what} from the service to a DataFrame", "s", ours, "from sqld", theirs, at_most(1.0)))
        if "curl" in values:
            lines.append(Line(f"{what} from sqld to a DataFrame", "s", theirs, "curl", values["curl"], at_most(curl)))
    return lines


def _ours(service: Target, sqld: Target | None, query: str) -> dict[str, Callable[[], float]]:
    """Read the query from both servers, from the service's own file by pandas, and from sqld by curl."""
    (path,) = service.folder.glob("**/primary.sqlite")
    candidates: dict[str, Callable[[], float]] = {
        "the service": _reading(service, query),
        "pandas": lambda: _read_locally(path, query),
    }
    if sqld is not None:
        candidates["sqld"] = _reading(sqld, query)
        if curl := shutil.which("curl"):
            candidates["curl"] = lambda: _download(curl, sqld, query)
        else:
            print("without curl: there is none", file=sys.stderr)
    return candidates


def _reading(target: Target, query: str) -> Callable[[], float]:
    def read() -> float:
        with target.connect() as database:
            database.query("SELECT 1")  # opens the connection
            return seconds(lambda: database.query(query))

    return read


def _read_locally(path: Path, query: str) -> float:
    with closing(sqlite3.connect(path)) as connection:
        return seconds(lambda: pd.read_sql(query, connection))


def _download(curl: str, target: Target, query: str) -> float:
    """Send the request of a client with curl, and write the response to a file."""
    with tempfile.TemporaryDirectory() as folder:
        body = Path(folder) / "body.json"
        body.write_bytes(messages.pipeline([messages.Execute(messages.Stmt(query)), messages.Close()]))
        command = [curl, "--silent", "--fail", "--output", str(Path(folder) / "answer.json")]
        command += ["--data-binary", f"@{body}", f"{target.loopback}/v2/pipeline"]
        for header, value in target.headers.items():
            command += ["--header", f"{header}: {value}"]
        return seconds(lambda: subprocess.run(command, check=True))


@contextmanager
def _readers(
    plan: Plan, target: Target | None, query: str, packages: tuple[str, ...] = READERS
) -> Iterator[dict[str, Callable[[], float]]]:
    """Return functions that read the query with other clients."""
    if target is None:
        yield {}
        return
    with plan.peers.working(
        packages, lambda peer: peer.seconds("open", url=target.loopback, token=target.token)
    ) as found:
        yield {name: lambda peer=peer: peer.seconds("frame", sql=query) for name, peer in found.items()}


def _over_the_cursor(plan: Plan, target: Target, rows: int) -> list[Line]:
    """Compare a cell whose result is too large for one response of sqld with libsql, which always uses a cursor."""
    with target.connect() as database:
        database.execute(data.CREATE_WIDE)
        database.load(data.wide(rows), "wide", "append")
    with connected(target) as shell, _readers(plan, target, data.WIDE, ("libsql",)) as readers:
        ours = {"cell": lambda: seconds(lambda: shell.run_cell_magic("sql", "", data.WIDE))}
        values = interleave(5, {**ours, **readers})
    what = f"{rows * data.COLUMNS:,} cells from sqld, over the cursor"
    if "libsql" not in values:
        return [Line(what, "s", values["cell"])]
    return [Line(what, "s", values["cell"], "libsql", values["libsql"], faster(1.2))]
