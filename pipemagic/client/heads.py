"""What a statement does, from its tokens: the verb behind its WITH, and the words at its outermost level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipemagic.sql import Token, tokens

READING = ("SELECT", "VALUES")
CHANGING = ("INSERT", "REPLACE", "UPDATE", "DELETE")
TRANSACTION = ("BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE")


@dataclass(frozen=True)
class Head:
    """A statement from its verb on, without blanks and comments.

    ``words`` are its tokens. ``outer`` are those of them that stand in no parentheses, with the parentheses themselves.
    ``own`` are the names of the tables that its WITH makes, as they are written.
    """

    words: tuple[Token, ...]
    outer: tuple[Token, ...]
    own: tuple[str, ...] = ()

    @property
    def verb(self) -> str:
        """The word that says what is done: SELECT, UPDATE, ..., also behind a WITH."""
        return self.word(0)

    @property
    def table(self) -> str:
        """The table whose rows it changes, as it is written, with its schema; '' if it changes none."""
        number = 1
        if self.verb not in CHANGING:
            return ""
        if self.word(number) == "OR":  # UPDATE OR IGNORE
            number += 2
        if self.word(number) in ("INTO", "FROM"):
            number += 1
        name = self.words[number : number + 3]
        qualified = len(name) == 3 and name[1].text == "."
        return "".join(token.text for token in (name if qualified else name[:1]))

    def word(self, number: int) -> str:
        """Give a bare word in capitals, '' for a quoted name, a number and what is not there."""
        return bare_word(self.words[number]) if number < len(self.words) else ""

    def outer_words(self) -> set[str]:
        """Give the bare words that stand in no parentheses, in capitals."""
        return set(map(bare_word, self.outer))


def bare_word(token: Token) -> str:
    """Give the token in capitals if it is a word without quotes, else ''."""
    return token.text.upper() if token.kind == "word" else ""


def head(text: str) -> Head:
    """Read a statement from its verb on; EXPLAIN and CREATE are verbs of their own."""
    words = [token for token in tokens(text) if token.kind not in ("space", "comment")]
    own: list[str] = []
    first = _behind_with(words, own) if words and words[0].text.upper() == "WITH" else 0
    words = words[first:]
    outer, depth = [], 0
    for token in words:
        if token.text == ")" and token.kind == "op":
            depth = max(0, depth - 1)
        if depth == 0:
            outer.append(token)
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
