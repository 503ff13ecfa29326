"""Write a DataFrame into a table: all rows or none, in as many requests as it takes.

A transaction may last 5 s, which is too short for large frames. So the rows are inserted into a staging table in small
statements, each a transaction of its own, and one short transaction at the end moves them into the table. Until then
the table does not change. The rows of a statement are records in one argument, which is the fastest form over this
protocol and exact (`pipemagic.frames.encoder`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from pipemagic.client.batch_runner import run
from pipemagic.client.bulk import staging_table
from pipemagic.client.bulk.load_plan import LoadPlan, check_unique, plan_load
from pipemagic.client.bulk.staging_table import Batch, Batches
from pipemagic.errors import (
    InterruptedRequest,
    LoadError,
    PipemagicError,
    StatementError,
    TransactionLost,
    UnknownOutcome,
)
from pipemagic.frames.from_pandas import Column, from_frame
from pipemagic.hrana.messages import Stmt
from pipemagic.hrana.stream import TRANSACTION_LIMIT
from pipemagic.sql import quote

if TYPE_CHECKING:
    import pandas as pd

    from pipemagic.client.database import Database, IfExists

Progress: TypeAlias = Callable[[int, int], None]
"""Called after each request with the number of rows sent so far and the number of all rows."""

SAMPLED = 50_000
"""Rows from which on the time of adding them to a table is measured first."""

SHARE = 0.8
"""The share of the time of a transaction that adding the rows may take."""


class Load:
    """A frame that fits the table that it is written into. Nothing is changed before `run`.

    ``plan.types`` has the declared type of each column in the table as it will be.
    """

    def __init__(self, database: Database, columns: Sequence[Column], total: int, plan: LoadPlan) -> None:
        self.plan = plan
        self.total = total
        self._database, self._columns = database, columns

    @property
    def unexpected_types(self) -> list[tuple[str, str]]:
        """The columns of a new table whose declared types follow from their values, not from their dtypes."""
        if self.plan.into or self.plan.keeps:
            return []
        planned = zip(self._columns, self.plan.types, strict=True)
        return [
            (name, declared)
            for column, (name, declared) in planned
            if declared == column.declared and declared != column.suggested
        ]

    def run(self, progress: Progress | None = None) -> int:
        """Write all rows or none; return their number. Raises as `load` does."""
        with nothing_changed("before the rows were sent"):
            staging_table.remove_leftovers(self._database)
        with staged(self._database, self.plan) as staging:
            with nothing_changed("while the rows were sent"):
                values = [column.values for column in self._columns]
                batches = Batches(self._database, staging, self.plan.names).of(values, self.total)
                _fill(self._database, batches, self.total, self.plan, staging, progress)
            switch(self._database, self.plan, staging, self.total)
        return self.total


def prepare(
    database: Database,
    frame: pd.DataFrame,
    table: str,
    *,
    if_exists: IfExists = "fail",
    keys: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
) -> Load:
    """Inspect a frame and a table; LoadError for what cannot be done exactly and atomically."""
    with nothing_changed("before the rows were sent"):
        columns = from_frame(frame)
        plan = plan_load(database, table, columns, if_exists, keys=keys, types=types)
    return Load(database, columns, len(frame), plan)


def load(
    database: Database,
    frame: pd.DataFrame,
    table: str,
    *,
    if_exists: IfExists = "fail",
    keys: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> int:
    """Write a frame into a table; return the number of rows.

    ``if_exists`` says what to do with a table of that name: ``fail``, ``append`` to it, ``replace`` it, or ``upsert``:
    rows whose ``keys`` are there already change those, the others are added. The declared types of a new table, and
    what is refused, are those of `pipemagic.frames.from_pandas`, but for the ``types`` given for some columns; a named
    index is written too. A table that is replaced keeps its definition if the frame has its columns, and in any case
    its indexes and triggers and the views on it. Anything that cannot be done exactly and atomically is refused before
    anything changes. An error or an interrupt leaves the table as it was. Raises LoadError; UnknownOutcome only if the
    server cannot be asked about the outcome.
    """
    return prepare(database, frame, table, if_exists=if_exists, keys=keys, types=types).run(progress)


@contextmanager
def staged(database: Database, plan: LoadPlan) -> Iterator[str]:
    """Create a staging table and yield its name; if the block fails the table is removed."""
    staging = staging_table.new_name()
    try:
        _create(database, plan, staging)  # inside: its response may be lost
        yield staging
    except BaseException as error:
        if not staging_table.drop(database, staging) and isinstance(error, PipemagicError):
            left = f"the table {staging} may be left over: the next load removes it"
            raise error.replace(hint="; ".join(filter(None, [error.hint, left]))) from None
        raise


def _create(database: Database, plan: LoadPlan, staging: str) -> None:
    try:
        with nothing_changed("before the rows were sent"):
            database.execute(plan.create(staging))
    except StatementError as error:  # users named another table, and a random name would change the output
        raise LoadError(f"{error.message.replace(staging, plan.table)}; nothing was changed", hint=error.hint) from None


def _fill(
    database: Database, batches: Iterator[Batch], total: int, plan: LoadPlan, staging: str, progress: Progress | None
) -> None:
    """Send all rows; another thread prepares the next batch meanwhile.

    The batches are sent by the calling thread, which an interrupt reaches.
    """
    sent = 0
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="pipemagic-load") as writer:
        ahead = writer.submit(next, batches, None)
        while (batch := ahead.result()) is not None:
            ahead = writer.submit(next, batches, None)
            sent += send(database, batch, plan, staging)
            if progress is not None:
                progress(sent, total)
    if sent != total:
        raise LoadError(f"{total} rows were sent and {sent} arrived; nothing was changed")


def send(database: Database, batch: Batch, plan: LoadPlan, staging: str) -> int:
    """Send one batch; return the number of rows that arrived."""
    try:
        with nothing_changed("while the rows were sent"):
            return database.execute(batch.sql, batch.args).affected_row_count
    except StatementError as error:
        rows, message = f"rows {batch.start} to {batch.stop - 1}", error.message.replace(staging, plan.table)
        raise LoadError(f"{rows}: {message}; nothing was changed", hint=error.hint) from None


@contextmanager
def nothing_changed(when: str) -> Iterator[None]:
    """Raise the error for a lost response, or an interrupt, while nothing but a staging table may have changed."""
    try:
        yield
    except (InterruptedRequest, KeyboardInterrupt):  # in a request, or between two of them
        raise InterruptedRequest(f"interrupted {when}; nothing was changed") from None
    except UnknownOutcome as error:
        raise LoadError(f"{error.message.partition(';')[0]}; nothing was changed") from None


def switch(database: Database, plan: LoadPlan, staging: str, total: int) -> None:
    """Move the staged rows into the table, in one transaction; LoadError, and nothing changed, if that fails."""
    if plan.keys:
        with nothing_changed("before the rows were added"):
            check_unique(database, staging, plan.keys)
    if plan.into and total >= SAMPLED:
        _try_out(database, plan, staging, total)
    try:
        with database.open_stream() as stream:
            done = run(stream, [Stmt(sql) for sql in plan.switch(staging, total)], atomic=True, close=True)
    except TransactionLost:
        raise _too_long(plan) from None
    except (UnknownOutcome, KeyboardInterrupt) as lost:
        error = (
            lost if isinstance(lost, UnknownOutcome) else InterruptedRequest("interrupted while the rows were added")
        )
        if _was_switched(database, staging, error):
            if isinstance(error, InterruptedRequest):
                raise InterruptedRequest(f"interrupted, but all rows were in {plan.table} already") from None
            return
        kind = InterruptedRequest if isinstance(error, InterruptedRequest) else LoadError
        raise kind(f"{error.message.partition(';')[0]}; nothing was changed") from None
    if done.error is not None:
        raise plan.explain(done.error)


def _try_out(database: Database, plan: LoadPlan, staging: str, total: int) -> None:
    """Add a tenth of the rows, with indexes and triggers, and roll back; LoadError if all rows would take too long."""
    with nothing_changed("before the rows were added"), database.open_stream() as stream:
        start = time.monotonic()
        run(stream, [Stmt("SELECT 1")])
        way = time.monotonic() - start
        try:
            done = run(
                stream, [Stmt(sql) for sql in ("BEGIN IMMEDIATE", plan.insert(staging, total // 10), "ROLLBACK")]
            )
        except TransactionLost:
            raise _too_long(plan) from None
        took = time.monotonic() - start - 2 * way
    if done.error is not None:
        raise plan.explain(done.error)
    if took * 10 > SHARE * TRANSACTION_LIMIT:
        raise _too_long(plan)


def _too_long(plan: LoadPlan) -> LoadError:
    return LoadError(
        f"adding the rows to {plan.table} takes longer than the {TRANSACTION_LIMIT:.0f} s of a transaction; "
        "nothing was changed",
        hint="load into a new table, or add the rows in several parts",
    )


def _was_switched(database: Database, staging: str, error: UnknownOutcome) -> bool:
    """Return True if a switch whose response was lost has run: it removes the staging table, or did not run at all.

    Dropping that table waits for a switch that is still running, and then fails.
    """
    try:
        database.execute(f"DROP TABLE {quote(staging)}")
    except StatementError as refused:
        if "no such table" in refused.message:
            return True
        raise error from None
    except PipemagicError:
        raise error from None
    return False
