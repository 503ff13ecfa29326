"""What a statement does, told from its text; and queries that stop early."""

from __future__ import annotations

import sqlite3

import pytest

from pipemagic import sql
from pipemagic.session import kinds


def one(text):
    (statement,) = sql.split(text)
    return statement


@pytest.mark.parametrize(
    ("text", "verb", "rows"),
    [
        ("SELECT 1", "SELECT", True),
        ("VALUES (1)", "VALUES", True),
        ("EXPLAIN DELETE FROM t", "EXPLAIN", True),
        ("WITH a AS (SELECT 1), b(x) AS NOT MATERIALIZED (SELECT 2) SELECT * FROM a", "SELECT", True),
        ("with recursive replace as (values(1)) insert into t select * from replace", "INSERT", False),
        ("WITH a AS (SELECT 1) UPDATE t SET x = (SELECT 1) RETURNING x", "UPDATE", True),
        ("INSERT INTO t VALUES ('RETURNING')", "INSERT", False),
        ('INSERT INTO t("returning") VALUES (1)', "INSERT", False),
        ("DELETE FROM t /* returning */", "DELETE", False),
        ("REPLACE INTO t VALUES (1) RETURNING *", "REPLACE", True),
        ("CREATE TABLE t AS SELECT 1", "CREATE", False),
        ("PRAGMA user_version", "PRAGMA", None),
        ("BEGIN", "BEGIN", False),
    ],
)
def test_what_a_statement_does(text, verb, rows):
    assert kinds.verb(one(text)) == verb
    assert kinds.returns_rows(one(text)) is rows
    assert kinds.is_query(one(text)) is (verb in ("SELECT", "VALUES"))
    assert kinds.only_reads(one(text)) is (verb in ("SELECT", "VALUES", "EXPLAIN"))


def limited(text, rows):
    edit = kinds.limited(one(text).text, rows)
    return text if edit is None else one(text).text[: edit.start] + edit.text


@pytest.fixture(scope="module")
def numbers():
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE n (a INTEGER)")
    database.executemany("INSERT INTO n VALUES (?)", [(number,) for number in range(20)])
    yield database
    database.close()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM n",
        "SELECT a FROM n ORDER BY a DESC",
        "SELECT a, a, a AS A FROM n WHERE a > 1 ORDER BY 1",
        "SELECT a FROM n LIMIT 3",
        "SELECT a FROM n LIMIT 3 OFFSET 2",
        "SELECT a FROM n LIMIT 2, 3",
        "SELECT a FROM n LIMIT 2, 30 -- of them",
        "SELECT a FROM n LIMIT -1",
        "SELECT a FROM n LIMIT 30 -- many\n OFFSET 2",
        "SELECT a FROM n LIMIT 1 + (SELECT 10) OFFSET (SELECT 1)",
        "SELECT a FROM n LIMIT '4'",
        "SELECT a FROM n LIMIT 4.0",
        "SELECT a FROM n LIMIT 0",
        "SELECT a FROM n UNION ALL SELECT a + 100 FROM n ORDER BY a DESC",
        "SELECT a FROM n EXCEPT SELECT 3 ORDER BY 1 LIMIT 12",
        "WITH c AS (SELECT a FROM n LIMIT 9) SELECT * FROM c, c AS d",
        "WITH c AS (SELECT a FROM n LIMIT 9) SELECT * FROM c",
        "SELECT * FROM (SELECT a FROM n LIMIT 9)",
        "SELECT 'LIMIT 1', \"a\" FROM n /* LIMIT 1 */",
        "SELECT a FROM n -- LIMIT 1",
        "VALUES (1), (2), (3)",
        "SELECT 1 UNION ALL VALUES (2), (3)",
        "SELECT count(*) FROM n GROUP BY a % 7 HAVING a > 1",
        "SELECT a, sum(a) OVER (ORDER BY a ROWS 2 PRECEDING) FROM n WINDOW w AS (ORDER BY a)",
    ],
)
@pytest.mark.parametrize("rows", [0, 3, 5, 100])
def test_a_limited_query_gives_the_first_rows_of_the_same(numbers, text, rows):
    whole, fewer = numbers.execute(text), numbers.execute(limited(text, rows))
    assert [column[0] for column in fewer.description] == [column[0] for column in whole.description]
    found = fewer.fetchall()
    assert found[:rows] == whole.fetchall()[:rows]
    if "VALUES" not in text and "'4'" not in text and "4.0" not in text:
        assert len(found) <= rows


def test_an_error_in_a_limit_stays_one(numbers):
    for limit in ("'x'", "NULL", "2.5"):
        with pytest.raises(sqlite3.Error, match="datatype mismatch"):
            numbers.execute(limited(f"SELECT a FROM n LIMIT {limit}", 5))
