"""A statement with a syntax error: where SQLite's own grammar stops, and changes of its text.

A statement is only compiled, in a database in memory without tables, and never run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pipemagic.explore.hints.words import Span, TokenList
from pipemagic.sql import character_offset, quote, significant, split
from pipemagic.text import shorten

if TYPE_CHECKING:
    import apsw

_SHOWN = 40  # characters of a token that a hint only mentions


class Suggestion(NamedTuple):
    """A changed text, and the hint that proposes it; ``end`` is the offset behind the change."""

    hint: str
    text: str
    end: int = 0


class BrokenStatement(TokenList):
    """A statement, and the offset at which SQLite stops reading it.

    Its tokens are those without blanks, comments and the last semicolon. ``at`` is the index of the one at which
    SQLite stops; the number of tokens for the end.
    """

    def __init__(self, text: str, offset: int) -> None:
        words = significant(text)
        super().__init__(words[:-1] if words and words[-1].kind == "semi" else words)
        self.text, self.offset = text, offset
        self.at = next((at for at, token in enumerate(self.tokens) if token.end > offset), len(self.tokens))

    def kind(self, index: int) -> str:
        """Return the kind of the token at an index; '' outside."""
        return self.tokens[index].kind if 0 <= index < len(self.tokens) else ""

    def shown(self, index: int) -> str:
        """Return the token at an index for a hint."""
        return shorten(self.tokens[index].text, _SHOWN)

    def written(self, first: int, last: int) -> str:
        """Return the text from one token to another one."""
        return self.text[self.tokens[first].start : self.tokens[last].end]

    def insert(self, index: int, text: str) -> str:
        """Return the statement with a text before the token at an index, or at its end."""
        if index == len(self.tokens):
            end = self.tokens[-1].end if self.tokens else len(self.text)
            return f"{self.text[:end]} {text} {self.text[end:]}"
        start = self.tokens[index].start
        return f"{self.text[:start]} {text} {self.text[start:]}"

    def replace(self, first: int, last: int, text: str) -> str:
        """Return the statement with a text instead of the tokens from one to another one."""
        return f"{self.text[: self.tokens[first].start]} {text} {self.text[self.tokens[last].end :]}"

    def remove(self, index: int) -> str:
        """Return the statement without a token."""
        return self.replace(index, index, "")

    def parenthesis(self) -> Span:
        """Return what is in the innermost parentheses around the stop; all tokens outside of parentheses."""
        opening = self.around(self.at)
        return Span(0, len(self)) if opening is None else Span(opening + 1, self.end_of(opening) - 1)

    def end_of(self, first: int) -> int:
        """Return the index behind the parentheses that begin at an index."""
        closing = self.closing(first)
        return len(self) + 1 if closing is None else closing + 1


# -- SQLite's grammar

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
        """Return the offset of the syntax error in one statement; None without an error.

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
