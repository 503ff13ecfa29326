"""date_trunc: the moments of DuckDB, written as SQLite stores dates."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date, datetime, timedelta

import apsw
import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_calls import CLOSE, execute

from pipemagic.service.transfer.dump import dump
from pipemagic.service.transfer.restore import restore

DAYS = ("year", "quarter", "month", "week", "day")
TIMES = ("hour", "minute", "second")


@pytest.fixture(scope="module")
def duck():
    with duckdb.connect() as connection:
        yield lambda unit, time: connection.execute("SELECT date_trunc(?, ?)", [unit, time]).fetchone()[0]


@given(st.sampled_from(DAYS + TIMES), st.datetimes(datetime(1, 1, 8), datetime(9999, 12, 31)))
def test_the_starts_are_those_of_duckdb(sql, duck, unit, time):
    start = duck(unit, time)
    expected = str(start)[:10] if unit in DAYS else str(start)[:19]
    assert sql("SELECT date_trunc(?, ?)", unit, str(time)[:19]) == expected
    assert sql("SELECT date_trunc(?, ?)", unit.upper(), time.isoformat()) == expected


@given(st.sampled_from(DAYS + TIMES), st.dates(date(1, 1, 8)))
def test_a_day_is_its_midnight(sql, unit, day):
    assert sql("SELECT date_trunc(?1, ?2) = date_trunc(?1, ?3)", unit, str(day), f"{day} 00:00:00")


def test_a_day_is_comparable_with_a_date(sql):
    assert sql("SELECT date_trunc('month', '2013-01-31 10:00:00') = '2013-01-01'")
    assert sql("SELECT date_trunc('hour', '2013-01-31 10:59:00') = '2013-01-31 10:00:00'")


def test_the_zone_of_a_text_is_converted_as_by_sqlite(sql):
    assert sql("SELECT date_trunc('day', '2024-01-01 01:00:00+02:00')") == "2023-12-31"


def test_null_gives_null(sql):
    assert sql("SELECT json_array(date_trunc('day', NULL), date_trunc(NULL, '2024-01-01'))") == "[null,null]"


def test_now_is_today(sql):
    before = sql("SELECT date('now')")
    assert before <= sql("SELECT date_trunc('day', 'now')") <= sql("SELECT date('now')")


@pytest.mark.parametrize(
    "text", ["05.01.2024", "", "abc", "2024", 2024, 1704067200, 2460000.5, b"2024-01-01", "10:30", "2024-02-31",
             "2024-13-01", "2024-01-01x", "٢٠٢٤-01-01", "2024-01-01" + " " * 100],
)  # fmt: skip
def test_what_is_no_date_is_an_error(sql, text):
    """SQLite's date() gives NULL, or reads a number as a Julian day."""
    with pytest.raises(apsw.SQLError, match=r"^date_trunc\(\) cannot read .* as a date: write YYYY-MM-DD or"):
        sql("SELECT date_trunc('month', ?)", text)


@pytest.mark.parametrize("unit", ["2024-01-01", "months", "", 1, b"month", "century"])
def test_an_unknown_unit_is_an_error(sql, unit):
    with pytest.raises(
        apsw.SQLError, match=r"^the first argument of date_trunc\(\) must be one of 'year', .*'second', not"
    ):
        sql("SELECT date_trunc(?, '2024-01-01')", unit)


def test_groups_and_views(db):
    db.run("CREATE TABLE t(d)", "INSERT INTO t VALUES ('2024-01-05'), ('2024-01-31 10:00'), ('2024-02-01')")
    db.run("CREATE VIEW months AS SELECT date_trunc('month', d) AS month, count(*) AS n FROM t GROUP BY month")
    assert db.run("SELECT * FROM months").rows() == [["2024-01-01", "2"], ["2024-02-01", "1"]]


@pytest.mark.parametrize("definition", [
    "CREATE INDEX i ON t(date_trunc('month', d))", "CREATE INDEX i ON t(d) WHERE date_trunc('month', d) = d",
    "ALTER TABLE t ADD COLUMN g AS (date_trunc('month', d))",
])  # fmt: skip
def test_no_table_needs_it_to_be_read(db, definition):
    """Programs without the function could not read such a table."""
    db.run("CREATE TABLE t(d)")
    answer = db.post(execute(definition), CLOSE)
    assert "non-deterministic functions prohibited" in answer.error()["message"]


def test_other_programs_read_a_database_that_uses_it(db, service):
    db.run("CREATE TABLE t(d CHECK (date_trunc('month', d) = d))", "INSERT INTO t VALUES ('2024-01-01')",
           "CREATE VIEW v AS SELECT stddev(d) FROM t")  # fmt: skip
    path = service.engine.databases.in_use()[0].path
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("SELECT d FROM t").fetchall() == [("2024-01-01",)]


def test_a_check_survives_a_dump_and_a_changed_column(db, tmp_path):
    db.run("CREATE TABLE t(d TEXT CHECK (date_trunc('month', d) = d), x)", "INSERT INTO t(d) VALUES ('2024-01-01')")
    assert db.run("ALTER TABLE t ALTER COLUMN x TO x TEXT").codes[0] == "ok"
    path = db.service.engine.databases.in_use()[0].path
    text = b"".join(dump(path, lambda: False)).decode()
    restore([text], tmp_path / "copy.sqlite", "dump")
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as copy:
        assert copy.execute("SELECT d FROM t").fetchall() == [("2024-01-01",)]


def test_the_week_of_each_day_begins_on_monday(sql):
    days = [date(2023, 12, 25) + timedelta(place) for place in range(30)]
    weeks = [date.fromisoformat(sql("SELECT date_trunc('week', ?)", str(day))) for day in days]
    assert {week.weekday() for week in weeks} == {0}
    assert all(timedelta(0) <= day - week < timedelta(7) for day, week in zip(days, weeks, strict=True))
