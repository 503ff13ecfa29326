"""SQLite connections: one for each stream, kept for the next stream when nothing on them was changed.

A database file is only ever opened by SQLite itself: closing a file that was opened some other way would drop
the locks of the whole process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import apsw

from pipemagic.hrana.messages import Col
from pipemagic.hrana.values import SqlValue
from pipemagic.service.embedded.counters import Counters
from pipemagic.service.embedded.plans import Plan
from pipemagic.service.embedded.sandbox import Sandbox
from pipemagic.service.http import Refused
from pipemagic.service.limits import Limits

log = logging.getLogger(__name__)

BUSY_TIMEOUT = 1000  # milliseconds, against a program that opened the file beside the service
WRITABLE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
PROGRESS = 100_000  # SQLite's virtual machine instructions between two looks at `stopped`: about a millisecond
NO_TABLE = "SELECT 1 FROM main.sqlite_there_is_no_such_table"
"""A name that SQLite reserves: before it says that there is no such table it reads the schema again if that changed."""
MOST_PAGES = 2**32 - 2  # that an SQLite file can have


class NeedsTurn(Exception):
    """The statement would write and the caller did not say that it may: nothing ran."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What preparing a statement tells."""

    cols: tuple[Col, ...]
    readonly: bool
    explain: bool


