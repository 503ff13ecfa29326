"""The rows of a large result, kept by columns: about as large as the DataFrame that they become.

They stand in the place of the list of rows in a result: they can be counted, gone through and cut. `GrowingRows` takes
them as they come, by rows or by columns. Which type a column gets is known at the end only, so each part of it is kept
in the form that fits that part, and no value is changed by that: the columns become what those of the whole result
would (`pipemagic.frames.reading`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

from pipemagic.errors import ProtocolError
from pipemagic.frames import reading
from pipemagic.frames.collector import collector_paused
from pipemagic.frames.growing import GrowingColumn
from pipemagic.frames.parts import Part, part_of
from pipemagic.frames.texts import text_array
from pipemagic.hrana.messages import Col
from pipemagic.hrana.values import Blob, Float, Integer, SqlValue, Text, Value

if TYPE_CHECKING:
    import pandas as pd

AT_ONCE = 200_000
"""Cells that come by rows are put into columns when there are so many."""

_ROWS_AT_ONCE = 10_000


class StoredRows(Sequence[list[Value]]):
    """Rows by columns. A slice of them is another StoredRows, and copies nothing."""

    def __init__(self, cols: Sequence[Col], columns: Sequence[Sequence[Part]], count: int) -> None:
        self.cols = tuple(cols)
        self.columns = [list(parts) for parts in columns]
        """The values of each column; more than one part where there are several kinds."""
        self._count = count
        self._frames: list[pd.DataFrame] = []
        """What `guard` keeps; slices have the same list, as they have the same memory."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[list[Value]]:
        for some in self.some():
            columns = [[value for part in parts for value in part.wire()] for parts in some.columns]
            yield from map(list, zip(*columns, strict=True)) if columns else ([] for _ in range(len(some)))

    @overload
    def __getitem__(self, at: int) -> list[Value]: ...
    @overload
    def __getitem__(self, at: slice) -> StoredRows: ...
    def __getitem__(self, at: int | slice) -> list[Value] | StoredRows:
        if isinstance(at, slice):
            start, stop, step = at.indices(self._count)
            if step != 1:
                raise ValueError("only rows that follow each other can be cut out")
            return self._cut(start, max(start, stop))
        row = range(self._count)[at]
        return next(iter(self._cut(row, row + 1)))

    def some(self, count: int = _ROWS_AT_ONCE) -> Iterator[StoredRows]:
        """Give the same rows, some at a time."""
        return (self[start : start + count] for start in range(0, self._count, count))

    def tuples(self) -> Iterator[tuple[SqlValue, ...]]:
        """Give the rows as Python values."""
        for some in self.some():
            columns = [items_of(parts) for parts in some.columns]
            yield from zip(*columns, strict=True) if columns else (() for _ in range(len(some)))

    def arrays(self, note: reading.Note) -> list[Any]:
        """Give the array of every column, as `pipemagic.frames.to_frame` would of the whole result.

        They may share their memory with these rows: see `guard`.
        """
        return [
            _array(parts, col.name or f"number {number}", col.decltype or "", self._count, note)
            for number, (col, parts) in enumerate(zip(self.cols, self.columns, strict=True), start=1)
        ]

    def guard(self, frame: pd.DataFrame) -> None:
        """Keep these rows as they are when a frame that was made of their arrays is changed."""
        # pandas copies a column that is written to, if another frame has it as well. Only plain numbers are shared, and
        # to keep the other columns of each frame would be to keep them all for as long as the rows.
        self._frames.append(frame.select_dtypes(["int64", "float64"]))

    def _cut(self, start: int, stop: int) -> StoredRows:
        some = StoredRows(self.cols, [list(_cut(parts, start, stop)) for parts in self.columns], stop - start)
        some._frames = self._frames
        return some


