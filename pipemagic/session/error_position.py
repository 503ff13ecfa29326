"""The position of an error in a statement, from the text of the server's message.

The protocol has no field for it: every engine writes it into its message in a form of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipemagic.errors import StatementError
from pipemagic.explore.syntax_errors import cause
from pipemagic.sql import caret, character_offset, normalize, significant, tokens
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


@dataclass(frozen=True)
class LocatedMessage:
    """A server's message without prefixes and positions, and the offset in characters it points to, if it does.

    ``of_line`` marks a message that begins with the number of the line.
    """

    message: str
    offset: int | None = None
    of_line: bool = False


def locate(error: StatementError, sql: str) -> LocatedMessage:
    """Return what is wrong with a statement: the cause if its text proves one, else the server's message."""
    found = parse_message(error.message, sql)
    offset = found.offset if error.offset is None else character_offset(sql, error.offset)
    proved = cause(error.message, sql, offset)
    return LocatedMessage(found.message, offset) if proved is None else LocatedMessage(*proved)


def excerpt(text: str, offset: int) -> str:
    """Return the line that holds a character offset, with a caret below the place and without passwords.

    Passwords are masked first: afterwards the caret would be in another place, and a cut line might hold half of one.
    """
    return caret(without_passwords(text), len(without_passwords(text[:offset])))


def parse_message(message: str, sql: str) -> LocatedMessage:
    """Split the message of an error of ``sql`` into text and position."""
    text = _PREFIX.sub("", message)
    if match := _OFFSET.search(text):
        return LocatedMessage(text[: match.start()], character_offset(sql, int(match[1])))
    if match := _AROUND.match(text):  # the column is that after the token
        end = _character(sql, int(match[2]), int(match[3]))
        return LocatedMessage(f'{match[1]} near "{match[4]}"', max(0, end - len(match[4])))
    if match := _AT.match(text):
        return _at(match[1], _character(sql, int(match[2]), int(match[3])), sql)
    return LocatedMessage(text, _by_name(text, sql))


def _at(text: str, offset: int, sql: str) -> LocatedMessage:
    kind = _NEAR_KIND.match(text)
    if not kind or offset == 0:
        return LocatedMessage(text, offset)
    # As above the column is that after the token, whose text the message does not have.
    token = next(t for t in tokens(sql) if t.end >= min(offset, len(sql)))
    return LocatedMessage(f'{text[kind.end() :]} near "{token.text}"', token.start)


def _character(sql: str, line: int, column: int) -> int:
    """Convert line and column, both from 1, the column in UTF-8 bytes, into an offset in characters."""
    lines = sql.split("\n")
    line = min(line, len(lines))
    return sum(len(text) + 1 for text in lines[: line - 1]) + character_offset(lines[line - 1], column - 1)


def _by_name(text: str, sql: str) -> int | None:
    """Return the offset of the name that the message quotes, if it stands in the statement exactly once."""
    match = _NEAR.match(text) or _NAMED.search(text)
    if not match:
        return None
    wanted = match[1].split(".")[-1].lower()
    places = [token.start for token in significant(sql) if normalize(token.text) == wanted]
    return places[0] if len(places) == 1 else None
