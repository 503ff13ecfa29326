"""The cells of a column on their way into JSON: what each is written as, and the SQL that reads it back.

A `Form` says both. JSON in SQLite holds 64-bit integers and text exactly, but no bytes and no infinities, and it rounds
some doubles: the shortest form of a double (17 digits) may lie close to the middle between two of them, where the
reader's own rounding decides. So a double is sent as an integer and divided by a power of ten, which rounds once
and correctly, or with 19 digits, which lie within a hundredth of its place: measured exact on SQLite 3.45 and 3.54
for 10**6 random bit patterns, all powers of two and their neighbours, and subnormals.
"""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pipemagic.errors import ProtocolError
from pipemagic.hrana.scalars import to_sql
from pipemagic.hrana.values import MAX_INTEGER, SqlValue

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

Cell: TypeAlias = int | str | list[str] | dict[str, str] | None
Cells: TypeAlias = Callable[[int, int], list[Cell]]

_EXACT = 2**53
_LARGEST = 1.7976931348623157e308
_TEXTS_AT_ONCE = 50_000


@dataclass(frozen=True)
class Form:
    """How cells are written.

    ``sql`` reads one from a row that is a JSON array, ``{}`` being the number of its column. ``bind`` gives the same
    for a cell that goes as an argument of its own: the SQL and the argument.
    """

    sql: str
    bind: Callable[[Any], tuple[str, SqlValue]]

    def select(self, number: int) -> str:
        """Give the SQL for column ``number``, from 0."""
        return self.sql.replace("{}", str(number))


PLAIN = Form("value->>{}", lambda cell: ("?", cell))
"""NULL, integers and text as they are."""

BLOB = Form("unhex(value->>{})", lambda cell: ("?", None if cell is None else bytes.fromhex(cell)))
"""Bytes in hexadecimal."""

DIGITS = Form("CAST(value->>{} AS REAL)", lambda cell: ("CAST(? AS REAL)", cell))
"""Doubles as text of 19 digits, infinities as text that is too large."""


def _bind_mixed(cell: Cell) -> tuple[str, SqlValue]:
    if isinstance(cell, list):
        return "CAST(? AS REAL)", cell[0]
    return ("?", bytes.fromhex(cell["b"])) if isinstance(cell, dict) else ("?", cell)


MIXED = Form(
    "CASE json_type(value, '$[{}]') WHEN 'array' THEN CAST(value->>'$[{}][0]' AS REAL)"
    " WHEN 'object' THEN unhex(value->>'$[{}].b') ELSE value->>{} END",
    _bind_mixed,
)
"""Each cell by itself: a double as ``[digits]``, bytes as ``{"b": hex}``."""


def scaled(places: int) -> Form:
    """Doubles as integers that are to be divided by a power of ten."""
    return Form(f"(value->>{{}})/1e{places}", lambda cell: (f"?/1e{places}", cell))


def integers(series: pd.Series) -> Cells:
    """Give the cells of integers or truth values; ProtocolError if one does not fit 64 bits."""
    import numpy as np

    missing = series.isna().to_numpy(dtype=bool)
    wide = "uint64" if getattr(series.dtype, "kind", "i") == "u" else "int64"
    numbers = series.to_numpy(dtype=wide, na_value=0) if missing.any() else series.to_numpy(dtype=wide)
    if wide == "uint64" and numbers.size and numbers.max() > MAX_INTEGER:
        raise ProtocolError(
            f"the integer {numbers.max()} does not fit 64 bits", hint="convert the column to text, or to floats"
        )
    return _sliced(numbers.astype(np.int64, copy=False), missing)


def floats(series: pd.Series) -> tuple[Form, Cells, bool]:
    """Give form and cells of doubles, and whether there is a -0.0 among them; NaN is NULL."""
    import numpy as np

    wide = series.to_numpy(dtype="float64", na_value=math.nan)
    if getattr(series.dtype, "itemsize", 8) > 8:
        given = series.to_numpy()
        if bool(((given != wide) & (given == given)).any()):
            raise ProtocolError("a long double does not fit a 64-bit float", hint="convert it with .astype('float64')")
    missing = np.isnan(wide)
    signed_zero = bool((np.signbit(wide) & (wide == 0)).any())
    places = None if signed_zero else _decimal_places(wide[~missing])
    if places is None:
        return DIGITS, lambda start, stop: [digits(number) for number in wide[start:stop].tolist()], signed_zero
    whole = np.zeros(len(wide), dtype=np.int64)
    whole[~missing] = np.rint(wide[~missing] * 10.0**places)
    return scaled(places), _sliced(whole, missing), False


def _decimal_places(numbers: np.ndarray[Any, Any]) -> int | None:
    """Give the fewest decimal places that give back all the numbers exactly, None if many would be needed."""
    import numpy as np

    for places in range(7):
        power = 10.0**places
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.rint(numbers * power)
            if (np.abs(whole) < _EXACT).all() and (whole / power == numbers).all():
                return places
    return None


