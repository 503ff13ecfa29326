"""Streams of one token that read many rows repeatedly."""

from __future__ import annotations

import pytest
from probes import probing, repeating, sql_probe, undisturbed
from served import Database
from waiting import pause

STREAMS = 16
ROWS = 1_000_000
COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
FILL = "INSERT INTO t " + COUNT + " SELECT i, 'row number ' || i FROM n"
HEAVY = "SELECT count(*), sum(length(b)), max(b) FROM t"
READ = COUNT.format(rows=80_000) + " SELECT max(i) FROM n"
"""Takes some 30 ms on an idle machine."""
WRITE = "INSERT INTO t " + COUNT.format(rows=40_000) + " SELECT NULL, 'row number ' || i FROM n"
"""About as long."""
SECONDS = 6.0
SLOWER = 3.0
ATTEMPTS = 2
"""Other programs on the machine may slow one of them."""


@pytest.mark.usefixtures("alone")
def test_sixteen_heavy_streams_slow_others_by_a_factor_of_three_at_most(scene):
    with Database(scene.service.url, scene.attacker) as attacker, Database(scene.service.url, scene.other) as other:
        attacker.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)", FILL.format(rows=ROWS))
        other.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
    probes = {"read": sql_probe(scene.other, READ), "write": sql_probe(scene.other, WRITE)}
    assert any(is_slowed_little(scene, probes) for _ in range(ATTEMPTS))


def is_slowed_little(scene, probes) -> bool:
    """Measure the probes without and with the streams; return True if none is slowed by more than the factor."""
    before = undisturbed(scene.service, probes, every=None)
    with repeating(scene.service, scene.attacker, HEAVY, streams=STREAMS) as streams:
        pause(0.5)
        with probing(scene.service, probes, every=None) as during:
            pause(SECONDS)
    for name in probes:
        print(f"\n{name}: undisturbed {before[name]}; during the attack {during[name]}", end="")
        assert not during[name].failures, during[name].failures[:3]
    assert sum(stream.responses for stream in streams) > STREAMS, "the streams were no burden"
    return all(during[name].p50 <= SLOWER * before[name].p50 for name in probes)
