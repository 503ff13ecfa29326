"""How single values look in lists and pictures: short, on one line, told apart from each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pipemagic.explore.sending import NotText
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import display_width
from pipemagic.svg import shortened

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def one_line(words: str) -> str:
    """Give text on one line: control characters, also those that turn the direction of writing, as escapes."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), words)


def value(given: SqlValue, width: int = 24, *, quotes: bool = False) -> str:
    """Give a value for people: numbers to six digits, blobs as their first bytes; text in ``quotes`` if told so."""
    match given:
        case None:
            return "NULL"
        case float():
            return f"{given:.6g}" if given % 1 or abs(given) >= 1e16 else f"{given:.1f}"
        case bytes():
            return shortened(f"x'{given.hex()}'", width) + (" (not UTF-8)" if isinstance(given, NotText) else "")
    words = one_line(str(given))
    return shortened(f"'{words}'" if quotes and isinstance(given, str) else words, width)


def number(given: float) -> str:
    """Return a figure for people, to six digits or the whole part; with separators from 10,000 on: 2026 is a year."""
    if abs(given) < 10_000 or (isinstance(given, float) and abs(given) >= 1e15):
        return value(given)
    return f"{given:,.0f}" if abs(given) >= 1e6 or given == int(given) else f"{given:,.6g}"


def aligned(rows: Sequence[Sequence[str]], right: Sequence[bool] = ()) -> Iterator[str]:
    """Return the lines of a table for a terminal; columns with ``right`` are aligned to the right."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, right or [False] * len(widths), strict=True)
        yield "  ".join(_padded(words, width, right=to_right) for words, width, to_right in cells).rstrip()


def _padded(words: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - display_width(words))
    return blanks + words if right else words + blanks
