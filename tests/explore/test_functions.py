"""The expression of each hint on a function has the value that the function has in the other database."""

from __future__ import annotations

import datetime

import pytest

from pipemagic.client.database import Database
from pipemagic.explore.hints import dates, functions
from pipemagic.explore.hints.functions import of_cast
from pipemagic.explore.hints.texts import matching
from pipemagic.explore.hints.words import Words
from pipemagic.explore.schema import Relation

COLUMNS = [("id", "INTEGER"), ("name", "TEXT"), ("parent", "TEXT"), ("price", "REAL"), ("day", "DATE"),
           ("departed", "DATETIME")]  # fmt: skip
TABLES = {"trips": Relation.of("trips", COLUMNS)}
ROWS = [
    (1, "a-b-c", "x", 4.25, "2024-02-29", "2024-02-29 13:05:07"),
    (2, "Abc", None, 2.0, "2013-01-31", "2013-01-31 00:00:00"),
    (3, "xyz", "q", 9.5, "2024-12-30", "2024-12-30 23:59:59"), (4, "", "r", None, "2023-08-06", "2023-08-06 08:00:00"),
    (5, "O'Brien", "s", -7.5, "2026-03-31", "2026-03-31 01:02:03"),
]  # fmt: skip
CREATE = "CREATE TABLE trips (id INTEGER, name TEXT, parent TEXT, price REAL, day DATE, departed {})"


@pytest.fixture
def trips(database: Database) -> Database:
    database.execute(CREATE.format("DATETIME"))
    for row in ROWS:
        database.execute("INSERT INTO trips VALUES (?, ?, ?, ?, ?, ?)", row)
    return database


@pytest.fixture(scope="module")
def duck():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as database:
        database.execute(CREATE.format("TIMESTAMP"))
        database.executemany("INSERT INTO trips VALUES (?, ?, ?, ?, ?, ?)", ROWS)
        yield database


def hint_of(expression: str, rest: str = "FROM trips") -> str:
    text = f"SELECT {expression} {rest}"
    name = expression[: expression.index("(")]
    return functions.of_function(text, len("SELECT "), name, TABLES) or ""


def written(hint: str) -> str:
    """Return the SQL in a hint."""
    assert hint.startswith("write "), hint
    sql = hint.removeprefix("write ")
    for remark in (
        ", in UTC",
        ", which is NULL if a value is NULL",
        ", where 0 is Sunday",
        ", which drops the decimals",
    ):
        sql = sql.removesuffix(remark)
    return sql


def values(rows) -> list[object]:
    plain = []
    for row in rows:
        value = row[0]
        if isinstance(value, datetime.datetime):
            value = value.strftime("%Y-%m-%d %H:%M:%S").removesuffix(" 00:00:00")
        elif isinstance(value, str):
            value = value.removesuffix(" 00:00:00")
        elif isinstance(value, datetime.date):
            value = value.isoformat()
        plain.append(value if not isinstance(value, float | bool) else pytest.approx(float(value)))
    return plain


SAME = [
    *[f"date_trunc('{unit}', day)" for unit in ("year", "quarter", "month", "week", "day")],
    *[f"date_trunc('{unit}', departed)" for unit in ("hour", "minute", "second")],
    *[f"date_part('{unit}', departed)" for unit in ("year", "quarter", "month", "day", "hour", "minute", "second",
                                                    "week", "dow", "isodow", "doy", "epoch")],
    *[f"{unit}(departed)" for unit in ("year", "month", "day", "dayofmonth", "hour", "minute", "second", "quarter",
                                       "week", "weekofyear", "dayofweek", "dayofyear", "dayname", "monthname")],
    *[f"date_diff('{unit}', day, departed)" for unit in ("day", "month", "year", "hour", "minute", "second")],
    *[f"datediff('{unit}', departed, DATE_2020)" for unit in ("day", "week", "month", "year")],
    "last_day(day)", "make_date(id, 2, 3)", "left(name, 2)", "right(name, 2)", "right(name, id)", "left(name, id)",
    "greatest(id, 3)", "least(id, 3)", "concat(name, parent, '!')", "concat_ws(', ', name, parent, 'z')",
    "lpad(name, 5, '*')", "rpad(name, 5, '*')", "repeat(name, 3)", "strpos(name, 'b')", "contains(name, 'b')",
    "starts_with(name, 'a')", "ends_with(name, 'c')", "ascii(parent)", "chr(id + 64)", "ucase(name)",
    "split_part(name, '-', 1)", "split_part(name, '-', 2)", "split_part(name, '-', 3)", "split_part(name, '-', 9)",
    "regexp_matches(name, '^[a-z]')", "regexp_matches(name, 'b')", "regexp_matches(name, 'b.c$')",
    "regexp_matches(name, '^[^A-Z].*')", "regexp_replace(name, '-', '+', 'g')", "strptime(name, '%Y-%m-%d')",
    "ifnull(parent, name)", "stddev(price)", "stddev_pop(price)", "variance(price)", "var_pop(price)",
    "any_value(id)", "bool_or(price > 5)", "bool_and(price > -9)", "count_if(price > 3)", "string_agg(name, ', ')",
]  # fmt: skip


