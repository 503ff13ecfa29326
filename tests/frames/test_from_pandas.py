from __future__ import annotations

import datetime
import decimal
import enum
import math
import tracemalloc
import uuid

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.errors import LoadError
from pipemagic.frames.encoder import as_decimal
from pipemagic.frames.from_pandas import from_frame

UTC = datetime.UTC
NOON = datetime.datetime(2024, 1, 31, 12)


def only(values, **options):
    """Plan one column; gives its declared type and all values."""
    series = values if isinstance(values, pd.Series) else pd.Series(values, **options)
    (column,) = from_frame(series.to_frame("x"))
    return column.declared, list(column.values.each())


@pytest.mark.parametrize(
    ("values", "declared", "cells"),
    [
        (pd.Series([1, -(2**63)]), "INTEGER", [1, -(2**63)]),
        (pd.Series([1, 2], dtype="uint8"), "INTEGER", [1, 2]),
        (pd.Series([2**63 - 1], dtype="uint64"), "INTEGER", [2**63 - 1]),
        (pd.Series([2**53 + 1, None], dtype="Int64"), "INTEGER", [2**53 + 1, None]),
        (pd.Series([2**63 - 1, None], dtype="UInt64"), "INTEGER", [2**63 - 1, None]),
        (pd.Series([True, False]), "BOOLEAN", [1, 0]),
        (pd.Series([True, None], dtype="boolean"), "BOOLEAN", [1, None]),
        (pd.Series([1.0, math.nan, 517.0]), "REAL", [1.0, None, 517.0]),
        (pd.Series([0.25, 12.34]), "REAL", [0.25, 12.34]),
        (pd.Series([1.5, None], dtype="Float64"), "REAL", [1.5, None]),
        (pd.Series([0.5], dtype="float32"), "REAL", [0.5]),
        (pd.Series([1 / 3, None, math.inf, -math.inf]), "REAL", [1 / 3, None, math.inf, -math.inf]),
        (pd.Series([-0.0]), "", [-0.0]),
        (pd.Series(["a", None, "é\0😀"]), "TEXT", ["a", None, "é\0😀"]),
        (pd.Series(["a", None], dtype="string"), "TEXT", ["a", None]),
        (pd.Series(["a", None, math.nan], dtype=object), "TEXT", ["a", None, None]),
        (pd.Series([b"\0\xff", bytearray(b""), None]), "BLOB", [b"\0\xff", b"", None]),
        (pd.Series([NOON, None]), "DATETIME", ["2024-01-31 12:00:00", None]),
        (pd.Series([pd.Timestamp("2024-01-31 12:00:00.5"), pd.Timestamp("1900-01-01")]), "DATETIME",
         ["2024-01-31 12:00:00.500000", "1900-01-01 00:00:00"]),
        (pd.Series(pd.to_datetime(["2024-01-31 12:00:00.123456789"])), "DATETIME", ["2024-01-31 12:00:00.123456789"]),
        (pd.Series([pd.Timestamp("2024-01-31 12:00", tz="Europe/Berlin"), pd.NaT]), "TIMESTAMP",
         ["2024-01-31 11:00:00+00:00", None]),
        (pd.Series([NOON, None], dtype=object), "DATETIME", ["2024-01-31 12:00:00", None]),
        (pd.Series([NOON.replace(tzinfo=UTC)], dtype=object), "TIMESTAMP", ["2024-01-31 12:00:00+00:00"]),
        (pd.Series([datetime.date(2024, 1, 31), None]), "DATE", ["2024-01-31", None]),
        (pd.Series([datetime.time(12, 30)]), "TEXT", ["12:30:00"]),
        (pd.Series([decimal.Decimal("1.10"), None]), "REAL", [1.1, None]),
        (pd.Series([uuid.UUID(int=7)]), "TEXT", ["00000000-0000-0000-0000-000000000007"]),
        (pd.Series(["a", None, "b", "a"], dtype="category"), "TEXT", ["a", None, "b", "a"]),
        (pd.Series([3, 5, 3], dtype="category"), "INTEGER", [3, 5, 3]),
        (pd.Series(pd.Categorical([NOON])), "DATETIME", ["2024-01-31 12:00:00"]),
        (pd.Series([2**53 + 1, None], dtype=object), "INTEGER", [2**53 + 1, None]),
        (pd.Series([1.5, None], dtype=object), "REAL", [1.5, None]),
        (pd.Series([True, None], dtype=object), "BOOLEAN", [1, None]),
        (pd.Series([1, 2.5, "a", b"b", None, True], dtype=object), "",
         [1, 2.5, "a", b"b", None, 1]),
        (pd.Series([None, None], dtype=object), "", [None, None]),
        (pd.Series([], dtype=object), "", []),
        (pd.Series([None], dtype="string"), "TEXT", [None]),
        (pd.Series([], dtype="int64"), "INTEGER", []),
        (pd.Series([math.nan]), "REAL", [None]),
        (pd.Series(pd.arrays.SparseArray([0, 0, 5])), "INTEGER", [0, 0, 5]),
        (pd.Series([np.int8(1), np.int64(2)], dtype=object), "INTEGER", [1, 2]),
    ],
)  # fmt: skip
def test_columns(values, declared, cells) -> None:
    assert only(values) == (declared, cells)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pd.Series([2**63], dtype="uint64"), "the integer 9223372036854775808 does not fit in 64 bits"),
        (pd.Series([1, 2**64], dtype=object), "row 2: the integer 18446744073709551616 does not fit in 64 bits"),
        (pd.Series(["ok", "a\ud800"], dtype=object), "row 2: text with '\\\\ud800' is not valid Unicode"),
        (pd.Series([pd.Timedelta("1s")]), "no timedelta type"),
        (pd.Series([datetime.timedelta(1), "a"], dtype=object), "row 1: SQLite has no timedelta type"),
        (pd.Series(pd.period_range("2024", periods=1, freq="M")), "no period"),
        (pd.Series(pd.interval_range(0, 1)), "no interval"),
        (pd.Series([1j]), "no complex type"),
        (pd.Series([[1]]), "row 1: cannot convert a value of type list to SQL"),
        (pd.Series(["a", {}]), "row 2: cannot convert a value of type dict to SQL"),
        (pd.Series([NOON, NOON.replace(tzinfo=UTC)], dtype=object), "it has times with a time zone"),
        (pd.Series([np.datetime64("-0001-01-01", "s")]), "outside the years 1 to 9999"),
        (pd.Series([np.datetime64("10000-01-01", "s")]), "outside the years 1 to 9999"),
    ],
)
def test_columns_without_an_exact_form(values, message) -> None:
    with pytest.raises(LoadError, match=f"column x: .*{message}"):
        only(values)


