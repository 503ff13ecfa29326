"""Quote, unquote, fold and normalize names of tables and columns."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_CLOSING_QUOTES = {'"': '"', "`": "`", "'": "'", "[": "]"}


def quote(name: str, mark: str = '"') -> str:
    """Quote a name for use in SQL: any text without NUL becomes one identifier."""
    if "\0" in name or not name:
        raise ValueError(f"{name!r} cannot be a name in SQL")
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def unquote(name: str) -> str:
    """Return a name without its quotes; the closing one may be missing."""
    end = _CLOSING_QUOTES.get(name[:1])
    if end is None:
        return name
    inside = name[1:-1] if len(name) > 1 and name.endswith(end) else name[1:]
    return inside if end == "]" else inside.replace(end * 2, end)


def folded(name: str) -> str:
    """Return a name as SQLite compares names: with ASCII letters in lower case."""
    return name.translate(_LOWER)


def normalize(name: str) -> str:
    """Return a name in its form for comparison: without quotes, in lower case."""
    return unquote(name).lower()
