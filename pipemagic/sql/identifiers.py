"""Quote, unquote, fold and normalize names of tables and columns."""

from __future__ import annotations

import re
from string import ascii_lowercase, ascii_uppercase

from pipemagic.errors import UnsupportedError

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_CLOSING_QUOTES = {'"': '"', "`": "`", "'": "'", "[": "]"}

_QUOTED = r'"(?:[^"]|"")+"|`(?:[^`]|``)+`|\[[^\]]+\]'
_TABLE = re.compile(
    rf"\s*(?:(?P<schema>\w+|{_QUOTED})\s*\.\s*)?(?:(?P<quoted>{_QUOTED})|(?P<bare>[^\s\"`\[](?:.*\S)?))\s*", re.DOTALL
)


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


def table_name(text: str, *, new: bool = False) -> str:
    """Return the name of a table that people write: ``sales`` for ``sales``, ``main.sales`` and ``"sales"``.

    A name may contain blanks and points without quotes, unless it begins with ``main.`` or ``temp.``; with ``new`` a
    point needs quotes. Raise UnsupportedError for a table of another schema.
    """
    match = _TABLE.fullmatch(text)
    if match is None:
        return text
    schema = match["schema"] and normalize(match["schema"])
    name = match["bare"] if match["quoted"] is None else unquote(match["quoted"])
    if schema in (None, "main"):
        return text if schema is None and match["quoted"] is None else name
    in_quotes = quote(text, '"') if "\0" not in text else text
    if schema == "temp":
        raise UnsupportedError(
            f"{text} is a temporary table, which only cells can see",
            hint=f"query it with %%sql, or write '{in_quotes}' if the name of the table contains the point",
        )
    if new:
        raise UnsupportedError(
            f"there is no schema {schema}; tables are in main",
            hint=f"write '{in_quotes}' if the name of the table contains the point",
        )
    return text
