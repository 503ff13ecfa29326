"""generate_series: Python's ranges, and errors for what is no integer."""

from __future__ import annotations

import time
from contextlib import closing

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_calls import CLOSE, caller_of, execute, new_service

from pipemagic.service.limits import Limits
from pipemagic.service.sqlite import functions

LEAST, MOST = -(2**63), 2**63 - 1


@pytest.fixture(scope="module")
def sql():
    with closing(apsw.Connection(":memory:")) as connection:
        functions.install(connection)
        yield lambda text, *arguments: connection.execute(text, arguments).fetchall()


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-5, 5).filter(bool))
def test_the_values_are_those_of_a_range(sql, start, stop, step):
    expected = [(number,) for number in range(start, stop + (1 if step > 0 else -1), step)]
    assert sql("SELECT value FROM generate_series(?, ?, ?)", start, stop, step) == expected
    descending = sql("SELECT value FROM generate_series(?, ?, ?) ORDER BY value DESC", start, stop, step)
    assert descending == sorted(expected, reverse=True)
    only = sql("SELECT value FROM generate_series(?1, ?2, ?3) WHERE value = ?1", start, stop, step)
    assert only == expected[:1]


def test_the_ends_of_the_integers(sql):
    assert sql("SELECT value FROM generate_series(?, ?)", MOST - 1, MOST) == [(MOST - 1,), (MOST,)]
    assert sql("SELECT value FROM generate_series(?, ?, -1)", LEAST + 1, LEAST) == [(LEAST + 1,), (LEAST,)]
    assert sql("SELECT value FROM generate_series(?, ?) LIMIT 1", LEAST, MOST) == [(LEAST,)]


def test_the_arguments_are_hidden_columns(sql):
    assert sql("SELECT * FROM generate_series(1, 1)") == [(1,)]
    assert sql("SELECT start, stop, step FROM generate_series(1, 1)") == [(1, 1, 1)]
    assert sql("SELECT value FROM generate_series WHERE stop = 2 AND start = 1") == [(1,), (2,)]


@pytest.mark.parametrize("arguments", ["NULL, 1", "1, NULL", "1, 2, NULL", "NULL, NULL, 0"])
def test_null_gives_no_rows(sql, arguments):
    assert sql(f"SELECT value FROM generate_series({arguments})") == []


def test_a_number_without_a_fraction_is_an_integer(sql):
    assert sql("SELECT value, typeof(value) FROM generate_series(1.0, 4 / 2.0)") == [(1, "integer"), (2, "integer")]


@pytest.mark.parametrize("arguments", ["'a', 2", "1, '2'", "1, 2.5", "1, 2, 0.5", "x'31', 2", "1, 9e999"])
def test_other_values_are_errors(sql, arguments):
    with pytest.raises(apsw.SQLError, match=r"^generate_series\(\) takes integers, not "):
        sql(f"SELECT value FROM generate_series({arguments})")


def test_a_step_of_zero_and_missing_arguments_are_errors(sql):
    with pytest.raises(apsw.SQLError, match=r"^the step of generate_series\(\) is 0$"):
        sql("SELECT value FROM generate_series(1, 2, 0)")
    for query in ("generate_series", "generate_series(1)", "generate_series WHERE stop = 1"):
        with pytest.raises(apsw.SQLError, match=r"has the arguments start, stop and step"):
            sql(f"SELECT value FROM {query}")


def test_a_table_may_have_its_name(db):
    db.run("CREATE TABLE generate_series(x)", "INSERT INTO generate_series VALUES (7)")
    assert db.run("SELECT * FROM generate_series").rows() == [["7"]]


def test_views_and_inserts(db):
    db.run("CREATE TABLE t(x)", "INSERT INTO t SELECT value FROM generate_series(1, 100)",
           "CREATE VIEW v AS SELECT value FROM generate_series(1, 2)")  # fmt: skip
    answer = db.run("SELECT sum(x) FROM t", "SELECT * FROM v")
    assert (answer.rows(0), answer.rows(1)) == ([["5050"]], [["1"], ["2"]])
    assert db.post(execute("INSERT INTO generate_series VALUES (1)"), CLOSE).codes[0] != "ok"


def test_an_endless_series_ends_at_the_limit_of_its_statement(tmp_path):
    with new_service(tmp_path, clock=time.monotonic, limits=Limits(statement_time=0.2)) as service:
        service.start()
        query = f"SELECT count(*) FROM generate_series(1, {MOST})"
        assert caller_of(service, "db").post(execute(query)).codes == ["STATEMENT_TIMEOUT"]


def test_text_that_is_not_utf8_is_an_error_of_the_statement(db):
    answer = db.post(execute("SELECT value FROM generate_series(1, CAST(x'ff' AS TEXT))"))
    assert (answer.status, answer.codes) == (200, ["SQLITE_MISMATCH"])
