"""Queries for plots: the rows of a table or SELECT, the range of their columns, groups, and the summary to draw."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, nextafter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pipemagic.errors import PlotError, UnknownName
from pipemagic.explore.conditions import args_of, check_balance
from pipemagic.explore.schema_reader import read_relation
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import folded, quote, without_comments
from pipemagic.suggestions import did_you_mean
from pipemagic.text import plural

if TYPE_CHECKING:
    import pandas as pd

    from pipemagic.client.database import Database

PlotKind = Literal["histogram", "box", "bar", "line", "scatter"]

Aggregate = Literal["mean", "sum", "count", "median", "min", "max"]

NAMES: dict[Aggregate, str] = {
    "mean": "mean", "sum": "sum", "count": "count", "median": "median", "min": "minimum", "max": "maximum",
}  # fmt: skip
"""The aggregates as they are named in labels."""

ADDITIVE = ("sum", "count")
"""The aggregates that are 0 for no rows, and of which those of parts add up to that of the whole."""

BINS = 30
GROUPS = 8

_NUMERIC = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d{1,3})?", re.IGNORECASE | re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DATE = "{0} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' AND julianday({0}) IS NOT NULL"
_NUMBER = "typeof({0}) IN ('integer', 'real') AND {0} > -9e999 AND {0} < 9e999"  # abs() overflows at the least integer


@dataclass(frozen=True)
class Rows:
    """A SELECT to plot, the values of its parameters, and a title."""

    select: str
    args: Mapping[str, SqlValue] = field(default_factory=dict)
    title: str = "query"


class Label(NamedTuple):
    """The labels of the axes of a plot, and the column of its groups."""

    x: str
    y: str
    group: str | None = None


@dataclass(frozen=True, eq=False)
class Summary:
    """The data of a plot. ``groups`` are in drawing order; ``notes`` are sentences about skipped values.

    ``agg`` is how the values of bars and lines were computed.
    """

    kind: PlotKind
    frame: pd.DataFrame
    label: Label
    title: str
    notes: tuple[str, ...] = ()
    groups: tuple[SqlValue, ...] = ()
    agg: Aggregate = "count"


@dataclass(frozen=True)
class PlotColumn:
    """A column of a plot: the kind and the range of its values. ``whole`` is True if all of them are integers."""

    name: str
    column: str
    kind: Literal["number", "date", "text"]
    low: float = 0.0
    high: float = 0.0
    whole: bool = False

    @property
    def sql(self) -> str:
        """The expression of a value; dates are numbers of days."""
        return f"julianday({self.column})" if self.kind == "date" else self.column

    @property
    def usable(self) -> str:
        """The condition that selects values of this kind."""
        made = {"number": _NUMBER, "date": _DATE, "text": "{0} IS NOT NULL"}[self.kind]
        return f"({made.format(self.column)})"

    def edges(self, bins: int | None) -> list[float]:
        """Return the edges of ``bins`` intervals, as numpy does; by default of about 30, between integers.

        Raise PlotError if the values are too close together.
        """
        import numpy as np

        low, high = self.low, self.high
        if bins is None and self.whole and max(-low, high) < 2**50:  # of larger ones a double holds no halves
            width = -(-int(high - low + 1) // BINS) if high - low >= 2 * BINS else 1
            count = -(-int(high - low + 1) // width)
            return [low - 0.5 + width * number for number in range(count + 1)]
        count = bins or BINS
        while count:
            try:
                edges: list[float] = np.histogram_bin_edges([low, high], count).tolist()
                return edges
            except ValueError:  # there are fewer floats than edges between the two
                if bins is not None:
                    raise PlotError(
                        f"the values of {self.name} are too close together for {bins} intervals",
                        hint="use fewer --bins, or omit --bins",
                    ) from None
            count //= 2
        return [nextafter(low, -inf), nextafter(high, inf)]


@dataclass(frozen=True)
class Groups:
    """The most frequent values of a column, by position; all other values have the position after the last one."""

    column: str
    values: tuple[SqlValue, ...]
    query: PlotQuery

    @cached_property
    def sql(self) -> str:
        """The expression of the position of a row's value."""
        if not self.values:
            return "0"
        whens = (f"WHEN {self.column} IS {self.query.bind(value)} THEN {at}" for at, value in enumerate(self.values))
        return f"CASE {' '.join(whens)} ELSE {len(self.values)} END"

    def named(self, positions: Iterable[SqlValue]) -> list[tuple[int, SqlValue]]:
        """Return the positions in order, each with its value; 'other' for all other values."""
        names = (*self.values, "other")
        return [(at, names[at]) for at in sorted({int(at or 0) for at in positions})]


