"""The model of a query: sources, columns and common table expressions at a position of a statement."""

from __future__ import annotations

import pytest

from pipemagic.explore.query import Query, all_queries, query_at
from pipemagic.explore.schema import Relation
from pipemagic.explore.token_tree import cursor_at, nest
from pipemagic.sql import significant

TABLES = {
    "flight": Relation.of("flight", [("id", "INTEGER"), ("origin", "TEXT")]),
    "carrier": Relation.of("carrier", [("id", "INTEGER"), ("name", "TEXT")]),
}


def at(text: str) -> Query:
    """Return the query at the | of a statement."""
    return query_at(cursor_at(text.replace("|", ""), text.index("|")), TABLES)


@pytest.mark.parametrize("piece", ["(", "SELECT * FROM (", "WITH q AS (", "SELECT (SELECT id FROM (", "CASE WHEN ("])
def test_deeply_nested_statements_are_read(piece):
    text = piece * (20_000 // len(piece))
    assert query_at(cursor_at(text, len(text)), TABLES).visible == []
    assert len(list(all_queries(nest(significant(text), cases=True).top, TABLES))) > 10


@pytest.mark.parametrize(
    "text",
    [
        "INSERT OR IGNORE INTO main.flight AS f (id, origin) WITH c AS (SELECT 1 AS n) SELECT n, '|' FROM c",
        "EXPLAIN QUERY PLAN INSERT INTO flight (id) WITH c AS (SELECT 1 AS n) SELECT | FROM c",
        "CREATE TEMP TABLE IF NOT EXISTS main.t AS WITH c AS (SELECT 1 AS n) SELECT | FROM c",
    ],
)
def test_a_with_inside_of_a_statement_is_read(text):
    assert list(at(text).common) == ["c"]


def test_columns_of_a_header_have_the_types_of_their_expressions():
    query = at("WITH c(a, b, d) AS (SELECT count(*), id, max(origin) FROM flight) SELECT | FROM c")
    assert query.sources[0].columns == (("a", ""), ("b", "INTEGER"), ("d", "TEXT"))


def test_tables_after_in():
    query = at("SELECT | FROM flight WHERE id IN carrier OR id NOT IN (1) OR id IN main.t OR id IN f(1) OR id IN :l")
    tables = [(table.name, table.is_qualified, table.has_arguments) for table in query.tables_after_in]
    assert tables == [("carrier", False, False), ("main", True, False), ("f", False, True)]
    assert next(query.tables_after_in).table == TABLES["carrier"]
