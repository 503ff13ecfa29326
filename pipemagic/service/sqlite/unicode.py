"""``lower``, ``upper`` and ``LIKE`` for the letters of all alphabets; SQLite's own know ASCII.

Each character becomes one character, as in DuckDB and SQLite's extension ICU: the length of the text remains, and ``_``
in a pattern is one character. LIKE compares by simple case folding, so all three forms of the Greek sigma are equal.

SQLite refuses functions that are not deterministic in indexes and generated columns. These are registered so: other
programs, which have SQLite's own functions, would read such an index wrongly. A database whose schema already uses
SQLite's functions there keeps them (see `fits_schema`).

Source: https://www.unicode.org/reports/tr44/#Casemapping, https://sqlite.org/src/file/ext/icu/icu.c
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import apsw

from pipemagic.hrana.values import SqlValue
from pipemagic.service.sqlite.functions import native

_CHUNK = 10_000
"""Characters that are converted between two checks of whether the statement was stopped: a millisecond or two."""
_STORED = 0x3000
"""Code points below are stored once they were converted; beyond it, few characters have a case."""
_ESCAPE = "\1"
"""The escape character of each pattern that has one: folding does not change it."""


class _Letters(dict[int, str]):
    """The result of ``convert`` for each character, computed at its first use, for `str.translate`."""

    def __init__(self, convert: Callable[[str], str]) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, code: int) -> str:
        result = self._convert(chr(code))
        if code < _STORED:
            self[code] = result
        return result

    def apply(self, text: str, stopped: Callable[[], bool]) -> str:
        """Convert a text; raise `apsw.InterruptError` once ``stopped`` returns True."""
        parts = []
        for start in range(0, len(text), _CHUNK):
            if stopped():
                raise apsw.InterruptError("interrupted")
            parts.append(text[start : start + _CHUNK].translate(self))
        return "".join(parts)


def _lower(character: str) -> str:
    return character.lower()[0]  # two characters only for a capital i with a dot


def _upper(character: str) -> str:
    forms = (character.upper(), character.title(), character)  # the title form of some Greek letters is one character
    return next(form for form in forms if len(form) == 1)


def _fold(character: str) -> str:
    folded = character.casefold()
    return folded if len(folded) == 1 else _lower(character)


_lowers, _uppers, _folds = _Letters(_lower), _Letters(_upper), _Letters(_fold)


def install(connection: apsw.Connection, stopped: Callable[[], bool]) -> None:
    """Register the functions in the place of SQLite's own; they stop once ``stopped`` returns True."""
    flags = int(apsw.SQLITE_INNOCUOUS)
    for name, letters in (("lower", _lowers), ("upper", _uppers)):
        connection.create_scalar_function(name, partial(_convert, letters, stopped), 1, flags=flags)
    like = partial(_like, stopped)
    for count in (2, 3):
        connection.create_scalar_function("like", like, count, flags=flags)


def fits_schema(connection: apsw.Connection) -> bool:
    """Return whether a database can be read with the functions: no index or generated column has SQLite's own.

    The connection is only for this: it must not have read the schema yet, and it has the functions afterwards.
    """
    install(connection, lambda: False)
    try:
        connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
    except apsw.CorruptError as error:
        if "non-deterministic" in str(error):
            return False
        raise
    return True


def _convert(letters: _Letters, stopped: Callable[[], bool], value: SqlValue) -> SqlValue:
    text = value if isinstance(value, str) else native.value("CAST(? AS TEXT)", value)
    return letters.apply(text, stopped) if isinstance(text, str) else text


def _like(stopped: Callable[[], bool], *arguments: SqlValue) -> SqlValue:
    """Return ``like(pattern, text)`` or ``like(pattern, text, escape)`` of SQLite for texts without case."""
    if None in arguments:
        return None
    pattern, text, *escape = map(_text, arguments)
    if escape and len(escape[0].partition("\0")[0]) == 1:  # otherwise SQLite refuses it
        pattern, escape = _with_caseless_escape(pattern, escape[0][0]), [_ESCAPE]
    folded = _folds.apply(pattern, stopped), _folds.apply(text, stopped), *escape
    return native.value(f"like({', '.join('?' * len(folded))})", *folded)


def _text(value: SqlValue) -> str:
    """Return a value as LIKE reads it: a BLOB as UTF-8, with U+FFFD for what is not."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else str(native.value("CAST(? AS TEXT)", value))


def _with_caseless_escape(pattern: str, escape: str) -> str:
    """Return a pattern with ``_ESCAPE`` in the place of its escape character."""

    def replace(match: re.Match[str]) -> str:
        escaped: str | None = match[1]
        return _ESCAPE + (_ESCAPE if escaped is None else escaped)  # itself is literal if it is not the escape

    return re.sub(f"{re.escape(escape)}(.?)|{_ESCAPE}", replace, pattern, flags=re.DOTALL)
