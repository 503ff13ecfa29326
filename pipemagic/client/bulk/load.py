"""Load a DataFrame into a table: all rows or none, in several requests.

The limit of 5 s for a transaction is too short for large frames. So the rows are inserted into a staging table in small
statements, each in its own transaction, and one short transaction at the end moves them into the table. Until then
the table does not change. The rows of a statement are records in one argument, which is the fastest form with this
protocol and exact (`pipemagic.frames.encoder`).
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal, TypeAlias

from pipemagic.client.bulk import PREFIX
from pipemagic.client.bulk.batches import RowBatch, batches_for
from pipemagic.client.bulk.load_plan import IfExists, LoadPlan, check_unique, plan_load
from pipemagic.client.bulk.refused_rows import refused_row, refused_row_of_batch
from pipemagic.client.bulk.schema_objects import TEXT, rows
from pipemagic.client.stream import Dialect
from pipemagic.errors import (
    InterruptedRequest,
    LoadError,
    PipemagicError,
    ServerError,
    StatementError,
    TransactionLost,
    UnknownOutcome,
)
from pipemagic.frames.any_frame import Frame, as_pandas, fixes_of
from pipemagic.frames.from_pandas import from_frame, holds_row_numbers, is_plain
from pipemagic.hrana.messages import Stmt
from pipemagic.hrana.stream import TRANSACTION_LIMIT
from pipemagic.sql import quote

if TYPE_CHECKING:
    import pandas as pd

    from pipemagic.client.database import Database

ProgressCallback: TypeAlias = Callable[[int, int], None]
"""Called after each request with the number of rows sent and the total."""

Labels: TypeAlias = Literal["", "stored", "dropped"]

SAMPLED = 50_000
"""The smallest number of rows for which the time to add them to a table is measured first."""

SHARE = 0.8
"""The share of a transaction's time limit that adding the rows may take."""

OLD = 6 * 3600
"""Age in seconds at which the staging table of any process is removed."""

TOO_LARGE = 413
"""The HTTP status for a body that is too large."""

_NAME = re.compile(PREFIX + r"([0-9a-f]{8})_([0-9a-f]{8})\Z")

_left: set[str] = set()
"""Staging tables that this process created and could not remove."""


class Load:
    """A checked frame and the plan to load it. Nothing is changed before `run`.

    ``plan.types`` has the declared type of each column in the resulting table. ``labels`` is what becomes of labels of
    rows without a name: ``stored`` as the column index, ``dropped`` if they are integers, '' if they count the rows.
    """

    def __init__(self, database: Database, total: int, plan: LoadPlan, labels: Labels = "") -> None:
        self.plan = plan
        self.total = total
        self.labels = labels
        self._database = database

    @property
    def unexpected_types(self) -> list[tuple[str, str]]:
        """The columns of a new table with declared types that come from their values, not from their dtypes."""
        if self.plan.into or self.plan.keeps:
            return []
        planned = zip(self.plan.columns, self.plan.types, strict=True)
        return [
            (name, declared)
            for column, (name, declared) in planned
            if declared == column.declared and declared != column.suggested
        ]

    def run(self, progress: ProgressCallback | None = None) -> int:
        """Write all rows or none; return their number.

        An error or an interrupt leaves the table unchanged. Raise LoadError; UnknownOutcome only if the server cannot
        be asked for the outcome.
        """
        with nothing_changed("before the rows were sent"):
            remove_leftovers(self._database)
        with staged(self._database, self.plan) as staging:
            with nothing_changed("while the rows were sent"):
                values = [column.values for column in self.plan.columns]
                batches = batches_for(self._database, staging, self.plan.names).of(values, self.total)
                _fill(self._database, batches, self.total, self.plan, staging, progress)
            switch(self._database, self.plan, staging, self.total)
        return self.total


