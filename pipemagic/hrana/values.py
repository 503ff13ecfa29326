"""Python value <-> wire value.

Source: the public Hrana 2/3 specification, "Values". Integers and blobs are text on the wire: 64 bits do not
fit a JSON number, and JSON has no bytes.
"""

from __future__ import annotations

import binascii
import math
import re
from base64 import b64encode
from typing import TypeAlias

import msgspec

from pipemagic.errors import ProtocolError

SqlValue: TypeAlias = int | float | str | bytes | None
"""What SQLite stores: NULL, INTEGER (64 bit), REAL, TEXT, BLOB."""

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1
_DIGITS = re.compile(r"[+-]?[0-9]{1,40}\Z")


class Null(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="null"):
    """SQL NULL."""


class Integer(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="integer"):
    """A 64-bit integer, as decimal text."""

    value: str


class Float(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="float"):
    """A double. JSON has no infinities: their value is None, and ``sign`` is 1 or -1, or 0 if the server sent none."""

    value: float | None
    sign: int = 0


class Text(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="text"):
    """Text, any Unicode including NUL."""

    value: str


class Blob(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="blob"):
    """Bytes in the standard base64 alphabet; padding is optional."""

    base64: str


Value: TypeAlias = Null | Integer | Float | Text | Blob

NULL = Null()


def encode(value: SqlValue) -> Value:
    """Give the wire value of one SQL value.

    Blobs are written without padding, like the servers in use do. A NaN becomes NULL, as in SQLite; an infinity has
    no value but a sign.
    Raises ProtocolError for an integer beyond 64 bits and for any other type.
    """
    match value:
        case None:
            return NULL
        case bool() | int():
            if not MIN_INTEGER <= value <= MAX_INTEGER:
                raise ProtocolError(f"the integer {value} does not fit 64 bits", hint="send it as text, or as a float")
            return Integer(str(int(value)))
        case float():
            return NULL if value != value else encode_float(value)
        case str():
            return Text(value)
        case bytes() | bytearray() | memoryview():
            return Blob(b64encode(value).rstrip(b"=").decode("ascii"))
    raise ProtocolError(f"a value of type {type(value).__name__} has no SQL form")


def encode_float(number: float) -> Float:
    """Return the wire value of a double that is not NaN."""
    return Float(number) if math.isfinite(number) else Float(None, 1 if number > 0 else -1)


def decode_float(value: Float) -> float:
    """Return the double; NaN for an infinity without a sign: nothing else is NaN, as SQLite has none."""
    if value.value is not None:
        return value.value
    return math.copysign(math.inf, value.sign) if value.sign else math.nan


def decode(value: Value) -> SqlValue:
    """Return the Python value that one wire value stands for; see `decode_float` for infinities."""
    match value:
        case Null():
            return None
        case Integer(digits):
            return decode_integer(digits)
        case Float():
            return decode_float(value)
        case Text(text):
            return text
        case Blob(data):
            return decode_blob(data)
    raise ProtocolError(f"unknown value {value!r}", hint="is the server newer than pipemagic?")


def is_integer(given: SqlValue) -> bool:
    """Return True if SQLite takes a value for an INTEGER PRIMARY KEY: integers, and what is exactly one."""
    if given is None or isinstance(given, int):
        return True
    if isinstance(given, bytes):
        return False
    try:
        number = float(given)
    except ValueError:
        return False
    return number.is_integer() and abs(number) < 2**63


def decode_integer(digits: str) -> int:
    """Read decimal text as a signed 64-bit integer; ProtocolError if it is anything else."""
    if _DIGITS.match(digits):
        number = int(digits)
        if MIN_INTEGER <= number <= MAX_INTEGER:
            return number
    raise ProtocolError(f"{digits[:60]!r} is not a 64-bit integer")


def decode_blob(data: str) -> bytes:
    """Read standard base64, padded or not; ProtocolError if it is anything else."""
    text = data.rstrip("=")
    try:
        return binascii.a2b_base64(text + "=" * (-len(text) % 4), strict_mode=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("a blob is not valid base64 (standard alphabet)") from None
