"""A DB-API cursor."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipemagic.dbapi import many
from pipemagic.dbapi.errors import ProgrammingError, converting
from pipemagic.dbapi.parameters import Parameters, binder, single_statement
from pipemagic.dbapi.rows import Row, Rows
from pipemagic.dbapi.types import DeclaredType
from pipemagic.errors import StatementError
from pipemagic.frames import arrow_polars, to_frame
from pipemagic.hrana.faults import RESPONSE_TOO_LARGE
from pipemagic.hrana.messages import StmtResult
from pipemagic.session.cell import Cell
from pipemagic.sql import ParsedStatement

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from pipemagic.dbapi.connection import Connection
    from pipemagic.dbapi.runner import Runner

Description = tuple[tuple[str, DeclaredType | None, None, None, None, None, None], ...]


class Cursor:
    """A cursor of PEP 249: runs statements and fetches their rows, tuples of None, int, float, str and bytes."""

    def __init__(self, connection: Connection, runner: Runner, *, stream: bool) -> None:
        self.connection = connection
        """The connection that it runs on."""
        self.arraysize = 1
        """The number of rows that `fetchmany` returns by default."""
        self.rowcount = -1
        """The rows that the last statement inserted, updated or deleted; -1 for any other, and for a query."""
        self.lastrowid: int | None = None
        """The rowid of the last INSERT or REPLACE of `execute`; None before."""
        self.description: Description | None = None
        """A tuple for each column: its name, its declared type or None, and five times None. None without columns."""
        self._runner, self._stream = runner, stream
        self._rows: Rows | None = None
        self._is_closed = False

    # -- run

    def execute(self, sql: str, parameters: Parameters = (), /) -> Cursor:
        """Run one statement; ``parameters`` are a sequence for ``?``, a mapping for ``:name``. Return the cursor."""
        self._reset()
        statement = single_statement(sql)
        if statement is None:
            return self
        with converting():
            cell = Cell(statement.text, (statement,), (binder(statement)(parameters),))
            if self._stream and statement.only_reads:
                self._show(self._runner.rows(cell, self))
                return self
            try:
                result = self._runner.run(cell)[0]
            except StatementError as error:
                if error.code != RESPONSE_TOO_LARGE or not statement.only_reads:
                    raise
                self._show(self._runner.rows(cell, self))
                return self
            self._show(Rows(result.cols, [result.rows]))
            self._count(statement, [result])
            if statement.verb in ("INSERT", "REPLACE") and result.last_insert_rowid is not None:
                self.lastrowid = int(result.last_insert_rowid)
        return self

    def executemany(self, sql: str, parameters: Iterable[Parameters], /) -> Cursor:
        """Run one statement that changes rows with each of some ``parameters``, in few requests. Return the cursor.

        Where each statement would commit by itself, all of them are applied or none.
        """
        self._reset()
        statement = single_statement(sql)
        if statement is None or not statement.changes_rows or statement.returns_rows:
            raise ProgrammingError("executemany() runs INSERT, UPDATE, DELETE and REPLACE without RETURNING")
        with converting():
            requests = many.requests(statement, parameters, self._runner.takes_records)
            first, second = next(requests, None), next(requests, None)
            self.rowcount = 0
            with self._runner.all_or_none(one_request=second is None) as atomic:
                while first is not None:
                    self._count(statement, self._runner.run_many(statement, first, atomic=atomic), add=True)
                    first, second = second, next(requests, None)
        return self

    def executescript(self, script: str, /) -> Cursor:
        """Run the statements of a script without parameters; their rows are dropped. Return the cursor."""
        self._reset()
        with converting():
            self._runner.run_script(script)
        return self

    # -- fetch

    def fetchone(self) -> Row | None:
        """Return the next row, None after the last one; raise ProgrammingError if the last statement is no query."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next ``size`` rows, by default ``arraysize``; fewer at the end."""
        return self._fetch(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """Return the rows that were not fetched yet."""
        return self._fetch(None)

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def fetch_df(self) -> pd.DataFrame:
        """Return the rows that were not fetched yet as a DataFrame, with the types of a cell of %%sql."""
        return to_frame(self._rest(), note=_warn)

    def fetch_arrow_table(self) -> pa.Table:
        """Return the rows that were not fetched yet as an Arrow table; requires pyarrow."""
        return arrow_polars.converter("arrow")(self._rest(), note=_warn)

    # -- the rest of PEP 249

    def setinputsizes(self, sizes: Sequence[Any], /) -> None:
        """Do nothing: sizes are not needed."""

    def setoutputsize(self, size: int, column: int | None = None, /) -> None:
        """Do nothing: sizes are not needed."""

    def close(self) -> None:
        """Drop the rows; no further call is possible."""
        self._drop()
        self._is_closed = True

    # -- inside

    def _reset(self) -> None:
        self._check_open()
        self._drop()
        self.description, self.rowcount = None, -1

    def _drop(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            with converting():
                rows.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ProgrammingError("the cursor is closed")
        self._runner.check_open()

    def _show(self, rows: Rows) -> None:
        self._rows = rows
        if rows.cols:
            types = [DeclaredType(col.decltype) if col.decltype else None for col in rows.cols]
            self.description = tuple(
                (col.name or "", type_, None, None, None, None, None)
                for col, type_ in zip(rows.cols, types, strict=True)
            )

    def _count(self, statement: ParsedStatement, results: Sequence[StmtResult], *, add: bool = False) -> None:
        if statement.changes_rows:
            changed = sum(result.affected_row_count or 0 for result in results)
            self.rowcount = self.rowcount + changed if add else changed

    def _fetch(self, count: int | None) -> list[Row]:
        rows = self._result()
        with converting():
            return rows.fetch(count)

    def _rest(self) -> StmtResult:
        rows = self._result()
        with converting():
            return rows.rest()

    def _result(self) -> Rows:
        """Return the rows of the last statement; raise ProgrammingError if it has none, as PEP 249 requires."""
        self._check_open()
        if self._rows is None or self.description is None:
            # psycopg's words, by which JupySQL knows that a statement has no rows.
            raise ProgrammingError("no results to fetch; run a query first")
        return self._rows


def _warn(note: str) -> None:
    warnings.warn(note, stacklevel=4)
