"""Frames of pandas, Polars and Arrow come back from a table with equal values and the promised dtypes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipemagic.errors import LoadError

pa = pytest.importorskip("pyarrow")  # `.ci/run` runs the tests of the client without it, too

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
floats = st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: number != 0 or str(number) == "0.0")
dates = st.dates()
datetimes = st.datetimes()
in_ns = st.integers(-(2**62), 2**62)  # nanoseconds since 1970, in the years 1823 to 2116
decimals = st.decimals(-(10**9), 10**9, places=4, allow_nan=False)
paris = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(9990, 1, 1)).map(lambda naive: naive.replace(tzinfo=dt.UTC))


@dataclass(frozen=True)
class Kind:
    """A dtype: its values, the array of some of them, and what comes back: the dtype, and each value."""

    values: st.SearchStrategy[Any]
    make: Callable[[list[Any]], Any]
    dtype: str  # with NULL after a slash, if it is another; {} is us, or ns if a value needs it
    value: Callable[[Any], Any] = lambda value: value

    def promised(self, values: Sequence[Any]) -> str:
        if "{}" in self.dtype:
            return self.dtype.format(unit_of(values))
        with_values, _, with_nulls = self.dtype.partition("/")
        dtype = with_nulls if with_nulls and None in values else with_values
        return "object" if dtype == "str" and int(pd.__version__.partition(".")[0]) < 3 else dtype


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


def series(dtype: Any) -> Callable[[list[Any]], Any]:
    return lambda values: pd.Series(values, dtype=dtype)


def arrow(kind: pa.DataType) -> Callable[[list[Any]], Any]:
    return partial(pa.array, type=kind)


def timestamps(values: list[int | None]) -> Any:
    return pa.array(values, pa.int64()).cast(pa.timestamp("ns"))


def in_tokyo(values: list[int | None]) -> pd.Series:
    return timestamps(values).to_pandas().dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")


def unit_of(values: Sequence[int | None]) -> str:
    """Return the promised unit of moments that are given in nanoseconds."""
    return "ns" if any(value is not None and value % 1000 for value in values) else "us"


def from_ns(value: int) -> pd.Timestamp:
    return pd.Timestamp(value)


def from_ns_utc(value: int) -> pd.Timestamp:
    return pd.Timestamp(value, tz="UTC")


MOMENTS = (pd.Timestamp, from_ns, from_ns_utc)
to_ms = datetimes.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))
to_s = datetimes.map(lambda moment: moment.replace(microsecond=0))

INT64 = integers(-(2**63), 2**63 - 1)
PANDAS = {
    "int64": Kind(INT64, series("Int64"), "int64/Int64"),
    "uint8": Kind(integers(0, 255), series("UInt8"), "int64/Int64"),
    "uint64": Kind(integers(0, 2**63 - 1), series("UInt64"), "int64/Int64"),
    "float64": Kind(floats, series("float64"), "float64"),
    "float32": Kind(st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0),
                    series("Float32"), "float64"),
    "boolean": Kind(st.booleans(), series("boolean"), "boolean"),
    "string": Kind(texts, series("string"), "str"),
    "object of str": Kind(texts, series(object), "str"),
    "category": Kind(texts, series("category"), "str"),
    "object of bytes": Kind(st.binary(max_size=5), series(object), "object"),
    "object of date": Kind(dates, series(object), "datetime64[us]", pd.Timestamp),
    "object of datetime": Kind(datetimes, series(object), "datetime64[us]", pd.Timestamp),
    "object of Decimal": Kind(decimals, series(object), "float64", float),
    "object of time": Kind(st.times(), series(object), "str", dt.time.isoformat),
    "object of UUID": Kind(st.uuids(), series(object), "str", str),
    "datetime64[s]": Kind(datetimes.map(lambda moment: moment.replace(microsecond=0)), series("datetime64[s]"),
                          "datetime64[us]", pd.Timestamp),
    "datetime64[us]": Kind(datetimes, series("datetime64[us]"), "datetime64[us]", pd.Timestamp),
    "datetime64[us, zone]": Kind(paris, lambda values: pd.Series(values, dtype="datetime64[us, UTC]").dt.tz_convert(
        "Europe/Paris"), "datetime64[us, UTC]", pd.Timestamp),
    "datetime64[ms]": Kind(to_ms, series("datetime64[ms]"), "datetime64[us]", pd.Timestamp),
    "datetime64[ns]": Kind(in_ns, lambda values: timestamps(values).to_pandas(), "datetime64[{}]", from_ns),
    "datetime64[ns, zone]": Kind(in_ns, in_tokyo, "datetime64[{}, UTC]", from_ns_utc),
    "object with a zone": Kind(paris, series(object), "datetime64[us, UTC]", pd.Timestamp),
    "category of dates": Kind(dates, lambda values: pd.Series(np.array(values, "M8[us]")).astype("category"),
                              "datetime64[us]", pd.Timestamp),
}  # fmt: skip
POLARS = {
    "Int64": Kind(INT64, partial(pl.Series, dtype=pl.Int64), "int64/Int64"),
    "UInt32": Kind(integers(0, 2**32 - 1), partial(pl.Series, dtype=pl.UInt32), "int64/Int64"),
    "Float64": Kind(floats, partial(pl.Series, dtype=pl.Float64), "float64"),
    "Boolean": Kind(st.booleans(), partial(pl.Series, dtype=pl.Boolean), "boolean"),
    "String": Kind(texts, partial(pl.Series, dtype=pl.String), "str"),
    "Categorical": Kind(texts, partial(pl.Series, dtype=pl.Categorical), "str"),
    "Binary": Kind(st.binary(max_size=5), partial(pl.Series, dtype=pl.Binary), "object"),
    "Date": Kind(dates, partial(pl.Series, dtype=pl.Date), "datetime64[us]", pd.Timestamp),
    "Datetime": Kind(datetimes, partial(pl.Series, dtype=pl.Datetime("us")), "datetime64[us]", pd.Timestamp),
    "Datetime with a zone": Kind(paris, partial(pl.Series, dtype=pl.Datetime("us", "Europe/Paris")),
                                 "datetime64[us, UTC]", pd.Timestamp),
    "Datetime of ms": Kind(to_ms, partial(pl.Series, dtype=pl.Datetime("ms")), "datetime64[us]", pd.Timestamp),
    "Datetime of ns": Kind(in_ns, lambda values: pl.Series(values, dtype=pl.Int64).cast(pl.Datetime("ns")),
                           "datetime64[{}]", from_ns),
    "Time": Kind(st.times(), partial(pl.Series, dtype=pl.Time), "str", dt.time.isoformat),
    "Decimal": Kind(decimals, partial(pl.Series, dtype=pl.Decimal(14, 4)), "float64", float),
}  # fmt: skip
ARROW = {
    "int8": Kind(integers(-128, 127), arrow(pa.int8()), "int64/Int64"),
    "int64": Kind(INT64, arrow(pa.int64()), "int64/Int64"),
    "uint64": Kind(integers(0, 2**63 - 1), arrow(pa.uint64()), "int64/Int64"),
    "double": Kind(floats, arrow(pa.float64()), "float64"),
    "bool": Kind(st.booleans(), arrow(pa.bool_()), "boolean"),
    "string": Kind(texts, arrow(pa.string()), "str"),
    "large_string": Kind(texts, arrow(pa.large_string()), "str"),
    "string_view": Kind(texts, arrow(pa.string_view()), "str"),
    "dictionary": Kind(texts, arrow(pa.dictionary(pa.int32(), pa.string())), "str"),
    "binary": Kind(st.binary(max_size=5), arrow(pa.binary()), "object"),
    "date32": Kind(dates, arrow(pa.date32()), "datetime64[us]", pd.Timestamp),
    "date64": Kind(dates, arrow(pa.date64()), "datetime64[us]", pd.Timestamp),
    "timestamp[us]": Kind(datetimes, arrow(pa.timestamp("us")), "datetime64[us]", pd.Timestamp),
    "timestamp[us, zone]": Kind(paris, arrow(pa.timestamp("us", "Europe/Paris")), "datetime64[us, UTC]", pd.Timestamp),
    "timestamp[s]": Kind(to_s, arrow(pa.timestamp("s")), "datetime64[us]", pd.Timestamp),
    "timestamp[ms]": Kind(to_ms, arrow(pa.timestamp("ms")), "datetime64[us]", pd.Timestamp),
    "timestamp[ns]": Kind(in_ns, timestamps, "datetime64[{}]", from_ns),
    "timestamp[ns, zone]": Kind(in_ns, lambda values: timestamps(values).cast(pa.timestamp("ns", "Asia/Tokyo")),
                                "datetime64[{}, UTC]", from_ns_utc),
    "time64": Kind(st.times(), arrow(pa.time64("us")), "str", dt.time.isoformat),
    "decimal128": Kind(decimals, arrow(pa.decimal128(14, 4)), "float64", float),
    "decimal128 of integers": Kind(INT64, arrow(pa.decimal128(38, 0)), "int64/Int64"),
}  # fmt: skip
MAKERS = {
    "pandas": (PANDAS, pd.DataFrame),
    "polars": (POLARS, lambda columns: pl.DataFrame({name: column.alias(name) for name, column in columns.items()})),
    "arrow": (ARROW, pa.table),
}


def plain(column: pd.Series) -> list[Any]:
    """Return the values as Python objects, None for NULL."""
    return column.astype(object).where(column.notna(), None).tolist()


def check(frame: pd.DataFrame, kinds: dict[str, Kind], values: dict[str, list[Any]], times: int = 1) -> None:
    """Assert that a frame read from a table has the values, ``times`` times, with the promised dtypes."""
    for name, kind in kinds.items():
        expected = [None if value is None else kind.value(value) for value in values[name]] * times
        assert plain(frame[name]) == expected, name
        if any(value is not None for value in values[name]):
            assert str(frame[name].dtype) == kind.promised(values[name]), name


@pytest.mark.parametrize("library", MAKERS)
def test_a_frame_comes_back_with_its_values_and_types(embedded, library) -> None:
    kinds, make = MAKERS[library]

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=20)
    @given(st.data())
    def come_back(data) -> None:
        size = data.draw(st.integers(1, 4))
        values = {
            name: data.draw(st.lists(st.none() | kind.values, min_size=size, max_size=size), label=name)
            for name, kind in kinds.items()
        }
        embedded.load(make({name: kind.make(values[name]) for name, kind in kinds.items()}), "t", if_exists="replace")
        back = embedded.query("SELECT * FROM t")
        check(back, kinds, values)
        find_rows(embedded, kinds, values)
        embedded.load(make({name: kind.make(values[name]) for name, kind in kinds.items()}), "t", if_exists="append")
        check(embedded.query("SELECT * FROM t"), kinds, values, times=2)
        embedded.load(back, "again", if_exists="replace")  # what SELECT returned
        check(embedded.query("SELECT * FROM again"), kinds, values)
        embedded.copy("t", embedded, "copied", if_exists="replace")
        check(embedded.query("SELECT * FROM copied"), kinds, values, times=2)

    come_back()


def find_rows(database, kinds: dict[str, Kind], values: dict[str, list[Any]]) -> None:
    """Assert that each value, as a parameter, finds the rows with it; a midnight of a DATE column as a date."""
    declared = dict(database.execute("SELECT name, type FROM pragma_table_info('t')").rows)
    for name, kind in kinds.items():
        for value in values[name]:
            if value is None:
                continue
            wanted = kind.value(value) if kind.value in MOMENTS else value
            wanted = wanted.date() if declared[name] == "DATE" else wanted
            found = database.execute(f'SELECT count(*) FROM t WHERE "{name}" = ?', [wanted]).rows
            assert found == [(values[name].count(value),)], name


@given(st.lists(st.none() | in_ns, min_size=1, max_size=4).filter(any))
def test_nanoseconds_come_back(values) -> None:
    """Read and written without a server: the text is exact, and the dtype has nanoseconds only if it needs them."""
    from pipemagic.frames.columns import chunk_of_items
    from pipemagic.frames.from_pandas import from_frame
    from pipemagic.frames.to_pandas import to_frame
    from pipemagic.hrana.messages import Col, StmtResult
    from pipemagic.hrana.values import encode

    when = timestamps(values).to_pandas()
    for column in (when, when.dt.tz_localize("UTC")):
        (written,) = from_frame(column.to_frame("at"))
        items = written.values.items()
        assert chunk_of_items(items).items() == items
        back = to_frame(StmtResult([Col("at", written.declared)], [[encode(item)] for item in items]))["at"]
        unit = "us" if written.declared == "DATE" else unit_of(values)
        assert str(back.dtype) == f"datetime64[{unit}{', UTC' if column.dt.tz else ''}]"
        assert plain(back.astype(column.dtype)) == plain(column)


@pytest.mark.parametrize(
    "values",
    [pd.Series([np.datetime64("3000-01-01T00:00:00.000001"), None]), pd.Series([pd.Timestamp("1677-09-22")])],
)
def test_far_years_come_back(embedded, values) -> None:
    embedded.load(values.to_frame("at"), "t")
    assert plain(embedded.query("SELECT * FROM t")["at"]) == plain(values)


LARGE = [2**63]


@pytest.mark.parametrize(
    "frame",
    [pd.DataFrame({"n": np.array(LARGE, np.uint64)}), pl.DataFrame({"n": pl.Series(LARGE, dtype=pl.UInt64)}),
     pa.table({"n": pa.array(LARGE, pa.uint64())})],
    ids=MAKERS,
)  # fmt: skip
def test_values_without_an_exact_form_are_refused(embedded, frame) -> None:
    with pytest.raises(LoadError, match="column n: the integer 9223372036854775808 does not fit in 64 bits"):
        embedded.load(frame, "t")
