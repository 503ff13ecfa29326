"""Functions of the service, and limits of SQLite's own."""

from __future__ import annotations

import tracemalloc

import pytest
from service_calls import execute

from pipemagic.service.sqlite.statement import parse


def test_like_still_uses_an_index(db):
    db.run("CREATE TABLE t(a TEXT COLLATE NOCASE)", "CREATE INDEX i ON t(a)")
    assert "SEARCH" in db.run("EXPLAIN QUERY PLAN SELECT * FROM t WHERE a LIKE 'ab%'").rows()[0][3]


@pytest.mark.parametrize("sql", ["SELECT 'a' LIKE ?", "SELECT 'a' GLOB ?", "SELECT x LIKE ? FROM (SELECT 'a' AS x)"])
def test_a_pattern_has_the_limit_of_sqlite(db, sql):
    longest, too_long = ({"type": "text", "value": "x" * size} for size in (50_000, 50_001))
    answer = db.post(execute(sql, longest), execute(sql, too_long))
    assert answer.codes == ["ok", "SQLITE_ERROR"]
    assert answer.rows() == [["0"]]
    assert answer.error(1)["message"] == "SQLite error: LIKE or GLOB pattern too complex"


@pytest.mark.parametrize("sql", ["SELECT 'a' LIKE 'b'", "ALTER TABLE t ALTER COLUMN a TO a DEFAULT (0)"])
def test_a_long_statement_needs_no_list_of_its_tokens(sql):
    """Tokens need a hundred times the memory of their text."""
    long = f"{sql}, {'1,' * 200_000} 1"
    tracemalloc.start()
    try:
        parse(long)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(long)


@pytest.mark.parametrize(
    "change",
    ["INSERT INTO pragma_database_list VALUES (1, 2, 3)", "UPDATE pragma_database_list SET name = 1",
     "DELETE FROM pragma_database_list"],
)  # fmt: skip
def test_the_list_of_databases_cannot_be_changed(db, change):
    assert db.post(execute(change)).error()["message"].endswith("table pragma_database_list may not be modified")


@pytest.mark.parametrize(
    "call",
    ["stddev(x)", "corr(x, 1)", "median(x)", "percentile_cont(1, x)", "date_trunc('day', x)",
     "date_trunc(x, '2024-01-01')"],
)  # fmt: skip
def test_text_that_is_not_utf8_is_an_error_of_the_statement(db, call):
    answer = db.post(execute(f"SELECT {call} FROM (SELECT CAST(x'ff' AS TEXT) AS x)"))
    assert (answer.status, answer.codes) == (200, ["SQLITE_MISMATCH"])
