"""Comparison of two tables, views or queries: columns, declared types, and rows.

In one database the server compares, and only differences are sent (`pipemagic.explore.diff_sql`). Two values are equal
only if they have the same type. A moment at midnight equals its day if one column is declared DATE and the other
DATETIME or TIMESTAMP.

Two databases send their rows in the same order, and they are compared as they arrive. SQL has no reliable checksum of a
range of rows, so all rows are sent once. The order is SQLite's (NULL, numbers, text, blobs; text by its bytes), by the
key or, without one, by all columns. Equal rows are compared by columns, many at a time, without a Python object for
each value.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from operator import eq
from typing import TYPE_CHECKING, Any

from pipemagic.client.statement_errors import may_be_invalid_text
from pipemagic.errors import ParameterError, PipemagicError, UnsupportedError
from pipemagic.explore import diff_sql
from pipemagic.explore.diff_result import ChangedValue, Diff, Row
from pipemagic.explore.diff_sql import (
    ColumnPair,
    Differences,
    DiffInput,
    common_columns,
    decode_row,
    key_columns,
    not_unique,
    read_input,
    sent_cells,
    typed,
    with_days,
)
from pipemagic.frames.columnar import ColumnarRows, columnar
from pipemagic.frames.columns import InvalidText, are_same, concat
from pipemagic.hrana.values import Float, SqlValue, Value, decode
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pipemagic.client.database import Database


def diff(
    database: Database,
    a: str,
    b: str | None = None,
    *,
    other: Database | None = None,
    key: Sequence[str] | None = None,
    limit: int = 10,
    places: tuple[str, str] = ("A", "B"),
    params: Mapping[str, SqlValue] | None = None,
) -> Diff:
    """Compare ``a`` with ``b`` of the same database or of ``other``; without ``b``, with the table of the same name.

    Both are tables, views or SELECTs. Rows are matched by ``key``, by default by the primary key if both have the same
    one; otherwise whole rows are compared. ``limit`` is the number of rows of each kind to return. ``places`` are the
    names of the databases, shown if both tables have the same name. ``params`` has the values of the parameters of
    SELECTs. Raise UnknownName for a wrong name, and ParameterError for a key that is not unique.
    """
    sides = read_input(database, a, params), read_input(other or database, a if b is None else b, params)
    columns = common_columns(*sides)
    if not columns or len(columns) > diff_sql.WIDEST:
        raise UnsupportedError(
            f"{sides[0].name} and {sides[1].name} have {len(columns)} columns in common; "
            f"at least 1 and at most {diff_sql.WIDEST} can be compared"
        )
    by = key_columns(*sides, columns, key)
    rest = [column for column in columns if column not in by]
    with_both = [column for column in columns if column.has_days_and_moments]
    sides = (
        with_days(sides[0], [column.a for column in with_both]),
        with_days(sides[1], [column.b for column in with_both]),
    )
    inconsistent: bool | None = False
    if other is not None and other is not database:
        differences = _compare_databases(*sides, (database, other), by, rest, limit)
    else:
        differences, inconsistent = diff_sql.compare_in_database(*sides, database, by, rest, limit)
    if sides[0].name == sides[1].name:
        first, second = (
            replace(side, name=f"{side.name} on {place}") for side, place in zip(sides, places, strict=True)
        )
        sides = first, second
    return _result(*sides, by, rest, differences, inconsistent)


def _result(
    a: DiffInput,
    b: DiffInput,
    key: Sequence[ColumnPair],
    rest: Sequence[ColumnPair],
    delta: Differences,
    inconsistent: bool | None,
) -> Diff:
    columns = [*key, *rest]
    names = tuple(column.a for column in columns)
    in_b = {column.b for column in columns}
    changes = [
        ChangedValue(row_a[: len(key)], name, value_a, value_b)
        for row_a, row_b in delta.changes
        for name, value_a, value_b in zip(names, row_a, row_b, strict=True)
        if typed(value_a) != typed(value_b)
    ]
    types = {column.a: (column.a, *column.types) for column in columns}
    return Diff(
        a.name, b.name, names[: len(key)], names,
        tuple(name for name, _ in a.columns if name not in names),
        tuple(name for name, _ in b.columns if name not in in_b),
        tuple(types[name] for name, kind in a.columns if name in types and kind.upper() != types[name][2].upper()),
        delta.total - delta.only_a - delta.changed, delta.only_a, delta.only_b, delta.changed,
        {names[at]: count for at, count in sorted(delta.by_column.items())}, inconsistent,
        tuple(delta.rows_a), tuple(delta.rows_b), tuple(changes),
    )  # fmt: skip


# -- two databases

_ENCODINGS = {"UTF-8": "utf-8", "UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}
"""Python's names of encodings: SQLite compares text by its bytes in the encoding of the database."""

