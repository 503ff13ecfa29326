"""Long statements, many streams and many connections of one database: the work of others succeeds.

``python -m benchmarks lesson`` measures the p95 of a class of 200 students meanwhile, which is at most three times that
of an undisturbed lesson.
"""

from __future__ import annotations

import pytest
from probes import ENDLESS, PING, answered, connections, open_streams, post_sql, raw_post
from promises import Promise
from served import Database
from waiting import until

pytestmark = pytest.mark.promise(Promise.FAIRNESS)

STATEMENTS = 32
"""Long-running statements of one database that run at a time."""
ROWS = 200_000
HEAVY = f"""CREATE TABLE IF NOT EXISTS heavy AS
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {ROWS}) SELECT i, 'row ' || i AS b FROM n"""
CROSS_JOIN = "SELECT count(*) FROM heavy a, heavy b, heavy c"
AGAIN = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT sum(length(b)) FROM n, heavy"
"""Reads the table again and again."""
LOADS = {
    "a recursive query without end": (1, ENDLESS),
    "a cross join": (1, CROSS_JOIN),
    "16 heavy streams": (16, AGAIN),
    "more endless statements than may run": (2 * STATEMENTS + 2, ENDLESS),
}


@pytest.mark.parametrize(("streams", "sql"), LOADS.values(), ids=LOADS)
def test_others_work_beside_long_statements_of_one_database(fresh_scene, streams, sql):
    service = fresh_scene.service
    with Database(service.url, fresh_scene.attacker) as attacker:
        attacker.run(HEAVY)
    with connections(service, streams) as opened:
        for connection in opened:
            connection.sendall(post_sql(fresh_scene.attacker, sql))
        until(lambda: open_streams(service) == min(streams, STATEMENTS))
        fresh_scene.others_work()
        assert answered(opened) == []
    until(lambda: open_streams(service) == 0)


def test_others_work_beside_300_idle_connections(scene):
    """A third has sent nothing, a third a part of a request, and a third waits after its response."""
    complete = raw_post(scene.attacker, f"Content-Length: {len(PING)}").replace(b"Connection: close\r\n", b"")
    with connections(scene.service, 300) as opened:
        for number, connection in enumerate(opened):
            connection.sendall([b"", complete[: 10 + number], complete][number % 3])
        for connection in opened[2::3]:
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        scene.others_work()


def test_others_and_the_same_database_work_beside_forgotten_cursors(fresh_scene):
    body = b'{"batch":{"steps":[{"stmt":{"sql":"SELECT a.i, b.b FROM heavy a, heavy b"}}]}}'
    request = raw_post(fresh_scene.attacker, f"Content-Length: {len(body)}", body=body, path="/v3/cursor")
    with (
        Database(fresh_scene.service.url, fresh_scene.attacker) as attacker,
        connections(fresh_scene.service, 40, receive_buffer=4096) as opened,
    ):
        attacker.run(HEAVY, "CREATE TABLE t(a)")
        for connection in opened:
            connection.sendall(request)
        for connection in opened:
            assert connection.recv(20).startswith(b"HTTP/1.1 200 OK")
        fresh_scene.others_work()
        for number in range(100):
            attacker.run(f"INSERT INTO t VALUES ({number})")
        assert attacker.rows("SELECT count(*) FROM t") == [("100",)]
