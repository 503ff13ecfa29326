"""Staging tables, which hold rows until all have arrived: their names, their rows, and how old ones are removed.

The name holds the time of creation. The next load removes the tables that this process could not remove, and those that
are older than any load can be: a load under way must not lose its rows.
"""

from __future__ import annotations

import re
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipemagic.errors import PipemagicError, ServerError, StatementError
from pipemagic.frames.columns import ColumnChunk
from pipemagic.frames.encoder import Records, as_decimal
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pipemagic.client.database import Database

PREFIX = "_pipemagic_load_"
"""The beginning of the names of staging tables, which no list of tables shows."""

OLD = 6 * 3600
"""Seconds after which the staging table of any process is removed."""

AIM = 2_000_000
"""Bytes of a batch: large enough for speed, and other writers never wait long."""

LIMIT = 4_500_000
"""Bytes that a batch may have at most: a value of sqld may have 5 000 000."""

ARGUMENTS = 9_000
"""Arguments of one statement, where each value is one; SQLite takes 32 766."""

FIRST = 1_000
"""Rows of the first batch, when their size is not known yet."""

GROWTH = 4
"""The most rows of a batch, as a multiple of those before it: one small row must not decide."""

_NAME = re.compile(PREFIX + r"([0-9a-f]{8})_([0-9a-f]{8})\Z")

_left: set[str] = set()
"""Staging tables that this process created and could not remove."""


def new_name() -> str:
    """Return the name of a new staging table."""
    return f"{PREFIX}{int(time.time()):08x}_{secrets.token_hex(4)}"


def remove_leftovers(database: Database, *, older_than: float = OLD) -> list[str]:
    """Drop the staging tables of this process that are left, and those older than some seconds; return their names.

    One that cannot be dropped stays.
    """
    names = database.execute(
        f"SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB '{PREFIX}*' ORDER BY name"
    ).rows
    gone = []
    for name in (str(name) for (name,) in names):
        if name in _left or _age(name) > older_than:
            with suppress(StatementError, ServerError):
                database.execute(f"DROP TABLE IF EXISTS {quote(name)}")
                _left.discard(name)
                gone.append(name)
    return gone


def drop(database: Database, name: str) -> bool:
    """Drop a staging table of this process; return False for one that the next load has to drop."""
    try:
        database.execute(f"DROP TABLE IF EXISTS {quote(name)}")
    except (PipemagicError, KeyboardInterrupt):  # the caller raises the error that led here
        _left.add(name)
        return False
    return True


def _age(name: str) -> float:
    """Return the seconds since a staging table was created; 0.0 if its name does not say."""
    match = _NAME.match(name)
    return 0.0 if match is None else time.time() - int(match[1], 16)


# -- filling it


@dataclass(frozen=True)
class Batch:
    """An INSERT for the rows from ``start`` to before ``stop``."""

    start: int
    stop: int
    sql: str
    args: list[SqlValue] = field(repr=False)


class Batches:
    """Make the statements that insert rows into a table; ``rows`` is how many the next one takes."""

    def __init__(self, database: Database, table: str, names: Sequence[str]) -> None:
        # A constraint in the definition may say IGNORE or REPLACE, which would lose rows.
        self._into = f"INSERT OR ABORT INTO {quote(table)} ({', '.join(map(quote, names))}) "
        self._takes_records = takes_records(database)
        self._most = sys.maxsize if self._takes_records else max(1, ARGUMENTS // len(names))
        self.rows = min(FIRST, self._most)

    def of(self, columns: Sequence[ColumnChunk], total: int, *, first: int = 0) -> Iterator[Batch]:
        """Yield the statements for all rows of some columns, in order; ``first`` is the number of the first one."""
        write = _as_records if self._takes_records else _as_arguments
        start = 0
        while start < total:
            stop = min(start + self.rows, total)
            rows, args, size = write([column.cut(start, stop) for column in columns], stop - start)
            fitting = max(1, (stop - start) * AIM // max(size, 1))
            if size > LIMIT and stop > start + 1:
                self.rows = fitting
                continue
            yield Batch(first + start, first + stop, self._into + rows, args)
            self.rows = min(GROWTH * self.rows, fitting, self._most)
            start = stop


def _as_records(columns: Sequence[ColumnChunk], count: int) -> tuple[str, list[SqlValue], int]:
    """Return the SQL of some rows, its arguments, and the size of these in bytes."""
    records = Records(count)
    sql = records.query([records.add(column) for column in columns])
    return sql, records.args, records.size


def _as_arguments(columns: Sequence[ColumnChunk], _count: int) -> tuple[str, list[SqlValue], int]:
    rows: list[str] = []
    args: list[SqlValue] = []
    for row in zip(*(column.items() for column in columns), strict=True):
        rows.append(f"({', '.join('CAST(? AS REAL)' if isinstance(value, float) else '?' for value in row)})")
        args.extend(as_decimal(value) if isinstance(value, float) else value for value in row)
    sizes = (len(arg.encode() if isinstance(arg, str) else arg) if isinstance(arg, str | bytes) else 8 for arg in args)
    return f"VALUES {', '.join(rows)}", args, sum(sizes)


def takes_records(database: Database) -> bool:
    """Return True if the server's SQLite reads records exactly: it has powers of two and keeps text in UTF-8."""
    # SQLite knows the encoding only once it has read the schema.
    exact = "pow(2.0, -1074) > 0 AND pow(2.0, 1024) = 9e999 AND CAST(x'c3a9' AS TEXT) = 'é'"
    try:
        found = database.execute(f"SELECT {exact} FROM (SELECT count(*) FROM sqlite_master)")
    except StatementError:
        return False
    return found.rows == [(1,)]
