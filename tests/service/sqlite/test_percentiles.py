"""Percentiles: the results and errors of SQLite's own, in bounded time and memory."""

from __future__ import annotations

import math
import threading
import time
from contextlib import closing

import apsw
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_calls import caller_of, execute, new_service

from pipemagic.service.limits import MB, Limits
from pipemagic.service.sqlite import aggregates, resources

numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-1000, 1000).map(lambda number: round(number, 1)),
)  # fmt: skip
values = st.none() | numbers
fractions = st.sampled_from([0, 1, 0.5, 0.25, 0.9, 1 / 3, 0.999])


def connect(stopped=lambda: False, hold=lambda size: None, *, own=True):
    connection = apsw.Connection(":memory:")
    if own:
        aggregates.install_percentiles(connection, stopped, hold)
    connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x, y)")
    return connection


@pytest.fixture(scope="module")
def both():
    """SQLite without the functions, and with them."""
    with closing(connect(own=False)) as plain, closing(connect()) as bounded:
        yield plain, bounded


def results(connections, sql, column, *arguments):
    for connection in connections:
        with connection:
            connection.execute("DELETE FROM t")
            connection.executemany("INSERT INTO t(x) VALUES (?)", [(value,) for value in column])
        try:
            yield connection.execute(sql, arguments).fetchall()
        except apsw.SQLError as error:
            yield str(error)


def check(both, sql, column, *arguments):
    plain, bounded = results(both, sql, column, *arguments)
    if isinstance(plain, list):
        for right, row in zip(plain, bounded, strict=True):
            assert all(same(*pair) for pair in zip(right, row, strict=True))
    else:
        assert bounded == plain


def same(right, result):
    if right is not None and math.isinf(right):  # the difference of two values is infinite in SQLite's own
        return math.isfinite(result)
    return right == result


QUERY = "SELECT median(x), percentile(x, 100 * ?1), percentile_cont(x, ?1), percentile_disc(x, ?1) FROM t"


@given(st.lists(values, max_size=20), fractions)
def test_the_results_are_those_of_sqlite(both, column, fraction):
    check(both, QUERY, column, fraction)


@given(st.lists(values, max_size=20), fractions, st.integers(0, 4), st.integers(0, 2))
def test_the_results_of_windows_are_those_of_sqlite(both, column, fraction, before, after):
    frame = f"OVER (ORDER BY id ROWS BETWEEN {before} PRECEDING AND {after} FOLLOWING)"
    check(both, f"SELECT median(x) {frame}, percentile_disc(x, ?) {frame}, median(x) OVER () FROM t", column, fraction)


@pytest.mark.parametrize("count", [4095, 4096, 4097, 30_000])
@pytest.mark.parametrize("fraction", [0, 0.123456, 0.5, 1])
def test_many_values(both, count, fraction):
    column = [((place * 7919) % 10007) / 7 - 300 for place in range(count)]
    check(both, QUERY, column, fraction)
    check(both, QUERY, [place // 1000 for place in range(count)], fraction)


def test_a_long_window_that_moves(both):
    column = [((place * 7919) % 10007) / 7 for place in range(12_000)]
    frame = "OVER (ORDER BY id ROWS 5000 PRECEDING)"
    check(both, f"SELECT m FROM (SELECT id, median(x) {frame} AS m FROM t) WHERE id % 1000 = 0", column)


@pytest.mark.parametrize(
    "fraction",
    ["50", "' 50 '", "'50x'", "'5_0'", "'nan'", "'inf'", "'٥'", "101", "-1", "NULL", "x'35'", "50 + id / 10.0",
     "50 + id / 1000.0", "id * 20"],
)  # fmt: skip
def test_the_fractions_and_errors_are_those_of_sqlite(both, fraction):
    check(both, f"SELECT percentile(x, {fraction}) FROM t", [1, 2, None, 4])


@pytest.mark.parametrize("value", ["2", "abc", "", b"2", math.inf, -math.inf])
@pytest.mark.parametrize("name", ["median", "percentile_cont"])
def test_other_values_are_the_errors_of_sqlite(both, name, value):
    argument = "" if name == "median" else ", 0.5"
    check(both, f"SELECT {name}(x{argument}) FROM t", [1, value])


def test_a_median_between_very_large_numbers_is_finite(both):
    assert list(results(both[1:], "SELECT median(x) FROM t", [-1.5e308, 1.5e308])) == [[(0.0,)]]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), fractions)
