"""Cells written as records, and read back by SQLite itself."""

from __future__ import annotations

import math
import sqlite3
import warnings

import apsw
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.frames.columns import chunk_of_items
from pipemagic.frames.encoder import Records
from pipemagic.frames.from_pandas import from_frame

DOUBLES = st.floats(allow_nan=False)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def read_by_apsw(sql: str, args: list) -> list[tuple]:
    connection = apsw.Connection(":memory:")
    try:
        return connection.execute(sql, args).fetchall()
    finally:
        connection.close()


def through_records(columns, start: int, stop: int, read=read_by_apsw) -> list[tuple]:
    """Return the rows that SQLite reads."""
    records = Records(stop - start)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sql = records.query([records.add(column.cut(start, stop)) for column in columns])
    args = records.args
    assert records.size == sum(len(arg.encode() if isinstance(arg, str) else arg) for arg in args)
    return read(sql, args)


def exactly(values) -> list:
    """Return values in a form for comparison: by type, doubles by their bits."""
    return [(type(value).__name__, value.hex() if isinstance(value, float) else value) for value in values]


def check(values) -> None:
    """Check all values and some from the middle."""
    cells = chunk_of_items(values)
    assert exactly(cells.items()) == exactly(values)
    for start, stop in [(0, len(values)), (len(values) // 3, len(values) - len(values) // 3)]:
        if start < stop:
            rows = through_records([cells], start, stop)
            assert exactly(value for (value,) in rows) == exactly(values[start:stop])


@given(st.lists(DOUBLES | st.none(), min_size=1))
def test_doubles(values) -> None:
    check(values)


@given(st.lists(st.decimals(-(10**9), 10**9, places=3), min_size=1))
def test_doubles_of_few_decimals(values) -> None:
    check([float(value) for value in values])


def test_doubles_at_every_edge() -> None:
    edges = [math.ldexp(1.0, power) for power in range(-1074, 1024)]
    edges += [float(f"1e{power}") for power in range(-323, 309)]
    edges += [near for edge in edges for near in (math.nextafter(edge, 0.0), math.nextafter(edge, math.inf))]
    edges += [0.1, 1 / 3, 2.0**53 - 1, 2.0**53, 1.7976931348623157e308, math.inf, 0.0]
    check([*edges, *(-edge for edge in edges)])


def test_random_bit_patterns() -> None:
    bits = np.random.default_rng(11).integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64)
    check(bits[~np.isnan(bits)].tolist())


@given(st.lists(INTEGERS | st.none(), min_size=1))
def test_integers(values) -> None:
    check(values)


@given(st.lists(TEXTS | st.none(), min_size=1))
def test_texts(values) -> None:
    check(values)


@given(st.integers(1, 60), st.data())
def test_texts_of_one_length(length, data) -> None:
    texts = data.draw(st.lists(st.text("ab é😀\"\\\0'", min_size=length, max_size=length), min_size=1))
    check(texts)
    check([*texts, None])


@given(st.lists(st.binary() | st.none(), min_size=1))
def test_blobs(values) -> None:
    check(values)


@given(st.lists(DOUBLES | INTEGERS | TEXTS | st.binary() | st.none(), min_size=1))
def test_mixed(values) -> None:
    check(values)


@pytest.mark.parametrize("values", [[None], [None, None], ["", ""], ["", None], [b""], [b"", None, b""]])
def test_only_empty_values(values) -> None:
    check(values)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 99, 100, 101, 10_000])
def test_rows_come_in_order(count) -> None:
    numbers = list(range(count))
    columns = [chunk_of_items(numbers), chunk_of_items([f"row {number}" for number in numbers])]
    assert through_records(columns, 0, count) == [(number, f"row {number}") for number in numbers]


@given(st.lists(st.sampled_from(["", "a", "b" * 50, "é", None]), min_size=1), st.integers(0, 40))
def test_categories(values, unused) -> None:
    known = ["", "a", "b" * 50, "é", *map(str, range(unused))]
    (column,) = from_frame(pd.DataFrame({"x": pd.Categorical(values, categories=known)}))
    assert [value for (value,) in through_records([column.values], 0, len(values))] == values


@pytest.mark.parametrize(
    "categories", [[3, 5], [0.1, 2.5], [b"x", b""], ["a", 1], pd.to_datetime(["2024-01-31 00:00", "2024-02-01 12:30"])]
)
def test_categories_of_every_kind(categories) -> None:
    codes = [0, -1, 1, 1, 0]
    (column,) = from_frame(pd.DataFrame({"x": pd.Categorical.from_codes(codes, categories=categories)}))
    known = [str(category) if isinstance(category, pd.Timestamp) else category for category in [*categories, None]]
    assert through_records([column.values], 0, 5) == [(known[code],) for code in codes]


def test_repeated_categories_end_at_their_own_last_byte() -> None:
    codes = [0, -1, 0, 2, 2, 2]
    (column,) = from_frame(pd.DataFrame({"x": pd.Categorical.from_codes(codes, categories=["a", "é", "bc", "😀"])}))
    for start, stop in [(0, 3), (2, 6), (0, 6), (1, 2)]:
        expected = [{0: "a", -1: None, 2: "bc"}[code] for code in codes[start:stop]]
        assert [value for (value,) in through_records([column.values], start, stop)] == expected


def test_moments_of_every_unit() -> None:
    for text in ("", ".120000", ".120001", ".120001001"):
        when = pd.Series(pd.to_datetime([f"2024-01-31 12:30:01{text}", None, "1900-01-01"], format="ISO8601"))
        frame = pd.DataFrame({"a": when, "z": when.dt.tz_localize("UTC")})
        assert through_records([column.values for column in from_frame(frame)], 0, 3) == [
            (f"2024-01-31 12:30:01{text}", f"2024-01-31 12:30:01{text}+00:00"), (None, None),
            ("1900-01-01 00:00:00", "1900-01-01 00:00:00+00:00"),
        ]  # fmt: skip


def test_texts_of_arrow_are_not_copied() -> None:
    pytest.importorskip("pyarrow")
    texts = pd.Series(["a", None, "é\0😀", "", "b"] * 3, dtype=pd.StringDtype("pyarrow"))
    for part in (texts, texts[4:9], pd.concat([texts, texts], ignore_index=True), texts[:0], texts[::-1]):
        (column,) = from_frame(part.to_frame("x"))
        expected = [None if pd.isna(text) else text for text in part]
        assert column.values.items() == expected
        if expected:
            assert [value for (value,) in through_records([column.values], 0, len(part))] == expected


@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 35), reason="this SQLite has no pow")
def test_an_older_sqlite_reads_the_same() -> None:
    def read(sql: str, args: list) -> list[tuple]:
        connection = sqlite3.connect(":memory:")
        try:
            return connection.execute(sql, {str(number): value for number, value in enumerate(args, 1)}).fetchall()
        finally:
            connection.close()

    columns = [
        chunk_of_items([1 / 3, -5e-324, None]),
        chunk_of_items([-(2**63), None, 7]),
        chunk_of_items(["é\0", None, "x"]),
    ]
    assert through_records(columns, 0, 3, read) == [(1 / 3, -(2**63), "é\0"), (-5e-324, None, None), (None, 7, "x")]