class Source(NamedTuple):
    """A running statement's columns, and its rows as far as they are not taken yet."""

    cols: tuple[Col, ...]
    rows: Iterator[tuple[SqlValue, ...]]


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
        self.sandbox.install(self.raw, database.limits)
        self._counters = Counters(self.raw)
        self.raw.set_wal_hook(self._committed)
        self.raw.set_progress_handler(lambda: self.stopped, PROGRESS)
        self.stopped = False
        """Set to stop the running statement: SQLite's own interrupt is lost just before the first step."""
        self._cursor: apsw.Cursor | None = None
        self._schema = database.schema_changes
        self.size_limit: int | None = None
        """Bytes that the file may grow to; None: as many as SQLite can."""
        self.idle_since = 0.0
        self.home: Pool | None = None
        """The pool that it was taken from, and goes back to."""

    def _committed(self, _connection: apsw.Connection, name: str, pages: int) -> int:
        try:
            if name == "main" and self._on_commit is not None:
                self._on_commit(self, pages)
        except apsw.Error:  # the commit is done and must not be answered with an error
            log.exception("the work after a commit met an error")
        return int(apsw.SQLITE_OK)

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
        self.sandbox.lifted = True
        try:
            pages = MOST_PAGES if limit is None else max(1, limit // self.raw.pragma("page_size"))
            self.raw.pragma("max_page_count", pages)
        finally:
            self.sandbox.lifted = False
        self.size_limit = limit

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
        """Whether a next stream would see no trace of this one, once its counters are reset."""
        return self.autocommit and not self.sandbox.touched

    def reset(self) -> None:
        """Let the next stream find the connection as a new one."""
        self._counters.reset()

    def describe(self, plan: Plan) -> Shape:
        """Prepare a statement without running it."""
        shape: list[Shape] = []

        def look(cursor: apsw.Cursor, _text: str, _bindings: Any) -> bool:
            shape.append(Shape(_cols(cursor), cursor.is_readonly, bool(cursor.is_explain)))
            return False

        try:
            self.sandbox.only_shown = True
            self._execute(plan, (None,) * len(plan.parameters), look, can_cache=False)
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
        prepared: list[Shape] = []

        def look(cursor: apsw.Cursor, _text: str, _bindings: Any) -> bool:
            writes = not cursor.is_readonly or plan.writes_by_itself
            prepared.append(Shape(_cols(cursor), not writes, bool(cursor.is_explain)))
            return may_write or not writes or bool(cursor.is_explain)

        try:
            # Why a kept statement cannot be prepared anew, SQLite tells without the place.
            cursor = self._cursor = self._execute(plan, bindings, look, can_cache=not plan.changes_schema)
        except apsw.ExecTraceAbort:
            raise NeedsTurn from None
        if not prepared[0].cols:
            return Source((), cursor)
        try:
            cols = _cols(cursor)  # only now: SQLite may have prepared it again for a changed schema
        except apsw.ExecutionCompleteError:
            cols = self._cols_without_rows(plan, prepared[0].cols)
        return Source(cols, cursor)

    def finish(self) -> None:
        """End the last statement even if rows are left: what it changed is committed, or refused, only then."""
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()

    def _cols_without_rows(self, plan: Plan, cached: tuple[Col, ...]) -> tuple[Col, ...]:
        """Give the columns of an empty result, anew if the schema changed since this connection was made."""
        if self._schema == self._database.schema_changes or plan.changes_rows:
            return cached
        return self.describe(plan).cols

    def _execute(
        self, plan: Plan, bindings: Sequence[SqlValue], look: Callable[..., bool], *, can_cache: bool = True
    ) -> apsw.Cursor:
        looked: list[bool] = []

        def trace(cursor: apsw.Cursor, text: str, given: Any) -> bool:
            looked.append(True)
            return look(cursor, text, given)

        try:
            return self._prepare(plan, bindings, trace, can_cache=can_cache)
        except apsw.SQLError:
            if looked:
                raise
        # It could not be prepared, maybe for a schema that another connection has changed since: SQLite does not
        # look again for all errors, "table t has 1 columns but 2 values were supplied" is one.
        self._renew_schema()
        return self._prepare(plan, bindings, trace, can_cache=can_cache)

    def _renew_schema(self) -> None:
        """Have SQLite look whether the schema that it knows is the file's, without beginning to read from it."""
        with suppress(apsw.SQLError):
            self.raw.execute(NO_TABLE)

    def _prepare(
        self, plan: Plan, bindings: Sequence[SqlValue], trace: Callable[..., bool], *, can_cache: bool
    ) -> apsw.Cursor:
        """Prepare a statement and begin to run it if ``trace``, which is called in between, lets it."""
        cursor = self.raw.cursor()
        cursor.exec_trace = trace
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


def _cols(cursor: apsw.Cursor) -> tuple[Col, ...]:
    return tuple(Col(name, decltype) for name, decltype in cursor.get_description())


class Pool:
    """Clean connections to one file, kept for the next stream."""

    def __init__(self, connect: Callable[[], Connection], limits: Limits, clock: Callable[[], float]) -> None:
        self._connect, self._limits, self._clock = connect, limits, clock
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False

    def __len__(self) -> int:
        """Count the connections that are kept."""
        return len(self._idle)

    def take(self) -> Connection:
        """Give a connection without any trace of an earlier stream."""
        with self._lock:
            if self._closed:
                raise Refused(404, "the database was deleted, or the service is stopping")
            if self._idle:
                return self._idle.pop()
        try:
            connection = self._connect()
        except apsw.CantOpenError as error:  # no more file handles, in all likelihood
            log.warning("no connection can be opened: %s", error)
            raise Refused(429, "Too many open connections; close the streams that are not needed") from None
        connection.home = self
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep a clean connection for the next stream, close any other."""
        try:
            connection.rollback()
        except apsw.Error as error:
            log.warning("a connection could not be rolled back and is closed: %s", error)
            connection.close()
            return
        if connection.reusable:
            connection.reset()
            connection.idle_since = self._clock()
            with self._lock:
                if not self._closed and len(self._idle) < self._limits.idle_connections:
                    self._idle.append(connection)
                    return
        connection.close()

    def trim(self, now: float) -> None:
        """Close connections that nobody wanted for a while."""
        oldest = now - self._limits.idle_connection_age
        with self._lock:
            late = [one for one in self._idle if one.idle_since < oldest]
            self._idle = [one for one in self._idle if one.idle_since >= oldest]
        for connection in late:
            connection.close()

    def close(self) -> None:
        """Close the idle connections, and each other one when it is given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