class PlotQuery:
    """Runs statements on the rows of a table or SELECT. ``notes`` collects sentences for the user."""

    def __init__(self, database: Database, rows: str | Rows) -> None:
        self._database = database
        if isinstance(rows, str):
            names = [column.name for column in read_relation(database, rows).visible]
            self._rows = Rows(f"SELECT * FROM main.{quote(rows)}", title=rows)
        else:
            check_balance(rows.select, "SELECT")
            self._rows = rows
            names = list(database.execute(f"SELECT * FROM {self} LIMIT 0", dict(rows.args)).columns)
        self._names = {without_comments(name, self._rows.select): name for name in reversed(names)}
        self._bound: dict[str, SqlValue] = {}
        self.notes: list[str] = []

    def __str__(self) -> str:
        return f"({self._rows.select}\n) AS t"

    def bind(self, value: SqlValue) -> str:
        """Add a parameter with a value, and return its name."""
        name = f":pipemagic_{len(self._bound)}"
        self._bound[name] = value
        return name

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, with the values of the parameters in it."""
        return self._database.execute(sql, args_of(sql, {**self._rows.args, **self._bound}) or None).rows

    def column(self, name: str) -> str:
        """Return the SQL of a column. Raise UnknownName with the nearest name."""
        for shown, column in self._names.items():
            if folded(name) in (folded(shown), folded(column)):
                return f"t.{quote(column)}"
        raise UnknownName(f"{self._rows.title} has no column {name!r}", hint=did_you_mean(name, self._names))

    def inspect(self, name: str, *, any_kind: bool = False) -> PlotColumn:
        """Return the kind and range of a column, and note skipped values; with ``any_kind`` skip NULLs only.

        A column with any numbers is of numbers; a column whose texts are all dates is of dates. Raise PlotError if it
        has no values.
        """
        column = self.column(name)
        number, date = _NUMBER.format(column), _DATE.format(column)
        ((*counts, low, high, first, last),) = self.execute(
            f"SELECT count(*), count({column}), total({number}), total(typeof({column}) = 'integer'), "
            f"total(typeof({column}) IN ('text', 'blob')), total({date}), "
            f"min(CASE WHEN {number} THEN {column} END), max(CASE WHEN {number} THEN {column} END), "
            f"min(CASE WHEN {date} THEN julianday({column}) END), max(CASE WHEN {date} THEN julianday({column}) END) "
            f"FROM {self}"
        )
        rows, values, numbers, whole, texts, dates = map(int, counts)
        if not values:
            problem = f"has only NULLs in {name}" if rows else "is empty"
            raise PlotError(f"no values to plot: {self._rows.title} {problem}")
        if values < rows:
            self.notes.append(f"{plural(rows - values, 'NULL')} in {name} skipped.")
        if any_kind or not (numbers or 0 < dates == texts):
            return PlotColumn(name, column, "text")
        if values > (numbers or dates):
            skipped = plural(values - (numbers or dates), "value")
            self.notes.append(f"{skipped} of {name} skipped: not {'finite numbers' if numbers else 'dates'}.")
        if not numbers:
            return PlotColumn(name, column, "date", float(first), float(last))
        if float(high) - float(low) == inf:
            raise PlotError(f"the range of {name} is too large for an axis: {low:g} to {high:g}")
        return PlotColumn(name, column, "number", float(low), float(high), numbers == whole)

    def select(self, x: PlotColumn, y: PlotColumn | None, group: str | None) -> tuple[str, Groups]:
        """Return the subquery of the values to plot, and their groups.

        Its columns are x, y (1 without a column y) and g, the position of the group.
        """
        usable = " AND ".join(column.usable for column in (x, y) if column is not None)
        groups = self._groups(group, usable)
        y_sql = y.sql if y is not None else "1"
        return f"(SELECT {x.sql} AS x, {y_sql} AS y, {groups.sql} AS g FROM {self} WHERE {usable})", groups

    def _groups(self, name: str | None, usable: str) -> Groups:
        """Return the most frequent values of a column."""
        if name is None:
            return Groups("", (), self)
        column = self.column(name)
        counts = self.execute(
            f"SELECT {column}, count(*) FROM {self} WHERE {usable} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {GROUPS + 1}"
        )
        shown = GROUPS - (len(counts) > GROUPS)
        if len(counts) > shown:
            self.notes.append(f"The {shown} largest groups are shown separately, the rest as other.")
        return Groups(column, tuple(value for value, _ in counts[:shown]), self)

    def bins(self, name: str, column: PlotColumn, count: int) -> str:
        """Return the expression of the interval of a value, of ``count`` equal intervals; ``name`` is x or y."""
        width = (column.high - column.low) / count or 1.0
        return f"min({count - 1}, CAST(({name} - {self.bind(column.low)}) / {self.bind(width)} AS INTEGER))"

    def summary(
        self,
        kind: PlotKind,
        label: Label,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        dates: Sequence[str] = (),
        agg: Aggregate = "count",
    ) -> Summary:
        """Return the summary of rows that begin with their group. Columns of ``dates`` hold days."""
        from pandas import DataFrame, Series

        frame = DataFrame(rows, columns=["group", *columns])
        for at, name in enumerate(["group", "x"] if kind == "bar" else ["group"]):
            frame[name] = Series([row[at] for row in rows], dtype=object)  # None stays NULL, 1 stays 1
        for name in dates:
            frame[name] = _timestamps(frame[name])
        groups = tuple(dict.fromkeys(frame["group"])) if label.group is not None else ()
        if label.group is None:
            frame = frame.drop(columns="group")
        return Summary(kind, frame, label, self._rows.title, tuple(self.notes), groups, agg)


def in_order(values: Sequence[SqlValue]) -> Sequence[SqlValue]:
    """Return values of an axis in order if all are numbers, as text too, or all are dates; else unchanged."""
    if all(
        isinstance(value, int | float) or (isinstance(value, str) and _NUMERIC.fullmatch(value)) for value in values
    ):
        return sorted(values, key=lambda value: (float(value or 0), str(value)))
    if all(isinstance(value, str) and _DAY.match(value) for value in values):
        return sorted(values, key=str)
    return values


def _timestamps(days: pd.Series) -> pd.Series:
    """Convert Julian days to timestamps, to the second: a double holds no more of them."""
    from pandas import to_datetime

    return to_datetime(((days.astype(float) - 2440587.5) * 86400).round(), unit="s")
