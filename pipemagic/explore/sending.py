"""How single values travel to be looked at: long ones cut by the server, and those that JSON has no form for, too.

SQLite keeps any bytes as text, and servers fail at a result with a text that is not UTF-8. So texts travel as their
bytes, with what tells how to read them, and an infinity as text.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

from pipemagic.hrana.values import SqlValue

LETTER = "CAST('a' AS BLOB)"
"""An expression whose bytes tell the encoding that a database keeps its texts in."""

_ENCODINGS = {b"a": "utf-8", b"a\0": "utf-16-le", b"\0a": "utf-16-be"}


class NotText(bytes):
    """What is stored as text and is none: not UTF-8, or not what the database keeps texts in."""


def size(value: str) -> str:
    """Give the expression for how many bytes a text or blob has."""
    return f"length(CAST({value} AS BLOB))"


def sent(value: str, *, text: int, blob: int) -> str:
    """Give the expression that sends a value, but of a text or a blob no more than so many bytes."""
    stored = f"CAST({value} AS BLOB)"  # a part of a text would end at a NUL
    return (
        f"CASE typeof({value}) "
        f"WHEN 'text' THEN {_beginning(stored, text)} WHEN 'blob' THEN {_beginning(value, blob)} "
        f"WHEN 'real' THEN iif(abs({value}) = 9e999, CAST({value} AS TEXT), {value}) ELSE {value} END"
    )


def _beginning(stored: str, longest: int) -> str:
    return f"iif(length({stored}) > {longest}, substr({stored}, 1, {longest}), {stored})"  # substr of x'' is NULL


def received(kind: SqlValue, given: SqlValue, letter: SqlValue, text: int) -> SqlValue:
    """Read a value that was sent so: ``kind`` is its storage class, ``letter`` what `LETTER` gave."""
    match kind, given:
        case "text", bytes() if isinstance(letter, bytes):
            read = getincrementaldecoder(_ENCODINGS[letter])()
            try:
                return read.decode(given, final=len(given) < text)  # else it may be cut within a character
            except UnicodeDecodeError:
                return NotText(given)
        case "real", str():
            return float(given)
    return given
