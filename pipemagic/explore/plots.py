"""Summaries of data for plots, computed by the server: only what is drawn travels, however many rows there are.

Each function takes a database, a table or view (or `Rows` for any SELECT), and names of columns, and gives a `Summary`
whose frame holds what `pipemagic.explore.drawing` draws. What could not be taken (NULLs, text among numbers,
infinities) is left out and counted in its notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, nextafter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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
BARS = 20
GROUPS = 8
POINTS = 400
"""Points of a line at most; where there are more values of x, each point is the mean of an interval."""

SCATTERED = 3000
"""Points of a scatter plot that are drawn one by one; of more, those in one cell of a grid become one."""

GRID = (80, 60)
OUTLIERS = 50

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


def histogram(
    database: Database, rows: str | Rows, x: str, bins: int | None = None, *, group: str | None = None
) -> Summary:
    """Count the values of x in ``bins`` intervals of equal width, as numpy.histogram does: [from, to), the last closed.

    Without ``bins`` there are about 30; whole numbers get intervals whose limits lie between them. Dates as text count
    as dates. The frame has ``from``, ``to``, ``count``, and ``group`` in front if one is asked for. PlotError for text.
    """
    data = _Data(database, rows)
    value = data.values(x)
    if value.kind == "text":
        raise PlotError(f"{x} holds text, which has no intervals", hint=f"plot bar --x {x} counts its values")
    edges = data.edges(value, bins)
    groups = data.groups(group, value)
    cases = " ".join(f"WHEN v < {data.bind(edge)} THEN {place}" for place, edge in enumerate(edges[1:-1]))
    place = f"CASE {cases} ELSE {len(edges) - 2} END" if cases else "0"
    counted = data.ask(
        f"SELECT g, {place} AS b, count(*) FROM (SELECT {value.sql} AS v, {groups.sql} AS g FROM {data} "
        f"WHERE {value.usable}) GROUP BY g, b"
    )
    found = {(int(number), int(bin_)): count for number, bin_, count in counted}
    lines = [
        (name, edges[bin_], edges[bin_ + 1], found.get((number, bin_), 0))
        for number, name in groups.numbered(int(row[0]) for row in counted)
        for bin_ in range(len(edges) - 1)
    ]
    frame = _frame(lines, ["group", "from", "to", "count"], group)
    if value.kind == "date":
        frame["from"], frame["to"] = _timestamps(frame["from"]), _timestamps(frame["to"])
    return data.summary("histogram", frame, Label(x, "rows", group), [value], groups, dates=value.kind == "date")


def box(database: Database, rows: str | Rows, x: str, *, group: str | None = None) -> Summary:
    """Give quartiles (interpolated, as numpy does), whiskers and outliers of x, for each value of ``group``.

    Whiskers end at the last value within 1.5 times the distance of the quartiles. The frame has a row for each box:
    ``count``, ``mean``, ``low``, ``q1``, ``median``, ``q3``, ``high``, ``outliers`` (how many) and ``shown`` (the most
    extreme of them, in order).
    """
    data = _Data(database, rows)
    value = data.values(x)
    if value.kind != "number":
        raise PlotError(f"{x} holds no numbers", hint=f"plot histogram --x {x} takes dates, plot bar --x {x} text")
    groups = data.groups(group, value)
    ranked = (
        f"SELECT g, v, count(*) OVER (PARTITION BY g) AS n, row_number() OVER (PARTITION BY g ORDER BY v) - 1 AS i "
        f"FROM (SELECT {value.sql} AS v, {groups.sql} AS g FROM {data} WHERE {value.usable})"
    )
    picks = ", ".join(
        f"max(CASE WHEN i = min(n - 1, (n - 1) * {quarter} / 4 + {step}) THEN v END)"
        for quarter in (1, 2, 3)
        for step in (0, 1)
    )
    boxes = {
        int(number): (count, mean, *(_between(count, quarter, *parts[2 * quarter - 2 : 2 * quarter])
                                     for quarter in (1, 2, 3)))
        for number, count, mean, *parts in data.ask(
            f"SELECT g, max(n), avg(v), {picks} FROM ({ranked}) GROUP BY g"
        )
    }  # fmt: skip
    fences = {number: (q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)) for number, (_, _, q1, _, q3) in boxes.items()}
    whiskers, outliers = _beyond(data, value, groups, fences)
    lines = []
    for number, name in groups.numbered(boxes):
        count, mean, q1, median, q3 = boxes[number]
        low, high, beyond = whiskers[number]
        lines.append((name, count, mean, low, q1, median, q3, high, beyond, tuple(sorted(outliers.get(number, ())))))
    columns = ["group", "count", "mean", "low", "q1", "median", "q3", "high", "outliers", "shown"]
    return data.summary("box", _frame(lines, columns, group), Label(group or "", x, group), [value], groups)


def _between(count: int, quarter: int, low: float, high: float) -> float:
    """Interpolate between two neighbours in the order, step by step as numpy does it."""
    rest, difference = (count - 1) * quarter % 4 / 4, float(high) - float(low)
    return float(high) - difference * (1 - rest) if rest >= 0.5 else float(low) + difference * rest


def _beyond(
    data: _Data, value: _Values, groups: _Groups, fences: Mapping[int, tuple[float, float]]
) -> tuple[dict[int, tuple[float, float, int]], dict[int, list[float]]]:
    """Give for each group where its whiskers end, how many values are beyond them, and the most extreme of these."""
    if not fences:
        return {}, {}
    listed = ", ".join(f"({number}, {data.bind(low)}, {data.bind(high)})" for number, (low, high) in fences.items())
    inside = (
        f"WITH f(g, lower, upper) AS (VALUES {listed}), d AS (SELECT {value.sql} AS v, {groups.sql} AS g FROM {data} "
        f"WHERE {value.usable})"
    )
    whiskers = data.ask(
        f"{inside} SELECT g, min(CASE WHEN v >= lower THEN v END), max(CASE WHEN v <= upper THEN v END), "
        f"sum(v < lower OR v > upper) FROM d JOIN f USING (g) GROUP BY g"
    )
    shown = data.ask(
        f"{inside}, o AS (SELECT g, v, row_number() OVER (PARTITION BY g ORDER BY max(lower - v, v - upper) DESC, v) "
        f"AS i FROM d JOIN f USING (g) WHERE v < lower OR v > upper) SELECT g, v FROM o WHERE i <= {OUTLIERS}"
    )
    outliers: dict[int, list[float]] = {}
    for number, outlier in shown:
        outliers.setdefault(int(number), []).append(outlier)
    return {int(number): (low, high, int(beyond)) for number, low, high, beyond in whiskers}, outliers


def bar(
    database: Database,
    rows: str | Rows,
    x: str,
    y: str | None = None,
    *,
    bars: int | None = None,
    group: str | None = None,
) -> Summary:
    """Count the rows of each value of x, or sum y over them; beyond the ``bars`` highest (20), all others are one.

    The frame has ``x``, ``value``, and ``group`` in front if one is asked for.
    """
    from pandas import Series

    data, limit = _Data(database, rows), bars or BARS
    category = data.values(x)
    amount = data.values(y) if y is not None else None
    usable = f"{category.there} AND {amount.usable}" if amount is not None else category.there
    sum_of = f"sum({amount.sql})" if amount is not None else "count(*)"
    ranked = data.ask(
        f"SELECT {category.column}, {sum_of} AS amount FROM {data} WHERE {usable} GROUP BY 1 "
        f"ORDER BY abs(amount + 0.0) DESC, 1 LIMIT {limit + 1}"
    )
    top = [name for name, _ in ranked[:limit]]
    kept = _Groups(category.column, tuple(top), more=len(ranked) > limit, data=data)
    groups = data.groups(group, category)
    found = {
        (int(number), int(place)): value
        for number, place, value in data.ask(
            f"SELECT {groups.sql}, {kept.sql}, {sum_of} FROM {data} WHERE {usable} GROUP BY 1, 2"
        )
    }
    lines = [
        (name, "other" if place < 0 else bar_of, found.get((number, place), 0))
        for number, name in groups.numbered(number for number, _ in found)
        for place, bar_of in kept.numbered(place for _, place in found)
    ]
    frame = _frame(lines, ["group", "x", "value"], group)
    frame["x"] = Series([one[1] for one in lines], dtype=object)
    label = Label(x, "rows" if y is None else f"sum of {y}", group)
    used = [category] if amount is None else [category, amount]
    return data.summary("bar", frame, label, used, groups, text_too=True)


def line(
    database: Database, rows: str | Rows, x: str, y: str | None = None, *, group: str | None = None
) -> Summary:  # fmt: skip
    """Give the mean of y (without one, the number of rows) at each x, in order: at most 400 points for each group.

    Where x has more values, numbers and dates are taken together in intervals of equal width. The frame has ``x``,
    ``value``, ``count``, and ``group`` in front if one is asked for.
    """
    data = _Data(database, rows)
    at = data.values(x)
    amount = data.values(y) if y is not None else None
    usable = f"{at.usable} AND {amount.usable}" if amount is not None else at.usable
    groups, mean = data.groups(group, at), f"avg({amount.sql})" if amount is not None else "count(*)"
    ((many,),) = data.ask(
        f"SELECT count(*) FROM (SELECT DISTINCT {at.sql} FROM {data} WHERE {usable} LIMIT {POINTS + 1})"
    )
    notes, step = [], at.sql
    if many > POINTS and at.kind == "text":
        raise PlotError(
            f"{x} has more than {POINTS} different texts", hint=f"plot bar --x {x} shows the most frequent ones"
        )
    if many > POINTS:
        width = (at.high - at.low) / POINTS
        step = f"min({POINTS - 1}, CAST(({at.sql} - {data.bind(at.low)}) / {data.bind(width)} AS INTEGER))"
        notes.append(f"Each point stands for one of {POINTS} intervals of {x}.")
    where = "avg({0})" if at.kind != "text" else "min({0})"
    points = data.ask(
        f"SELECT {groups.sql}, {where.format(at.sql)}, {mean}, count(*), {step} AS s FROM {data} WHERE {usable} "
        f"GROUP BY 1, s ORDER BY 1, s"
    )
    if not notes and amount is not None and any(count > 1 for _, _, _, count, _ in points):
        notes.append(f"Where there are several rows for one {x}, their mean is shown.")
    by_group: dict[int, list[tuple[object, ...]]] = {}
    for number, place, value, count, _ in points:
        by_group.setdefault(int(number), []).append((place, value, count))
    lines = [(name, *point) for number, name in groups.numbered(by_group) for point in by_group[number]]
    frame = _frame(lines, ["group", "x", "value", "count"], group)
    if at.kind == "date":
        frame["x"] = _timestamps(frame["x"])
    label = Label(x, "rows" if y is None else y, group)
    used = [at] if amount is None else [at, amount]
    return data.summary("line", frame, label, used, groups, notes, dates=at.kind == "date", text_too=at.kind == "text")


def scatter(database: Database, rows: str | Rows, x: str, y: str, *, group: str | None = None) -> Summary:
    """Give the points (x, y); of more than 3000, those within one cell of a grid become one at their mean.

    The frame has ``x``, ``y``, ``count``, and ``group`` in front if one is asked for. The same data give the same
    points.
    """
    data = _Data(database, rows)
    across, up = data.values(x), data.values(y)
    for value, name in ((across, x), (up, y)):
        if value.kind == "text":
            raise PlotError(f"{name} holds text, which has no place on an axis", hint="plot bar counts texts")
    groups, usable = data.groups(group, across), f"{across.usable} AND {up.usable}"
    ((many,),) = data.ask(f"SELECT count(*) FROM {data} WHERE {usable}")
    notes = []
    if many <= SCATTERED:
        points = data.ask(f"SELECT {groups.sql}, {across.sql}, {up.sql}, 1 FROM {data} WHERE {usable} ORDER BY 1, 2, 3")
    else:
        cells = [
            f"min({count - 1}, CAST(({value.sql} - {data.bind(value.low)}) / {data.bind(width)} AS INTEGER))"
            for value, count in ((across, GRID[0]), (up, GRID[1]))
            if (width := (value.high - value.low) / count or 1.0)
        ]
        points = data.ask(
            f"SELECT {groups.sql}, avg({across.sql}), avg({up.sql}), count(*) FROM {data} WHERE {usable} "
            f"GROUP BY 1, {cells[0]}, {cells[1]} ORDER BY 1, 2, 3"
        )
        notes.append(f"{many:,} rows are drawn as {len(points):,} points, larger where they stand for more.")
    names = dict(groups.numbered(int(point[0]) for point in points))
    frame = _frame([(names[int(number)], *rest) for number, *rest in points], ["group", "x", "y", "count"], group)
    for value, column in ((across, "x"), (up, "y")):
        if value.kind == "date":
            frame[column] = _timestamps(frame[column])
    dates = across.kind == "date"
    return data.summary("scatter", frame, Label(x, y, group), [across, up], groups, notes, dates=dates)


@dataclass(frozen=True)
class _Values:
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
        """Say what was left out."""
        said = []
        if self.nulls:
            said.append(f"{self.nulls:,} NULL{'' if self.nulls == 1 else 's'} in {self.name} left out.")
        other = self.rows - self.nulls - self.taken
        if other and not text_too:
            what = "dates" if self.kind == "date" else "finite numbers"
            said.append(f"{other:,} value{'' if other == 1 else 's'} of {self.name} that are no {what} left out.")
        return said


@dataclass(frozen=True)
class _Groups:
    """The values that are told apart: the most frequent ones by their places, all others as -1."""

    column: str
    values: tuple[SqlValue, ...]
    more: bool
    data: _Data

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


class _Data:
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

    def values(self, name: str) -> _Values:
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
            return _Values(name, column, "number", total, empty, counts[0], counts[0] == counts[1], *limits)
        if counts[3] and counts[2] == counts[3]:
            limits = float(first), float(last)
            return _Values(name, column, "date", total, empty, counts[3], False, *limits)
        return _Values(name, column, "text", total, empty, total - empty, False, 0.0, 0.0)

    def edges(self, value: _Values, bins: int | None) -> list[float]:
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

    def groups(self, name: str | None, value: _Values) -> _Groups:
        """Look which values of a column are the most frequent ones."""
        if name is None:
            return _Groups("", (), more=False, data=self)
        column = self.column(name)
        found = self.ask(
            f"SELECT {column}, count(*) FROM {self} WHERE {value.usable} GROUP BY 1 ORDER BY 2 DESC, 1 "
            f"LIMIT {GROUPS + 1}"
        )
        more = len(found) > GROUPS
        return _Groups(column, tuple(one for one, _ in found[: GROUPS - more]), more=more, data=self)

    def summary(
        self,
        kind: Kind,
        frame: pd.DataFrame,
        label: Label,
        used: Sequence[_Values],
        groups: _Groups,
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


def _frame(lines: Sequence[tuple[object, ...]], columns: list[str], group: str | None) -> pd.DataFrame:
    from pandas import DataFrame, Series

    frame = DataFrame(lines, columns=columns)
    frame["group"] = Series([one[0] for one in lines], dtype=object)  # None stays NULL, 1 stays 1
    return frame if group is not None else frame.drop(columns="group")


def _timestamps(days: pd.Series) -> pd.Series:
    """Turn days of the Julian calendar into times, to the second: a double holds no more of them."""
    from pandas import to_datetime

    return to_datetime(((days.astype(float) - 2440587.5) * 86400).round(), unit="s")
