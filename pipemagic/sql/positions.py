"""Positions in a text: offsets, lines and columns, carets."""

from __future__ import annotations

from pipemagic.text import display_width


def position(text: str, offset: int) -> tuple[int, int]:
    """Return line (from 1) and column (from 0) of a character offset."""
    offset = max(0, min(offset, len(text)))
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1)


def character_offset(text: str, byte_offset: int) -> int:
    """Convert an offset in UTF-8 bytes, as in responses of servers, to one in characters."""
    before = text.encode("utf-8", "replace")[: max(0, byte_offset)]
    return len(before.decode("utf-8", "ignore"))


def caret(text: str, offset: int, *, width: int = 76) -> str:
    """Return the line that contains a character offset, with a caret below the position.

    A long line is shortened to ``width`` characters around it; tabs and other control characters become blanks.
    """
    number, column = position(text, offset)
    line = "".join(" " if char < " " else char for char in text.split("\n")[number - 1])
    cut = max(0, column - width // 2) if len(line) > width else 0
    shown = line[cut : cut + width].rstrip() if column < len(line.rstrip()) else line[cut : cut + width]
    return f"{shown}\n{' ' * display_width(line[cut:column])}^"
