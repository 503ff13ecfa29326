"""Words that SQLite reads as an alias: a misspelt LEFT before JOIN, and the GO of SQL Server at the end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pipemagic.explore.hints.keywords import misspelt_join
from pipemagic.explore.lint.context import Context
from pipemagic.explore.query import Group
from pipemagic.explore.sqlite_reference import KEYWORDS
from pipemagic.sql import Token


def misspelt_joins(context: Context) -> Iterator[str]:
    """Yield each alias before JOIN that nothing uses and that is a misspelt keyword."""
    tokens = context.statement.tokens
    if not any(token.word == "JOIN" for token in tokens):
        return
    used = {token.word for token, after in pairwise(tokens) if after.text == "."}
    for query in context.queries:
        for at, word in enumerate(query.part.words()):
            alias = _alias(query.part, at - 1) if word == "JOIN" else None
            meant = misspelt_join(alias.text) if alias else ""
            if alias and meant and alias.word not in used:
                yield f"{alias.text} is an alias for SQLite, so this is an inner join: write {meant} JOIN"


def batch_ends(context: Context) -> Iterator[str]:
    """Yield the GO on the last line of a query."""
    part = context.queries[-1].part if context.queries else Group()
    last = _alias(part, len(part.items) - 1)
    if last is None or last.word != "GO" or not context.statement.is_query:
        return
    _, line_break, indent = context.text[: last.start].rpartition("\n")
    if line_break and not indent.strip():
        yield f"{last.text} is an alias for SQLite: leave it out"


def _alias(part: Group, at: int) -> Token | None:
    """Return the word at an index if it is an alias without AS; None for any other one."""
    item, before = part.items[at] if at > 0 else None, part.word(at - 1)
    is_word = isinstance(item, Token) and item.kind == "word" and item.word not in KEYWORDS
    return item if isinstance(item, Token) and is_word and before not in KEYWORDS | {".", ","} else None
