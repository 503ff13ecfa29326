"""Two databases compared: both send their rows in one order, side by side, and neither is in memory as a whole.

SQL has no function to sum up a range of rows by which equal ranges could be told for sure, so all rows travel once.
The order is SQLite's own (NULL, numbers, text, blobs; text by its bytes), by the key or, without one, by all columns.
Rows that are equal are compared by columns, many at a time, without a Python object for each value.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import eq
from typing import TYPE_CHECKING, Any

from pipemagic.errors import ParameterError, UnsupportedError
from pipemagic.explore.infinities import decoded, lacks_sign, sent
from pipemagic.explore.sources import Column, Source
from pipemagic.frames.columnar import ColumnarRows, columnar
from pipemagic.frames.columns import are_same, concat
from pipemagic.hrana.values import SqlValue, Value, decode
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pipemagic.client.database import Database

_ENCODINGS = {"UTF-8": "utf-8", "UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}
"""SQLite compares text by the bytes of the encoding that the database has."""

_FEW = 64
"""Rows that are compared one by one after a difference, and the fewest that are compared together."""

Row = tuple[SqlValue, ...]
Wire = Sequence[Value]


@dataclass
class Found:
    """What differs: the numbers, and the first rows of each kind. Without a key a row may be in it several times."""

    total: int = 0
    only_a: int = 0
    only_b: int = 0
    changed: int = 0
    by_column: dict[int, int] = field(default_factory=dict)
    rows_a: list[tuple[int, Row]] = field(default_factory=list)
    rows_b: list[tuple[int, Row]] = field(default_factory=list)
    pairs: list[tuple[Row, Row]] = field(default_factory=list)


class _Infinite(Exception):
    """The server sent an infinity without its sign."""


def compare(
    a: Source,
    b: Source,
    databases: tuple[Database, Database],
    key: Sequence[Column],
    rest: Sequence[Column],
    limit: int,
) -> Found:
    """Compare by key, or all columns if there is none; ParameterError if several rows have the same key."""
    encodings = [str(database.execute("PRAGMA encoding").rows[0][0]) for database in databases]
    if encodings[0] != encodings[1]:
        raise UnsupportedError(f"one database keeps text as {encodings[0]}, the other as {encodings[1]}")
    try:
        return _Comparison(a, b, databases, key, rest, limit, encodings[0]).run(signs=False)
    except _Infinite:  # once more, with the signs beside the rows
        return _Comparison(a, b, databases, key, rest, limit, encodings[0]).run(signs=True)


class _Comparison:
    def __init__(
        self, a: Source, b: Source, databases: tuple[Database, Database],
        key: Sequence[Column], rest: Sequence[Column], limit: int, encoding: str,
    ) -> None:  # fmt: skip
        self._sources, self._databases = (a, b), databases
        self._key, self._columns = len(key), [*key, *rest]
        self._limit, self._encoding = limit, _ENCODINGS[encoding]
        self._found = Found()
        self._together = _FEW

    def run(self, *, signs: bool) -> Found:
        with ExitStack() as stack:
            sides = [stack.enter_context(self._cursor(side, signs=signs)) for side in (0, 1)]
            self._merge(_Side(sides[0], signs=signs), _Side(sides[1], signs=signs))
        return self._found

    def _cursor(self, side: int, *, signs: bool) -> Any:
        one = self._sources[side]
        names = ["t." + quote(column.b if side else column.a) for column in self._columns]
        order = ", ".join(f"{name} COLLATE BINARY" for name in names[: self._key or None])
        shown = sent(names) if signs else ", ".join(names)
        return self._databases[side].cursor(f"SELECT {shown} FROM {one.rows} AS t ORDER BY {order}", one.args or None)

    def _merge(self, a: _Side, b: _Side) -> None:
        found = self._found
        while self._skip_same(a, b) and a.row is not None and b.row is not None:
            if a.row == b.row:
                found.total += 1
                self._check_key(a)
                a.move()
                b.move()
                continue
            one, other = self._order(a.values()), self._order(b.values())
            if one < other:
                self._only(a, 1)
            elif other < one:
                self._only(b, -1)
            elif self._key:
                self._change(a, b)
            else:
                self._same_place(a, b, one)
        while a.row is not None:
            self._only(a, 1)
        while b.row is not None:
            self._only(b, -1)

    def _skip_same(self, a: _Side, b: _Side) -> bool:
        """Skip rows that are the same on both sides, twice as many after each success; return True."""
        while (count := min(self._together, a.waiting, b.waiting)) >= _FEW:
            rows, others = a.peek(count), b.peek(count)
            pairs = zip(rows.columns, others.columns, strict=True)
            if not all(are_same(concat(one), concat(other)) for one, other in pairs):
                self._together //= 4
                if self._together < _FEW:
                    self._together = _FEW
                    break
                continue
            if self._key:
                keys = list(zip(*(concat(chunks).items() for chunks in rows.columns[: self._key]), strict=True))
                before = [] if a.last is None else [tuple(map(decode, a.last[: self._key]))]
                if any(map(eq, [*before, *keys], [*before, *keys][1:])):
                    raise self._not_unique()
            self._found.total += count
            self._together *= 2
            a.skip(count)
            b.skip(count)
        return True

    def _only(self, side: _Side, sign: int) -> None:
        self._note(side.values(), sign)
        self._check_key(side)
        side.move()

    def _note(self, row: Row, times: int) -> None:
        """Note a row that one side has more often than the other; ``times`` is less than zero for the second."""
        found = self._found
        if times > 0:
            found.only_a += times
            found.total += times
        else:
            found.only_b -= times
        rows = found.rows_a if times > 0 else found.rows_b
        if not self._key and rows and _exact(rows[-1][1]) == _exact(row):
            rows[-1] = (rows[-1][0] + abs(times), row)
        elif len(rows) < self._limit:
            rows.append((abs(times), row))

    def _change(self, a: _Side, b: _Side) -> None:
        found, one, other = self._found, a.values(), b.values()
        found.total += 1
        found.changed += 1
        for place, (left, right) in enumerate(zip(_exact(one), _exact(other), strict=True)):
            if left != right:
                found.by_column[place] = found.by_column.get(place, 0) + 1
        if len(found.pairs) < self._limit:
            found.pairs.append((one, other))
        self._check_key(a, b)
        a.move()
        b.move()

    def _same_place(self, a: _Side, b: _Side, place: tuple[Any, ...]) -> None:
        """Compare the rows that have no order among them (1 and 1.0): as a multiset."""
        counts: Counter[tuple[Any, ...]] = Counter()
        rows: dict[tuple[Any, ...], Row] = {}
        for side, sign in ((a, 1), (b, -1)):
            while side.row is not None and self._order(side.values()) == place:
                exact = _exact(side.values())
                rows[exact] = side.values()
                counts[exact] += sign
                self._found.total += sign > 0
                side.move()
        for exact, times in counts.items():
            if times:
                self._found.total -= max(times, 0)  # which _note counts again
                self._note(rows[exact], times)

    def _check_key(self, *sides: _Side) -> None:
        """Refuse a key that is there twice in one of them: two rows one after the other."""
        for side in sides:
            if (
                self._key
                and side.last is not None
                and self._order(side.decoded(side.last)) == self._order(side.values())
            ):
                raise self._not_unique()

    def _not_unique(self) -> ParameterError:
        return not_unique([column.a for column in self._columns[: self._key]])

    def _order(self, row: Row) -> tuple[Any, ...]:
        return tuple(map(self._place, row[: self._key or None]))

    def _place(self, value: SqlValue) -> tuple[int, Any]:
        """Return the key by which SQLite sorts a value."""
        match value:
            case None:
                return (0, 0)
            case int() | float():
                return (1, value)
            case str():
                return (2, value.encode(self._encoding))
        return (3, value)


class _Side:
    """The rows of one side: one at a time, or those that wait by columns."""

    def __init__(self, cursor: Any, *, signs: bool) -> None:
        self._cursor, self._batches = cursor, iter(cursor)
        self._signs = signs
        self._block, self._at = ColumnarRows(cursor.cols, [[] for _ in cursor.cols], 0), 0
        self._ready: deque[Wire] = deque()
        self.last: Wire | None = None
        self._values: Row | None = None

    @property
    def row(self) -> Wire | None:
        """The present row; None after the last one."""
        if not self._ready and self.waiting:
            self._ready.extend(self.peek(_FEW))
            self._at += _FEW
        return self._ready[0] if self._ready else None

    @property
    def waiting(self) -> int:
        """How many rows wait by columns; 0 before those that are taken one at a time are used up."""
        while not self._ready and self._at >= len(self._block):
            batch = next(self._batches, None)
            if batch is None:
                break
            self._block = batch if isinstance(batch, ColumnarRows) else columnar(self._cursor.cols, [batch])
            self._at = 0
        return 0 if self._ready else max(0, len(self._block) - self._at)

    def peek(self, count: int) -> ColumnarRows:
        """Return the first of the rows that wait."""
        return self._block[self._at : self._at + count]

    def skip(self, count: int) -> None:
        """Go on behind the first of the rows that wait."""
        self.last, self._values = self._block[self._at + count - 1], None
        self._at += count

    def move(self) -> None:
        """Go on to the next row."""
        self.last, self._values = self._ready.popleft(), None

    def values(self) -> Row:
        """Return the values of the row."""
        if self._values is None:
            row = self.row
            assert row is not None, "all rows are used up"
            self._values = self.decoded(row)
        return self._values

    def decoded(self, row: Wire) -> Row:
        """Return the values of a row; _Infinite if one is an infinity without a sign."""
        if self._signs:
            return decoded(row)
        if any(map(lacks_sign, row)):
            raise _Infinite
        return tuple(map(decode, row))


def not_unique(key: Sequence[str]) -> ParameterError:
    """Return the error for a key that several rows have."""
    return ParameterError(
        f"{', '.join(key)} is no key: several rows have the same one",
        hint="--key with more columns tells them apart; without a key whole rows are compared",
    )


def _exact(row: Row) -> tuple[Any, ...]:
    """Return a row in a form in which 1, 1.0 and '1' differ."""
    return tuple(map(exact, row))


def exact(value: SqlValue) -> tuple[str, SqlValue]:
    """Return a value with its type."""
    return type(value).__name__, value
