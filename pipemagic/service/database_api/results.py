"""Convert SQLite rows to JSON: by rows, as published clients read it, or by columns (see `hrana.columns`).

A large result stays in pieces until it is sent: each copy would take as much memory again, uncounted.
"""

from __future__ import annotations

import math
import struct
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from sys import getsizeof
from typing import Any, NamedTuple, Protocol, TypeAlias

import apsw
import msgspec

from pipemagic.hrana import values
from pipemagic.hrana.columns import CELL, Blobs, Column, Floats, Integers, Mixed, Nulls, Texts
from pipemagic.hrana.messages import Col
from pipemagic.hrana.values import NULL, Blob, Float, Integer, SqlValue, Text, Value
from pipemagic.service.executor import Tenant
from pipemagic.service.memory import MemoryBudget, Reservation

SqlRow: TypeAlias = tuple[SqlValue, ...]

MIN_COLUMN_ROWS = 256
"""Rows from which on values by columns are faster, for both sides."""
MOST_ROWS = 4096
"""Rows that are read at once, about."""
PIECE = 2 * 1024 * 1024
"""Bytes that rows read at once may have, besides the last one. In pieces of 1 MB, wide rows by columns take twice as
long."""
STEP = 8
"""Rows that are read between two checks of their size and of the time."""
LARGE = 4 * 1024 * 1024
"""Bytes of SQLite's memory from which a row may be large, so that it is not encoded to know its size."""
SLICE = 3 * 64 * 1024
"""Characters or bytes of a value that are converted at once: a control character has six bytes in JSON.

It is a multiple of 3, so that only the last slice of a blob would have padding.
"""
COPIES = 4
"""The memory that a piece needs while it is converted, in its sizes; larger values are converted one by one."""

SMALL_RESPONSE = 64 * 1024
"""Bytes that a response may have before it takes from the memory for all requests."""
MEMORY_STEP = 256 * 1024
"""Bytes that it takes at once."""

encode = msgspec.json.Encoder().encode

_SLICES: dict[type, tuple[bytes, Callable[[Any], bytes]]] = {
    str: (encode(Text(""))[:-2], lambda text: encode(text)[1:-1]),
    bytes: (encode(Blob(""))[:-2], lambda data: b64encode(data).rstrip(b"=")),
}
"""The JSON before a long value, and the function that converts a slice of it."""

_WIRE: dict[type, Callable[[Any], Value]] = {
    int: lambda number: Integer(str(number)),
    float: Float,  # JSON writes an infinity as null
    str: Text,
    type(None): lambda _: NULL,
    bytes: values.encode,
}
_WITH_SIGNS: dict[type, Callable[[Any], Value]] = {**_WIRE, float: values.encode_float}


