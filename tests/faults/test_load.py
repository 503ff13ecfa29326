"""Many concurrent clients and open streams; the measurements are printed (``pytest -s``)."""

from __future__ import annotations

import asyncio
import sys

import psutil
import pytest
from closed_loop import SCHEMA, load
from served import serve

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the figures are of Unix processes")

STREAMS, MEMORY = 500, 256 * 1024  # bytes each
CLIENTS, DATABASES = 200, 4


def test_500_open_streams_take_little_memory_and_all_continue(tmp_path):
    with serve(tmp_path / "data", "--port", "0") as service, service.database("db") as db:
        db.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)", "INSERT INTO t VALUES (1, 'one'), (2, 'two')")
        process = psutil.Process(service.process.pid)
        before = process.memory_info().rss
        batons = [db.run("SELECT * FROM t", "BEGIN", close=False)["baton"] for _ in range(STREAMS)]
        each = (process.memory_info().rss - before) / STREAMS
        print(f"\n{STREAMS} open streams: {each / 1024:.0f} KB each")
        assert each < MEMORY
        assert len(set(batons)) == STREAMS
        for baton in batons[:-51:-1]:  # the youngest: the first transactions may have been open for 5 s
            assert len(db.run("SELECT * FROM t", baton=baton)["results"][0]["response"]["result"]["rows"]) == 2


def test_200_clients_read_and_write_without_a_failure(tmp_path, soak):
    with serve(tmp_path / "data", "--port", "0") as service:
        databases = [service.database(f"db{number}") for number in range(DATABASES)]
        for db in databases:
            db.run(*SCHEMA)
        headers = [{"Host": f"127.0.0.1:{service.port}", "Authorization": f"Bearer {db.token}"} for db in databases]
        seconds = 20 if soak else 2
        outcome = asyncio.run(load(service.port, headers, clients=CLIENTS, seconds=seconds, writes_in_100=20))
        print(
            f"\n{CLIENTS} clients, {DATABASES} databases: {outcome.rate:,.0f} requests/s, "
            f"p50 {outcome.percentile(50) * 1000:.1f} ms, p99 {outcome.percentile(99) * 1000:.1f} ms"
        )
        assert outcome.failures == []
        assert outcome.writes > 20
        assert sum(int(db.rows("SELECT sum(v) FROM load")[0][0]) for db in databases) == outcome.writes
        for db in databases:
            assert db.rows("PRAGMA integrity_check") == [("ok",)]
            db.http.close()
