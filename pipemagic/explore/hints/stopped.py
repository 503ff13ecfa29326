"""A statement with a syntax error, and changes of its text."""

from __future__ import annotations

from typing import NamedTuple

from pipemagic.explore.hints.words import Span, Tokens
from pipemagic.sql import significant
from pipemagic.text import shorten

_SHOWN = 40  # characters of a token that a hint only mentions


class Change(NamedTuple):
    """A changed text, and the hint that proposes it; ``end`` is the offset behind the change."""

    hint: str
    text: str
    end: int = 0


class Stopped(Tokens):
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