@pytest.mark.parametrize("expression", SAME)
def test_the_value_is_that_of_duckdb(trips, duck, expression):
    if expression.startswith("strptime"):
        rows = "FROM (SELECT CAST(day AS TEXT) AS name FROM trips)"
    elif "any_value" in expression:
        rows = "FROM trips WHERE id = 3"
    else:
        rows = "FROM trips"
    of_sqlite, of_duckdb = (expression.replace("DATE_2020", day) for day in ("'2020-06-15'", "DATE '2020-06-15'"))
    expected = values(duck.execute(f"SELECT {of_duckdb} {rows}").fetchall())
    sql = written(hint_of(of_sqlite, rows))
    assert values(trips.execute(f"SELECT {sql} {rows}").rows) == expected


@pytest.mark.parametrize("name", ["stddev", "stddev_pop", "variance", "var_pop", "median"])
@pytest.mark.parametrize("where", ["", "WHERE price > 0", "WHERE price > 9 OR price < 5"])
def test_the_statistics_of_groups(trips, duck, name, where):
    rest = f"FROM trips AS t {where} GROUP BY t.parent"
    trips.execute("UPDATE trips SET parent = 'even' WHERE id <> 3")
    duck.execute("BEGIN; UPDATE trips SET parent = 'even' WHERE id <> 3")
    expected = duck.execute(f"SELECT parent, {name}(price) {rest} ORDER BY 1").fetchall()
    duck.execute("ROLLBACK")
    text = f"SELECT t.parent, {name}(t.price) {rest}"
    hint = functions.of_function(text, text.index(name), name, TABLES)
    found = {row[0]: row[1] for row in trips.execute(written(hint or "")).rows}
    assert found == {parent: pytest.approx(value) for parent, value in expected if parent in found}
    assert set(found) >= {parent for parent, value in expected if value is not None}


@pytest.mark.parametrize("where", ["", "WHERE price > 0"])
def test_the_median_of_the_rows_of_a_select(trips, duck, where):
    expected = duck.execute(f"SELECT median(price) FROM trips {where}").fetchall()
    sql = written(hint_of("median(price)", f"FROM trips {where}"))
    assert trips.execute(sql).rows == expected
    text = f"SELECT avg(price), median(price) FROM trips {where}"
    sql = written(functions.of_function(text, text.index("median"), "median", TABLES) or "")
    assert [row[1:] for row in trips.execute(text.replace("median(price)", sql)).rows] == expected
    assert hint_of("median(price) + 1", f"FROM trips {where}") == functions.general("median")


def test_the_variance_of_large_values(trips):
    trips.execute("DELETE FROM trips")
    trips.execute("INSERT INTO trips (price) VALUES (1e9 + 1), (1e9 + 1), (1e9 + 3), (1e9 + 3), (NULL)")
    sql = written(hint_of("variance(price)"))
    assert trips.execute(f"SELECT {sql} FROM trips").rows == [(pytest.approx(4 / 3),)]


DAYS = ["2024-01-31", "2024-02-29", "2023-12-31", "2026-03-31", "2025-01-01"]


