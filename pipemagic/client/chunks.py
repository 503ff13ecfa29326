"""Cut the rows of a frame into statements that insert them, each small enough for any server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from pipemagic.errors import LoadError, StatementError
from pipemagic.frames import Column
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pipemagic.client.database import Database

AIM = 1_000_000
"""Bytes of a chunk: large enough for speed, and other writers never wait long."""

LIMIT = 4_500_000
"""Bytes that a chunk may have at most: a value of sqld may have 5 000 000."""

ARGUMENTS = 9_000
"""Arguments of one statement, where rows go as arguments; SQLite takes 32 766."""

FIRST = 1_000
"""Rows of the first chunk, before anything is known about their size."""


@dataclass(frozen=True)
class Chunk:
    """An INSERT for the rows from ``start`` to before ``stop``."""

    start: int
    stop: int
    sql: str
    args: list[Any] = field(repr=False)


class Chunks:
    """All rows, in order, as statements; iterate once."""

    def __init__(self, database: Database, columns: Sequence[Column], total: int, table: str) -> None:
        self.total = total
        self._columns = columns
        # A constraint of the table to be may say IGNORE or REPLACE, which would lose rows.
        self._into = f"INSERT OR ABORT INTO {quote(table)} ({', '.join(quote(column.name) for column in columns)}) "
        self._selected = ", ".join(column.form.select(number) for number, column in enumerate(columns))
        self._has_json = total > 0 and has_json(database)

    def __iter__(self) -> Iterator[Chunk]:
        start, rows = 0, FIRST if self._has_json else self._rows_of_arguments()
        while start < self.total:
            stop = min(start + rows, self.total)
            cells = [column.cells(start, stop) for column in self._columns]
            if not self._has_json:
                yield self._as_arguments(start, stop, cells)
            else:
                text = _json(cells)
                if len(text) > LIMIT and stop > start + 1:
                    rows = max(1, (stop - start) * AIM // len(text))
                    continue
                yield self._as_json(start, stop, text, cells)
                # At most twice as many as before: one odd row must not decide.
                rows = max(1, min(2 * rows, (stop - start) * AIM // len(text)))
            start = stop

    def _as_json(self, start: int, stop: int, text: bytes, cells: list[list[Any]]) -> Chunk:
        if len(text) > LIMIT:  # a single row: its values may each be as long as the whole text may
            return self._as_arguments(start, stop, cells)
        sql = f"{self._into}SELECT {self._selected} FROM json_each(?)"
        return Chunk(start, stop, sql, [text.decode()])

    def _as_arguments(self, start: int, stop: int, cells: list[list[Any]]) -> Chunk:
        rows: list[str] = []
        args: list[Any] = []
        for row in zip(*cells, strict=True):
            bound = [column.form.bind(cell) for column, cell in zip(self._columns, row, strict=True)]
            rows.append(f"({', '.join(sql for sql, _ in bound)})")
            args.extend(value for _, value in bound)
        return Chunk(start, stop, f"{self._into}VALUES {', '.join(rows)}", args)

    def _rows_of_arguments(self) -> int:
        return max(1, ARGUMENTS // len(self._columns))


def has_json(database: Database) -> bool:
    """Tell whether the server's SQLite unpacks JSON as we need it (3.41 and newer)."""
    try:
        database.execute("""SELECT value->>0, unhex('00'), json_type(value, '$[0]') FROM json_each('[["a"]]')""")
    except StatementError:
        return False
    return True


def _json(cells: list[list[Any]]) -> bytes:
    try:
        return msgspec.json.encode(list(zip(*cells, strict=True)))
    except (TypeError, ValueError) as error:
        raise LoadError(f"the rows cannot be written as JSON: {error}") from None
