"""What a plot is made of: rows of a table or a SELECT, the values of their columns, groups, and the summary of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, nextafter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pipemagic.counts import plural
from pipemagic.errors import PlotError, UnknownName
from pipemagic.explore.names import near
from pipemagic.explore.schema import folded, read_relation
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import quote

if TYPE_CHECKING:
    import pandas as pd

    from pipemagic.client.database import Database

Kind = Literal["histogram", "box", "bar", "line", "scatter"]

BINS = 30
GROUPS = 8

_DATE = "{0} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' AND julianday({0}) IS NOT NULL"
_NUMBER = "typeof({0}) IN ('integer', 'real') AND {0} > -9e999 AND {0} < 9e999"  # abs() overflows at the least integer


@dataclass(frozen=True)
class Rows:
    """What is plotted: a SELECT, with the values of its parameters, and what it is called."""

    select: str
    args: Mapping[str, SqlValue] = field(default_factory=dict)
    title: str = "query"


class Label(NamedTuple):
    """The names at the axes of a plot."""

    x: str
    y: str
    group: str | None = None


@dataclass(frozen=True, eq=False)
class Summary:
    """What is drawn. ``dates`` tells that x (of a box plot: the values) are dates; ``groups`` is in drawing order."""

    kind: Kind
    frame: pd.DataFrame
    label: Label
    title: str
    notes: tuple[str, ...] = ()
    dates: bool = False
    groups: tuple[SqlValue | str, ...] = ()


@dataclass(frozen=True)
class Values:
    """A column: what its values are, how many cannot be taken, between which limits the others are."""

    name: str
    column: str
    kind: Literal["number", "date", "text"]
    rows: int
    nulls: int
    taken: int
    whole: bool
    low: float
    high: float

    @property
    def sql(self) -> str:
        """The expression of a value as it is drawn: dates as days."""
        return f"julianday({self.column})" if self.kind == "date" else self.column

    @property
    def there(self) -> str:
        """The condition that there is a value."""
        return f"{self.column} IS NOT NULL"

    @property
    def usable(self) -> str:
        """The condition that a value can be drawn."""
        made = {"number": _NUMBER, "date": _DATE, "text": "{0} IS NOT NULL"}[self.kind]
        return f"({made.format(self.column)})"

    def notes(self, *, text_too: bool = False) -> list[str]:
        """Return a sentence for each kind of value that was left out."""
        said = []
        if self.nulls:
            said.append(f"{plural(self.nulls, 'NULL')} in {self.name} left out.")
        other = self.rows - self.nulls - self.taken
        if other and not text_too:
            what = "dates" if self.kind == "date" else "finite numbers"
            said.append(f"{plural(other, 'value')} of {self.name} that are not {what} left out.")
        return said


@dataclass(frozen=True)
class Groups:
    """The values that are told apart: the most frequent ones by their places, all others as -1."""

    column: str
    values: tuple[SqlValue, ...]
    more: bool
    data: Data

    @cached_property
    def sql(self) -> str:
        """The expression that gives the place of a row's value."""
        if not self.values:
            return "0"
        cases = " ".join(f"WHEN {self.column} IS {self.data.bind(one)} THEN {at}" for at, one in enumerate(self.values))
        return f"CASE {cases} ELSE -1 END"

    def numbered(self, found: Iterable[int]) -> list[tuple[int, SqlValue | str]]:
        """Give the places that are among those ``found``, each with its name, the others last."""
        met = {int(one) for one in found}
        named: list[tuple[int, SqlValue | str]] = [
            (at, one) for at, one in enumerate(self.values or (None,)) if at in met
        ]
        return [*named, (-1, "other")] if -1 in met else named


