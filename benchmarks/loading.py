"""Rows a second into a new table, all rows or none, beside pandas into a local file and libsql-client's batch."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd

from benchmarks import data, servers
from benchmarks.lines import Line, at_least
from benchmarks.measure import Plan, interleave, seconds
from benchmarks.servers import Target

ROUNDS = 5
TABLE = "loaded"


def measure(plan: Plan) -> list[Line]:
    """Load into both servers; libsql-client, which takes long, gets fewer rows in a short run."""
    frame = data.wide(data.ROWS)
    batched = frame.head(plan.pick(data.ROWS, 20_000))
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.service() as service,
        servers.sqld(options=servers.SQLD_UNLIMITED) as sqld,
    ):
        targets = [target for target in (service, sqld) if target is not None]
        path = Path(folder) / "rows.json"
        path.write_text(json.dumps(_plain(batched)), encoding="utf-8")
        candidates: dict[str, Callable[[], float]] = {target.name: _loading(target, frame) for target in targets}
        candidates["pandas"] = lambda: _to_sql(frame, Path(folder) / "local.sqlite")
        batch = [] if sqld is None else ["libsql-client"]

        with plan.peers.working(batch, lambda peer: peer.seconds("open", url=sqld.loopback, token=sqld.token)) as peers:
            candidates |= {
                name: lambda peer=peer: len(batched) / _batch(sqld, peer.seconds, path) for name, peer in peers.items()
            }
            values = interleave(ROUNDS, candidates)
        for target in targets:
            _check(target, frame)
    lines = []
    for target in targets:
        what, ours = f"loading {len(frame):,} rows into {target.name}", values[target.name]
        lines.append(Line(what, "rows/s", ours, "DataFrame.to_sql, local SQLite", values["pandas"], at_least(2)))
        if "libsql-client" in values:
            lines.append(Line(what, "rows/s", ours, "libsql-client batch, sqld", values["libsql-client"], at_least(10)))
    return lines


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
    """Look whether what was measured is right: every value, and every type."""
    with target.connect() as database:
        found = database.execute(f"SELECT * FROM {TABLE} ORDER BY id").rows
    if [list(map(_typed, row)) for row in found] != [list(map(_typed, row)) for row in _plain(frame)]:
        raise RuntimeError(f"the rows in {target.name} are not those of the frame")


def _plain(frame: pd.DataFrame) -> list[list[object]]:
    """Give the rows as Python values, None for what is missing."""
    return frame.astype(object).where(frame.notna(), None).values.tolist()


def _typed(value: object) -> tuple[str, object]:
    return type(value).__name__, value
