"""Convert a DataFrame to columns for SQLite, each with a declared type.

| column | declared | stored |
|---|---|---|
| integers, also nullable | INTEGER | INTEGER; beyond 64 bits is refused |
| floats | REAL | REAL, bit for bit; NaN as NULL |
| floats, some of them -0.0 | none | the same (a column declared REAL would drop the sign) |
| bool, boolean | BOOLEAN | 0 and 1 |
| dates; datetime64 if all are midnights | DATE | TEXT of `pipemagic.frames.moments`: a date |
| other datetime64 | DATETIME | a date and time |
| datetime64 with a zone | TIMESTAMP | a date and time in UTC, with ``+00:00`` |
| Decimal, each exact as a float | REAL | REAL; otherwise refused |
| str, UUID, time | TEXT | TEXT |
| bytes | BLOB | BLOB |
| categories | as their values | as their values |
| object with several of these | none | each value as it is |

None, NaN, NaT and ``pandas.NA`` become NULL. Lengths of time, periods, complex numbers, lists and dicts are refused.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import uuid
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pipemagic.errors import LoadError, ProtocolError
from pipemagic.frames.columns import ColumnChunk, TextArray, chunk_of_items, of_kind
from pipemagic.frames.encoder import has_signed_zero
from pipemagic.frames.moments import Moments, check_years, moments_of
from pipemagic.frames.scalars import exact_float, to_sql
from pipemagic.hrana.values import MAX_INTEGER, Float, Integer, SqlValue, Text
from pipemagic.sql import folded, quote
from pipemagic.sql.type_affinity import affinity, is_date, is_day_type

WITHOUT_ZONE = "{0} = {times}.dt.tz_convert('UTC').dt.tz_localize(None)"
IN_UTC = "{0} = {times}.dt.tz_localize('UTC')"


class Problem(NamedTuple):
    """The reason why a column cannot be stored, and what to type instead."""

    reason: str
    fix: str


class _ColumnPosition(NamedTuple):
    """Where a column is in Python: the variable of its frame, its label, and whether it is a level of the index."""

    frame: str = "frame"
    label: Hashable = ""
    of_index: bool = False


_NOWHERE = _ColumnPosition()


@dataclass(frozen=True)
class FrameColumn:
    """A column to write: its declared type ('' for none), its values, and the type suggested by its dtype.

    ``source`` are the values of a column whose form depends on the declared type. ``place`` is where it is in Python,
    for messages; ``is_object`` is True if it has no accessor ``dt``. Nothing can be written of a column with a
    ``problem``, which `for_type` may solve.
    """

    name: str
    declared: str
    values: ColumnChunk
    suggested: str = ""
    source: Moments | _Decimals | None = None
    place: _ColumnPosition = _NOWHERE
    is_object: bool = False
    problem: Problem | None = None

    @property
    def code(self) -> str:
        """The column in Python, if it is not a level of the index."""
        return f"{self.place.frame}[{self.place.label!r}]"

    def with_problem(self, reason: str, fix: str) -> FrameColumn:
        """Return the column, which cannot be stored; {0} in ``fix`` is the column in Python, {times} as datetime64."""
        times = self.code
        if self.is_object and "{times}" in fix:
            utc = ", utc=True" if isinstance(self.source, Moments) and self.source.aware else ""
            fix, times = f"import pandas; {fix}", f"pandas.to_datetime({self.code}{utc})"
        return replace(self, problem=Problem(reason, fix.replace("{0}", self.code).replace("{times}", times)))

    def for_type(self, declared: str, table: str = "", *, requested: bool = False) -> FrameColumn:
        """Return the column with the values to write into one of this declared type, in ``table`` if it exists.

        ``requested`` is True if the user chose the type. The result has a problem if that is not possible.
        """
        match self.source:
            case Moments():
                return self._moments_for(self.source, declared, table)
            case _Decimals():
                return self._decimals_for(self.source, declared, table, requested=requested)
        return self

    def types_option(self, declared: str) -> str:
        """Return the option of a load that declares this type."""
        return (
            f"--types {self.name}={declared}"
            if self.name.isidentifier()
            else f"--types '{quote(self.name)}={declared}'"
        )

    def _moments_for(self, moments: Moments, declared: str, table: str) -> FrameColumn:
        if not is_date(declared):
            return self
        if not is_day_type(declared):
            return replace(self, values=moments.chunk(days=False), problem=None)
        where = f"{table} declares it {declared}" if table else f"it is declared {declared}"
        if moments.aware:
            return self.with_problem(f"{where}, but its values have a time zone", WITHOUT_ZONE)
        if (row := moments.row_with_time) is not None:
            (text,) = Moments(moments.when[row : row + 1]).texts(days=False).strings()
            reason = f"{where}, but row {row + 1} has a time of day ({text})"
            return self.with_problem(reason, self.types_option("DATETIME"))
        return replace(self, values=moments.chunk(days=True), problem=None)

    def _decimals_for(self, decimals: _Decimals, declared: str, table: str, *, requested: bool) -> FrameColumn:
        match affinity(declared):
            case "TEXT":
                return replace(self, declared="TEXT", values=decimals.texts(), problem=None)
            case "REAL" if requested:
                return replace(self, values=decimals.nearest(), problem=None)
        if table and self.problem is not None:
            return self.with_problem(self.problem.reason, "{0} = {0}.astype('float64')  # the nearest float")
        return self


class _Decimals(NamedTuple):
    """The numbers of a column with values of ``Decimal``, None if missing."""

    numbers: list[decimal.Decimal | int | float | None]

    @property
    def inexact(self) -> int | None:
        """The row, from 0, of the first number that is not exact as a float; None if all are."""
        return next(
            (row for row, number in enumerate(self.numbers) if number is not None and not _is_exact(number)), None
        )

    def nearest(self) -> ColumnChunk:
        """Return the nearest floats."""
        return chunk_of_items([None if number is None else float(number) + 0.0 for number in self.numbers])

    def texts(self) -> ColumnChunk:
        """Return the texts, which keep all digits."""
        return chunk_of_items([None if number is None else str(number) for number in self.numbers])


def _is_exact(number: decimal.Decimal | int | float) -> bool:
    if isinstance(number, decimal.Decimal):
        return exact_float(number) is not None
    return isinstance(number, float) or exact_float(decimal.Decimal(number)) is not None


def from_frame(frame: pd.DataFrame, name: str = "frame", typed: Iterable[str] = ()) -> list[FrameColumn]:
    """Convert every column; raise LoadError with all columns and a row for values without an exact form.

    The index is written as the first columns, unless it has no name and consists of row numbers. All values are checked
    here, before any row is sent. ``name`` is the variable of the frame, for messages. A column of decimals may have a
    problem that its declared type solves: the plan checks that; those in ``typed`` are to get a type from the user.
    """
    if not isinstance(frame, pd.DataFrame):
        raise LoadError(f"a {type(frame).__name__} is not a DataFrame", hint="convert a Series with .to_frame()")
    columns = [*_index_columns(frame, name), *((label, frame.iloc[:, at]) for at, label in enumerate(frame.columns))]
    names = _names([label for label, _ in columns])
    of_index = len(columns) - frame.shape[1]
    converted = [
        _column(text, series, _ColumnPosition(name, label, of_index=at < of_index))
        for at, (text, (label, series)) in enumerate(zip(names, columns, strict=True))
    ]
    if any(column.problem is not None and not isinstance(column.source, _Decimals) for column in converted):
        names_of_types = set(map(folded, typed))
        check_problems(column for column in converted if folded(column.name) not in names_of_types)
    return converted


def check_problems(columns: Iterable[FrameColumn]) -> None:
    """Raise LoadError with the problems of all columns, and what to type."""
    problems = [(column, column.problem) for column in columns if column.problem is not None]
    if not problems:
        return
    fixes = dict.fromkeys(problem.fix for _, problem in problems if problem.fix)
    if len(problems) == 1:
        column, problem = problems[0]
        message = f"column {column.name}: {problem.reason}; nothing was changed"
        raise LoadError(message, hint="\n".join(fixes), columns=[column.name])
    lines = [f"  {column.name}: {problem.reason}" for column, problem in problems]
    head = f"{len(problems)} columns cannot be stored; nothing was changed"
    names = [column.name for column, _ in problems]
    raise LoadError("\n".join([head, *lines]), hint="\n".join(fixes), columns=names)


def without(columns: Sequence[FrameColumn]) -> str:
    """Return the line in Python that makes a frame without these columns."""
    frame, labels = columns[0].place.frame, [column.place.label for column in columns]
    reset = ".reset_index()" if any(column.place.of_index for column in columns) else ""
    return f"{frame} = {frame}{reset}.drop(columns={(labels[0] if len(labels) == 1 else labels)!r})"


def holds_row_numbers(index: pd.Index) -> bool:
    """Return True if an index has no name and consists of integers, which are not stored."""
    is_empty = not len(index) and index.dtype == object  # as of DataFrame(columns=[...])
    return index.name is None and index.nlevels == 1 and (pd.api.types.is_integer_dtype(index.dtype) or is_empty)


def is_plain(index: pd.Index) -> bool:
    """Return True if an index has no name and counts the rows, from any number on: nothing is lost without it."""
    return holds_row_numbers(index) and not index.hasnans and bool((np.diff(index.to_numpy()) == 1).all())


def _index_columns(frame: pd.DataFrame, name: str) -> list[tuple[Hashable, pd.Series]]:
    index = frame.index
    if holds_row_numbers(index):
        return []
    labels: list[Hashable] = list(index.names)
    if labels == [None]:
        if any(isinstance(label, str) and label.lower() == "index" for label in frame.columns):
            raise LoadError(
                "the index has no name, and a column is already named index; nothing was changed",
                hint=f"name the index, or drop it:\n{name} = {name}.rename_axis('row')\n"
                f"{name} = {name}.reset_index(drop=True)",
            )
        labels = ["index"]
    if any(label is None for label in labels):
        raise LoadError(
            "a level of the index has no name; nothing was changed",
            hint=f"convert the levels to columns, or drop the index:\n{name} = {name}.reset_index()\n"
            f"{name} = {name}.reset_index(drop=True)",
        )
    return [
        (label, pd.Series(index.get_level_values(level), index=range(len(index)))) for level, label in enumerate(labels)
    ]


def _names(names: Sequence[Hashable]) -> list[str]:
    """Return the names of the columns in SQL, which must be different ignoring case."""
    texts = [name if isinstance(name, str) else str(name) for name in names]
    if not texts:
        raise LoadError("the frame has no columns; a table requires at least one")
    for number, (name, text) in enumerate(zip(names, texts, strict=True), start=1):
        if isinstance(name, tuple):
            raise LoadError(
                "the columns of the frame are a MultiIndex", hint="join the levels into one name per column first"
            )
        if not text or "\0" in text or _is_broken(text):
            raise LoadError(f"the name of column {number} is not valid in SQL: {text!r}")
    counts = Counter(text.encode().lower() for text in texts)  # of ASCII letters only, as in SQLite
    twice = sorted({text for text in texts if counts[text.encode().lower()] > 1})
    if twice:
        raise LoadError(
            f"duplicate column names, as SQL ignores case: {', '.join(twice)}",
            hint="rename them first",
        )
    return texts


def _is_broken(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _column(name: str, series: pd.Series, place: _ColumnPosition) -> FrameColumn:
    """Convert a column, or a level of the index."""
    try:
        is_object = getattr(series.dtype, "kind", "O") == "O" or str(series.dtype).startswith(("date32", "date64"))
        column = replace(_plan(name, series), suggested=_suggested(series.dtype), place=place, is_object=is_object)
    except ProtocolError as error:
        column = FrameColumn(name, "", ColumnChunk(len(series), frozenset()), place=place)
        before = f"{place.frame} = {place.frame}.reset_index(); " if place.of_index else ""
        return column.with_problem(error.message, f"{before}{error.hint}")
    if isinstance(column.source, _Decimals) and (row := column.source.inexact) is not None:
        reason = f"row {row + 1}: the decimal {column.source.numbers[row]} has no exact float"
        exact, nearest = column.types_option("TEXT"), column.types_option("REAL")
        return column.with_problem(reason, f"{exact} keeps all digits as text; {nearest} stores the nearest float")
    return column


def _suggested(dtype: Any) -> str:
    """Return the declared type for a dtype."""
    if isinstance(dtype, pd.CategoricalDtype):
        return _suggested(dtype.categories.dtype)
    arrow = str(dtype.pyarrow_dtype) if isinstance(dtype, pd.ArrowDtype) else ""
    if isinstance(dtype, pd.DatetimeTZDtype) or "tz=" in arrow:
        return "TIMESTAMP"
    if arrow.startswith("date"):
        return "DATE"
    if arrow.startswith(("binary", "large_binary", "fixed_size_binary")):
        return "BLOB"
    kind = getattr(getattr(dtype, "subtype", dtype), "kind", "O")
    return {"b": "BOOLEAN", "i": "INTEGER", "u": "INTEGER", "f": "REAL", "M": "DATETIME"}.get(kind, "TEXT")


_AS_TEXT = "{0} = {0}.map(str, na_action='ignore')"


def _plan(name: str, series: pd.Series) -> FrameColumn:
    """Convert a column by its dtype, or by its values if it has objects."""
    dtype: Any = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _categories(name, series)
    if isinstance(dtype, pd.SparseDtype):
        return _plan(name, pd.Series(series.array.to_dense()))
    if isinstance(dtype, pd.PeriodDtype | pd.IntervalDtype):
        raise ProtocolError(f"SQLite has no {dtype} type", hint=_AS_TEXT)
    if str(dtype) == "geometry":  # of GeoPandas
        raise ProtocolError("SQLite has no geometry type", hint="{0} = {0}.to_wkt()")
    match getattr(dtype, "kind", "O"):
        case "b":
            return FrameColumn(name, "BOOLEAN", _integers(series.astype("boolean")))
        case "i" | "u":
            return FrameColumn(name, "INTEGER", _integers(series))
        case "f":
            return _floats(name, series)
        case "M":
            return _of_moments(name, _moments(series), days=str(dtype).startswith(("date32", "date64")))
        case "m":
            raise ProtocolError("SQLite has no timedelta type", hint="{0} = {0}.dt.total_seconds()")
        case "c":
            raise ProtocolError(
                "SQLite has no complex type", hint="{0} = {0}.map(str)  # or its parts: .map(lambda z: z.real)"
            )
    return _values(name, series)


def _integers(series: pd.Series) -> ColumnChunk:
    missing = series.isna().to_numpy(dtype=bool)
    wide = "uint64" if getattr(series.dtype, "kind", "i") == "u" else "int64"
    numbers = series.to_numpy(dtype=wide, na_value=0) if missing.any() else series.to_numpy(dtype=wide)
    if wide == "uint64" and numbers.size and numbers.max() > MAX_INTEGER:
        raise ProtocolError(f"the integer {numbers.max()} does not fit in 64 bits", hint=_AS_TEXT)
    return of_kind(Integer, numbers.astype(np.int64, copy=False), missing)


def _floats(name: str, series: pd.Series) -> FrameColumn:
    numbers = series.to_numpy(dtype="float64", na_value=math.nan)
    if getattr(series.dtype, "itemsize", 8) > 8:
        originals = series.to_numpy()
        if bool(((originals != numbers) & (originals == originals)).any()):
            raise ProtocolError("a long double does not fit in a 64-bit float", hint="{0} = {0}.astype('float64')")
    return FrameColumn(name, "" if has_signed_zero(numbers) else "REAL", of_kind(Float, numbers, np.isnan(numbers)))


def _moments(series: pd.Series) -> Moments:
    """Return the moments of a ``datetime64`` or Arrow column, with a zone in UTC."""
    if isinstance(series.dtype, pd.ArrowDtype):
        return _arrow_moments(series)
    aware = isinstance(series.dtype, pd.DatetimeTZDtype)
    return Moments((series.dt.tz_convert("UTC").dt.tz_localize(None) if aware else series).to_numpy(), aware)


def _arrow_moments(series: pd.Series) -> Moments:
    import pyarrow as pa

    kind: Any = series.dtype.pyarrow_dtype  # type: ignore[union-attr]
    units = {pa.date32(): "s", pa.date64(): "ms"}
    plain = pa.timestamp(units.get(kind) or kind.unit)
    array = pa.chunked_array(series.array.__arrow_array__()).cast(plain)  # of a zone, in UTC
    return Moments(array.to_numpy(), getattr(kind, "tz", None) is not None)


def _of_moments(name: str, moments: Moments, *, days: bool = False) -> FrameColumn:
    """Return the column of moments: of DATE if they are dates, or midnights without a zone."""
    check_years(moments.present)
    days = moments.are_days or (days and moments.row_with_time is None)
    declared = "TIMESTAMP" if moments.aware else "DATE" if days else "DATETIME"
    return FrameColumn(name, declared, moments.chunk(days=days), source=moments)


def _categories(name: str, series: pd.Series) -> FrameColumn:
    """Convert the categories and look them up by their codes."""
    categories, codes = series.cat.categories, series.cat.codes.to_numpy()  # the code of a missing value is -1
    inner = _plan(name, pd.Series(categories.to_numpy(), dtype=categories.dtype))
    match inner.source:
        case Moments(when, aware):
            days = inner.declared == "DATE" and getattr(categories.dtype, "kind", "O") != "M"
            return _of_moments(name, Moments(np.append(when, np.array(["NaT"], when.dtype))[codes], aware), days=days)
        case _Decimals(numbers):
            return _of_decimals(name, [[*numbers, None][code] for code in codes.tolist()])
    return replace(inner, values=inner.values.take(codes))


def _of_decimals(name: str, numbers: list[Any]) -> FrameColumn:
    decimals = _Decimals(numbers)
    return FrameColumn(name, "REAL", decimals.nearest(), source=decimals)


def _values(name: str, series: pd.Series) -> FrameColumn:
    """Convert a column of Python objects by their types."""
    if isinstance(series.dtype, pd.ArrowDtype):
        series = _checked_arrow(series)
    if _has_arrow_texts(series.dtype):
        return FrameColumn(name, "TEXT", _arrow_texts(series))
    missing = pd.isna(series).to_numpy(dtype=bool)
    objects = series.to_numpy(dtype=object, copy=True)
    objects[missing] = None
    values = objects.tolist()
    kinds = set(map(type, values)) - {type(None)}
    declared = _declared_type(kinds)
    if kinds and all(issubclass(kind, _MOMENT) for kind in kinds):
        days = all(not issubclass(kind, datetime.datetime) for kind in kinds)
        return _of_moments(name, moments_of(values), days=days)
    if _are_decimals(kinds):
        return _of_decimals(name, values)
    if not kinds and isinstance(series.dtype, pd.StringDtype):
        declared = "TEXT"
    try:
        stored = chunk_of_items(values if kinds == {str} else _plain(values))
    except UnicodeEncodeError:  # half a surrogate pair
        stored = chunk_of_items(_plain(values))  # raises the error with the row
    if stored.kinds == {Float}:
        declared = "" if has_signed_zero(stored.values) else "REAL"
    return FrameColumn(name, declared, stored)


_MOMENT = (datetime.date, np.datetime64)  # a datetime is a date


def _are_decimals(kinds: set[type]) -> bool:
    """Return True for Decimal, possibly with other numbers."""
    numbers = (decimal.Decimal, int, float)
    return any(issubclass(kind, decimal.Decimal) for kind in kinds) and all(
        issubclass(kind, numbers) and kind is not bool for kind in kinds
    )


_ARROW_AS_JSON = (
    "import json, pyarrow; {0} = [None if value is None else json.dumps(value, default=str) "
    "for value in pyarrow.array({0}).to_pylist()]"
)


def _checked_arrow(series: pd.Series) -> pd.Series:
    """Return an Arrow column that has exact Python values; raise ProtocolError for a type without them."""
    import pyarrow as pa

    kind: Any = series.dtype.pyarrow_dtype  # type: ignore[union-attr]
    if pa.types.is_nested(kind) or pa.types.is_interval(kind):
        raise ProtocolError(f"SQLite has no {kind} type", hint=_ARROW_AS_JSON if pa.types.is_nested(kind) else _AS_TEXT)
    try:
        if pa.types.is_decimal(kind) and kind.scale == 0:  # integers, such as a sum of DuckDB
            return series.astype(pd.ArrowDtype(pa.int64()))
        if kind == pa.time64("ns"):
            return series.astype(pd.ArrowDtype(pa.time64("us")))
    except pa.ArrowInvalid:
        if pa.types.is_time(kind):
            reason = "a time has nanoseconds, but times in Python have microseconds"
            hint = "import pyarrow; {0} = pyarrow.array({0}).cast('string').to_pylist()"
            raise ProtocolError(reason, hint=hint) from None
    return series


def _has_arrow_texts(dtype: Any) -> bool:
    if isinstance(dtype, pd.ArrowDtype):
        return str(dtype.pyarrow_dtype) in ("string", "large_string", "string_view")
    return isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"


def _arrow_texts(series: pd.Series) -> ColumnChunk:
    """Return texts as an Arrow array, without a Python object for each."""
    import pyarrow as pa

    array: Any = pa.array(series.array)
    if isinstance(array, pa.ChunkedArray):  # pa.chunked_array([array]) would convert each value
        array = array.combine_chunks()
    array = array.cast(pa.large_string())
    _, ends, heap = array.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    return of_kind(Text, TextArray(np.frombuffer(heap or b"", np.uint8), offsets), series.isna().to_numpy(dtype=bool))


def _declared_type(kinds: Iterable[type]) -> str:
    """Return the type to declare for a column with these Python types; '' if they have none in common."""
    types = {_declared(kind) for kind in kinds}
    return types.pop() if len(types) == 1 else ""


def _declared(kind: type) -> str:
    """Return the type to declare for one Python type; '' if `to_sql` decides."""
    if issubclass(kind, np.timedelta64):  # a subclass of the integers in numpy
        return ""
    for declared, types in (
        ("BOOLEAN", (bool, np.bool_)),
        ("INTEGER", (int, np.integer)),
        ("REAL", (float, np.floating)),
        ("TEXT", (str, uuid.UUID, datetime.time)),
        ("BLOB", (bytes, bytearray, memoryview)),
    ):
        if issubclass(kind, types):
            return declared
    return ""


def _plain(values: Sequence[Any]) -> list[SqlValue]:
    """Convert Python values to SQL values; raise ProtocolError with the row of a value that has none."""
    stored = []
    for row, value in enumerate(values, start=1):
        try:
            stored.append(to_sql(value))
        except ProtocolError as error:
            raise ProtocolError(f"row {row}: {error.message}", hint=_fix(value, values)) from None
    return stored


def _fix(value: Any, values: Sequence[Any]) -> str:
    """Return the line that converts a column with a value that SQL cannot store; it keeps missing values."""
    if isinstance(value, datetime.timedelta | np.timedelta64):
        return "import pandas; {0} = pandas.to_timedelta({0}).dt.total_seconds()"
    if isinstance(value, str):
        return "{0} = {0}.map(lambda text: text.encode('utf-8', 'surrogatepass'), na_action='ignore')"
    if isinstance(value, list | dict | tuple) and _are_json(values):
        return "import json; {0} = {0}.map(json.dumps, na_action='ignore')"
    return _AS_TEXT


def _are_json(values: Sequence[Any]) -> bool:
    try:
        for value in values:
            json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
