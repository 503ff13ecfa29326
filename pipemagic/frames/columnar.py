"""The rows of a large result, stored by columns: about as large as their DataFrame.

They replace the list of rows in a result and support ``len``, iteration and slices. `RowsBuilder` collects them as they
arrive, by rows or by columns. The type of a column is known only at the end, so each chunk has the form of its
values, and no value changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, overload

from pipemagic.errors import ProtocolError
from pipemagic.frames.columns import ColumnBuilder, ColumnChunk, chunks_of, concat, not_as_wide
from pipemagic.hrana.messages import Col
from pipemagic.hrana.values import SqlValue, Value

if TYPE_CHECKING:
    import pandas as pd

CELLS_AT_ONCE = 200_000
"""The number of cells in rows that are collected before they are converted to columns."""

_ROWS_AT_ONCE = 10_000

MOST_NULLS = 2**26
"""The most NULLs in chunks without another value that are collected: 512 MB, of which a response has almost nothing."""


class ColumnarRows(Sequence[list[Value]]):
    """Rows by columns; ProtocolError unless there is a column for each of ``cols``. Slices are not copied."""

    def __init__(self, cols: Sequence[Col], columns: Sequence[Sequence[ColumnChunk]], count: int) -> None:
        if len(columns) != len(cols):
            raise not_as_wide()
        self.cols = tuple(cols)
        self.columns = [list(chunks) for chunks in columns]
        """The values of each column, in several chunks if there are several kinds."""
        self._count = count
        self.frames: list[pd.DataFrame] = []
        """Frames that share the memory of the numbers (see `to_pandas`); slices have the same list."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[list[Value]]:
        for some in self.batches():
            columns = [concat(chunks).wire() for chunks in some.columns]
            yield from map(list, zip(*columns, strict=True)) if columns else ([] for _ in range(len(some)))

    @overload
    def __getitem__(self, at: int) -> list[Value]: ...
    @overload
    def __getitem__(self, at: slice) -> ColumnarRows: ...
    def __getitem__(self, at: int | slice) -> list[Value] | ColumnarRows:
        if isinstance(at, slice):
            start, stop, step = at.indices(self._count)
            if step != 1:
                raise ValueError("only consecutive rows can be sliced")
            return self._cut(start, max(start, stop))
        row = range(self._count)[at]
        return next(iter(self._cut(row, row + 1)))

    def batches(self, count: int = _ROWS_AT_ONCE) -> Iterator[ColumnarRows]:
        """Yield the rows, ``count`` at a time."""
        return (self[start : start + count] for start in range(0, self._count, count))

    def tuples(self) -> Iterator[tuple[SqlValue, ...]]:
        """Yield the rows as Python values."""
        for some in self.batches():
            columns = [concat(chunks).items() for chunks in some.columns]
            yield from zip(*columns, strict=True) if columns else (() for _ in range(len(some)))

    def _cut(self, start: int, stop: int) -> ColumnarRows:
        some = ColumnarRows(self.cols, [list(_cut(chunks, start, stop)) for chunks in self.columns], stop - start)
        some.frames = self.frames
        return some


class RowsBuilder:
    """Collects rows as they arrive and returns `ColumnarRows` at the end."""

    def __init__(self, cols: Sequence[Col]) -> None:
        self.cols = tuple(cols)
        self._columns: list[list[ColumnBuilder]] = [[] for _ in cols]
        self._waiting: list[list[Value]] = []
        self._count = 0
        self._nulls = 0
        """NULLs in chunks without another value."""

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Sequence[list[Value]]) -> None:
        """Add rows; raise ProtocolError, possibly later, for rows of another width and invalid values."""
        self._count += len(rows)
        if isinstance(rows, ColumnarRows):
            if len(rows.columns) != len(self.cols):
                raise not_as_wide()
            self._store()
            self._check_nulls(rows)
            for column, chunks in zip(self._columns, rows.columns, strict=True):
                _add(column, chunks)
            return
        self._waiting += rows
        if len(self._waiting) * max(1, len(self.cols)) >= CELLS_AT_ONCE:
            self._store()

    def build(self) -> ColumnarRows:
        """Return all rows and start again; a column of one kind becomes one chunk."""
        self._store()
        columns, count = self._columns, self._count
        self._columns, self._count = [[] for _ in self.cols], 0
        return ColumnarRows(self.cols, [[builder.build() for builder in column] for column in columns], count)

    def _check_nulls(self, rows: ColumnarRows) -> None:
        self._nulls += sum(chunk.size for chunks in rows.columns for chunk in chunks if not chunk.kinds)
        if self._nulls > MOST_NULLS:
            raise ProtocolError(
                f"the result has more than {MOST_NULLS:,} NULLs in columns that have no other values",
                hint="omit these columns, or read fewer rows at a time (LIMIT)",
            )

    def _store(self) -> None:
        rows, self._waiting = self._waiting, []
        if rows:
            for column, chunk in zip(self._columns, chunks_of(rows, len(self.cols)), strict=True):
                _add(column, [chunk])


def _add(column: list[ColumnBuilder], chunks: Iterable[ColumnChunk]) -> None:
    for chunk in chunks:
        if not column or not column[-1].takes(chunk):
            column.append(ColumnBuilder())
        column[-1].add(chunk)


def columnar(cols: Sequence[Col], batches: Iterable[Sequence[list[Value]]]) -> ColumnarRows:
    """Convert all rows of batches to columns."""
    rows = RowsBuilder(cols)
    for batch in batches:
        rows.add(batch)
    return rows.build()


def _cut(chunks: Sequence[ColumnChunk], start: int, stop: int) -> Iterator[ColumnChunk]:
    begin = 0
    for chunk in chunks:
        first, last = max(start - begin, 0), min(stop - begin, chunk.size)
        if first < last:
            yield chunk.cut(first, last)
        begin += chunk.size
