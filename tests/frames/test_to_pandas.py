from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.errors import ProtocolError
from pipemagic.frames import to_frame
from pipemagic.hrana.messages import Col, StmtResult
from pipemagic.hrana.values import NULL, Blob, Float, Integer, Text, decode, encode

TEXT_TYPE = "str" if pd.__version__ >= "3" else "object"


def column(values, decltype=None, name="x") -> pd.Series:
    frame = to_frame(result(values, decltype, name))
    return frame[name]


def result(values, decltype=None, name="x") -> StmtResult:
    return StmtResult(cols=[Col(name, decltype)], rows=[[encode(value)] for value in values])


@pytest.mark.parametrize(
    ("values", "decltype", "dtype"),
    [
        ([1, 2], None, "int64"),
        ([2**63 - 1, -(2**63)], "INTEGER", "int64"),
        ([2**53 + 1, None, -(2**63)], "INTEGER", "Int64"),
        ([1.5, 2.0], None, "float64"),
        ([1.5, None], "REAL", "float64"),
        (["a", "é"], "TEXT", TEXT_TYPE),
        (["a", None], None, TEXT_TYPE),
        ([b"\0\xff", b""], "BLOB", "object"),
        ([b"\0", None], None, "object"),
        ([0, 1], "BOOLEAN", "boolean"),
        ([0, None, 1], "bool", "boolean"),
        ([0, 2], "BOOLEAN", "int64"),
        (["true"], "BOOLEAN", TEXT_TYPE),
        (["2024-01-31"], "DATE", "datetime64[us]"),
        (["2024-01-31 12:30:00", None], "DATETIME", "datetime64[us]"),
        (["2024-01-31T12:30", "2024-01-31 12:30:00.123456"], "timestamp(6)", "datetime64[us]"),
        (["2024-01-31 12:30:00+02:00", "2024-01-31T12:30:00Z"], "TIMESTAMP", "datetime64[us, UTC]"),
        (["2024-01-31 12:30:00Z", "2024-01-31 12:30:00"], "TIMESTAMP", TEXT_TYPE),
        (["2024-02-30"], "DATE", TEXT_TYPE),
        (["2024-01-31 12:30:00.1234567"], "DATETIME", "datetime64[ns]"),
        (["2024-01-31", "2024-01-31 12:30:00.123456789", None], "DATETIME", "datetime64[ns]"),
        (["2024-01-31 12:30:00.123456789+02:00"], "TIMESTAMP", "datetime64[ns, UTC]"),
        (["2024-01-31 12:30:00.1234567890"], "DATETIME", TEXT_TYPE),
        (["2024-01-31 12:30:00.123456789", "2262-04-12"], "DATETIME", TEXT_TYPE),
        (["2024-01-31 24:00:00"], "DATETIME", TEXT_TYPE),
        (["now", "2024-01-31"], "DATE", TEXT_TYPE),
        (["2016-12-31 23:59:60"], "DATETIME", TEXT_TYPE),
        (["2024", "2024-01"], "DATE", TEXT_TYPE),
        (["2024-01-31", "2024-01-31\n"], "DATE", TEXT_TYPE),
        (["0000-01-01"], "DATE", TEXT_TYPE),
        (["2024-01-31"], "TEXT", TEXT_TYPE),
        ([1706659200], "DATETIME", "int64"),
        ([1, 2.5], "DECIMAL(10,2)", "float64"),
        ([1, 2.5, None], "NUMERIC", "float64"),
        ([0, 2.5], None, "float64"),
        ([0, 2.5, None], "INTEGER", "float64"),
        ([1, 0.5], "BOOLEAN", "float64"),
        ([2**60, 2.5], None, "float64"),
        ([2**53 + 1, 2.5], "NUMERIC", "object"),
        ([1, "a"], None, "object"),
        ([], "INTEGER", "int64"),
        ([], "BIGINT", "int64"),
        ([], "VARCHAR(10)", TEXT_TYPE),
        ([], "DOUBLE", "float64"),
        ([], "BOOLEAN", "boolean"),
        ([], "DATE", "datetime64[us]"),
        ([], "BLOB", "object"),
        ([], None, "object"),
        ([None, None], "INTEGER", "Int64"),
        ([None], "REAL", "float64"),
        ([None], "TEXT", TEXT_TYPE),
        ([None], "BOOLEAN", "boolean"),
        ([None], "TIMESTAMP", "datetime64[us]"),
        ([None], "DECIMAL", "float64"),
        ([None], None, "object"),
    ],
)
def test_the_type_of_a_column(values, decltype, dtype) -> None:
    series = column(values, decltype)
    assert str(series.dtype) == dtype
    assert len(series) == len(values)
    assert [bool(missing) for missing in series.isna()] == [value is None for value in values]


def test_integers_beside_null_are_exact() -> None:
    series = column([2**53 + 1, None, -(2**63), 2**63 - 1], "INTEGER")
    assert series.tolist() == [2**53 + 1, pd.NA, -(2**63), 2**63 - 1]


def test_dates_keep_their_instant() -> None:
    naive = column(["2024-01-31 12:30:00.000001", None], "DATETIME")
    assert naive[0] == pd.Timestamp("2024-01-31 12:30:00.000001")
    aware = column(["2024-01-31 12:30:00+02:00", None, "2024-01-31 12:30:00-0130"], "TIMESTAMP")
    assert aware[0] == pd.Timestamp("2024-01-31 10:30:00", tz="UTC")
    assert aware[2] == pd.Timestamp("2024-01-31 14:00:00", tz="UTC")
    assert column(["0001-01-01", "9999-12-31"], "DATE").dt.year.tolist() == [1, 9999]


