"""What a statement compares its parameters with, and the declared types of these columns."""

from __future__ import annotations

import pytest

from pipemagic.explore.comparisons import compared_parameters, comparisons, queries_in
from pipemagic.explore.lint.expressions import written
from pipemagic.explore.query import in_schema
from pipemagic.explore.schema import Relation

D = Relation.of("d", [("day", "DATE"), ("until", "date"), ("at", "DATETIME"), ("n", "INTEGER"), ("any", "")])
E = Relation.of("e", [("day", "DATE"), ("at", "TIMESTAMP"), ("my day", "DATE")])
TABLES = {"d": D, "e": E, "flight": Relation.of("flight", [("day", "DATETIME")])}

COMPARED = {
    # Each operator, on either side.
    "day = :a OR day == :b OR day <> :c OR day != :d OR day < :e OR day <= :f OR day > :g OR day >= :h":
        [(f":{name}", "DATE") for name in "abcdefgh"],
    ":a = day OR :b >= at": [(":a", "DATE"), (":b", "DATETIME")],
    "day IS :a OR day IS NOT :b OR day IS DISTINCT FROM :c OR day IS NOT DISTINCT FROM :d":
        [(f":{name}", "DATE") for name in "abcd"],
    "day BETWEEN :a AND :b AND at NOT BETWEEN :c AND :d":
        [(":a", "DATE"), (":b", "DATE"), (":c", "DATETIME"), (":d", "DATETIME")],
    ":a BETWEEN day AND until": [(":a", "DATE"), (":a", "date")],
    "n BETWEEN 1 AND 2 AND day = :a": [(":a", "DATE")],
    "day IN (:a, :b) OR at NOT IN (:c)": [(":a", "DATE"), (":b", "DATE"), (":c", "DATETIME")],
    "day IN :a": [(":a", "DATE")],
    ":a IN e OR :b NOT IN flight": [(":a", "DATE"), (":b", "DATETIME")],
    ":a IN (day, at)": [(":a", "DATE"), (":a", "DATETIME")],
    "day IN (SELECT +value FROM temp.json_each(:a))": [(":a", "DATE")],
    "day IN (VALUES (:a), (:b))": [(":a", "DATE"), (":b", "DATE")],
    "(day, n) = (:a, :b)": [(":a", "DATE"), (":b", "INTEGER")],
    "(day, n) IN ((:a, 1), (:b, 2))": [(":a", "DATE"), (":b", "DATE")],
    "(day, n) IN (VALUES (:a, :b))": [(":a", "DATE"), (":b", "INTEGER")],
    "(:a, :b) IN (SELECT at, day FROM e)": [(":a", "TIMESTAMP"), (":b", "DATE")],
    "CASE day WHEN :a THEN :b WHEN :c THEN 1 ELSE :d END = 1": [(":a", "DATE"), (":c", "DATE")],
    "CASE WHEN day = :a THEN 1 END = 1": [(":a", "DATE")],
    # Names of the column.
    "(day) = (:a) AND ((until)) = :b": [(":a", "DATE"), (":b", "date")],
    "DAY = :a AND [day] = :b AND `day` = :c AND \"day\" = :d AND d.day = :e AND main.d.day = :f":
        [(f":{name}", "DATE") for name in "abcdef"],
    "day = :a COLLATE NOCASE AND day COLLATE NOCASE = :b": [(":a", "DATE"), (":b", "DATE")],
    # No comparison of the column: precedence, functions, other operators.
    "day || '' = :a": [(":a", None)],
    "day = :a || ''": [],
    "+day = :a OR date(day) = :b OR day + 1 = :c OR -day = :d": [(f":{name}", None) for name in "abcd"],
    "n < day = :a OR day < n < :b": [],
    "day = n = :a": [],
    ":a = day < until": [],
    "day < :a = 1": [(":a", "DATE")],
    "n = day > :a": [(":a", "DATE")],
    "NOT day = :a": [(":a", "DATE")],
    "day LIKE :a OR day GLOB :b OR day NOT LIKE :c": [],
    "day ISNULL AND day NOTNULL AND day NOT NULL AND until = :a": [(":a", "date")],
    ":a IS NULL OR day >= :a": [(":a", None), (":a", "DATE")],
    "day >= date(:a) AND at < datetime(:a, '+1 day')": [],
    ":a = :b": [],
    "nope = :a OR d.nope = :b OR nope.day = :c OR any = :d": [(f":{name}", "") for name in "abcd"],
    "'day' = :a": [(":a", None)],
    # Queries inside.
    ":a IN (SELECT day FROM e UNION SELECT day FROM d)": [(":a", "DATE")],
    ":a IN (SELECT day FROM e UNION SELECT at FROM e)": [(":a", None)],
    "(SELECT day FROM e LIMIT 1) = :a": [(":a", "DATE")],
    "(SELECT max(at) FROM e) >= :a": [(":a", "TIMESTAMP")],
    "n = (SELECT :a)": [],
    "EXISTS (SELECT 1 FROM e WHERE e.day = d.day AND d.until = :a AND [my day] = :b)":
        [(":a", "date"), (":b", "DATE")],
    "EXISTS (SELECT 1 FROM unknown WHERE until = :a)": [(":a", "")],
}  # fmt: skip

