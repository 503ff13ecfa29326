"""Encode rows as fixed-length records in one argument of a statement, which reads them with ``substr`` and ``CAST``.

Numbers are digits, padded to the width of the largest. Texts and bytes are concatenated in another argument (a heap);
the record has the start and the length of each. A cell costs the server one ``substr`` of bytes, whose time does not
depend on the position, and one ``CAST``. Reading the same from JSON takes twice as long, and JSON has no bytes and no
infinities.

A double is an integer that is multiplied by a power of two, which is exact, or divided by a power of ten, which rounds
once and correctly. Decimals are not exact: the shortest ones that distinguish it from its neighbours
(17 digits) may be close to the middle between two doubles, where the result depends on the rounding of the reader.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from pipemagic.frames.columns import ColumnChunk, InvalidText, TextArray
from pipemagic.hrana.values import Float, Integer, SqlValue, Text

_Array: TypeAlias = np.ndarray[Any, Any]

_BLANK = ord(" ")
_EXACT = 2**53
_SMALLEST = -1074
"""The power of two of the smallest double."""

_LARGEST = 1.7976931348623157e308
_SHORT = 40
"""The most bytes of texts of one length that are stored in the record."""


class Records:
    """The rows of one statement: the fields of their records, and the heaps.

    Its parameters are ``?1``, ``?2`` and so on, with a ``prefix`` those of the prefix and the number.
    """

    def __init__(self, count: int, prefix: str = "?") -> None:
        self.count = count
        self._prefix = prefix
        self._fields: list[_Array] = []
        self._width = 0
        self._heaps: list[bytes | str] = []
        self.size = 0
        """Bytes of the arguments."""

    def add(self, column: ColumnChunk) -> str:
        """Add a column; return the SQL that reads it."""
        if not column.kinds:
            return "NULL"
        match next(iter(column.kinds)) if len(column.kinds) == 1 else None:
            case kind if kind is Integer:
                return self._number(column.values, column.missing)
            case kind if kind is Float:
                return self._doubles(column.values)
            case kind if kind is Text:
                return self._texts(column.values, column.missing)
            case kind if kind is None or kind is InvalidText:
                return self._mixed(column.values)
        lengths, missing = _lengths([cell or b"" for cell in column.values]), [cell is None for cell in column.values]
        heap = self._heap(b"".join(cell or b"" for cell in column.values))
        return self._sliced(heap, np.cumsum(lengths) - lengths, lengths, np.array(missing))

    @property
    def args(self) -> list[SqlValue]:
        """The arguments of the query: the records, then the heaps."""
        if not self._fields:  # all values are NULL
            return []
        return [np.concatenate(self._fields, axis=1).tobytes().decode(), *self._heaps]

    def query(self, columns: list[str]) -> str:
        """Return the SQL that reads the records, with an expression for each column."""
        # A join of two short sequences takes half the time of a long one. The LIMIT is there for its side effect:
        # without it SQLite would compute the sum again for every use of p.
        step = math.isqrt(self.count) + 1
        return (
            f"WITH RECURSIVE block(p) AS (SELECT 1 UNION ALL SELECT p + {self._width * step} FROM block LIMIT {step}), "
            f"line(p) AS (SELECT 0 UNION ALL SELECT p + {self._width} FROM line LIMIT {step}), "
            f"record(p) AS (SELECT block.p + line.p FROM block CROSS JOIN line LIMIT {self.count}) "
            f"SELECT {', '.join(columns)} FROM record WHERE true"
        )

    def _field(self, chars: _Array, missing: _Array | None = None) -> str:
        """Add a field, an array of as many bytes for each row; return the SQL of its bytes, NULL where missing.

        It must not be blank in other rows.
        """
        width = chars.shape[1]
        sql = f"substr(CAST({self._prefix}1 AS BLOB), p + {self._width}, {width})"
        self._fields.append(chars)
        self._width += width
        self.size += self.count * width
        if missing is None or not missing.any():
            return sql
        chars[missing] = _BLANK
        return f"nullif({sql}, x'{f'{_BLANK:02x}' * width}')"

    def _number(self, numbers: _Array, missing: _Array | None = None) -> str:
        """Add a field of signed integers; return the SQL of each."""
        # The most negative number has no absolute value in 64 bits, but its bits are right without the sign.
        digits = _digits(np.abs(numbers).view(np.uint64), numbers < 0)
        return f"CAST({self._field(digits, missing)} AS INTEGER)"

    def _doubles(self, numbers: _Array) -> str:
        """Add doubles, NaN for NULL, as integers: divided by a power of ten if all have few decimal places."""
        missing = np.isnan(numbers)
        numbers = np.where(missing, 0.0, numbers)
        places = None if has_signed_zero(numbers) else _decimal_places(numbers)  # integers have no signed zero
        if places is not None:
            whole = np.rint(numbers * 10.0**places).astype(np.int64)
            return f"{self._number(whole, missing)} / 1e{places}"
        whole, power = _in_binary(numbers)
        # As REAL, which has a negative zero.
        digits = self._field(_digits(np.abs(whole).astype(np.uint64), np.signbit(whole)))
        return f"CAST({digits} AS REAL) * pow(2.0, {self._number(power, missing)})"

    def _texts(self, texts: TextArray, missing: _Array | None) -> str:
        """Add short texts of one length to the record, others to a heap."""
        lengths = np.diff(texts.offsets)
        first, end = int(texts.offsets[0]), int(texts.offsets[-1])
        data = texts.data[first:end]
        present = np.ones(len(lengths), bool) if missing is None else ~missing
        width = int(lengths[present][0])
        if 0 < width <= _SHORT and (lengths == np.where(present, width, 0)).all():
            letters = data.reshape(-1, width)
            if missing is None:
                return f"CAST({self._field(letters)} AS TEXT)"
            if (letters != _BLANK).any(axis=1).all():
                chars = np.empty((len(lengths), width), np.uint8)
                chars[present] = letters
                return f"CAST({self._field(chars, missing)} AS TEXT)"
        heap = self._heap(data.tobytes(), text=True)
        return f"CAST({self._sliced(heap, texts.offsets[:-1] - first, lengths, missing)} AS TEXT)"

    def _mixed(self, cells: Sequence[SqlValue]) -> str:
        """Add values of several types: each to a heap, its type to the record."""
        written = [_written(cell) for cell in cells]
        lengths = _lengths([text for _, text in written])
        kinds = np.frombuffer(b"".join(kind for kind, _ in written), np.uint8).reshape(len(cells), 1)
        kind = self._field(kinds)
        heap = self._heap(b"".join(text for _, text in written))
        sql = self._sliced(heap, np.cumsum(lengths) - lengths, lengths, kinds[:, 0] == ord("n"))
        return (
            f"CASE CAST({kind} AS TEXT) WHEN 'i' THEN CAST({sql} AS INTEGER) WHEN 'r' THEN CAST({sql} AS REAL)"
            f" WHEN 't' THEN CAST({sql} AS TEXT) ELSE {sql} END"
        )

    def _heap(self, data: bytes, *, text: bool = False) -> str:
        """Add concatenated texts or blobs; return the SQL of all bytes."""
        data = data or b" "  # substr of no bytes at all is NULL
        self._heaps.append(data.decode() if text else data)
        self.size += len(data)
        return f"CAST({self._prefix}{len(self._heaps) + 1} AS BLOB)"

    def _sliced(self, heap: str, starts: _Array, lengths: _Array, missing: _Array | None) -> str:
        """Add the position of each piece of a heap to the record; return the SQL of the piece."""
        return f"substr({heap}, {self._number(starts + 1)}, {self._number(lengths, missing)})"


def has_signed_zero(numbers: _Array) -> bool:
    """Return True if one of the numbers is -0.0."""
    return bool((np.signbit(numbers) & (numbers == 0)).any())


def as_decimal(number: float) -> str:
    """Convert a double to text with 19 digits, which SQLite reads exactly."""
    if math.isinf(number):
        return "9e999" if number > 0 else "-9e999"
    # 19 digits of the largest double are too large for a reader.
    return f"{number:.18e}" if abs(number) < _LARGEST else repr(number)


def _digits(absolute: _Array, negative: _Array) -> _Array:
    """Return numbers as digits with the width of the largest, and a column for the sign if one is negative."""
    width = len(str(absolute.max(initial=0)))
    groups = -(-width // 4)
    quads = np.empty((len(absolute), groups), dtype=np.uint32)
    table, rest = _quads(), absolute
    for group in reversed(range(groups)):
        higher = rest // 10_000
        quads[:, group] = table[rest - higher * 10_000]
        rest = higher
    chars = quads.view(np.uint8).reshape(len(absolute), 4 * groups)[:, 4 * groups - width :]
    if not negative.any():
        return chars
    signs = np.where(negative, ord("-"), ord("0")).astype(np.uint8)
    return np.column_stack([signs, chars])


@cache
def _quads() -> _Array:
    """Return the numbers below 10 000 as four characters each."""
    return np.frombuffer("".join(f"{number:04}" for number in range(10_000)).encode(), dtype=np.uint32)


def _decimal_places(numbers: _Array) -> int | None:
    """Return the fewest decimal places that represent all numbers exactly, None for more than six."""
    for places in range(7):
        power = 10.0**places
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.rint(numbers * power)
            if (np.abs(whole) < _EXACT).all() and (whole / power == numbers).all():
                return places
    return None


def _in_binary(numbers: _Array) -> tuple[_Array, _Array]:
    """Return integers below 2**53, as doubles with the sign of each number, and their powers of two."""
    fraction, power = np.frexp(numbers)
    power = power.astype(np.int64) - 53
    deeper = np.maximum(0, _SMALLEST - power)  # such small numbers end in zeros
    whole, power = np.ldexp(fraction, 53 - deeper), power + deeper
    infinite = np.isinf(numbers)
    whole[infinite], power[infinite] = np.sign(numbers[infinite]), 1024
    return whole, power


def _written(value: SqlValue) -> tuple[bytes, bytes]:
    match value:
        case None:
            return b"n", b""
        case int():
            return b"i", b"%d" % value
        case float():
            return b"r", as_decimal(value).encode()
        case str():
            return b"t", value.encode()
        case InvalidText():
            return b"t", value
    return b"b", value


def _lengths(values: Sequence[bytes]) -> _Array:
    return np.fromiter(map(len, values), dtype=np.int64, count=len(values))
