"""The cells of a column that is to be written, by kind: their Python values, and what they are in `Records`.

A double goes as an integer that is to be multiplied by a power of two, which is exact, or divided by a power of ten,
which rounds once and correctly. Its decimals would not do: the shortest ones that tell it from its neighbours
(17 digits) may lie close to the middle between two doubles, where the rounding of the reader decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pipemagic.frames.records import Array, Records
from pipemagic.hrana.values import SqlValue

_EXACT = 2**53
_SMALLEST = -1074
"""The power of two of the smallest double."""

_LARGEST = 1.7976931348623157e308
_SHORT = 40
"""Bytes up to which texts of one length stand in the record itself."""


class Cells(Protocol):
    """The cells of a column. ``start`` and ``stop`` are those of a slice."""

    def values(self, start: int, stop: int) -> Sequence[SqlValue]:
        """Give some as Python values."""

    def write(self, records: Records, start: int, stop: int) -> str:
        """Put some into records; gives the SQL that reads them."""

    def take(self, rows: Array) -> Cells:
        """Give the cells of these rows, NULL for row -1."""


@dataclass(frozen=True)
class Integers:
    """Integers of 64 bits and truth values; what is missing is 0."""

    numbers: Array
    missing: Array

    def values(self, start: int, stop: int) -> Sequence[SqlValue]:
        """Give some as Python values."""
        return _with_nulls(self.numbers[start:stop].tolist(), self.missing[start:stop])

    def write(self, records: Records, start: int, stop: int) -> str:
        """Write digits."""
        return records.number(self.numbers[start:stop], self.missing[start:stop])

    def take(self, rows: Array) -> Integers:
        """Give the cells of these rows, NULL for row -1."""
        return Integers(np.append(self.numbers, 0)[rows], np.append(self.missing, True)[rows])


@dataclass(frozen=True)
class Doubles:
    """Doubles, NaN for NULL. With ``places`` all are integers divided by that power of ten."""

    numbers: Array
    places: int | None = None

    def values(self, start: int, stop: int) -> Sequence[SqlValue]:
        """Give some as Python values."""
        numbers = self.numbers[start:stop]
        return _with_nulls(numbers.tolist(), np.isnan(numbers))

    def write(self, records: Records, start: int, stop: int) -> str:
        """Write integers, and powers of two where there are no decimal places."""
        missing = np.isnan(self.numbers[start:stop])
        numbers = np.where(missing, 0.0, self.numbers[start:stop])
        if self.places is not None:
            whole = np.rint(numbers * 10.0**self.places).astype(np.int64)
            return f"{records.number(whole, missing)} / 1e{self.places}"
        whole, power = _in_binary(numbers)
        # As REAL, which has a negative zero.
        digits = records.digits(np.abs(whole).astype(np.uint64), np.signbit(whole))
        return f"CAST({digits} AS REAL) * pow(2.0, {records.number(power, missing)})"

    def take(self, rows: Array) -> Doubles:
        """Give the cells of these rows, NULL for row -1."""
        return Doubles(np.append(self.numbers, math.nan)[rows], self.places)

    @property
    def signed_zero(self) -> bool:
        """Whether there is a -0.0 among them."""
        return bool((np.signbit(self.numbers) & (self.numbers == 0)).any())


def doubles(numbers: Array) -> Doubles:
    """Give the cells of doubles, in decimals if all have few of them."""
    if Doubles(numbers).signed_zero:  # integers have no sign then
        return Doubles(numbers)
    return Doubles(numbers, _decimal_places(numbers[~np.isnan(numbers)]))


def _decimal_places(numbers: Array) -> int | None:
    """Give the fewest decimal places that give back all the numbers exactly, None if many would be needed."""
    for places in range(7):
        power = 10.0**places
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.rint(numbers * power)
            if (np.abs(whole) < _EXACT).all() and (whole / power == numbers).all():
                return places
    return None


def _in_binary(numbers: Array) -> tuple[Array, Array]:
    """Give integers below 2**53, as doubles with the sign of each number, and the powers of two that go with them."""
    fraction, power = np.frexp(numbers)
    power = power.astype(np.int64) - 53
    deeper = np.maximum(0, _SMALLEST - power)  # what is so small has zeros at the end
    whole, power = np.ldexp(fraction, 53 - deeper), power + deeper
    infinite = np.isinf(numbers)
    whole[infinite], power[infinite] = np.sign(numbers[infinite]), 1024
    return whole, power


@dataclass(frozen=True)
class Moments:
    """Dates with a time, as ISO text with the digits of a unit (s, ms, us, ns), and what is to follow it."""

    when: Array
    unit: str
    zone: str

    def values(self, start: int, stop: int) -> Sequence[SqlValue]:
        """Give some as Python values."""
        letters = self._letters(start, stop)
        width = letters.shape[1]
        return _with_nulls(
            [text.decode() for text in letters.view(f"S{width}").ravel().tolist()], np.isnat(self.when[start:stop])
        )

    def write(self, records: Records, start: int, stop: int) -> str:
        """Write the text."""
        return f"CAST({records.field(self._letters(start, stop), np.isnat(self.when[start:stop]))} AS TEXT)"

    def take(self, rows: Array) -> Moments:
        """Give the cells of these rows, NULL for row -1."""
        return Moments(np.append(self.when, np.array("NaT", self.when.dtype))[rows], self.unit, self.zone)

    def _letters(self, start: int, stop: int) -> Array:
        width = len(np.datetime_as_string(np.datetime64("2000-01-01"), unit=self.unit))  # type: ignore[call-overload]
        texts = np.datetime_as_string(self.when[start:stop], unit=self.unit)  # type: ignore[call-overload]
        letters = texts.astype(f"S{width}").view(np.uint8).reshape(len(texts), width)
        letters[:, 10] = ord(" ")  # as SQLite itself writes it, in place of the T
        zone = np.frombuffer(self.zone.encode(), dtype=np.uint8)
        return np.hstack([letters, np.broadcast_to(zone, (len(texts), len(zone)))])


@dataclass(frozen=True)
class Texts:
    """Texts, or blobs, in a heap of bytes: where each begins and how long it is, 0 if it is missing."""

    heap: bytes | memoryview
    starts: Array
    lengths: Array
    missing: Array
    blobs: bool = False

    def values(self, start: int, stop: int) -> Sequence[SqlValue]:
        """Give some as Python values."""
        cells = _cut(self.heap, self.starts[start:stop], self.lengths[start:stop])
        return _with_nulls([cell if self.blobs else cell.decode() for cell in cells], self.missing[start:stop])

    def write(self, records: Records, start: int, stop: int) -> str:
        """Write short texts of one length themselves, else the places in the heap."""
        starts, lengths, missing = self.starts[start:stop], self.lengths[start:stop], self.missing[start:stop]
        width = int(lengths[0])
        if not self.blobs and 0 < width <= _SHORT and (lengths == width).all() and not missing.any():
            letters = np.lib.stride_tricks.sliding_window_view(np.frombuffer(self.heap, dtype=np.uint8), width)
            return f"CAST({records.field(letters[starts])} AS TEXT)"
        heap, starts = _piece(self.heap, starts, lengths)
        sql = _sliced(records, records.heap(heap, text=not self.blobs), starts, lengths, missing)
        return sql if self.blobs else f"CAST({sql} AS TEXT)"

    def take(self, rows: Array) -> Texts:
        """Give the cells of these rows, NULL for row -1."""
        starts, lengths = np.append(self.starts, 0)[rows], np.append(self.lengths, 0)[rows]
        return Texts(self.heap, starts, lengths, np.append(self.missing, True)[rows], self.blobs)


@dataclass(frozen=True)
class Objects:
    """Texts or blobs as Python has them, None for NULL; all of one kind."""

    cells: Sequence[Any]

    def values(self, start: int, stop: int) -> Sequence[SqlValue]:
        """Give some as Python values."""
        return self.cells[start:stop]

    def write(self, records: Records, start: int, stop: int) -> str:
        """Write them as `Texts`."""
        return heaped(self.cells[start:stop]).write(records, 0, stop - start)

    def take(self, rows: Array) -> Objects:
        """Give the cells of these rows, NULL for row -1."""
        return Objects(_taken(self.cells, rows))


@dataclass(frozen=True)
class Mixed:
    """Values of several kinds: each in a heap, and its kind in the record."""

    cells: Sequence[SqlValue]

    def values(self, start: int, stop: int) -> Sequence[SqlValue]:
        """Give some as Python values."""
        return self.cells[start:stop]

    def write(self, records: Records, start: int, stop: int) -> str:
        """Write the kinds, and the places in a heap."""
        cells = self.cells[start:stop]
        written = [_written(cell) for cell in cells]
        heap, starts, lengths = _joined([text for _, text in written])
        kinds = np.frombuffer(b"".join(kind for kind, _ in written), dtype=np.uint8).reshape(len(cells), 1)
        kind = records.field(kinds)
        sql = _sliced(records, records.heap(heap), starts, lengths, kinds[:, 0] == ord("n"))
        return (
            f"CASE CAST({kind} AS TEXT) WHEN 'i' THEN CAST({sql} AS INTEGER) WHEN 'r' THEN CAST({sql} AS REAL)"
            f" WHEN 't' THEN CAST({sql} AS TEXT) ELSE {sql} END"
        )

    def take(self, rows: Array) -> Mixed:
        """Give the cells of these rows, NULL for row -1."""
        return Mixed(_taken(self.cells, rows))


def of_values(values: Sequence[Any]) -> Cells:
    """Give the cells of what SQLite stores, by their kind if all have one."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {int}:
        return Integers(np.array([value or 0 for value in values], dtype=np.int64), _nulls(values))
    if kinds == {float}:
        return doubles(np.array([math.nan if value is None else value for value in values], dtype=np.float64))
    return Objects(values) if kinds in ({str}, {bytes}) else Mixed(values)


