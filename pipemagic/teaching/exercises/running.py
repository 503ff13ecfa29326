"""Run an answer or a reference in a transaction that is rolled back, and query the state after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipemagic import sql
from pipemagic.client.result import Result
from pipemagic.client.stream import Run
from pipemagic.client.transaction import TransactionContent
from pipemagic.hrana.messages import Stmt
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

NO_ROWS = "no statement returns rows: the answer must end with a SELECT"


@dataclass(frozen=True)
class Ran:
    """A cell that has run: the outcome of each of its statements."""

    outcomes: Sequence[Outcome] = ()

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

    def run_and_probe(database: Database) -> tuple[Cell, Run, list[DataFrame | str | None]]:
        with _rolled_back(database) as stream:
            _run_all(stream, [statement.text for statement in sql.split(data)])
            sent = with_dates(cell, stream.send)
            done = stream.run(sent.stmts)
            found = [] if done.error else [_probe(stream, probe.sql) if probe.sql else None for probe in probes]
            return sent, done, found

    sent, done, results = connection.with_database(run_and_probe)
    if done.error is not None:
        several = len(cell.statements) > 1
        failure = connection.failure(done.error, sent, len(done.results), TransactionContent(), atomic=several)
        raise messages.statement_error(failure, [])
    ran = Ran(outcomes(cell, done.results))
    own = ran.result
    rows = frame_of(own.columns, own.rows) if own else NO_ROWS
    return [rows if result is None else result for result in results], ran


def _probe(stream: ClientStream, query: str) -> DataFrame | str:
    """Run a query on the state; return its rows, or the message of its error."""
    done = stream.run([Stmt(query)])
    if done.error is not None:
        return messages.locate(done.error, query).message
    result = Result(done.results[0])
    return frame_of(result.columns, result.rows)


def _run_all(stream: ClientStream, statements: Sequence[str]) -> None:
    """Run statements; raise StatementError for the first that fails."""
    done = stream.run([Stmt(text) for text in statements])
    if done.error is not None:
        raise done.error


@contextmanager
def _rolled_back(database: Database) -> Iterator[ClientStream]:
    """Open a transaction on its own stream, outside of the wire view, and roll it back at the end."""
    other = database.sibling()
    try:
        with other.open_stream() as stream:
            _run_all(stream, ["BEGIN"])
            yield stream
    finally:
        other.close()
