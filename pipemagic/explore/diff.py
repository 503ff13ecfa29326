"""Comparison of two tables, views or queries: columns, declared types, and rows.

In one database the server compares, and only differences are sent. Two databases send their rows in the same order
(see `pipemagic.explore.diff_streams`). Two values are equal only if they have the same type. A moment at midnight
equals its day if one column is declared DATE and the other DATETIME or TIMESTAMP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pipemagic.errors import UnsupportedError
from pipemagic.explore import diff_sql, diff_streams
from pipemagic.explore.diff_inputs import ColumnPair, Source, common_columns, key_columns, read_source, with_days
from pipemagic.explore.diff_result import Change, Diff
from pipemagic.explore.diff_sql import Differences, typed
from pipemagic.hrana.values import SqlValue

if TYPE_CHECKING:
    from pipemagic.client.database import Database


def diff(
    database: Database,
    a: str,
    b: str | None = None,
    *,
    other: Database | None = None,
    key: Sequence[str] | None = None,
    limit: int = 10,
    places: tuple[str, str] = ("A", "B"),
    params: Mapping[str, SqlValue] | None = None,
) -> Diff:
    """Compare ``a`` with ``b`` of the same database or of ``other``; without ``b``, with the table of the same name.

    Both are tables, views or SELECTs. Rows are matched by ``key``, by default by the primary key if both have the same
    one; otherwise whole rows are compared. ``limit`` is the number of rows of each kind to return. ``places`` are the
    names of the databases, shown if both tables have the same name. ``params`` has the values of the parameters of
    SELECTs. Raise UnknownName for a wrong name, and ParameterError for a key that is not unique.
    """
    sides = read_source(database, a, params), read_source(other or database, a if b is None else b, params)
    columns = common_columns(*sides)
    if not columns or len(columns) > diff_sql.WIDEST:
        raise UnsupportedError(
            f"{sides[0].name} and {sides[1].name} have {len(columns)} columns in common; "
            f"at least 1 and at most {diff_sql.WIDEST} can be compared"
        )
    by = key_columns(*sides, columns, key)
    rest = [column for column in columns if column not in by]
    with_both = [column for column in columns if column.has_days_and_moments]
    sides = (
        with_days(sides[0], [column.a for column in with_both]),
        with_days(sides[1], [column.b for column in with_both]),
    )
    inconsistent = False
    if other is not None and other is not database:
        differences = diff_streams.compare(*sides, (database, other), by, rest, limit)
    else:
        differences, inconsistent = diff_sql.compare(*sides, database, by, rest, limit)
    if sides[0].name == sides[1].name:
        first, second = (
            replace(side, name=f"{side.name} on {place}") for side, place in zip(sides, places, strict=True)
        )
        sides = first, second
    return _result(*sides, by, rest, differences, inconsistent)


def _result(
    a: Source, b: Source, key: Sequence[ColumnPair], rest: Sequence[ColumnPair], delta: Differences, inconsistent: bool
) -> Diff:
    columns = [*key, *rest]
    names = tuple(column.a for column in columns)
    in_b = {column.b for column in columns}
    changes = [
        Change(row_a[: len(key)], name, value_a, value_b)
        for row_a, row_b in delta.changes
        for name, value_a, value_b in zip(names, row_a, row_b, strict=True)
        if typed(value_a) != typed(value_b)
    ]
    types = {column.a: (column.a, *column.types) for column in columns}
    return Diff(
        a.name, b.name, names[: len(key)], names,
        tuple(name for name, _ in a.columns if name not in names),
        tuple(name for name, _ in b.columns if name not in in_b),
        tuple(types[name] for name, kind in a.columns if name in types and kind.upper() != types[name][2].upper()),
        delta.total - delta.only_a - delta.changed, delta.only_a, delta.only_b, delta.changed,
        {names[at]: count for at, count in sorted(delta.by_column.items())}, inconsistent,
        tuple(delta.rows_a), tuple(delta.rows_b), tuple(changes),
    )  # fmt: skip
