"""Numbers with their nouns, as people read them."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """Return ``1 row`` or ``336,776 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """Return a number of bytes with a decimal unit: ``512 B`` or ``1.2 MB``."""
    amount, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 999.95 and len(units) > 1:  # what would be rounded to 1000.0 of the smaller unit
        amount, units = amount / 1000, units[1:]
    return f"{count} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"
