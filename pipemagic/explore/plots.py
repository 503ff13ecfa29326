"""Summaries of data for plots, computed by the server: only what is drawn travels, however many rows there are.

Each function takes a database, a table or view (or `Rows` for any SELECT), and names of columns, and gives a `Summary`
whose frame holds what `pipemagic.explore.drawing` draws. What could not be taken (NULLs, text among numbers,
infinities) is left out and counted in its notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipemagic.errors import PlotError
from pipemagic.explore.plotted import Data, Groups, Label, Rows, Summary, Values, frame_of, timestamps

if TYPE_CHECKING:
    from pipemagic.client.database import Database

BARS = 20
POINTS = 400
"""Points of a line at most; where there are more values of x, each point is the mean of an interval."""

SCATTERED = 3000
"""Points of a scatter plot that are drawn one by one; of more, those in one cell of a grid become one."""

GRID = (80, 60)

OUTLIERS = 50
"""Outliers of a box that are drawn at most."""


def histogram(
    database: Database, rows: str | Rows, x: str, bins: int | None = None, *, group: str | None = None
) -> Summary:
    """Count the values of x in ``bins`` intervals of equal width, as numpy.histogram does: [from, to), the last closed.

    Without ``bins`` there are about 30; whole numbers get intervals whose limits lie between them. Dates as text count
    as dates. The frame has ``from``, ``to``, ``count``, and ``group`` in front if one is asked for. PlotError for text.
    """
    data = Data(database, rows)
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
    frame = frame_of(lines, ["group", "from", "to", "count"], group)
    if value.kind == "date":
        frame["from"], frame["to"] = timestamps(frame["from"]), timestamps(frame["to"])
    return data.summary("histogram", frame, Label(x, "rows", group), [value], groups, dates=value.kind == "date")


def box(database: Database, rows: str | Rows, x: str, *, group: str | None = None) -> Summary:
    """Give quartiles (interpolated, as numpy does), whiskers and outliers of x, for each value of ``group``.

    Whiskers end at the last value within 1.5 times the distance of the quartiles. The frame has a row for each box:
    ``count``, ``mean``, ``low``, ``q1``, ``median``, ``q3``, ``high``, ``outliers`` (how many) and ``shown``: these in
    order, or 50 of them at equal distances in the order, the first and the last included. A note counts what is left
    out.
    """
    data = Data(database, rows)
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
    drawn, total = sum(map(len, outliers.values())), sum(beyond for _, _, beyond in whiskers.values())
    notes = [f"{drawn:,} of {total:,} outliers drawn."] if drawn < total else []
    return data.summary("box", frame_of(lines, columns, group), Label(group or "", x, group), [value], groups, notes)


def _between(count: int, quarter: int, low: float, high: float) -> float:
    """Interpolate between two neighbours in the order, step by step as numpy does it."""
    rest, difference = (count - 1) * quarter % 4 / 4, float(high) - float(low)
    return float(high) - difference * (1 - rest) if rest >= 0.5 else float(low) + difference * rest


def _beyond(
    data: Data, value: Values, groups: Groups, fences: Mapping[int, tuple[float, float]]
) -> tuple[dict[int, tuple[float, float, int]], dict[int, list[float]]]:
    """Return for each group where its whiskers end, how many values are beyond them, and which of these are drawn."""
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
        f"{inside}, o AS (SELECT g, v, count(*) OVER (PARTITION BY g) - 1 AS last, "
        f"row_number() OVER (PARTITION BY g ORDER BY v) - 1 AS i FROM d JOIN f USING (g) WHERE v < lower OR v > upper) "
        f"SELECT g, v FROM o WHERE last < {OUTLIERS} OR i = 0 "
        f"OR i * {OUTLIERS - 1} / last > (i - 1) * {OUTLIERS - 1} / last"
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

    data, limit = Data(database, rows), bars or BARS
    category = data.values(x)
    amount = data.values(y) if y is not None else None
    usable = f"{category.there} AND {amount.usable}" if amount is not None else category.there
    sum_of = f"sum({amount.sql})" if amount is not None else "count(*)"
    ranked = data.ask(
        f"SELECT {category.column}, {sum_of} AS amount FROM {data} WHERE {usable} GROUP BY 1 "
        f"ORDER BY abs(amount + 0.0) DESC, 1 LIMIT {limit + 1}"
    )
    top = [name for name, _ in ranked[:limit]]
    kept = Groups(category.column, tuple(top), more=len(ranked) > limit, data=data)
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
    frame = frame_of(lines, ["group", "x", "value"], group)
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
    data = Data(database, rows)
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
    frame = frame_of(lines, ["group", "x", "value", "count"], group)
    if at.kind == "date":
        frame["x"] = timestamps(frame["x"])
    label = Label(x, "rows" if y is None else y, group)
    used = [at] if amount is None else [at, amount]
    return data.summary("line", frame, label, used, groups, notes, dates=at.kind == "date", text_too=at.kind == "text")


def scatter(database: Database, rows: str | Rows, x: str, y: str, *, group: str | None = None) -> Summary:
    """Give the points (x, y); of more than 3000, those within one cell of a grid become one at their mean.

    The frame has ``x``, ``y``, ``count``, and ``group`` in front if one is asked for. The same data give the same
    points.
    """
    data = Data(database, rows)
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
    frame = frame_of([(names[int(number)], *rest) for number, *rest in points], ["group", "x", "y", "count"], group)
    for value, column in ((across, "x"), (up, "y")):
        if value.kind == "date":
            frame[column] = timestamps(frame[column])
    dates = across.kind == "date"
    return data.summary("scatter", frame, Label(x, y, group), [across, up], groups, notes, dates=dates)