@pytest.mark.parametrize(
    ("kind", "values", "declared", "cells"),
    [
        ("int64", [2**53 + 1, None], "INTEGER", [2**53 + 1, None]),
        ("float64", [1.5, None], "REAL", [1.5, None]),
        ("string", ["a", None], "TEXT", ["a", None]),
        ("bool_", [True, None], "BOOLEAN", [1, None]),
        ("date32", [datetime.date(2024, 1, 31), None], "DATE", ["2024-01-31", None]),
        ("binary", [b"x", None], "BLOB", [b"x", None]),
    ],
)
def test_arrow_columns(kind, values, declared, cells) -> None:
    arrow = pytest.importorskip("pyarrow")  # `.ci/run` runs these tests with it and without
    assert only(pd.Series(values, dtype=pd.ArrowDtype(getattr(arrow, kind)()))) == (declared, cells)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="a long double is a double here")
def test_long_doubles() -> None:
    assert only(pd.Series(np.array(["0.5"], dtype=np.longdouble))) == ("REAL", [0.5])
    with pytest.raises(LoadError, match="a long double does not fit"):
        only(pd.Series(np.array(["0.1"], dtype=np.longdouble)))


def test_parts_of_a_column() -> None:
    frame = pd.DataFrame({"a": [1.5, None, 2.5], "b": pd.Categorical(["x", None, "y"]), "c": ["p", None, "q"]})
    frame["d"] = pd.to_datetime(["2024-01-01", None, "2024-01-03"])
    assert [column.values.cut(1, 3).items() for column in from_frame(frame)] == [
        [None, 2.5], [None, "y"], [None, "q"], [None, "2024-01-03"],
    ]  # fmt: skip


def test_an_odd_index_of_the_frame_does_not_matter() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [None, "x"]}, index=[7, 7])
    assert [list(column.values.each()) for column in from_frame(frame)] == [[1, 2], [None, "x"]]


def test_a_named_index_is_written_first() -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="key"))
    assert [(column.name, list(column.values.each())) for column in from_frame(frame)] == [
        ("key", ["x", "y"]),
        ("a", [1, 2]),
    ]
    grouped = pd.DataFrame({"g": [1, 1], "h": ["x", "y"], "a": [1, 2]}).groupby(["g", "h"]).sum()
    assert [column.name for column in from_frame(grouped)] == ["g", "h", "a"]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame(), "no columns"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "duplicate column names"),
        (pd.DataFrame([[1, 2]], columns=["a", "A"]), "duplicate column names.*: A, a"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "duplicate column names"),
        (pd.DataFrame({"a": [1]}, index=pd.Index([5], name="A")), "duplicate column names"),
        (pd.DataFrame({"": [1]}), "the name of column 1 is not valid in SQL"),
        (pd.DataFrame({"a\0": [1]}), "the name of column 1 is not valid in SQL"),
        (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])), "columns of the frame are a MultiIndex"),
        (
            pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([(1, 2)], names=["k", None])),
            "a level of the index has no name",
        ),
        (pd.Series([1]), "a Series is not a DataFrame"),
        ([1], "a list is not a DataFrame"),
    ],
)
def test_frames_that_are_no_table(frame, message) -> None:
    with pytest.raises(LoadError, match=message):
        from_frame(frame)


def test_names_that_differ() -> None:
    frame = pd.DataFrame([[1, 2, 3, 4]], columns=["é", "É", 5, 'a"b'])
    assert [column.name for column in from_frame(frame)] == ["é", "É", "5", 'a"b']


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_nineteen_digits_lie_within_a_hundredth_of_the_place(number) -> None:
    text = as_decimal(number)
    assert float(text) == number
    off = abs(decimal.Decimal(text) - decimal.Decimal(number))
    assert off <= decimal.Decimal(math.ulp(number)) / 100 or abs(number) == 1.7976931348623157e308


class Share(enum.Enum):
    HALF = 0.5


def test_members_of_an_enum_count_as_their_values():
    assert only([Share.HALF, Share.HALF], dtype=object) == ("REAL", [0.5, 0.5])


def test_texts_of_categories_take_no_more_memory_than_their_bytes():
    categories = [f"{number:03}{'x' * 100}" for number in range(50)]
    column = pd.Categorical.from_codes([number % 50 for number in range(100_000)], categories)
    frame = pd.DataFrame({"a": column})
    tracemalloc.start()
    try:
        (planned,) = from_frame(frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = 103 * 100_000
    assert peak < 3 * size, f"{peak / size:.1f} times the texts"
    assert list(planned.values.cut(49, 51).items()) == [categories[49], categories[0]]
