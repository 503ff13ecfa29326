"""A connection that wrote is kept, and its next stream does not see that."""

from __future__ import annotations

import pytest
from service_calls import execute

COUNTERS = "SELECT last_insert_rowid(), changes(), total_changes()"


def connection_count(service, db):
    record = service.tokens.check_database(f"Bearer {db.token}", None).database
    return len(service.engine.databases.open(record).pool.idle())


def test_the_counters_of_a_kept_connection_begin_anew(service, db):
    assert db.run("CREATE TABLE t(a)", "INSERT INTO t VALUES (1), (2)", COUNTERS).rows(2) == [["2", "2", "2"]]
    assert db.run(COUNTERS).rows() == [["0", "0", "0"]]
    answer = db.run("DELETE FROM t WHERE a = 1", COUNTERS, "UPDATE t SET a = 3 WHERE a = 9", COUNTERS)
    assert answer.rows(1) == [["0", "1", "1"]]
    assert answer.rows(3) == [["0", "0", "1"]]
    assert db.run("UPDATE t SET a = 3 WHERE a = 9", COUNTERS).rows(1) == [["0", "0", "0"]]


def test_a_trigger_may_use_them(db):
    db.run("CREATE TABLE t(a)", "CREATE TABLE log(n, total)")
    db.run("CREATE TRIGGER count AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (changes(), total_changes()); END")
    db.run("INSERT INTO t VALUES (1), (2)")
    answer = db.run("UPDATE t SET a = 5", "SELECT changes(), total_changes()", "SELECT total FROM log")
    assert answer.rows(1) == [["2", "4"]]
    assert answer.rows(2) == [["0"], ["1"]]


@pytest.mark.parametrize(
    "leaves_a_trace",
    [
        "CREATE TEMP TABLE mine(a)", "CREATE TEMP VIEW mine AS SELECT 1", "CREATE TABLE temp.mine(a)",
        "CREATE VIRTUAL TABLE temp.mine USING fts5(a)", "CREATE VIRTUAL TABLE temp.mine USING rtree(a, b, c)",
        "CREATE VIRTUAL TABLE temp.mine USING dbstat(main)", "CREATE VIRTUAL TABLE temp.mine USING fts5vocab(t, row)",
    ],
)  # fmt: skip
def test_temporary_objects_of_a_stream_are_not_visible_to_the_next(db, leaves_a_trace):
    db.run("CREATE VIRTUAL TABLE t USING fts5(a)")
    answer = db.run(leaves_a_trace)
    assert answer.codes in (["ok", "ok"], ["SQLITE_ERROR", "ok"])
    for _ in range(3):
        assert db.run("SELECT count(*) FROM temp.sqlite_master").rows() == [["0"]]
        assert db.run("SELECT * FROM mine").codes[0] != "ok"


def test_a_writing_stream_keeps_its_connection_for_the_next(service, db):
    db.run("CREATE TABLE t(a)")
    for number in range(5):
        assert set(db.post(execute(f"INSERT INTO t VALUES ({number})"), {"type": "close"}).codes) == {"ok"}
        assert connection_count(service, db) == 1
