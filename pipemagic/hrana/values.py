"""Convert SQL values to and from wire values.

Source: the public Hrana 2/3 specification, "Values". Integers and blobs are text in JSON: 64 bits do not
fit a JSON number, and JSON has no bytes.
"""

from __future__ import annotations

import binascii
import math
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from pipemagic.errors import ProtocolError

SqlValue: TypeAlias = int | float | str | bytes | None
"""A value of SQLite: NULL, INTEGER (64 bit), REAL, TEXT, BLOB."""

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
    """Convert a SQL value to a wire value; raise ProtocolError for integers beyond 64 bits and for other types.

    Blobs are written without padding, as by known servers. A NaN becomes NULL, as in SQLite; an infinity has
    a sign instead of a value.
    """
    match value:
        case None:
            return NULL
        case int():
            return Integer(str(checked_integer(int(value))))
        case float():
            return NULL if value != value else encode_float(value)
        case str():
            return Text(value)
        case bytes() | bytearray() | memoryview():
            return Blob(b64encode(value).rstrip(b"=").decode("ascii"))
    raise ProtocolError(f"cannot convert a value of type {type(value).__name__} to SQL")


def checked_integer(number: int) -> int:
    """Return an integer; raise ProtocolError if it is beyond 64 bits."""
    if not MIN_INTEGER <= number <= MAX_INTEGER:
        raise ProtocolError(f"the integer {number} does not fit in 64 bits", hint="convert it to text or to a float")
    return number


def encode_float(number: float) -> Float:
    """Convert a double other than NaN to a wire value."""
    return Float(number) if math.isfinite(number) else Float(None, 1 if number > 0 else -1)


def decode_float(value: Float) -> float:
    """Return the double; NaN for an infinity without a sign, since SQLite has no NaN."""
    if value.value is not None:
        return value.value
    return math.copysign(math.inf, value.sign) if value.sign else math.nan


def decode(value: Value) -> SqlValue:
    """Convert a wire value to a Python value; see `decode_float` for infinities."""
    match value:
        case Null():
            return None
        case Integer(digits):
            return _decode_integer(digits)
        case Float():
            return decode_float(value)
        case Text(text):
            return text
        case Blob(data):
            return _decode_blob(data)
    raise ProtocolError(f"unknown value {value!r}", hint="the server may be newer than pipemagic")


def is_integer(value: SqlValue) -> bool:
    """Return True if SQLite accepts a value for an INTEGER PRIMARY KEY: an integer, or a value equal to one."""
    if value is None or isinstance(value, int):
        return True
    if isinstance(value, bytes):
        return False
    try:
        number = float(value)
    except ValueError:
        return False
    return number.is_integer() and abs(number) < 2**63


def _decode_integer(digits: str) -> int:
    """Convert decimal text to a signed 64-bit integer; raise ProtocolError for anything else."""
    if _DIGITS.match(digits):
        number = int(digits)
        if MIN_INTEGER <= number <= MAX_INTEGER:
            return number
    raise ProtocolError(f"{digits[:60]!r} is not a 64-bit integer")


def _decode_blob(data: str) -> bytes:
    """Decode standard base64, padded or not; raise ProtocolError for anything else."""
    text = data.rstrip("=")
    try:
        return binascii.a2b_base64(text + "=" * (-len(text) % 4), strict_mode=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("a blob is not valid base64 (standard alphabet)") from None


# -- doubles that inexact JSON readers read exactly, too
#
# The JSON reader of sqld takes the digits as a 64-bit integer, rounds that to a double and multiplies or divides by a
# power of ten, so the shortest form of a double (0.1234567890123456) is wrong by one unit in the last place about
# once in ten times. Instead, digits are sent from which both ways of reading get the double.

_EXACT = 2**53
_LARGEST = 1.8e19  # the digits must fit an unsigned 64-bit integer


def encode_exact(number: float) -> Value:
    """Convert a finite double to a wire value with digits that an inexact JSON reader reads exactly."""
    text = literal(number)
    return Float(number if text is None else msgspec.Raw(text.encode()))  # type: ignore[arg-type]


def decode_argument(value: Value) -> SqlValue:
    """Convert an argument, possibly one of `encode_exact`, to a Python value."""
    if isinstance(value, Float) and isinstance(value.value, msgspec.Raw):
        return msgspec.json.decode(value.value, type=float)
    return decode(value)


def literal(number: float) -> str | None:
    """Return a JSON number for a finite double; None if no form is better than the shortest one."""
    size = abs(number)
    text, _, power = repr(size).partition("e")
    whole, _, fraction = text.removesuffix(".0").partition(".")
    if int(whole + fraction) < _EXACT and abs(int(power or 0) - len(fraction)) <= 22:
        return None  # a double over (or times) an exact power of ten: rounds once
    for digits, exponent in _digits(size):
        text = f"{'-' if number < 0 else ''}{digits}e{exponent}"
        if digits < _LARGEST and _read_carelessly(digits, exponent) == size and float(text) == number:
            return text
    return None


def _digits(size: float) -> Iterator[tuple[int, int]]:
    """Yield digits and exponents of a number: exact ones, and close ones if there are none."""
    for places in range(22, -1, -1):
        if size * 10.0**places < _LARGEST:
            yield int(size * 10.0**places), -places
    for places in (18, 17, 16):
        digits, _, tail = f"{size:.{places}e}".partition("e")
        middle, exponent = int(digits.replace(".", "")), int(tail) - places
        for step in range(8):
            yield middle + step * 128, exponent
            yield middle - step * 128, exponent


def _read_carelessly(digits: int, exponent: int) -> float:
    size = float(digits)
    if exponent < -308:
        size, exponent = size / 1e308, exponent + 308
    power = float(f"1e{abs(exponent)}")
    return size * power if exponent >= 0 else size / power