def test_mixed_types_stay_objects_and_are_noted_once() -> None:
    notes: list[str] = []
    frame = to_frame(result([1, "a", b"b", None, 2.5, 2]), note=notes.append)
    assert frame["x"].tolist() == [1, "a", b"b", None, 2.5, 2]
    assert [type(value) for value in frame["x"]][-1] is int
    assert notes == [
        "Column x has INTEGER, REAL, TEXT and BLOB values, so its dtype is object. Use CAST(x AS ...) to get one type."
    ]


def test_an_infinity_without_a_sign_is_nan_and_noted() -> None:
    notes: list[str] = []
    frame = to_frame(StmtResult(cols=[Col("x")], rows=[[Float(None)], [Float(1.5)]]), note=notes.append)
    assert math.isnan(frame["x"][0])
    assert notes == [
        "Column x has infinities, which are NaN here because the server does not send their sign. "
        "Use sign(x) to get it."
    ]


def test_infinities_with_a_sign_are_infinite() -> None:
    notes: list[str] = []
    values = [math.inf, None, -math.inf, 1.5]
    frame = to_frame(result(values), note=notes.append)
    assert frame["x"].dtype == "float64"
    assert frame["x"].tolist()[::2] == [math.inf, -math.inf]
    assert to_frame(result([1, *values]), note=notes.append)["x"].tolist()[1::2] == [math.inf, -math.inf]
    assert notes == []


def test_an_infinity_without_a_sign_beside_integers_is_noted() -> None:
    notes: list[str] = []
    frame = to_frame(StmtResult(cols=[Col("x")], rows=[[Float(None)], [Integer("1")]]), note=notes.append)
    assert frame["x"].dtype == "float64"
    assert notes == [
        "Column x has infinities, which are NaN here because the server does not send their sign. "
        "Use sign(x) to get it."
    ]


def test_names_are_kept_as_they_are() -> None:
    cols = [Col("a"), Col("a"), Col(""), Col(None), Col("0")]
    frame = to_frame(StmtResult(cols=cols, rows=[[encode(number) for number in range(5)]]))
    assert list(frame.columns) == ["a", "a", "", "", "0"]
    assert frame.iloc[0].tolist() == [0, 1, 2, 3, 4]


def test_two_frames_share_no_name_of_their_columns() -> None:
    first, second = to_frame(result([1])), to_frame(result([2]))
    first.columns.name = "mine"
    assert second.columns.name is None
    assert to_frame(result([3])).columns.name is None


def test_empty_results() -> None:
    assert to_frame(StmtResult()).shape == (0, 0)
    assert to_frame(StmtResult(cols=[Col("a"), Col("b", "INTEGER")])).shape == (0, 2)


@pytest.mark.parametrize("row", [[], [NULL, NULL]])
def test_rows_of_another_width_are_refused(row) -> None:
    with pytest.raises(ProtocolError, match="wrong number of values"):
        to_frame(StmtResult(cols=[Col("a")], rows=[[NULL], row]))


@pytest.mark.parametrize("value", [Integer("x"), Integer("9223372036854775808"), Integer("1.5"), Blob("?")])
def test_invalid_values_are_refused(value) -> None:
    with pytest.raises(ProtocolError):
        to_frame(StmtResult(cols=[Col("a")], rows=[[value]]))


SCALARS = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
)
COLUMNS = st.one_of(
    st.lists(kind | st.none(), max_size=6)
    for kind in (
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"])),
        st.binary(),
        SCALARS.filter(lambda value: not isinstance(value, float) or math.isfinite(value)),
    )
)
DECLARED = st.sampled_from([None, "INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC", "BOOLEAN", "DATE", "DATETIME", "x"])


@given(values=COLUMNS, decltype=DECLARED)
def test_no_value_is_ever_changed(values, decltype) -> None:
    series = column(values, decltype)
    for value, got in zip(values, series.tolist(), strict=True):
        if value is None:
            assert pd.isna(got)
        elif isinstance(got, float):
            assert got == value
            assert math.copysign(1, got) == math.copysign(1, value)
        else:
            assert got == value
            assert type(got) is type(value) or isinstance(got, bool | pd.Timestamp)


@given(st.datetimes(min_value=pd.Timestamp("0001-01-02"), max_value=pd.Timestamp("9999-12-30")), st.booleans())
def test_every_date_and_time_that_python_writes_is_read(moment, seconds) -> None:
    text = moment.isoformat(sep=" ", timespec="auto" if seconds else "microseconds")
    series = column([text, None], "DATETIME")
    assert str(series.dtype) == "datetime64[us]"
    assert series[0].to_pydatetime() == moment


def test_large_columns_are_owned_arrays() -> None:
    frame = to_frame(result(list(range(1000)), "INTEGER"))
    frame.loc[0, "x"] = 7
    assert frame["x"].sum() == sum(range(1000)) + 7
    assert isinstance(frame.index, pd.RangeIndex)
    assert frame["x"].to_numpy().dtype == np.int64


def test_decode_is_the_inverse_of_encode_here_too() -> None:
    assert decode(Text("a\0b")) == "a\0b"


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")
def test_null_is_no_text_where_pandas_does_not_infer_its_type_for_text() -> None:
    result = StmtResult([Col("a", "TEXT")], [[Text("a")], [NULL], [Text("None")]])
    usual = to_frame(result)["a"]
    with pd.option_context("future.infer_string", False):
        texts = to_frame(result)["a"]
        assert texts.dtype == usual.dtype
        assert texts.isna().tolist() == [False, True, False]
