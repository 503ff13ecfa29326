"""Rules for the rows of a table, each as a condition that finds the rows that break it.

Columns are written with the table's name before them: SQLite takes a quoted name that stands alone and is not a column
for a text, and a check of it would find nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipemagic.errors import ParameterError
from pipemagic.explore.names import quoted, text
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import tokens

Bound = int | float | str | None

REFERRED = " referred to"  # the alias of another table is the table's name and this

_LARGEST = 2**63


@dataclass(frozen=True)
class Found:
    """How the rows that break a rule are described: ``SUBJECT: 8,255 NOUNs REST``."""

    subject: str
    noun: str
    rest: str = ", none allowed"


@dataclass(frozen=True)
class Rule:
    """``told`` names it for people. ``broken`` is the FROM part that gives the rows that break it, or groups of rows.

    ``args`` are the values of its parameters, ``found`` describes the rows. ``other`` is another table that it looks
    at; ``declared`` marks the one for all foreign keys that the table declares.
    """

    told: str
    broken: str
    found: Found
    other: str = ""
    declared: bool = False
    args: Mapping[str, SqlValue] = field(default_factory=dict)

    @property
    def counting(self) -> tuple[str, Mapping[str, SqlValue] | None]:
        """The statement that counts them, with its arguments."""
        return f"SELECT count(*) FROM {self.broken}", self.args or None

    def first(self, limit: int) -> tuple[str, Mapping[str, SqlValue] | None]:
        """Return the statement that selects the first of them, with its arguments."""
        return f"SELECT * FROM {self.broken} LIMIT {limit}", self.args or None


def column(table: str, name: str) -> str:
    """Return a column of the table that is checked."""
    return f"{quoted(table)}.{quoted(name)}"


def where(table: str, condition: str) -> str:
    """Return the FROM part for the rows that fulfil a condition."""
    return f"main.{quoted(table)} AS {quoted(table)} WHERE {condition}"


def not_null(table: str, name: str) -> Rule:
    """No row has NULL there."""
    return Rule(f"{name} is not null", where(table, f"{column(table, name)} IS NULL"), Found(name, "NULL"))


def unique(table: str, names: Sequence[str]) -> Rule:
    """No two rows have the same values there; as for SQLite's own UNIQUE, NULL is never the same."""
    if not names:
        raise ParameterError("nothing can be unique without a column")
    columns = ", ".join(column(table, name) for name in names)
    full = " AND ".join(f"{column(table, name)} IS NOT NULL" for name in names)
    groups = f'(SELECT {columns}, count(*) AS "times" FROM {where(table, full)} GROUP BY {columns} HAVING count(*) > 1)'
    listed = ", ".join(names)
    return Rule(f"{listed} is unique", groups, Found(listed, "duplicate value"))


def within(table: str, name: str, low: Bound, high: Bound) -> Rule:
    """No value is below or above; NULL is let through. A number is never within bounds of text, nor text of numbers."""
    given = [bound for bound in (low, high) if bound is not None]
    if not given or len({isinstance(bound, str) for bound in given}) > 1:
        raise ParameterError(f"the range of {name} needs a lower or an upper bound, both numbers or both text")
    types = "'text'" if isinstance(given[0], str) else "'integer', 'real'"
    wrong = [f"typeof({column(table, name)}) NOT IN ({types})"]
    wrong += [f"{column(table, name)} < {literal(low)}"] if low is not None else []
    wrong += [f"{column(table, name)} > {literal(high)}"] if high is not None else []
    span = f"{'' if low is None else low}..{'' if high is None else high}"
    found = Found(name, "value", f" outside the allowed range {span}")
    condition = f"{column(table, name)} IS NOT NULL AND ({' OR '.join(wrong)})"
    return Rule(f"{name} is in {span}", where(table, condition), found)


def references(table: str, names: Sequence[str], other: str, targets: Sequence[str]) -> Rule:
    """Each value is there in the columns of another table; a row with a NULL is let through, as by a foreign key."""
    if len(names) != len(targets):
        raise ParameterError(f"{', '.join(names)} cannot refer to {', '.join(targets)}: they are not equally many")
    full = " AND ".join(f"{column(table, name)} IS NOT NULL" for name in names)
    pairs = zip(names, targets, strict=True)
    inner = quoted(table + REFERRED)
    # The other table first: its type and collation decide, as for a foreign key.
    match = " AND ".join(f"{inner}.{quoted(target)} = {column(table, name)}" for name, target in pairs)
    missing = f"NOT EXISTS (SELECT 1 FROM main.{quoted(other)} AS {inner} WHERE {match})"
    listed, referred = ", ".join(names), f"{other} ({', '.join(targets)})"
    found = Found(listed, "row", f" without a match in {referred}, none allowed")
    return Rule(f"{listed} is in {referred}", where(table, f"{full} AND {missing}"), found, other=other)


def foreign_keys(table: str) -> Rule:
    """All foreign keys of the table find their row, as ``PRAGMA foreign_key_check`` sees it."""
    found = Found("foreign keys", "row", " without a match, none allowed")
    return Rule("the foreign keys find their rows", f"pragma_foreign_key_check({text(table)})", found, declared=True)


def filled(table: str, names: Sequence[str], other: str) -> Rule:
    """All columns of a foreign key to a table that is not there are NULL somewhere."""
    full = " AND ".join(f"{column(table, name)} IS NOT NULL" for name in names)
    listed = ", ".join(names)
    found = Found(listed, "row", f" with a value, but there is no table {other}; only NULL allowed")
    return Rule(f"{listed} is in {other}, which is not there", where(table, full), found)


def holds(
    table: str, expression: str, args: Mapping[str, SqlValue] | None = None, description: str | None = None
) -> Rule:
    """Take an SQL expression that is true or NULL for each row, as for a CHECK; ParameterError if it is not one.

    ``args`` are the values of its parameters. ``description`` names the rule, by default the expression does.
    """
    depth = 0
    for token in tokens(expression):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.kind == "semi" or depth < 0:
            raise ParameterError(f"{expression!r} is not one SQL expression")
    if depth or not expression.strip():
        raise ParameterError(f"{expression!r} is not one SQL expression")
    told = " ".join((description or expression).split())
    found = Found(told, "failing row")
    return Rule(told, where(table, f"NOT ({expression}\n)"), found, args=args or {})


def literal(value: Bound) -> str:
    """Write a number or text as SQL; ParameterError for NaN and for text with NUL."""
    if isinstance(value, str):
        if "\0" in value:
            raise ParameterError("a bound cannot hold NUL")
        return text(value)
    if isinstance(value, float):
        if math.isnan(value):
            raise ParameterError("NaN is no bound")
        return repr(value).replace("inf", "9e999")
    if value is None or not -_LARGEST <= value < _LARGEST:
        raise ParameterError(f"{value} is no bound: it does not fit 64 bits")
    return f"({value})" if value != -_LARGEST else f"(-{_LARGEST - 1} - 1)"