@pytest.mark.parametrize("unit", ["day", "week", "month", "quarter", "year", "hour", "minute"])
@pytest.mark.parametrize("count", [1, -1, 13, -14])
def test_a_shifted_date_is_that_of_duckdb(trips, duck, unit, count):
    for day in DAYS:
        for moment in (day, f"{day} 05:06:07"):
            kind = dates.DAY if moment == day else dates.MOMENT
            type_ = "DATE" if moment == day else "TIMESTAMP"
            if kind == dates.DAY and unit in ("hour", "minute"):
                continue
            (sql,) = dates.shifted(f"'{moment}'", kind, str(count), unit)
            by_number = dates.shifted(f"'{moment}'", kind, f"{count} + 0", unit)[0]
            shift = f"{type_} '{moment}' + INTERVAL ({count}) {unit}"
            expected = values(duck.execute(f"SELECT CAST({shift} AS {type_})").fetchall())
            assert values(trips.execute(f"SELECT {sql}").rows) == expected, sql
            assert values(trips.execute(f"SELECT {by_number}").rows) == expected, by_number


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("to_char(departed, 'DD.MM.YYYY HH24:MI')", "29.02.2024 13:05"),
        ("to_char(price, 'FM990.00')", "4.25"),
        ("date_format(departed, '%d/%m/%Y %i')", "29/02/2024 05"),
        ("format_date('%Y', day)", "2024"),
        ("to_date('29/02/2024', 'DD/MM/YYYY')", "2024-02-29"),
        ("str_to_date('2024.02.29', '%Y.%m.%d')", "2024-02-29"),
        ("to_timestamp('29.02.2024 13:05', 'DD.MM.YYYY HH24:MI')", "2024-02-29 13:05:00"),
        ("to_timestamp(86400)", "1970-01-02 00:00:00"),
        ("unix_timestamp('1970-01-02')", 86400),
        ("datediff(day, '2024-02-01')", 28),
        ("datediff(departed, '2024-02-01') / 7", 4),
        ("timestampdiff(MONTH, '2023-12-01', day)", 2),
        ("dateadd(week, 2, day)", "2024-03-14"),
        ("dateadd(hour, 2, departed)", "2024-02-29 15:05:07"),
        ("date_add(day, INTERVAL 1 MONTH)", "2024-03-29"),
        ("date_sub(departed, INTERVAL '1' DAY)", "2024-02-28 13:05:07"),
        ("add_months('2024-01-31', 1)", "2024-02-29"),
        ("nvl(parent, '-')", "x"),
        ("nvl2(parent, 1, 0)", 1),
        ("isnull(parent)", 0),
        ("if(id = 1, 'one', 'other')", "one"),
        ("decode(name, 'Abc', 1, 'a-b-c', 2, 3)", 2),
        ("mid(name, 3, 1)", "b"),
        ("charindex('b', name)", 3),
        ("space(2)", "  "),
        ("substring_index(name, '-', 1)", "a"),
        ("truncate(-7.559, 2)", -7.55),
        ("left(concat(name, '!'), 1)", "a"),
        ("year(to_date('29/02/2024', 'DD/MM/YYYY'))", 2024),
        ("sumif(id, price > 3)", 4),
        ("stdev(id)", pytest.approx(2.5**0.5)),
        ("stdevp(id)", pytest.approx(2**0.5)),
        ("var(id)", pytest.approx(2.5)),
        ("varp(id)", pytest.approx(2)),
        ("date_trunc(day, MONTH)", "2024-02-01"),
        ("datetrunc(month, day)", "2024-02-01"),
        ("date_diff(day, '2024-02-01', DAY)", 28),
    ],
)
def test_the_value_is_that_of_other_databases(trips, expression, value):
    rows = "FROM trips" if expression.startswith(("sumif", "std", "var")) else "FROM trips WHERE id = 1"
    call = expression if not expression.endswith(" / 7") else expression.removesuffix(" / 7")
    sql = written(hint_of(expression, rows)) + expression.removeprefix(call)
    assert trips.execute(f"SELECT {sql} {rows}").rows == [(value,)]


def test_a_day_and_a_moment_if_the_type_is_not_known():
    hint = functions.of_function("SELECT date_add(born, INTERVAL 1 DAY) FROM people", 7, "date_add", {})
    assert hint == "write date(born, '+1 day'), or datetime(born, '+1 day') to keep the time"