def prepare(
    database: Database,
    frame: Frame,
    table: str,
    *,
    if_exists: IfExists = "fail",
    keys: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    name: str = "frame",
) -> Load:
    """Inspect a frame and a table, and plan the load.

    ``if_exists`` is what to do with a table of that name: ``fail``, ``append`` to it, ``replace`` it, or ``upsert``:
    rows whose ``keys`` exist update those rows, the others are added. The declared types of a new table, and
    unsupported values, are those of `pipemagic.frames.from_pandas`, except for the ``types`` given for some columns; an
    index is written, too, unless it has no name and consists of integers. An existing table decides the form of dates
    and times. A replaced table with constraints keeps its definition if the frame has its columns; any one keeps its
    indexes and triggers and the views on it. ``name`` is the variable of the frame, for hints. Raise LoadError for a
    load that cannot be exact and atomic.
    """
    with nothing_changed("before the rows were sent"), fixes_of(frame, name):
        frame = as_pandas(frame, name)
        columns = from_frame(frame, name, types or ())
        plan = plan_load(database, table, columns, if_exists, keys=keys, types=types)
    return Load(database, len(frame), plan, _labels(frame))


def _labels(frame: pd.DataFrame) -> Labels:
    if frame.index.names != [None] or is_plain(frame.index):
        return ""
    return "dropped" if holds_row_numbers(frame.index) else "stored"


@contextmanager
def staged(database: Database, plan: LoadPlan) -> Iterator[str]:
    """Create a staging table and yield its name; remove the table if the block fails."""
    staging = new_name()
    try:
        _create(database, plan, staging)  # inside the block: its response may be lost
        yield staging
    except BaseException as error:
        if not drop(database, staging) and isinstance(error, PipemagicError):
            left = f"the table {staging} may be left over until the next load, which removes it"
            raise error.replace(message=f"{error.message}; {left}") from None
        raise


def _create(database: Database, plan: LoadPlan, staging: str) -> None:
    try:
        with nothing_changed("before the rows were sent"):
            database.execute(plan.create(staging))
    except StatementError as error:  # the user named another table, and a random name would change the output
        raise LoadError(f"{error.message.replace(staging, plan.table)}; nothing was changed", hint=error.hint) from None


