"""What a statement does, from its tokens: the verb behind its WITH, and the words at its outermost level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipemagic.sql import Token, tokens

READING = ("SELECT", "VALUES")
CHANGING = ("INSERT", "REPLACE", "UPDATE", "DELETE")


@dataclass(frozen=True)
class Head:
    """A statement from its verb on, without blanks and comments.

    ``words`` are its tokens. ``outer`` are the numbers of those that stand in no parentheses. ``own`` are the names of
    the tables that its WITH makes, as they are written.
    """

    words: tuple[Token, ...]
    outer: tuple[int, ...]
    own: tuple[str, ...] = ()

    @property
    def verb(self) -> str:
        """The word that says what is done: SELECT, UPDATE, ..., also behind a WITH."""
        return self.word(0)

    def word(self, number: int) -> str:
        """Give a bare word in capitals, '' for a quoted name, a number and what is not there."""
        if number >= len(self.words) or self.words[number].kind != "word":
            return ""
        return self.words[number].text.upper()

    def outer_words(self) -> set[str]:
        """Give the bare words that stand in no parentheses, in capitals."""
        return {self.word(number) for number in self.outer}


def head(text: str) -> Head:
    """Read a statement from its verb on; EXPLAIN and CREATE are verbs of their own."""
    words = [token for token in tokens(text) if token.kind not in ("space", "comment")]
    own: list[str] = []
    first = _behind_with(words, own) if words and words[0].text.upper() == "WITH" else 0
    words = words[first:]
    outer, depth = [], 0
    for number, token in enumerate(words):
        if token.text == ")" and token.kind == "op":
            depth -= 1
        if depth == 0:
            outer.append(number)
        if token.text == "(" and token.kind == "op":
            depth += 1
    return Head(tuple(words), tuple(outer), tuple(own))


def _behind_with(words: Sequence[Token], own: list[str]) -> int:
    """Give the number of the first word after the tables of a WITH: name [(columns)] AS [[NOT] MATERIALIZED] (...).

    Their names are added to ``own``.
    """
    number = 2 if len(words) > 1 and words[1].text.upper() == "RECURSIVE" else 1
    while number < len(words):
        own.append(words[number].text)
        number = _skip_parentheses(words, number + 1)
        while number < len(words) and words[number].text.upper() in ("AS", "NOT", "MATERIALIZED"):
            number += 1
        number = _skip_parentheses(words, number)
        if number < len(words) and words[number].text == ",":
            number += 1
        else:
            return number
    return number


def _skip_parentheses(words: Sequence[Token], number: int) -> int:
    if number >= len(words) or words[number].text != "(":
        return number
    depth = 0
    while number < len(words):
        depth += {"(": 1, ")": -1}.get(words[number].text, 0)
        number += 1
        if depth == 0:
            break
    return number
