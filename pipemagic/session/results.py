"""What a cell gave: one outcome for each statement, and the frame it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pipemagic.errors import SessionError
from pipemagic.frames import Note, files, tables
from pipemagic.hrana.messages import StmtResult
from pipemagic.session.cells import Cell
from pipemagic.session.kinds import is_query, returns_rows, writes_rows
from pipemagic.session.reports import Failure, undone_from
from pipemagic.sql import Statement

if TYPE_CHECKING:
    from pandas import DataFrame

NAMES_FOR_TABLES = "-o takes one name for the last result, or one for each: -o a,_,c skips the second"


@dataclass(eq=False)
class Outcome:
    """A statement that ran, and its result as it came.

    ``name`` is that of its ``-- name:`` comment. ``undone`` tells that a rollback took back what it did. ``more`` tells
    that there are more rows than were asked for.
    """

    statement: Statement
    result: StmtResult = field(default_factory=StmtResult, repr=False)
    name: str = ""
    undone: bool = False
    more: bool = False
    _tables: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def has_columns(self) -> bool:
        """Whether the statement returns rows, be it none of them."""
        return bool(self.result.cols)

    @property
    def writes_rows(self) -> bool:
        """Whether it is a statement that says how many rows it changed."""
        return writes_rows(self.statement)

    @property
    def affected_row_count(self) -> int:
        """How many rows the statement inserted, updated or deleted."""
        return self.result.affected_row_count or 0

    def frame(self, note: Note | None = None) -> DataFrame:
        """Give the rows as a DataFrame, the same one each time.

        ``note`` is called, the first time, with a line for each column that could not get a type of its own.
        """
        frame: DataFrame = self.table("pandas", note)
        return frame

    def table(self, kind: str, note: Note | None = None) -> Any:
        """Give the rows as a table of one of `frames.tables.TYPES`: a DataFrame, or one of Polars, or of Arrow.

        UnsupportedError if the package for it is not installed.
        """
        if kind not in self._tables:
            tables.check_type(kind)
            self._tables[kind] = tables.to_table(self.result, kind, note=note)
        return self._tables[kind]

    def write(self, path: str | Path, form: str, note: Note | None = None) -> int:
        """Write the rows into a file, as ``csv`` or ``parquet``; gives how many (see `pipemagic.frames.files`)."""
        return files.WRITERS[form](Path(path).expanduser(), self.result.cols, self.result.rows, note=note)


def outcomes(cell: Cell, results: Sequence[StmtResult], limit: int | None = None) -> list[Outcome]:
    """Give the outcomes of the statements of a cell that ran; queries with at most ``limit`` rows."""
    names = cell.names or ("",) * len(cell.statements)
    done = [Outcome(*one) for one in zip(cell.statements, results, names, strict=False)]
    for outcome in done:
        rows = outcome.result.rows
        if limit is not None and len(rows) > limit and is_query(outcome.statement):
            outcome.result = msgspec.structs.replace(outcome.result, rows=rows[:limit])
            outcome.more = True
    return done


def check_tables(cell: Cell, wanted: int | None) -> None:
    """Refuse a cell of which it is clear that another number of its statements than is wanted returns columns."""
    if wanted is None:
        return
    told = [returns_rows(statement) for statement in cell.statements]
    if not told.count(True) <= wanted <= len(told) - told.count(False):
        raise SessionError(f"{_tables(told.count(True))}, not {wanted}; nothing was run", hint=NAMES_FOR_TABLES)


def _tables(count: int) -> str:
    return f"{count or 'no'} statement{'' if count == 1 else 's'} of the cell return{'s' if count == 1 else ''} columns"


def failed(failure: Failure, done: Sequence[Outcome], fault: str) -> CellResult:
    """Give what a cell did that failed; ``done`` are the outcomes of what ran, ``fault`` says in a line why."""
    cell, index = failure.cell, failure.error.index
    first = undone_from(failure)
    earlier = len(done) - failure.ran  # statements that were dealt with before
    if first is not None:
        for outcome in done[earlier + first :]:
            outcome.undone = True
    refused = cell.statements[index] if 0 <= index < len(cell.statements) else None
    return CellResult(tuple(done), rest=cell.statements[failure.ran :], failed=refused, fault=fault)


@dataclass(frozen=True, eq=False)
class CellResult:
    """What a cell gave, statement by statement.

    ``notes`` are lines to show before it; ``open_line`` says that a transaction is open, '' if none is. Of a cell that
    failed, ``rest`` holds the statements that did not run, ``failed`` the one among them which was refused, ``fault``
    why, in a line.
    """

    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...] = ()
    open_line: str = ""
    rest: tuple[Statement, ...] = ()
    failed: Statement | None = None
    fault: str = ""

    @property
    def total(self) -> int:
        """How many statements the cell has."""
        return len(self.outcomes) + len(self.rest)

    @property
    def tables(self) -> list[Outcome]:
        """The outcomes that have columns, in order."""
        return [outcome for outcome in self.outcomes if outcome.has_columns]

    @property
    def named(self) -> dict[str, Outcome]:
        """The outcomes by the names of their ``-- name:`` comments."""
        return {outcome.name: outcome for outcome in self.outcomes if outcome.name}

    def check_tables(self, wanted: int | None) -> None:
        """SessionError if not so many statements returned columns."""
        if wanted not in (None, len(self.tables)):
            raise SessionError(
                f"{_tables(len(self.tables))}, not {wanted}; the cell ran, and nothing was stored",
                hint=NAMES_FOR_TABLES,
            )

    @property
    def returned(self) -> Outcome | None:
        """The last outcome that has columns: the one whose frame is the cell's value."""
        return next((outcome for outcome in reversed(self.outcomes) if outcome.has_columns), None)

    @property
    def frame(self) -> DataFrame | None:
        """The cell's value; None if no statement returns columns."""
        return None if self.returned is None else self.returned.frame()
