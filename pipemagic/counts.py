"""Numbers with their nouns, as people read them."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """Return ``1 row`` or ``336,776 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