_BLOCK = 64
"""Number of rows compared singly after a difference, and minimum number of rows compared together."""


class _UnsignedInfinity(Exception):
    """The server sent an infinity without its sign."""


def _compare_databases(
    a: DiffInput,
    b: DiffInput,
    databases: tuple[Database, Database],
    key: Sequence[ColumnPair],
    rest: Sequence[ColumnPair],
    limit: int,
) -> Differences:
    """Compare by key, or all columns without one. Raise ParameterError if the key is not unique."""
    encodings = [str(database.execute("PRAGMA encoding").rows[0][0]) for database in databases]
    if encodings[0] != encodings[1]:
        raise UnsupportedError(f"the databases have different text encodings: {encodings[0]} and {encodings[1]}")
    comparison = _Comparison((a, b), databases, key, rest, limit, _ENCODINGS[encodings[0]])
    try:
        return comparison.run(exactly=False)
    except _UnsignedInfinity:
        return comparison.run(exactly=True)
    except PipemagicError as error:
        if not may_be_invalid_text(error):
            raise
        return comparison.run(exactly=True)


class _Comparison:
    def __init__(
        self, sources: tuple[DiffInput, DiffInput], databases: tuple[Database, Database],
        key: Sequence[ColumnPair], rest: Sequence[ColumnPair], limit: int, encoding: str,
    ) -> None:  # fmt: skip
        self._sources, self._databases = sources, databases
        self._key, self._columns = len(key), [*key, *rest]
        self._limit, self._encoding = limit, encoding
        self._found, self._block = Differences(), _BLOCK

    def run(self, *, exactly: bool) -> Differences:
        """Compare all rows; ``exactly`` reads the signs of infinities, and texts as bytes, which may be invalid."""
        self._found, self._block = Differences(), _BLOCK
        with ExitStack() as stack:
            a, b = (_Rows(stack.enter_context(self._cursor(side, exactly=exactly)), exactly=exactly) for side in (0, 1))
            self._merge(a, b)
        return self._found

    def _cursor(self, side: int, *, exactly: bool) -> Any:
        source = self._sources[side]
        names = ["t." + quote(column.b if side else column.a) for column in self._columns]
        order = ", ".join(f"{name} COLLATE BINARY" for name in names[: self._key or None])
        cells = sent_cells(names) if exactly else ", ".join(names)
        statement = f"SELECT {cells} FROM {source.rows} AS t ORDER BY {order}"
        return self._databases[side].cursor(statement, source.args or None)

    def _merge(self, a: _Rows, b: _Rows) -> None:
        while self._skip_equal(a, b) and a.row is not None and b.row is not None:
            if _typed(a.row) == _typed(b.row):
                self._advance(a, b)
                continue
            order_a, order_b = self._sort_key(a.row), self._sort_key(b.row)
            if order_a < order_b:
                self._add_rows(a.row, 1)
                self._advance(a)
            elif order_b < order_a:
                self._add_rows(b.row, -1)
                self._advance(b)
            elif self._key:
                self._add_change(a.row, b.row)
                self._advance(a, b)
            else:
                self._compare_ties(a, b, order_a)
        for side, sign in ((a, 1), (b, -1)):
            while side.row is not None:
                self._add_rows(side.row, sign)
                self._advance(side)
        self._found.total = a.count

    def _skip_equal(self, a: _Rows, b: _Rows) -> bool:
        """Skip blocks of rows that are equal, doubling their size after each. Return True."""
        while (count := min(self._block, a.buffered, b.buffered)) >= _BLOCK:
            rows_a, rows_b = a.peek(count), b.peek(count)
            pairs = zip(rows_a.columns, rows_b.columns, strict=True)
            if not all(are_same(concat(chunk_a), concat(chunk_b)) for chunk_a, chunk_b in pairs):
                self._block = max(_BLOCK, self._block // 4)
                if count == _BLOCK:
                    break
                continue
            if self._key:
                keys = list(zip(*(concat(chunks).items() for chunks in rows_a.columns[: self._key]), strict=True))
                if a.last is not None:
                    keys.insert(0, a.last[: self._key])
                if any(map(eq, keys, keys[1:])):
                    raise self._not_unique()
            self._block *= 2
            a.skip(count)
            b.skip(count)
        return True

    def _advance(self, *sides: _Rows) -> None:
        """Go to the next row. Raise ParameterError if the current row has the key of the row before."""
        for side in sides:
            last, row = side.last, side.row
            if self._key and last is not None and row is not None and self._sort_key(last) == self._sort_key(row):
                raise self._not_unique()
            side.next()

    def _add_rows(self, row: Row, times: int) -> None:
        """Add occurrences of a row on one side only; ``times`` is negative for B."""
        differences = self._found
        differences.only_a += max(times, 0)
        differences.only_b += max(-times, 0)
        rows = differences.rows_a if times > 0 else differences.rows_b
        if not self._key and rows and _typed(rows[-1][1]) == _typed(row):
            rows[-1] = (rows[-1][0] + abs(times), row)
        elif len(rows) < self._limit:
            rows.append((abs(times), row))

    def _add_change(self, row_a: Row, row_b: Row) -> None:
        differences = self._found
        differences.changed += 1
        for at, (a, b) in enumerate(zip(_typed(row_a), _typed(row_b), strict=True)):
            if a != b:
                differences.by_column[at] = differences.by_column.get(at, 0) + 1
        if len(differences.changes) < self._limit:
            differences.changes.append((row_a, row_b))

    def _compare_ties(self, a: _Rows, b: _Rows, order: tuple[Any, ...]) -> None:
        """Compare rows with equal sort keys but different types (1 and 1.0) as multisets."""
        counts: Counter[tuple[Any, ...]] = Counter()
        rows: dict[tuple[Any, ...], Row] = {}
        for side, sign in ((a, 1), (b, -1)):
            while side.row is not None and self._sort_key(side.row) == order:
                rows[_typed(side.row)] = side.row
                counts[_typed(side.row)] += sign
                side.next()
        for row, times in counts.items():
            if times:
                self._add_rows(rows[row], times)

    def _not_unique(self) -> ParameterError:
        return not_unique([column.a for column in self._columns[: self._key]])

    def _sort_key(self, row: Row) -> tuple[Any, ...]:
        return tuple(map(self._value_sort_key, row[: self._key or None]))

    def _value_sort_key(self, value: SqlValue) -> tuple[int, Any]:
        match value:
            case None:
                return (0, 0)
            case int() | float():
                return (1, value)
            case str():
                return (2, value.encode(self._encoding))
            case InvalidText():
                return (2, bytes(value))
        return (3, value)


class _Rows:
    """The rows of one database, singly or in blocks by columns. ``count`` is the number of rows before the current."""

    def __init__(self, cursor: Any, *, exactly: bool) -> None:
        self._cursor, self._batches = cursor, iter(cursor)
        self._exactly = exactly
        self._batch, self._at = ColumnarRows(cursor.cols, [[] for _ in cursor.cols], 0), 0
        self._single: deque[Row] = deque()
        self.last: Row | None = None
        self.count = 0

    @property
    def row(self) -> Row | None:
        """The current row; None after the last one."""
        if not self._single and self.buffered:
            self._single.extend(map(self._decode, self.peek(_BLOCK)))
            self._at += _BLOCK
        return self._single[0] if self._single else None

    @property
    def buffered(self) -> int:
        """The number of rows that can be read as a block; 0 while rows are read singly."""
        while not self._single and self._at >= len(self._batch):
            batch = next(self._batches, None)
            if batch is None:
                break
            self._batch = batch if isinstance(batch, ColumnarRows) else columnar(self._cursor.cols, [batch])
            self._at = 0
        return 0 if self._single else max(0, len(self._batch) - self._at)

    def peek(self, count: int) -> ColumnarRows:
        """Return the next rows as a block."""
        return self._batch[self._at : self._at + count]

    def skip(self, count: int) -> None:
        """Skip the rows of a block."""
        self.last = self._decode(self._batch[self._at + count - 1])
        self._at += count
        self.count += count

    def next(self) -> None:
        """Go to the next row."""
        self.last = self._single.popleft()
        self.count += 1

    def _decode(self, row: Sequence[Value]) -> Row:
        """Return the values of a row. Raise _UnsignedInfinity if the sign of an infinity is unknown."""
        if self._exactly:
            return decode_row(row)
        if any(isinstance(cell, Float) and cell.value is None and not cell.sign for cell in row):
            raise _UnsignedInfinity
        return tuple(map(decode, row))


def _typed(row: Row) -> tuple[Any, ...]:
    return tuple(map(typed, row))
