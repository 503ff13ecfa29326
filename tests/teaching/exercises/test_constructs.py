"""Constructs of SQL that an exercise requires or forbids."""

from __future__ import annotations

import pytest

from pipemagic.errors import SessionError
from pipemagic.teaching.exercises.constructs import CONSTRUCTS, check_names, uses, violations

USED = {
    "WHERE": ["SELECT a FROM t WHERE b"],
    "GROUP BY": ["select a from t group\n by a"],
    "HAVING": ["SELECT a FROM t GROUP BY a HAVING count(*) > 1"],
    "ORDER BY": ["SELECT a FROM t ORDER BY a", "SELECT 1 UNION SELECT 2 ORDER BY 1",
                 "SELECT (SELECT a FROM t ORDER BY b)"],
    "LIMIT": ["SELECT a FROM t LIMIT 3"],
    "DISTINCT": ["SELECT DISTINCT a FROM t", "SELECT count(DISTINCT a) FROM t"],
    "JOIN": ["SELECT a FROM t JOIN u USING (a)", "SELECT a FROM t LEFT JOIN u ON 1", "SELECT a FROM t, u WHERE 1",
             "SELECT a FROM t AS x, u", "SELECT a FROM (SELECT 1) x, u"],
    "LEFT JOIN": ["SELECT a FROM t LEFT OUTER JOIN u ON 1", "SELECT a FROM t NATURAL LEFT JOIN u"],
    "CROSS JOIN": ["SELECT a FROM t CROSS JOIN u"],
    "UNION": ["SELECT 1 UNION ALL SELECT 2"],
    "UNION ALL": ["SELECT 1 UNION ALL SELECT 2"],
    "INTERSECT": ["SELECT 1 INTERSECT SELECT 2"],
    "EXCEPT": ["SELECT 1 EXCEPT SELECT 2"],
    "EXISTS": ["SELECT a FROM t WHERE NOT EXISTS (SELECT 1)"],
    "IN": ["SELECT a FROM t WHERE a IN (1, 2)"],
    "CASE": ["SELECT CASE a WHEN 1 THEN 2 END FROM t"],
    "SELECT *": ["SELECT * FROM t", "SELECT DISTINCT * FROM t", "SELECT t.* FROM t", "SELECT a, * FROM t"],
    "window function": ["SELECT rank() OVER (ORDER BY a) FROM t",
                        "SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY a)",
                        "SELECT sum(a) FILTER (WHERE b) OVER (ORDER BY a) FROM t"],
    "aggregate function": ["SELECT count(*) FROM t", "SELECT max(a) FROM t", "SELECT group_concat(a, ';') FROM t"],
    "common table expression": ["WITH x AS (SELECT 1) SELECT * FROM x",
                                "WITH x(a, b) AS MATERIALIZED (SELECT 1, 2) TABLE"],
    "WITH": ["SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x)"],
    "cte": ["WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3) SELECT i FROM n"],
    "recursive": ["WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3) SELECT i FROM n"],
    "subquery": ["SELECT a FROM (SELECT 1 AS a)", "SELECT a FROM t WHERE a > (SELECT avg(a) FROM t)"],
    "literal rows": ["VALUES (1), (2)", "SELECT * FROM (VALUES (1))"],
    "index": ["CREATE UNIQUE INDEX i ON t (a)"],
    "view": ["CREATE TEMP VIEW v AS SELECT 1"],
    "trigger": ["CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM u; END"],
    "foreign key": ["CREATE TABLE u (a REFERENCES t (a))"],
    "coalesce()": ["SELECT Coalesce (a, 0) FROM t"],
}  # fmt: skip

UNUSED = {
    "LIMIT": ["SELECT 'LIMIT 3' FROM t -- LIMIT 3", 'SELECT "limit" FROM t /* LIMIT */'],
    "ORDER BY": ["SELECT rank() OVER (ORDER BY a) FROM t", "SELECT group_concat(a ORDER BY b) FROM t"],
    "DISTINCT": ["SELECT a IS NOT DISTINCT FROM 1 FROM t"],
    "JOIN": ["SELECT a, b FROM t WHERE a IN (1, 2) GROUP BY a, b", "SELECT a IS DISTINCT FROM b, c FROM t",
             "SELECT a FROM t ORDER BY a, b", "DELETE FROM t RETURNING a, b"],
    "LEFT JOIN": ["SELECT left FROM t JOIN u USING (a)"],
    "EXISTS": ["CREATE TABLE IF NOT EXISTS t (a)", "DROP TABLE IF EXISTS t"],
    "SELECT *": ["SELECT count(*) FROM t", "SELECT a * b FROM t", "SELECT 2 * a FROM t"],
    "window function": ["SELECT count(*) over FROM t", "SELECT over FROM t"],
    "aggregate function": ["SELECT sum(a) OVER (ORDER BY b) FROM t", "SELECT max(a, b) FROM t", "SELECT count FROM t"],
    "common table expression": ["SELECT 1"],
    "subquery": ["WITH x AS (SELECT 1) SELECT * FROM x", "WITH x AS NOT MATERIALIZED (SELECT 1) SELECT * FROM x"],
    "literal rows": ["INSERT INTO t VALUES (1), (2)", "SELECT 'VALUES'"],
    "index": ["SELECT 1 -- CREATE INDEX"],
    "coalesce()": ["SELECT coalesce FROM t", "SELECT 'coalesce()'"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "sql"), [(name, sql) for name, all_sql in USED.items() for sql in all_sql])
def test_a_construct_is_found(name, sql):
    check_names([name])
    assert uses(sql, name)
    assert uses(f"SELECT 1;\n{sql};", name.upper())


@pytest.mark.parametrize(("name", "sql"), [(name, sql) for name, all_sql in UNUSED.items() for sql in all_sql])
def test_other_text_is_no_construct(name, sql):
    assert not uses(sql, name)


def test_violations_name_the_construct():
    requires = ["Window function", "aggregate function", "group by", "literal rows", "with", "VALUES", "coalesce()"]
    assert violations("SELECT a FROM t LIMIT 3", requires, ["limit", "DISTINCT", "from()"]) == [
        "must use a window function",
        "must use an aggregate function",
        "must use GROUP BY",
        "must use literal rows",
        "must use a common table expression",
        "must use literal rows",
        "must use coalesce()",
        "must not use LIMIT",
    ]
    assert violations("SELECT count(*) FROM t GROUP BY a", ["GROUP BY"], ["LIMIT"]) == []


def test_unknown_names_are_refused_with_the_known_ones():
    check_names([*CONSTRUCTS, " order by ", "julianday()"])
    with pytest.raises(SessionError, match="unknown construct 'window funktion'") as caught:
        check_names(["GROUP BY", "window funktion"])
    assert 'did you mean "window function"?' in caught.value.hint
    assert "subquery, literal rows" in caught.value.hint


@pytest.mark.parametrize("sql", ["", "SELECT ((", "SELECT 'open", ";;", ") OVER (", "(" * 5000])
def test_unfinished_statements_are_read(sql):
    assert violations(sql, ["GROUP BY"], ["LIMIT"]) == ["must use GROUP BY"]
