"""Measure a commit with a replica: the bytes copied, and the time until the replica has it."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.lines import Line, below
from benchmarks.measure import Plan, seconds
from pipemagic.service.replicas.replica_set import ReplicaSet, replicas_of
from pipemagic.service.service import Service
from pipemagic.service.sqlite.database import OpenDatabase

ROW = 1000
FILL = (
    "CREATE TABLE t(id INTEGER PRIMARY KEY, a);"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {rows})"
    " INSERT INTO t SELECT i, randomblob({size}) FROM n"
)


def measure(plan: Plan) -> list[Line]:
    """Commit one row at a time to a large database; the file is copied in the same rounds."""
    with tempfile.TemporaryDirectory() as name:
        service = Service(Path(name))
        try:
            database = _database(service, plan.pick(1000, 50))
            service.start()
            shown, shipped, copied = [], [], []
            for number in range(plan.rounds + 1):
                replicas = database.observer
                assert isinstance(replicas, ReplicaSet)
                before = replicas.shipped
                shown.append(_until_shown(database, number))
                shipped.append(float(replicas.shipped - before))
                copied.append(seconds(lambda: shutil.copyfile(database.path, Path(name) / "copy")))
            size = float(database.path.stat().st_size)
        finally:
            service.close()
    what = f"one-row commit, {size / 1e6:,.0f} MB, one replica"
    return [
        Line(f"{what}: bytes shipped", "B", shipped[1:], "the file", [size], below(100_000)),
        Line(f"{what}: until the replica shows it", "s", shown[1:], "copy of the file", copied[1:], below(0.05)),
    ]


def _database(service: Service, megabytes: int) -> OpenDatabase:
    service.catalog.create_group("local", "default", "ams")
    record = service.catalog.create_database("local", "bench", "default")
    connection = service.engine.databases.open(record).take()
    connection.raw.execute(FILL.format(rows=megabytes * 1000, size=ROW))
    connection.close()
    service.engine.sync_locations(service.catalog.add_location("local", "default", "nrt"))
    while service.engine.replicator.run_due():
        pass
    return service.engine.databases.open(record)


def _until_shown(database: OpenDatabase, number: int) -> float:
    writer, replica = database.take(), replicas_of(database)["nrt"]
    writer.raw.execute("UPDATE t SET a = ? WHERE id = ?", (f"row {number}", 1 + number * 997))
    began = time.perf_counter()  # after the commit, whose time depends on other work of the disk
    waiter = replica.wait_for(database.index, float("inf"))
    waiter.wait(30)
    assert waiter.granted, "the replica did not follow"
    took = time.perf_counter() - began
    writer.release(writer)
    return took
