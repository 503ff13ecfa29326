"""The guards' decisions about random text, compared with SQLite."""

from __future__ import annotations

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipemagic.client.readonly import find_write
from pipemagic.errors import ParameterError
from pipemagic.session.cell import parse_cell
from pipemagic.sql import parse

WORDS = (
    "SELECT", "VALUES", "WITH", "RECURSIVE", "INSERT", "INTO", "REPLACE", "UPDATE", "DELETE", "FROM", "SET",
    "WHERE", "AS", "NOT", "MATERIALIZED", "EXPLAIN", "QUERY PLAN", "PRAGMA", "CREATE", "TEMP", "TABLE", "t",
    "a", "x", "1", "(", ")", ",", ";", "=", ".", "'WHERE'", '"delete"', "[where]", "-- WHERE\n",
    "/* SELECT */", "user_version", "RETURNING", "OR", "IGNORE", "ON CONFLICT DO UPDATE", "DROP", "ANALYZE",
    "{n}", ":n", "LIMIT", "ORDER BY", "UNION", "\ufeff",
)  # fmt: skip

WHOLE = st.sampled_from([
    "SELECT a FROM t", "VALUES (1)", "DELETE FROM t", "DELETE FROM t WHERE a = 1", "UPDATE t SET a = 1",
    "UPDATE OR IGNORE t SET a = 1 WHERE (a)", "INSERT INTO t VALUES (1)", "REPLACE INTO t SELECT 1", "DROP TABLE t",
    "CREATE TABLE u (a)", "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END", "PRAGMA user_version = 1",
    "PRAGMA table_info(t)", "UPDATE t SET a = (SELECT a FROM t WHERE a)", "DELETE FROM t RETURNING (SELECT 1 WHERE 1)",
])  # fmt: skip
BEFORE = st.lists(
    st.sampled_from([
        "EXPLAIN ", "EXPLAIN QUERY PLAN ", "WITH x AS (SELECT 1 WHERE 1) ",
        "WITH RECURSIVE replace(a) AS (VALUES (1)) ",
        "WITH x AS NOT MATERIALIZED (SELECT 1), \"y z\" AS (SELECT 2) ", "-- SELECT\n", "/* DELETE */", "\ufeff", "; ",
    ]), max_size=2,
).map("".join)  # fmt: skip


@pytest.fixture(scope="module")
def sqlite():
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE t (a)")
    return connection


def statement(sqlite, text):
    """Prepare the first statement of a text, without running it; gives whether it only reads, and only explains."""
    seen = []
    cursor = sqlite.cursor()
    cursor.exec_trace = lambda at, _sql, _bindings: seen.append((at.is_readonly, at.is_explain)) or False
    try:
        cursor.execute(text)
    except apsw.ExecTraceAbort:
        return seen[0]
    except apsw.Error:
        return None
    return seen[0] if seen else None


@given(BEFORE, WHOLE)
@settings(max_examples=100, deadline=None)
def test_statements_that_write_for_sqlite_are_refused(sqlite, before, whole):
    known = statement(sqlite, before + whole)
    if known is not None and not known[0] and not known[1]:
        assert find_write(before + whole)
    if known is not None and before + whole in ("SELECT a FROM t", "VALUES (1)"):
        assert not find_write(before + whole)


@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
@settings(max_examples=150, deadline=None)
def test_a_soup_of_words_that_sqlite_takes_is_judged_right(sqlite, text):
    known = statement(sqlite, text)
    said = find_write(text)
    if known is not None and not known[0] and not known[1]:
        assert said
    parse(text).changes_every_row, parse(text).tables


@given(st.text(max_size=40))
@settings(deadline=None)
def test_any_text_at_all_is_judged(text):
    find_write(text), parse(text).changes_every_row, parse(text).tables


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(" ".join))
@settings(deadline=None)
def test_a_soup_of_words_is_read_or_refused_by_name(text):
    try:
        cell = parse_cell(f"SELECT {text}", {"n": "name"})
    except ParameterError:
        return
    for index, parsed in enumerate(cell.statements):
        for offset in range(len(cell.sent(index)) + 1):  # every place is within what was written
            assert parsed.start <= cell.position(index, offset).offset <= parsed.start + len(parsed.text)
