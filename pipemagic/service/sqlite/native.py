"""SQLite's own functions, on connections without any SQL of users."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import apsw

from pipemagic.hrana.values import SqlValue

_MOST_STEPS = 500_000_000
"""The product of the arguments' sizes up to which SQLite's own function runs: about half a second."""

_LONGEST = 2**31 - 1
"""A limit of values in bytes, which SQLite reduces to the largest that it can have."""


class _Native(threading.local):
    """A connection with SQLite's own functions, one for each thread. No SQL of users runs on it."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")

    def value(self, expression: str, *arguments: SqlValue) -> SqlValue:
        """Return the value of an expression of the service's own."""
        return self.connection.execute(f"SELECT {expression}", arguments).get  # type: ignore[no-any-return]

    def __call__(self, name: str, largest: int, *arguments: SqlValue) -> SqlValue:
        """Return the result of SQLite's function; raise `apsw.TooBigError` if it might take long, or is too large."""
        if None in arguments and name != "replace":  # with an empty second argument, its third may be NULL
            return None
        if most_bytes(arguments[0]) * most_bytes(arguments[1]) > _MOST_STEPS:
            raise too_big(
                f"the arguments of {name}() are too large: the product of their sizes in bytes is limited to "
                f"{_MOST_STEPS:,}"
            )
        self.connection.limit(apsw.SQLITE_LIMIT_LENGTH, largest)
        return self._call(name, arguments)

    def like(self, longest_pattern: int, *arguments: str) -> SqlValue:
        """Return the result of SQLite's LIKE with that limit of the pattern, in bytes."""
        self.connection.limit(apsw.SQLITE_LIMIT_LENGTH, _LONGEST)
        self.connection.limit(apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, longest_pattern)
        return self._call("like", arguments)

    def _call(self, name: str, arguments: Sequence[SqlValue]) -> SqlValue:
        return self.value(f"{name}({', '.join('?' * len(arguments))})", *arguments)


def too_big(message: str) -> apsw.TooBigError:
    """Return the error for a value that is too large."""
    error = apsw.TooBigError(message)
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
