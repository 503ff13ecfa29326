"""pandas and Polars write the same tables as with the sqlite3 module and its dialect of SQLAlchemy."""

from __future__ import annotations

import datetime
import sqlite3
from contextlib import closing
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sqlalchemy

from pipemagic import dbapi

KINDS = ["connection", "engine", "notebook_connection", "notebook_engine"]
OTHER_DBAPI = pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy:UserWarning")


def frame_of():
    """Return a frame with each type that SQLite can store, and nulls.

    The times have microseconds: pandas makes the sqlite3 module write them also if they are 0.
    """
    moments = pd.to_datetime(["2020-01-02 03:04:05.678901", None, "1969-12-31 00:00:00.0"])
    return pd.DataFrame(
        {
            "big": pd.array([2**53 + 1, None, -(2**63)], dtype="Int64"),
            "small": np.array([-1, 0, 1], dtype="int8"),
            "ratio": [0.1, None, 5e-324],
            "single": np.array([0.1, 1.5, -0.0], dtype="float32"),
            "flag": [True, False, True],
            "maybe": pd.array([True, None, False], dtype="boolean"),
            "moment": moments,
            "aware": moments.tz_localize("UTC"),
            "day": [datetime.date(2020, 1, 2), None, datetime.date(1, 1, 1)],
            "clock": [datetime.time(3, 4, 5, 6), None, datetime.time(0, 0, 0, 1)],
            "name": ["naïve 🐘", None, "a'b\nc"],
            "kind": pd.Categorical(["x", None, "y"]),
            "data": [b"\x00\xff", None, b""],
            'a "quoted" name': [1, 2, 3],
        }
    )


@pytest.fixture
def reference(tmp_path):
    """A database of the sqlite3 module, which is also that of `file_engine`."""
    with closing(sqlite3.connect(tmp_path / "file.db")) as file:
        yield file


@pytest.fixture
def file_engine(tmp_path):
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'file.db'}")
    yield engine
    engine.dispose()


def contents(rows):
    """Return the DDL and the rows of the table, read by a function that runs SQL."""
    return rows("SELECT type, name, sql FROM sqlite_master ORDER BY name"), rows("SELECT * FROM t"), types(rows)


def types(rows):
    """Return the storage class of each value: 1 and 1.0 are equal in Python."""
    names = [name for _, name, *_ in rows("PRAGMA table_info(t)")]
    return rows("SELECT " + ", ".join('typeof("{}")'.format(name.replace('"', '""')) for name in names) + " FROM t")


@OTHER_DBAPI
@pytest.mark.parametrize(
    "options", [{}, {"index": False}, {"index_label": "n"}, {"chunksize": 2}, {"method": "multi"}], ids=str
)
def test_pandas_writes_with_the_connection_what_it_writes_to_a_file(connection, target, reference, options):
    counts = [frame_of().to_sql("t", con, **options) for con in (connection, reference)]
    assert counts == [3, 3]
    assert contents(target.rows) == contents(lambda sql: reference.execute(sql).fetchall())
    assert not connection.in_transaction


@pytest.mark.parametrize("options", [{}, {"index": False, "chunksize": 2, "method": "multi"}], ids=str)
def test_pandas_writes_with_an_engine_what_it_writes_to_a_file(engine, target, file_engine, reference, options):
    counts = [frame_of().to_sql("t", con, **options) for con in (engine, file_engine)]
    assert counts == [3, 3]
    assert contents(target.rows) == contents(lambda sql: reference.execute(sql).fetchall())


def test_pandas_reads_a_table_with_the_types_that_it_wrote(engine, target, file_engine):
    frames = []
    for con in (engine, file_engine):
        frame_of().drop(columns="data").to_sql("t", con, index=False)  # pandas declares bytes as TEXT
        frames.append(pd.read_sql_table("t", con))
    pd.testing.assert_frame_equal(*frames, check_exact=True)
    assert frames[0]["moment"].tolist() == frame_of()["moment"].tolist()


