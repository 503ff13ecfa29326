"""Convert a DataFrame to columns for SQLite, each with a declared type.

| column | declared | stored |
|---|---|---|
| integers, also nullable | INTEGER | INTEGER; beyond 64 bits is refused |
| floats | REAL | REAL, bit for bit; NaN as NULL |
| floats, some of them -0.0 | none | the same (a column declared REAL would drop the sign) |
| bool, boolean | BOOLEAN | 0 and 1 |
| datetime64 | DATETIME | TEXT, ``YYYY-MM-DD HH:MM:SS`` with as many decimals as needed |
| datetime64 with a zone | TIMESTAMP | the same in UTC, with ``+00:00`` |
| str, Decimal, UUID, time | TEXT | TEXT |
| date | DATE | TEXT |
| bytes | BLOB | BLOB |
| categories | as their values | as their values |
| object with several of these | none | each value as it is |

None, NaN, NaT and ``pandas.NA`` become NULL. Lengths of time, periods, complex numbers, lists and dicts are refused.
"""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from pipemagic.errors import LoadError, ProtocolError
from pipemagic.frames.columns import ColumnChunk, Texts, chunk_of_items, of_kind
from pipemagic.frames.encoder import has_signed_zero
from pipemagic.hrana.values import MAX_INTEGER, Float, Integer, SqlValue, Text, to_sql

_AT_ONCE = 50_000


@dataclass(frozen=True)
class Column:
    """A column to write: its declared type ('' for none), its values, and the type suggested by its dtype."""

    name: str
    declared: str
    values: ColumnChunk
    suggested: str = ""


def from_frame(frame: pd.DataFrame) -> list[Column]:
    """Convert every column; raise LoadError with column and row for values without an exact form.

    A named index is written as the first columns; an unnamed one is omitted. All values are checked
    here, before any row is sent.
    """
    if not isinstance(frame, pd.DataFrame):
        raise LoadError(f"a {type(frame).__name__} is not a DataFrame", hint="a Series becomes one with .to_frame()")
    columns = [*_index_columns(frame.index), *((name, frame.iloc[:, at]) for at, name in enumerate(frame.columns))]
    names = _names([name for name, _ in columns])
    return [_column(name, series) for name, (_, series) in zip(names, columns, strict=True)]


def _index_columns(index: pd.Index) -> list[tuple[Hashable, pd.Series]]:
    if all(name is None for name in index.names):
        return []
    if any(name is None for name in index.names):
        raise LoadError(
            "one level of the frame's index has a name, another has not",
            hint="name all levels, or drop the index with .reset_index(drop=True)",
        )
    return [
        (name, pd.Series(index.get_level_values(level), index=range(len(index))))
        for level, name in enumerate(index.names)
    ]


def _names(names: Sequence[Hashable]) -> list[str]:
    """Return the names of the columns in SQL, which must be different ignoring case."""
    texts = [name if isinstance(name, str) else str(name) for name in names]
    if not texts:
        raise LoadError("the frame has no columns, and a table needs one")
    for number, (name, text) in enumerate(zip(names, texts, strict=True), start=1):
        if isinstance(name, tuple):
            raise LoadError("the frame has several levels of column names", hint="join them into one name each first")
        if not text or "\0" in text or _is_broken(text):
            raise LoadError(f"column {number} has no valid name for SQL: {text!r}")
    counts = Counter(text.encode().lower() for text in texts)  # of ASCII letters only, as in SQLite
    twice = sorted({text for text in texts if counts[text.encode().lower()] > 1})
    if twice:
        raise LoadError(
            f"several columns have the same name in SQL, which ignores case: {', '.join(twice)}",
            hint="rename them first",
        )
    return texts


