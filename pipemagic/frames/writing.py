"""A DataFrame -> what SQLite is to store: a declared type for each column, and its values ready for JSON.

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

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipemagic.errors import LoadError, ProtocolError
from pipemagic.frames import cells
from pipemagic.frames.cells import Cell, Form
from pipemagic.hrana.scalars import to_sql

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column to be written: its declared type ('' for none), the form its cells are sent in, and the cells.

    ``cells(start, stop)`` gives those of some rows, as values of that form, None for NULL.
    """

    name: str
    declared: str
    form: Form
    cells: Callable[[int, int], list[Cell]]


def from_frame(frame: pd.DataFrame) -> list[Column]:
    """Plan how to write every column; LoadError for what has no exact form, naming the column and the row.

    The index is written, as the first columns, if it has a name; a plain one is left out. All values are looked at
    here, so that nothing is refused half way.
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise LoadError(f"a {type(frame).__name__} is not a DataFrame", hint="a Series becomes one with .to_frame()")
    columns = [*_index_columns(frame.index), *((name, frame.iloc[:, at]) for at, name in enumerate(frame.columns))]
    names = _names([name for name, _ in columns])
    return [_column(name, series) for name, (_, series) in zip(names, columns, strict=True)]


def _index_columns(index: pd.Index) -> list[tuple[Hashable, pd.Series]]:
    import pandas as pd

    if all(name is None for name in index.names):
        return []
    if any(name is None for name in index.names):
        raise LoadError(
            "one level of the frame's index has a name, another has not",
            hint="name all levels, or leave the index out with .reset_index(drop=True)",
        )
    return [
        (name, pd.Series(index.get_level_values(level), index=range(len(index))))
        for level, name in enumerate(index.names)
    ]


def _names(names: Sequence[Hashable]) -> list[str]:
    """Give the columns' names in SQL, where they must differ by more than case."""
    texts = [name if isinstance(name, str) else str(name) for name in names]
    if not texts:
        raise LoadError("the frame has no columns, and a table needs one")
    for number, (name, text) in enumerate(zip(names, texts, strict=True), start=1):
        if isinstance(name, tuple):
            raise LoadError("the frame has several levels of column names", hint="join them into one name each first")
        if not text or "\0" in text or _is_broken(text):
            raise LoadError(f"column {number} has no name that SQL can hold: {text!r}")
    counts = Counter(map(_folded, texts))
    twice = sorted({text for text in texts if counts[_folded(text)] > 1})
    if twice:
        raise LoadError(
            f"several columns have the same name in SQL, which knows no case: {', '.join(twice)}",
            hint="rename them first",
        )
    return texts


def _folded(name: str) -> str:
    """Give the name as SQLite compares it: only ASCII letters have no case."""
    return "".join(char.lower() if char.isascii() else char for char in name)


def _is_broken(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _column(name: str, series: pd.Series) -> Column:
    try:
        return _plan(name, series)
    except ProtocolError as error:
        raise LoadError(f"column {name}: {error.message}", hint=error.hint) from None


def _plan(name: str, series: pd.Series) -> Column:
    """Choose by the dtype; where that says nothing, by the values."""
    import pandas as pd

    dtype: Any = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _categories(name, series)
    if isinstance(dtype, pd.SparseDtype):
        return _plan(name, pd.Series(series.array.to_dense()))
    if isinstance(dtype, pd.PeriodDtype | pd.IntervalDtype):
        raise ProtocolError(f"SQL has no type for {dtype}", hint="convert it first, as with .astype(str)")
    match getattr(dtype, "kind", "O"):
        case "b":
            return Column(name, "BOOLEAN", cells.PLAIN, cells.integers(series.astype("boolean")))
        case "i" | "u":
            return Column(name, "INTEGER", cells.PLAIN, cells.integers(series))
        case "f":
            return _floats(name, series)
        case "M" if not str(dtype).startswith(("date32", "date64")):  # Arrow's dates, which have no time
            aware = getattr(series.dt, "tz", None) is not None
            return Column(name, "TIMESTAMP" if aware else "DATETIME", cells.PLAIN, cells.moments(series))
        case "m":
            raise ProtocolError(
                "SQL has no type for a length of time", hint="convert it to a number first, as with .dt.total_seconds()"
            )
        case "c":
            raise ProtocolError("SQL has no complex numbers", hint="write real and imaginary part as two columns")
    return _values(name, series)


def _floats(name: str, series: pd.Series) -> Column:
    form, give, signed_zero = cells.floats(series)
    return Column(name, "" if signed_zero else "REAL", form, give)


def _categories(name: str, series: pd.Series) -> Column:
    """Plan the categories, which are few, and look them up by their codes."""
    import pandas as pd

    codes = series.cat.codes.to_numpy()
    inner = _plan(name, pd.Series(series.cat.categories.to_numpy(), dtype=series.cat.categories.dtype))
    known = [*inner.cells(0, len(series.cat.categories)), None]  # the code of a missing value is -1, the last
    return replace(inner, cells=lambda start, stop: [known[code] for code in codes[start:stop].tolist()])


def _values(name: str, series: pd.Series) -> Column:
    """Plan a column of Python objects by what they are."""
    import pandas as pd

    objects = series.to_numpy(dtype=object)
    missing = pd.isna(series).to_numpy(dtype=bool)
    present = objects[~missing]
    declared = cells.declared_type(set(map(type, present.tolist())))
    if declared == "REAL":
        numbers = [None if gone else to_sql(one) for one, gone in zip(objects, missing, strict=True)]
        return _floats(name, pd.Series(numbers, dtype="float64"))
    if declared == "DATETIME" and (zoned := cells.zones(present)) != {False}:
        declared = "TIMESTAMP" if zoned == {True} else ""
    if not len(present) and isinstance(series.dtype, pd.StringDtype):
        declared = "TEXT"
    form = {"BLOB": cells.BLOB, "": cells.MIXED}.get(declared, cells.PLAIN)
    return Column(name, declared, form, cells.objects(objects, missing, form))
