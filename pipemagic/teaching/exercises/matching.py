"""Match the values and rows of two results, with arrays instead of a Python object for each row."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from pipemagic.frames.from_pandas import from_frame
from pipemagic.hrana.values import SqlValue

_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6}(?P<beyond>\d{0,3}))?)?(?:Z|[+-]\d\d:\d\d)?)?"
)
_MICROSECONDS = len("2024-01-31 10:30:00.123456")
_MIDNIGHT = " 00:00:00"
_PLAIN = {int, float, str, bytes, type(None)}
_LOOKED_AT = 1000  # rows
_NOISE = 1e-3
"""Expected numbers are the same if they differ by less than this part of the tolerance."""

LARGEST_WHOLE = 1e12
"""Larger floats are not exact: the last digits of a sum depend on the order of the rows."""
SMALLEST = 1e-6
"""Numbers nearer to 0 have the tolerance of this number."""


class Moments(list[SqlValue]):
    """The texts of a column of dates or times in a frame, which does not tell their form in SQL."""


def short_moment(value: Any) -> Any:
    """Return the same text for all ISO texts of a moment, without the time of midnight; other values as they are."""
    if isinstance(value, str) and (match := _MOMENT.fullmatch(value)):
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(value)
            moment = moment.astimezone(UTC) if moment.tzinfo else moment
            beyond = (match["beyond"] or "").ljust(3, "0")
            if beyond != "000":
                text = moment.isoformat(" ", "microseconds")
                return text[:_MICROSECONDS] + beyond + text[_MICROSECONDS:]
            return str(moment).removesuffix(_MIDNIGHT)
    return value


def columns_of(frame: pd.DataFrame) -> tuple[list[str], list[list[SqlValue]]]:
    """Return the names and the values of the columns, those of a named index first."""
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index(allow_duplicates=True)
    names = [str(name) for name in frame.columns]
    return names, [_values(frame.iloc[:, at].rename(name or "column")) for at, name in enumerate(names)]


def _values(series: pd.Series[Any]) -> list[SqlValue]:
    """Return the values as SQL stores them."""
    if series.dtype == object:
        values: list[SqlValue] = series.tolist()
        kinds = set(map(type, values))
        if kinds <= _PLAIN and (float not in kinds or int(series.isna().sum()) == values.count(None)):
            return values
    column = from_frame(series.to_frame().reset_index(drop=True))[0]
    if column.problem is not None:  # decimals with more digits than a float has
        return column.for_type("TEXT").values.items()
    values = column.values.items()
    if column.declared not in ("DATE", "DATETIME", "TIMESTAMP"):
        return values
    are_dates = all(value is None or str(value).endswith(_MIDNIGHT) for value in values)
    return Moments(map(short_moment, values) if are_dates else values)


class Column:
    """The expected values of a column, then the actual ones; equal values have the same code, NULL has -1.

    If the actual ones are moments, texts of the same moment are equal.
    """

    def __init__(self, name: str, expected: list[SqlValue], actual: list[SqlValue], tolerance: float) -> None:
        self.name = name
        self.values = np.empty(len(expected) + len(actual), object)
        self.values[:] = expected + actual
        has_floats = float in map(type, expected) or float in map(type, actual)
        equal = _snapped(self.values, len(expected), tolerance) if has_floats else self.values
        if isinstance(actual, Moments):
            equal = np.array([*map(short_moment, equal)], object)
        self.codes = pd.factorize(equal)[0].astype(np.int64)


def _snapped(values: Any, size: int, tolerance: float) -> Any:
    """Return values with the nearest expected number in the place of each that has a tolerance.

    These are all numbers if some expected ones are not whole, otherwise only those that are not whole themselves.
    The first ``size`` values are the expected ones.
    """
    kinds = list(map(type, values))
    numbers = np.array([v if kind in (int, float) else math.nan for v, kind in zip(values, kinds, strict=True)], float)
    whole = (numbers == np.round(numbers)) & (np.abs(numbers) < LARGEST_WHOLE)
    fractions = ~whole & np.array([kind is float for kind in kinds], bool)
    rows = np.flatnonzero(fractions | (fractions[:size].any() & ~np.isnan(numbers)))
    levels, first = np.unique(numbers[:size], return_index=True)
    levels, first = levels[~np.isnan(levels)], first[: np.sum(~np.isnan(levels))]
    if not len(levels):
        return values
    with np.errstate(invalid="ignore"):  # infinity minus itself
        starts = np.append(True, ~_are_close(levels[1:], levels[:-1], tolerance * _NOISE))
        after = np.searchsorted(levels, numbers[rows]).clip(0, len(levels) - 1)
        before = (after - 1).clip(0)
        nearest = np.where(numbers[rows] - levels[before] < levels[after] - numbers[rows], before, after)
        close = _are_close(levels[nearest], numbers[rows], tolerance)
    group = first[np.maximum.accumulate(np.where(starts, np.arange(len(levels)), 0))]
    snapped = values.copy()
    snapped[rows[close]] = values[group[nearest[close]]]
    return snapped


def _are_close(first: Any, second: Any, tolerance: float) -> Any:
    difference = np.abs(first - second)
    return np.isfinite(difference) & (difference <= tolerance * np.maximum(np.abs(first), SMALLEST))


class Rows:
    """The rows of both results by number, the actual ones after the expected ones, and which of them match.

    ``expected`` and ``actual`` are the matched rows, ``missing`` and ``extra`` the others.
    """

    def __init__(self, columns: Sequence[Column], size: int, given: int) -> None:
        self.columns, self.size, self.given = columns, size, given
        self.ids = self.ids_of(columns)
        every = np.arange(size + given)
        self.expected, self.actual = _pairs(self.ids, every[:size], every[size:])
        self.missing, self.extra = _without(every[:size], self.expected), _without(every[size:], self.actual)

    @property
    def are_same(self) -> bool:
        """True if both results have the same rows, in any order."""
        return not len(self.missing) and not len(self.extra)

    @property
    def traits(self) -> set[str]:
        """What the rows have in common that are missing, or too many: see `advice.of_count`."""
        is_extra = self.given > self.size
        rest, others = (self.extra, self.ids[: self.size]) if is_extra else (self.missing, self.ids[self.size :])
        kinds = {"repeated"} if np.isin(self.ids[rest], others).all() else set()
        first = [[column.values[row] for column in self.columns] for row in rest[:_LOOKED_AT]]
        return kinds | {"empty"} if all(None in row or 0 in row for row in first) else kinds

    @cached_property
    def unpaired(self) -> tuple[Any, Any]:
        """The missing and the extra rows that are in no pair of `near`."""
        *_, expected, actual = self.near
        return _without(self.missing, expected), _without(self.extra, actual)

    @property
    def different(self) -> int:
        """The number of pairs of `near`, and of the rows without a pair."""
        return len(self.missing) + len(self.unpaired[1])

    def repeats(self, columns: Iterable[Column]) -> tuple[bool, bool]:
        """Return whether the expected and the actual rows have the same values in some columns more than once."""
        ids = self.ids_of(columns)
        expected, actual = ids[: self.size], ids[self.size :]
        return len(np.unique(expected)) < len(expected), len(np.unique(actual)) < len(actual)

    def ids_of(self, columns: Iterable[Column]) -> Any:
        """Return a number for each row, equal for rows with the same values in some columns."""
        ids = np.zeros(self.size + self.given, np.int64)
        for column in columns:
            ids = pd.factorize(ids * (np.max(column.codes, initial=0) + 2) + column.codes + 1)[0].astype(np.int64)
        return ids

    def order_differs(self, keys: Iterable[Column], *, backwards: bool = False) -> Any:
        """Return for each matched row whether the row at its position in the other result has other keys."""
        ids = self.ids_of(keys)
        expected = ids[np.sort(self.expected)]
        return (expected[::-1] if backwards else expected) != ids[np.sort(self.actual)]

    @cached_property
    def near(self) -> tuple[Column | None, int, Any, Any]:
        """Return pairs of rows that do not match: a column, the number of pairs that differ only in it, all pairs.

        The other pairs are in the order of the rows; without any if the results have different numbers of rows.
        """
        missing, extra = self.missing, self.extra
        best: tuple[Column | None, Any, Any] = None, np.zeros(0, int), np.zeros(0, int)
        for column in self.columns if len(self.columns) > 1 else ():
            ids = self.ids_of(other for other in self.columns if other is not column)
            pairs = _pairs(ids, missing, extra)
            best = (column, *pairs) if len(pairs[0]) > len(best[1]) else best
        only, expected, actual = best
        if self.size != self.given:
            return only, len(expected), expected, actual
        rest = _without(missing, expected), _without(extra, actual)
        return only, len(expected), np.append(expected, rest[0]), np.append(actual, rest[1])


def _pairs(ids: Any, left: Any, right: Any) -> tuple[Any, Any]:
    """Return pairs of rows with the same id, each row at most once."""
    first, second = (
        ids[rows] * len(ids) + pd.Series(ids[rows]).groupby(ids[rows]).cumcount() for rows in (left, right)
    )
    _, at_left, at_right = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    return left[at_left], right[at_right]


def _without(rows: Any, others: Any) -> Any:
    return rows[~np.isin(rows, others, assume_unique=True)]
