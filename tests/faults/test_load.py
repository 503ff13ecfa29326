"""Many open streams take little memory, which is printed (``pytest -s``)."""

from __future__ import annotations

import sys

import psutil
import pytest
from served import serve

STREAMS, MEMORY = 300, 256 * 1024  # bytes each


@pytest.mark.skipif(sys.platform == "win32", reason="the figures are of Unix processes")
def test_open_streams_take_little_memory_and_continue(tmp_path):
    with serve(tmp_path / "data", "--port", "0") as service, service.database("db") as db:
        db.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)", "INSERT INTO t VALUES (1, 'one'), (2, 'two')")
        process = psutil.Process(service.process.pid)
        before = process.memory_info().rss
        batons = [db.run("SELECT * FROM t", close=False)["baton"] for _ in range(STREAMS)]
        each = (process.memory_info().rss - before) / STREAMS
        print(f"\n{STREAMS} open streams: {each / 1024:.0f} KB each")
        assert each < MEMORY
        assert len(set(batons)) == STREAMS
        for baton in batons[-10:]:  # the youngest: the first ones may have been idle for 10 s
            assert len(db.run("SELECT * FROM t", baton=baton)["results"][0]["response"]["result"]["rows"]) == 2
