"""Pages of a table, compared with plain Python on both engines, and with the rows of their statement."""

from __future__ import annotations

import datetime as dt
import operator as op
import random
from functools import cmp_to_key

import pandas as pd
import pytest

from pipemagic.errors import ParameterError
from pipemagic.explore.page_query import (
    Filter,
    PageQuery,
    count_rows,
    filter_sql,
    read_page,
    read_value,
    rows_sql,
)
from pipemagic.explore.page_values import FullValue
from pipemagic.explore.profile import profile
from pipemagic.explore.schema_reader import read_schema

WORDS = ("JFK", "jfk", "", "a'b", "50%", "x_y", "\\", "NULL", "7", " ", "ä")


def rank(value):
    """Return a key for SQLite's order: NULL, numbers, texts."""
    return (0,) if value is None else (1, value) if isinstance(value, int | float) else (2, value.encode())


def holds(value, operator, wanted):
    """Return what SQL returns for a comparison of values of one type."""
    if operator in ("is null", "is not null"):
        return (value is None) == (operator == "is null")
    if value is None:
        return False
    if operator in ("contains", "starts with"):
        text, part = (_folded(str(side)) for side in (value, wanted))
        return part in text if operator == "contains" else text.startswith(part)
    one, other = rank(value), rank(wanted)
    order = (one > other) - (one < other)
    return {"=": order == 0, "<>": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[
        operator
    ]


def _folded(text):
    """Fold the case of ASCII letters only, as LIKE does."""
    return "".join(char.lower() if char.isascii() else char for char in text)


def expected(rows, query, kinds):
    """Return the ids of all rows of a query, in order."""
    kept = rows
    for condition in query.filters:
        place = {"id": 0, "n": 1, "r": 2, "t": 3}[condition.column]
        wanted = condition.value if kinds[place] is str else float(condition.value or 0)
        wanted = condition.value if condition.operator in ("contains", "starts with") else wanted
        kept = [row for row in kept if holds(row[place], condition.operator, wanted)]
    if query.sort is not None:
        place = {"id": 0, "n": 1, "r": 2, "t": 3}[query.sort]

        def compare(a, b):
            one, other = rank(a[place]), rank(b[place])
            order = (one > other) - (one < other)
            return (-order if query.descending else order) or (a[0] - b[0])

        kept = sorted(kept, key=cmp_to_key(compare))
    return [row[0] for row in kept]


def queries(chance):
    """Yield random queries."""
    while True:
        filters = []
        for _ in range(chance.randrange(3)):
            column = chance.choice("nrt")
            operators = ["=", "<>", "<", "<=", ">", ">=", "is null", "is not null"]
            operator = chance.choice([*operators, "contains", "starts with"] if column == "t" else operators)
            value = chance.choice(WORDS) if column == "t" else str(chance.randrange(-3, 4))
            filters.append(Filter(column, operator, "" if operator.startswith("is ") else value))
        yield PageQuery(
            "data", tuple(dict.fromkeys(filters)), "", chance.choice([None, "id", "n", "r", "t"]),
            chance.random() < 0.5, 25, chance.choice([0, 0, 25, 50, 100]),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("database", "made"), [("embedded", "WITHOUT ROWID"), ("on_sqld", ""), ("on_seed", "")], indirect=["database"]
)
def test_random_pages(database, made):
    chance = random.Random(20)
    rows = [
        (
            number,
            chance.choice([None, *range(-3, 4), 2**53 + 1]),
            chance.choice([None, 0.5, -1.25, 2.0, 1e300]),
            chance.choice([None, *WORDS]),
        )
        for number in range(120)
    ]
    database.execute(f"CREATE TABLE data(id INTEGER PRIMARY KEY, n INTEGER, r REAL, t TEXT) {made}")
    database.batch([("INSERT INTO data VALUES (?, ?, ?, ?)", row) for row in rows])
    relation = read_schema(database).relation("data")
    for number, query in zip(range(60), queries(chance), strict=False):
        ids = expected(rows, query, (int, float, float, str))
        page = read_page(database, query, relation)
        shown = [int(cells[0].text) for cells in page.rows]
        assert shown == ids[query.offset : query.offset + 25], query
        assert page.more == (len(ids) > query.offset + 25)
        assert count_rows(database, query, relation) == len(ids)
        if number % 4 == 0:
            assert [row[0] for row in database.execute(rows_sql(query, relation)).rows] == shown


def test_text_that_is_not_utf8_is_shown_as_bytes(database):
    database.execute("CREATE TABLE odd(id INTEGER PRIMARY KEY, t TEXT, b BLOB)")
    database.execute("INSERT INTO odd SELECT 1, CAST(x'ff61' AS TEXT), CAST(x'fe' AS TEXT)")
    database.execute("INSERT INTO odd SELECT 2, CAST(zeroblob(0) || x'ff' || 'a' AS TEXT), x'ff61'")
    database.execute("INSERT INTO odd SELECT 3, CAST(x'e4' || printf('%.30c', 'a') AS TEXT), 'ä'")
    database.execute("INSERT INTO odd SELECT 5, '', x''")
    database.execute("INSERT INTO odd SELECT 4, CAST(printf('%.999c', 'a') || x'ff' AS TEXT), 9e999")
    relation = read_schema(database).relation("odd")
    query = PageQuery("odd")
    page = read_page(database, query, relation)
    assert [[cell.text for cell in row] for row in page.rows] == [
        ["1", "x'ff61' (2 bytes of text, not UTF-8)", "x'fe' (1 byte of text, not UTF-8)"],
        ["2", "x'ff61' (2 bytes of text, not UTF-8)", "x'ff61' (2 bytes)"],
        ["3", f"x'e4{'61' * 15}…' (31 bytes of text, not UTF-8)", "ä"],
        ["4", "a" * 80 + "…", "Inf"],
        ["5", "''", "x'' (0 bytes)"],
    ]
    assert [row[1].cut for row in page.rows] == [False, False, True, True, False]
    assert page.rows[2][1].full == FullValue(f"x'e4{'61' * 30}'", "31 bytes of text, not UTF-8")
    assert read_value(database, page, 3, 1) == FullValue(f"x'{'61' * 999}ff'", "1,000 bytes of text, not UTF-8")


def test_profile_of_texts_that_are_not_utf8(database):
    database.execute("CREATE TABLE odd(t)")
    database.execute("INSERT INTO odd SELECT CAST(x'ff61' AS TEXT) UNION ALL SELECT CAST(x'ff61' AS TEXT)")
    database.execute("INSERT INTO odd VALUES ('ä'), (-9e999)")
    found = repr(profile(database, "odd"))
    assert found.endswith("x'ff61' (not UTF-8)  -inf  x'ff61' (not UTF-8) ×2, -inf ×1, 'ä' ×1")


def test_columns_named_true_and_false(database):
    long = "x" * 999
    database.execute("CREATE TABLE t(label TEXT, `true` INTEGER, `FALSE` TEXT, PRIMARY KEY (`true`)) WITHOUT ROWID")
    database.execute("INSERT INTO t VALUES ('a', 3, 'few'), ('b', 1, ?), ('c', 2, 'none')", (long,))
    relation = read_schema(database).relation("t")
    query = PageQuery("t", (Filter("true", "<", "3"),), "t.`false` <> 'none'", "FALSE")
    page = read_page(database, query, relation)
    assert [[cell.text for cell in row] for row in page.rows] == [["b", "1", "x" * 80 + "…"]]
    assert [column.name for column in page.columns] == ["label", "true", "FALSE"]
    assert read_value(database, page, 0, 2).text == long
    found = profile(database, relation, ["true", "FALSE"], where=filter_sql(query, relation))
    assert (found.rows, found["true"].maximum, found["FALSE"].distinct) == (1, 1, 1)


def test_a_full_value_of_a_changed_row_is_refused(database):
    database.execute("CREATE TABLE long(id INTEGER PRIMARY KEY, t TEXT)")
    database.execute("INSERT INTO long VALUES (2, printf('%.999c', 'b')), (3, printf('%.999c', 'c'))")
    page = read_page(database, PageQuery("long"), read_schema(database).relation("long"))
    assert read_value(database, page, 0, 1).text == "b" * 999
    database.execute("INSERT INTO long VALUES (1, printf('%.999c', 'a'))")
    with pytest.raises(ParameterError, match="another row is at this position now"):
        read_value(database, page, 0, 1)
    database.execute("DELETE FROM long WHERE id < 3")
    with pytest.raises(ParameterError, match="the row no longer exists"):
        read_value(database, page, 1, 1)


def test_filters_on_columns_of_type_any(embedded):
    embedded.execute("CREATE TABLE strict(id INTEGER PRIMARY KEY, a ANY) STRICT")
    embedded.execute("INSERT INTO strict VALUES (1, '5'), (2, 5)")
    relation = read_schema(embedded).relation("strict")
    assert [row[1].text for row in read_page(embedded, PageQuery("strict"), relation).rows] == ["'5'", "5"]
    for typed, number in [("'5'", "1"), ("5", "2")]:
        page = read_page(embedded, PageQuery("strict", (Filter("a", "=", typed),)), relation)
        assert [row[0].text for row in page.rows] == [number]


MOMENTS = [
    "2013-01-30 23:59:59",
    "2013-01-31 00:00:00",
    "2013-01-31 05:17:00",
    "2013-01-31 23:59:59.5",
    "2013-02-01 00:00:00",
]
COMPARE = {"=": op.eq, "<>": op.ne, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}


@pytest.fixture
def days(embedded):
    embedded.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, day DATE, at DATETIME, up TIMESTAMP)")
    for at in [*MOMENTS, None]:
        embedded.execute("INSERT INTO t (day, at, up) VALUES (?, ?, ?)", [at and at[:10], at, at and at + "+00:00"])
    return embedded