STATEMENTS = {
    "SELECT * FROM d x, e AS y WHERE x.day = :a AND y.at = :b AND y.day = :c":
        [(":a", "DATE"), (":b", "TIMESTAMP"), (":c", "DATE")],
    "SELECT * FROM d a JOIN d b ON a.day = b.day AND a.day = :a LEFT OUTER JOIN e ON e.at = :b WHERE b.at = :c":
        [(":a", "DATE"), (":b", "TIMESTAMP"), (":c", "DATETIME")],
    "SELECT * FROM d JOIN flight USING (day) WHERE day = :a": [(":a", "")],
    "SELECT * FROM d JOIN e USING (day) WHERE day = :a": [(":a", "DATE")],
    "SELECT day = :a, day = :b hit, day = :c AS found FROM d ORDER BY day = :d DESC":
        [(f":{c}", "DATE") for c in "abcd"],
    "SELECT min(day) AS first, max(at) last FROM d GROUP BY n HAVING first > :a AND last < :b AND max(day) = :c":
        [(":a", "DATE"), (":b", "DATETIME"), (":c", "DATE")],
    "SELECT day AS at FROM d WHERE at = :a": [(":a", "DATETIME")],  # a column comes before an alias
    "SELECT date(at) AS x FROM d WHERE x = :a": [(":a", None)],
    "SELECT x AS x FROM d WHERE x = :a": [(":a", None)],
    "SELECT count(*) FILTER (WHERE day < :a), sum(day = :b) FROM d": [(":a", "DATE"), (":b", "DATE")],
    "WITH c(x) AS (SELECT day FROM d WHERE at = :a) SELECT * FROM c JOIN e ON c.x = :b":
        [(":b", "DATE"), (":a", "DATETIME")],
    "WITH RECURSIVE c AS (SELECT day FROM d UNION ALL SELECT day FROM c WHERE day < :a) SELECT 1 FROM c":
        [(":a", "DATE")],
    "WITH d AS (SELECT at AS day FROM e) SELECT * FROM d WHERE day = :a": [(":a", "TIMESTAMP")],
    "SELECT * FROM (SELECT day AS x, at y FROM d) WHERE x = :a AND y = :b": [(":a", "DATE"), (":b", "DATETIME")],
    "SELECT * FROM (SELECT max(day) AS x FROM d) q WHERE q.x = :a": [(":a", "DATE")],
    "SELECT * FROM (SELECT * FROM (SELECT * FROM d)) WHERE day = :a": [(":a", "DATE")],
    "SELECT 1 FROM d WHERE day = :a UNION SELECT 1 FROM flight WHERE day = :b": [(":a", "DATE"), (":b", "DATETIME")],
    "UPDATE d SET day = :a, at = until = :b, (n, day) = (:c, :d) WHERE day = :e": [(":b", "date"), (":e", "DATE")],
    "UPDATE d SET day = e.day FROM e WHERE e.at = :a": [(":a", "TIMESTAMP")],
    "DELETE FROM d WHERE day < :a RETURNING day = :b": [(":a", "DATE"), (":b", "DATE")],
    "INSERT INTO d (day, at) VALUES (:a, :b)": [],
    "INSERT INTO d (day) VALUES (:a) ON CONFLICT (day) DO UPDATE SET at = :b WHERE day < :c": [(":c", "DATE")],
    "INSERT INTO flight SELECT day FROM d WHERE day = :a": [(":a", "DATE")],
    "INSERT INTO flight SELECT day FROM d WHERE true ON CONFLICT DO UPDATE SET day = :a WHERE day = :b": [(":b", "")],
    "CREATE TABLE x AS SELECT * FROM d WHERE day = :a": [(":a", "DATE")],
    "EXPLAIN QUERY PLAN SELECT * FROM d WHERE day = :a": [(":a", "DATE")],
    "SELECT 1 WHERE :a = 1": [(":a", None)],
}  # fmt: skip


