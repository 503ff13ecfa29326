"""pandas and Polars read the same values as with the sqlite3 module from a file with the same rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import duckdb
import pandas as pd
import polars as pl
import pytest
from pandas.testing import assert_frame_equal

TABLE = """
CREATE TABLE kinds (
    id INTEGER PRIMARY KEY, big BIGINT, small TINYINT, "unsigned" UNSIGNED BIG INT, ratio REAL, single FLOAT4,
    flag BOOLEAN, day DATE, moment DATETIME, stamp TIMESTAMP, clock TIME, price DECIMAL(10,2), exact DECIMAL,
    amount NUMERIC, name TEXT, code VARCHAR(3), data BLOB, document JSON, plain, "größe" INT, empty TEXT
)
"""
ROWS = [
    (
        1, 2**53 + 1, 300, -1, 0.1, 0.1, 5, "2020-01-02", "2020-01-02 03:04:05.678901", "2020-01-02T03:04:05+00:00",
        "03:04:05", 1.005, 1.1, 2**53 + 1, "naïve 🐘 a\nb", "longer", b"\x00\xff", '{"a": [1, null]}', 1, 1, None,
    ),
    (
        2, -(2**63), -1, 2**63 - 1, 1e308, -0.0, 0, "0000-00-00", "not a moment", "", "", -1.0, 10**15, 12.5, "",
        "", b"", "[]", "one", -1, None,
    ),
    (3, *[None] * 20),
    (4, 2**63 - 1, 1, 1, 5e-324, 1.5, 1, "9999-12-31", "1969-12-31 23:59:59", "2020-01-02", "23:59:60", 0.5, -0.5,
     -(2**53) - 1, "\u0000x", "x", b"\x00", "null", 2.5, 2**62, None),
]  # fmt: skip
"""Values that a conversion by the declared type would change, and that 64-bit integers and doubles hardly hold."""

COLUMNS = """
id, big, small, "unsigned", ratio, single, flag, day, moment, stamp, clock, price, exact, amount, name, code, document,
"größe", empty
"""
WITH_BYTES = [
    "SELECT * FROM kinds",
    "SELECT * FROM kinds WHERE id <> 3",
    "SELECT id, data FROM kinds WHERE id < 3",
]
"""pandas reads no bytes as one of its nullable types."""
TWICE = "SELECT 1 AS a, 2 AS a, a.id, b.id FROM kinds AS a JOIN kinds AS b USING (id)"
"""Columns of one name, which pandas reads, and Polars refuses."""
QUERIES = [
    f"SELECT {COLUMNS} FROM kinds",
    f"SELECT {COLUMNS} FROM kinds WHERE id = 1",
    "SELECT * FROM kinds WHERE id = 3",
    "SELECT * FROM kinds WHERE 0",
    'SELECT big + 1 AS next, upper(code) AS "a b", hex(data), NULL AS none FROM kinds WHERE id = 2',
    "SELECT count(*), sum(big / 2), avg(ratio), total(small) FROM kinds",
    "VALUES (1, 'a'), (2, NULL)",
    "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2500) SELECT i, i * 0.1 AS x FROM n",
    "PRAGMA table_info(kinds)",
]
OTHER_DBAPI = pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy:UserWarning")


@pytest.fixture
def reference():
    """The same rows in a database of the sqlite3 module."""
    with closing(sqlite3.connect(":memory:")) as file:
        fill(file)
        yield file


@pytest.fixture
def filled(connection):
    fill(connection)
    return connection


def fill(connection):
    """Create the table through the driver itself."""
    connection.execute(TABLE)
    connection.executemany(f"INSERT INTO kinds VALUES ({', '.join('?' * len(ROWS[0]))})", ROWS)
    connection.commit()


@pytest.fixture(params=["connection", "engine", "notebook_connection", "notebook_engine"])
def con(request, filled):
    """A plain connection and an engine of SQLAlchemy, with a stream of their own and on that of a notebook."""
    return request.getfixturevalue(request.param)


# -- pandas


@OTHER_DBAPI
def test_pandas_reads_what_it_reads_from_a_file(con, reference):
    for query in [*WITH_BYTES, TWICE, *QUERIES]:
        assert_frame_equal(pd.read_sql(query, con), pd.read_sql(query, reference), check_exact=True, obj=query)


@OTHER_DBAPI
@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_pandas_reads_nullable_types_so_integers_beside_nulls_stay_exact(con, reference, backend):
    for query in QUERIES:
        frame, expected = (pd.read_sql(query, at, dtype_backend=backend) for at in (con, reference))
        assert_frame_equal(frame, expected, check_exact=True, obj=query)
    assert pd.read_sql("SELECT big FROM kinds", con, dtype_backend=backend)["big"][0] == 2**53 + 1


@OTHER_DBAPI
def test_pandas_parses_dates_and_reads_chunks(con, reference):
    query = "SELECT id, moment, day FROM kinds WHERE id = 1 OR id = 3"
    options = {"parse_dates": ["moment", "day"], "index_col": "id"}
    assert_frame_equal(pd.read_sql(query, con, **options), pd.read_sql(query, reference, **options))
    chunks = [list(pd.read_sql(QUERIES[7], at, chunksize=1000)) for at in (con, reference)]
    assert [len(chunk) for chunk in chunks[0]] == [1000, 1000, 500]
    assert_frame_equal(pd.concat(chunks[0]), pd.concat(chunks[1]), check_exact=True)


@OTHER_DBAPI
def test_pandas_passes_parameters_by_position_and_name(con, reference):
    for query, params in [
        ("SELECT id FROM kinds WHERE big = ? AND name > ?", (2**53 + 1, "n")),
        ("SELECT id, :day AS given FROM kinds WHERE day = :day", {"day": "2020-01-02"}),
    ]:
        assert_frame_equal(pd.read_sql(query, con, params=params), pd.read_sql(query, reference, params=params))


# -- Polars


def test_polars_reads_what_it_reads_from_a_file(con, reference):
    """It would convert values to the declared types, without checking them."""
    for query in [*WITH_BYTES, *QUERIES]:
        frame, expected = pl.read_database(query, con), pl.read_database(query, reference)
        assert frame.schema == expected.schema, query
        assert frame.equals(expected), query


def test_polars_refuses_columns_of_one_name_as_it_does_with_a_file(con, reference):
    for at in (con, reference):
        with pytest.raises(pl.exceptions.DuplicateError):
            pl.read_database(TWICE, at)


def test_polars_reads_batches_and_passes_parameters(con, reference):
    batches = list(pl.read_database(QUERIES[7], con, iter_batches=True, batch_size=1000))
    assert [len(batch) for batch in batches] == [1000, 1000, 500]
    assert pl.concat(batches).equals(pl.read_database(QUERIES[7], reference))
    query, options = "SELECT id FROM kinds WHERE big = ?", {"parameters": (2**53 + 1,)}
    assert pl.read_database(query, con, execute_options=options)["id"].to_list() == [1]
    schema = {"day": pl.String, "big": pl.Int64}
    assert pl.read_database("SELECT day, big FROM kinds", con, schema_overrides=schema)["big"][0] == 2**53 + 1


@OTHER_DBAPI
def test_infinities_are_read_where_the_server_sends_them(con, target):
    """The responses of sqld have no sign, so that it reads NaN, never a finite number."""
    expected = "nan" if target.is_sqld else "-inf"
    assert str(pd.read_sql("SELECT -9e999 AS low", con)["low"][0]) == expected
    assert str(pl.read_database("SELECT -9e999 AS low", con)["low"][0]) == expected


# -- Arrow, DuckDB


def test_duckdb_queries_a_result_as_an_arrow_table(filled):
    query = "SELECT id, big, price, name, data FROM kinds WHERE id <= 2"
    rows = filled.execute(query).fetchall()
    kinds = filled.execute(query).fetch_arrow_table()  # noqa: F841 - DuckDB finds the variable
    assert duckdb.sql("SELECT * FROM kinds ORDER BY id").fetchall() == rows
    assert duckdb.sql("SELECT sum(big)::HUGEINT FROM kinds").fetchall() == [(2**53 + 1 - 2**63,)]


def test_frames_of_a_cursor_have_the_types_of_a_cell_and_exact_values(filled):
    query = "SELECT id, big FROM kinds"
    frame = filled.execute(query).fetch_df()
    assert list(map(str, frame.dtypes)) == ["int64", "Int64"]
    assert frame["big"].to_list() == [2**53 + 1, -(2**63), pd.NA, 2**63 - 1]
    assert filled.execute(query).fetch_arrow_table()["big"].to_pylist() == [2**53 + 1, -(2**63), None, 2**63 - 1]
