"""Aggregates that SQLite lacks: variance, standard deviation and correlation.

Their sums are exact integers, in units of a power of two. So no digits are lost, however far the values are from zero,
and a window can remove values again. An infinite value makes the result NULL, which is SQLite's NaN.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import apsw

from pipemagic.hrana.values import SqlValue

FLAGS = int(apsw.SQLITE_INNOCUOUS | apsw.SQLITE_DETERMINISTIC)  # like SQLite's own: views and triggers may use them


def install(connection: apsw.Connection) -> None:
    """Register the aggregates."""
    for name in ("variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop"):
        connection.create_window_function(name, partial(_Variance, name), 1, flags=FLAGS)
    correlation: Any = _Correlation  # for the types of apsw, functions have any number of arguments
    connection.create_window_function("corr", correlation, 2, flags=FLAGS)


def number_of(value: SqlValue, name: str) -> float:
    """Return a number; raise for any other value, as SQLite's ``median()`` does. ``name`` is the function's."""
    if not isinstance(value, int | float):
        raise apsw.SQLError(f"input to {name}() is not numeric")
    return value


class _Sums:
    """The sums of some numbers in units of 2 ** -shift, and of their squares in the square of these units."""

    def __init__(self) -> None:
        self.count = self.shift = self.total = self.squares = 0

    def add(self, value: float, sign: int) -> tuple[int, int]:
        """Add a finite number, or remove it (-1). Return it in units, and the binary digits that these became finer."""
        number, denominator = value.as_integer_ratio()
        shift = denominator.bit_length() - 1
        finer = max(0, shift - self.shift)
        self.shift += finer
        self.total <<= finer
        self.squares <<= 2 * finer
        number <<= self.shift - shift
        self.count += sign
        self.total += sign * number
        self.squares += sign * number * number
        return number, finer

    @property
    def spread(self) -> int:
        """The sum of the squares of the differences from the mean, times the count."""
        return self.count * self.squares - self.total * self.total


class _Variance:
    """A variance, or its square root, by the name of the function."""

    def __init__(self, name: str) -> None:
        self._name, self._sums, self._infinite = name, _Sums(), 0

    def step(self, value: SqlValue, sign: int = 1) -> None:
        if value is None:
            return
        number = number_of(value, self._name)
        if math.isinf(number):
            self._infinite += sign
        else:
            self._sums.add(number, sign)

    def inverse(self, value: SqlValue) -> None:
        self.step(value, -1)

    def value(self) -> float | None:
        count = self._sums.count
        others = count if self._name.endswith("_pop") else count - 1
        if self._infinite or others < 1:
            return None
        result = _root if self._name.startswith("stddev") else _ratio
        return result(self._sums.spread, count * others << 2 * self._sums.shift)

    final = value


class _Correlation:
    """The correlation coefficient of Pearson; NULL if one of the columns has a single value."""

    def __init__(self) -> None:
        self._first, self._second, self._products, self._infinite = _Sums(), _Sums(), 0, 0

    def step(self, first: SqlValue, second: SqlValue, sign: int = 1) -> None:
        if first is None or second is None:
            return
        numbers = number_of(first, "corr"), number_of(second, "corr")
        if any(map(math.isinf, numbers)):
            self._infinite += sign
            return
        term, finer = self._first.add(numbers[0], sign)
        other, also = self._second.add(numbers[1], sign)
        self._products = (self._products << finer + also) + sign * term * other

    def inverse(self, first: SqlValue, second: SqlValue) -> None:
        self.step(first, second, -1)

    def value(self) -> float | None:
        first, second = self._first, self._second
        spreads = first.spread * second.spread
        if self._infinite or not spreads:
            return None
        product = first.count * self._products - first.total * second.total
        return (product << 64) / math.isqrt(spreads << 128)

    final = value


def _ratio(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf


def _root(numerator: int, denominator: int) -> float:
    """Return the square root of a ratio, which may itself be too large or too small for a float."""
    digits = max(0, 64 - (numerator.bit_length() - denominator.bit_length()) // 2)
    return math.isqrt((numerator << 2 * digits) // denominator) / (1 << digits)
