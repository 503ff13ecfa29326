"""A result -> a DataFrame: which pandas type every column gets, decided by its values and its declared type.

| values of the column (NULL aside)            | without NULL | with NULL |
|----------------------------------------------|--------------|-----------|
| INTEGER                                      | int64        | Int64     |
| REAL                                         | float64      | float64   |
| TEXT                                         | str          | str       |
| BLOB                                         | object       | object    |
| declared BOOLEAN, only 0 and 1               | boolean      | boolean   |
| declared DATE, DATETIME, TIMESTAMP, only ISO | datetime64[us], with offsets [us, UTC] | the same |
| INTEGER and REAL, each integer exact as float | float64     | float64   |
| anything else mixed                          | object, and a note | the same |
| none at all (empty or all NULL)              | by the declared type | the same |

``str`` is what pandas itself takes for text: ``object`` before pandas 3, its ``str`` type since. The types are the same
with and without pyarrow. Duplicate and empty column names are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pipemagic.errors import ProtocolError
from pipemagic.frames.collector import collector_paused
from pipemagic.frames.dates import parse_dates
from pipemagic.hrana.messages import Col, StmtResult
from pipemagic.hrana.values import Blob, Float, Integer, Null, SqlValue, Text, Value, decode, decode_blob, decode_float

if TYPE_CHECKING:
    import pandas as pd

Note = Callable[[str], None]

_value: Callable[[Any], Any] = attrgetter("value")
_NAMES: dict[Any, str] = {Integer: "INTEGER", Float: "REAL", Text: "TEXT", Blob: "BLOB"}


def to_frame(result: StmtResult, *, note: Note | None = None) -> pd.DataFrame:
    """Turn a result into a DataFrame: one column for each of ``cols``, one row for each of ``rows``.

    ``note`` is called with a line of text, at most once a column, where a column could not get a type of its own.
    Raises ProtocolError for rows that are not as wide as ``cols`` and for values that are none.
    """
    from pipemagic.frames.stored import StoredRows

    if isinstance(result.rows, StoredRows):
        frame = _frame_of(result.cols, result.rows.arrays(note or (lambda _: None)), len(result.rows))
        result.rows.guard(frame)
        return frame
    width = len(result.cols)
    if set(map(len, result.rows)) - {width}:
        raise ProtocolError("the server sent rows that are not as wide as their columns")
    say = note or (lambda _: None)
    with collector_paused(width * len(result.rows)):
        cells = list(chain.from_iterable(result.rows))
        columns: list[list[Value]] = [cells[number::width] for number in range(width)]
        arrays = [
            _column(values, col.name or f"number {number}", col.decltype or "", say)
            for number, (col, values) in enumerate(zip(result.cols, columns, strict=True), start=1)
        ]
    return _frame_of(result.cols, arrays, len(result.rows))


def _frame_of(cols: Sequence[Col], arrays: Sequence[Any], count: int) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    labels = _labels(tuple([col.name or "" for col in cols])).view()
    if len(arrays) == 1 and arrays[0].dtype in (np.int64, np.float64):  # as of a count(*): a quarter of the time
        return pd.DataFrame(arrays[0].reshape(count, 1), columns=labels, copy=False)
    # By number first: a dict would lose duplicate names.
    frame = pd.DataFrame(dict(enumerate(arrays)), index=pd.RangeIndex(count), copy=False)
    frame.columns = labels
    return frame


@lru_cache(maxsize=64)
def _labels(names: tuple[str, ...]) -> pd.Index[Any]:
    """Make the labels of columns. They never change, but their own name may: each frame needs a view of its own.

    Making them takes a tenth of the time of a cell with a small result.
    """
    import pandas as pd

    return pd.Index(list(names), dtype=None if names else object)


def affinity(decltype: str) -> str:
    """Give the affinity of a declared type by SQLite's rules (datatype3.html); '' if none was declared."""
    name = decltype.upper()
    if not name:
        return ""
    for affinity_, words in (("INTEGER", ("INT",)), ("TEXT", ("CHAR", "CLOB", "TEXT")), ("BLOB", ("BLOB",))):
        if any(word in name for word in words):
            return affinity_
    return "REAL" if any(word in name for word in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def is_boolean(decltype: str) -> bool:
    """Tell whether a column is declared to hold truth values."""
    return _word(decltype) in ("BOOLEAN", "BOOL")


def is_date(decltype: str) -> bool:
    """Tell whether a column is declared to hold dates, with or without a time."""
    return _word(decltype) in ("DATE", "DATETIME", "TIMESTAMP", "TIMESTAMPTZ")


def _word(decltype: str) -> str:
    """Give the first word of a declared type: ``TIMESTAMP`` of ``timestamp(6) with time zone``."""
    words = decltype.upper().replace("(", " ").split()
    return words[0] if words else ""


def _column(values: Sequence[Value], name: str, decltype: str, note: Note) -> Any:
    """Give the array of one column."""
    kinds = set(map(type, values))
    nulls = Null in kinds
    kinds.discard(Null)
    if not kinds:
        return empty_array(len(values), decltype)
    if len(kinds) > 1:
        return _mixed(values, kinds, name, note)
    (kind,) = kinds
    if kind is Integer:
        return _integers(values, decltype, nulls=nulls)
    if kind is Float:
        return _floats(values, name, note, nulls=nulls)
    if kind is Text:
        return _texts(values, decltype, nulls=nulls)
    return objects([None if type(value) is Null else decode_blob(value.base64) for value in values])  # type: ignore[union-attr]


def _integers(values: Sequence[Value], decltype: str, *, nulls: bool) -> Any:
    return integer_array(*read_integers(values, nulls=nulls), decltype)


def read_integers(values: Sequence[Value], *, nulls: bool) -> tuple[Any, Any]:
    """Give the numbers, 0 for NULL, and which of them are NULL (None if none is)."""
    import numpy as np

    mask = np.fromiter((type(value) is Null for value in values), bool, len(values)) if nulls else None
    texts = [value.value if type(value) is Integer else "0" for value in values] if nulls else list(map(_value, values))
    try:
        if "".join(texts).encode().translate(None, b"+-0123456789"):
            raise ValueError  # Python reads blanks, underscores and digits of other scripts as well
        numbers = np.fromiter(map(int, texts), np.int64, len(texts))
    except (ValueError, OverflowError):
        raise ProtocolError("the server sent an integer that is none, or beyond 64 bits") from None
    return numbers, mask


def integer_array(numbers: Any, mask: Any, decltype: str) -> Any:
    """Give the array of a column of integers."""
    import numpy as np
    import pandas as pd

    if is_boolean(decltype) and ((numbers == 0) | (numbers == 1)).all():
        return pd.arrays.BooleanArray(numbers.astype(bool), np.zeros(len(numbers), bool) if mask is None else mask)
    return numbers if mask is None else pd.arrays.IntegerArray(numbers, mask)


def _floats(values: Sequence[Value], name: str, note: Note, *, nulls: bool) -> Any:
    numbers, infinite = read_floats(values, nulls=nulls)
    if infinite:
        note_infinities(name, note)
    return numbers


def read_floats(values: Sequence[Value], *, nulls: bool) -> tuple[Any, bool]:
    """Return the numbers, NaN for NULL, and whether there are infinities without a sign, which are NaN, too."""
    import numpy as np

    # A NULL has no value.
    numbers = [getattr(value, "value", math.nan) for value in values] if nulls else list(map(_value, values))
    if None not in numbers:
        return np.array(numbers, dtype=np.float64), False
    infinite = any(isinstance(value, Float) and value.value is None and not value.sign for value in values)
    numbers = [decode_float(value) if isinstance(value, Float) else math.nan for value in values]
    return np.array(numbers, dtype=np.float64), infinite


def note_infinities(name: str, note: Note, become: str = "NaN here") -> None:
    """Call ``note`` with the line about infinities whose sign the server does not send."""
    note(f"column {name} holds infinities; the server sends no sign, so they are {become}: sign({name}) returns it")


def _texts(values: Sequence[Value], decltype: str, *, nulls: bool) -> Any:
    texts = [getattr(value, "value", None) for value in values] if nulls else list(map(_value, values))
    return text_array(texts, decltype)


def text_array(texts: list[str | None], decltype: str) -> Any:
    """Give the array of a column of texts: of dates, if it is declared so and all of them are."""
    if is_date(decltype):
        dates = parse_dates(texts)
        if dates is not None:
            return dates
    return _strings(texts)


def _strings(texts: list[str | None]) -> Any:
    import pandas as pd

    # By its full name: "str" is numpy's type, which has no missing values, where pandas is told not to infer its own.
    return pd.array(texts, dtype=pd.StringDtype(na_value=math.nan)) if _has_str_type() else objects(texts)


def _has_str_type() -> bool:
    return pandas_version() >= 3


def pandas_version() -> int:
    """Give the first number of the version of pandas."""
    import pandas as pd

    return int(pd.__version__.split(".")[0])


def objects(items: Sequence[Any]) -> Any:
    """Give an array of Python objects."""
    import numpy as np

    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _mixed(values: Sequence[Value], kinds: set[type], name: str, note: Note) -> Any:
    return mixed_array([decode(value) for value in values], kinds, name, note)


def mixed_array(items: list[SqlValue], kinds: set[type], name: str, note: Note) -> Any:
    """Give the array of a column that holds several kinds of values."""
    import numpy as np

    if kinds == {Integer, Float} and all_exact(items):
        if any(item != item for item in items):
            note_infinities(name, note)
        return np.array([math.nan if item is None else item for item in items], dtype=np.float64)
    names = " and ".join(_NAMES[kind] for kind in _NAMES if kind in kinds)
    note(f"column {name} mixes {names} values and stays object; CAST({name} AS ...) gives it one type")
    return objects(items)


def all_exact(items: Sequence[Any]) -> bool:
    """Return True if every integer among the values is the same number as a float."""
    return all(int(float(item)) == item for item in items if isinstance(item, int))


def empty_array(count: int, decltype: str) -> Any:
    """Give a column without any value: the declared type is all there is to go by."""
    import numpy as np
    import pandas as pd

    if is_boolean(decltype):
        return pd.arrays.BooleanArray(np.zeros(count, bool), np.ones(count, bool))
    if is_date(decltype):
        return np.full(count, "NaT", dtype="datetime64[us]")
    match affinity(decltype):
        case "INTEGER" if count:
            return pd.arrays.IntegerArray(np.zeros(count, np.int64), np.ones(count, bool))
        case "INTEGER":
            return np.zeros(0, np.int64)
        case "REAL" | "NUMERIC":
            return np.full(count, math.nan)
        case "TEXT":
            return _strings([None] * count)
    return objects([None] * count)