def heaped(values: Sequence[Any]) -> Texts:
    """Give texts or blobs, all of one kind, one after another."""
    kind = next((type(value) for value in values if value is not None), str)
    data = (
        list(map(str.encode, (value or "" for value in values))) if kind is str else [value or b"" for value in values]
    )
    return Texts(*_joined(data), _nulls(values), blobs=kind is bytes)


def digits(number: float) -> str:
    """Write a double so that SQLite reads it back exactly: 19 digits lie within a hundredth of its place."""
    if math.isinf(number):
        return "9e999" if number > 0 else "-9e999"
    # 19 digits of the largest double are too large for a reader.
    return f"{number:.18e}" if abs(number) < _LARGEST else repr(number)


def _written(value: SqlValue) -> tuple[bytes, bytes]:
    match value:
        case None:
            return b"n", b""
        case int():
            return b"i", b"%d" % value
        case float():
            return b"r", digits(value).encode()
        case str():
            return b"t", value.encode()
    return b"b", value


def _joined(values: Sequence[bytes]) -> tuple[bytes, Array, Array]:
    """Give blobs one after another, where each begins, and how long it is."""
    lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
    return b"".join(values), np.cumsum(lengths) - lengths, lengths


def _sliced(records: Records, heap: str, starts: Array, lengths: Array, missing: Array) -> str:
    """Add to the record where each piece of a heap is; gives the SQL of the piece."""
    return f"substr({heap}, {records.number(starts + 1)}, {records.number(lengths, missing)})"


def _piece(heap: bytes | memoryview, starts: Array, lengths: Array) -> tuple[bytes, Array]:
    """Give a heap with no more than some cells in it, and where they begin there: mostly they are side by side."""
    present = lengths > 0
    first, end = int(starts[present].min(initial=len(heap))), int((starts + lengths)[present].max(initial=0))
    if end - first <= int(lengths.sum()):
        return bytes(heap[first:end]), np.where(present, starts - first, 0)
    return b"".join(_cut(heap, starts, lengths)), np.cumsum(lengths) - lengths


def _cut(heap: bytes | memoryview, starts: Array, lengths: Array) -> list[bytes]:
    return [bytes(heap[start:stop]) for start, stop in zip(starts.tolist(), (starts + lengths).tolist(), strict=True)]


def _taken(values: Sequence[Any], rows: Array) -> list[Any]:
    known = [*values, None]  # at -1
    return [known[row] for row in rows.tolist()]


def _nulls(values: Sequence[Any]) -> Array:
    return np.array([value is None for value in values], dtype=bool)


def _with_nulls(values: list[Any], missing: Array) -> list[SqlValue]:
    for row in np.flatnonzero(missing).tolist():
        values[row] = None
    return values
