"""Write a DataFrame into a table: all rows or none, in as many requests as it takes.

A transaction may last 5 s, which is too short for large frames. So the rows go to a staging table in small statements,
each a transaction of its own, and one short transaction at the end makes them the table's. Until then nothing that
others can see has changed. The rows of a statement are one JSON text, unpacked by ``json_each``: the fastest way there
is over this protocol, and exact (see `pipemagic.frames.cells`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from pipemagic.client.chunks import Chunk, Chunks
from pipemagic.client.running import run
from pipemagic.client.targets import Plan, plan_table
from pipemagic.errors import (
    InterruptedRequest,
    LoadError,
    PipemagicError,
    StatementError,
    TransactionLost,
    UnknownOutcome,
)
from pipemagic.frames import from_frame
from pipemagic.hrana.messages import Stmt
from pipemagic.sql import quote

if TYPE_CHECKING:
    import pandas as pd

    from pipemagic.client.database import Database, IfExists

Progress: TypeAlias = Callable[[int, int], None]
"""Called after each request with the number of rows sent so far and the number of all rows."""

STAGING = "_pipemagic_load_"
"""What the names of staging tables begin with."""


def load(
    database: Database,
    frame: pd.DataFrame,
    table: str,
    *,
    if_exists: IfExists = "fail",
    progress: Progress | None = None,
) -> int:
    """Write a frame into a table; gives the number of rows.

    ``if_exists`` says what to do with a table of that name: ``fail``, ``append`` to it, or ``replace`` it. The declared
    types of a new table, and what is refused, are those of `pipemagic.frames.writing`; a named index is written too.
    Anything that cannot be done exactly and atomically is refused before anything changes. An error or an interrupt
    leaves the table as it was. Raises LoadError; UnknownOutcome only if the server cannot be asked what became of it.
    """
    columns = from_frame(frame)
    plan = plan_table(database, table, columns, if_exists)
    staging = STAGING + secrets.token_hex(6)
    with _removed_on_failure(database, staging):  # its creation, too: the answer to that may be lost
        _create(database, plan, staging)
        _fill(database, Chunks(database, columns, len(frame), staging), progress)
        _switch(database, plan, staging)
    return len(frame)


def _create(database: Database, plan: Plan, staging: str) -> None:
    try:
        with _nothing_changed("before the rows were sent"):
            database.execute(plan.create(staging))
    except StatementError as error:  # people named another table, and random names make other output each time
        raise LoadError(f"{error.message.replace(staging, plan.table)}; nothing was changed", hint=error.hint) from None


def _fill(database: Database, chunks: Chunks, progress: Progress | None) -> None:
    """Send all rows: while one chunk is on its way, another thread writes the next.

    The sending is here, so that an interrupt reaches it.
    """
    sent = 0
    rest = iter(chunks)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="pipemagic-load") as writer:
        ahead = writer.submit(next, rest, None)
        while (chunk := ahead.result()) is not None:
            ahead = writer.submit(next, rest, None)
            sent += _send(database, chunk)
            if progress is not None:
                progress(sent, chunks.total)
    if sent != chunks.total:
        raise LoadError(f"{chunks.total} rows were sent and {sent} arrived; nothing was changed")


def _send(database: Database, chunk: Chunk) -> int:
    try:
        with _nothing_changed("while the rows were sent"):
            return database.execute(chunk.sql, chunk.args).affected_row_count
    except StatementError as error:
        rows = f"rows {chunk.start} to {chunk.stop - 1}"
        raise LoadError(f"{rows}: {error.message}; nothing was changed", hint=error.hint) from None


@contextmanager
def _nothing_changed(when: str) -> Iterator[None]:
    """Say of a lost answer what is known in spite of it: only the staging table may have changed."""
    try:
        yield
    except InterruptedRequest:
        raise InterruptedRequest(f"interrupted {when}; nothing was changed") from None
    except UnknownOutcome as error:
        raise LoadError(f"{error.message.partition(';')[0]}; nothing was changed") from None


def _switch(database: Database, plan: Plan, staging: str) -> None:
    """Make the rows the table's, in one transaction."""
    try:
        with database.open_stream() as stream:
            done = run(stream, [Stmt(sql) for sql in plan.switch(staging)], atomic=True, close=True)
    except TransactionLost:
        raise LoadError(
            f"adding the rows to {plan.table} takes longer than the 5 s of a transaction; nothing was changed",
            hint="load into a new table, or append in several parts",
        ) from None
    except UnknownOutcome as error:
        if _was_switched(database, staging, error):
            if isinstance(error, InterruptedRequest):
                raise InterruptedRequest(f"interrupted, but all rows were in {plan.table} already") from None
            return
        raise LoadError(f"{error.message.partition(';')[0]}; nothing was changed") from None
    if done.error is not None:
        raise plan.explain(done.error)


def _was_switched(database: Database, staging: str, error: UnknownOutcome) -> bool:
    """Find out what became of a switch whose answer was lost: it removes the staging table, or nothing of it ran.

    Dropping that table waits for a switch that is still running, and then tells by failing.
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


@contextmanager
def _removed_on_failure(database: Database, staging: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        try:
            database.execute(f"DROP TABLE IF EXISTS {quote(staging)}")
        except PipemagicError:
            if isinstance(error, PipemagicError):
                left = f"the table {staging} may be left over: drop it when the server can be reached"
                error.hint = "; ".join(filter(None, [error.hint, left]))
        raise
