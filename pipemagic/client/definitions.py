"""What the text of a definition in ``sqlite_schema`` says, and the same text under another name."""

from __future__ import annotations

from collections.abc import Iterable

from pipemagic import sql

_CONSTRAINTS = frozenset({
    "AS", "AUTOINCREMENT", "CHECK", "COLLATE", "CONSTRAINT", "DEFAULT", "FOREIGN", "GENERATED", "NOT", "PRIMARY",
    "REFERENCES", "STRICT", "UNIQUE", "WITHOUT",
})  # fmt: skip


def is_ordinary(text: str) -> bool:
    """Tell a table from a virtual one."""
    return [one.text.upper() for one in _words(text)[:2]] == ["CREATE", "TABLE"]


def under_name(text: str, name: str) -> str:
    """Give the text of a table's definition for a table of another name.

    SQLite keeps it as ``CREATE TABLE name ...``, without TEMP, IF NOT EXISTS or a schema before the name.
    """
    return _replaced(text, _words(text)[2], name)


def index_under_name(text: str, name: str, table: str) -> str:
    """Give the text of an index for an index of another name on a table of another name."""
    words = _words(text)
    at = 3 if words[1].text.upper() == "UNIQUE" else 2
    on = next(number for number in range(at + 1, len(words)) if words[number].text.upper() == "ON")
    text = _replaced(text, words[on + 1], table)  # the later place first: the earlier one stays where it is
    return _replaced(text, words[at], name)


def mentions(text: str, names: Iterable[str]) -> bool:
    """Tell whether one of the names, in small letters, is anywhere in the text: in doubt yes."""
    wanted = set(names)
    return any(
        sql.normalize(one.text) in wanted for one in sql.tokens(text) if one.kind in ("word", "quoted", "string")
    )


def has_constraints(text: str) -> bool:
    """Tell whether a table's definition says more than names and types: in doubt yes."""
    return any(one.word in _CONSTRAINTS for one in sql.tokens(text))


def is_autoincrement(text: str) -> bool:
    """Tell whether a table numbers its rows without ever using a number again: in doubt yes."""
    return any(one.word == "AUTOINCREMENT" for one in sql.tokens(text))


def _words(text: str) -> list[sql.Token]:
    return [one for one in sql.tokens(text) if one.kind in ("word", "quoted", "string")]


def _replaced(text: str, word: sql.Token, name: str) -> str:
    return text[: word.start] + sql.quote(name) + text[word.start + len(word.text) :]
