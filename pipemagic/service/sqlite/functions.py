"""SQL functions that SQLite lacks, those of an extension that apsw brings, and some in the place of SQLite's own.

The extension has ``regexp`` (``x REGEXP y``) and ``regexpi``. ``changes()`` and ``total_changes()`` do not count those
of earlier streams, and ``pragma_database_list`` does not have the path of the file.

Source: https://sqlite.org/src/file/ext/misc/regexp.c
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import apsw

from pipemagic.hrana.values import SqlValue
from pipemagic.service.sqlite import date_trunc, series, statistics
from pipemagic.service.sqlite.regexp_replace import regexp_replace

DATABASE_LIST = "pragma_database_list"


def install(connection: apsw.Connection, stopped: Callable[[], bool] = lambda: False) -> None:
    """Register the functions that SQLite lacks; call it before the connection has an authorizer.

    Once ``stopped`` returns True, ``regexp_replace`` raises `apsw.InterruptError`.
    """
    statistics.install(connection)
    series.install(connection)
    # Not deterministic for SQLite, which therefore refuses them in indexes and generated columns: other programs could
    # not read such a table.
    function: Callable[..., SqlValue] = date_trunc.date_trunc
    connection.create_scalar_function("date_trunc", function, 2, flags=apsw.SQLITE_INNOCUOUS)
    replace = partial(regexp_replace, lambda: connection.limit(apsw.SQLITE_LIMIT_LENGTH), stopped)
    for count in (3, 4):
        connection.create_scalar_function("regexp_replace", replace, count, flags=apsw.SQLITE_INNOCUOUS)
    path = _regexp()
    if path is None:
        return
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    try:
        connection.load_extension(path)
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)


@cache
def _regexp() -> str | None:
    try:
        from apsw import sqlite_extra
    except ImportError:  # apsw before 3.52, or a build without the extensions
        return None
    return str(sqlite_extra.path("regexp")) if sqlite_extra.has("regexp") == "extension" else None


def count_changes_since(connection: apsw.Connection, before: Callable[[], int], kept: Callable[[], int]) -> None:
    """Replace ``changes()`` and ``total_changes()``, which SQLite cannot reset.

    ``before()``: the changes not to count; ``kept()``: those that SQLite has reset too early, or 0.

    One difference remains: after a statement of a trigger was counted, `changes()` in the trigger's next run returns
    the count from before the outer statement, which may be that of the previous stream.
    """

    def total(*_: SqlValue) -> int:
        return connection.total_changes() - before()

    def changes(*_: SqlValue) -> int:
        return (connection.changes() or kept()) if total() else 0

    connection.create_scalar_function("total_changes", total, 0, flags=apsw.SQLITE_INNOCUOUS)
    connection.create_scalar_function("changes", changes, 0, flags=apsw.SQLITE_INNOCUOUS)


def hide_path(connection: apsw.Connection) -> None:
    """Replace ``pragma_database_list``: one row, ``0|main|''``. The PRAGMA itself is read from it (see `statement`).

    SQLite looks for a module of that name before it creates its own.
    """
    module: Any = _DatabaseList()
    connection.create_module(
        DATABASE_LIST, module, use_bestindex_object=True, eponymous=True, eponymous_only=True, read_only=True
    )


class _DatabaseList:
    """A virtual table with one row."""

    def Connect(self, *_: Any) -> tuple[str, _DatabaseList]:  # noqa: N802 - apsw calls these names
        return "CREATE TABLE databases(seq, name, file)", self

    def BestIndexObject(self, _: Any) -> bool:  # noqa: N802
        return True

    def Open(self) -> _Row:  # noqa: N802
        return _Row()


class _Row:
    """A cursor over that row."""

    def Filter(self, *_: Any) -> None:  # noqa: N802
        self._done = False

    def Eof(self) -> bool:  # noqa: N802
        return self._done

    def Column(self, number: int) -> Any:  # noqa: N802
        return (0, "main", "", 0)[number]  # -1 is the rowid

    def Next(self) -> None:  # noqa: N802
        self._done = True

    def Close(self) -> None:  # noqa: N802
        pass
