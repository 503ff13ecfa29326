"""The catalog's file: its schema, one connection for all threads, and durable transactions."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from pipemagic.errors import ServiceError
from pipemagic.service import memory
from pipemagic.service.files import lacks_space_to_open

log = logging.getLogger(__name__)

SCHEMA = Path(__file__).with_name("schema.sql")
UPGRADES = {version: Path(__file__).with_name(f"upgrade_{version}.sql") for version in (5, 6)}
"""Each converts the schema of a version to that of the next one. A test compares the result with `SCHEMA`."""
VERSION, OLDEST = 7, 5
"""The schema versions of this release and of release 0.1.0."""

RunSql = Callable[[str, Sequence[Any]], list[Any]]
"""Runs one statement of a transaction and returns its rows."""

_Record = TypeVar("_Record")


class Store:
    """The file that all parts of the catalog share. Safe to use from several threads.

    Raise `ServiceError` for a file that is damaged, cannot be opened, or is of another version.
    """

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        self.now = now
        """Return Unix seconds."""
        self.lock = threading.RLock()
        self.on_change: list[Callable[[], object]] = []
        """Functions that clear caches of the catalog; they are called after each change, under the lock."""
        self.changes = 0
        """The number of changes so far. A cache compares it to detect stale entries."""
        self._connection = _open(path)
        self._path, self._identity = path, _identity(path)

    def close(self) -> None:
        """Close the file, unless it is closed."""
        with self.lock:
            self._connection.close()

    def check(self, sql: str) -> None:
        """Run a query on a new connection; raise `apsw.Error` if that fails. The open one would read from its cache."""
        self.rows(sql)
        if _identity(self._path) != self._identity:
            raise apsw.CantOpenError("the file was removed or replaced while the service runs")
        if self._connection.pragma("locking_mode") == "exclusive":  # opened on a full disk: no other one can read it
            return
        flags = apsw.SQLITE_OPEN_READONLY
        with memory.for_catalog(), closing(apsw.Connection(str(self._path), flags=flags)) as fresh:
            fresh.execute(sql).fetchall()

    def rows(self, sql: str, arguments: Sequence[Any] = ()) -> list[Any]:
        """Run one statement and return its rows."""
        with self.lock, memory.for_catalog():
            return self._connection.execute(sql, tuple(arguments)).fetchall()

    def records(self, kind: type[_Record], sql: str, arguments: Sequence[Any] = ()) -> list[_Record]:
        """Run one query and return its rows as records. Their fields are in the order of the columns."""
        return msgspec.convert(self.rows(sql, arguments), list[kind], strict=False)  # type: ignore[valid-type]

    def record(self, kind: type[_Record], sql: str, arguments: Sequence[Any] = ()) -> _Record | None:
        """Return the first record of a query, or None."""
        return next(iter(self.records(kind, sql, arguments)), None)

    @contextmanager
    def change(self, *, cached: bool = True) -> Iterator[RunSql]:
        """Run a durable transaction; a nested change joins it. Without ``cached``, caches remain valid."""
        with self.lock:
            try:
                with memory.for_catalog(), self._connection:
                    yield self.rows
            finally:
                if cached:
                    self.changes += 1
                    for callback in self.on_change:
                        callback()


def new_id() -> str:
    """Return an id that was never used before."""
    return str(uuid.uuid4())


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what distinguishes the file from another one of the same name; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


_ELSEWHERE = "use another data folder (PIPEMAGIC_DATA or --data)"
_DAMAGED = apsw.NotADBError, apsw.CorruptError
_UNUSABLE = apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.IOError, apsw.FullError, apsw.BusyError


def _open(path: Path) -> apsw.Connection:
    """Open the catalog, or create it; committed changes survive any crash."""
    with ExitStack() as on_error:
        try:
            connection = apsw.Connection(str(path))
            on_error.callback(connection.close)
            connection.set_busy_timeout(2000)
            if _is_on_full_disk(path):
                log.warning("the disk is full: the catalog is read-only until there is free space")
                connection.pragma("locking_mode", "exclusive")  # before the first read
            version = _check_version(connection, path)  # before the first change of the file
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "full")
            connection.pragma("foreign_keys", True)
            [(result,)] = connection.execute("PRAGMA quick_check(1)").fetchall()  # of all of it: the file is small
            if result != "ok":
                raise apsw.CorruptError(result)
            if version < VERSION:
                scripts = [UPGRADES[step] for step in range(version, VERSION)] if version else [SCHEMA]
                with connection:
                    for script in scripts:
                        connection.execute(script.read_text("utf-8"))
                    connection.pragma("user_version", VERSION)
        except _DAMAGED as error:
            raise _refused(
                f"{path} is damaged: {error}", "restore it from a backup, or use another data folder"
            ) from None
        except _UNUSABLE as error:
            raise _refused(f"cannot open {path}: {error}", f"make it readable and writable, or {_ELSEWHERE}") from None
        on_error.pop_all()
    return connection


def _is_on_full_disk(path: Path) -> bool:
    """Return True if the disk has no space for the file in which connections share the index of the WAL.

    A connection that locks the file has the index in its memory, so the service can start, and write as soon as there
    is space. Source: https://sqlite.org/wal.html#noshm
    """
    with closing(apsw.Connection(str(path))) as connection:
        try:
            connection.pragma("user_version")
        except apsw.IOError as error:
            return lacks_space_to_open(error)
    return False


def _check_version(connection: apsw.Connection, path: Path) -> int:
    """Return the schema version, 0 for an empty file; refuse a catalog that cannot be upgraded, and other programs'."""
    version = int(connection.pragma("user_version"))
    if version > VERSION:
        problem = f"the catalog has schema version {version}, but this pipemagic supports version {VERSION}"
        raise _refused(problem, f"upgrade pipemagic, or {_ELSEWHERE}", "CATALOG_TOO_NEW")
    if 0 < version < OLDEST:
        problem = f"the catalog has schema version {version}, which is older than version {OLDEST} of release 0.1.0"
        hint = f"run pipemagic 0.1.0 once on this data folder to convert it, or {_ELSEWHERE}"
        raise _refused(problem, hint, "CATALOG_TOO_OLD")
    if version == 0 and connection.execute("SELECT 1 FROM sqlite_schema").fetchall():
        raise _refused(f"{path} belongs to another program", _ELSEWHERE)
    return version


def _refused(message: str, hint: str, code: str = "BAD_CATALOG") -> ServiceError:
    return ServiceError(message, hint=hint, code=code)
