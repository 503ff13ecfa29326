"""SQLite connections: one for each stream, kept for the next one (`pools`) when nothing on them was changed.

A database file is only ever opened by SQLite itself: closing a file that was opened some other way would drop
the locks of the whole process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import apsw

from pipemagic.hrana.messages import Col
from pipemagic.hrana.values import SqlValue
from pipemagic.service.embedded import alter_column, database_list, functions
from pipemagic.service.embedded.alter_column import AlterColumn
from pipemagic.service.embedded.counters import Counters
from pipemagic.service.embedded.plans import Plan
from pipemagic.service.embedded.sandbox import Sandbox
from pipemagic.service.haste import AT_LEISURE, Haste
from pipemagic.service.limits import Limits

log = logging.getLogger(__name__)

BUSY_TIMEOUT = 1000  # milliseconds, against a program that opened the file beside the service
WRITABLE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
PROGRESS = 100_000  # SQLite's virtual machine instructions between two looks at `stopped`: about a millisecond
PROGRESS_IN_HASTE = 200
SIZE_IN_HASTE = 32 * 1024  # bytes of a value: each instruction of the virtual machine has to be short
PATTERN_IN_HASTE = 2  # bytes of a pattern of LIKE: a longer one may keep an instruction busy for ever
TOO_COMPLEX = ("LIKE or GLOB pattern too complex", "REGEXP pattern too big")
NO_TABLE = "SELECT 1 FROM main.sqlite_there_is_no_such_table"
"""A name that SQLite reserves: before it says that there is no such table it reads the schema again if that changed."""
MOST_PAGES = 2**32 - 2  # that an SQLite file can have


class NeedsTurn(Exception):
    """The statement would write and the caller did not say that it may: nothing ran."""


class Shape(NamedTuple):
    """What preparing a statement tells."""

    cols: tuple[Col, ...]
    readonly: bool
    explain: bool


class Source(NamedTuple):
    """A running statement's columns, and its rows as far as they are not taken yet."""

    cols: tuple[Col, ...]
    rows: Iterator[tuple[SqlValue, ...]]


class Home(Protocol):
    """What keeps connections for the next stream."""

    def give_back(self, connection: Connection) -> None:
        """Keep a connection, or close it."""


class DatabaseFile(Protocol):
    """What a connection needs of the database file that it is to."""

    path: Path
    limits: Limits
    schema_changes: int
    """Counts what may have made cached column lists stale."""


