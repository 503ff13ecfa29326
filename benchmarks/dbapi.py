"""Measure `pipemagic.dbapi`: `fetchall` beside `query()`, and `executemany` beside other packages and `load`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pandas as pd

from benchmarks import data, servers
from benchmarks.lines import Line, at_least, at_most
from benchmarks.measure import Plan, interleave, seconds
from benchmarks.servers import SQLD_UNLIMITED, UNLIMITED, Target
from pipemagic import dbapi

PEERS = ("libsql", "turso-serverless")

FETCH_ROUNDS, ROUNDS = 7, 3

MANY = 100_000
"""The rows of an `executemany`."""

CREATE = "CREATE TABLE many(id INTEGER, name TEXT, price REAL, amount INTEGER, day TEXT)"
INSERT = "INSERT INTO many VALUES (?, ?, ?, ?, ?)"

Row = tuple[object, ...]


def measure(plan: Plan) -> list[Line]:
    """Measure both servers; the other packages, which send a request for each row, get fewer rows in a short run."""
    frame = data.wide(MANY)
    with servers.service(options=UNLIMITED) as service, servers.sqld(options=SQLD_UNLIMITED) as sqld:
        targets = [target for target in (service, sqld) if target is not None]
        lines = [_fetching(target) for target in targets]
        lines += _inserting(service, frame, {})
        if sqld is not None:
            lines += _beside_peers(plan, sqld, frame)
    return lines


def _fetching(target: Target) -> Line:
    """Compare the rows of a cursor with the same rows as a DataFrame."""
    with target.connect() as database, closing(dbapi.connect(target.url, target.token)) as connection:
        database.execute(data.CREATE_WIDE)
        database.load(data.wide(data.ROWS), "wide", "append")
        cursor = connection.cursor()
        candidates: dict[str, Callable[[], float]] = {
            "fetchall": lambda: seconds(lambda: cursor.execute(data.WIDE).fetchall()),
            "query": lambda: seconds(lambda: database.query(data.WIDE)),
        }
        values = interleave(FETCH_ROUNDS, candidates)
        cursor.close()
    what = f"{data.ROWS * data.COLUMNS:,} cells from {target.name} by fetchall"
    return Line(what, "s", values["fetchall"], "query()", values["query"], at_most(1.5))


def _beside_peers(plan: Plan, sqld: Target, frame: pd.DataFrame) -> list[Line]:
    """Measure sqld together with the other packages, each in one transaction, as `pipemagic.dbapi`."""
    count = plan.pick(MANY, 2_000)
    with (
        tempfile.TemporaryDirectory() as folder,
        plan.peers.working(PEERS, lambda peer: peer.seconds("open", url=sqld.loopback, token=sqld.token)) as peers,
    ):
        path = Path(folder) / "rows.json"
        path.write_text(json.dumps(_rows(frame.head(count))), encoding="utf-8")

        def rate(call: Callable[..., float]) -> float:
            _create(sqld)
            return count / call("many", sql=INSERT, path=str(path))

        return _inserting(sqld, frame, {name: lambda peer=peer: rate(peer.seconds) for name, peer in peers.items()})


def _inserting(target: Target, frame: pd.DataFrame, others: dict[str, Callable[[], float]]) -> list[Line]:
    """Insert the rows of a frame, in turn with `load` and ``others``; check every value afterwards."""
    rows = _rows(frame)

    def load() -> float:
        _create(target)
        with target.connect() as database:
            return len(frame) / seconds(lambda: database.load(frame, "many", "append"))

    ours: dict[str, Callable[[], float]] = {"executemany": lambda: _executemany(target, rows), "load": load}
    values = interleave(ROUNDS, ours | others)
    what = f"executemany of {len(rows):,} rows into {target.name}"
    lines = [Line(what, "rows/s", values["executemany"], "load", values["load"], at_least(0.5))]
    lines += [
        Line(what, "rows/s", values["executemany"], f"{other}, executemany", values[other], at_least(100))
        for other in others
    ]
    return lines


def _executemany(target: Target, rows: Sequence[Row]) -> float:
    _create(target)
    with closing(dbapi.connect(target.url, target.token)) as connection:
        connection.execute("SELECT 1")  # opens the stream, as the workers of the other packages do

        def insert() -> None:
            connection.executemany(INSERT, rows)
            connection.commit()

        rate = len(rows) / seconds(insert)
        stored = connection.execute("SELECT * FROM many ORDER BY id").fetchall()
    for row, expected in zip(stored, rows, strict=True):
        if row != expected or list(map(type, row)) != list(map(type, expected)):
            raise RuntimeError(f"the rows in {target.name} are not those that were sent: {row}, not {expected}")
    return rate


def _create(target: Target) -> None:
    with target.connect() as database:
        database.execute("DROP TABLE IF EXISTS many")
        database.execute(CREATE)


def _rows(frame: pd.DataFrame) -> list[Row]:
    """Return the rows as Python values, None for missing values."""
    return list(map(tuple, frame.astype(object).where(frame.notna(), None).values.tolist()))
