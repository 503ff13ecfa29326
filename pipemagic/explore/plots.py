"""Summaries of data for plots, computed by the server: only the values to draw are sent, for any number of rows.

Each function takes a database, a table or view (or `Rows` for any SELECT), and names of columns. It returns a
`Summary`, which `pipemagic.explore.drawing` draws. Values that cannot be plotted (NULLs, text among numbers,
infinities) are skipped and counted in its notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipemagic.errors import PlotError
from pipemagic.explore.plot_query import (
    ADDITIVE,
    NAMES,
    Aggregate,
    Groups,
    Label,
    PlotColumn,
    PlotQuery,
    Rows,
    Summary,
    in_order,
)

if TYPE_CHECKING:
    from pipemagic.client.database import Database

BARS = 20
POINTS = 400
"""Maximum number of points of a line; with more values of x, each point is one of an interval."""

SCATTERED = 3000
"""Maximum number of points that a scatter plot draws singly; of more, those in one cell of a grid become one."""

GRID = (80, 60)

OUTLIERS = 50
"""Maximum number of outliers drawn for a box."""


def histogram(
    database: Database, rows: str | Rows, x: str, bins: int | None = None, *, group: str | None = None
) -> Summary:
    """Count the values of x in ``bins`` intervals of equal width, as numpy.histogram does: [from, to), the last closed.

    The default is about 30 intervals; for integers their edges are between integers. Text columns of dates are
    treated as dates. The frame has ``from``, ``to``, ``count``, and first ``group`` if requested. Raise PlotError for
    text.
    """
    query = PlotQuery(database, rows)
    value = query.inspect(x)
    if value.kind == "text":
        raise PlotError(f"{x} is text and has no intervals", hint=f"plot bar --x {x} counts its values")
    edges, (values, groups) = value.edges(bins), query.select(value, None, group)
    cases = " ".join(f"WHEN x < {query.bind(edge)} THEN {at}" for at, edge in enumerate(edges[1:-1]))
    interval = f"CASE {cases} ELSE {len(edges) - 2} END" if cases else "0"
    cells = query.execute(f"SELECT g, {interval} AS b, count(*) FROM {values} GROUP BY g, b")
    counts = {(int(at), int(b)): count for at, b, count in cells}
    lines = [
        (name, edges[b], edges[b + 1], counts.get((at, b), 0))
        for at, name in groups.named(row[0] for row in cells)
        for b in range(len(edges) - 1)
    ]
    dates = ["from", "to"] if value.kind == "date" else []
    return query.summary("histogram", Label(x, "rows", group), ["from", "to", "count"], lines, dates)


def box(database: Database, rows: str | Rows, x: str, *, group: str | None = None) -> Summary:
    """Compute quartiles (interpolated, as numpy does), whiskers and outliers of x for each value of ``group``.

    Whiskers end at the last value within 1.5 times the interquartile range. The frame has a row for each box:
    ``count``, ``mean``, ``low``, ``q1``, ``median``, ``q3``, ``high``, ``outliers`` (their number) and ``shown``: the
    outliers in order, or 50 evenly spaced ones including the first and the last. A note counts the omitted ones.
    """
    query = PlotQuery(database, rows)
    value = query.inspect(x)
    if value.kind != "number":
        raise PlotError(f"{x} has no numbers", hint=f"plot histogram --x {x} takes dates, plot bar --x {x} text")
    values, groups = query.select(value, None, group)
    picks = ", ".join(
        f"max(CASE WHEN i = min(n - 1, (n - 1) * {quarter} / 4 + {step}) THEN x END)"
        for quarter in (1, 2, 3)
        for step in (0, 1)
    )
    boxes = {}
    for at, count, mean, *parts in query.execute(
        f"SELECT g, max(n), avg(x), {picks} FROM (SELECT g, x, count(*) OVER (PARTITION BY g) AS n, "
        f"row_number() OVER (PARTITION BY g ORDER BY x) - 1 AS i FROM {values}) GROUP BY g"
    ):
        quartiles = [_interpolate(count, quarter, *parts[2 * quarter - 2 : 2 * quarter]) for quarter in (1, 2, 3)]
        boxes[int(at)] = count, mean, *quartiles
    fences = {at: (q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)) for at, (_, _, q1, _, q3) in boxes.items()}
    whiskers, outliers = _whiskers(query, values, fences)
    lines = []
    for at, name in groups.named(boxes):
        count, mean, q1, median, q3 = boxes[at]
        low, high, beyond = whiskers[at]
        lines.append((name, count, mean, low, q1, median, q3, high, beyond, tuple(sorted(outliers.get(at, ())))))
    drawn, total = sum(map(len, outliers.values())), sum(beyond for _, _, beyond in whiskers.values())
    if drawn < total:
        query.notes.append(f"{drawn:,} of {total:,} outliers drawn.")
    columns = ["count", "mean", "low", "q1", "median", "q3", "high", "outliers", "shown"]
    return query.summary("box", Label(group or "", x, group), columns, lines)


def _interpolate(count: int, quarter: int, low: float, high: float) -> float:
    """Return the quartile between two neighbours in the order, rounded as by numpy."""
    rest, difference = (count - 1) * quarter % 4 / 4, float(high) - float(low)
    return float(high) - difference * (1 - rest) if rest >= 0.5 else float(low) + difference * rest


def _whiskers(
    query: PlotQuery, values: str, fences: Mapping[int, tuple[float, float]]
) -> tuple[dict[int, tuple[float, float, int]], dict[int, list[float]]]:
    """Return the ends of the whiskers and the number of outliers of each group, and the outliers to draw."""
    listed = ", ".join(f"({at}, {query.bind(low)}, {query.bind(high)})" for at, (low, high) in fences.items())
    inside = f"WITH f(g, lower, upper) AS (VALUES {listed}), d AS (SELECT * FROM {values} JOIN f USING (g))"
    whiskers = query.execute(
        f"{inside} SELECT g, min(CASE WHEN x >= lower THEN x END), max(CASE WHEN x <= upper THEN x END), "
        f"sum(x < lower OR x > upper) FROM d GROUP BY g"
    )
    shown = query.execute(
        f"{inside}, o AS (SELECT g, x, count(*) OVER (PARTITION BY g) - 1 AS last, "
        f"row_number() OVER (PARTITION BY g ORDER BY x) - 1 AS i FROM d WHERE x < lower OR x > upper) "
        f"SELECT g, x FROM o WHERE last < {OUTLIERS} OR i = 0 "
        f"OR i * {OUTLIERS - 1} / last > (i - 1) * {OUTLIERS - 1} / last"
    )
    outliers: dict[int, list[float]] = {}
    for at, outlier in shown:
        outliers.setdefault(int(at), []).append(outlier)
    return {int(at): (low, high, int(beyond)) for at, low, high, beyond in whiskers}, outliers


def bar(
    database: Database,
    rows: str | Rows,
    x: str,
    y: str | None = None,
    *,
    agg: Aggregate | None = None,
    bars: int | None = None,
    group: str | None = None,
) -> Summary:
    """Compute an aggregate of y for each value of x; without y count the rows. The default with y is the sum.

    Only the ``bars`` highest (20) are separate; the rows of all other values of x are combined as 'other'. Numbers and
    dates of x are in order, other values by height. The frame has ``x``, ``value`` (NaN for a mean, median, min or max
    of no rows), and first ``group`` if requested. Raise PlotError if y has no numbers and is not counted.
    """
    query, limit, agg = PlotQuery(database, rows), bars or BARS, _checked(agg, y, "sum")
    category = query.inspect(x, any_kind=True)
    values, groups = query.select(category, _inspect_amount(query, y, agg), group)
    ranked = query.execute(
        f"SELECT x, {_SQL[agg]} AS amount FROM {_ranked(values, agg, 'x')} GROUP BY x "
        f"ORDER BY abs(amount + 0.0) DESC, 1 LIMIT {limit}"
    )
    names = Groups("x", tuple(in_order([name for name, _ in ranked])), query)
    totals = query.execute(
        f"SELECT g, {names.sql} AS b, {_SQL[agg]} FROM {_ranked(values, agg, 'g', names.sql)} GROUP BY g, b"
    )
    amounts = {(int(at), int(bar)): value for at, bar, value in totals}
    of_no_rows = 0 if agg in ADDITIVE else None
    lines = [
        (name, bar_name, amounts.get((at, bar), of_no_rows))
        for at, name in groups.named(row[0] for row in totals)
        for bar, bar_name in names.named(row[1] for row in totals)
    ]
    return query.summary("bar", Label(x, _amount(agg, y), group), ["x", "value"], lines, agg=agg)


def line(
    database: Database,
    rows: str | Rows,
    x: str,
    y: str | None = None,
    *,
    agg: Aggregate | None = None,
    group: str | None = None,
) -> Summary:
    """Compute an aggregate of y at each x, in order; without y count the rows. The default with y is the mean.

    There are at most 400 points for each group: if x has more values, numbers and dates are combined in intervals of
    equal width. The frame has ``x``, ``value``, ``count``, and first ``group`` if requested. Raise PlotError if y has
    no numbers and is not counted.
    """
    query, agg = PlotQuery(database, rows), _checked(agg, y, "mean")
    at = query.inspect(x)
    values, groups = query.select(at, _inspect_amount(query, y, agg), group)
    ((many,),) = query.execute(f"SELECT count(*) FROM (SELECT DISTINCT x FROM {values} LIMIT {POINTS + 1})")
    step = "x"
    if many > POINTS:
        if at.kind == "text":
            hint = f"plot bar --x {x} shows the most frequent ones"
            raise PlotError(f"{x} has more than {POINTS} different text values", hint=hint)
        step = query.bins("x", at, POINTS)
        query.notes.append(f"Each point is one of {POINTS} intervals of {x}.")
    x_value = "min" if at.kind == "text" else "avg"
    points = query.execute(
        f"SELECT g, {x_value}(x), {_SQL[agg]}, count(*), {step} AS s FROM {_ranked(values, agg, 'g', step)} "
        "GROUP BY g, s ORDER BY g, s"
    )
    if many <= POINTS and agg != "count" and any(count > 1 for *_, count, _ in points):
        query.notes.append(f"Each point is the {NAMES[agg]} of the rows with the same {x}.")
    if at.kind == "text":
        texts = in_order(sorted({row[1] for row in points}, key=str))
        points.sort(key=lambda row: (row[0], texts.index(row[1])))
    names = dict(groups.named(row[0] for row in points))
    lines = [(names[int(row[0])], *row[1:4]) for row in points]
    label, dates = Label(x, _amount(agg, y), group), ["x"] if at.kind == "date" else []
    return query.summary("line", label, ["x", "value", "count"], lines, dates, agg=agg)


# -- aggregates of y

# The two middle values of the rows that `_ranked` numbers, which are one value if their number is odd.
_LOWER, _UPPER = "min(iif(i >= (n + 1) / 2, y, NULL))", "max(iif(i <= (n + 2) / 2, y, NULL))"

_SQL: dict[Aggregate, str] = {
    "mean": "avg(y)", "sum": "sum(y)", "count": "count(*)", "median": f"{_LOWER} + ({_UPPER} - {_LOWER}) / 2.0",
    "min": "min(y)", "max": "max(y)",
}  # fmt: skip


def _checked(agg: Aggregate | None, y: str | None, default: Aggregate) -> Aggregate:
    """Return the aggregate, by default that of the plot with y; raise PlotError if it requires y."""
    if y is None and agg not in (None, "count"):
        raise PlotError(f"the {NAMES[agg]} requires y", hint="without y, rows are counted")
    return agg or ("count" if y is None else default)


def _inspect_amount(query: PlotQuery, y: str | None, agg: Aggregate) -> PlotColumn | None:
    """Return the column to aggregate, None without one."""
    if y is None:
        return None
    column = query.inspect(y, any_kind=agg == "count")
    if agg != "count" and column.kind != "number":
        raise PlotError(f"{y} has no numbers", hint="--agg count counts its values (in Python: agg='count')")
    return column


def _ranked(values: str, agg: Aggregate, *keys: str) -> str:
    """Return the subquery of the values; for a median, with the rank and the number of the rows of equal ``keys``."""
    if agg != "median":
        return values
    part = f"PARTITION BY {', '.join(keys)}"
    return f"(SELECT *, row_number() OVER ({part} ORDER BY y) AS i, count(*) OVER ({part}) AS n FROM {values})"


def _amount(agg: Aggregate, y: str | None) -> str:
    """Return the label of an axis of aggregates."""
    return "rows" if y is None else f"{NAMES[agg]} of {y}"


def scatter(database: Database, rows: str | Rows, x: str, y: str, *, group: str | None = None) -> Summary:
    """Return the points (x, y); of more than 3000, those within one cell of a grid become one at their mean.

    The frame has ``x``, ``y``, ``count``, and first ``group`` if requested. The same data give the same points.
    """
    query = PlotQuery(database, rows)
    across, up = query.inspect(x), query.inspect(y)
    for column in (across, up):
        if column.kind == "text":
            raise PlotError(f"{column.name} is text, not numbers or dates", hint="plot bar counts text values")
    values, groups = query.select(across, up, group)
    ((many,),) = query.execute(f"SELECT count(*) FROM {values}")
    if many <= SCATTERED:
        points = query.execute(f"SELECT g, x, y, 1 FROM {values} ORDER BY g, x, y")
    else:
        cell = f"{query.bins('x', across, GRID[0])}, {query.bins('y', up, GRID[1])}"
        points = query.execute(
            f"SELECT g, avg(x), avg(y), count(*) FROM {values} GROUP BY g, {cell} ORDER BY g, avg(x), avg(y)"
        )
        query.notes.append(f"{many:,} rows drawn as {len(points):,} points, larger for more rows.")
    names = dict(groups.named(row[0] for row in points))
    lines = [(names[int(at)], *rest) for at, *rest in points]
    dates = [name for name, column in (("x", across), ("y", up)) if column.kind == "date"]
    return query.summary("scatter", Label(x, y, group), ["x", "y", "count"], lines, dates)
