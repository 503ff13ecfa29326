"""A statement with a syntax error, and changes of its text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pipemagic.sql import Token, significant
from pipemagic.text import shorten

_SHOWN = 40  # characters of a token that a hint only mentions


class Change(NamedTuple):
    """A changed text, and the hint that proposes it; ``end`` is the offset behind the change."""

    hint: str
    text: str
    end: int = 0


@dataclass(frozen=True)
class Stopped:
    """A statement, and the offset at which SQLite stops reading it."""

    text: str
    offset: int

    @cached_property
    def tokens(self) -> list[Token]:
        """Its tokens without blanks, comments and the last semicolon."""
        found = significant(self.text)
        return found[:-1] if found and found[-1].kind == "semi" else found

    @cached_property
    def at(self) -> int:
        """The index of the token at which SQLite stops; the number of tokens for the end."""
        return next((at for at, token in enumerate(self.tokens) if token.end > self.offset), len(self.tokens))

    def word(self, index: int) -> str:
        """Return the word or sign at an index in capitals; '' for quoted names, strings, and outside."""
        token = self.tokens[index] if 0 <= index < len(self.tokens) else None
        return token.text.upper() if token is not None and token.kind not in ("quoted", "string") else ""

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

    def parenthesis(self) -> tuple[int, int]:
        """Return the indexes of the first and behind the last token of the innermost parentheses around the stop."""
        first = _partner(((index, self.word(index)) for index in range(self.at - 1, -1, -1)), ")", "(")
        last = _partner(((index, self.word(index)) for index in range(self.at, len(self.tokens))), "(", ")")
        return (0 if first is None else first + 1), (len(self.tokens) if last is None else last)

    def end_of(self, first: int) -> int:
        """Return the index behind the parentheses that begin at an index."""
        words = ((index, self.word(index)) for index in range(first + 1, len(self.tokens)))
        return (_partner(words, "(", ")") or len(self.tokens)) + 1

    def outer(self, first: int, last: int) -> list[int]:
        """Return the indexes from ``first`` to before ``last`` that are in no parentheses there."""
        found, depth = [], 0
        for index in range(first, last):
            depth -= self.word(index) == ")"
            if depth == 0:
                found.append(index)
            depth += self.word(index) == "("
        return found


def _partner(words: Iterable[tuple[int, str]], opening: str, closing: str) -> int | None:
    """Return the index of the first parenthesis that closes none of those before it."""
    depth = 0
    for index, word in words:
        if word == closing and depth == 0:
            return index
        depth += (word == opening) - (word == closing)
    return None