def _is_broken(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _column(name: str, series: pd.Series) -> Column:
    try:
        return replace(_plan(name, series), suggested=_suggested(series.dtype))
    except ProtocolError as error:
        raise LoadError(f"column {name}: {error.message}", hint=error.hint) from None


def _suggested(dtype: Any) -> str:
    """Return the declared type for a dtype."""
    if isinstance(dtype, pd.CategoricalDtype):
        return _suggested(dtype.categories.dtype)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return "TIMESTAMP"
    kind = getattr(getattr(dtype, "subtype", dtype), "kind", "O")
    return {"b": "BOOLEAN", "i": "INTEGER", "u": "INTEGER", "f": "REAL", "M": "DATETIME"}.get(kind, "TEXT")


def _plan(name: str, series: pd.Series) -> Column:
    """Convert a column by its dtype, or by its values if it has objects."""
    dtype: Any = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _categories(name, series)
    if isinstance(dtype, pd.SparseDtype):
        return _plan(name, pd.Series(series.array.to_dense()))
    if isinstance(dtype, pd.PeriodDtype | pd.IntervalDtype):
        raise ProtocolError(f"SQL has no type for {dtype}", hint="convert it first, as with .astype(str)")
    match getattr(dtype, "kind", "O"):
        case "b":
            return Column(name, "BOOLEAN", _integers(series.astype("boolean")))
        case "i" | "u":
            return Column(name, "INTEGER", _integers(series))
        case "f":
            return _floats(name, series)
        case "M" if not str(dtype).startswith(("date32", "date64")):  # Arrow's dates, without a time
            aware = getattr(series.dt, "tz", None) is not None
            return Column(name, "TIMESTAMP" if aware else "DATETIME", _moments(series))
        case "m":
            raise ProtocolError(
                "SQL has no type for a length of time", hint="convert it to a number first, as with .dt.total_seconds()"
            )
        case "c":
            raise ProtocolError("SQL has no complex numbers", hint="write real and imaginary part as two columns")
    return _values(name, series)


def _integers(series: pd.Series) -> ColumnChunk:
    missing = series.isna().to_numpy(dtype=bool)
    wide = "uint64" if getattr(series.dtype, "kind", "i") == "u" else "int64"
    numbers = series.to_numpy(dtype=wide, na_value=0) if missing.any() else series.to_numpy(dtype=wide)
    if wide == "uint64" and numbers.size and numbers.max() > MAX_INTEGER:
        raise ProtocolError(
            f"the integer {numbers.max()} does not fit 64 bits", hint="convert the column to text, or to floats"
        )
    return of_kind(Integer, numbers.astype(np.int64, copy=False), missing)


def _floats(name: str, series: pd.Series) -> Column:
    numbers = series.to_numpy(dtype="float64", na_value=math.nan)
    if getattr(series.dtype, "itemsize", 8) > 8:
        given = series.to_numpy()
        if bool(((given != numbers) & (given == given)).any()):
            raise ProtocolError("a long double does not fit a 64-bit float", hint="convert it with .astype('float64')")
    return Column(name, "" if has_signed_zero(numbers) else "REAL", of_kind(Float, numbers, np.isnan(numbers)))


def _moments(series: pd.Series) -> ColumnChunk:
    """Convert ``datetime64`` values to ISO text, with a zone in UTC; raise ProtocolError outside years 1 to 9999."""
    zone = ""
    if getattr(series.dt, "tz", None) is not None:
        series, zone = series.dt.tz_convert("UTC").dt.tz_localize(None), "+00:00"
    when: Any = series.to_numpy() if isinstance(series.dtype, np.dtype) else pd.to_datetime(series).to_numpy()
    missing = np.isnat(when)
    present = when[~missing]
    seconds = present.astype("M8[s]")  # outside the range of nanoseconds
    if (seconds < np.datetime64("0001-01-01", "s")).any() or (seconds >= np.datetime64("10000-01-01", "s")).any():
        raise ProtocolError("a date is outside the years 1 to 9999, the range of ISO text")
    unit = next((unit for unit in ("s", "ms", "us") if (present == present.astype(f"M8[{unit}]")).all()), "ns")
    letters = [_iso_letters(present[at : at + _AT_ONCE], unit, zone) for at in range(0, len(present), _AT_ONCE)]
    if not letters:
        return ColumnChunk(len(when), frozenset())
    offsets = np.zeros(len(when) + 1, np.int64)
    np.cumsum(np.where(missing, 0, letters[0].shape[1]), out=offsets[1:])
    return of_kind(Text, Texts(np.concatenate(letters).ravel(), offsets), missing)


def _iso_letters(when: Any, unit: Any, zone: str) -> Any:
    """Return dates as rows of ASCII letters, with the digits of a unit (s, ms, us, ns)."""
    texts = np.datetime_as_string(when, unit=unit)
    width = len(texts[0])  # the type is wider
    letters = texts.astype(f"S{width}").view(np.uint8).reshape(len(texts), width)
    letters[:, 10] = ord(" ")  # as SQLite writes it, instead of the T
    suffix = np.frombuffer(zone.encode(), dtype=np.uint8)
    return np.hstack([letters, np.broadcast_to(suffix, (len(texts), len(suffix)))])


def _categories(name: str, series: pd.Series) -> Column:
    """Convert the categories and look them up by their codes."""
    inner = _plan(name, pd.Series(series.cat.categories.to_numpy(), dtype=series.cat.categories.dtype))
    return replace(inner, values=inner.values.take(series.cat.codes.to_numpy()))  # the code of a missing value is -1


def _values(name: str, series: pd.Series) -> Column:
    """Convert a column of Python objects by their types."""
    if isinstance(series.dtype, pd.StringDtype) and series.dtype.storage == "pyarrow":
        return Column(name, "TEXT", _arrow_texts(series))
    missing = pd.isna(series).to_numpy(dtype=bool)
    objects = series.to_numpy(dtype=object, copy=True)
    objects[missing] = None
    values = objects.tolist()
    kinds = set(map(type, values)) - {type(None)}
    declared = _declared_type(kinds)
    if declared == "DATETIME" and (zoned := _zones(values)) != {False}:
        declared = "TIMESTAMP" if zoned == {True} else ""
    if not kinds and isinstance(series.dtype, pd.StringDtype):
        declared = "TEXT"
    try:
        stored = chunk_of_items(values if kinds == {str} else _plain(values))
    except UnicodeEncodeError:  # half a surrogate pair
        stored = chunk_of_items(_plain(values))  # raises the error with the row
    if stored.kinds == {Float}:
        declared = "" if has_signed_zero(stored.values) else "REAL"
    return Column(name, declared, stored)


def _arrow_texts(series: pd.Series) -> ColumnChunk:
    """Return texts as an Arrow array, without a Python object for each."""
    import pyarrow as pa

    array: Any = pa.array(series.array)
    if isinstance(array, pa.ChunkedArray):  # pa.chunked_array([array]) would convert each value
        array = array.combine_chunks()
    array = array.cast(pa.large_string())
    _, ends, heap = array.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    return of_kind(Text, Texts(np.frombuffer(heap or b"", np.uint8), offsets), series.isna().to_numpy(dtype=bool))


def _declared_type(kinds: Iterable[type]) -> str:
    """Return the type to declare for a column with these Python types; '' if they have none in common."""
    found = {_declared(kind) for kind in kinds}
    return found.pop() if len(found) == 1 else ""


def _declared(kind: type) -> str:
    """Return the type to declare for one Python type; '' if `to_sql` decides."""
    if issubclass(kind, np.timedelta64):  # a subclass of the integers in numpy
        return ""
    for declared, types in (
        ("BOOLEAN", (bool, np.bool_)),
        ("INTEGER", (int, np.integer)),
        ("REAL", (float, np.floating)),
        ("TEXT", (str, decimal.Decimal, uuid.UUID, datetime.time)),
        ("DATETIME", (datetime.datetime, np.datetime64)),
        ("DATE", (datetime.date,)),
        ("BLOB", (bytes, bytearray, memoryview)),
    ):
        if issubclass(kind, types):
            return declared
    return ""


def _zones(values: Iterable[Any]) -> set[bool]:
    """Return whether dates and times have a zone: {True}, {False}, or both, ignoring NULL."""
    return {getattr(value, "tzinfo", None) is not None for value in values if value is not None}


def _plain(values: Sequence[Any]) -> list[SqlValue]:
    """Convert Python values to SQL values; raise ProtocolError with the row of a value that has none."""
    stored = []
    for row, value in enumerate(values, start=1):
        try:
            stored.append(to_sql(value))
        except ProtocolError as error:
            raise ProtocolError(f"row {row}: {error.message}", hint=error.hint) from None
    return stored
