"""Datetime parameters at midnight find the days of DATE columns. SQLite says which rows are right."""

from __future__ import annotations

import datetime as dt
import operator
import sqlite3
from contextlib import closing
from enum import Enum
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_http import ServiceTransport

from pipemagic.client.database import Database
from pipemagic.errors import InterruptedRequest, ReadOnlyError, StatementError, TransactionLost
from pipemagic.hrana.values import decode
from pipemagic.session.cell import RunOptions, parse_cell

DATA = """
CREATE TABLE d (day DATE, until DATE, at DATETIME, name TEXT, n INTEGER);
INSERT INTO d VALUES
    ('2026-06-30', '2026-07-01', '2026-06-30 00:00:00', 'a', 1), ('2026-07-01', '2026-07-01', '2026-07-01 05:17:00', 'b', 2),
    ('2026-07-01', '2026-07-02', '2026-07-01 00:00:00', 'c', 3), ('2026-07-02', '2026-07-09', '2026-07-02 00:00:00', 'd', 4);
CREATE TABLE at (day DATETIME);
INSERT INTO at SELECT at FROM d;
CREATE VIEW v AS SELECT day AS first, at FROM d;
"""  # noqa: E501

MIDNIGHT = dt.datetime(2026, 7, 1)
DATE, TIME = "2026-07-01", "2026-07-01 00:00:00"


@pytest.fixture
def dates(timed):
    timed.run(DATA)
    return timed


