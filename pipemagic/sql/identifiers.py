"""Names of tables and columns: quoted, unquoted, folded, normalized, and without comments."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from string import ascii_lowercase, ascii_uppercase

from pipemagic.errors import UnsupportedError
from pipemagic.sql.tokenizer import BLANK, Token, tokens

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
            f"schema {schema} does not exist; tables are in main",
            hint=f"write '{in_quotes}' if the name of the table contains the point",
        )
    return text


# -- names of result columns


def without_comments(name: str, statement: str) -> str:
    """Return the name of a result column without comments, if it is the text of an expression of the statement.

    SQLite names an expression without an alias by its text, which includes comments.
    A comment mark in a string, or in the name of a column or alias, is no comment.
    """
    if not ("--" in name or "/*" in name):
        return name
    expression = _expression(name, statement)
    return "".join(_texts(expression)) if expression else name


def _expression(name: str, statement: str) -> Sequence[Token]:
    """Return the tokens of the name, without blanks at its end; none if there is no comment among them."""
    parts = list(tokens(statement))
    starts = [token.start for token in parts]
    start = statement.find(name)
    while start >= 0:
        end = start + len(name)
        part = parts[bisect_left(starts, start) : bisect_left(starts, end)]
        is_whole = bool(part) and part[0].start == start and not statement[end : part[-1].end].strip()
        if is_whole and any(token.kind == "comment" for token in part):
            return part
        start = statement.find(name, end)
    return ()


def _texts(expression: Sequence[Token]) -> Iterator[str]:
    """Yield the texts of an expression; a comment and the blanks around it become one blank, or nothing."""
    blanks: list[Token] = []
    before = ""
    for token in expression:
        if token.kind in BLANK:
            blanks.append(token)
            continue
        yield _between(before, blanks, token.text)
        yield token.text
        before, blanks = token.text, []


def _between(before: str, blanks: Sequence[Token], after: str) -> str:
    if all(token.kind == "space" for token in blanks):
        return "".join(token.text for token in blanks)
    return "" if before in ("", "(") or after in (")", ",") else " "
