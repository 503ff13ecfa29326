"""Streams that stay open: they take little memory, and go on when their clients do."""

from __future__ import annotations

import sys

import psutil
import pytest
from promises import Promise
from served import Database
from waiting import until

pytestmark = [
    pytest.mark.promise(Promise.MEMORY),
    pytest.mark.skipif(sys.platform == "win32", reason="the figures are of Unix processes"),
]

STREAMS, MEMORY = 300, 256 * 1024  # bytes each
ROWS = 4000
"""Rows of a table of 4 MB, all of which a connection keeps in its page cache."""


@pytest.mark.parametrize("rows", [2, ROWS], ids=["small table", "table of 4 MB"])
def test_300_idle_streams_take_little_memory_and_continue(fresh_scene, rows):
    service = fresh_scene.service
    with Database(service.url, fresh_scene.attacker) as db:
        db.run(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b)",
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {rows}) "
            "INSERT INTO t SELECT i, randomblob(1000) FROM n",
        )
        process = psutil.Process(service.process.pid)
        before = process.memory_info().rss
        batons = [db.run("SELECT count(b) FROM t", close=False)["baton"] for _ in range(STREAMS)]
        # A stream frees its cache after its response was sent, if a quarter of SQLite's half of the memory is in use.
        caches = service.max_memory // 2 // 4
        until(lambda: process.memory_info().rss - before < STREAMS * MEMORY + caches)
        assert len(set(batons)) == STREAMS
        fresh_scene.others_work()
        for baton in batons[-10:]:  # the youngest: the first ones may have been idle for 10 s
            body = db.run("SELECT count(b) FROM t", baton=baton)
            assert body["results"][0]["response"]["result"]["rows"] == [[{"type": "integer", "value": str(rows)}]]
