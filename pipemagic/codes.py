"""The characters of one-time codes, which services exchange for tokens, and how what people type is read."""

from __future__ import annotations

CHARACTERS = "0123456789BCDFGHJKMNPQRSTVWXYZ"
"""No vowels, so codes are no words."""

LENGTHS = SHORT, LONG = 8, 12
"""The characters of a code that is valid for at most a day, and of any other."""

_READ_AS = str.maketrans("OIL", "011", " -_.\t\r\n\u00a0")


def normalize(code: str) -> str:
    """Return a code in capitals without separators; O, I and L become the digits that they look like."""
    return code[:100].upper().translate(_READ_AS)


def is_code(text: str) -> bool:
    """Return True for text that may be a code."""
    code = normalize(text)
    return len(code) in LENGTHS and set(code) <= set(CHARACTERS)
