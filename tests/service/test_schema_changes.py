"""A stream uses the current schema, also after another stream has changed it."""

from __future__ import annotations

import pytest
from service_calls import CLOSE, execute

BEFORE = ("DROP TABLE IF EXISTS t", "CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
AFTER = ("DROP TABLE t", "CREATE TABLE t(a, b)")


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO t VALUES (2, 3)", "INSERT INTO t(b) VALUES (3)", "SELECT b FROM t", "UPDATE t SET b = 3"],
)
def test_a_stream_with_a_cached_schema(db, statement):
    stream = db.post(*map(execute, BEFORE))
    assert set(db.run(*AFTER).codes) == {"ok"}
    answer = db.post(execute(statement), CLOSE, baton=stream.baton)
    assert answer.codes == ["ok", "ok"], answer.body


def test_a_connection_that_is_kept_for_the_next_stream(db):
    holder = db.post(*map(execute, BEFORE))
    db.run("INSERT INTO t VALUES (1)")
    db.post(*map(execute, AFTER), CLOSE, baton=holder.baton)
    for _ in range(3):
        assert db.run("INSERT INTO t VALUES (2, 3)").codes == ["ok", "ok"]


def test_a_description_is_of_the_current_schema(db):
    stream = db.post(*map(execute, BEFORE))
    db.run(*AFTER)
    described = db.post({"type": "describe", "sql": "INSERT INTO t VALUES (?, ?)"}, CLOSE, baton=stream.baton)
    assert described.codes == ["ok", "ok"]


def test_an_error_in_a_transaction_does_not_begin_to_read(db):
    db.run(*BEFORE)
    stream = db.post(execute("BEGIN"), execute("INSERT INTO t VALUES (1, 2, 3)"))
    assert stream.codes == ["ok", "SQLITE_ERROR"]
    db.run("INSERT INTO t VALUES (2)")
    answer = db.post(execute("INSERT INTO t VALUES (3)"), execute("COMMIT"), CLOSE, baton=stream.baton)
    assert answer.codes == ["ok", "ok", "ok"]
