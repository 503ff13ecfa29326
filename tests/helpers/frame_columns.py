"""A column of each type of pandas, Polars and Arrow, without NULL and with it."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

DAYS = [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
MOMENTS = [dt.datetime(2024, 2, 29, 8, 30), dt.datetime(1969, 12, 31, 23, 59, 59, 1), dt.datetime(2200, 1, 1)]
MIDNIGHTS = [dt.datetime(2024, 2, 29), dt.datetime(1969, 12, 31), dt.datetime(2200, 1, 1)]
ZONED = [moment.replace(tzinfo=dt.UTC) for moment in MOMENTS]
TIMES = [dt.time(8, 30), dt.time(0, 0), dt.time(23, 59, 59, 999999)]
INTS, SMALL = [3, -(2**63), 2**63 - 1], [3, 0, 127]
FLOATS, ROUND, ZEROS = [0.1, 1 / 3, 1.7976931348623157e308], [0.5, -2.25, 1e6], [0.0, -0.0, 1.5]
TEXTS, DIGITS = ["Łódź", "", "it's"], ["3", " 3", "3.0"]
FLAGS = [True, False, True]
BYTES = ["\0é".encode(), b"", b"abc"]
DECIMALS = [Decimal("1.25"), Decimal("-0.50"), Decimal("1234.75")]
UUIDS = [uuid.UUID(int=number) for number in (5, 0, 2**128 - 1)]

PANDAS: dict[str, tuple[list[Any], Any]] = {
    "Int64": (INTS, "Int64"),
    "Int8": (SMALL, "Int8"),
    "UInt64": (SMALL, "UInt64"),
    "float64": (FLOATS, "float64"),
    "float32": (ROUND, "float32"),
    "nullable floats": (FLOATS, "Float64"),
    "signed zeros": (ZEROS, "float64"),
    "whole floats": ([1.0, 2.0, 3.0], "float64"),
    "boolean": (FLAGS, "boolean"),
    "objects of bool": (FLAGS, object),
    "str": (TEXTS, "str"),
    "string": (TEXTS, "string"),
    "objects of str": (TEXTS, object),
    "digits": (DIGITS, "str"),
    "categories": (["b", "a", "b"], "category"),
    "categories of numbers": ([3, 1, 3], "category"),
    "categories of days": (MIDNIGHTS, "category"),
    "bytes": (BYTES, object),
    "dates": (DAYS, object),
    "midnights": (MIDNIGHTS, "datetime64[us]"),
    "nanoseconds": (MOMENTS, "datetime64[ns]"),
    "seconds": ([moment.replace(microsecond=0) for moment in MOMENTS], "datetime64[s]"),
    "zoned": (ZONED, "datetime64[us, Europe/Paris]"),
    "objects of datetime": (MOMENTS, object),
    "times": (TIMES, object),
    "decimals": (DECIMALS, object),
    "UUIDs": (UUIDS, object),
    "mixed": ([1, "1", 2.5], object),
    "mixed with bytes": ([b"1", 1, "x"], object),
    "integers and floats": ([1, 2.5, 2**60], object),
    "sparse": ([0.0, 1.5, 0.0], pd.SparseDtype("float64")),
    "Arrow integers": (INTS, pd.ArrowDtype(pa.int64())),
    "Arrow texts": (TEXTS, pd.ArrowDtype(pa.string())),
    "Arrow days": (DAYS, pd.ArrowDtype(pa.date32())),
    "Arrow moments": (MOMENTS, pd.ArrowDtype(pa.timestamp("us"))),
    "Arrow flags": (FLAGS, pd.ArrowDtype(pa.bool_())),
}
POLARS: dict[str, tuple[list[Any], Any]] = {
    "Int64": (INTS, pl.Int64),
    "Int8": (SMALL, pl.Int8),
    "UInt64": (SMALL, pl.UInt64),
    "Float64": (FLOATS, pl.Float64),
    "Float32": (ROUND, pl.Float32),
    "signed zeros": (ZEROS, pl.Float64),
    "NaN": ([float("nan"), 1.5, 2.0], pl.Float64),
    "Boolean": (FLAGS, pl.Boolean),
    "String": (TEXTS, pl.String),
    "digits": (DIGITS, pl.String),
    "Categorical": (["b", "a", "b"], pl.Categorical),
    "Enum": (["b", "a", "b"], pl.Enum(["b", "a"])),
    "Binary": (BYTES, pl.Binary),
    "Date": (DAYS, pl.Date),
    "midnights": (MIDNIGHTS, pl.Datetime("us")),
    "Datetime": (MOMENTS, pl.Datetime("us")),
    "nanoseconds": (MOMENTS, pl.Datetime("ns")),
    "milliseconds": (MIDNIGHTS, pl.Datetime("ms")),
    "zoned": (ZONED, pl.Datetime("us", "UTC")),
    "Time": (TIMES, pl.Time),
    "Decimal": (DECIMALS, pl.Decimal(12, 2)),
}
ARROW: dict[str, tuple[list[Any], Any]] = {
    "int64": (INTS, pa.int64()),
    "int8": (SMALL, pa.int8()),
    "uint64": (SMALL, pa.uint64()),
    "double": (FLOATS, pa.float64()),
    "float": (ROUND, pa.float32()),
    "signed zeros": (ZEROS, pa.float64()),
    "bool": (FLAGS, pa.bool_()),
    "string": (TEXTS, pa.string()),
    "large_string": (TEXTS, pa.large_string()),
    "string_view": (TEXTS, pa.string_view()),
    "digits": (DIGITS, pa.string()),
    "dictionary": (["b", "a", "b"], pa.dictionary(pa.int8(), pa.string())),
    "binary": (BYTES, pa.binary()),
    "fixed binary": ([b"ab", b"cd", b"\x00d"], pa.binary(2)),
    "date32": (DAYS, pa.date32()),
    "date64": (DAYS, pa.date64()),
    "midnights": (MIDNIGHTS, pa.timestamp("us")),
    "timestamp": (MOMENTS, pa.timestamp("us")),
    "nanoseconds": (MOMENTS, pa.timestamp("ns")),
    "seconds": (MIDNIGHTS, pa.timestamp("s")),
    "zoned": (ZONED, pa.timestamp("us", "Asia/Tokyo")),
    "time64": (TIMES, pa.time64("us")),
    "time32": ([dt.time(8, 30), dt.time(0, 0), dt.time(23, 59, 59)], pa.time32("s")),
    "decimal": (DECIMALS, pa.decimal128(12, 2)),
    "decimal of integers": ([1, -1, 2**60], pa.decimal128(38, 0)),
}


def _in_pandas(values: list[Any], dtype: Any) -> Any:
    if str(dtype).startswith("datetime64") and "," in str(dtype):
        return pd.Series(values, dtype="datetime64[us, UTC]").dt.tz_convert("Europe/Paris")
    if isinstance(dtype, pd.SparseDtype) or dtype == "float32":
        return pd.Series([np.nan if value is None else value for value in values], dtype=dtype)
    return pd.Series(values, dtype=dtype)


def columns(library: str, *, missing: bool) -> Any:
    """Return a frame with a column of each type, and the columns n and place; ``missing`` adds a row of NULLs."""
    kinds = {"pandas": PANDAS, "polars": POLARS, "arrow": ARROW}[library]
    values = {name: [*found, *([None] if missing else [])] for name, (found, _) in kinds.items()}
    rows = {"n": [1, 2, 3, 4][: 3 + missing], "place": ["Rome", "Oslo", "Rome", None][: 3 + missing]}
    match library:
        case "pandas":
            series = {name: _in_pandas(values[name], dtype) for name, (_, dtype) in kinds.items()}
            return pd.DataFrame(rows | series)
        case "polars":
            polars = {name: pl.Series(values[name], dtype=dtype, strict=True) for name, (_, dtype) in kinds.items()}
            return pl.DataFrame(rows | polars)
    return pa.table(rows | {name: pa.array(values[name], dtype) for name, (_, dtype) in kinds.items()})