def test_the_values_are_those_of_pandas(both, column, fraction):
    (rows,) = results(both[1:], "SELECT median(x), percentile_cont(x, ?) FROM t", column, fraction)
    series = pd.Series(column)
    for result, right in zip(rows[0], (series.median(), series.quantile(fraction)), strict=True):
        assert math.isclose(result, right, rel_tol=1e-12, abs_tol=1e-6)


def slow_order(count):
    """Return numbers in an order for which a quicksort with the median of three as its pivot is quadratic."""
    half = count // 2
    order = [0.0] * (2 * half)
    for place in range(1, half + 1):
        if place % 2:
            order[place - 1], order[place] = float(place), float(half + place)
        order[half + place - 1] = 2.0 * place
    return order


def test_the_comparisons_do_not_depend_on_the_order_of_the_values():
    """SQLite's own took 3 s for 200,000 values in this order, and four times as long for twice as many."""
    checks = []
    with closing(connect(lambda: bool(checks.append(None)))) as connection:
        for column in (slow_order(100_000), sorted(slow_order(100_000))):
            (rows,) = results([connection], "SELECT median(x) FROM t", column)
            assert rows == [(50_000.5,)]
    assert 0 < len(checks) <= 4 * 64


def test_a_stopped_statement_ends_while_the_median_is_computed():
    stop = threading.Event()
    with closing(connect(stop.is_set)) as connection:
        with connection:
            connection.executemany("INSERT INTO t(x) VALUES (?)", [(place,) for place in range(10_000)])
        stop.set()
        with pytest.raises(apsw.InterruptError):
            connection.execute("SELECT median(x) FROM t").get  # noqa: B018


def test_memory_is_counted_and_returned():
    held = []
    with closing(connect(hold=held.append)) as connection:
        column = [float(place % 1000) for place in range(20_000)]
        list(results([connection], "SELECT median(x), percentile_cont(x, 0.5) FROM t", column))
        assert sum(size for size in held if size > 0) == 2 * 8 * 20_000
        assert sum(held) == 0
        held.clear()
        list(results([connection], "SELECT median(x) OVER (ORDER BY id ROWS 10 PRECEDING) FROM t", column))
        assert sum(size for size in held if size > 0) <= 100 * 8
        assert sum(held) == 0
        held.clear()
        with pytest.raises(apsw.SQLError):
            connection.execute("SELECT median(CASE WHEN id < 15000 THEN x ELSE 'x' END) FROM t").fetchall()
        assert sum(held) == 0


@pytest.fixture
def heap():
    before = apsw.hard_heap_limit(-1)
    yield apsw.hard_heap_limit
    apsw.hard_heap_limit(before)
    apsw.soft_heap_limit(before)


def test_values_beyond_the_memory_of_the_service_stop_their_statement(tmp_path, heap):
    heap(32 * MB)
    before = resources.memory_used() - apsw.memory_used()
    with new_service(tmp_path, clock=time.monotonic, limits=Limits(statement_time=60)) as service:
        service.start()
        db = caller_of(service, "db")
        rows = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100000000)"
        answer = db.post(execute(f"{rows} SELECT median(x) FROM c"))
        assert answer.codes == ["SQLITE_NOMEM"]
        assert db.run("SELECT 1").codes[0] == "ok"
    assert resources.memory_used() - apsw.memory_used() == before