def read(source: Iterator[SqlRow], size: int = PIECE, seconds: float = math.inf) -> tuple[list[SqlRow], int]:
    """Read rows until they have ``size`` bytes or ``seconds`` have passed; return them and their bytes, about.

    The bytes are those as JSON, which is quick; or in memory, for the first row and while SQLite needs so much more
    that a row may be large.
    """
    rows: list[SqlRow] = []
    total, step, ends, most = 0, 1, time.monotonic() + seconds, apsw.memory_used() + LARGE
    while total < size and len(rows) < MOST_ROWS and (more := list(islice(source, step))):
        may_be_large = not rows or apsw.memory_used() >= most
        total += sum(getsizeof(cell) for row in more for cell in row) if may_be_large else len(encode(more))
        rows += more
        if time.monotonic() >= ends:
            break
        step = max(1, min(2 * step, STEP, (size - total) * len(rows) // total))
    return rows, total


def to_wire(cells: Sequence[SqlValue], *, signs: bool) -> list[Value]:
    """Return values in their form on the wire; with ``signs``, infinities have one."""
    wire = _WITH_SIGNS if signs else _WIRE
    return [wire[type(cell)](cell) for cell in cells]


def large_rows_to_json(rows: Sequence[SqlRow], *, signs: bool) -> Iterator[bytes]:
    """Yield the JSON of rows in pieces, with commas between the rows."""
    for number, row in enumerate(rows):
        if number:
            yield b","
        yield from row_to_json(row, signs=signs)


def row_to_json(row: SqlRow, *, signs: bool) -> Iterator[bytes]:
    """Yield the JSON of a row, value by value; long values in slices."""
    separator = b"["
    for cell in row:
        yield separator
        if isinstance(cell, str | bytes) and len(cell) > SLICE:
            head, slice_to_json = _SLICES[type(cell)]
            yield head
            for start in range(0, len(cell), SLICE):
                yield slice_to_json(cell[start : start + SLICE])
            yield b'"}'
        else:
            yield encode(to_wire((cell,), signs=signs))[1:-1]
        separator = b","
    yield b"]"


def part_to_json(rows: Sequence[SqlRow]) -> Iterator[bytes]:
    """Yield the JSON of rows as `hrana.columns.Part`, column by column; there must be at least one row."""
    separator = b'{"size":%d,"columns":[' % len(rows)
    for cells in zip(*rows, strict=True):
        yield separator
        yield encode(_column(cells))
        separator = b","
    yield b"]}"


def _column(cells: Sequence[Any]) -> Column:
    kinds = set(map(type, cells)) - {type(None)}
    if not kinds:
        return Nulls()
    if len(kinds) > 1:
        return Mixed(to_wire(cells, signs=True))
    (kind,) = kinds
    missing = None
    if None in cells:
        missing = bytes([cell is None for cell in cells])
        cells = [kind() if cell is None else cell for cell in cells]
    if kind is int:
        return Integers(_numbers("q", cells), missing)
    if kind is float:
        return Floats(_numbers("d", cells), missing)
    texts = list(map(str.encode, cells)) if kind is str else cells
    ends = _numbers("q", list(accumulate(map(len, texts))))
    return (Texts if kind is str else Blobs)(b"".join(texts), ends, missing)


def _numbers(code: str, numbers: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(numbers)}{code}", *numbers)


class TooLarge(Exception):
    """The response would exceed its limit, or all responses together theirs (``shared``)."""

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__()
        self.shared = shared


class Budget:
    """Counts the bytes that a response may still grow by.

    A large response takes its bytes from the memory for all requests: they are in its ``reservation``, which is
    released when it was sent.
    """

    def __init__(self, limit: int, memory: MemoryBudget, tenant: Tenant) -> None:
        self.limit = self.left = min(limit, memory.largest)
        self.memory, self.tenant = memory, tenant
        self.reservation = Reservation(memory, tenant)

    def spend(self, size: int, *, rows: int = 0, line: int = 0) -> None:
        """Subtract ``size`` bytes; raise `TooLarge` if fewer are left, for this response or for all.

        Until the next call, it also has what rows of ``rows`` bytes need while they are converted. ``line``: the bytes
        of a line that is made of them, which is copied when it is sent.
        """
        if size > self.left:
            raise TooLarge
        self.left -= size
        needed = self.limit - self.left + rows + COPIES * min(rows, PIECE) + 2 * line
        if needed <= SMALL_RESPONSE and not self.reservation.size:  # as in most responses
            return
        if needed > self.memory.largest:
            raise TooLarge
        steps = 0 if needed <= SMALL_RESPONSE else -(-needed // MEMORY_STEP)
        if not self.reservation.resize(steps * MEMORY_STEP):
            raise TooLarge(shared=True)

    def drop(self, left: int) -> None:
        """Return what was spent since ``left`` bytes were left."""
        self.left = left
        self.spend(0)


class WireResult(NamedTuple):
    """The result of a statement with columns and rows as JSON (see `hrana.messages.StmtResult`)."""

    cols: bytes
    rows: list[bytes]
    counts: dict[str, Any]

    def json(self) -> list[bytes]:
        """Return the JSON of the result, in pieces."""
        return [b'{"cols":', self.cols, b',"rows":', *self.rows, b",", encode(self.counts)[1:]]


class RowSink(Protocol):
    """The destination of the columns and rows of a statement."""

    cols: bytes
    rows: list[bytes]
    count: int

    def take(self, cols: tuple[Col, ...], rows: Iterator[SqlRow]) -> Iterable[bytes]:
        """Take all rows; yield pieces that can be sent before the next rows are read."""

    def restart(self, unsent: bytes) -> None:
        """Forget the rows: the statement starts again. Nothing was sent; ``unsent`` is the piece that was to be."""

    def drop(self) -> None:
        """Discard the rows: the statement failed."""

    def leave(self) -> None:
        """Leave the rows to the thread of an abandoned statement; they count as memory until it has left."""


class BufferedRows:
    """Keeps columns and rows for one response, within its budget.

    ``by_columns``: the client reads large results by columns.
    """

    def __init__(self, budget: Budget, *, want_rows: bool, by_columns: bool = False) -> None:
        self.cols, self.rows, self.count = b"[]", [b"[]"], 0
        self._budget, self._left = budget, budget.left
        self._want_rows, self._by_columns = want_rows, by_columns

    def take(self, cols: tuple[Col, ...], rows: Iterator[SqlRow]) -> Iterable[bytes]:
        """Keep all rows; raise `TooLarge` as soon as they exceed the limit."""
        if cols:
            self.cols = encode(cols)
            self._budget.spend(len(self.cols))
        if not self._want_rows:
            self.count = sum(1 for _ in rows)
            return ()
        piece, size = read(rows)
        by_columns = self._by_columns and len(piece) >= MIN_COLUMN_ROWS
        wire = _WITH_SIGNS if self._by_columns else _WIRE
        pieces: list[bytes] = []
        while piece:
            self.count += len(piece)
            self._budget.spend(0, rows=size)
            left = self._budget.left
            converted: Iterable[bytes]
            if by_columns:
                converted = part_to_json(piece)
            elif size > 2 * PIECE:
                converted = large_rows_to_json(piece, signs=self._by_columns)
            else:
                converted = (encode([[wire[type(cell)](cell) for cell in row] for row in piece])[1:-1],)
            for data in converted:
                self._budget.spend(len(data), rows=size)
                pieces.append(data)
            if by_columns:  # columns of NULLs have no bytes
                cells = len(piece) * len(cols) * CELL
                self._budget.spend(max(0, cells - (left - self._budget.left)), rows=size)
            pieces.append(b",")
            del piece  # before the next rows are read: they may be large
            piece, size = read(rows)
        self._budget.spend(0)
        begin, end = (b'{"parts":[', b"]}") if by_columns else (b"[", b"]")
        self.rows = [begin, *pieces[:-1], end]
        return ()

    def restart(self, unsent: bytes) -> None:  # noqa: ARG002 - all is sent after the statement
        """Forget the rows."""
        self.drop()
        self.count = 0

    def drop(self) -> None:
        """Return the bytes of the rows."""
        self._budget.drop(self._left)

    def leave(self) -> None:
        """Do nothing: no result has them."""
