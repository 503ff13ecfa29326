"""Where in a statement an error is, from the text of the server's message.

The protocol has no field for the place: every engine writes it into its message in a form of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipemagic.errors import StatementError
from pipemagic.explore.syntax_errors import cause
from pipemagic.sql import caret, character_offset, tokens
from pipemagic.terminals import without_passwords

_PREFIX = re.compile(r"^(?:SQLite error|SQL input error|SQL string could not be parsed): ")
_OFFSET = re.compile(r" \(at offset (\d+)\)$")
_AROUND = re.compile(r"^(.*) around L(\d+):(\d+): `(.*)`$", re.DOTALL)
_AT = re.compile(r"^(.*) at \((\d+), (\d+)\)$", re.DOTALL)
_NEAR_KIND = re.compile(r"^near \w+, \"?None\"?: ")
_NEAR = re.compile(r'^near "(.+)": ', re.DOTALL)
_NAMED = re.compile(
    r"no such (?:table|column|function|view|index|trigger|collation sequence|savepoint): (?:main\.)?(.+)$"
)
_MEANING = ("space", "comment")


@dataclass(frozen=True)
class Fault:
    """A server's message without its dressing, and the offset in characters it points to, if it does.

    ``of_line`` marks a message that begins with the number of the line.
    """

    message: str
    offset: int | None = None
    of_line: bool = False


def fault_of(error: StatementError, sql: str) -> Fault:
    """Return what is wrong with a statement: the cause where its text proves one, else what the server says."""
    told = read(error.message, sql)
    offset = told.offset if error.offset is None else character_offset(sql, error.offset)
    found = cause(error.message, sql, offset)
    return Fault(told.message, offset) if found is None else Fault(*found)


def excerpt(text: str, offset: int) -> str:
    """Return the line that holds a character offset, with a caret below the place and without passwords.

    Passwords are masked first: afterwards the caret would be in another place, and a cut line might hold half of one.
    """
    return caret(without_passwords(text), len(without_passwords(text[:offset])))


def read(message: str, sql: str) -> Fault:
    """Read the message of an error that ``sql`` met."""
    text = _PREFIX.sub("", message)
    if match := _OFFSET.search(text):
        return Fault(text[: match.start()], character_offset(sql, int(match[1])))
    if match := _AROUND.match(text):  # the column is that after the token
        end = _character(sql, int(match[2]), int(match[3]))
        return Fault(f'{match[1]} near "{match[4]}"', max(0, end - len(match[4])))
    if match := _AT.match(text):
        return _at(match[1], _character(sql, int(match[2]), int(match[3])), sql)
    return Fault(text, _by_name(text, sql))


def _at(text: str, offset: int, sql: str) -> Fault:
    kind = _NEAR_KIND.match(text)
    if not kind or offset == 0:
        return Fault(text, offset)
    # As above the column is that after the token, whose text the message does not have.
    token = next(t for t in tokens(sql) if t.start + len(t.text) >= min(offset, len(sql)))
    return Fault(f'{text[kind.end() :]} near "{token.text}"', token.start)


def _character(sql: str, line: int, column: int) -> int:
    """Turn line and column, both from 1, the column in UTF-8 bytes, into an offset in characters."""
    lines = sql.split("\n")
    line = min(line, len(lines))
    return sum(len(text) + 1 for text in lines[: line - 1]) + character_offset(lines[line - 1], column - 1)


def _by_name(text: str, sql: str) -> int | None:
    """Find the name that the message quotes, if it stands in the statement exactly once."""
    match = _NEAR.match(text) or _NAMED.search(text)
    if not match:
        return None
    wanted = match[1].split(".")[-1].lower()
    places = [
        token.start
        for token in tokens(sql)
        if token.kind not in _MEANING and token.text.strip("\"'`[]").lower() == wanted
    ]
    return places[0] if len(places) == 1 else None