@pytest.fixture
def rows():
    """The rows that SQLite itself returns, with a text in the place of :t."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(DATA)
        yield lambda text, value: database.execute(text.replace(":t", f"'{value}'")).fetchall()


def values_sent(session, text, params):
    (stmt,) = session.connection().with_dates(parse_cell(text, params)).stmts
    return stmt.sql, {arg.name: decode(arg.value) for arg in stmt.named_args or ()}


AS_DATE = [
    "SELECT n FROM d WHERE day = :t",
    "SELECT n FROM d WHERE day <> :t",
    "SELECT n FROM d WHERE day < :t",
    "SELECT n FROM d WHERE :t <= day",
    "SELECT n FROM d WHERE day BETWEEN :t AND :t",
    "SELECT n FROM d WHERE :t BETWEEN day AND until",
    "SELECT n FROM d WHERE day IN (:t)",
    "SELECT n FROM d WHERE :t NOT IN (day, until)",
    "SELECT n FROM d WHERE (day, n) = (:t, 2)",
    "SELECT n FROM d WHERE day IS NOT DISTINCT FROM :t",
    "SELECT count(*) FROM d AS x JOIN d AS y ON x.day = y.until AND y.until = :t",
    "SELECT count(*) FROM v WHERE first >= :t",
    "WITH c(x) AS (SELECT day FROM d) SELECT count(*) FROM c WHERE x >= :t",
    "SELECT count(*) FROM (SELECT max(day) AS last FROM d GROUP BY n) WHERE last >= :t",
    "SELECT max(day) AS last FROM d GROUP BY n HAVING last >= :t",
    "SELECT n FROM d WHERE :t IN (SELECT day FROM d AS x WHERE x.n = d.n)",
    "SELECT n FROM d WHERE (:t IS NULL OR day >= :t) AND day < date(:t, '+1 day')",
    "SELECT n, day = :t FROM d ORDER BY day = :t, n",
    "SELECT CASE day WHEN :t THEN 'x' END FROM d",
]

WITH_TIME = [
    "SELECT n FROM d WHERE at = :t",
    "SELECT n FROM d WHERE at <= :t",
    "SELECT n FROM d WHERE at BETWEEN :t AND :t",
    "SELECT n FROM d WHERE name < :t",
    "SELECT n FROM d WHERE day = :t AND at >= :t",  # it is compared with a column of another type, too
    "SELECT n FROM d WHERE day || '' = :t",
    "SELECT n FROM d WHERE date(day) = :t",
    "SELECT n FROM d WHERE +day <= :t",
    "SELECT n FROM d, at WHERE at.day = :t",
    "WITH c AS (SELECT at AS day FROM d) SELECT count(*) FROM c WHERE day = :t",
    "SELECT :t",
    "SELECT max(:t, day) FROM d",
]


def result(session, text, params):
    """Return the rows of the last statement, as they are stored."""
    outcome = session.run_cell(text, params).outcomes[-1]
    return [tuple(map(decode, row)) for row in outcome.result.rows]


@pytest.mark.parametrize("text", AS_DATE)
def test_compared_with_date_columns_it_is_a_date(dates, rows, text):
    expected = rows(text, DATE)
    assert result(dates, text, {"t": MIDNIGHT}) == expected
    assert expected != rows(text, TIME)


@pytest.mark.parametrize("text", WITH_TIME)
def test_elsewhere_it_keeps_its_time(dates, rows, text):
    assert result(dates, text, {"t": MIDNIGHT}) == rows(text, TIME)


def test_where_it_is_stored_it_keeps_its_time(dates):
    dates.run("UPDATE d SET at = :t, name = :t WHERE day = :t", {"t": MIDNIGHT})
    assert result(dates, "SELECT at, name FROM d WHERE n IN (2, 3)", {}) == [(TIME, TIME)] * 2
    text, args = values_sent(dates, "SELECT :t FROM d WHERE day = :t OR :t_date > n", {"t": MIDNIGHT, "t_date": 1})
    assert text == "SELECT :t FROM d WHERE day = :t_date_ OR :t_date > n"
    assert args == {":t": TIME, ":t_date": 1, ":t_date_": DATE}


def test_updates_and_deletes_change_the_right_rows(dates):
    assert dates.run_cell("UPDATE d SET n = 0 WHERE day = :t", {"t": MIDNIGHT}).outcomes[0].affected_row_count == 2
    assert dates.run_cell("DELETE FROM d WHERE day >= :t", {"t": MIDNIGHT}).outcomes[0].affected_row_count == 3


class Holiday(Enum):
    CANADA = MIDNIGHT


MOMENTS = [
    MIDNIGHT, pd.Timestamp(MIDNIGHT), pd.Timestamp(MIDNIGHT).as_unit("ns"), np.datetime64("2026-07-01T00:00:00"),
    np.datetime64("2026-07-01T00:00:00", "ns"), np.datetime64("2026-07-01", "D"), dt.date(2026, 7, 1), Holiday.CANADA,
    pa.scalar(MIDNIGHT), pa.scalar(MIDNIGHT, pa.timestamp("ns")), pa.scalar(dt.date(2026, 7, 1)),
]  # fmt: skip


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: f"{type(moment).__name__} {moment}")
def test_every_kind_of_moment_at_midnight(dates, moment):
    assert result(dates, "SELECT n FROM d WHERE day = :t", {"t": moment}) == [(2,), (3,)]
    assert result(dates, "SELECT n FROM d WHERE day IN :t", {"t": [moment]}) == [(2,), (3,)]


OTHERS = [
    TIME, np.str_(TIME), dt.datetime(2026, 7, 1, tzinfo=dt.UTC), pd.Timestamp(MIDNIGHT, tz="Europe/Paris"),
    dt.datetime(2026, 7, 1, 5, 17), pd.Timestamp("2026-07-01 00:00:00.000000001"), pd.NaT, None, dt.time(), 20260701,
    pa.scalar(TIME), pa.scalar(pd.Timestamp(MIDNIGHT, tz="UTC")), Path(TIME),
]  # fmt: skip


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: f"{type(value).__name__} {value}")
def test_other_values_are_sent_as_they_are(dates, value):
    cell = parse_cell("SELECT n FROM d WHERE day = :t", {"t": value})
    assert cell.dates == ()
    assert dates.connection().with_dates(cell) is cell
    assert result(dates, "SELECT n FROM d WHERE day = :t", {"t": value}) == []


def test_lists_are_narrowed_value_by_value(dates):
    days = [MIDNIGHT, dt.datetime(2026, 7, 1, 5, 17), dt.date(2026, 7, 2), None, TIME]
    text, args = values_sent(dates, "SELECT n FROM d WHERE day IN :days", {"days": days})
    assert text == "SELECT n FROM d WHERE day IN (:days_1, :days_2, :days_3, :days_4, :days_5)"
    assert list(args.values()) == [DATE, "2026-07-01 05:17:00", "2026-07-02", None, TIME]
    frame = pd.DataFrame({"day": pd.to_datetime([DATE, "2026-07-09"])})
    for listed in (frame["day"], frame["day"].to_numpy(), pd.DatetimeIndex(frame["day"]), pa.array(frame["day"])):
        assert result(dates, "SELECT n FROM d WHERE day IN :days", {"days": listed}) == [(2,), (3,)]
        assert result(dates, "SELECT n FROM d WHERE day NOT IN (:days)", {"days": listed}) == [(1,), (4,)]
    assert result(dates, "SELECT n FROM d WHERE at IN :days", {"days": [MIDNIGHT]}) == [(3,)]
    both = "SELECT n FROM d WHERE day IN :days AND at IN :days"
    assert result(dates, both, {"days": [MIDNIGHT]}) == []


def test_long_lists_are_narrowed_in_json(dates):
    days = pd.Series(pd.date_range("2026-07-01", periods=1500))
    assert result(dates, "SELECT count(*) FROM d WHERE day IN :days", {"days": days}) == [(3,)]
    assert result(dates, "SELECT count(*) FROM d WHERE at IN :days", {"days": days}) == [(2,)]
    assert result(dates, "SELECT count(*) FROM d WHERE date(at) IN :days AND day IN :days", {"days": days}) == [(0,)]
    mixed = [*days, "text", dt.datetime(2026, 6, 30, 12)]
    assert result(dates, "SELECT count(*) FROM d WHERE day IN :days", {"days": mixed}) == [(3,)]


def test_tables_of_the_same_cell_and_of_the_open_transaction(dates):
    """No cache knows them: the types come from the stream and from the text before the statement."""
    made = "CREATE TABLE {0} (x DATE); INSERT INTO {0} VALUES ('2026-07-01'); SELECT count(*) FROM {0} WHERE x = :t"
    params = {"t": MIDNIGHT}
    assert result(dates, made.format("e"), params) == [(1,)]
    assert result(dates, "BEGIN; " + made.format("f"), params) == [(1,)]
    assert result(dates, "SELECT count(*) FROM f WHERE x = :t", params) == [(1,)]
    assert result(dates, "ALTER TABLE f RENAME COLUMN x TO y; SELECT count(*) FROM f WHERE y = :t", params) == [(1,)]
    gone = "DROP TABLE f; CREATE TABLE f AS SELECT '2026-07-01' AS x; SELECT count(*) FROM f WHERE x = :t"
    assert result(dates, gone, params) == [(0,)]
    dates.run("ROLLBACK")
    renamed = "ALTER TABLE main.at RENAME TO moved; ALTER TABLE moved ADD x DATE DEFAULT '2026-07-01';"
    assert result(dates, renamed + "SELECT count(*) FROM moved WHERE x = :t", params) == [(4,)]
    view = "CREATE VIEW w (a) AS SELECT day FROM d; SELECT count(*) FROM w WHERE a = :t; DROP VIEW w"
    assert dates.run_cell(view, params).outcomes[1].frame().iloc[0, 0] == 2
    temporary = "CREATE TEMP TABLE d (day DATETIME); INSERT INTO temp.d VALUES ('2026-07-01 00:00:00')"
    dates.run(temporary)
    assert result(dates, "SELECT count(*) FROM d WHERE day = :t", params) == [(1,)]
    assert result(dates, "SELECT count(*) FROM main.d WHERE main.d.day = :t", params) == [(2,)]


def test_types_that_the_cell_rolls_back_are_not_used(dates):
    change = "BEGIN; ALTER TABLE d RENAME COLUMN day TO x; ALTER TABLE d RENAME COLUMN at TO day; ROLLBACK;"
    assert result(dates, change + "SELECT count(*) FROM at WHERE day = :t", {"t": MIDNIGHT}) == [(1,)]
    dates.run("BEGIN; DROP TABLE at; CREATE TABLE at (day DATE)")
    assert result(dates, "ROLLBACK; SELECT count(*) FROM at WHERE day = :t", {"t": MIDNIGHT}) == [(1,)]


def test_another_connection_changed_the_types(dates):
    assert result(dates, "SELECT count(*) FROM d WHERE day = :t", {"t": MIDNIGHT}) == [(2,)]
    database = dates.connection().database  # on a stream of its own
    database.batch(["ALTER TABLE d RENAME COLUMN day TO old", "ALTER TABLE d RENAME COLUMN at TO day"])
    assert result(dates, "SELECT count(*) FROM d WHERE day = :t", {"t": MIDNIGHT}) == [(1,)]


def test_the_types_cost_a_request_only_if_they_decide(dates, transport, monkeypatch):
    handle, sent = transport.handle_request, []
    monkeypatch.setattr(transport, "handle_request", lambda request: sent.append(request) or handle(request))

    def requests(text, params):
        sent.clear()
        dates.run(text, params)
        return len(sent)

    params = {"t": MIDNIGHT, "n": 3}
    assert requests("SELECT n FROM d WHERE day = :t", params) == 2
    assert requests("SELECT n FROM d WHERE n = :n", params) == 1
    assert requests("INSERT INTO at VALUES (:t)", params) == 1
    assert requests("SELECT n, :t FROM d WHERE day < date(:t)", params) == 1


def test_the_transaction_is_that_of_the_cells(dates):
    dates.run("BEGIN; UPDATE d SET n = 9 WHERE day = :t", {"t": MIDNIGHT})
    connection = dates.connection()
    assert connection.statements_open == 1
    assert [statement.text for statement in connection.statements] == ["BEGIN", "UPDATE d SET n = 9 WHERE day = :t"]
    dates.run("SELECT n FROM d WHERE day = :t", {"t": MIDNIGHT})
    assert connection.statements_open == 2
    dates.run("COMMIT")
    assert result(dates, "SELECT count(*) FROM d WHERE n = 9", {}) == [(2,)]


def test_a_lost_transaction_is_retried_with_what_was_sent(dates, clock):
    dates.run("BEGIN; UPDATE d SET n = 9 WHERE day = :t AND :t <> ''", {"t": MIDNIGHT})
    clock.advance(6)
    with pytest.raises(TransactionLost, match="UPDATE d SET n = 9 WHERE day = :t"):
        dates.run("SELECT n FROM d WHERE day = :t", {"t": MIDNIGHT})
    dates.connection().retry()
    assert result(dates, "SELECT count(*) FROM d WHERE n = 9", {}) == [(2,)]


def test_errors_name_the_written_place(dates):
    with pytest.raises(StatementError, match=r"no such column: nope\nline 2:\n    AND nope = :t"):
        dates.run("SELECT :t FROM d WHERE day = :t\n  AND nope = :t", {"t": MIDNIGHT})
    with pytest.raises(StatementError, match="no such table: missing"):
        dates.run("SELECT 1 FROM missing WHERE day = :t", {"t": MIDNIGHT})


def test_a_broken_view(dates):
    dates.run("CREATE TABLE gone (day DATE); CREATE VIEW broken AS SELECT day FROM gone; DROP TABLE gone")
    with pytest.raises(StatementError, match=r"no such table: main\.gone"):
        dates.run("SELECT 1 FROM d JOIN broken USING (day) WHERE d.day = :t", {"t": MIDNIGHT})
    assert result(dates, "SELECT n FROM d WHERE day = :t", {"t": MIDNIGHT}) == [(2,), (3,)]


def test_plans_and_descriptions_are_those_of_what_is_sent(dates):
    dates.run("CREATE INDEX by_day ON d (day)")
    assert "by_day" in str(dates.explain("SELECT n FROM d WHERE day = :t", {"t": MIDNIGHT}))
    described = dates.describe("SELECT :t AS x FROM d WHERE day = :t", {"t": MIDNIGHT}).statements[0]
    assert described.parameters == ((":t", "TEXT"), (":t_date", "TEXT"))


@pytest.mark.parametrize("limit", [None, 1])
def test_a_limit_and_a_timeout(dates, limit):
    cell = parse_cell("SELECT n FROM d WHERE day = :t ORDER BY n", {"t": MIDNIGHT})
    outcome = dates.run_cell(cell, options=RunOptions(limit=limit, timeout=30, atomic=True)).outcomes[0]
    assert outcome.frame()["n"].tolist() == [2, 3][:limit]


def test_a_stream_that_expired_is_reported(dates, clock):
    dates.run("CREATE TEMP TABLE x (a)")
    clock.advance(30)
    done = dates.run_cell("SELECT n FROM d WHERE day = :t", {"t": MIDNIGHT})
    assert len(done.notes) == 1
    assert "temporary" in done.notes[0]
    assert done.outcomes[0].frame()["n"].tolist() == [2, 3]


def test_a_server_at_another_address(dates, transport):
    connection = dates.connection()
    url, token = connection.database.url, connection.database.transport.token
    again = httpx.Client(transport=ServiceTransport(transport.service))
    connection.find_again = lambda: Database(url, token, http=again, clock=connection.database._clock)
    transport.down = True
    assert result(dates, "SELECT n FROM d WHERE day = :t", {"t": MIDNIGHT}) == [(2,), (3,)]


def test_an_interrupt_while_the_types_are_read(dates, transport, monkeypatch):
    handle = transport.handle_request

    def interrupted(request):
        monkeypatch.setattr(transport, "handle_request", handle)
        raise KeyboardInterrupt

    monkeypatch.setattr(transport, "handle_request", interrupted)
    with pytest.raises(InterruptedRequest):
        dates.run("DELETE FROM d WHERE day = :t", {"t": MIDNIGHT})
    assert result(dates, "SELECT count(*) FROM d", {}) == [(4,)]


def test_a_read_only_connection(dates):
    dates.connection().database.read_only = True
    dates.connection().close()
    assert result(dates, "SELECT n FROM d WHERE day = :t", {"t": MIDNIGHT}) == [(2,), (3,)]
    with pytest.raises(ReadOnlyError):
        dates.run("DELETE FROM d WHERE day = :t", {"t": MIDNIGHT})


def test_on_other_servers(session):
    session.run(DATA)
    assert session.run("SELECT n FROM d WHERE day = :t ORDER BY n", {"t": MIDNIGHT})["n"].tolist() == [2, 3]
    assert session.run("SELECT n FROM d WHERE at = :t", {"t": MIDNIGHT})["n"].tolist() == [3]
    session.run("BEGIN; CREATE TABLE e (day DATE); INSERT INTO e VALUES ('2026-07-01')")
    assert session.run("SELECT count(*) AS n FROM e WHERE day = :t", {"t": MIDNIGHT})["n"].tolist() == [1]
    session.run("ROLLBACK")


SIGNS = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
MOMENTS = [
    pd.Timestamp(text)
    for text in ("1969-12-31", "2026-07-01", "2026-07-01 05:17", "2026-07-01 05:17:00.5", "2026-07-01 05:17:00.500001",
                 "2026-07-01 05:17:00.500001789", "2026-07-02", "2200-01-01")
]  # fmt: skip


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_comparisons_of_moments_are_those_of_pandas(timed, zone) -> None:
    moments = st.sampled_from(MOMENTS).map(lambda moment: moment.tz_localize(zone))

    @settings(suppress_health_check=[HealthCheck.too_slow], max_examples=30)
    @given(st.lists(moments, min_size=1, max_size=4), moments, moments)
    def compare(values, first, last) -> None:
        column = pd.Series(values)
        timed.connection().database.load(column.to_frame("at"), "t", if_exists="replace")
        expected = {f"at {sign} :first": of(column, first) for sign, of in SIGNS.items()}
        expected["at IN :both"] = column.isin([first, last])
        expected["at NOT BETWEEN :first AND :last"] = ~column.between(first, last)
        both = pd.Series([first, last]).dt.tz_convert("UTC") if zone else [first, last]
        params = {"first": first, "last": pd.Series([last]).to_numpy()[0] if zone is None else last, "both": both}
        found = timed.run(f"SELECT {', '.join(expected)} FROM t ORDER BY rowid", params)
        assert found.to_numpy().tolist() == pd.DataFrame(expected).astype(int).to_numpy().tolist()

    compare()
