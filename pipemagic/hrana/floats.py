"""Doubles as JSON numbers that careless readers read exactly, too.

The JSON reader of sqld takes the digits as a 64-bit integer, rounds that to a double and multiplies or divides by
a power of ten, so the shortest form of a double (``0.1234567890123456``) arrives off by one unit in the last place
about once in ten times. Where the integer is itself a double and the power of ten is one (up to 10**22), that
one division rounds once and correctly. So we look for such an integer; every correct reader gets the same double.
"""

from __future__ import annotations

import math

import msgspec

from pipemagic.hrana.values import Float, SqlValue, Value, decode, encode_float

_POWERS = [10.0**number for number in range(23)]
_EXACT = 2**53
_LARGEST = 1.8e19  # the digits must fit an unsigned 64-bit integer


class _ExactFloat(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="float"):
    """A `Float` whose JSON number is written by us."""

    value: msgspec.Raw


def exact(number: float) -> Value:
    """Give the wire value of a double (not NaN), written so that it survives a careless JSON reader.

    An infinity becomes null and a sign, which only our own service reads.
    """
    if not math.isfinite(number):
        return encode_float(number)
    text = literal(number)
    return Float(number) if text is None else _ExactFloat(msgspec.Raw(text.encode()))  # type: ignore[return-value]


def decode_argument(value: Value) -> SqlValue:
    """Return the Python value of an argument, be it one that `exact` wrote."""
    return msgspec.json.decode(value.value, type=float) if isinstance(value, _ExactFloat) else decode(value)


def literal(number: float) -> str | None:
    """Give a JSON number for a finite double, or None where the shortest form is as good as any."""
    mantissa, exponent = _digits(number)
    if abs(mantissa) < _EXACT and -22 <= exponent <= 22:
        return None  # a double over (or times) an exact power of ten: rounds once
    size = abs(number)
    for places in range(22, -1, -1):
        scaled = size * _POWERS[places]
        if scaled < _LARGEST and scaled == math.floor(scaled) and scaled / _POWERS[places] == size:
            return _written(number, int(scaled), -places)
    return _near(number)


def _near(number: float) -> str | None:
    """Look for digits that the careless and the correct way read alike, where the power of ten is no double."""
    size = abs(number)
    for places in (18, 17, 16):
        digits, _, tail = f"{size:.{places}e}".partition("e")
        middle, exponent = int(digits.replace(".", "")), int(tail) - places
        for step in range(8):
            for near in (middle + step * 128, middle - step * 128):
                text = _written(number, near, exponent)
                if near < _LARGEST and _carelessly(near, exponent) == size and float(text) == number:
                    return text
    return None


def _carelessly(digits: int, exponent: int) -> float:
    size = float(digits)
    if exponent < -308:
        size, exponent = size / 1e308, exponent + 308
    power = float(f"1e{abs(exponent)}")
    return size * power if exponent >= 0 else size / power


def _written(number: float, digits: int, exponent: int) -> str:
    return f"{'-' if number < 0 else ''}{digits}e{exponent}"


def _digits(number: float) -> tuple[int, int]:
    """Give mantissa and exponent of the shortest decimal form."""
    text, _, exponent = repr(number).partition("e")
    whole, _, fraction = text.partition(".")
    if fraction == "0":
        fraction = ""
    return int(whole + fraction), int(exponent or 0) - len(fraction)
