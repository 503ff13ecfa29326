"""SQLite's own functions, on connections without any SQL of users."""

from __future__ import annotations

import threading

import apsw

from pipemagic.hrana.values import SqlValue


class _Native(threading.local):
    """A connection with SQLite's own functions, one for each thread. No SQL of users runs on it."""

    def __init__(self) -> None:
        self._connection = apsw.Connection(":memory:")

    def value(self, expression: str, *arguments: SqlValue) -> SqlValue:
        """Return the value of an expression of the service's own."""
        return self._connection.execute(f"SELECT {expression}", arguments).get  # type: ignore[no-any-return]


def too_big() -> apsw.TooBigError:
    """Return the error of SQLite for a value that is too large."""
    error = apsw.TooBigError("string or blob too big")
    error.result = error.extendedresult = apsw.SQLITE_TOOBIG  # type: ignore[attr-defined]
    return error


def most_bytes(value: SqlValue) -> int:
    """Return an upper bound of the bytes of a value as text."""
    match value:
        case str():
            return len(value) if value.isascii() else 4 * len(value)
        case bytes():
            return len(value)
    return 32  # a number


native = _Native()
