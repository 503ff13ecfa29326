from __future__ import annotations

import math
import struct

from hypothesis import example, given
from hypothesis import strategies as st

from pipemagic.hrana.messages import encode
from pipemagic.hrana.values import Float, encode_exact, literal

POWERS = [float(f"1e{number}") for number in range(309)]


def careless(text: str) -> float:
    """Read a number as sqld does: digits as an integer, rounded, times or over a power of ten, rounded."""
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits, power = int(whole + fraction), int(exponent or 0) - len(fraction)
    size = float(abs(digits))
    if power < -308:
        size, power = size / 1e308, power + 308
    size = size * POWERS[power] if power >= 0 else size / POWERS[-power]
    return math.copysign(size, -1 if text.startswith("-") else 1)


def bits(number: float) -> bytes:
    return struct.pack("<d", number)


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(0.0)
@example(-0.0)
@example(5e-324)
@example(1.7976931348623157e308)
def test_every_reader_that_is_correct_reads_the_same_double(number) -> None:
    text = encode(encode_exact(number)).decode().partition('"value":')[2].rstrip("}")
    assert bits(float(text)) == bits(number)


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(0.6046602879796196)
def test_encoded_doubles_are_read_exactly_by_an_inexact_reader(number) -> None:
    text = literal(number)
    if text is not None:
        assert bits(careless(text)) == bits(number)


@given(st.floats(min_value=1e-3, max_value=1e15))
def test_most_ordinary_doubles_are_safe(number) -> None:
    text = literal(number) or repr(number)
    spacing = math.ulp(number)
    assert abs(careless(text) - number) <= spacing


def test_simple_numbers_stay_as_they_are() -> None:
    for number in (0.0, 1.5, 12.34, 1e22, 100.0):
        assert literal(number) is None
        assert encode_exact(number) == Float(number)
