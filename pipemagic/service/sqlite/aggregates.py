"""Aggregates: those that SQLite lacks, and percentiles in the place of SQLite's own, with the same results.

Sums for the variance, the standard deviation and the correlation are exact integers, in units of a power of two. So no
digits are lost, however far the values are from zero, and a window can remove values again. An infinite value makes the
result NULL, which is SQLite's NaN.

For a percentile, SQLite sorts the values in one step, which nothing stops, and whose time is the square of their number
if they arrive in a certain order: minutes for a million. The functions here sort runs of values, and find a percentile
by bisection.

Source: https://sqlite.org/percentile.html
"""

from __future__ import annotations

import math
import struct
from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import apsw

from pipemagic.hrana.values import SqlValue

_FLAGS = int(apsw.SQLITE_INNOCUOUS | apsw.SQLITE_DETERMINISTIC)  # like SQLite's own: views and triggers may use them
_RUN = 4096
"""The values of a run, which is sorted in less than a millisecond."""
_FEW = 64
"""New values that are inserted into the last run one by one, as those of a window are."""
_SAME = 0.001
"""The greatest difference between two fractions, relative to 1, that are the same."""


def install(connection: apsw.Connection) -> None:
    """Register those that SQLite lacks."""
    for name in ("variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop"):
        connection.create_window_function(name, partial(_Variance, name), 1, flags=_FLAGS)
    correlation: Any = _Correlation  # for the types of apsw, functions have any number of arguments
    connection.create_window_function("corr", correlation, 2, flags=_FLAGS)


def install_percentiles(connection: apsw.Connection, stopped: Callable[[], bool], hold: Callable[[int], None]) -> None:
    """Register the percentiles. ``hold`` counts bytes of memory, freed ones if negative; it may raise."""
    for name, count, whole in (
        ("median", 1, 1), ("percentile", 2, 100), ("percentile_cont", 2, 1), ("percentile_disc", 2, 1)
    ):  # fmt: skip
        factory = partial(_Percentile, name, whole, stopped, hold)
        connection.create_window_function(name, factory, count, flags=_FLAGS)


def _number_of(value: SqlValue, name: str) -> float:
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
        number = _number_of(value, self._name)
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
        numbers = _number_of(first, "corr"), _number_of(second, "corr")
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


class _Percentile:
    """The values of one group or window."""

    def __init__(self, name: str, whole: int, stopped: Callable[[], bool], hold: Callable[[int], None]) -> None:
        self._name, self._whole, self._stopped, self._hold = name, whole, stopped, hold
        self._given: SqlValue = None
        self._fraction: float | None = None
        self._runs: list[array[float]] = []
        self._new = array("d")
        self._count = self._bytes = 0
        self._result: float | None = None
        """The percentile of the present values, if it was computed."""

    def step(self, value: SqlValue, fraction: SqlValue = 0.5) -> None:
        if fraction is None or fraction != self._given:
            self._check(fraction)
        if value is not None:
            self._new.append(self._finite(value))
            self._result = None
        if len(self._new) >= _RUN:
            self._sort()

    def inverse(self, value: SqlValue, _: SqlValue = None) -> None:
        if value is None:
            return
        self._sort()
        self._result = None
        number = self._finite(value)
        for run in self._runs:
            place = bisect_left(run, number)
            if place < len(run) and run[place] == number:
                del run[place]
                self._count -= 1
                break
        self._runs = [run for run in self._runs if run]

    def value(self) -> float | None:
        self._sort()
        if self._result is None and self._runs and self._fraction is not None:
            self._result = self._percentile(self._fraction)
        return self._result

    final = value

    def __del__(self) -> None:
        self._hold(-self._bytes)

    def _check(self, fraction: SqlValue) -> None:
        """Keep the fraction; raise if it is not valid, or not that of the rows before."""
        part = _fraction_of(fraction) / self._whole
        if not 0 <= part <= 1:
            raise apsw.SQLError(f"the fraction argument to {self._name}() is not between 0.0 and {self._whole:.1f}")
        if self._fraction is None:
            self._fraction = part
        elif abs(part - self._fraction) > _SAME:
            raise apsw.SQLError(f"the fraction argument to {self._name}() is not the same for all input rows")
        self._given = fraction

    def _finite(self, value: SqlValue) -> float:
        number = float(_number_of(value, self._name))
        if math.isinf(number):
            raise apsw.SQLError(f"Inf input to {self._name}()")
        return number

    def _sort(self) -> None:
        """Move the new values to a run."""
        runs, new = self._runs, self._new
        if not new:
            return
        self._count += len(new)
        if (more := 8 * self._count - self._bytes) > 0:
            self._bytes += more
            self._hold(more)
        if len(new) <= _FEW and runs and len(runs[-1]) < 4 * _RUN:
            for number in new:
                insort(runs[-1], number)
        else:
            runs.append(array("d", sorted(new)))
        self._new = array("d")

    def _percentile(self, fraction: float) -> float:
        rank = fraction * (self._count - 1)
        low = self._ranked(int(rank))
        if self._name == "percentile_disc" or rank == int(rank):
            return low
        high = self._ranked(int(rank) + 1)
        between = low + (high - low) * (rank - int(rank))
        return between if math.isfinite(between) else low / 2 + high / 2

    def _ranked(self, rank: int) -> float:
        """Return the value with a rank, counted from 0: bisect all floats between the least and the greatest."""
        runs = self._runs
        if len(runs) == 1:
            return runs[0][rank]
        low, high = _order(min(run[0] for run in runs)), _order(max(run[-1] for run in runs))
        while low < high:
            if self._stopped():
                raise apsw.InterruptError("interrupted")
            middle = (low + high) // 2
            number = _in_order(middle)
            if sum(bisect_right(run, number) for run in runs) > rank:
                high = middle
            else:
                low = middle + 1
        return _in_order(low)


def _fraction_of(fraction: SqlValue) -> float:
    """Return a number, or that of a text, as SQLite reads it; NaN for any other value."""
    match fraction:
        case int() | float():
            return fraction
        case str() if fraction.isascii() and "_" not in fraction:
            with suppress(ValueError):
                return float(fraction)
    return math.nan


def _order(number: float) -> int:
    """Return the place of a number among all floats, counted from zero."""
    (bits,) = struct.unpack("<q", struct.pack("<d", abs(number)))
    return -bits if number < 0 else int(bits)


def _in_order(place: int) -> float:
    (number,) = struct.unpack("<d", struct.pack("<q", abs(place)))
    return -number if place < 0 else float(number)
