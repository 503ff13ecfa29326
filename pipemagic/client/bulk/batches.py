"""Insert rows in batches: each is one statement that reads its rows from records, or has an argument for each value."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

from pipemagic.errors import StatementError
from pipemagic.frames.columns import ColumnChunk, InvalidText
from pipemagic.frames.encoder import Records, as_decimal
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pipemagic.client.database import Database

AIM = 2_000_000
"""Bytes of a batch: large enough for speed, and small enough for other writers."""

LIMIT = 4_500_000
"""The most bytes of a batch: a value in sqld may have 5 000 000."""

ARGUMENTS = 9_000
"""Arguments of one statement with an argument for each value; SQLite takes 32 766."""

FIRST = 1_000
"""Rows of the first batch, before their size is known."""

_CASTS: dict[type, str] = {float: "CAST({} AS REAL)", InvalidText: "CAST({} AS TEXT)"}

GROWTH = 4
"""The largest growth of a batch over the previous one, which may have had unusually small rows."""


@dataclass(frozen=True)
class RowBatch:
    """An INSERT for the rows from ``start`` to before ``stop``.

    ``too_large`` is the description of a row that the server may refuse because of its size, otherwise empty.
    """

    start: int
    stop: int
    sql: str
    args: list[SqlValue] = field(repr=False)
    too_large: str = ""


class Batches:
    """The statements that insert rows; ``rows`` is the number of rows in the next one.

    ``into`` is the text of the INSERT before its rows, ``after`` the text after them. ``names`` are those of the values
    of a row. With ``records`` a statement reads records, which requires `takes_records`.
    """

    def __init__(
        self, into: str, names: Sequence[str], after: str = "", *, records: bool = True, first: int = FIRST
    ) -> None:
        self._into, self._names, self._after, self._records = into, names, after, records
        self._most = sys.maxsize if records else max(1, ARGUMENTS // len(names))
        self.rows = min(first, self._most)

    def of(self, columns: Sequence[ColumnChunk], total: int, *, first: int = 0) -> Iterator[RowBatch]:
        """Yield the statements for all rows of columns, in order; ``first`` is the number of the first row."""
        write = as_records if self._records else as_arguments
        start = 0
        while start < total:
            stop = min(start + self.rows, total)
            rows, args, size = write([column.cut(start, stop) for column in columns], stop - start)
            fitting = max(1, (stop - start) * AIM // max(size, 1))
            if size > LIMIT and stop > start + 1:
                self.rows = fitting
                continue
            too_large = "" if size <= LIMIT else self._describe(columns, start, first)
            yield RowBatch(first + start, first + stop, f"{self._into} {rows} {self._after}".rstrip(), args, too_large)
            self.rows = min(GROWTH * self.rows, fitting, self._most)
            start = stop

    def _describe(self, columns: Sequence[ColumnChunk], row: int, first: int) -> str:
        """Return the size of a row and of its largest cell."""
        cells = [column.cut(row, row + 1).items()[0] for column in columns]
        sizes = list(map(_size, cells))
        name, largest = max(zip(self._names, sizes, strict=True), key=itemgetter(1))
        return f"row {first + row + 1} has {sum(sizes):,} bytes, {largest:,} of them in column {name}"


def _size(value: SqlValue) -> int:
    """Return the bytes of a value, some for a number."""
    match value:
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
    return 8


def as_records(columns: Sequence[ColumnChunk], count: int, prefix: str = "?") -> tuple[str, list[SqlValue], int]:
    """Return the SQL of some rows, its arguments, and their size in bytes.

    The columns are ``column1`` and so on; the names of the parameters are the prefix with a number.
    """
    records = Records(count, prefix)
    sql = records.query([f"{records.add(column)} AS column{at}" for at, column in enumerate(columns, start=1)])
    return sql, records.args, records.size


def as_arguments(columns: Sequence[ColumnChunk], count: int, prefix: str = "?") -> tuple[str, list[SqlValue], int]:
    """Return the same with an argument for each value."""
    rows: list[str] = []
    args: list[SqlValue] = []
    numbers = iter(range(1, count * len(columns) + 1))
    for row in zip(*(column.items() for column in columns), strict=True):
        cells = [_CASTS.get(type(value), "{}") for value in row]
        rows.append(f"({', '.join(cell.format(f'{prefix}{next(numbers)}') for cell in cells)})")
        args.extend(as_decimal(value) if isinstance(value, float) else value for value in row)
    return f"VALUES {', '.join(rows)}", args, sum(map(_size, args))


def batches_for(database: Database, table: str, names: Sequence[str]) -> Batches:
    """Return the batches for all columns of a staging table."""
    # A constraint in the definition may have ON CONFLICT IGNORE or REPLACE, which would lose rows.
    into = f"INSERT OR ABORT INTO {quote(table)} ({', '.join(map(quote, names))})"
    return Batches(into, names, records=takes_records(database), first=FIRST)


def takes_records(database: Database) -> bool:
    """Return True if the server's engine reads records exactly and fast: SQLite with pow() and the encoding UTF-8."""
    # SQLite knows the encoding only after reading the schema. The new engine of the hosted service has no
    # pragma_data_version: it copies all records for each row, and had no recursions before version 0.8.
    exact = "pow(2.0, -1074) > 0 AND pow(2.0, 1024) = 9e999 AND CAST(x'c3a9' AS TEXT) = 'é'"
    try:
        query = f"SELECT {exact} FROM temp.pragma_data_version, (SELECT count(*) FROM sqlite_master)"
        result = database.execute(query)
    except StatementError:
        return False
    return result.rows == [(1,)]
