"""Variance, standard deviation and correlation: the values of pandas, and exact ones where pandas loses digits."""

from __future__ import annotations

import math
import statistics as exact
import time
from contextlib import closing
from fractions import Fraction

import apsw
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_calls import caller_of, execute, new_service

from pipemagic.service.limits import Limits
from pipemagic.service.sqlite import functions

VARIANCES = {"variance": 1, "var_samp": 1, "var_pop": 0, "stddev": 1, "stddev_samp": 1, "stddev_pop": 0}
"""The functions, and what is subtracted from the count."""

numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.integers(-20, 20), st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-1000, 1000).map(lambda number: round(number, 2)), st.integers(0, 9).map(lambda digit: 10**15 + digit),
)  # fmt: skip
values = st.one_of(st.none(), numbers)


@pytest.fixture(scope="module")
def sql():
    with closing(apsw.Connection(":memory:")) as connection:
        functions.install(connection)
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x, y)")

        def query(text, rows=()):
            with connection:
                connection.execute("DELETE FROM t")
                connection.executemany("INSERT INTO t(x, y) VALUES (?, ?)", rows)
            return connection.execute(text).fetchall()

        yield query


def variance(name, column):
    """Return the value that a function has, from exact fractions; None for NULL."""
    present = [Fraction(value) for value in column if value is not None]
    if len(present) <= VARIANCES[name]:
        return None
    mean = sum(present) / len(present)
    result = sum((value - mean) ** 2 for value in present) / (len(present) - VARIANCES[name])
    return root(result) if name.startswith("stddev") else number(result)


def number(fraction):
    try:
        return float(fraction)
    except OverflowError:
        return math.inf


