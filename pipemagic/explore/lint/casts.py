"""Casts to types that SQLite does not have, which give a number."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import arguments_of, number_value, string_value, written
from pipemagic.explore.query import Group, Query, bare
from pipemagic.sql.type_affinity import affinity

_DATES = {
    "DATE": "date",
    "DATETIME": "datetime",
    "TIMESTAMP": "datetime",
    "TIMESTAMPTZ": "datetime",
    "TIME": "time",
}
"""Types of dates, and the function that returns them."""

_TEXTS = frozenset(["STRING", "STR", "UUID", "JSON", "JSONB", "ENUM"])
"""Types of texts in whose names SQLite finds no TEXT or CHAR."""


def casts(context: Context) -> Iterator[str]:
    """Yield each cast to a type of dates or texts that SQLite does not have."""
    for query in context.queries:
        expression, type_ = _cast(query.part)
        if expression is None or context.args.get(written(expression), "") is None:
            continue
        function = _DATES.get(type_.partition("(")[0].split(" ")[0])
        value, shown = written(expression), f"CAST({written(expression)} AS {type_})"
        number = _number(expression)
        if function is not None and (write := _date(query, expression, function)):
            yield f"{shown} is {number or 'a number, such as 2013'}: write {write}"
        elif type_.split("(")[0] in _TEXTS:
            yield f"{shown} is {number or 'a number, 0 for a text without digits'}: write CAST({value} AS TEXT)"


def _cast(part: Group) -> tuple[Group | None, str]:
    """Return the expression and the type of a cast from the tokens in its parentheses; None for any others."""
    if part.parent is None or part.parent.word(part.index - 1) != "CAST":
        return None, ""
    words = part.words()
    at = len(words) - 1 - words[::-1].index("AS") if "AS" in words else 0
    return (bare(part.slice(0, at)) if at else None), written(part.slice(at + 1)).upper()


def _number(expression: Group) -> str:
    """Return the number that SQLite reads at the start of a text in quotes; '' for any other expression."""
    text = string_value(expression)
    if text is None:
        return ""
    match = re.match(r"\s*([+-]?\d+(?:\.\d+)?)(?!\d|e)", text, re.ASCII | re.IGNORECASE)
    if match is None:
        return "" if re.match(r"\s*[+-]?\.?\d", text) else "0"
    return f"{float(match[1]):.15g}"


def _date(query: Query, expression: Group, function: str) -> str:
    """Return the call that returns the date; '' where a number is right or nothing is known about the date."""
    name = expression.word(0) if arguments_of(expression) is not None else ""
    if expression.word(0) == "NULL" or name in ("STRFTIME", "UNIXEPOCH", "JULIANDAY"):
        return ""
    declared = query.declared(expression) or ""
    if affinity(declared) in ("INTEGER", "REAL") or number_value(expression) is not None:
        return f"{function}({written(expression)}, 'unixepoch') if it counts seconds since 1970"
    return f"{function}({written(expression)})"
