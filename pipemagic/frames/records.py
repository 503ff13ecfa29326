"""Rows as records of one width, and the SQL that reads them: how many rows reach a server in one statement.

Numbers stand in the records in digits, padded to the width that the largest needs. Texts and bytes stand one after
another in an argument of their own (a heap), and the record says where one begins and how long it is. So a cell costs
the server a ``substr`` of bytes, which does not look at what stands before it, and a ``CAST``. Reading the same from
JSON takes twice as long, and JSON has no bytes and no infinities.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from pipemagic.hrana.values import SqlValue

Array: TypeAlias = np.ndarray[Any, Any]

_BLANK = ord(" ")


class Records:
    """Some rows on their way into one statement: the fields of their records, and the heaps beside these."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._fields: list[Array] = []
        self._width = 0
        self._heaps: list[bytes | str] = []
        self.size = 0
        """Bytes of the arguments."""

    def field(self, chars: Array, missing: Array | None = None) -> str:
        """Add a field, an array of as many bytes for each row; gives the SQL of its bytes, NULL where missing.

        In no other row may it be blank.
        """
        width = chars.shape[1]
        sql = f"substr(CAST(?1 AS BLOB), p + {self._width}, {width})"
        self._fields.append(chars)
        self._width += width
        self.size += self.count * width
        if missing is None or not missing.any():
            return sql
        chars[missing] = _BLANK
        return f"nullif({sql}, x'{_BLANK:02x}')" if width == 1 else f"nullif({sql}, x'{f'{_BLANK:02x}' * width}')"

    def number(self, numbers: Array, missing: Array | None = None) -> str:
        """Add a field of signed integers; gives the SQL of each."""
        # The largest negative number has no positive one in 64 bits, but its bits are right without the sign.
        return f"CAST({self.digits(np.abs(numbers).view(np.uint64), numbers < 0, missing)} AS INTEGER)"

    def digits(self, absolute: Array, negative: Array, missing: Array | None = None) -> str:
        """Add a field of unsigned integers with signs; gives the SQL of their digits."""
        return self.field(_digits(absolute, negative), missing)

    def heap(self, data: bytes, *, text: bool = False) -> str:
        """Add texts or blobs one after another; gives the SQL of all the bytes."""
        data = data or b" "  # substr of no bytes at all is NULL
        self._heaps.append(data.decode() if text else data)
        self.size += len(data)
        return f"CAST(?{len(self._heaps) + 1} AS BLOB)"

    @property
    def args(self) -> list[SqlValue]:
        """The arguments of the query: the records, then the heaps."""
        return [np.concatenate(self._fields, axis=1).tobytes().decode(), *self._heaps]

    def query(self, columns: list[str]) -> str:
        """Give the SQL that reads the records, with an expression for each column."""
        # Two short sequences joined take half the time of a long one. The limit is there for its side effect:
        # without it SQLite would work out the sum again in every place where p stands.
        step = math.isqrt(self.count) + 1
        return (
            f"WITH RECURSIVE block(p) AS (SELECT 1 UNION ALL SELECT p + {self._width * step} FROM block LIMIT {step}), "
            f"line(p) AS (SELECT 0 UNION ALL SELECT p + {self._width} FROM line LIMIT {step}), "
            f"record(p) AS (SELECT block.p + line.p FROM block CROSS JOIN line LIMIT {self.count}) "
            f"SELECT {', '.join(columns)} FROM record WHERE true"
        )


def _digits(absolute: Array, negative: Array) -> Array:
    """Write numbers in as many digits as the largest has, and with a place for the sign if there is a negative one."""
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
def _quads() -> Array:
    """Give the numbers below 10 000 as four characters each."""
    return np.frombuffer("".join(f"{number:04}" for number in range(10_000)).encode(), dtype=np.uint32)
