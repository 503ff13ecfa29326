"""Rules for the rows of a table. Each rule is SQL that finds the rows that fail.

Columns are written with the name of the table: SQLite reads an unknown quoted name as a string, and a check of it would
find no rows.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pipemagic.errors import ParameterError, ProtocolError
from pipemagic.explore import conditions
from pipemagic.explore.conditions import literal, quote_name
from pipemagic.frames.scalars import to_sql
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import dates
from pipemagic.text import plural

RangeBound: TypeAlias = int | float | decimal.Decimal | str | datetime.date | None
"""A bound of a range; a datetime is a date, too."""

REFERENCED = " referenced"
"""The alias of a referenced table is the name of the checked table and this."""

FOREIGN_KEYS = "foreign keys have matching rows"


@dataclass(frozen=True)
class Rule:
    """A rule with its description. ``failing`` is the FROM part that selects the failing rows, or duplicate values.

    ``args`` are the values of its parameters. ``other`` is the referenced table. ``declared`` is True for the rule of
    all foreign keys that the table declares, ``duplicates`` if ``failing`` selects groups of rows.
    """

    description: str
    failing: str
    other: str = ""
    declared: bool = False
    duplicates: bool = False
    args: Mapping[str, SqlValue] = field(default_factory=dict)

    @property
    def count(self) -> tuple[str, Mapping[str, SqlValue] | None]:
        """The statement that counts the failing rows, with its arguments."""
        return f"SELECT count(*) FROM {self.failing}", self.args or None

    def first(self, limit: int) -> tuple[str, Mapping[str, SqlValue] | None]:
        """Return the statement that selects the first failing rows, with its arguments."""
        return f"SELECT * FROM {self.failing} LIMIT {limit}", self.args or None

    def message(self, count: int) -> str:
        """Return the message for a number of failing rows."""
        failed = plural(count, "duplicate value") if self.duplicates else plural(count, "row")
        verb = "" if self.duplicates else " fails" if count == 1 else " fail"
        return f"{self.description}: {failed}{verb}"


def _column(table: str, name: str) -> str:
    return f"{quote_name(table)}.{quote_name(name)}"


def _rows(table: str, condition: str) -> str:
    return f"main.{quote_name(table)} AS {quote_name(table)} WHERE {condition}"


def _all_present(table: str, names: Sequence[str]) -> str:
    return " AND ".join(f"{_column(table, name)} IS NOT NULL" for name in names)


def not_null(table: str, name: str) -> Rule:
    """Return the rule that a column has no NULLs."""
    return Rule(f"{name} is not null", _rows(table, f"{_column(table, name)} IS NULL"))


def unique(table: str, names: Sequence[str]) -> Rule:
    """Return the rule that no two rows have the same values; as in SQLite's UNIQUE, NULLs are distinct."""
    if not names:
        raise ParameterError("a unique rule requires at least one column")
    columns = ", ".join(_column(table, name) for name in names)
    rows = _rows(table, _all_present(table, names))
    groups = f'(SELECT {columns}, count(*) AS "times" FROM {rows} GROUP BY {columns} HAVING count(*) > 1)'
    return Rule(f"{', '.join(names)} is unique", groups, duplicates=True)


def in_range(table: str, name: str, low: RangeBound, high: RangeBound) -> Rule:
    """Return the rule that values are within bounds. NULL passes; numbers fail for text bounds, text for numbers.

    Dates and times are compared as they are stored, in ISO format, whether the column is declared DATE or DATETIME: an
    upper bound that is a day includes the whole day, and a bound at midnight is that day in a column of days.
    """
    first, last = _stored(name, low), _stored(name, high)
    bounds = [bound for bound in (first, last) if bound is not None]
    if not bounds or len({isinstance(bound, str) for bound in bounds}) > 1:
        raise ParameterError(f"the range of {name} requires one or two bounds, of numbers or of text")
    column = _column(table, name)
    types = "'text'" if isinstance(bounds[0], str) else "'integer', 'real'"
    wrong = [f"typeof({column}) NOT IN ({types})"]
    if first is not None:
        day = dates.day_of_midnight(first) if isinstance(first, str) else None
        wrong.append(f"{column} < {literal(first if day is None else day)}")
    if last is not None:
        is_day = isinstance(last, str) and dates.is_day(last)
        wrong.append(f"{f'substr({column}, 1, 10)' if is_day else column} > {literal(last)}")
    span = f"{'' if first is None else first}..{'' if last is None else last}"
    return Rule(f"{name} is in {span}", _rows(table, f"{column} IS NOT NULL AND ({' OR '.join(wrong)})"))


def _stored(name: str, bound: RangeBound) -> int | float | str | None:
    """Return a bound as a value that SQLite stores."""
    try:
        value = to_sql(bound)
    except ProtocolError as error:
        raise ParameterError(f"the range of {name}: {error.message}", hint=error.hint) from None
    if isinstance(value, bytes) or (value is None and bound is not None):  # NaN and NaT are NULL
        raise ParameterError(f"the range of {name} requires one or two bounds, of numbers or of text")
    return value


def references(table: str, names: Sequence[str], other: str, targets: Sequence[str]) -> Rule:
    """Return the rule that values exist in another table; rows with NULL pass, as for a foreign key."""
    if len(names) != len(targets):
        listed = f"{', '.join(names)} and {', '.join(targets)}"
        raise ParameterError(f"a reference requires the same number of columns on both sides, not {listed}")
    inner = quote_name(table + REFERENCED)
    # The other table comes first: its type and collation are used, as for a foreign key.
    match = " AND ".join(
        f"{inner}.{quote_name(target)} = {_column(table, name)}" for name, target in zip(names, targets, strict=True)
    )
    missing = f"NOT EXISTS (SELECT 1 FROM main.{quote_name(other)} AS {inner} WHERE {match})"
    description = f"{', '.join(names)} is in {other} ({', '.join(targets)})"
    return Rule(description, _rows(table, f"{_all_present(table, names)} AND {missing}"), other=other)


def foreign_keys(table: str) -> Rule:
    """Return the rule of all foreign keys of the table, checked by ``PRAGMA foreign_key_check``."""
    return Rule(FOREIGN_KEYS, f"temp.pragma_foreign_key_check({literal(table)})", declared=True)


def each_foreign_key(keys: Sequence[Rule]) -> Rule:
    """Return the rule of all foreign keys of the table, from the rule of each, for an engine without that check."""
    failing = " UNION ALL ".join(f"SELECT 1 FROM {key.failing}" for key in keys) or "SELECT 1 WHERE false"
    return Rule(FOREIGN_KEYS, f"({failing})", declared=True)


def missing_table(table: str, names: Sequence[str], other: str) -> Rule:
    """Return the rule of a foreign key to a missing table: only rows with a NULL pass."""
    return Rule(f"{', '.join(names)} is in {other} (missing table)", _rows(table, _all_present(table, names)))


def expression(
    table: str, sql: str, args: Mapping[str, SqlValue] | None = None, description: str | None = None
) -> Rule:
    """Return the rule that an SQL expression is true or NULL, as in CHECK. Raise ParameterError if it is invalid.

    ``args`` are the values of its parameters. The description is the expression by default.
    """
    conditions.check(sql, parameters=True)
    return Rule(" ".join((description or sql).split()), _rows(table, f"NOT ({sql}\n)"), args=args or {})
