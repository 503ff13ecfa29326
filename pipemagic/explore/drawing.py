"""Plots of summaries with pandas and matplotlib. matplotlib is an optional dependency, imported only here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from pipemagic.errors import UnsupportedError
from pipemagic.explore.plot_query import ADDITIVE, in_order
from pipemagic.text import escape_controls, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from pipemagic.explore.plot_query import Summary

LABEL = 40
"""Maximum number of characters of a label."""

FEW_POINTS = 60
"""Maximum number of points of a line that get markers."""

_FILE_BACKENDS = ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")
"""Backends of matplotlib that write files and show no windows."""

UPRIGHT = 6
"""Bars are horizontal if there are more than these, or if their names are long, so that the names are readable."""


def draw(summary: Summary, ax: Axes | None = None) -> Axes:
    """Draw a summary, by default on a new figure, and return its axes. Raise UnsupportedError without matplotlib."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise UnsupportedError(
            "plots require matplotlib, which is not installed",
            hint="%pip install matplotlib; explore.plots.histogram(...).frame has the values without a plot",
        ) from None
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    x, y = label(summary.label.x), label(summary.label.y)
    if _KINDS[summary.kind](ax, summary) == "horizontal":
        x, y = y, x
    ax.set(title=label(summary.title), xlabel=x, ylabel=y)
    _format_axis(ax.xaxis)
    _format_axis(ax.yaxis)
    if summary.label.group is not None and summary.kind != "box":
        ax.legend(title=label(summary.label.group), loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax


def is_shown(axes: Axes) -> bool:
    """Return True if a window or a widget shows the figure; otherwise close it, so that the cell does not show it."""
    import matplotlib.pyplot as plt

    backend = plt.get_backend().lower()
    shown = "inline" not in backend and backend not in _FILE_BACKENDS
    if not shown:
        plt.close(cast("Figure", axes.figure))
    return shown


def label(value: object) -> str:
    """Return a name or value as a label: short, on one line, with dollar signs escaped for matplotlib."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        value = f"x'{value.hex()}'"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return shorten(escape_controls(str(value)), LABEL).replace("$", r"\$")


def _format_axis(axis: Any) -> None:
    """Format dates concisely and large numbers with thousands separators; names of categories stay as they are."""
    from matplotlib.dates import AutoDateFormatter, AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import FuncFormatter, ScalarFormatter

    if isinstance(axis.get_major_formatter(), AutoDateFormatter):
        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    elif isinstance(axis.get_major_formatter(), ScalarFormatter):

        def text(number: float, _: int | None) -> str:
            separator = "," if max(map(abs, axis.get_view_interval())) >= 10_000 else ""  # the year 2005 is not 2,005
            return f"{number:{separator}.10g}"

        axis.set_major_formatter(FuncFormatter(text))


def _groups(summary: Summary) -> Iterator[tuple[dict[str, Any], DataFrame]]:
    """Yield the label and colour of each group, and its rows. Combined groups are grey."""
    if summary.label.group is None:
        yield {"label": "", "color": "C0"}, summary.frame
    for at, value in enumerate(summary.groups):
        is_rest = value == "other" and at == len(summary.groups) - 1
        rows = summary.frame["group"].map(lambda member, value=value: member is value or member == value)
        yield {"label": label(value), "color": "#a0a0a0" if is_rest else f"C{at}"}, summary.frame[rows]


def _wide(summary: Summary, column: str) -> tuple[DataFrame, list[str]]:
    """Return a column of the summary with one column for each group, and the colours of the groups."""
    from pandas import concat

    groups = list(_groups(summary))
    wide = concat([frame[column].astype(float).reset_index(drop=True) for _, frame in groups], axis=1)
    wide.columns = [style["label"] for style, _ in groups]
    return wide, [style["color"] for style, _ in groups]


def _histogram(ax: Axes, summary: Summary) -> None:
    counts, colours = _wide(summary, "count")
    intervals = summary.frame.head(len(counts))
    starts = intervals["from"].to_numpy()
    ax.hist(
        [starts] * len(colours), [*starts, intervals["to"].iloc[-1]], weights=list(counts.to_numpy().T), stacked=True,
        color=colours, label=list(counts.columns), edgecolor="white", linewidth=0.5,
    )  # fmt: skip


def _box(ax: Any, summary: Summary) -> None:
    keys = {"median": "med", "low": "whislo", "high": "whishi", "shown": "fliers"}
    boxes = [
        frame.assign(label=style["label"]).rename(columns=keys).iloc[0].to_dict() for style, frame in _groups(summary)
    ]
    ax.bxp(boxes, flierprops={"markersize": 3})
    if len(boxes) > UPRIGHT:
        ax.tick_params(axis="x", rotation=45)


def _bar(ax: Axes, summary: Summary) -> str:
    """Draw bars, and return their direction."""
    wide, colours = _wide(summary, "value")
    wide.index = names = [label(value) for value in summary.frame["x"].head(len(wide))]
    options: dict[str, Any] = {
        "ax": ax, "stacked": summary.agg in ADDITIVE, "width": 0.8, "color": colours, "legend": False,
    }  # fmt: skip
    if len(names) <= UPRIGHT and max(map(len, names)) <= 10:
        wide.plot.bar(rot=0, **options)
        return "vertical"
    wide.plot.barh(**options)
    ax.invert_yaxis()
    return "horizontal"


def _line(ax: Axes, summary: Summary) -> None:
    texts = in_order(sorted({value for value in summary.frame["x"] if isinstance(value, str)}))
    positions = {text: at for at, text in enumerate(texts)}
    for style, frame in _groups(summary):
        points = frame.assign(x=frame["x"].map(positions)) if texts else frame
        points.astype({"value": float}).plot.line(
            x="x", y="value", ax=ax, legend=False, x_compat=True, rot=0,
            marker="." if len(frame) <= FEW_POINTS else None, **style,
        )  # fmt: skip
    if texts:
        shown = texts[:: max(1, len(texts) // 20)]
        ax.set_xticks([positions[text] for text in shown], [label(text) for text in shown], rotation=45, ha="right")


def _scatter(ax: Axes, summary: Summary) -> None:
    most = summary.frame["count"].max()
    for style, frame in _groups(summary):
        sizes = 12 + 60 * (frame["count"] / most) ** 0.5 if most > 1 else 12
        # not DataFrame.plot.scatter, which draws dates in units of their frequency on an axis of days
        ax.scatter(frame["x"].to_numpy(), frame["y"].to_numpy(), s=sizes, alpha=0.6, linewidths=0, **style)


_KINDS = {"histogram": _histogram, "box": _box, "bar": _bar, "line": _line, "scatter": _scatter}