def test_random_numbers(trips):
    sql = written(hint_of("rand()"))
    found = [row[0] for row in trips.execute(f"SELECT {sql} FROM trips, trips AS t, trips AS u").rows]
    assert len(set(found)) == len(ROWS) ** 3
    assert min(found) >= 0 and max(found) < 1  # noqa: PT018
    assert written(functions.of_function("SELECT 1 ORDER BY rand()", 18, "rand", {}) or "") == "random()"


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("date_trunc(name)", "use date() with 'start of month' or 'start of year', or strftime()"),
        ("date_trunc('decade', day)", "use date() with 'start of month' or 'start of year', or strftime()"),
        ("left(name)", "use substr() instead"),
        ("regexp_replace(name, '[a-c]+', '')", "replace() replaces plain text"),
        ("regexp_like(name, '(a|b)')", "use LIKE or GLOB"),
        ("split_part(name, 'n', 2)", "use substr() and instr()"),
        ("to_char(day, 'Month')", "use strftime() for dates and printf() for numbers"),
        ("stddev(price) OVER ()", "compute it from avg() and sum()"),
        ("median(price) FILTER (WHERE id > 1)", "sort the values and take the middle one with LIMIT and OFFSET"),
        ("md5(name)", ""),
        ("date_diff(name)", "subtract the julianday() of both dates: the result is in days"),
    ],
)
def test_a_call_that_does_not_fit_gets_no_column(expression, hint):
    assert hint_of(expression) == hint


def test_an_unknown_function_has_no_hint():
    assert functions.of_function("SELECT cuont(1)", 7, "cuont", {}) is None


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("^A", "Abc aBc"), ("c$", "abc cab"), ("^a.c$", "abc abbc"), ("a.*c", "xabbcx ac c"), ("a+", "aa"),
        (r"^\d{4}$", "2024 20245"), (r"a\.b", "a.b axb"), ("[a-c]x", "bx dx"), ("^[^0-9]+$", "abc"),
        (r"a\*b", "a*b ab"), ("(a|b)", "a"),
    ],
)  # fmt: skip
def test_regular_expressions_as_patterns(trips, duck, pattern, texts):
    for text in texts.split():
        condition = matching(f"'{text}'", pattern)
        if condition:
            expected = duck.execute(f"SELECT regexp_matches('{text}', '{pattern}')").fetchall()
            assert values(trips.execute(f"SELECT {condition}").rows) == values(expected), condition
        else:
            assert "+" in pattern or "|" in pattern


@pytest.mark.parametrize("value", ["12", "-3", "007", "1.5", "", "abc", "1-2", "-", "2.25", "1e3"])
@pytest.mark.parametrize("type_", ["INTEGER", "DOUBLE"])
def test_try_cast(trips, duck, value, type_):
    (found,) = trips.execute(f"SELECT {functions.try_cast(repr(value), type_)}").rows
    (expected,) = duck.execute(f"SELECT TRY_CAST('{value}' AS {type_})").fetchall()
    rounds = type_ == "INTEGER" and any(sign in value for sign in ".e")
    assert found == expected or (found == (None,) and (rounds or "e" in value))


@pytest.mark.parametrize(
    ("cast", "hint"),
    [
        ("day::date", "write date(day)"),
        ("t.departed::timestamp", "write datetime(t.departed)"),
        ("(price + 1)::int", "write CAST(price + 1 AS INTEGER), which drops the decimals"),
        ("id::numeric", "write CAST(id AS REAL)"),
        ("avg(price)::numeric(10, 2)", "write round(avg(price), 2)"),
        ("year(day)::text", "write CAST(CAST(strftime('%Y', day) AS INTEGER) AS TEXT)"),
        ("name::json", "remove ::json"),
    ],
)
def test_casts(cast, hint):
    text = f"SELECT {cast} FROM trips AS t"
    start = text.index("::")
    type_ = text[start + 2 : text.index(" FROM")]
    assert of_cast(text, start, type_) == hint


def test_a_cast_to_numeric_divides_as_in_duckdb(trips, duck):
    sql = of_cast("SELECT id::numeric", 9, "numeric").removeprefix("write ")
    expected = values(duck.execute("SELECT id::numeric / 2 FROM trips").fetchall())
    assert values(trips.execute(f"SELECT {sql} / 2 FROM trips").rows) == expected


def test_words_of_a_statement():
    words = Words("SELECT max(a, (b)) FROM t -- the end")
    assert [words.text(span) for span in words.arguments(1) or []] == ["a", "(b)"]
    assert words.arguments(0) is None
