"""Frames of every kind: which are recognized, and that their types and values stay exact."""

from __future__ import annotations

import datetime
import decimal
import enum
import subprocess
import sys
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pytest

from pipemagic.errors import LoadError, UnsupportedError
from pipemagic.frames.any_frame import as_pandas, conversion, is_frame, kind_of
from pipemagic.frames.from_pandas import from_frame


class Sales(pd.DataFrame):
    """A subclass as geopandas defines it: everything made of it is of this class."""

    @property
    def _constructor(self):
        return Sales


class Stream:
    """A table of another package, of which only the Arrow interface is known."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class Hostile:
    """An object whose attributes, class and truth cannot be read."""

    def __getattribute__(self, name):
        raise RuntimeError(f"{name} was read")

    def __bool__(self):
        raise RuntimeError("truth was read")


class Imitation:
    """An object that has every attribute, as a mock does."""

    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kwargs):
        return self


class DataFrame:
    """A class of the user, which is not a frame."""


class Colour(enum.Enum):
    RED = 1


# -- which values are frames


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (pd.DataFrame(), "a DataFrame"),
        (Sales(), "a DataFrame"),
        (pl.DataFrame(), "a Polars DataFrame"),
        (Stream(None), "a Stream"),
    ],
    ids=["pandas", "subclass", "Polars", "stream"],
)
def test_frames(value, kind):
    assert is_frame(value)
    assert kind_of(value) == kind


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (pd.Series([1]), "a Series"),
        (pd.Index([1]), "an Index"),
        (pl.Series([1]), "a Polars Series"),
        (pl.LazyFrame(), "a Polars LazyFrame"),
        (np.zeros(2), "an ndarray"),
        (Imitation(), "an Imitation"),
        (DataFrame(), "a DataFrame"),
        (pd.DataFrame, "a type"),
        (pd, "a module"),
        (1, "an int"),
        (None, "None"),
        (Colour.RED, "a Colour"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_values(value, kind):
    assert not is_frame(value)
    assert kind_of(value) == kind
    with pytest.raises(LoadError, match=f"x is {kind}, not a DataFrame"):
        as_pandas(value, "x")


def test_no_code_of_a_value_runs():
    value = Hostile()
    assert not is_frame(value)
    assert (kind_of(value), conversion(value, "x")) == ("a Hostile", "")


def test_a_value_is_recognized_without_an_import():
    code = "import sys; from pipemagic.frames.any_frame import is_frame; print(is_frame([1]), 'pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_arrow_tables_are_frames_and_arrays_are_not():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [1]})
    assert all(map(is_frame, (table, table.to_batches()[0], table.to_reader())))
    assert (kind_of(table), kind_of(pa.array([1]))) == ("an Arrow Table", "an Arrow Int64Array")
    assert not any(map(is_frame, (table.column(0), table.column(0).chunk(0), table.schema)))


# -- values that are not frames: the expression that makes one of them


@pytest.mark.parametrize(
    ("value", "expression"),
    [
        (pd.Series([1, 2], name="a"), "x.to_frame()"),
        (pd.Series([1, 2]), "x.to_frame('value')"),
        (pd.Series([1, 2], name=0), "x.to_frame()"),
        (pd.Index([1, 2], name="a"), "x.to_frame(index=False)"),
        (pd.date_range("2026-07-01", periods=2), "x.to_frame(index=False, name='value')"),
        (pd.MultiIndex.from_tuples([(1, 2)]), "x.to_frame(index=False)"),
        (pl.Series("a", [1, 2]), "x.to_frame()"),
        (pl.Series([1, 2]), "x.to_frame('value')"),
        (pl.LazyFrame({"a": [1, 2]}), "x.collect()"),
        ({"a": [1, 2], "b": ["x", "y"]}, "pandas.DataFrame(x)"),
        ({"a": 1, "b": "x"}, "pandas.DataFrame([x])"),
        ({"south": pd.DataFrame({"a": [1]}), "north": pd.DataFrame({"a": [2]})}, "x['south']"),
        ([{"a": 1}, {"a": 2}], "pandas.DataFrame(x)"),
        ([(1, "x"), (2, "y")], "pandas.DataFrame(x)"),
        ([1, 2], "pandas.DataFrame({'value': x})"),
        ((1, 2), "pandas.DataFrame({'value': x})"),
        ({1, 2}, "pandas.DataFrame({'value': list(x)})"),
        (np.arange(3), "pandas.DataFrame({'value': x})"),
        (np.eye(2), "pandas.DataFrame(x)"),
    ],
)
def test_the_expression_for_a_value_makes_a_frame_that_loads(value, expression):
    assert conversion(value, "x") == expression
    made = eval(expression, {"x": value, "pandas": pd})
    assert is_frame(made)
    if not isinstance(made, pl.DataFrame):  # which needs pyarrow
        assert len(from_frame(as_pandas(made)))


@pytest.mark.parametrize("value", [{}, {"a": [1], "b": [1, 2]}, 1, "a", None, np.zeros((2, 2, 2))])
def test_values_without_an_expression(value):
    assert conversion(value, "x") == ""


def test_an_object_with_a_conversion_of_its_own():
    class Remote:
        def to_pandas(self):
            return pd.DataFrame({"a": [1]})

    assert conversion(Remote(), "x") == "x.to_pandas()"


# -- pandas


def test_a_frame_of_pandas_is_not_copied():
    frame = pd.DataFrame({"a": [1]})
    assert as_pandas(frame) is frame
    plain = as_pandas(Sales({"shop": ["north"], "total": [1.5]}))
    assert type(plain) is pd.DataFrame
    assert type(plain["shop"]) is pd.Series
    assert plain.to_dict("list") == {"shop": ["north"], "total": [1.5]}


# -- Arrow: what pyarrow reads


def test_without_pyarrow_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    with pytest.raises(UnsupportedError, match="sales is a Polars DataFrame") as caught:
        as_pandas(pl.DataFrame({"a": [1]}), "sales")
    assert caught.value.hint == "%pip install pyarrow, then run the cell again"


WHEN = datetime.datetime(2026, 7, 1, 10, 30)
ID = uuid.UUID("9c630339-84aa-49e4-8602-800c529cba90")


def arrow_cases():
    """Return Arrow arrays, the type of the column that is made of each, and its values."""
    pa = pytest.importorskip("pyarrow")
    large, words = pa.large_string(), ["a", "b", None, "a"]
    cases = {
        "int64 with null": (pa.array([2**63 - 1, None]), None, [2**63 - 1, None]),
        "uint64": (pa.array([2**64 - 1, None], pa.uint64()), None, [2**64 - 1, None]),
        "decimal": (pa.array([decimal.Decimal("1.10"), None]), None, [decimal.Decimal("1.10"), None]),
        "date": (pa.array([WHEN.date(), None]), None, [WHEN.date(), None]),
        "zone": (pa.array([WHEN], pa.timestamp("ms", "Europe/Paris")), None, None),
        "nanoseconds": (pa.array([1], pa.timestamp("ns")), None, [pd.Timestamp(1)]),
        "time": (pa.array([datetime.time(5, 17)], pa.time64("ns")), None, [datetime.time(5, 17)]),
        "list": (pa.array([[1], None]), None, [[1], None]),
        "null": (pa.nulls(2), None, [None, None]),
        "dictionary": (pa.array(words).dictionary_encode(), pa.string(), words),
        "dictionary of times": (pa.array([WHEN, None]).dictionary_encode(), pa.timestamp("us"), [WHEN, None]),
        "dictionary of views": (
            pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["a", "b"], pa.string_view())),
            large, ["b", None, "a"],
        ),
        "view": (pa.array(["a", None, "é" * 20], pa.string_view()), large, ["a", None, "é" * 20]),
        "view of bytes": (pa.array([b"a", None], pa.binary_view()), pa.large_binary(), [b"a", None]),
        "run ends": (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]), pa.string(), ["a", "a", "b"]),
    }  # fmt: skip
    if hasattr(pa, "uuid"):  # pyarrow 18
        ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([ID.bytes, None], pa.binary(16)))
        flags = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8()))
        cases |= {"UUID": (ids, pa.string(), [str(ID), None]), "bool8": (flags, pa.bool_(), [True, False, None])}
    return pa, cases


def test_columns_keep_the_types_and_values_of_arrow():
    pa, cases = arrow_cases()
    for name, (array, wanted, values) in cases.items():
        for frame in (
            pa.table({"x": pa.chunked_array([array, array[:0]])}),
            pa.RecordBatch.from_arrays([array], ["x"]),
            Stream(pa.table({"x": array})),
            pd.DataFrame({"x": pd.arrays.ArrowExtensionArray(pa.chunked_array([array]))}),
        ):
            made = as_pandas(frame)
            column = pa.array(made["x"].array)
            assert column.type == (wanted or array.type), name
            assert column.to_pylist() == (array.to_pylist() if values is None else values), name


def test_an_empty_dictionary_keeps_the_type_of_its_values():
    pa = pytest.importorskip("pyarrow")
    kind = pa.dictionary(pa.int32(), pa.date32())
    table = pa.table({"x": pa.chunked_array([], type=kind)})
    assert str(as_pandas(table)["x"].dtype) == "date32[day][pyarrow]"


def test_a_frame_with_an_encoded_column_is_not_changed():
    pa = pytest.importorskip("pyarrow")
    array = pa.array(["a", "b"]).dictionary_encode()
    frame = pd.DataFrame({"n": [1, 2], "x": pd.arrays.ArrowExtensionArray(pa.chunked_array([array]))}, index=[5, 7])
    made = as_pandas(frame)
    assert (str(made["x"].dtype), made.index.tolist(), made["n"].tolist()) == ("string[pyarrow]", [5, 7], [1, 2])
    assert "dictionary" in str(frame["x"].dtype)


def test_duplicate_names_reach_the_check_of_the_load():
    pa = pytest.importorskip("pyarrow")
    table = pa.table([[1], [2]], names=["a", "a"])
    assert list(as_pandas(table).columns) == ["a", "a"]
    with pytest.raises(LoadError, match="duplicate column names"):
        from_frame(as_pandas(table))


def test_polars_columns_come_as_their_arrow_types():
    pytest.importorskip("pyarrow")
    frame = pl.DataFrame(
        {
            "n": pl.Series([2**53 + 1, None], dtype=pl.Int64),
            "kind": pl.Series(["x", None], dtype=pl.Categorical),
            "size": pl.Series(["S", "L"], dtype=pl.Enum(["S", "L"])),
            "day": pl.Series([WHEN.date(), None]),
            "at": pl.Series([WHEN, None], dtype=pl.Datetime("ms", "Europe/Paris")),
            "price": pl.Series(["1.10", None]).str.to_decimal(scale=2),
            "data": pl.Series([b"\0\xff", None]),
            "text": pl.Series(["☃", None]),
        }
    )
    made = as_pandas(frame)
    assert [str(dtype).removesuffix("[pyarrow]") for dtype in made.dtypes] == [
        "int64", "large_string", "large_string", "date32[day]", "timestamp[ms, tz=Europe/Paris]", "decimal128(38, 2)",
        "large_binary", "large_string",
    ]  # fmt: skip
    assert made["n"].tolist() == [2**53 + 1, pd.NA]
    assert made["size"].tolist() == ["S", "L"]
    assert made["price"].tolist() == [decimal.Decimal("1.10"), pd.NA]


def test_polars_columns_without_an_arrow_form_are_named_all_at_once():
    pytest.importorskip("pyarrow")
    frame = pl.DataFrame(
        {"a": [1], "id": pl.Series([1], dtype=pl.Int128), "thing": pl.Series([Colour.RED], dtype=pl.Object)}
    )
    with pytest.raises(
        LoadError, match=r"2 columns with a type that Arrow does not support: id \(Int128\), thing"
    ) as caught:
        as_pandas(frame, "sales")
    expression = caught.value.hint.removeprefix("load ")
    assert expression.startswith("sales.with_columns(polars.col('id').cast(polars.Int64), ")
    made = eval(expression.replace(".map_elements(str, return_dtype=polars.String)", ".is_null()"), {
        "sales": frame, "polars": pl})  # fmt: skip
    assert str(as_pandas(made)["id"].dtype) == "int64[pyarrow]"


def test_a_reader_that_was_read_is_not_an_empty_frame():
    pa = pytest.importorskip("pyarrow")
    reader = pa.table({"a": [1, 2]}).to_reader()
    assert as_pandas(reader)["a"].tolist() == [1, 2]
    with pytest.raises(LoadError, match="r has no rows left: a RecordBatchReader can be read only once") as caught:
        as_pandas(reader, "r")
    assert caught.value.hint == "create it again, then load r.read_all()"
    assert len(as_pandas(pa.table({"a": pa.array([], pa.int64())}))) == 0


def test_a_stream_that_is_no_table_or_fails():
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(LoadError, match=r"cannot read x, a Stream: .*non-struct type"):
        as_pandas(Stream(pa.chunked_array([[1]])), "x")

    def batches():
        yield pa.record_batch({"a": [1]})
        raise ValueError("the source is gone")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
    with pytest.raises(LoadError, match=r"cannot read x, a Stream: .*the source is gone"):
        as_pandas(Stream(reader), "x")


def test_a_relation_of_duckdb():
    pytest.importorskip("pyarrow")
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("SELECT 9223372036854775807 AS n, DATE '2026-07-01' AS day, 'a'::ENUM ('a', 'b') AS kind")
    assert is_frame(relation)
    made = as_pandas(relation)
    assert [str(dtype) for dtype in made.dtypes] == ["int64[pyarrow]", "date32[day][pyarrow]", "string[pyarrow]"]
    assert made.iloc[0].tolist() == [2**63 - 1, WHEN.date(), "a"]
    with pytest.raises(LoadError, match="cannot read x, a DuckDBPyRelation: Conversion Error"):
        as_pandas(duckdb.sql("SELECT CAST('x' || i AS INTEGER) AS n FROM range(3) t(i)"), "x")