class GrowingRows:
    """Takes rows as they come, and gives `StoredRows` when all of them are there."""

    def __init__(self, cols: Sequence[Col]) -> None:
        self.cols = tuple(cols)
        self._columns = [GrowingColumn() for _ in cols]
        self._waiting: list[list[Value]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Sequence[list[Value]]) -> None:
        """Take in some rows; ProtocolError, maybe later, for rows of another width and values that are none."""
        self._count += len(rows)
        if isinstance(rows, StoredRows):
            if len(rows.columns) != len(self.cols):
                raise _not_as_wide()
            self._store()
            self._add_columns(rows.columns)
            return
        self._waiting += rows
        if len(self._waiting) * max(1, len(self.cols)) >= AT_ONCE:
            self._store()

    def taken(self) -> StoredRows:
        """Give all of them; nothing may be added afterwards."""
        self._store()
        return StoredRows(self.cols, [column.taken() for column in self._columns], self._count)

    def _store(self) -> None:
        rows, self._waiting = self._waiting, []
        width = len(self.cols)
        if set(map(len, rows)) - {width}:
            raise _not_as_wide()
        if not rows:
            return
        with collector_paused(width * len(rows)):
            cells = list(chain.from_iterable(rows))
            self._add_columns([[part_of(cells[number::width])] for number in range(width)])

    def _add_columns(self, columns: Sequence[Sequence[Part]]) -> None:
        for column, parts in zip(self._columns, columns, strict=True):
            for part in parts:
                column.add(part)


def by_columns(cols: Sequence[Col], count: int, parts: Sequence[Part]) -> StoredRows:
    """Give rows of which each column is one part; ProtocolError if there are not as many as ``cols``."""
    if len(parts) != len(cols):
        raise _not_as_wide()
    return StoredRows(cols, [[part] for part in parts], count)


def stored(cols: Sequence[Col], batches: Iterable[Sequence[list[Value]]]) -> StoredRows:
    """Keep all rows of some batches."""
    rows = GrowingRows(cols)
    for batch in batches:
        rows.add(batch)
    return rows.taken()


def _not_as_wide() -> ProtocolError:
    return ProtocolError("the server sent rows that are not as wide as their columns")


def _cut(parts: Sequence[Part], start: int, stop: int) -> Iterator[Part]:
    begin = 0
    for part in parts:
        first, last = max(start - begin, 0), min(stop - begin, part.size)
        if first < last:
            yield part.cut(first, last)
        begin += part.size


def _array(parts: Sequence[Part], name: str, decltype: str, count: int, note: reading.Note) -> Any:
    """Give the array of a whole column."""
    kinds = frozenset(chain.from_iterable(part.kinds for part in parts))
    if not kinds:
        return reading.empty_array(count, decltype)
    if len(kinds) > 1:
        return reading.mixed_array(items_of(parts), set(kinds), name, note)
    part = whole(parts)
    if kinds == {Integer} and part.missing is not None:  # an array with a mask may be written to behind pandas' back
        return reading.integer_array(part.values.copy(), part.missing.copy(), decltype)
    if kinds == {Integer}:
        return reading.integer_array(_shared(part.values), None, decltype)
    if kinds == {Float}:
        if part.infinite:
            reading.note_infinities(name, note)
        return _shared(part.values)
    if kinds == {Text}:
        return text_array(part, decltype)
    assert kinds == {Blob}
    return reading.objects(part.values)


def _shared(numbers: Any) -> Any:
    """Give the array itself where `guard` keeps it as it is: since pandas 3, and if it is not the bytes that came."""
    return numbers if reading.pandas_version() >= 3 and numbers.flags.writeable else numbers.copy()


def items_of(parts: Iterable[Part]) -> list[SqlValue]:
    """Give the values of a column as Python has them."""
    return list(chain.from_iterable(part.items() for part in parts))


def whole(parts: Sequence[Part]) -> Part:
    """Give a column of one kind as one part."""
    if len(parts) == 1:
        return parts[0]
    column = GrowingColumn()
    for part in parts:
        column.add(part)
    (joined,) = column.taken()
    return joined
