"""Previews of single values: fetched with a limited length, formatted in one line.

SQLite stores any bytes as text, but servers fail for a result with text that is not UTF-8. So a preview is fetched as
bytes, with the encoding of the database, and an infinity, which JSON cannot hold, as text.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

from pipemagic.frames.columns import InvalidText
from pipemagic.hrana.values import SqlValue
from pipemagic.text import escape_controls, shorten

LETTER = "CAST('a' AS BLOB)"
"""An SQL expression with bytes that show the text encoding of the database."""

_ENCODINGS = {b"a": "utf-8", b"a\0": "utf-16-le", b"\0a": "utf-16-be"}


def byte_length(value: str) -> str:
    """Return the SQL expression for the number of bytes of a text or blob."""
    return f"length(CAST({value} AS BLOB))"


def preview_sql(value: str, *, text: int, blob: int) -> str:
    """Return the SQL expression for the preview of a value: of text and blobs at most ``text`` and ``blob`` bytes."""
    stored = f"CAST({value} AS BLOB)"  # substr of text would end at a NUL
    return (
        f"CASE typeof({value}) "
        f"WHEN 'text' THEN {_beginning(stored, text)} WHEN 'blob' THEN {_beginning(value, blob)} "
        f"WHEN 'real' THEN iif(abs({value}) = 9e999, CAST({value} AS TEXT), {value}) ELSE {value} END"
    )


def _beginning(stored: str, longest: int) -> str:
    return f"iif(length({stored}) > {longest}, substr({stored}, 1, {longest}), {stored})"  # substr of x'' is NULL


def decode_preview(kind: SqlValue, preview: SqlValue, letter: SqlValue, text: int) -> SqlValue:
    """Convert the result of `preview_sql` to a value.

    ``kind`` is the storage class of the value, ``letter`` the result of `LETTER`, ``text`` the limit of bytes.
    """
    match kind, preview:
        case "text", bytes() if isinstance(letter, bytes):
            decoder = getincrementaldecoder(_ENCODINGS[letter])()
            try:
                return decoder.decode(preview, final=len(preview) < text)  # else it may end within a character
            except UnicodeDecodeError:
                return InvalidText(preview)
        case "real", str():
            return float(preview)
    return preview


def preview_text(value: SqlValue, width: int = 24, *, quotes: bool = False) -> str:
    """Return a value in one line: numbers with six digits, blobs as hexadecimal, text in ``quotes`` if requested."""
    match value:
        case None:
            return "NULL"
        case float():
            return f"{value:.6g}" if value % 1 or abs(value) >= 1e16 else f"{value:.1f}"
        case bytes():
            return shorten(f"x'{value.hex()}'", width) + (" (not UTF-8)" if isinstance(value, InvalidText) else "")
    text = escape_controls(str(value))
    return shorten(f"'{text}'" if quotes and isinstance(value, str) else text, width)


def format_number(number: float) -> str:
    """Return a number with six digits or its whole part, from 10,000 on with separators, so that 2026 is a year."""
    if abs(number) < 10_000 or (isinstance(number, float) and abs(number) >= 1e15):
        return preview_text(number)
    return f"{number:,.0f}" if abs(number) >= 1e6 or number == int(number) else f"{number:,.6g}"
