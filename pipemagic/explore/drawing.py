"""Plots of summaries with matplotlib, which is needed for nothing else and imported nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from pipemagic.errors import UnsupportedError
from pipemagic.svg import printable, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from pipemagic.explore.plotted import Summary

LABEL = 40
"""Characters of a label that are shown."""

_WITHOUT_WINDOWS = ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")
"""Backends of matplotlib that only write files."""

UPRIGHT = 6
"""With more bars than these, or long names, the bars lie, so that their names can be read."""


def draw(summary: Summary, ax: Axes | None = None) -> Axes:
    """Draw a summary, on a figure of its own by default, and return its axes; UnsupportedError without matplotlib."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise UnsupportedError(
            "plots are drawn with matplotlib, which is not installed",
            hint="%pip install matplotlib; what would be drawn: explore.plots.histogram(...).frame",
        ) from None
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    _KINDS[summary.kind](ax, summary)
    ax.set_title(label(summary.title))
    return ax


def is_shown(axes: Axes) -> bool:
    """Return True if a window or a widget shows the figure of the axes; if not, the end of the cell will not either."""
    import matplotlib.pyplot as plt

    backend = plt.get_backend().lower()
    shown = "inline" not in backend and backend not in _WITHOUT_WINDOWS
    if not shown:
        plt.close(cast("Figure", axes.figure))
    return shown


def label(value: object) -> str:
    """Give a name or a value as a label: short, on one line, no formula even if it has dollar signs."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        value = f"x'{value.hex()}'"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return shortened(printable(str(value)), LABEL).replace("$", r"\$")


def _groups(summary: Summary) -> Iterator[tuple[str | None, DataFrame]]:
    """Give the rows of each group with its label; all rows without one where nothing is told apart."""
    if summary.label.group is None:
        yield None, summary.frame
        return
    for value in summary.groups:
        yield label(value), summary.frame[[one is value or one == value for one in summary.frame["group"]]]


def _colour(name: str | None, summary: Summary) -> dict[str, str]:
    """Give what is gathered from many groups a grey of its own."""
    return {"color": "#a0a0a0"} if name == "other" and summary.groups[-1:] == ("other",) else {}


def _axes(ax: Any, summary: Summary, *, sideways: bool = False) -> None:
    x, y = label(summary.label.x), label(summary.label.y)
    ax.set_xlabel(y if sideways else x)
    ax.set_ylabel(x if sideways else y)
    if summary.label.group is not None and summary.kind != "box":
        ax.legend(title=label(summary.label.group), loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _with_separators(axis: Any) -> None:
    """Write the numbers of an axis with thousands separators."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.10g}"))


def _tilt_dates(ax: Any) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _histogram(ax: Any, summary: Summary) -> None:
    import numpy as np

    bottom: Any = None
    for name, frame in _groups(summary):
        counts = frame["count"].to_numpy()
        bottom = np.zeros(len(counts)) if bottom is None else bottom
        width = (frame["to"] - frame["from"]).to_numpy()
        ax.bar(frame["from"].to_numpy(), counts, width, bottom=bottom, align="edge", label=name, edgecolor="white",
               linewidth=0.5, **_colour(name, summary))  # fmt: skip
        bottom = bottom + counts
    _with_separators(ax.yaxis)
    if summary.dates:
        _tilt_dates(ax)
    else:
        _with_separators(ax.xaxis)
    _axes(ax, summary)


def _box(ax: Any, summary: Summary) -> None:
    boxes = []
    for name, frame in _groups(summary):
        row = frame.iloc[0]
        boxes.append({
            "label": name or "", "med": row["median"], "q1": row["q1"], "q3": row["q3"], "whislo": row["low"],
            "whishi": row["high"], "mean": row["mean"], "fliers": list(row["shown"]),
        })  # fmt: skip
    ax.bxp(boxes, showmeans=False, flierprops={"markersize": 3})
    if len(boxes) > UPRIGHT:
        ax.tick_params(axis="x", rotation=45)
    _with_separators(ax.yaxis)
    _axes(ax, summary)


def _bar(ax: Any, summary: Summary) -> None:
    import numpy as np

    parts = list(_groups(summary))
    names = [label(value) for value in parts[0][1]["x"]]
    sideways, start = len(names) > UPRIGHT or max(map(len, names)) > 10, np.zeros(len(names))
    for name, frame in parts:
        values = frame["value"].to_numpy(dtype=float)
        # By place, not by name: two values may look alike, 1 and '1'.
        if sideways:
            ax.barh(range(len(names)), values, left=start, label=name, **_colour(name, summary))
        else:
            ax.bar(range(len(names)), values, bottom=start, label=name, **_colour(name, summary))
        start = start + values
    if sideways:
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
    else:
        ax.set_xticks(range(len(names)), names)
    _with_separators(ax.xaxis if sideways else ax.yaxis)
    _axes(ax, summary, sideways=sideways)


def _line(ax: Any, summary: Summary) -> None:
    texts = sorted({value for value in summary.frame["x"] if isinstance(value, str)})
    places = {text: place for place, text in enumerate(texts)}
    for name, frame in _groups(summary):
        x = frame["x"].map(lambda value: places[str(value)]) if places else frame["x"]
        few = len(frame) <= 60
        ax.plot(x.to_numpy(), frame["value"].to_numpy(dtype=float), label=name, marker="." if few else None,
                **_colour(name, summary))  # fmt: skip
    if places:
        shown = texts[:: max(1, len(texts) // 20)]
        ax.set_xticks([places[text] for text in shown], [label(text) for text in shown], rotation=45, ha="right")
    elif summary.dates:
        _tilt_dates(ax)
    else:
        _with_separators(ax.xaxis)
    _with_separators(ax.yaxis)
    _axes(ax, summary)


def _scatter(ax: Any, summary: Summary) -> None:
    most = summary.frame["count"].max()
    for name, frame in _groups(summary):
        sizes = 12 + 60 * (frame["count"] / most) ** 0.5 if most > 1 else 12
        ax.scatter(frame["x"].to_numpy(), frame["y"].to_numpy(), s=sizes, alpha=0.6, label=name, linewidths=0,
                   **_colour(name, summary))  # fmt: skip
    if summary.dates:
        _tilt_dates(ax)
    else:
        _with_separators(ax.xaxis)
    if summary.frame["y"].dtype.kind != "M":
        _with_separators(ax.yaxis)
    _axes(ax, summary)


_KINDS = {"histogram": _histogram, "box": _box, "bar": _bar, "line": _line, "scatter": _scatter}
