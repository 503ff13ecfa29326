"""Numbers that are compared with a TEXT column, which SQLite converts to text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pipemagic.explore.comparisons import ORDERED, Comparison, comparisons
from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import SHOWN, written
from pipemagic.hrana.values import SqlValue
from pipemagic.sql.type_affinity import affinity
from pipemagic.text import shorten


def text_comparisons(context: Context) -> Iterator[str]:
    """Yield each comparison of a TEXT column with a number, which SQLite converts to text: '10' < '9.5'.

    An integer equals the text of its digits, so = and IN with integers are left out.
    """
    args = context.args
    for found in comparisons(context.queries) if args else ():
        values = _values_of(found.parameter.text, args)
        is_number = any(isinstance(value, float) for value in values)
        if found.operator in (*ORDERED, "BETWEEN"):
            is_number = is_number or any(isinstance(value, int) for value in values)
        declared = found.declared if is_number and found.other.word(0) not in ("MIN", "MAX") else None
        if declared and affinity(declared) == "TEXT":
            column, parameter = shorten(written(found.other), SHOWN), found.parameter.text
            what = "contains numbers" if parameter not in args else "is a number"
            compared = f"{column} is declared {declared} and {parameter} {what}, so {found.operator} compares text"
            yield f"{compared}: write {_as_number(found, column)}"


def _as_number(found: Comparison, column: str) -> str:
    cast, parameter, operator = f"CAST({column} AS REAL)", found.parameter.text, found.operator
    if operator in ("IS", "IN", "BETWEEN"):
        return f"{cast} instead of {column}"
    return f"{parameter} {operator} {cast}" if found.is_first else f"{cast} {operator} {parameter}"


def _values_of(parameter: str, args: Mapping[str, SqlValue]) -> list[SqlValue]:
    """Return the value of a parameter, or the values of a list, whose names end with their numbers."""
    if parameter in args:
        return [args[parameter]]
    return [value for name, value in args.items() if re.fullmatch(rf"{re.escape(parameter)}_+\d+", name)]
