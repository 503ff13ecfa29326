"""The affinity of declared types."""

from __future__ import annotations


def affinity(decltype: str) -> str:
    """Return the affinity of a declared type by SQLite's rules (datatype3.html); '' if none was declared."""
    name = decltype.upper()
    if not name:
        return ""
    for affinity_, words in (("INTEGER", ("INT",)), ("TEXT", ("CHAR", "CLOB", "TEXT")), ("BLOB", ("BLOB",))):
        if any(word in name for word in words):
            return affinity_
    return "REAL" if any(word in name for word in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def is_boolean(decltype: str) -> bool:
    """Return True if a declared type is boolean."""
    return _word(decltype) in ("BOOLEAN", "BOOL")


def is_decimal(decltype: str) -> bool:
    """Return True if a declared type is decimal; SQLite stores whole decimals as integers."""
    return _word(decltype) in ("DECIMAL", "DEC", "NUMERIC", "NUMBER", "NUM", "MONEY")


def is_number(decltype: str) -> bool:
    """Return True if a declared type is that of numbers; INTERVAL and POINT have INTEGER affinity, but are not."""
    if _word(decltype) in ("INTERVAL", "POINT"):
        return False
    return is_decimal(decltype) or affinity(decltype) in ("INTEGER", "REAL")


def is_date(decltype: str) -> bool:
    """Return True if a declared type is a date, with or without a time."""
    return _word(decltype) in ("DATE", "DATETIME", "TIMESTAMP", "TIMESTAMPTZ")


def is_day_type(decltype: str) -> bool:
    """Return True if a declared type is a date without a time."""
    return _word(decltype) == "DATE"


def _word(decltype: str) -> str:
    """Return the first word of a declared type: ``TIMESTAMP`` of ``timestamp(6) with time zone``."""
    words = decltype.upper().replace("(", " ").split()
    return words[0] if words else ""
