"""The results of a cell: one outcome for each statement, and the frame that the cell returns.

A result that is too large for one response is fetched by a cursor, if its statement only reads. The cursor runs on the
stream of the cells, so it sees what an open transaction has not committed yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pipemagic.client.batch_runner import Run
from pipemagic.client.cursor import Cursor, described
from pipemagic.client.stream import ClientStream, Dialect
from pipemagic.errors import InterruptedRequest, SessionError, StatementError, UnknownOutcome
from pipemagic.frames import Note, arrow_polars, files, to_frame
from pipemagic.frames.columnar import RowsBuilder
from pipemagic.hrana.faults import RESPONSE_TOO_LARGE
from pipemagic.hrana.messages import Stmt, StmtResult
from pipemagic.hrana.stream import Phase
from pipemagic.session import interrupts
from pipemagic.session.cell import Cell
from pipemagic.sql import ParsedStatement

if TYPE_CHECKING:
    from pandas import DataFrame

NAMES_FOR_TABLES = "-o takes one name for the last result, or one for each: -o a,_,c skips the second"


@dataclass(eq=False)
class Outcome:
    """A statement that ran, and its result as it came.

    ``name`` is that of its ``-- name:`` comment. ``undone`` marks one that was rolled back. ``more`` is True if there
    are more rows than were asked for.
    """

    statement: ParsedStatement
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
    def affected_row_count(self) -> int:
        """How many rows the statement inserted, updated or deleted."""
        return self.result.affected_row_count or 0

    def frame(self, note: Note | None = None) -> DataFrame:
        """Return the rows as a DataFrame, the same one each time.

        ``note`` is called, the first time, with a line for each column that could not get a type of its own.
        """
        frame: DataFrame = self.table("pandas", note)
        return frame

    def table(self, kind: str, note: Note | None = None) -> Any:
        """Return the rows as a table of one of `frames.arrow_polars.TYPES`: a DataFrame, or one of Polars or Arrow.

        UnsupportedError if the package for it is not installed.
        """
        if kind not in self._tables:
            convert = to_frame if kind == "pandas" else arrow_polars.converter(kind)
            self._tables[kind] = convert(self.result, note=note)
        return self._tables[kind]

    def write(self, path: str | Path, form: str, note: Note | None = None) -> int:
        """Write the rows into a file, as ``csv`` or ``parquet``; return how many (see `pipemagic.frames.files`)."""
        path = Path(path).expanduser()
        if form == "parquet":
            return files.write_parquet(path, self.result, note=note)
        return files.write_csv(path, self.result.cols, [self.result.rows], note=note)


@dataclass(eq=False)
class CellResult:
    """What a cell returned, statement by statement.

    ``notes`` are lines to show before it; ``open_line`` says that a transaction is open, '' if none is. Of a cell that
    failed, ``rest`` holds the statements that did not run, ``failed`` the one among them which was refused, ``fault``
    why, in a line. ``total`` is how many statements the cell has, ``tables`` the outcomes that have columns, in order,
    ``returned`` the last of these, whose frame is the cell's value, and ``named`` the outcomes by the names of their
    ``-- name:`` comments.
    """

    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...] = ()
    open_line: str = ""
    rest: tuple[ParsedStatement, ...] = ()
    failed: ParsedStatement | None = None
    fault: str = ""

    def __post_init__(self) -> None:
        self.total = len(self.outcomes) + len(self.rest)
        self.tables = [outcome for outcome in self.outcomes if outcome.result.cols]
        self.returned = self.tables[-1] if self.tables else None
        self.named = {outcome.name: outcome for outcome in self.outcomes if outcome.name}

    @property
    def frame(self) -> DataFrame | None:
        """The cell's value; None if no statement returns columns."""
        return None if self.returned is None else self.returned.frame()

    def check_tables(self, wanted: int) -> None:
        """Raise SessionError if another number of statements returned columns."""
        if wanted != len(self.tables):
            raise SessionError(
                f"{_tables(len(self.tables))}, not {wanted}; the cell ran, and nothing was stored",
                hint=NAMES_FOR_TABLES,
            )


def outcomes(cell: Cell, results: Sequence[StmtResult], limit: int | None = None) -> list[Outcome]:
    """Return the outcomes of the statements of a cell that ran; queries with at most ``limit`` rows."""
    names = cell.names or ("",) * len(cell.statements)
    done = [Outcome(*one) for one in zip(cell.statements, results, names, strict=False)]
    for outcome in done if limit is not None else ():
        rows = outcome.result.rows
        if len(rows) > (limit or 0) and outcome.statement.is_query:
            outcome.result = msgspec.structs.replace(outcome.result, rows=rows[:limit])
            outcome.more = True
    return done


def check_tables(cell: Cell, wanted: int) -> None:
    """Raise SessionError if it is clear that another number of the cell's statements than is wanted returns columns."""
    known = [statement.returns_rows for statement in cell.statements]
    if not known.count(True) <= wanted <= len(known) - known.count(False):
        raise SessionError(f"{_tables(known.count(True))}, not {wanted}; nothing was run", hint=NAMES_FOR_TABLES)


def _tables(count: int) -> str:
    return f"{count or 'no'} statement{'' if count == 1 else 's'} of the cell return{'s' if count == 1 else ''} columns"


# -- results that are too large for one response


def fetch_large(stream: ClientStream, cell: Cell, error: StatementError, progress: Callable[[int], None] | None) -> Run:
    """Run a query whose rows one response could not hold by a cursor; the run of a cell with that one statement.

    A statement that may have written, by its text or by what the server says of it, is never sent again, and its error
    says so. Raises what a request raises, with the stream and its transaction lost if the request lost them.
    """
    stmt = cell.stmts[0]
    if stream.dialect is not Dialect.V3:
        hint = "this server has no cursors; ask for fewer rows with LIMIT, or for fewer columns"
        return Run([], error.replace(hint=hint))
    if not cell.statements[0].only_reads or not described(stream, stmt).is_readonly:
        message = "the rows that the statement returns are too large for one response"
        hint = "it ran, and what it changed may be applied; it was not sent again: look before you run it again"
        return Run([], error.replace(message=message, hint=hint))
    unchanged = interrupts.InterruptOutcome.ONLY_READS.value
    try:
        return Run([_fetched(stream, stmt, progress)])
    except StatementError as refused:
        return Run([], refused)
    except KeyboardInterrupt:  # between two chunks
        message = "interrupted while the rows came"
        if stream.phase is Phase.IDLE:  # all had come: the connection goes on
            raise InterruptedRequest(f"{message}\n{unchanged}", answered=True) from None
        raise InterruptedRequest(message) from None
    except UnknownOutcome as lost:
        if interrupts.is_about(lost):  # the connection finds out what is known
            raise
        raise lost.replace(message=f"{lost.message}\n{unchanged}", hint=lost.hint or "run it again") from None


def may_have_written(cell: Cell, ran: Run) -> bool:
    """Return True if the results were too large and a statement that is not known to have run may have written."""
    too_large = ran.error is not None and ran.error.code == RESPONSE_TOO_LARGE
    return too_large and not all(one.only_reads for one in cell.statements[len(ran.results) :])


def _fetched(stream: ClientStream, stmt: Stmt, progress: Callable[[int], None] | None) -> StmtResult:
    with Cursor(stream, stmt) as cursor:
        rows = RowsBuilder(cursor.cols)
        for batch in cursor:
            rows.add(batch)
            if progress is not None:
                progress(len(rows))
    return StmtResult(list(cursor.cols), rows.build())
