"""The results of a cell: an outcome for each statement, and the frame that the cell returns.

A result that is too large for one response is fetched with a cursor, if its statement only reads. The cursor runs on
the stream of the cells, so it sees uncommitted changes of an open transaction.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pipemagic import sql
from pipemagic.client.cursor import Cursor, described
from pipemagic.client.stream import ClientStream, Dialect, Run
from pipemagic.errors import InterruptedRequest, SessionError, StatementError, UnknownOutcome
from pipemagic.frames import Note, arrow_polars, files, to_frame
from pipemagic.frames.columnar import RowsBuilder
from pipemagic.frames.logical_types import stored_with_time
from pipemagic.hrana.faults import RESPONSE_TOO_LARGE
from pipemagic.hrana.messages import Stmt, StmtResult
from pipemagic.hrana.stream import Phase
from pipemagic.session import interrupts
from pipemagic.session.cell import Cell, Scope
from pipemagic.sql import ParsedStatement
from pipemagic.text import plural

if TYPE_CHECKING:
    from pandas import DataFrame

NAMES_FOR_TABLES = "-o takes one name for the last result, or one for each: -o a,_,c skips the second"


@dataclass(eq=False)
class Outcome:
    """A statement that ran, and its result.

    ``name`` is that of its ``-- name:`` comment. ``undone`` marks one that was rolled back. ``more`` is True if there
    are more rows than requested. ``scope`` has the tables of a statement that reads frames.
    """

    statement: ParsedStatement
    result: StmtResult = field(default_factory=StmtResult, repr=False)
    name: str = ""
    undone: bool = False
    more: bool = False
    scope: Scope | None = field(default=None, repr=False)
    _tables: dict[str, Any] = field(default_factory=dict, repr=False)
    _notes: set[str] = field(default_factory=set, repr=False)

    @property
    def has_columns(self) -> bool:
        """Whether the statement returns columns, even without rows."""
        return bool(self.result.cols)

    @property
    def affected_row_count(self) -> int:
        """The number of rows that the statement inserted, updated or deleted."""
        return self.result.affected_row_count or 0

    @property
    def timed(self) -> list[bool]:
        """For each column, whether it is declared as dates and some of its texts have a time."""
        return stored_with_time(self.result)

    def frame(self, note: Note | None = None) -> DataFrame:
        """Return the rows as a DataFrame, the same object each time.

        ``note`` is called with a sentence for each column that could not be converted to its type, once for an outcome.
        """
        frame: DataFrame = self.table("pandas", note)
        return frame

    def table(self, kind: str, note: Note | None = None) -> Any:
        """Return the rows as a table of one of `frames.arrow_polars.TYPES`: a DataFrame, or one of Polars or Arrow.

        Raise UnsupportedError if the package for it is not installed.
        """
        if kind not in self._tables:
            convert = to_frame if kind == "pandas" else arrow_polars.converter(kind)
            self._tables[kind] = convert(self.result, note=note and partial(self._note_once, note))
        return self._tables[kind]

    def write(self, path: str | Path, form: str, note: Note | None = None, *, encoding: str = "utf-8") -> int:
        """Write the rows to a file, as ``csv`` or ``parquet``; return their number (see `pipemagic.frames.files`).

        ``encoding`` is that of CSV.
        """
        path = Path(os.path.expanduser(path))
        if form == "parquet":
            return files.write_parquet(path, self.result, note=note and partial(self._note_once, note))
        return files.write_csv(
            path, self.result.cols, [self.result.rows], note=note and partial(self._note_once, note), encoding=encoding
        )

    def _note_once(self, note: Note, line: str) -> None:
        """Call a note with what no table or file of this outcome has said."""
        if line not in self._notes:
            self._notes.add(line)
            note(line)


@dataclass(eq=False)
class CellResult:
    """The results of a cell.

    ``notes`` are lines to show first; ``open_line`` reports an open transaction, '' without one. For a cell that
    failed, ``rest`` contains the statements that did not run, ``failed`` the refused one among them, ``fault``
    the reason in one line. ``total`` is the number of statements, ``tables`` the outcomes with columns, in order,
    ``repeated`` those in which columns have the same name, ``returned`` the last one of ``tables``, whose frame is the
    cell's value, and ``named`` the outcomes by their ``-- name:`` comments. ``last`` is the last statement as it was
    sent, of a cell that ran with ``first_rows``.
    """

    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...] = ()
    open_line: str = ""
    rest: tuple[ParsedStatement, ...] = ()
    failed: ParsedStatement | None = None
    fault: str = ""
    last: Stmt | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.total = len(self.outcomes) + len(self.rest)
        self.tables = [outcome for outcome in self.outcomes if outcome.result.cols]
        self.repeated = [
            outcome
            for outcome in self.tables
            if len({col.name for col in outcome.result.cols}) < len(outcome.result.cols)
        ]
        self.returned = self.tables[-1] if self.tables else None
        self.named = {outcome.name: outcome for outcome in self.outcomes if outcome.name}

    @property
    def frame(self) -> DataFrame | None:
        """The value of the cell; None if no statement returns columns."""
        return None if self.returned is None else self.returned.frame()

    def check_tables(self, wanted: int) -> None:
        """Raise SessionError if the number of statements that returned columns is not ``wanted``."""
        if wanted != len(self.tables):
            raise SessionError(
                f"{_tables(len(self.tables))}, not {wanted}; the cell ran, and nothing was stored",
                hint=NAMES_FOR_TABLES,
            )


def outcomes(cell: Cell, results: Sequence[StmtResult], limit: int | None = None) -> list[Outcome]:
    """Return the outcomes of the statements of a cell that ran, queries with at most ``limit`` rows."""
    names = cell.names or ("",) * len(cell.statements)
    done = [Outcome(*parts) for parts in zip(cell.statements, results, names, strict=False)]
    for outcome, scope in zip(done, cell.scopes, strict=False):
        outcome.scope = scope
    if cell.source_maps or "--" in cell.text or "/*" in cell.text:
        for index, outcome in enumerate(done):
            outcome.result = _without_comments(outcome.result, cell.sent(index))
    for outcome in done if limit is not None else ():
        rows = outcome.result.rows
        if len(rows) > (limit or 0) and outcome.statement.is_query:
            outcome.result = msgspec.structs.replace(outcome.result, rows=rows[:limit])
            outcome.more = True
    return done


def _without_comments(result: StmtResult, statement: str) -> StmtResult:
    """Return a result with column names without the comments of unaliased expressions."""
    if not any("--" in (col.name or "") or "/*" in (col.name or "") for col in result.cols):
        return result
    cols = [
        msgspec.structs.replace(col, name=sql.without_comments(col.name, statement)) if col.name else col
        for col in result.cols
    ]
    return msgspec.structs.replace(result, cols=cols)


def check_tables(cell: Cell, wanted: int) -> None:
    """Raise SessionError if the number of statements that will return columns is certainly not ``wanted``."""
    returns_rows = [statement.returns_rows for statement in cell.statements]
    if not returns_rows.count(True) <= wanted <= len(returns_rows) - returns_rows.count(False):
        raise SessionError(f"{_tables(returns_rows.count(True))}, not {wanted}; nothing was run", hint=NAMES_FOR_TABLES)


def _tables(count: int) -> str:
    return f"{plural(count, 'statement')} of the cell return{'s' if count == 1 else ''} columns"


# -- results that are too large for one response


def fetch_large(stream: ClientStream, cell: Cell, error: StatementError, progress: Callable[[int], None] | None) -> Run:
    """Run a query with a cursor, since its rows are too large for one response; return the run of its cell.

    A statement that may have written, by its text or according to the server, is never sent again, and its error
    says so. Raise the errors of a request, which may lose the stream and its transaction.
    """
    stmt = cell.stmts[0]
    if stream.dialect is not Dialect.V3:
        hint = "this server has no cursors; request fewer rows with LIMIT, or fewer columns"
        return Run([], error.replace(hint=hint))
    if not cell.statements[0].only_reads or not described(stream, stmt).is_readonly:
        message = "the rows that the statement returns are too large for one response"
        hint = "it ran, and its changes may be applied; it was not sent again: check the data before you run it again"
        return Run([], error.replace(message=message, hint=hint))
    return fetch(stream, stmt, progress)


def fetch(stream: ClientStream, stmt: Stmt, progress: Callable[[int], None] | None) -> Run:
    """Run a query with a cursor; return the run of its cell. Raise the errors of a request, as `fetch_large` does."""
    unchanged = interrupts.InterruptOutcome.ONLY_READS.value
    try:
        return Run([_fetched(stream, stmt, progress)])
    except StatementError as refused:
        return Run([], refused)
    except KeyboardInterrupt:  # between two chunks
        message = "interrupted while rows were received"
        if stream.phase is Phase.IDLE:  # all rows were received: the stream stays open
            raise InterruptedRequest(f"{message}\n{unchanged}", answered=True) from None
        raise InterruptedRequest(message) from None
    except UnknownOutcome as lost:
        if interrupts.is_about(lost):  # the caller determines the outcome
            raise
        raise lost.replace(message=f"{lost.message}\n{unchanged}", hint=lost.hint or "run it again") from None


def may_have_written(cell: Cell, ran: Run) -> bool:
    """Return True if a statement without a result may have written: results were too large, or it is INSERT OR FAIL."""
    without_result = cell.statements[len(ran.results) :]
    too_large = ran.error is not None and ran.error.code == RESPONSE_TOO_LARGE
    if too_large and not all(statement.only_reads for statement in without_result):
        return True
    return any("FAIL" in statement.outer_words for statement in without_result[:1])


def _fetched(stream: ClientStream, stmt: Stmt, progress: Callable[[int], None] | None) -> StmtResult:
    with Cursor(stream, stmt) as cursor:
        rows = RowsBuilder(cursor.cols)
        for batch in cursor:
            rows.add(batch)
            if progress is not None:
                progress(len(rows))
    return StmtResult(list(cursor.cols), rows.build())