def root(fraction):
    return math.isqrt(fraction.numerator * 2**4400 // fraction.denominator) / 2**2200


def same(result, expected):
    return result == expected or (None not in (result, expected) and math.isclose(result, expected, rel_tol=1e-15))


@given(st.lists(values, max_size=12))
def test_variances_are_exact(sql, column):
    names = list(VARIANCES)
    (row,) = sql(f"SELECT {', '.join(f'{name}(x)' for name in names)} FROM t", [(value, None) for value in column])
    for name, result in zip(names, row, strict=True):
        assert same(result, variance(name, column)), name


@given(st.lists(values, max_size=12), st.integers(0, 3), st.integers(0, 2))
def test_a_window_removes_values_without_a_trace(sql, column, before, after):
    frame = f"OVER (ORDER BY id ROWS BETWEEN {before} PRECEDING AND {after} FOLLOWING)"
    rows = sql(f"SELECT stddev(x) {frame}, var_pop(x) {frame} FROM t", [(value, None) for value in column])
    for place, (deviation, population) in enumerate(rows):
        window = column[max(0, place - before) : place + after + 1]
        assert same(deviation, variance("stddev", window))
        assert same(population, variance("var_pop", window))


@given(st.lists(st.tuples(values, values), max_size=12), st.integers(0, 3))
def test_correlations_are_exact(sql, pairs, before):
    rows = sql(f"SELECT corr(x, y) OVER (ORDER BY id ROWS {before} PRECEDING), corr(y, x) OVER () FROM t", pairs)
    for place, (result, whole) in enumerate(rows):
        for correlation, window in ((result, pairs[max(0, place - before) : place + 1]), (whole, pairs)):
            assert same(correlation, correlation_of(window))
            assert correlation is None or -1 <= correlation <= 1


def correlation_of(pairs):
    present = [(Fraction(x), Fraction(y)) for x, y in pairs if None not in (x, y)]
    if not present:
        return None
    first, second = (sum(column) / len(present) for column in zip(*present, strict=True))
    product = sum((x - first) * (y - second) for x, y in present)
    spread = sum((x - first) ** 2 for x, _ in present) * sum((y - second) ** 2 for _, y in present)
    return None if not spread else math.copysign(root(product**2 / spread), product)


@given(st.lists(st.tuples(*[st.none() | st.floats(-1e6, 1e6) | st.integers(-1000, 1000)] * 2), min_size=3))
def test_the_values_are_those_of_pandas(sql, pairs):
    (row,) = sql("SELECT stddev(x), variance(x), stddev_pop(x), var_pop(x) FROM t", pairs)
    column = pd.Series([x for x, _ in pairs], dtype=float)
    spread = float(column.abs().max()) if column.notna().any() else 1.0
    expected = column.std(), column.var(), column.std(ddof=0), column.var(ddof=0)
    for result, right in zip(row, expected, strict=True):
        assert (result is None) == math.isnan(right)
        assert result is None or math.isclose(result, right, rel_tol=1e-9, abs_tol=1e-9 * spread * spread)


def test_a_known_correlation_is_that_of_pandas(sql):
    frame = pd.DataFrame({"x": range(100), "y": [(7 * place) % 31 + place / 3 for place in range(100)]})
    ((result,),) = sql("SELECT corr(x, y) FROM t", frame.itertuples(index=False, name=None))
    assert math.isclose(result, frame["x"].corr(frame["y"]), rel_tol=1e-12)


def test_values_that_are_far_from_zero_lose_no_digits(sql):
    """Two sums of floats would give 0, or a negative number."""
    column = [10**17, 10**17 + 1, 10**17 + 2]
    assert sql("SELECT variance(x), stddev_pop(x) FROM t", [(value, 0) for value in column]) == [
        (1.0, exact.pstdev([0, 1, 2]))
    ]


def test_groups_distinct_and_filter(sql):
    rows = [(1, "a"), (1, "a"), (3, "a"), (5, "b")]
    query = "SELECT y, var_pop(x), var_pop(DISTINCT x), var_pop(x) FILTER (WHERE x < 3) FROM t GROUP BY y"
    assert sql(query, rows) == [("a", 8 / 9, 1.0, 0.0), ("b", 0.0, 0.0, None)]


@pytest.mark.parametrize("column", [[], [None], [None, None]])
def test_no_values_give_null(sql, column):
    names = ", ".join(f"{name}(x)" for name in VARIANCES)
    assert sql(f"SELECT {names}, corr(x, x) FROM t", [(value, 0) for value in column]) == [(None,) * 7]


def test_one_value_has_no_variance_of_a_sample(sql):
    assert sql("SELECT stddev(x), variance(x), stddev_pop(x), corr(x, y) FROM t", [(7, 8)]) == [(None, None, 0.0, None)]


def test_a_single_value_has_no_correlation(sql):
    assert sql("SELECT corr(x, y) FROM t", [(1, 8), (2, 8), (3, 8)]) == [(None,)]


@pytest.mark.parametrize("infinity", [math.inf, -math.inf])
def test_an_infinite_value_gives_null_while_it_is_in_the_window(sql, infinity):
    rows = [(1, 1), (infinity, 2), (3, 3), (5, 4)]
    assert sql("SELECT stddev(x), var_pop(x), corr(x, y), corr(y, x) FROM t", rows) == [(None,) * 4]
    frame = "OVER (ORDER BY id ROWS 1 PRECEDING)"
    assert sql(f"SELECT var_pop(x) {frame}, corr(x, y) {frame} FROM t", rows)[-1] == (1.0, 1.0)


def test_extreme_values(sql):
    assert sql("SELECT stddev_pop(x), var_pop(x) FROM t", [(1.5e308, 0), (-1.5e308, 0)]) == [(1.5e308, math.inf)]
    assert sql("SELECT stddev_pop(x), var_pop(x) FROM t", [(5e-324, 0), (15e-324, 0)]) == [(5e-324, 0.0)]
    assert sql("SELECT corr(x, y) FROM t", [(1e308, 1), (-1e308, 5e-324), (1e308, 1)]) == [(1.0,)]


@pytest.mark.parametrize("value", ["abc", "12", "", b"12"])
@pytest.mark.parametrize("name", [*VARIANCES, "corr"])
def test_a_text_is_an_error_as_in_median(sql, name, value):
    """SQLite's avg() takes the digits at its start."""
    arguments = "x, y" if name == "corr" else "x"
    with pytest.raises(apsw.SQLError, match=rf"^input to {name}\(\) is not numeric$"):
        sql(f"SELECT {name}({arguments}) FROM t", [(1, 1), (value, 1)])


def test_views_and_triggers_may_use_the_functions(db):
    db.run(
        "CREATE TABLE t(x)", "CREATE TABLE log(s)", "CREATE VIEW v AS SELECT stddev(x) AS s FROM t",
        "CREATE TRIGGER r AFTER INSERT ON t BEGIN INSERT INTO log SELECT var_pop(x) FROM t; END",
        "INSERT INTO t VALUES (1), (3)",
    )  # fmt: skip
    answer = db.run("SELECT s FROM v", "SELECT s FROM log")
    assert (answer.rows(0), answer.rows(1)) == ([[2**0.5]], [[0.0], [1.0]])


def test_a_statement_with_these_functions_ends_at_its_limit(tmp_path):
    with new_service(tmp_path, clock=time.monotonic, limits=Limits(statement_time=0.2)) as service:
        service.start()
        numbers = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT corr(x, x), stddev(x) FROM c"
        assert caller_of(service, "db").post(execute(numbers)).codes == ["STATEMENT_TIMEOUT"]