def _fill(
    database: Database,
    batches: Iterator[RowBatch],
    total: int,
    plan: LoadPlan,
    staging: str,
    progress: ProgressCallback | None,
) -> None:
    """Send all rows, while another thread prepares the next batch.

    The calling thread sends the batches, since interrupts reach it.
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


def send(database: Database, batch: RowBatch, plan: LoadPlan, staging: str) -> int:
    """Send one batch; return the number of rows that arrived."""
    try:
        with nothing_changed("while the rows were sent"):
            return database.execute(batch.sql, batch.args).affected_row_count
    except ServerError as error:
        if error.status != TOO_LARGE or not batch.too_large:
            raise
        raise _too_large(batch) from None
    except StatementError as error:
        if batch.too_large and "too big" in error.message:
            raise _too_large(batch) from None
        message = error.message.replace(staging, plan.table)
        row = refused_row_of_batch(database, plan, staging, batch, error.message)
        where = f"rows {batch.start + 1} to {batch.stop}: {message}" if row is None else row.message(message)
        raise LoadError(f"{where}; nothing was changed", hint=error.hint, extended_code=error.extended_code) from None


def _too_large(batch: RowBatch) -> LoadError:
    """Return the error for a row that is too large for the server."""
    return LoadError(
        f"{batch.too_large}; the server does not accept that much; nothing was changed",
        hint="store the value in parts, or send the whole database as a file (pipemagic db create --from-file)",
    )


@contextmanager
def nothing_changed(when: str) -> Iterator[None]:
    """Convert a lost response or an interrupt in the block to LoadError: only a staging table may have changed."""
    try:
        yield
    except (InterruptedRequest, KeyboardInterrupt):  # in a request, or between two of them
        raise InterruptedRequest(f"interrupted {when}; nothing was changed") from None
    except UnknownOutcome as error:
        raise LoadError(f"{error.message.partition(';')[0]}; nothing was changed") from None


def switch(database: Database, plan: LoadPlan, staging: str, total: int) -> None:
    """Move the staged rows into the table in one transaction; raise LoadError, with nothing changed, if that fails."""
    if plan.keys:
        with nothing_changed("before the rows were added"):
            check_unique(database, staging, plan.keys)
    if plan.into and total >= SAMPLED:
        _try_out(database, plan, staging, total)
    while (error := _try_switch(database, plan, staging, total)) is not None:
        with nothing_changed("before the rows were added"):
            around = plan.around_broken(database, error)
        if around is None:
            raise _refused(database, plan, staging, error)
        plan = around


def _try_switch(database: Database, plan: LoadPlan, staging: str, total: int) -> StatementError | None:
    """Run the transaction of a switch; return the error of its statement that failed."""
    try:
        with database.open_stream() as stream:
            begins = 0 if stream.dialect is Dialect.SEED else 1  # of the statements that ran
            run = stream.run([Stmt(sql) for sql in plan.switch(staging, total)], atomic=True, close=True)
    except TransactionLost as lost:  # if not even the check of the schema ran, BEGIN has waited
        raise _too_long(plan) if lost.ran > begins else _blocked() from None
    except (UnknownOutcome, KeyboardInterrupt) as lost:
        error = (
            lost if isinstance(lost, UnknownOutcome) else InterruptedRequest("interrupted while the rows were added")
        )
        if _was_switched(database, staging, error):
            if isinstance(error, InterruptedRequest):
                raise InterruptedRequest(f"interrupted, but {plan.table} contains all rows") from None
            return None
        kind = InterruptedRequest if isinstance(error, InterruptedRequest) else LoadError
        raise kind(f"{error.message.partition(';')[0]}; nothing was changed") from None
    return run.error


def _refused(database: Database, plan: LoadPlan, staging: str, error: StatementError) -> LoadError:
    """Return the error of the load, with the row that a constraint of the table refused."""
    row = refused_row(database, plan, staging, error.message) if plan.into else None
    if row is None:
        return plan.explain(error)
    message = f"{row.message(error.message)}; nothing was changed"
    return LoadError(message, hint=row.hint, extended_code=error.extended_code)


def _try_out(database: Database, plan: LoadPlan, staging: str, total: int) -> None:
    """Add a tenth of the rows, with indexes and triggers, and roll back; LoadError if all would take too long."""
    with nothing_changed("before the rows were added"), database.open_stream() as stream:
        start = time.monotonic()
        stream.run([Stmt("SELECT 1")])
        way = time.monotonic() - start
        try:
            texts = ("BEGIN IMMEDIATE", plan.insert(staging, total // 10), "ROLLBACK")
            run = stream.run([Stmt(text) for text in texts])
        except TransactionLost:
            raise _too_long(plan) from None
        took = time.monotonic() - start - 2 * way
    if run.error is not None:
        raise _refused(database, plan, staging, run.error)
    if took * 10 > SHARE * TRANSACTION_LIMIT:
        raise _too_long(plan)


def _blocked() -> LoadError:
    """Return the error of a transaction that had timed out when its BEGIN got the write lock."""
    return LoadError(
        "another connection held the write lock; nothing was changed", hint="load again when its transaction has ended"
    )


def _too_long(plan: LoadPlan) -> LoadError:
    return LoadError(
        f"adding the rows to {plan.table} takes longer than the {TRANSACTION_LIMIT:.0f} s of a transaction; "
        "nothing was changed",
        hint="load into a new table, or add the rows in several parts",
    )


def _was_switched(database: Database, staging: str, error: UnknownOutcome) -> bool:
    """Return True if a switch has run although its response was lost: the staging table is gone.

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


# -- staging tables: the name holds the time of creation


def new_name() -> str:
    """Return the name of a new staging table."""
    return f"{PREFIX}{int(time.time()):08x}_{secrets.token_hex(4)}"


def remove_leftovers(database: Database, *, older_than: float = OLD) -> list[str]:
    """Drop the staging tables of this process that are left, and those older than some seconds; return their names.

    Tables that cannot be dropped are left.
    """
    query = f"SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB '{PREFIX}*' ORDER BY name"
    names = []
    for (name,) in rows(database, query, types=(TEXT,)):
        if name in _left or _age(name) > older_than:
            with suppress(StatementError, ServerError):
                database.execute(f"DROP TABLE IF EXISTS {quote(name)}")
                _left.discard(name)
                names.append(name)
    return names


def drop(database: Database, name: str) -> bool:
    """Drop a staging table of this process; return False if the next load has to drop it."""
    try:
        database.execute(f"DROP TABLE IF EXISTS {quote(name)}")
    except (PipemagicError, KeyboardInterrupt):  # the caller raises its own error
        _left.add(name)
        return False
    return True


def _age(name: str) -> float:
    """Return the seconds since a staging table was created, which its name contains; otherwise 0.0."""
    match = _NAME.match(name)
    return 0.0 if match is None else time.time() - int(match[1], 16)
