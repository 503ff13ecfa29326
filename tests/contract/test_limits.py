"""Limits of sizes (section 13); the service in process has smaller ones than by default."""

import json

from contract_servers import MAX_BODY
from contract_wire import CLOSE, execute

MAX_RESPONSE = 10 * 1024 * 1024
"""Of sqld, and of the service in process."""


def test_a_result_of_many_rows_is_complete(db):
    count = 15_000  # more than a megabyte
    numbers = f"WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT {count})"
    answer = db.post(execute(f"{numbers} SELECT n, 'row ' || n FROM c"), CLOSE)
    rows = answer.result()["rows"]
    assert len(rows) == count
    assert rows[-1] == [{"type": "integer", "value": str(count)}, {"type": "text", "value": f"row {count}"}]


def test_a_statement_may_have_two_thousand_columns(db):
    row = ",".join(str(number) for number in range(2000))
    assert len(db.rows(f"SELECT {row}")[0]) == 2000


def test_a_statement_may_have_thirty_thousand_arguments(db):
    answer = db.post(execute("SELECT max(" + ",".join("?" * 100) + ")", *range(100)), CLOSE)
    assert answer.rows() == [[99]]
    values = ",".join(["(?)"] * 30_000)
    db.run("CREATE TABLE t(a)")
    assert (
        db.post(execute(f"INSERT INTO t VALUES {values}", *range(30_000)), CLOSE).result()["affected_row_count"]
        == 30_000
    )


def test_a_value_of_four_megabytes_is_accepted(db):
    assert db.post(execute("SELECT length(?)", "x" * 4_000_000), CLOSE).rows() == [[4_000_000]]


def test_a_result_beyond_the_limit_is_an_error_and_the_pipeline_continues(db):
    rows = f"WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT {MAX_RESPONSE // 4_000_000 + 1})"
    answer = db.post(execute(f"{rows} SELECT hex(zeroblob(2000000)) FROM c"), execute("SELECT 1"), CLOSE)
    assert answer.codes == ["RESPONSE_TOO_LARGE", "ok", "ok"]
    assert answer.rows(1) == [[1]]


def test_changes_of_a_statement_with_a_too_large_result_stay_applied(db):
    count = MAX_RESPONSE // 4_000_000 + 1
    db.run("CREATE TABLE t(a)")
    numbers = f"WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT {count}) SELECT n FROM c"
    insert = execute(f"INSERT INTO t {numbers} RETURNING hex(zeroblob(2000000))")
    assert db.post(insert, CLOSE).codes == ["RESPONSE_TOO_LARGE", "ok"]
    assert db.rows("SELECT count(*) FROM t") == [[count]]


def test_a_value_beyond_the_limit_is_an_error_of_its_statement(db, fact):
    size = fact("bytes that are more than a value may have")
    answer = db.post(execute("SELECT length(randomblob(?))", size), execute("SELECT 1"), CLOSE)
    assert answer.codes == ["SQLITE_TOOBIG", "ok", "ok"]


def test_a_body_beyond_the_limit_is_413(db):
    head, tail = json.dumps({"requests": [execute("SELECT 1 /*|*/"), CLOSE]}).encode().split(b"|")
    answer = db.send_body(head + b"x" * MAX_BODY + tail)
    assert (answer.status, answer.content_type) == (413, "application/json")
    assert f"{MAX_BODY:,} bytes" in answer.fault
