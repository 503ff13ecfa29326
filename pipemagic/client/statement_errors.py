"""Convert errors of statements: message, position and code.

The protocol has no field for the position: every engine has its own format for it in the message.
"""

from __future__ import annotations

import re

from pipemagic.client.replication import AGAIN, BEHIND
from pipemagic.errors import (
    InterruptedRequest,
    PipemagicError,
    ServerError,
    StatementError,
    UnknownName,
    UnknownOutcome,
)
from pipemagic.hrana.messages import Error
from pipemagic.sql import character_offset, quote, tokens

_PREFIX = re.compile(r"\A(?:SQLite error|SQLite input error|SQL input error|SQL string could not be parsed): ")
_OFFSET = re.compile(r"\s*\(?at offset (\d+)\)?\Z")
_AROUND = re.compile(r"\A(.*) around L(\d+):(\d+): `(.*)`\Z", re.DOTALL)
_AT = re.compile(r"\A(.*) at \((\d+), (\d+)\)\Z", re.DOTALL)
_NEAR_KIND = re.compile(r"\Anear \w+, \"?None\"?: ")
_USER = re.compile(r"\Ano such (?:function|collation sequence): [^\s,]+, in (trigger|view|index) (.+?)(?: on .+)?\Z")
"""What uses a name that is missing, as the service reports it."""
_UNKNOWN = re.compile(r"(?:^|: )(?:no such (?:table|view|column): |table .+ has no column named )")


def statement_error(error: Error, sql: str = "", index: int = 0) -> StatementError:
    """Return the error to raise; its ``offset`` is in bytes of UTF-8, None if the server does not report it.

    The code is the server's, except for unknown tables and columns: each server has several codes for these.
    """
    message, offset = parse_message(error.message, sql)
    code, hint = error.code or "", AGAIN if error.code == BEHIND else ""
    if match := _USER.search(message):
        kind, name = match.groups()
        hint = f"define the {kind} without it, or remove the {kind} with DROP {kind.upper()} {quote(name)}"
    if _UNKNOWN.search(message) and not code.startswith("SQLITE_CONSTRAINT"):  # not the text of a RAISE
        code = UnknownName.code
    extended = error.extended_code or ""
    return StatementError(message, code=code, extended_code=extended, index=index, sql=sql, offset=offset, hint=hint)


def may_be_invalid_text(error: PipemagicError) -> bool:
    """Return True for an error that a text of a result causes that is not UTF-8: sqld breaks the connection off."""
    broke_off = isinstance(error, UnknownOutcome) and not isinstance(error, InterruptedRequest)
    return broke_off or (isinstance(error, StatementError | ServerError) and "utf-8" in error.message.lower())


def parse_message(message: str, sql: str) -> tuple[str, int | None]:
    """Split the message of an error of ``sql`` into text and position, an offset in bytes of UTF-8."""
    text = _PREFIX.sub("", message)
    if match := _OFFSET.search(text):
        return text[: match.start()], int(match[1])
    if match := _AROUND.match(text):  # the column after the token
        end = _byte_offset(sql, int(match[2]), int(match[3]))
        return f'{match[1]} near "{match[4]}"', max(0, end - len(match[4].encode()))
    if match := _AT.match(text):
        return _at(match[1], _byte_offset(sql, int(match[2]), int(match[3])), sql)
    return text, None


def _at(text: str, offset: int, sql: str) -> tuple[str, int]:
    kind = _NEAR_KIND.match(text)
    if not kind or offset == 0:
        return text, offset
    # As above this is the column after the token, whose text is not in the message.
    end = character_offset(sql, offset)
    token = next((token for token in tokens(sql) if token.end >= end), None)
    if token is None:
        return text[kind.end() :], offset
    return f'{text[kind.end() :]} near "{token.text}"', len(sql[: token.start].encode())


def _byte_offset(sql: str, line: int, column: int) -> int:
    """Convert line and column, both from 1, the column in bytes, to an offset in bytes in the text."""
    lines = sql.encode().split(b"\n")
    line = min(line, len(lines))
    return sum(len(text) + 1 for text in lines[: line - 1]) + min(column - 1, len(lines[line - 1]))
