"""Cut rows into statements that insert them, each small enough for any server."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipemagic.errors import StatementError
from pipemagic.frames.cells import Cells, digits
from pipemagic.frames.records import Records
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pipemagic.client.database import Database

AIM = 2_000_000
"""Bytes of a chunk: large enough for speed, and other writers never wait long."""

LIMIT = 4_500_000
"""Bytes that a chunk may have at most: a value of sqld may have 5 000 000."""

ARGUMENTS = 9_000
"""Arguments of one statement, where each value is one; SQLite takes 32 766."""

FIRST = 1_000
"""Rows of the first chunk, before anything is known about their size."""

GROWTH = 4
"""How many times the rows of a chunk the next one may have at most: one odd row must not decide."""


@dataclass(frozen=True)
class Chunk:
    """An INSERT for the rows from ``start`` to before ``stop``."""

    start: int
    stop: int
    sql: str
    args: list[SqlValue] = field(repr=False)


class Chunks:
    """Makes the statements that insert rows into a table; ``rows`` is how many the next one takes."""

    def __init__(self, database: Database, table: str, names: Sequence[str]) -> None:
        # A constraint of the table to be may say IGNORE or REPLACE, which would lose rows.
        self._into = f"INSERT OR ABORT INTO {quote(table)} ({', '.join(map(quote, names))}) "
        self._takes_records = takes_records(database)
        self._most = sys.maxsize if self._takes_records else max(1, ARGUMENTS // len(names))
        self.rows = min(FIRST, self._most)

    def of(self, columns: Sequence[Cells], total: int, *, first: int = 0) -> Iterator[Chunk]:
        """Give the statements for all rows of some columns, in order; ``first`` is the number of the first one."""
        write = _as_records if self._takes_records else _as_arguments
        start = 0
        while start < total:
            stop = min(start + self.rows, total)
            rows, args, size = write(columns, start, stop)
            fitting = max(1, (stop - start) * AIM // size)
            if size > LIMIT and stop > start + 1:
                self.rows = fitting
                continue
            yield Chunk(first + start, first + stop, self._into + rows, args)
            self.rows = min(GROWTH * self.rows, fitting, self._most)
            start = stop


def _as_records(columns: Sequence[Cells], start: int, stop: int) -> tuple[str, list[SqlValue], int]:
    """Give the SQL of some rows, its arguments, and the size of these in bytes."""
    records = Records(stop - start)
    sql = records.query([cells.write(records, start, stop) for cells in columns])
    return sql, records.args, records.size


def _as_arguments(columns: Sequence[Cells], start: int, stop: int) -> tuple[str, list[SqlValue], int]:
    rows: list[str] = []
    args: list[SqlValue] = []
    for row in zip(*(cells.values(start, stop) for cells in columns), strict=True):
        rows.append(f"({', '.join('CAST(? AS REAL)' if isinstance(value, float) else '?' for value in row)})")
        args.extend(digits(value) if isinstance(value, float) else value for value in row)
    return f"VALUES {', '.join(rows)}", args, sum(map(_size, args))


def _size(arg: SqlValue) -> int:
    if isinstance(arg, str):
        return len(arg.encode())
    return len(arg) if isinstance(arg, bytes) else 8


def takes_records(database: Database) -> bool:
    """Tell whether the server's SQLite reads records exactly: it has powers of two and keeps text in UTF-8."""
    # Which form text has it knows only once it has read the schema.
    exact = "pow(2.0, -1074) > 0 AND pow(2.0, 1024) = 9e999 AND CAST(x'c3a9' AS TEXT) = 'é'"
    try:
        found = database.execute(f"SELECT {exact} FROM (SELECT count(*) FROM sqlite_master)")
    except StatementError:
        return False
    return found.rows == [(1,)]
