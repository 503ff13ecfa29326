"""The characters of one-time codes, which services exchange for tokens, and how what people type is read."""

from __future__ import annotations

CHARACTERS = "0123456789BCDFGHJKMNPQRSTVWXYZ"
"""No vowels, so codes are no words."""

_READ_AS = str.maketrans("OIL", "011", " -_.\t\r\n\u00a0")


def normalize(code: str) -> str:
    """Return a code in capitals without separators; O, I and L become the digits that they look like."""
    return code[:100].upper().translate(_READ_AS)
