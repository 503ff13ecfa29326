"""Corrections of lists: commas that are missing or too many, and parentheses around values."""

from __future__ import annotations

from collections.abc import Iterator

from pipemagic.explore.hints.keywords import COMPARISONS, compares, is_name, last_clause
from pipemagic.explore.hints.stopped import Change, Stopped
from pipemagic.explore.hints.syntax_errors import TYPES
from pipemagic.explore.sqlite_reference import KEYWORDS

_BEGIN_ITEM = frozenset(
    ["NULL", "CASE", "CAST", "NOT", "EXISTS", "REPLACE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "PRIMARY",
     "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT"]
)  # fmt: skip
"""Keywords that an item of a list begins with."""
_END_ITEM = frozenset(
    ["NULL", "END", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "ASC", "DESC", "KEY", "UNIQUE",
     "AUTOINCREMENT"]
)  # fmt: skip
"""Keywords that an item of a list ends with."""
_VALUES = ("number", "string", "blob", "param")


def commas_removed(stopped: Stopped) -> Iterator[Change]:
    """Propose to remove the comma at the stop, or the one before it."""
    at = stopped.at
    if stopped.word(at) == "," and stopped.word(at - 1) == ",":
        yield Change("remove one of the two commas", stopped.remove(at))
    elif stopped.word(at) == "," and at + 1 == len(stopped.tokens):
        yield Change("remove the comma at the end", stopped.remove(at))
    elif stopped.word(at) == "," and stopped.word(at - 1) not in COMPARISONS:
        yield Change(f"remove the comma after {stopped.shown(at - 1)}", stopped.remove(at))
    elif stopped.word(at - 1) == ",":
        before = "at the end" if at == len(stopped.tokens) else f"before {stopped.shown(at)}"
        yield Change(f"remove the comma {before}", stopped.remove(at - 1))


def commas_inserted(stopped: Stopped) -> Iterator[Change]:
    """Propose a comma before the stop, or before the word in front of it that SQLite reads as an alias.

    Of three names without a comma between them, two are missing.
    """
    at = stopped.at
    if not 0 < at < len(stopped.tokens):
        return
    names = [stopped.shown(index) for index in range(at - 2, at + 1) if is_name(stopped, index)] if at > 1 else []
    if len(names) == 3 and stopped.word(at + 1) in (",", "FROM") and stopped.word(at - 3) in (",", "SELECT"):
        listed = ", ".join(names)
        yield Change(f"write {listed}", stopped.replace(at - 2, at, listed), stopped.tokens[at].end)
        return
    for index in (at, at - 1):
        if index > 1 and stopped.word(index - 2) not in ("LIMIT", "OFFSET") and _begins_item(stopped, index):
            hint = f"a comma before {stopped.shown(index)}"
            if stopped.word(index - 2) == "AS":
                hint = f'AS "{stopped.written(index - 1, index)}" for one name, or {hint}'
            yield Change(f"write {hint}", stopped.insert(index, ","), stopped.tokens[index].start)


def _begins_item(stopped: Stopped, index: int) -> bool:
    """Return True if one item of a list may end before an index, and another one begin there.

    A parenthesis behind a name would be that of a call, a bracket an index of other databases. No item of a list is a
    type, and few are comparisons.
    """
    word, before = stopped.word(index), stopped.word(index - 1)
    token = stopped.tokens[index]
    if token.text[0] == "[" and token.start == stopped.tokens[index - 1].end:
        return False
    if (stopped.word(0) == "CREATE" and word in TYPES) or (
        compares(stopped, index) and last_clause(stopped, index) != "SET"):  # fmt: skip
        return False
    if stopped.kind(index) == "op":
        return word == "(" and before == ")" and stopped.word(index + 1) != "SELECT"
    return (word not in KEYWORDS or word in _BEGIN_ITEM) and (before not in KEYWORDS or before in _END_ITEM)


def parentheses(stopped: Stopped) -> Iterator[Change]:
    """Propose parentheses around values, around a subquery, around the columns of a table; and ``count(*)``."""
    at, count = stopped.at, len(stopped.tokens)
    if at == count:
        return
    first = at - 1 if stopped.word(at) == "," else at  # SQLite reads the text after IN as the name of a table
    before = stopped.word(first - 1)
    end = first
    while end + 2 < count and stopped.word(end + 1) == "," and stopped.kind(end + 2) in _VALUES:
        end += 2
    if stopped.kind(first) in _VALUES and before in ("VALUES", "IN"):
        listed = f"({stopped.written(first, end)})"
        yield Change(f"write {before} {listed}", stopped.replace(first, end, listed))
    if stopped.word(at) in ("SELECT", "WITH") and before != "(":
        last = stopped.parenthesis().end - 1
        text = stopped.replace(at, last, f"({stopped.written(at, last)})")
        yield Change(f"put the {stopped.word(at)} after {before} in parentheses", text)
    if stopped.word(0) == "CREATE" and is_name(stopped, at) and stopped.parenthesis() == (0, count):
        text = stopped.replace(at, count - 1, f"({stopped.written(at, count - 1)})")
        yield Change(f"put what follows {stopped.shown(at - 1)} in parentheses", text)
    for star in (at - 1, at):
        if stopped.word(star) == "*" and stopped.word(star - 1) == "COUNT":
            yield Change(f"write {stopped.shown(star - 1)}(*)", stopped.replace(star, star, "(*)"))