class Connection:
    """One SQLite connection with its sandbox.

    ``on_commit`` is called after each commit with the number of frames that the WAL has then.
    """

    def __init__(
        self,
        database: DatabaseFile,
        *,
        on_commit: Callable[[Connection, int], None] | None = None,
        busy_timeout: int = BUSY_TIMEOUT,
    ) -> None:
        self._database, self._on_commit = database, on_commit
        self.sandbox = Sandbox()
        flags = WRITABLE if on_commit is not None else apsw.SQLITE_OPEN_READONLY
        self.raw = apsw.Connection(str(database.path), flags=flags)
        self.raw.set_busy_timeout(busy_timeout)
        self.raw.pragma("synchronous", "FULL")
        functions.install(self.raw)
        self.sandbox.install(self.raw, database.limits)
        database_list.install(self.raw)
        self._counters = Counters(self.raw)
        self.raw.set_wal_hook(self._committed)
        self._ample = {limit: self.raw.limit(limit) for limit in _IN_HASTE}
        self._busy_timeout = busy_timeout
        self._settings = (False, False)
        self._writes = False
        self.raw.set_progress_handler(self._must_end, PROGRESS)
        self.stopped = False
        """Set to stop the running statement: SQLite's own interrupt is lost just before the first step."""
        self._haste = AT_LEISURE
        """Of the call whose statement runs."""
        self._outlasted = False
        """Whether the last statement was stopped since it took longer than its call's haste lets it."""
        self._cursor: apsw.Cursor | None = None
        self._schema = database.schema_changes
        self.size_limit: int | None = None
        """Bytes that the file may grow to; None: as many as SQLite can."""
        self.idle_since = 0.0
        self.home: Home | None = None
        """The pool that it was taken from, and goes back to."""

    def _committed(self, _connection: apsw.Connection, name: str, pages: int) -> int:
        try:
            if name == "main" and self._on_commit is not None:
                self._on_commit(self, pages)
        except apsw.Error:  # the commit is done and must not be answered with an error
            log.exception("the work after a commit met an error")
        return int(apsw.SQLITE_OK)

    def _must_end(self) -> bool:
        # SQLite asks once more when a statement is done: one that has committed by then must not count as stopped.
        if self._writes and self.raw.txn_state() != apsw.SQLITE_TXN_WRITE:
            return False
        if self.stopped:
            return True
        self._outlasted = self._haste.over
        return self._outlasted

    def hurry(self, haste: Haste, *, reads: bool = True) -> None:
        """Run what follows in haste, or let it take its time.

        Only what ``reads`` gets small values: full-text search does not look whether a large one could be stored.
        """
        self._haste, self._outlasted = haste, False
        settings = (haste.on, haste.on and reads)
        if settings == self._settings:
            return
        self._settings = settings
        for limit, (size, also_writes) in _IN_HASTE.items():
            ample, lowered = self._ample[limit], haste.on and (reads or also_writes)
            self.raw.limit(limit, min(size, ample) if lowered else ample)
        self.raw.set_busy_timeout(0 if haste.on else self._busy_timeout)
        self.raw.set_progress_handler(self._must_end, PROGRESS_IN_HASTE if haste.on else PROGRESS)

    def calm_down(self) -> None:
        """End the haste of a call: whatever is done with the connection until the next `hurry` is not stopped by it."""
        self._haste = AT_LEISURE

    def outlasted(self, error: Exception) -> bool:
        """Tell whether a statement failed since it was run in haste, or may have; nothing of it is applied then."""
        hurried, reads = self._settings
        match error:
            case apsw.InterruptError():
                return self._outlasted
            case apsw.Error() if reads:
                return True  # whatever the small limits did: at leisure it will tell
            case apsw.BusyError():
                return hurried
            case apsw.SQLError():
                return hurried and any(message in str(error) for message in TOO_COMPLEX)
        return False

    def stop(self) -> None:
        """Stop the running statement; call from any thread, and `go` before the next one."""
        self.stopped = True
        self.raw.interrupt()

    def go(self) -> None:
        """Let the next statement run."""
        self.stopped = False

    def checkpoint(self) -> None:
        """Move what readers no longer need from the WAL to the database file."""
        try:
            self.raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:
            log.debug("checkpoint put off: another one is under way")

    def limit_size(self, limit: int | None) -> None:
        """Let the file grow to so many bytes; one that is larger already just grows no more."""
        if limit == self.size_limit:
            return
        with self._without_sandbox():
            pages = MOST_PAGES if limit is None else max(1, limit // self.raw.pragma("page_size"))
            self.raw.pragma("max_page_count", pages)
        self.size_limit = limit

    @contextmanager
    def _without_sandbox(self) -> Iterator[None]:
        """Allow statements of the service itself what those of a client may not do."""
        self.sandbox.lifted = True
        try:
            yield
        finally:
            self.sandbox.lifted = False

    @property
    def autocommit(self) -> bool:
        """Whether no transaction is open."""
        return bool(self.raw.get_autocommit())

    @property
    def has_snapshot(self) -> bool:
        """Whether the open transaction reads from a snapshot and has not written yet."""
        return self.raw.txn_state("main") == apsw.SQLITE_TXN_READ

    @property
    def writing(self) -> bool:
        """Whether the open transaction holds the database's write lock."""
        return self.raw.txn_state("main") == apsw.SQLITE_TXN_WRITE

    @property
    def reusable(self) -> bool:
        """Whether a next stream would see no trace of this one, once it is rolled back and its counters are reset."""
        return not self.sandbox.touched

    def reset(self) -> None:
        """Let the next stream find the connection as a new one."""
        self._counters.reset()

    def describe(self, plan: Plan) -> Shape:
        """Prepare a statement without running it."""
        self.hurry(AT_LEISURE)
        if plan.alters_column is not None:
            alter_column.check(self.raw, plan.alters_column)
            return Shape((), readonly=False, explain=False)
        shape: list[Shape] = []

        def look(cursor: apsw.Cursor, _text: str, _bindings: Any) -> bool:
            cols = () if plan.keyword == "ALTER" else _prepared_cols(cursor)
            shape.append(Shape(cols, cursor.is_readonly, bool(cursor.is_explain)))
            return False

        try:
            self.sandbox.only_shown = True
            self._execute(plan, (None,) * len(plan.parameters), look, shape, can_cache=False)
        except apsw.ExecTraceAbort:
            return shape[0]
        finally:
            self.sandbox.only_shown = False
        raise AssertionError("a statement ran although it was only described")

    def run(self, plan: Plan, bindings: Sequence[SqlValue], *, may_write: bool) -> Source:
        """Run a statement; give its columns and its rows.

        NeedsTurn, before anything ran, if it would write and may not. The statement ends with its last row, or
        with `finish`, which has to follow whether all rows were taken or not.
        """
        if plan.alters_column is not None:
            if not may_write:
                raise NeedsTurn
            self._alter_column(plan.alters_column)
            return Source((), iter(()))
        prepared: list[Shape] = []

        def look(cursor: apsw.Cursor, _text: str, _bindings: Any) -> bool:
            writes, explains = not cursor.is_readonly or plan.writes_by_itself, bool(cursor.is_explain)
            self._writes = writes
            prepared.append(Shape(_prepared_cols(cursor), not writes, explains))
            return may_write or not writes or explains

        try:
            # Why a kept statement cannot be prepared anew, SQLite tells without the place. And a kept EXPLAIN that is
            # prepared anew reads the programs of triggers that are no more, which ends the process.
            can_cache = not (plan.changes_schema or plan.explains)
            cursor = self._cursor = self._execute(plan, bindings, look, prepared, can_cache=can_cache)
        except apsw.ExecTraceAbort:
            raise NeedsTurn from None
        if not prepared[0].cols or plan.keyword == "ALTER":  # whose checks SQLite runs as a SELECT
            return Source((), cursor)
        try:
            cols = _cols(cursor)  # only now: SQLite may have prepared it again for a changed schema
        except apsw.ExecutionCompleteError:
            cols = self._cols_without_rows(plan, prepared[0].cols)
        return Source(cols, cursor)

    def _alter_column(self, change: AlterColumn) -> None:
        self.sandbox.refusal = ""
        self._writes = True
        with self._without_sandbox():
            self.raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
            try:
                alter_column.apply(self.raw, change)
            finally:
                self.raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)

    def finish(self) -> None:
        """End the last statement even if rows are left: what it changed is committed, or refused, only then."""
        cursor, self._cursor, self._writes = self._cursor, None, False
        if cursor is not None:
            cursor.close()

    def _cols_without_rows(self, plan: Plan, cached: tuple[Col, ...]) -> tuple[Col, ...]:
        """Give the columns of an empty result, anew if the schema changed since this connection was made."""
        if self._schema == self._database.schema_changes or plan.changes_rows:
            return cached
        return self.describe(plan).cols

    def _execute(
        self, plan: Plan, bindings: Sequence[SqlValue], look: Callable[..., bool], looked: Sequence[Shape], *,
        can_cache: bool,
    ) -> apsw.Cursor:  # fmt: skip
        """Prepare and begin; ``look``, which is called in between, adds to ``looked``."""
        try:
            return self._prepare(plan, bindings, look, can_cache=can_cache)
        except apsw.SQLError:
            if looked:
                raise
        # It could not be prepared, maybe for a schema that another connection has changed since: SQLite does not
        # look again for all errors, "table t has 1 columns but 2 values were supplied" is one.
        self._renew_schema()
        return self._prepare(plan, bindings, look, can_cache=can_cache)

    def _renew_schema(self) -> None:
        """Have SQLite look whether the schema that it knows is the file's, without beginning to read from it."""
        with suppress(apsw.SQLError):
            self.raw.execute(NO_TABLE)

    def _prepare(
        self, plan: Plan, bindings: Sequence[SqlValue], look: Callable[..., bool], *, can_cache: bool
    ) -> apsw.Cursor:
        """Prepare a statement and begin to run it if ``look``, which is called in between, lets it."""
        cursor = self.raw.cursor()
        cursor.exec_trace = look
        self.sandbox.refusal = ""
        self.sandbox.keyword = "" if plan.copies else plan.keyword
        try:
            return cursor.execute(plan.text, tuple(bindings), can_cache=can_cache)
        finally:
            self.sandbox.keyword = ""

    def rollback(self) -> None:
        """End an open transaction; needed after an interrupt too, which leaves some open."""
        if not self.autocommit:
            self.raw.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection, whatever it is doing; an open transaction is rolled back."""
        self.raw.close(True)


_IN_HASTE = {
    apsw.SQLITE_LIMIT_LENGTH: (SIZE_IN_HASTE, False),
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: (PATTERN_IN_HASTE, True),
}
"""SQLite's own limits for statements in haste, and whether they are for writes, too."""


def _cols(cursor: apsw.Cursor) -> tuple[Col, ...]:
    return tuple([Col(name, decltype) for name, decltype in cursor.get_description()])


def _prepared_cols(cursor: apsw.Cursor) -> tuple[Col, ...]:
    """Give the columns before the statement begins, by another way: what `_cols` was told once apsw keeps."""
    return tuple([Col(name, decltype) for name, decltype, *_ in cursor.description])