def digits(number: float) -> str | None:
    """Write a double so that SQLite reads it back exactly; None for NaN."""
    if number != number:
        return None
    if math.isinf(number):
        return "9e999" if number > 0 else "-9e999"
    # 19 digits of the largest double are too large for a reader.
    return f"{number:.18e}" if abs(number) < _LARGEST else repr(number)


def moments(series: pd.Series) -> Cells:
    """Give the cells of ``datetime64`` values: ISO text, with a zone in UTC; ProtocolError outside years 1 to 9999."""
    import numpy as np
    import pandas as pd

    zone = ""
    if getattr(series.dt, "tz", None) is not None:
        series, zone = series.dt.tz_convert("UTC").dt.tz_localize(None), "+00:00"
    when: Any = series.to_numpy() if isinstance(series.dtype, np.dtype) else pd.to_datetime(series).to_numpy()
    missing = np.isnat(when)
    present = when[~missing]
    seconds = present.astype("M8[s]")  # a date so far away is none in nanoseconds
    if (seconds < np.datetime64("0001-01-01", "s")).any() or (seconds >= np.datetime64("10000-01-01", "s")).any():
        raise ProtocolError("a date lies outside the years 1 to 9999, which is all that ISO text has")
    unit = next((unit for unit in ("s", "ms", "us") if (present == present.astype(f"M8[{unit}]")).all()), "ns")

    def give(start: int, stop: int) -> list[Cell]:
        if start >= len(when):
            return []
        texts: Any = np.datetime_as_string(when[start:stop], unit=unit)  # type: ignore[call-overload]
        # The blank that SQLite itself writes, in place of the T.
        texts.view(np.uint32).reshape(len(texts), -1)[:, 10] = ord(" ")
        written = [text + zone for text in texts.tolist()] if zone else texts.tolist()
        return _with_nulls(written, missing[start:stop])

    return give


def declared_type(kinds: Iterable[type]) -> str:
    """Give the type to declare for a column that holds these Python types; '' if they do not go together."""
    found = {_declared(kind) for kind in kinds}
    return found.pop() if len(found) == 1 else ""


def _declared(kind: type) -> str:
    """Give the type to declare for one Python type; '' for one that `to_sql` has to judge."""
    import numpy as np

    if issubclass(kind, np.timedelta64):  # which numpy counts among the integers
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


def objects(values: np.ndarray[Any, Any], missing: np.ndarray[Any, Any], form: Form) -> Cells:
    """Give the cells of Python objects; ProtocolError, naming the row, for one that has no SQL form.

    All are looked at here; bytes and doubles are written when they are sent.
    """
    if not _all_valid_text(values, missing):
        values = _converted(values, missing)
    write: Callable[[Any], Cell] | None = {id(BLOB): _hex, id(MIXED): mixed}.get(id(form))

    def give(start: int, stop: int) -> list[Cell]:
        part: list[Any] = _with_nulls(values[start:stop].tolist(), missing[start:stop])
        return part if write is None else [None if one is None else write(one) for one in part]

    return give


def _all_valid_text(values: np.ndarray[Any, Any], missing: np.ndarray[Any, Any]) -> bool:
    """Tell whether all is text that can be sent as it is: the common case, looked at quickly."""
    texts = values[~missing]
    if set(map(type, texts.tolist())) - {str}:
        return False
    try:
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            "".join(texts[start : start + _TEXTS_AT_ONCE]).encode()
    except UnicodeEncodeError:
        return False
    return True


def _converted(values: np.ndarray[Any, Any], missing: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    done = np.empty(len(values), dtype=object)
    for row, (value, gone) in enumerate(zip(values.tolist(), missing.tolist(), strict=True)):
        try:
            done[row] = None if gone else to_sql(value)
        except ProtocolError as error:
            raise ProtocolError(f"row {row}: {error.message}", hint=error.hint) from None
    return done


def _hex(value: bytes) -> Cell:
    return value.hex()


def mixed(value: SqlValue) -> Cell:
    """Write one value of a mixed column."""
    if isinstance(value, float):
        return [digits(value) or ""]
    return {"b": value.hex()} if isinstance(value, bytes) else value


def zones(values: Iterable[Any]) -> set[bool]:
    """Tell of dates and times whether they have a zone: {True}, {False}, or both."""
    return {getattr(value, "tzinfo", None) is not None for value in values}


def _sliced(numbers: np.ndarray[Any, Any], missing: np.ndarray[Any, Any]) -> Cells:
    return lambda start, stop: _with_nulls(numbers[start:stop].tolist(), missing[start:stop])


def _with_nulls(values: list[Any], missing: np.ndarray[Any, Any]) -> list[Any]:
    import numpy as np

    for row in np.flatnonzero(missing).tolist():
        values[row] = None
    return values
