"""Convert a Python value to the value that SQLite stores. Neither NumPy nor pandas is imported for their values."""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import sys
import uuid
from typing import Any

from pipemagic.errors import ProtocolError
from pipemagic.frames.moments import check_years, text_of_datetime, text_of_datetime64
from pipemagic.hrana.values import SqlValue, checked_integer

_DIGITS = 15
"""The most significant digits of a decimal that each double keeps."""


def to_sql(value: Any) -> SqlValue:
    """Convert a Python value to the value that SQLite stores; raise ProtocolError if there is no exact one.

    Booleans become 0 and 1, dates and times text (`pipemagic.frames.moments`), Decimal a float, UUID and Path text;
    NaN, NaT and ``pandas.NA`` become NULL. Scalars of NumPy and Arrow and enum members are converted by their value.
    """
    match value:
        case None:
            return None
        case int():  # also bool
            return checked_integer(int(value))
        case float():
            return None if value != value else float(value)
        case str():
            return _unicode(str.__str__(value))
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case datetime.datetime():
            return None if value != value else text_of_datetime(value)  # NaT is a datetime, not equal to itself
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return _decimal(value)
        case uuid.UUID():
            return str(value)
        case pathlib.PurePath():
            return _unicode(str(value))
        case enum.Enum():
            return to_sql(value.value)
        case datetime.timedelta():
            raise ProtocolError(
                "SQLite has no timedelta type", hint="convert it to a number first, for example with .total_seconds()"
            )
    return _foreign(value)


def exact_float(number: decimal.Decimal) -> float | None:
    """Return the float that reads back as the same number; None for more than 15 digits, and for a NaN."""
    text = str(number)
    if len(text) <= _DIGITS and number.is_finite() and "E" not in text:  # as most are
        return float(text) + 0.0
    if number.is_nan():
        return None
    digits = number.as_tuple().digits
    significant = len(bytes(digits).rstrip(b"\0").lstrip(b"\0"))
    close = float(number)
    if significant > _DIGITS or (number.is_finite() and decimal.Decimal(repr(close)) != number):
        return None
    return close + 0.0  # there is no sign of zero in a decimal column


def _decimal(number: decimal.Decimal) -> float | None:
    close = exact_float(number)
    if close is None and not number.is_nan():
        raise ProtocolError(
            f"the decimal {number} has no exact float, and SQLite has no decimal type",
            hint="pass float(...), which rounds it, or str(...), which SQL compares as text",
        )
    return close


def _unicode(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ProtocolError(
            f"text with {error.object[error.start]!r} is not valid Unicode",
            hint="convert it to bytes first, for example with .encode('utf-8', 'surrogatepass')",
        ) from None
    return text


def _foreign(value: Any) -> SqlValue:
    """Convert values of NumPy, pandas and Arrow, which are imported if there is such a value."""
    pandas, numpy, arrow = (sys.modules.get(name) for name in ("pandas", "numpy", "pyarrow"))
    if pandas is not None and value is pandas.NA:
        return None
    if numpy is not None and isinstance(value, numpy.datetime64):
        return None if numpy.isnat(value) else text_of_datetime64(value)
    if numpy is not None and isinstance(value, numpy.timedelta64):  # a subclass of the integers in numpy
        return None if numpy.isnat(value) else to_sql(datetime.timedelta())
    if numpy is not None and isinstance(value, numpy.bool_ | numpy.integer):
        return checked_integer(int(value))
    if numpy is not None and isinstance(value, numpy.floating):
        number = float(value)
        if number != value and value == value:
            raise ProtocolError("a long double does not fit in a 64-bit float")
        return None if number != number else number
    if arrow is not None and isinstance(value, arrow.Scalar):
        return to_sql(_of_arrow(value))
    raise ProtocolError(
        f"cannot convert a value of type {type(value).__name__} to SQL",
        hint="convert it to text, a number or bytes first; use json.dumps() for lists and dicts",
    )


def _of_arrow(scalar: Any) -> Any:
    """Return the Python value of an Arrow scalar; moments as those of NumPy or pandas, which keep nanoseconds."""
    import pyarrow as pa

    if pa.types.is_timestamp(scalar.type) and scalar.is_valid:
        import numpy as np
        import pandas as pd

        check_years(np.array([scalar.value], f"M8[{scalar.type.unit}]"))
        return pd.Timestamp(scalar.value, unit=scalar.type.unit, tz=scalar.type.tz)
    if pa.types.is_time(scalar.type) and scalar.type.unit == "ns" and scalar.is_valid and scalar.value % 1000:
        raise ProtocolError("a time has nanoseconds, but times in Python have microseconds", hint="pass it as text")
    return scalar.as_py()