@pytest.mark.parametrize("operator", COMPARE)
def test_a_day_is_compared_with_moments_as_a_whole(days, operator):
    """The days of the moments are compared by pandas; the SQL that is shown returns the same rows as the page."""
    frame = pd.Series(pd.to_datetime(MOMENTS, format="ISO8601")).dt.normalize()
    found = COMPARE[operator](frame, pd.Timestamp("2013-01-31"))
    relation = read_schema(days).relation("t")
    typed = {
        "day": ["2013-01-31", " 2013-01-31 00:00:00 ", "2013-01-31T00:00"],
        "at": ["2013-01-31 "],
        "up": ["2013-01-31"],
    }
    for column, value in ((column, value) for column, values in typed.items() for value in values):
        query = PageQuery("t", (Filter(column, operator, value),))
        assert [int(row[0].text) - 1 for row in read_page(days, query, relation).rows] == found[found].index.tolist()
        assert count_rows(days, query, relation) == found.sum()
        assert len(days.execute(rows_sql(query, relation)).rows) == found.sum()
        assert profile(days, "t", ["id"], where=filter_sql(query, relation)).rows == found.sum()


@pytest.mark.parametrize("operator", COMPARE)
@pytest.mark.parametrize("typed", ["2013-01-31 00:00:00", "2013-01-31 05:17", "9999-12-31 00:00:00"])
def test_a_moment_is_compared_with_moments(days, operator, typed):
    frame = pd.Series(pd.to_datetime(MOMENTS, format="ISO8601"))
    found = COMPARE[operator](frame, dt.datetime.fromisoformat(typed))
    query = PageQuery("t", (Filter("at", operator, typed),))
    assert count_rows(days, query, read_schema(days).relation("t")) == found.sum()


SHOWN = {
    ("at", "=", "2013-01-31"): "(at >= '2013-01-31' AND at < '2013-02-01')",
    ("at", "<>", "2013-01-31"): "(at < '2013-01-31' OR at >= '2013-02-01')",
    ("at", "<=", "2013-12-31"): "at < '2014-01-01'",
    ("at", ">", "9999-12-31"): "at >= '9999-12-32'",
    ("at", "<", "2013-01-31"): "at < '2013-01-31'",
    ("at", "=", "2013-02-30"): "at = '2013-02-30'",  # no day of the calendar
    ("at", "starts with", "2013-01-31"): "at LIKE '2013-01-31%'",
    ("day", "=", "2013-01-31 00:00:00"): "day = '2013-01-31'",
    ("day", "<=", "2013-01-31"): "day <= '2013-01-31'",
    ("day", "=", "2013-01-31 05:00:00"): "day = '2013-01-31 05:00:00'",
    ("id", "=", "2013-01-31"): "id = '2013-01-31'",
}


def test_the_sql_that_is_shown_for_days(days):
    relation = read_schema(days).relation("t")
    shown = {typed: filter_sql(PageQuery("t", (Filter(*typed),)), relation) for typed in SHOWN}
    assert shown == SHOWN
