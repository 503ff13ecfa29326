"""Positions in a text: offsets, lines and columns, carets."""

from __future__ import annotations

from unicodedata import combining, east_asian_width


def position(text: str, offset: int) -> tuple[int, int]:
    """Return line (from 1) and column (from 0) of a character offset."""
    offset = max(0, min(offset, len(text)))
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1)


def character_offset(text: str, byte_offset: int) -> int:
    """Convert an offset in UTF-8 bytes, as servers give it, into one in characters."""
    before = text.encode("utf-8", "replace")[: max(0, byte_offset)]
    return len(before.decode("utf-8", "ignore"))


def caret(text: str, offset: int, *, width: int = 76) -> str:
    """Return the line that holds a character offset, with a caret below the place.

    A long line is cut to ``width`` characters around the place; tabs and other control characters show as blanks.
    """
    number, column = position(text, offset)
    line = "".join(" " if char < " " else char for char in text.split("\n")[number - 1])
    cut = max(0, column - width // 2) if len(line) > width else 0
    shown = line[cut : cut + width].rstrip() if column < len(line.rstrip()) else line[cut : cut + width]
    return f"{shown}\n{' ' * display_width(line[cut:column])}^"


def display_width(text: str) -> int:
    """Return how many columns of a terminal the text takes: two for East Asian letters and emoji, none for accents."""
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)
