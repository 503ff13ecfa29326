"""Convert rows of SQLite to JSON: by rows, as published clients read it, or by columns (see `hrana.columns`).

A large result stays in pieces until it is sent: each copy would take as much memory again, uncounted.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from pipemagic.hrana import values
from pipemagic.hrana.columns import CELL, Blobs, Column, Floats, Integers, Mixed, Nulls, Part, Texts
from pipemagic.hrana.messages import Col
from pipemagic.hrana.values import NULL, Float, Integer, SqlValue, Text, Value
from pipemagic.service.executor import Tenant
from pipemagic.service.limits import MemoryBudget

SqlRow: TypeAlias = tuple[SqlValue, ...]

MIN_COLUMN_ROWS = 256
"""Rows from which on values by columns are faster, for both sides."""
MOST_ROWS = 4096
"""Rows that are read at once, about."""
PIECE = 4 * 1024 * 1024
"""Bytes that rows read at once may have. In pieces of 1 MB, wide rows by columns take twice as long."""
STEP = 8
"""Rows that are read between two checks of their size."""

SMALL_RESPONSE = 64 * 1024
"""Bytes that a response may have before it takes from the memory for all responses."""
MEMORY_STEP = 1024 * 1024
"""Bytes that it takes at once, at least."""

encode = msgspec.json.Encoder().encode

_WIRE: dict[type, Callable[[Any], Value]] = {
    int: lambda number: Integer(str(number)),
    float: Float,  # JSON writes an infinity as null
    str: Text,
    type(None): lambda _: NULL,
    bytes: values.encode,
}
_WITH_SIGNS: dict[type, Callable[[Any], Value]] = {**_WIRE, float: values.encode_float}


def read(source: Iterator[SqlRow], size: int = PIECE, seconds: float = math.inf) -> list[SqlRow]:
    """Read rows until they have ``size`` bytes as JSON, or until ``seconds`` have passed."""
    rows: list[SqlRow] = []
    step, ends = 1, time.monotonic() + seconds
    while size > 0 and len(rows) < MOST_ROWS and (more := list(islice(source, step))):
        rows += more
        if time.monotonic() >= ends:
            break
        encoded = len(encode(more))
        size -= encoded
        step = min(2 * step, STEP, max(1, size * step // encoded))
    return rows


def to_wire(cells: Sequence[SqlValue], *, signs: bool) -> list[Value]:
    """Return values in their form on the wire; with ``signs``, infinities have one."""
    wire = _WITH_SIGNS if signs else _WIRE
    return [wire[type(cell)](cell) for cell in cells]


def to_part(rows: Sequence[SqlRow]) -> Part:
    """Return rows by columns; there must be at least one."""
    return Part(len(rows), [_column(cells) for cells in zip(*rows, strict=True)])


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

    A large response takes its bytes from the memory for all responses, in large parts; `release` returns them when
    the response was sent.
    """

    def __init__(self, limit: int, memory: MemoryBudget, tenant: Tenant) -> None:
        self.limit = self.left = limit
        self._memory, self._tenant = memory, tenant
        self.taken = 0
        """Bytes taken from the memory for all responses."""

    def spend(self, size: int) -> None:
        """Subtract ``size`` bytes; raise `TooLarge` if fewer are left, for this response or for all."""
        if size > self.left:
            raise TooLarge
        self.left -= size
        missing = self.limit - self.left - self.taken
        if missing > SMALL_RESPONSE:
            more = max(missing, MEMORY_STEP)
            if not self._memory.take(self._tenant, more):
                raise TooLarge(shared=True)
            self.taken += more

    def release(self) -> None:
        """Return the memory; an abandoned statement of the response gets none any more."""
        self.left = -1
        taken, self.taken = self.taken, 0
        if taken:
            self._memory.release(self._tenant, taken)


class WireResult(NamedTuple):
    """A statement's result whose columns and rows are JSON already (see `hrana.messages.StmtResult`)."""

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
        piece = read(rows)
        by_columns = self._by_columns and len(piece) >= MIN_COLUMN_ROWS
        pieces: list[bytes] = []
        while piece:
            self.count += len(piece)
            if by_columns:
                data = encode(to_part(piece))
                self._budget.spend(max(0, len(piece) * len(cols) * CELL - len(data)))  # columns of NULLs have no bytes
            else:
                data = encode([to_wire(row, signs=self._by_columns) for row in piece])[1:-1]
            self._budget.spend(len(data))
            pieces += [data, b","]
            piece.clear()  # before the next rows are read: they may be large
            piece += read(rows)
        begin, end = (b'{"parts":[', b"]}") if by_columns else (b"[", b"]")
        self.rows = [begin, *pieces[:-1], end]
        return ()

    def restart(self, unsent: bytes) -> None:  # noqa: ARG002 - all is sent after the statement
        """Forget the rows."""
        self.drop()
        self.count = 0

    def drop(self) -> None:
        """Return the bytes of the rows."""
        self._budget.left = self._left
