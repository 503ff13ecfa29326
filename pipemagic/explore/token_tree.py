"""The tokens of a statement as a tree: each pair of parentheses is a group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pipemagic.sql import Token, significant, unquote


@dataclass
class Group:
    """Tokens, and groups of tokens in parentheses. ``cursor`` is the index at which the cursor stands, if it does."""

    items: list[Token | Group] = field(default_factory=list)
    cursor: int | None = None
    parent: Group | None = None

    def word(self, index: int) -> str:
        """Return the word or sign at an index in capitals; '' for what is quoted, a group, or not there."""
        if not 0 <= index < len(self.items):
            return ""
        item = self.items[index]
        return item.text.upper() if isinstance(item, Token) and item.kind not in ("quoted", "string") else ""

    def is_name(self, index: int) -> bool:
        """Return True if a name can be at the index: a word or something quoted."""
        if not 0 <= index < len(self.items):
            return False
        item = self.items[index]
        return isinstance(item, Token) and item.kind in ("word", "quoted")

    def name(self, index: int) -> str:
        """Return the name at an index, without quotes."""
        item = self.items[index]
        assert isinstance(item, Token)
        return unquote(item.text)

    def group(self, index: int) -> Group | None:
        """Return the group in parentheses at an index, None if there is something else."""
        item = self.items[index] if 0 <= index < len(self.items) else None
        return item if isinstance(item, Group) else None

    def grown(self, token: Token) -> Group:
        """Add a token at the end; return the group that the next token belongs to."""
        if token.text == "(":
            inner = Group(parent=self)
            self.items.append(inner)
            return inner
        if token.text == ")":
            return self.parent or self
        self.items.append(token)
        return self


def tree(text: str) -> Group:
    """Return the tokens of a statement, without blanks and comments."""
    return tree_of(token for token in significant(text) if token.kind != "semi")


def tree_of(found: Iterable[Token]) -> Group:
    """Return a tree of tokens."""
    top = group = Group()
    for token in found:
        group = group.grown(token)
    return top


def group_at(text: str, offset: int) -> Group:
    """Return the group of a statement that holds a character, with the cursor there."""
    group, inside = Group(), None
    for token in significant(text):
        if token.kind == "semi":
            continue
        if inside is None and token.start >= offset:
            inside, group.cursor = group, len(group.items)
        group = group.grown(token)
    if inside is None:
        inside, group.cursor = group, len(group.items)
    return inside
