"""Python values of any kind -> what SQLite stores. Neither numpy nor pandas is imported for it."""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import sys
import uuid
from typing import Any

from pipemagic.errors import ProtocolError
from pipemagic.hrana.values import MAX_INTEGER, MIN_INTEGER, SqlValue


def to_sql(value: Any) -> SqlValue:
    """Give what SQLite stores for a Python value; ProtocolError if it has no exact form.

    Booleans become 0 and 1, dates and times ISO text (as SQLite's date functions read it), Decimal, UUID and Path
    text, NaN, NaT and ``pandas.NA`` NULL. Numpy scalars and enum members count as the value they hold.
    """
    match value:
        case None:
            return None
        case int():  # also bool
            return _checked(int(value))
        case float():
            return None if value != value else float(value)
        case str():
            return _unicode(str.__str__(value))
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case datetime.datetime():
            return None if value != value else value.isoformat(sep=" ")  # NaT is a datetime that differs from itself
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
                "SQL has no type for a length of time", hint="convert it to a number first, as with .total_seconds()"
            )
    return _foreign(value)


def _checked(number: int) -> int:
    if not MIN_INTEGER <= number <= MAX_INTEGER:
        raise ProtocolError(f"the integer {number} does not fit 64 bits", hint="convert it to text, or to a float")
    return number


def _decimal(number: decimal.Decimal) -> str | None:
    if number.is_nan():
        return None
    if number.is_infinite():
        raise ProtocolError("an infinite Decimal has no text that SQL reads", hint="write 9e999 or -9e999 in the SQL")
    return str(number)


def _unicode(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ProtocolError(
            f"text with {error.object[error.start]!r} is not valid Unicode",
            hint="half of a surrogate pair has no UTF-8 form: convert the text to bytes instead",
        ) from None
    return text


def _foreign(value: Any) -> SqlValue:
    """Handle numpy and pandas values: who passes one has imported it."""
    pandas, numpy = sys.modules.get("pandas"), sys.modules.get("numpy")
    if pandas is not None and value is pandas.NA:
        return None
    if numpy is not None and isinstance(value, numpy.datetime64):
        return None if numpy.isnat(value) else _moment(value)
    if numpy is not None and isinstance(value, numpy.timedelta64):  # which numpy counts among the integers
        return None if numpy.isnat(value) else to_sql(datetime.timedelta())
    if numpy is not None and isinstance(value, numpy.bool_ | numpy.integer):
        return _checked(int(value))
    if numpy is not None and isinstance(value, numpy.floating):
        number = float(value)
        if number != value and value == value:
            raise ProtocolError("a long double does not fit a 64-bit float")
        return None if number != number else number
    raise ProtocolError(
        f"a value of type {type(value).__name__} has no SQL form",
        hint="convert it first: to text, a number, bytes, or with json.dumps() for lists and dicts",
    )


_FINER = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}
"""Units of numpy whose texts are no dates or times of SQLite, and the next one whose texts are."""


def _moment(value: Any) -> str:
    numpy = sys.modules["numpy"]
    unit = numpy.datetime_data(value.dtype)[0]
    text = str(numpy.datetime_as_string(value, unit=_FINER.get(unit, unit))).replace("T", " ")
    if text[4:5] != "-" or not "0001" <= text[:4] <= "9999":
        raise ProtocolError("a date lies outside the years 1 to 9999, which is all that ISO text has")
    return text
