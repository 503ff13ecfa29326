"""Measure rows per second into a new table, beside pandas and libsql-client; and a cell that reads a frame in SQL."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
from IPython.utils.capture import capture_output

from benchmarks import data, servers
from benchmarks.cells import connected
from benchmarks.lines import Line, at_least, at_most
from benchmarks.measure import Plan, interleave, seconds
from benchmarks.servers import Target
from pipemagic.hrana.values import decode

ROUNDS = 5
TABLE = "loaded"
LARGE = 1_000_000
"""Rows of the frame that a cell reads; it takes most of the 64 MB that a cell may send."""


def measure(plan: Plan) -> list[Line]:
    """Load into both servers; libsql-client, which takes long, gets fewer rows in a short run."""
    wide, flights = data.wide(data.ROWS), data.flights()
    batched = wide.head(plan.pick(data.ROWS, 20_000))
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.service() as service,
        servers.sqld(options=servers.SQLD_UNLIMITED) as sqld,
    ):
        targets = [target for target in (service, sqld) if target is not None]
        path = Path(folder) / "rows.json"
        path.write_text(json.dumps(_plain(batched)), encoding="utf-8")
        batch = [] if sqld is None else ["libsql-client"]
        with plan.peers.working(batch, lambda peer: peer.seconds("open", url=sqld.loopback, token=sqld.token)) as peers:
            others = {
                name: lambda peer=peer: len(batched) / _batch(sqld, peer.seconds, path) for name, peer in peers.items()
            }
            lines = _lines(targets, f"{len(wide):,} rows", wide, Path(folder), (2, 2), others)
        lines += _lines(targets, f"{len(flights):,} flights", flights, Path(folder), (1, 0.8), {})
        large = data.wide(LARGE)
        return lines + [_in_sql(target, large) for target in targets]


def _lines(
    targets: list[Target], what: str, frame: pd.DataFrame, folder: Path, aims: tuple[float, float],
    others: dict[str, Callable[[], float]],
) -> list[Line]:  # fmt: skip
    """Load a frame into the targets, in turn with pandas and ``others``; check every value afterwards."""
    candidates = {target.name: _loading(target, frame) for target in targets}
    candidates["pandas"] = lambda: _to_sql(frame, folder / "local.sqlite")
    values = interleave(ROUNDS, candidates | others)
    lines = []
    for target, aim in zip(targets, aims, strict=False):
        _check(target, frame)
        name, ours = f"loading {what} into {target.name}", values[target.name]
        lines.append(Line(name, "rows/s", ours, "DataFrame.to_sql, local SQLite", values["pandas"], at_least(aim)))
        lines += [Line(name, "rows/s", ours, f"{other} batch, sqld", values[other], at_least(10)) for other in others]
    return lines


def _in_sql(target: Target, frame: pd.DataFrame) -> Line:
    """Compare a cell that reads a frame with loading it, in turn."""
    query = "SELECT count(*) AS n, count(amount) AS amounts, sum(amount) AS amount, max(price) AS price FROM frame"
    expected = [len(frame), frame["amount"].count(), frame["amount"].sum(), frame["price"].max()]
    with connected(target) as shell:
        shell.user_ns["frame"] = frame

        def read() -> None:
            with capture_output():  # the line that says what was sent
                found = shell.run_cell_magic("sql", "", query)
            if found.iloc[0].tolist() != expected:
                raise RuntimeError(f"the sums of {target.name} are not those of the frame: {found}, not {expected}")

        load = _loading(target, frame)
        values = interleave(ROUNDS, {"cell": lambda: seconds(read), "load": lambda: len(frame) / load()})
    name = f"%%sql {query.partition(' AS')[0]}, ... FROM {len(frame):,} rows, on {target.name}"
    return Line(name, "s", values["cell"], "loading them", values["load"], at_most(1.3))


def _loading(target: Target, frame: pd.DataFrame) -> Callable[[], float]:
    def load() -> float:
        with target.connect() as database:
            database.execute(f"DROP TABLE IF EXISTS {TABLE}")
            return len(frame) / seconds(lambda: database.load(frame, TABLE))

    return load


def _to_sql(frame: pd.DataFrame, path: Path) -> float:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        return len(frame) / seconds(lambda: frame.to_sql(TABLE, connection, index=False))


def _batch(target: Target, call: Callable[..., float], path: Path) -> float:
    with target.connect() as database:
        database.execute("DROP TABLE IF EXISTS batch")
        database.execute("CREATE TABLE batch(id INTEGER, name TEXT, price REAL, amount INTEGER, day TEXT)")
        return call("load", table="batch", path=str(path))


def _check(target: Target, frame: pd.DataFrame) -> None:
    """Check every value and every type of the loaded table."""
    with target.connect() as database, database.cursor(f"SELECT * FROM {TABLE} ORDER BY rowid") as cursor:
        found = (tuple(map(decode, row)) for rows in cursor for row in rows)
        for row, expected in zip(found, map(tuple, _plain(frame)), strict=True):
            if row != expected or list(map(type, row)) != list(map(type, expected)):
                raise RuntimeError(f"the rows in {target.name} are not those of the frame: {row}, not {expected}")


def _plain(frame: pd.DataFrame) -> list[list[object]]:
    """Return the rows as Python values, None for missing values."""
    return frame.astype(object).where(frame.notna(), None).values.tolist()
