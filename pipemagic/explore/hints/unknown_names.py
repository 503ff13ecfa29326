"""Hints for unknown names that are no names: None of Python, a misspelt DISTINCT, characters that look like others."""

from __future__ import annotations

from pipemagic.explore.hints.characters import of_lookalikes_in_name
from pipemagic.explore.hints.keywords import distance
from pipemagic.sql import Token, significant

_IS_NULL = {"=": "IS NULL", "==": "IS NULL", "!=": "IS NOT NULL", "<>": "IS NOT NULL"}
_AFTER_COLUMN = ("AS", "FROM")
_SIMILAR = 2  # the highest distance from DISTINCT


def of_unknown_name(text: str, name: str) -> str:
    """Return a hint for a table, column or function that the server does not know; '' if its name says nothing.

    ``name`` is that of the message, perhaps with an owner.
    """
    for part in name.split("."):
        if hint := of_lookalikes_in_name(text, part):
            return hint
    words = significant(text)
    place = next((at for at, token in enumerate(words) if token.kind == "word" and token.text == name), None)
    if place is None:
        return ""
    return _null(words, place) if name == "None" else _distinct(words, place)


def _null(words: list[Token], at: int) -> str:
    before = words[at - 1].text
    if before in _IS_NULL:
        return f"write {_IS_NULL[before]} instead of {before} None"
    return "write NULL instead of None"


def _distinct(words: list[Token], at: int) -> str:
    """Return the hint for a misspelt DISTINCT, whose column SQLite takes for an alias."""
    following = words[at + 1] if at + 1 < len(words) else None
    if following is None or following.kind not in ("word", "quoted") or following.word in _AFTER_COLUMN:
        return ""
    is_similar = distance(words[at].word, "DISTINCT") <= _SIMILAR
    return "did you mean DISTINCT?" if is_similar and words[at - 1].word == "SELECT" else ""