class Data:
    """The rows that are summarised: asks the database, and keeps the values that go along."""

    def __init__(self, database: Database, rows: str | Rows) -> None:
        self._database = database
        if isinstance(rows, str):
            self.columns = [column.name for column in read_relation(database, rows).visible]
            self._rows = Rows(f"SELECT * FROM main.{quote(rows)}", title=rows)
        else:
            self._rows = rows
            self.columns = list(database.execute(f"SELECT * FROM {self} LIMIT 0", dict(rows.args)).columns)
        self._bound: dict[str, SqlValue] = {}

    def __str__(self) -> str:
        return f"({self._rows.select}\n) AS t"

    def bind(self, value: SqlValue) -> str:
        """Send a value along; gives its place in the SQL."""
        name = f"pipemagic_{len(self._bound)}"
        self._bound[name] = value
        return f":{name}"

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask with the values that the statement names."""
        bound = {name: value for name, value in self._bound.items() if _names(sql, name)}
        args = {**self._rows.args, **bound}
        return self._database.execute(sql, args or None).rows

    def column(self, name: str) -> str:
        """Give a column for SQL; UnknownName with the nearest one."""
        for column in self.columns:
            if folded(column) == folded(name):
                return f"t.{quote(column)}"
        raise UnknownName(f"{self._rows.title} has no column {name!r}", hint=near(name, self.columns))

    def values(self, name: str) -> Values:
        """Look at a column; numbers count before dates, and these before text. PlotError if there is nothing in it."""
        column = self.column(name)
        number, date = _NUMBER.format(column), _DATE.format(column)
        ((rows, nulls, numbers, whole, low, high, texts, dates, first, last),) = self.ask(
            f"SELECT count(*), total({column} IS NULL), total({number}), total(typeof({column}) = 'integer'), "
            f"min(CASE WHEN {number} THEN {column} END), max(CASE WHEN {number} THEN {column} END), "
            f"total(typeof({column}) IN ('text', 'blob')), total({date}), "
            f"min(CASE WHEN {date} THEN julianday({column}) END), max(CASE WHEN {date} THEN julianday({column}) END) "
            f"FROM {self}"
        )  # fmt: skip
        total, empty = int(rows), int(nulls)
        counts = [int(one) for one in (numbers, whole, texts, dates)]
        if total == empty:
            what = "is empty" if not total else f"has only NULLs in {name}"
            raise PlotError(f"there is nothing to draw: {self._rows.title} {what}")
        if counts[0]:
            limits = float(low), float(high)
            if limits[1] - limits[0] == inf:
                raise PlotError(f"the values of {name} are too far apart for an axis: from {low:g} to {high:g}")
            return Values(name, column, "number", total, empty, counts[0], counts[0] == counts[1], *limits)
        if counts[3] and counts[2] == counts[3]:
            limits = float(first), float(last)
            return Values(name, column, "date", total, empty, counts[3], False, *limits)
        return Values(name, column, "text", total, empty, total - empty, False, 0.0, 0.0)

    def edges(self, value: Values, bins: int | None) -> list[float]:
        """Give the limits of the intervals: those of numpy, or, if no number was asked for, between whole numbers."""
        import numpy as np

        low, high = value.low, value.high
        if bins is None and value.whole and max(-low, high) < 2**50:  # of larger ones a double holds no halves
            width = -(-int(high - low + 1) // BINS) if high - low >= 2 * BINS else 1
            count = -(-int(high - low + 1) // width)
            return [low - 0.5 + width * number for number in range(count + 1)]
        count = bins or BINS
        while True:
            try:
                found: list[float] = np.histogram_bin_edges([low, high], count).tolist()
                return found
            except ValueError:  # between the two there are not so many numbers
                if bins is not None:
                    raise PlotError(
                        f"the values of {value.name} are too close together for {bins} intervals",
                        hint="fewer --bins, or leave it out",
                    ) from None
            if count == 1:
                return [nextafter(low, -inf), nextafter(high, inf)]
            count //= 2

    def groups(self, name: str | None, value: Values) -> Groups:
        """Look which values of a column are the most frequent ones."""
        if name is None:
            return Groups("", (), more=False, data=self)
        column = self.column(name)
        found = self.ask(
            f"SELECT {column}, count(*) FROM {self} WHERE {value.usable} GROUP BY 1 ORDER BY 2 DESC, 1 "
            f"LIMIT {GROUPS + 1}"
        )
        more = len(found) > GROUPS
        return Groups(column, tuple(one for one, _ in found[: GROUPS - more]), more=more, data=self)

    def summary(
        self,
        kind: Kind,
        frame: pd.DataFrame,
        label: Label,
        used: Sequence[Values],
        groups: Groups,
        notes: Sequence[str] = (),
        *,
        dates: bool = False,
        text_too: bool = False,
    ) -> Summary:
        """Put together what was found."""
        left_out = [note for place, value in enumerate(used) for note in value.notes(text_too=text_too and not place)]
        met = set(frame["group"]) if "group" in frame else set()
        names = tuple(name for name in (*groups.values, *(["other"] if groups.more else [])) if name in met)
        more = [f"Only the {len(groups.values)} largest groups are told apart."] if groups.more else []
        return Summary(kind, frame, label, self._rows.title, (*left_out, *notes, *more), dates, names)


def _names(sql: str, name: str) -> bool:
    """Tell whether a statement names a value: not only one whose name begins like it."""
    start = sql.find(f":{name}")
    while start >= 0:
        end = start + len(name) + 1
        if not sql[end : end + 1].isdigit():
            return True
        start = sql.find(f":{name}", end)
    return False


def frame_of(lines: Sequence[tuple[object, ...]], columns: list[str], group: str | None) -> pd.DataFrame:
    """Give the frame of a summary; its groups stay the objects they are."""
    from pandas import DataFrame, Series

    frame = DataFrame(lines, columns=columns)
    frame["group"] = Series([one[0] for one in lines], dtype=object)  # None stays NULL, 1 stays 1
    return frame if group is not None else frame.drop(columns="group")


def timestamps(days: pd.Series) -> pd.Series:
    """Turn days of the Julian calendar into times, to the second: a double holds no more of them."""
    from pandas import to_datetime

    return to_datetime(((days.astype(float) - 2440587.5) * 86400).round(), unit="s")