@OTHER_DBAPI
@pytest.mark.parametrize("kind", KINDS)
def test_pandas_replaces_appends_and_refuses(request, target, kind):
    con = request.getfixturevalue(kind)
    frame = pd.DataFrame({"a": [1, 2]})
    frame.to_sql("t", con, index=False)
    with pytest.raises(ValueError, match="already exists"):
        frame.to_sql("t", con, index=False)
    frame.to_sql("t", con, index=False, if_exists="append")
    assert target.rows("SELECT a FROM t") == [(1,), (2,), (1,), (2,)]
    frame.tail(1).to_sql("t", con, index=False, if_exists="replace")
    assert target.rows("SELECT a FROM t") == [(2,)]


@OTHER_DBAPI
def test_a_write_that_fails_leaves_no_row(connection, engine, target):
    """With an engine, pandas itself commits the chunks before the one that fails, also with a file."""
    target.run("CREATE TABLE t (a INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (7)")
    frame, options = pd.DataFrame({"a": [1, 2, 7]}), {"index": False, "if_exists": "append", "chunksize": 1}
    with pytest.raises(dbapi.IntegrityError, match=r"UNIQUE constraint failed: t\.a"):
        frame.to_sql("t", connection, **options)
    with pytest.raises(pd.errors.DatabaseError, match=r"UNIQUE constraint failed: t\.a"), engine.begin() as begun:
        frame.to_sql("t", begun, **options)
    assert target.rows("SELECT a FROM t") == [(7,)]
    for con in (connection, engine):
        frame.head(1).to_sql("t", con, **options)
        frame["a"] += 1
    assert target.rows("SELECT a FROM t") == [(1,), (2,), (7,)]


@OTHER_DBAPI
def test_values_that_sqlite_cannot_store_are_errors_and_no_other_values(connection, target):
    target.run("CREATE TABLE t (a)")
    for value in (2**63, Decimal("0.12345678901234567890"), "\ud800", [1]):
        with pytest.raises(dbapi.Error):
            pd.DataFrame({"a": pd.Series([value], dtype=object)}).to_sql(
                "t", connection, index=False, if_exists="append"
            )
    assert target.rows("SELECT * FROM t") == []


@OTHER_DBAPI
@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_of_many_rows_arrives_whole(request, target, kind):
    count = 25_000
    frame = pd.DataFrame({"n": range(count), "half": np.arange(count) / 2, "name": [f"n{n}" for n in range(count)]})
    con = request.getfixturevalue(kind)
    assert frame.to_sql("t", con, index=False) == count
    pd.testing.assert_frame_equal(pd.read_sql("SELECT * FROM t", con), frame, check_exact=True)


@OTHER_DBAPI
@pytest.mark.parametrize("kind", KINDS)
def test_infinities_are_stored(request, target, kind):
    frame = pd.DataFrame({"name": ["high", "low", "none"], "a": [np.inf, -np.inf, np.nan]})
    frame.to_sql("t", request.getfixturevalue(kind), index=False)
    finite = target.rows("SELECT name, a > 1e308, a < -1e308, typeof(a) FROM t")
    assert finite == [("high", 1, 0, "real"), ("low", 0, 1, "real"), ("none", None, None, "null")]


def test_polars_writes_with_an_engine_what_it_writes_to_a_file(engine, target, file_engine, reference):
    frame = pl.DataFrame(
        {
            "big": [2**53 + 1, None, -(2**63)], "ratio": [0.1, None, 5e-324], "flag": [True, None, False],
            "moment": [datetime.datetime(2020, 1, 2, 3, 4, 5, 678901), None, datetime.datetime(1969, 12, 31)],
            "name": ["naïve 🐘", None, ""], "data": [b"\x00\xff", None, b""],
        }
    )  # fmt: skip
    for con in (engine, file_engine):
        assert frame.write_database("t", con) == 3
        frame.head(1).write_database("t", con, if_table_exists="append")
    assert contents(target.rows) == contents(lambda sql: reference.execute(sql).fetchall())
    read = pl.read_database("SELECT big, ratio, name, data FROM t", engine)
    assert read.head(3).equals(frame.select("big", "ratio", "name", "data"))
