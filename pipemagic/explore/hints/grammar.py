"""SQLite's own grammar: where it stops reading a statement.

A statement is only compiled, in a database in memory without tables, and never run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pipemagic.sql import character_offset, quote, split

if TYPE_CHECKING:
    import apsw

_SYNTAX = re.compile(r"syntax error|unrecognized token|\Aincomplete input")
_NO_TRIGGERED_TABLE = re.compile(r"\Ano such table: main\.(.+)")
_READABLE = re.compile(r"\Ano such |has no column named|\Awrong number of arguments|\Amisuse of ")
"""Errors that SQLite reports only when it has read the whole statement."""


class Grammar:
    """Reads statements; use one for the candidates of one error."""

    def __init__(self) -> None:
        import apsw  # an error is rare, and nothing else of the client needs SQLite

        self._apsw, self._connection = apsw, apsw.Connection(":memory:")
        self._connection.authorizer = self._authorize

    def reads(self, text: str) -> bool:
        """Return True if the statements of the text have no syntax error."""
        return self.stop(text) is None

    def stop(self, text: str) -> int | None:
        """Return the offset at which SQLite stops, the length of the text for its end; None if it reads the text."""
        if ";" not in text:
            return self._error(text)
        for statement in split(text):
            offset = self._error(statement.text)
            if offset is not None:
                return statement.start + offset
        return None

    def _error(self, text: str) -> int | None:
        """Return the offset of the syntax error in one statement; None if it has none.

        0 is also that of any other error that may have kept SQLite from reading on.
        """
        for _ in range(2):
            try:
                self._connection.execute(text, explain=1).close()
            except (self._apsw.BindingsError, self._apsw.AuthError):
                return None
            except self._apsw.Error as error:
                message = str(error)
                if (match := _NO_TRIGGERED_TABLE.match(message)) and self._create(match[1]):
                    continue  # SQLite looks for the table of a trigger before it reads the rest
                return _offset(error, message, text)
            return None
        return 0

    def _create(self, table: str) -> bool:
        try:
            self._connection.execute(f"CREATE TABLE {quote(table)} (x)").close()
        except self._apsw.Error:
            return False
        return True

    def _authorize(self, operation: int, *_: str | None) -> int:
        """Refuse what has an effect when it is compiled."""
        apsw = self._apsw
        refused = operation in (apsw.SQLITE_PRAGMA, apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH)
        return int(apsw.SQLITE_DENY if refused else apsw.SQLITE_OK)


def _offset(error: apsw.Error, message: str, text: str) -> int | None:
    if _SYNTAX.search(message):
        place: int = getattr(error, "error_offset", -1)
        return len(text) if place < 0 else character_offset(text, place)
    return None if _READABLE.search(message) else 0
