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
