"""A profile as lines of text for terminals, and as a table with small bars for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from pipemagic import svg
from pipemagic.counts import plural
from pipemagic.explore.asking import MOVED
from pipemagic.explore.values import one_line, padded, value
from pipemagic.sql import display_width

if TYPE_CHECKING:
    from pipemagic.explore.profile import ColumnProfile, Common, Profile
    from pipemagic.hrana.values import SqlValue

_BLOCKS = "▁▂▃▄▅▆▇█"
_FIGURES = ("min", "25%", "50%", "75%", "max", "mean")
_HEADS = ("column", "type", "nulls", "distinct", *_FIGURES, "")
_RIGHT = {"nulls", "distinct", *_FIGURES}

_TALL, _BAR = 32, 8
_ENOUGH = 5  # bars in one picture


def as_text(profile: Profile) -> str:
    """Give a line for each column; stable: the same data give the same text."""
    cells = [list(_HEADS), *(_cells(column) for column in profile.columns)]
    widths = [max(display_width(row[place]) for row in cells) for place in range(len(_HEADS))]
    lines = ["  ".join(_aligned(row, widths)).rstrip() for row in cells]
    return "\n".join([_title(profile), *lines, *([MOVED] if profile.moved else [])])


def _title(profile: Profile) -> str:
    return f"{_table(profile)}: {_counts(profile)}"


def _table(profile: Profile) -> str:
    where = f" where {svg.shortened(one_line(profile.where), 80)}" if profile.where else ""
    return one_line(profile.table) + where


def _counts(profile: Profile) -> str:
    return f"{plural(profile.rows, 'row')}, {plural(len(profile.columns), 'column')}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    cells = zip(row, widths, _HEADS, strict=True)
    return [padded(words, width, right=head in _RIGHT) for words, width, head in cells]


def _cells(column: ColumnProfile) -> list[str]:
    name, counts = value(column.name, 32), (str(column.nulls), str(column.distinct))
    return [name, one_line(_type(column)), *counts, *_figures(column), _shape(column)]


def _figures(column: ColumnProfile) -> list[str]:
    figures = (column.minimum, *column.quartiles, column.maximum, column.mean)
    return ["" if figure is None else _value(column, figure, 20) for figure in figures]


def _type(column: ColumnProfile) -> str:
    """Give the declared type, and what is stored where that is several things or not said by it."""
    stored = ", ".join(column.stored)
    if len(column.stored) > 1:
        return f"{column.type} ({stored})".lstrip()
    return svg.shortened(column.type or stored or "-", 24)


def _shape(column: ColumnProfile) -> str:
    if _has_shape(column):
        most = max(column.bins)
        return "".join(_BLOCKS[-(-len(_BLOCKS) * size // most) - 1] if size else " " for size in column.bins)
    shown = ", ".join(_common(column, one) for one in column.common[:3])
    return f"{shown}, …" if column.common and column.common[0].count == 1 and column.distinct > 3 else shown


def _has_shape(column: ColumnProfile) -> bool:
    """Tell whether a picture of how the values are spread says more than the most frequent ones."""
    return any(column.bins) and column.distinct > _ENOUGH


def _value(column: ColumnProfile, given: SqlValue, width: int) -> str:
    """Give a value; where a column mixes types, '1' and 1 have to look different."""
    return value(given, width, quotes=len(column.stored) > 1)


def _common(column: ColumnProfile, one: Common, width: int = 20) -> str:
    """Give a frequent value and how often it is there, unless all are there once."""
    words = _value(column, one.value, width)
    if not one.whole:
        words = words.removesuffix("…") + "…"
    return f"{words} ×{one.count}" if column.common[0].count > 1 else words


def as_html(profile: Profile) -> str:
    """Give a table; all that comes from the database is escaped, colours follow the page's theme."""
    head = "".join(_cell("th", name) for name in ("column", "values", "distinct", "spread", *_FIGURES))
    rows = "".join(_row(column) for column in profile.columns)
    moved = f"<p>{MOVED}</p>" if profile.moved else ""
    return (
        f"<p><b>{escape(_table(profile))}</b>: {_counts(profile)}</p>{moved}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _row(column: ColumnProfile) -> str:
    name = f"<b>{escape(one_line(column.name))}</b><br>{escape(one_line(_type(column)))}"
    cells = (name, _filled(column), str(column.distinct), _picture(column), *map(escape, _figures(column)))
    return "<tr>" + "".join(_cell("td", cell) for cell in cells) + "</tr>"


def _cell(tag: str, inside: str) -> str:
    return f'<{tag} style="text-align: left; vertical-align: top">{inside}</{tag}>'


def _filled(column: ColumnProfile) -> str:
    """Show how much of the column is not NULL."""
    share = column.count / column.rows if column.rows else 0
    words = f"{column.count} of {column.rows}" if column.nulls else str(column.count)
    bars = svg.box(0, 2, 80, _BAR, fill=svg.SHADE, stroke="none") + svg.box(
        0, 2, 80 * share, _BAR, fill=svg.ACCENT, stroke="none"
    )
    return f"{words}<br>" + svg.picture(80, _BAR + 4, f"{column.nulls} NULL", bars)


def _picture(column: ColumnProfile) -> str:
    return _histogram(column) if _has_shape(column) else _most_frequent(column)


def _histogram(column: ColumnProfile) -> str:
    wide, most = 12, max(column.bins)
    bars = [
        svg.box(place * wide, _TALL - tall, wide - 1, tall, fill=svg.ACCENT, stroke="none")
        for place, size in enumerate(column.bins)
        if (tall := _TALL * size / most)
    ]
    width = wide * len(column.bins)
    floor = svg.line([(0, _TALL + 0.5), (width, _TALL + 0.5)])
    return svg.picture(width, _TALL + 1, "counts: " + ", ".join(map(str, column.bins)), *bars, floor)


def _most_frequent(column: ColumnProfile) -> str:
    """Draw a bar for each of the most frequent values, as long as its share of all."""
    words = [_common(column, one, 24) for one in column.common]
    if not words:
        return ""
    lines, high = [], 16
    for place, (one, told) in enumerate(zip(column.common, words, strict=True)):
        y = place * high
        lines.append(svg.box(0, y + 4, 48, _BAR, fill=svg.SHADE, stroke="none"))
        lines.append(svg.box(0, y + 4, max(1, 48 * one.count / column.count), _BAR, fill=svg.ACCENT, stroke="none"))
        lines.append(svg.text(54, y + 12, told))
    width = 60 + max(map(display_width, words)) * svg.CHARACTER
    return svg.picture(width, len(words) * high, "the most frequent values", *lines)
