"""Numbers with their nouns or units, as people read them."""

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


def duration(seconds: float) -> str:
    """Return a length of time: ``45 s``, ``9 min 30 s``, ``2 h 5 min``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min" if whole % 3600 // 60 else f"{whole // 3600} h"
