"""SQLite connections: one for each stream, kept for the next one (`pool`) if no settings on them were changed.

Only SQLite opens a database file: closing a file that was opened in another way would drop the locks of the whole
process.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import starmap
from pathlib import Path
from shutil import disk_usage
from typing import Any, NamedTuple, Protocol

import apsw

from pipemagic.hrana.messages import Col
from pipemagic.hrana.values import SqlValue
from pipemagic.service import memory
from pipemagic.service.executor import Call, pause
from pipemagic.service.limits import MB, Limits
from pipemagic.service.sqlite import (
    aggregates,
    alter_column,
    functions,
    resources,
    unicode,
    value_limit,
    virtual_tables,
)
from pipemagic.service.sqlite.alter_column import AlterColumn
from pipemagic.service.sqlite.resources import StatementUsage
from pipemagic.service.sqlite.sandbox import Sandbox, without_addresses
from pipemagic.service.sqlite.statement import LONGEST_CACHED, SqlStatement

log = logging.getLogger(__name__)

BUSY_TIMEOUT = 1000  # milliseconds, against a program that opened the file beside the service
WRITABLE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
NO_TABLE = "SELECT 1 FROM main.sqlite_there_is_no_such_table"
"""A reserved name: before SQLite reports that the table does not exist, it reads a changed schema again."""
_PROGRAM = 1  # what apsw returns for EXPLAIN; 2 for EXPLAIN QUERY PLAN
MOST_PAGES = 2**32 - 2  # that an SQLite file can have
LARGE_SCHEMA = 128 * 1024
"""Bytes of memory of a schema that is parsed again, by the next statement, rather than kept while memory is short."""
MOST_DECISIONS = 64
"""Texts of statements of which a connection knows whether they may build large values."""
DISK_RESERVE = 256 * MB
"""Free space of a disk that writes to databases leave; of a small one, a twentieth."""
FRAME_HEADER = 24  # bytes before each page in a WAL
KEPT_WAL = 8 * MB
"""Bytes of a WAL that stay allocated when SQLite begins it again: some more than between two checkpoints."""


class NeedsWriteLock(Exception):
    """The statement would write, and the caller did not allow it: nothing ran."""


class Shape(NamedTuple):
    """The properties of a prepared statement."""

    cols: tuple[Col, ...]
    readonly: bool
    explain: bool
    program: bool
    """True if it shows its program: EXPLAIN, not EXPLAIN QUERY PLAN."""


class ResultRows(NamedTuple):
    """The columns of a running statement, and its remaining rows."""

    cols: tuple[Col, ...]
    rows: Iterator[tuple[SqlValue, ...]]


class DatabaseFile(Protocol):
    """The database file of a connection."""

    path: Path
    limits: Limits
    unicode: bool
    """True if ``lower``, ``upper`` and ``LIKE`` know the letters of all alphabets (see `unicode`)."""
    schema_changes: int
    """Counts the changes that may have made cached column lists stale."""


def open_file(path: Path, *, writable: bool, disk_full: bool = False) -> apsw.Connection:
    """Open a database file; with ``disk_full``, for reading only, and without the file that indexes the WAL.

    SQLite then has that index in memory: https://sqlite.org/walformat.html#wal_index
    """
    if disk_full:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return apsw.Connection(f"{path.absolute().as_uri()}?readonly_shm=1", flags=flags)
    return apsw.Connection(str(path), flags=WRITABLE if writable else apsw.SQLITE_OPEN_READONLY)


def full_disk() -> apsw.FullError:
    """Return the error for a write to a database that was opened on a full disk."""
    error = apsw.FullError("database or disk is full")
    error.result = error.extendedresult = apsw.SQLITE_FULL  # type: ignore[attr-defined]
    return error


class Connection:
    """One SQLite connection with its sandbox.

    ``page_size`` is that of the database, in bytes; ``disk_full``: see `open_file`.
    """

    def __init__(
        self,
        database: DatabaseFile,
        *,
        writable: bool = False,
        page_size: int = 4096,
        busy_timeout: int = BUSY_TIMEOUT,
        disk_full: bool = False,
    ) -> None:
        self._database, self._page_size, self._disk_full = database, page_size, disk_full
        self.sandbox = Sandbox(unicode=database.unicode)
        self.raw = open_file(database.path, writable=writable, disk_full=disk_full)
        self.raw.set_busy_timeout(busy_timeout)
        self.raw.pragma("synchronous", "FULL")
        self.raw.pragma("journal_size_limit", KEPT_WAL)
        resources.keep_temporary_files_bounded(self.raw)
        self._install_functions(self.raw)
        aggregates.install_percentiles(self.raw, lambda: self.stopped, resources.hold)
        self.sandbox.install(self.raw, database.limits.value)
        virtual_tables.hide_path(self.raw, lambda: self.sandbox.dirty)
        functions.count_changes_since(self.raw, lambda: self._changes_before, lambda: self._explained_after)
        self._changes_before = 0
        """The changes that earlier streams made on the connection."""
        self._explained_after = 0
        """What ``changes()`` was before a write was explained, which resets it, until that write has run."""
        self._counting = False
        """True if the last statement started, and counts its changes."""
        self._usage = StatementUsage(database.path, 0)
        self._temporary_tables_bounded = False
        self._may_hold_larger = _size_with_wal(database.path) > database.limits.value
        """True if the file may hold values beyond the limit, which only other programs and settings have written."""
        self._builds: dict[str, bool] = {}
        """For texts of statements, whether they may build a large value; with the schema ``_builds_with``."""
        self._builds_with = database.schema_changes
        self.changes_schema = False
        """True if the last statement, or one before it in its transaction, may have changed the schema."""
        self._writes = self._vacuums = False
        self.raw.set_progress_handler(self._must_end, self._usage.interval)
        self.stopped = False
        """Set to stop the running statement: SQLite's own interrupt is lost just before the first step."""
        self.reads_until = math.inf
        """When the running statement must give way to a checkpoint (`time.thread_time`; see `readers`)."""
        self.resumed = threading.Event()
        """Set to end the pause of a long-running statement (see `executor.pause`)."""
        self.call: Call | None = None
        """The call that runs the statement, which can be given up."""
        # A statement that was given up must not commit: its client has the error already.
        self.raw.set_commit_hook(lambda: self.call is not None and not self.call.keep())
        self._cursor: apsw.Cursor | None = None
        self._schema = database.schema_changes
        self.size_limit: int | None = None
        """Bytes that the file may grow to; None: as large as its disk and SQLite allow."""
        self._most_pages = MOST_PAGES
        self.idle_since = 0.0
        self.release: Callable[[Connection], None]
        """Returns it to the pool that it was taken from, which sets this."""

    def _must_end(self) -> bool:
        # SQLite also calls this after the end of a statement: one that has committed must not count as stopped.
        if self._writes and self.raw.txn_state() != apsw.SQLITE_TXN_WRITE:
            return False
        self._usage.count(self._written())
        self._usage.check_space()
        if self._is_stopped() or self._usage.check_memory():
            return True
        if self._usage.adapt_interval():
            self.raw.set_progress_handler(self._must_end, self._usage.interval)
        pause(self)
        return self._is_stopped()

    def _is_stopped(self) -> bool:
        return self.stopped or self.exceeded or (self.reads_until < math.inf and time.thread_time() >= self.reads_until)

    def stop(self) -> None:
        """Stop the running statement, from any thread. Reset ``stopped`` before the next one."""
        self.stopped = True
        self.raw.interrupt()
        self.resumed.set()

    def _written(self) -> int:
        """Return the bytes that this thread has written to disks, less those of the database."""
        # The count of pages includes those of temporary tables, and of the copy that VACUUM makes.
        counts = self._writes and not self.sandbox.dirty and not self._vacuums
        pages = self.raw.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0] if counts else 0
        return resources.written_by_thread() - pages * (self._page_size + FRAME_HEADER)

    def before_wait(self) -> None:
        """Raise `UsageExceeded` if the statement uses too much memory or disk space to wait for its reader."""
        self._usage.count(self._written())
        self._usage.check_space()
        if self._usage.exceeded is not None or self._usage.check_memory():
            assert self._usage.exceeded is not None
            raise self._usage.exceeded

    def after_wait(self) -> None:
        """Continue the count of temporary files: meanwhile the thread, or another one now, has written for others."""
        self._usage.resume_count(self._written())

    @property
    def exceeded(self) -> bool:
        """True if the running statement must end because of the memory or the disk space that it uses."""
        return self._usage.must_end

    def cause_of(self, error: Exception) -> Exception:
        """Return the cause of a failed statement: `UsageExceeded` if that stopped it, otherwise the error itself."""
        if self._disk_full and isinstance(error, apsw.ReadOnlyError):
            return full_disk()
        exceeded = self._usage.exceeded
        return error if exceeded is None or not isinstance(error, apsw.InterruptError) else exceeded

    def limit_size(self, limit: int | None) -> None:
        """Limit the size of the file in bytes, and its growth to what leaves a reserve of its disk free."""
        fits = self._size_that_fits()
        self.size_limit = limit if limit is not None and limit <= fits else None
        most = fits if self.size_limit is None else self.size_limit
        pages = max(1, min(MOST_PAGES, most // self._page_size))
        fewest = pages if self.size_limit is not None else pages * 9 // 10  # free space changes with each write
        if not fewest <= self._most_pages <= pages:
            with self._without_sandbox():
                self.raw.pragma("max_page_count", pages)
            self._most_pages = pages

    def _size_that_fits(self) -> int:
        """Return how many bytes the file may have: a new page is written twice, to the WAL and later to the file."""
        path, disk = self._database.path, disk_usage(self._database.path.parent)
        room = disk.free - min(DISK_RESERVE, disk.total // 20)
        return resources.file_size(path) + resources.file_size(path.with_name(f"{path.name}-wal")) + max(0, room) // 2

    @contextmanager
    def _without_sandbox(self) -> Iterator[None]:
        """Suspend the sandbox for statements of the service itself."""
        self.sandbox.bypass = True
        try:
            yield
        finally:
            self.sandbox.bypass = False

    @property
    def has_snapshot(self) -> bool:
        """True if the open transaction reads from a snapshot and has not written yet."""
        return self.raw.txn_state("main") == apsw.SQLITE_TXN_READ

    @property
    def writing(self) -> bool:
        """True if the open transaction holds the database's write lock."""
        return self.raw.txn_state("main") == apsw.SQLITE_TXN_WRITE

    def reset(self) -> None:
        """Reset the counters for the next stream; only valid if the sandbox is not ``dirty``.

        Opening a connection instead takes 0.5 ms and closing it more; a request takes some 0.1 ms.
        """
        self._changes_before, self._explained_after = self.raw.total_changes(), 0
        self.raw.set_last_insert_rowid(0)

    def free_caches(self) -> None:
        """Free what the idle connection caches: pages, and a large schema."""
        self.raw.release_memory()
        if not self.raw.in_transaction and self.raw.status(apsw.SQLITE_DBSTATUS_SCHEMA_USED)[0] > LARGE_SCHEMA:
            with self._without_sandbox():
                self.raw.pragma("writable_schema", "reset")  # only this: writing it stays off

    def describe(self, statement: SqlStatement) -> Shape:
        """Prepare a statement without running it."""
        self.sandbox.describing = True
        try:
            bindings = (None,) * len(statement.parameters)
            return self._execute(statement, bindings, may_write=False, can_cache=False)[1]
        finally:
            self.sandbox.describing = False

    def run(self, statement: SqlStatement, bindings: Sequence[SqlValue], *, may_write: bool) -> ResultRows:
        """Run a statement; return its columns and its rows.

        Raise `NeedsWriteLock`, before anything runs, if it would write and may not. It ends with its last row
        or with `finish`, which must be called in any case.
        """
        if statement.alters_column is not None and may_write:
            self._alter_column(statement, statement.alters_column)
            return ResultRows((), iter(()))
        if self.sandbox.dirty and not self._temporary_tables_bounded:
            self._bound_temporary_tables()

        self._vacuums = statement.keyword == "VACUUM"
        # If a cached statement cannot be prepared again, SQLite's error has no position. A cached EXPLAIN that is
        # prepared again reads the programs of triggers that no longer exist, which crashes the process.
        can_cache = not (statement.changes_schema or statement.explains) and memory.allows_caches()
        self._cursor, shape = self._execute(statement, bindings, may_write=may_write, can_cache=can_cache)
        if self._cursor is None:
            raise NeedsWriteLock
        cols = shape.cols
        if cols:
            try:  # only now: SQLite may have prepared it again for a changed schema
                cols = tuple(starmap(Col, self._cursor.get_description()))
            except apsw.ExecutionCompleteError:  # there are no rows
                if self._schema != self._database.schema_changes and not statement.changes_rows:
                    cols = self.describe(statement).cols
        return ResultRows(cols, without_addresses(self._cursor) if shape.program else self._cursor)

    def _bound_temporary_tables(self) -> None:
        """Limit temporary tables once the connection has any: without a temporary schema it needs less memory."""
        with self._without_sandbox():
            resources.bound_temporary_tables(self.raw)
        self._temporary_tables_bounded = True

    def _alter_column(self, statement: SqlStatement, change: AlterColumn) -> None:
        self.describe(statement)
        self._writes = True
        self._usage.begin(self._written(), self.stop)
        alter_column.apply(self.raw, change, self._scratch, self._writable_schema)

    def _scratch(self) -> apsw.Connection:
        """Open an empty database with the sandbox and the limits of this connection, which also ends with it."""
        scratch = apsw.Connection(":memory:")
        self._install_functions(scratch)
        Sandbox(unicode=self._database.unicode).install(scratch, self._database.limits.value)
        scratch.set_progress_handler(lambda: self.stopped or self._usage.check_memory(), resources.FIRST_INTERVAL)
        return scratch

    def _install_functions(self, raw: apsw.Connection) -> None:
        functions.install(raw, lambda: self.stopped)
        if self._database.unicode:
            unicode.install(raw, lambda: self.stopped)

    @contextmanager
    def _writable_schema(self, schema: str) -> Iterator[None]:
        """Allow writes to ``sqlite_schema``; afterwards, every connection reads the schema again."""
        with self._without_sandbox():
            version = int(self.raw.pragma("schema_version", schema=schema))
            self.raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
            self.raw.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
            try:
                yield
                self.raw.pragma("schema_version", version + 1, schema=schema)
            finally:  # not with a PRAGMA, which an interrupt or a lack of memory would prevent
                self.raw.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0)
                self.raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)

    def finish(self) -> None:
        """End the last statement even if rows are left: only then are its changes committed or refused."""
        cursor, self._cursor = self._cursor, None
        try:
            if cursor is not None:
                cursor.close()
        finally:
            self._usage.end()
            self._writes = False

    def _execute(
        self,
        statement: SqlStatement,
        bindings: Sequence[SqlValue],
        *,
        may_write: bool,
        can_cache: bool,
    ) -> tuple[apsw.Cursor | None, Shape]:
        """Prepare a statement, and start it; the cursor is None if it would write and may not, or is described.

        A statement that cannot be prepared is prepared again: perhaps another connection has changed the schema, which
        SQLite does not check for all errors, such as "table t has 1 columns but 2 values were supplied".
        """
        if self._counting:
            self._explained_after, self._counting = 0, False
        self.changes_schema = statement.changes_schema or (self.changes_schema and self.raw.in_transaction)
        if self._usage.interval != resources.FIRST_INTERVAL:
            self.raw.set_progress_handler(self._must_end, resources.FIRST_INTERVAL)
        self._usage = StatementUsage(self._database.path, resources.memory_used())
        if self._may_hold_larger:
            self._limit_values(statement, bindings)
        prepared: list[Shape] = []

        def trace(cursor: apsw.Cursor, _text: str, _bindings: Any) -> bool:
            # apsw would cache the result of `get_description`. What ALTER checks, SQLite runs as a SELECT.
            cols = () if statement.keyword == "ALTER" else tuple([Col(*column[:2]) for column in cursor.description])
            explain = cursor.is_explain
            shape = Shape(cols, cursor.is_readonly, bool(explain), explain == _PROGRAM)
            prepared.append(shape)
            if self.sandbox.describing:
                return False
            self._writes = not shape.readonly or statement.writes_by_itself
            if not statement.commits:
                self._usage.begin(self._written(), self.stop)
            starts = may_write or not self._writes or shape.explain
            self._counting = starts and statement.changes_rows
            return starts

        cursor, renewed = self.raw.cursor(), False
        cursor.exec_trace = trace
        while True:
            self.sandbox.refusal = ""
            self.sandbox.keyword = "" if statement.copies else statement.keyword
            try:
                cursor.execute(statement.text, bindings, can_cache=can_cache)
                return cursor, prepared[0]
            except apsw.ExecTraceAbort:
                return None, prepared[0]
            except apsw.SQLError:
                if prepared or renewed:
                    raise
            finally:
                self.sandbox.keyword = ""
            self._renew_schema()
            renewed = True

    def _renew_schema(self) -> None:
        """Let SQLite read the schema again if it has changed."""
        with suppress(apsw.SQLError):
            self.raw.execute(NO_TABLE)

    def _limit_values(self, statement: SqlStatement, bindings: Sequence[SqlValue]) -> None:
        """Let a statement read larger values than those of the limit, unless it may build some."""
        limit = self._database.limits.value
        value_limit.check_arguments(bindings, limit)
        with self._without_sandbox():  # nothing of it runs, and SQLite asks again when it does
            builds = self._may_build(statement)
        self.raw.limit(apsw.SQLITE_LIMIT_LENGTH, limit if builds else value_limit.LARGEST)

    def _may_build(self, statement: SqlStatement) -> bool:
        """Return `value_limit.may_build`, computed once for each text and schema: it may take longer than a query."""
        if self.changes_schema or self.sandbox.dirty:  # a schema that others do not see
            return self._explain(statement)
        schema = self._database.schema_changes
        if schema != self._builds_with:
            self._builds.clear()
            self._builds_with = schema
            self._renew_schema()  # EXPLAIN does not
        builds = self._builds.get(statement.text)
        if builds is None:
            if len(self._builds) >= MOST_DECISIONS:
                self._builds.clear()
            builds = self._explain(statement)
            if len(statement.text) <= LONGEST_CACHED:
                self._builds[statement.text] = builds
        return builds

    def _explain(self, statement: SqlStatement) -> bool:
        if statement.changes_rows:
            self._explained_after = self._explained_after or self.raw.changes()
        return value_limit.may_build(self.raw, statement.keyword, statement.text, len(statement.parameters))

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one; needed after an interrupt, too, which may leave it open."""
        if self.raw.in_transaction:
            self.raw.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection in any state; an open transaction is rolled back."""
        self.raw.close(True)


def _size_with_wal(path: Path) -> int:
    """Return the size of a database in bytes, with what was not moved yet from its WAL to its file."""
    return resources.file_size(path) + resources.file_size(path.with_name(f"{path.name}-wal"))
