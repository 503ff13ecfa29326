"""Run an answer or a reference in a transaction that is rolled back, and query the state after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipemagic import sql
from pipemagic.client.arguments import values_of
from pipemagic.client.result import Result
from pipemagic.client.stream import Run
from pipemagic.client.transaction import TransactionContent
from pipemagic.errors import PipemagicError
from pipemagic.hrana.messages import Stmt, StmtResult
from pipemagic.hrana.values import SqlValue
from pipemagic.session import messages
from pipemagic.session.cell import Cell
from pipemagic.session.date_parameters import with_dates
from pipemagic.session.results import Outcome, outcomes
from pipemagic.teaching.exercises.exercise import Probe, frame_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.database import Database
    from pipemagic.client.stream import ClientStream
    from pipemagic.session.connection import Connection

EMPTY = Cell("", (), ())
"""A cell without statements."""

_MOST_QUERIES = 40
_MOST_MILLISECONDS = 300
"""For the queries that find out why a statement found no row."""

NO_ROWS = "no statement returns rows: the answer must end with a SELECT"
NOT_RETURNED = "no statement returns rows: add RETURNING"


@dataclass(frozen=True)
class Ran:
    """A cell that has run: the outcome of each of its statements.

    ``reason`` is why the last one finds nothing, ``unmatched`` a value that it does not find, ``mixed`` a column with
    different values in one of its groups; '' if that is not known.
    """

    outcomes: Sequence[Outcome] = ()
    reason: str = ""
    unmatched: str = ""
    mixed: str = ""

    @property
    def result(self) -> Result | None:
        """The result of the last statement with columns."""
        return next((Result(outcome.result) for outcome in reversed(self.outcomes) if outcome.has_columns), None)


def results_of(
    connection: Connection, data: str, cell: Cell, probes: Sequence[Probe]
) -> tuple[list[DataFrame | str], Ran]:
    """Run the statements ``data`` and a cell in a transaction that is rolled back; return the results of the probes.

    Raise StatementError for a statement that fails, as a cell of %%sql does; a query of a probe that fails has its
    message in the place of the result.
    """

    def run_and_probe(database: Database) -> tuple[Cell, Run, list[DataFrame | str | None], tuple[str, str, str]]:
        with rolled_back(database) as stream:
            run_all(stream, [Stmt(statement.text) for statement in sql.split(data)])
            sent = with_dates(cell, stream.send)
            done = stream.run(sent.stmts)
            found = [] if done.error else [_probe(stream, probe.sql) if probe.sql else None for probe in probes]
            return sent, done, found, ("", "", "") if done.error else _why(stream, sent, done, connection)

    sent, done, results, why = connection.with_database(run_and_probe)
    if done.error is not None:
        several = len(cell.statements) > 1
        failure = connection.failure(done.error, sent, len(done.results), TransactionContent(), atomic=several)
        raise messages.statement_error(failure, [])
    ran = Ran(outcomes(cell, done.results), *why)
    own = ran.result
    no_rows = NOT_RETURNED if probes and probes[0].sql else NO_ROWS
    rows = frame_of(own.columns, own.rows) if own else no_rows
    return [rows if result is None else result for result in results], ran


def _probe(stream: ClientStream, query: str) -> DataFrame | str:
    """Run a query on the state; return its rows, or the message of its error."""
    done = stream.run([Stmt(query)])
    if done.error is not None:
        return messages.locate(done.error, query).message
    result = Result(done.results[0])
    return frame_of(result.columns, result.rows)


def _why(stream: ClientStream, cell: Cell, done: Run, connection: Connection) -> tuple[str, str, str]:
    """Return why the last statement of a cell finds nothing or not all, as in `Ran`.

    The queries for this run in the same transaction. None runs after a statement that took long, and few in all.
    """
    from pipemagic.explore import no_rows

    if not done.results:
        return "", "", ""
    result, left = Result(done.results[-1]), _MOST_QUERIES
    milliseconds = result.wire.query_duration_ms or 0.0

    def select(query: str) -> Sequence[Sequence[SqlValue]] | None:
        nonlocal left, milliseconds
        left -= 1
        if left < 0 or milliseconds > _MOST_MILLISECONDS:
            return None
        done = stream.run([Stmt(query)])
        if done.error is not None:
            return None
        milliseconds += done.results[0].query_duration_ms or 0.0
        return Result(done.results[0]).rows

    text, args = cell.sent(-1), values_of(cell.stmts[-1])
    tables = {relation.name.lower(): relation for relation in connection.schema.tables_soon()}
    with suppress(PipemagicError, RecursionError):  # a time limit, nested parentheses: the answer has run
        if _finds_nothing(result):
            return no_rows.reason(text, args, tables, select), "", ""
        mixed = no_rows.mixed_group(text, args, tables, select)
        return "", no_rows.unmatched(text, args, tables, select), mixed
    return "", "", ""


def _finds_nothing(result: Result) -> bool:
    """Return True for no rows, also for the row of aggregates of none, and for a change of none."""
    if not result.columns:
        return not result.affected_row_count
    return len(result.rows) < 2 and all(value in (None, 0) for row in result.rows for value in row)


def run_all(stream: ClientStream, statements: Sequence[Stmt]) -> list[StmtResult]:
    """Run statements and return their results; raise StatementError for the first that fails."""
    done = stream.run(statements)
    if done.error is not None:
        raise done.error
    return done.results


@contextmanager
def rolled_back(database: Database) -> Iterator[ClientStream]:
    """Open a transaction on its own stream, outside of the wire view, and roll it back at the end."""
    other = database.sibling()
    try:
        with other.open_stream() as stream:
            run_all(stream, [Stmt("BEGIN")])
            yield stream
    finally:
        other.close()
