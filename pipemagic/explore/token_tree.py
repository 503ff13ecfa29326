"""Statements as trees of tokens: the tokens in parentheses are a group.

Statements may be unfinished: what cannot be read is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pipemagic.explore.sqlite_reference import KEYWORDS
from pipemagic.sql import Token, significant, unquote

if TYPE_CHECKING:
    from pipemagic.explore.query import Query
    from pipemagic.explore.schema import Relation

DEPTH = 50
"""Levels of parentheses that are read."""

QUERY = ("SELECT", "WITH", "VALUES")
"""Keywords that a query begins with."""

COMPOUND = ("UNION", "INTERSECT", "EXCEPT")
CLAUSES = frozenset(
    ["SELECT", "FROM", "JOIN", "ON", "USING", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "SET", "VALUES", "INTO",
     "UPDATE", "RETURNING", "WITH", "WINDOW", "OFFSET", *COMPOUND]
)  # fmt: skip
ENDS = frozenset(["END", "NULL", "ISNULL", "NOTNULL"])
"""Keywords that end an expression."""


@dataclass(eq=False)
class Group:
    """Tokens in parentheses, and the groups nested in them; the outermost group is the statement.

    ``index`` is the position of the group in its ``parent``; ``derived`` are the tables that it can name as a
    subquery after FROM, and its queries, which are read once.
    """

    items: list[Token | Group] = field(default_factory=list)
    parent: Group | None = None
    index: int = 0
    derived: tuple[Mapping[str, Relation], tuple[Query, ...]] | None = field(default=None, repr=False)
    _words: Sequence[str] = field(default=(), repr=False)

    def word(self, index: int) -> str:
        """Return the word or sign at an index in capitals; '' for quoted names, strings, groups, and outside."""
        return self.words()[index] if 0 <= index < len(self.items) else ""

    def words(self) -> Sequence[str]:
        """Return the word at each index."""
        if len(self._words) != len(self.items):  # it is the first call, or items were added
            self._words = [_word(item) for item in self.items]
        return self._words

    def is_name(self, index: int) -> bool:
        """Return True if a word or a quoted name is at an index."""
        item = self.items[index] if 0 <= index < len(self.items) else None
        return isinstance(item, Token) and item.kind in ("word", "quoted")

    def name(self, index: int) -> str:
        """Return the name at an index, without quotes."""
        item = self.items[index]
        assert isinstance(item, Token)
        return unquote(item.text)

    def group(self, index: int) -> Group | None:
        """Return the group at an index; None for anything else."""
        item = self.items[index] if 0 <= index < len(self.items) else None
        return item if isinstance(item, Group) else None

    def clause(self, index: int) -> str:
        """Return the keyword at an index that begins a clause; '' for anything else."""
        word = self.word(index)
        if word == "FROM" and self.word(index - 1) == "DISTINCT" and self.word(index - 2) in ("IS", "NOT"):
            return ""
        return word if word in CLAUSES else ""

    def slice(self, start: int, end: int | None = None) -> Group:
        """Return some of the items as a group in the same place."""
        return Group(self.items[start:end], self.parent, self.index, _words=self.words()[start:end])

    def split(self) -> list[Group]:
        """Return the parts between commas."""
        cuts = [-1, *(at for at, word in enumerate(self.words()) if word == ","), len(self.items)]
        return [self.slice(start + 1, end) for start, end in pairwise(cuts)] if self.items else []


def _word(item: Token | Group) -> str:
    return item.text.upper() if isinstance(item, Token) and item.kind not in ("quoted", "string") else ""


class Position(NamedTuple):
    """A position in a statement: before the item at the index ``at`` of a group."""

    group: Group
    at: int

    @property
    def top(self) -> Group:
        """The whole statement."""
        group = self.group
        while group.parent is not None:
            group = group.parent
        return group


def nest(found: Iterable[Token], cursor: int | None = None, *, cases: bool = False) -> Position:
    """Return the position before the token with a number, by default the end, in the tree of a statement's tokens.

    ``cases`` also makes a group of each CASE ... END.
    """
    group, position = Group(), None
    for number, token in enumerate(found):
        if number == cursor:
            position = Position(group, len(group.items))
        if token.text == "(" or (cases and token.word == "CASE"):
            inner = Group([], group, len(group.items))
            group.items.append(inner)
            group = inner
        if token.text not in ("(", ")"):
            group.items.append(token)
        if token.text == ")" or (cases and token.word == "END"):
            group = group.parent or group
    return position or Position(group, len(group.items))


def cursor_at(text: str, offset: int) -> Position:
    """Return the position of a character of a statement."""
    tokens = [token for token in significant(text) if token.kind != "semi"]
    return nest(tokens, next((number for number, token in enumerate(tokens) if token.start >= offset), None))


def bare(expression: Group) -> Group:
    """Return an expression without COLLATE and the parentheses around it, unless they are those of a query or list."""
    for _ in range(DEPTH):
        inner = expression.group(0)
        if expression.word(len(expression.items) - 2) == "COLLATE":
            expression = expression.slice(0, -2)
        elif (
            len(expression.items) == 1
            and inner is not None
            and inner.word(0) not in (*QUERY, "CASE")
            and "," not in inner.words()
        ):
            expression = inner
        else:
            break
    return expression


def split_alias(item: Group) -> tuple[Group, str]:
    """Return an expression of a SELECT without its alias, and the alias; '' if it has none."""
    last = len(item.items) - 1
    if last < 1 or not item.is_name(last):
        return item, ""
    before, word = item.items[last - 1], item.word(last - 1)
    if word == "AS":
        return item.slice(0, last - 1), item.name(last)
    follows_operator = isinstance(before, Token) and (before.kind == "op" or word in KEYWORDS - ENDS)
    if follows_operator or item.word(last) in ENDS:
        return item, ""
    return item.slice(0, last), item.name(last)
