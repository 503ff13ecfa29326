"""Characters that look like SQL or like a space, but are letters of a name in SQLite.

SQLite reads every character beyond ASCII as a letter: WHERE, a no-break space and a name are one long word for it.
Such characters come from documents, chats and slides.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from pipemagic.sql.tokenizer import tokens

_QUOTES = {**dict.fromkeys("‘’‚‛′´＇", "'"), **dict.fromkeys("“”„‟″＂«»", '"')}
_DASHES = dict.fromkeys("‐‑‒–—―−﹣－", "-")
_SIGNS = {"×": "*", "÷": "/", "≤": "<=", "≥": ">=", "≠": "<>", "…": "...", "，": ",", "；": ";", "：": ":", "。": "."}
_FULL_WIDTH = {chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F) if not chr(code).isalnum()}

SIGNS = {**_FULL_WIDTH, **_SIGNS, **_DASHES, **_QUOTES}
"""The sign to write instead, by the character that looks like it."""

_HIDDEN = ("Cf", "Zs", "Zl", "Zp")  # categories of characters that are not seen: formats and blanks


class Lookalike(NamedTuple):
    """A character at an offset, and what to write instead: a sign, a space, or '' for a character to remove."""

    char: str
    offset: int
    instead: str

    @property
    def name(self) -> str:
        """The name and code point, such as ``NO-BREAK SPACE (U+00A0)``."""
        return f"{unicodedata.name(self.char, 'character')} (U+{ord(self.char):04X})"


def lookalikes(text: str) -> Iterator[Lookalike]:
    """Yield the characters of a statement that look like others, outside strings, quoted names and comments."""
    if text.isascii():
        return
    for token in tokens(text):
        if token.kind not in ("string", "quoted", "blob", "comment", "space") and not token.text.isascii():
            for at, char in enumerate(token.text):
                instead = _instead(char)
                if instead is not None:
                    yield Lookalike(char, token.start + at, instead)


def _instead(char: str) -> str | None:
    """Return what to write instead of a character; None for any other one."""
    if char.isascii():
        return None
    if char in SIGNS:
        return SIGNS[char]
    if char.isspace():
        return " "
    return "" if unicodedata.category(char) in _HIDDEN else None