def found(text, tables=TABLES):
    return [(parameter.text, found.declared) for parameter, found in compared_parameters(queries_in(text, tables))]


@pytest.mark.parametrize(("condition", "expected"), COMPARED.items())
def test_the_columns_that_a_condition_compares_parameters_with(condition, expected):
    assert sorted(found(f"SELECT * FROM d WHERE {condition}"), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(("statement", "expected"), STATEMENTS.items())
def test_the_columns_that_a_statement_compares_parameters_with(statement, expected):
    assert found(statement) == expected


def test_tables_of_the_same_name_in_two_schemas():
    temporary = Relation.of("d", [("day", "TEXT")])
    tables = {"d": temporary, in_schema("temp", "d"): temporary, in_schema("main", "d"): D}
    assert found("SELECT * FROM d WHERE day = :a", tables) == [(":a", "TEXT")]
    assert found("SELECT * FROM main.d WHERE day = :a", tables) == [(":a", "DATE")]
    assert found("SELECT * FROM temp.d x WHERE x.day = :a", tables) == [(":a", "TEXT")]
    common = "WITH d AS (SELECT 1 AS day) SELECT * FROM {} WHERE day = :a"
    assert found(common.format("d"), tables) == [(":a", "")]
    assert found(common.format("main.d"), tables) == [(":a", "DATE")]
    assert found(common.format("main.d"), {"d": D}) == [(":a", "")]


@pytest.mark.parametrize("piece", ["(", "SELECT * FROM d WHERE day IN (", "min(", "CASE :a WHEN ", "(SELECT ", "a = "])
def test_deeply_nested_statements_are_read(piece):
    assert isinstance(found(piece * (20_000 // len(piece)) + ":a = day"), list)


EXPRESSIONS = {
    "day = '2026'": [("day", "=", "'2026'", False)],
    "'2026' < day OR n IN (-1, 2.5)":
        [("'2026'", "<", "day", False), ("n", "IN", "- 1", False), ("n", "IN", "2.5", False)],
    "day BETWEEN '2025' AND date('now')":
        [("day", "BETWEEN", "'2025'", False), ("day", "BETWEEN", "date('now')", True)],
    "day = date(at) AND n + 1 > 2 * 3": [("day", "=", "date(at)", False), ("n + 1", ">", "2 * 3", False)],
    "CASE day WHEN '2026' THEN 1 END": [("day", "WHEN", "'2026'", False)],
    "day NOT LIKE 'a' AND day IS NOT NULL AND n": [("day", "IS", "NULL", False)],
}  # fmt: skip


@pytest.mark.parametrize(("condition", "expected"), EXPRESSIONS.items())
def test_each_comparison_from_either_side(condition, expected):
    compared = list(comparisons(queries_in(f"SELECT * FROM d WHERE {condition}", TABLES)))
    first = [found for found in compared if found.is_first]
    assert [(written(f.operand), f.operator, written(f.other), f.is_end) for f in first] == expected
    second = [found for found in compared if not found.is_first]
    assert [(written(f.other), f.operator, written(f.operand), f.is_end) for f in second] == expected


def test_values_are_parameters_strings_and_numbers_with_their_sign():
    condition = "day = 'a' AND n = -2 AND n = :p AND n = +n AND n = 1 + 2 AND n = NULL AND n = (-3)"
    compared = comparisons(queries_in(f"SELECT * FROM d WHERE {condition}", TABLES))
    values = [found.value.text if found.value else None for found in compared if not found.is_first]
    assert values == ["'a'", "-2", ":p", None, None, None, "-3"]
