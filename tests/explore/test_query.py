"""The model of a query: sources, columns and common table expressions at a position of a statement."""

from __future__ import annotations

import pytest

from pipemagic.explore.query import Query, all_queries, cursor_at, nest, query_at
from pipemagic.explore.schema import Relation
from pipemagic.sql import significant

TABLES = {
    "flight": Relation.of("flight", [("id", "INTEGER"), ("origin", "TEXT")]),
    "carrier": Relation.of("carrier", [("id", "INTEGER"), ("name", "TEXT")]),
}


def at(text: str) -> Query:
    """Return the query at the | of a statement."""
    return query_at(cursor_at(text.replace("|", ""), text.index("|")), TABLES)


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("SELECT | FROM flight f, carrier", ["f", "carrier"]),
        ("SELECT round(|) FROM flight", ["flight"]),
        ("SELECT 1 FROM flight UNION SELECT | FROM carrier", ["carrier"]),
        ("SELECT 1 FROM flight WHERE EXISTS (SELECT | FROM carrier)", ["carrier", "flight"]),
        ("SELECT | FROM (flight f JOIN carrier c ON true) LEFT JOIN carrier d USING (id)", ["f", "c", "d"]),
        ("SELECT | FROM flight WHERE id IS NOT DISTINCT FROM origin", ["flight"]),
        ("SELECT DISTINCT | FROM flight", ["flight"]),
        ("SELECT f.| FROM flight f", ["f"]),
        ("UPDATE OR IGNORE flight SET id = | FROM carrier", ["flight", "carrier"]),
        ("INSERT INTO flight (id) SELECT | FROM carrier ON CONFLICT DO UPDATE SET id = 1", ["flight", "carrier"]),
    ],
)
def test_visible_sources(text, visible):
    assert [source.label for source in at(text).visible] == visible


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT id, f.origin AS o, id + 1 n, count(*) FROM flight f", [("id", "INTEGER"), ("o", "TEXT"), ("n", "")]),
        ("SELECT * FROM flight JOIN carrier", [("id", "INTEGER"), ("origin", "TEXT"), ("name", "TEXT")]),
        ("SELECT c.* FROM flight JOIN carrier c", [("id", "INTEGER"), ("name", "TEXT")]),
        ("SELECT * FROM (SELECT id, origin x FROM (SELECT * FROM flight))", []),
        ("SELECT * FROM (SELECT id, origin x FROM (SELECT * FROM flight) f) g", [("id", "INTEGER"), ("x", "TEXT")]),
        ("SELECT origin FROM (SELECT missing FROM (SELECT 1 AS one) f) g", [("origin", "")]),
        ("WITH q(a, b) AS (SELECT id, 1 FROM flight) SELECT * FROM q", [("a", "INTEGER"), ("b", "")]),
        ("WITH RECURSIVE n AS (SELECT id FROM flight UNION SELECT id FROM n), m AS NOT MATERIALIZED (SELECT * FROM n) "
         "SELECT * FROM m", [("id", "INTEGER")]),
        ("VALUES (1, 2), (3, 4)", [("column1", ""), ("column2", "")]),
        ("SELECT value FROM json_each('[1]') j", [("value", "")]),
        ("SELECT DISTINCT key FROM json_each('[1]')", [("key", "")]),
    ],
)  # fmt: skip
def test_columns_of_the_result(text, columns):
    assert list(at(f"{text}|").columns) == columns


def test_common_table_expressions_are_visible_inside_parentheses():
    query = at("WITH q AS (SELECT id FROM flight) SELECT 1 WHERE 1 IN (SELECT | FROM q)")
    assert list(query.common) == ["q"]
    assert query.nearest[0].names == ["id"]


@pytest.mark.parametrize("piece", ["(", "SELECT * FROM (", "WITH q AS (", "SELECT (SELECT id FROM (", "CASE WHEN ("])
def test_deeply_nested_statements_are_read(piece):
    text = piece * (20_000 // len(piece))
    assert query_at(cursor_at(text, len(text)), TABLES).visible == []
    assert len(list(all_queries(nest(significant(text), cases=True).top, TABLES))) > 10
