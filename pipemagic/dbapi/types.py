"""The constructors and types of PEP 249."""

from __future__ import annotations

import datetime
import time

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = memoryview


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 - the name in PEP 249
    """Return the local date of a moment in seconds since 1970."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    """Return the local time of day of a moment in seconds since 1970."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """Return the local date and time of a moment in seconds since 1970."""
    return Timestamp(*time.localtime(ticks)[:6])


class DeclaredType:
    """The declared type of a column in ``description``; equal to its text, and to its type of PEP 249.

    It is not a `str`: Polars takes a text for the type of all values and converts them without a check, BOOLEAN 5 to
    False and DECIMAL '1.10' to null, and fails for a DATE. SQLite stores any value in these columns.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DeclaredType | str):
            return self.name == str(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return repr(self.name)


class Type:
    """Equal to the declared types, in ``description``, that contain one of some words."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DeclaredType | str):
            return any(word in str(other).upper() for word in self._words)
        return self is other

    __hash__ = None  # type: ignore[assignment]


STRING = Type("CHAR", "CLOB", "TEXT")
BINARY = Type("BLOB")
NUMBER = Type("INT", "REAL", "FLOA", "DOUB", "NUM", "DEC", "BOOL")
DATETIME = Type("DATE", "TIME")
ROWID = Type("INTEGER PRIMARY KEY")
"""No result has it: the declared type of a rowid is INTEGER."""
