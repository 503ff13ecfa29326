"""A profile as lines of text for terminals, and as a table with small bars for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from pipemagic import svg
from pipemagic.counts import plural
from pipemagic.explore.asking import MOVED
from pipemagic.explore.values import aligned, number, one_line, value

if TYPE_CHECKING:
    from pipemagic.explore.profile import ColumnProfile, Common, Profile
    from pipemagic.hrana.values import SqlValue

_BLOCKS = "▁▂▃▄▅▆▇█"
_FIGURES = ("min", "25%", "50%", "75%", "max", "mean")
_HEADS = ("column", "type", "nulls", "distinct", *_FIGURES, "")
_RIGHT = {"nulls", "distinct", *_FIGURES}

_TALL, _WIDE = 32, 13  # of a histogram and of one of its bars, in pixels
_ENOUGH = 5  # bars in one picture

_STYLE = (
    f"<style>.pipemagic-profile {{ max-width: 1000px; color: {svg.INK} }}"
    " .pipemagic-profile .row { display: flex; flex-wrap: wrap; gap: 4px 16px; padding: 6px 0;"
    f" border-top: 1px solid {svg.LINE} }}"
    " .pipemagic-profile .name { flex: 1 1 120px; overflow-wrap: anywhere }"
    " .pipemagic-profile .values { flex: 0 0 120px; text-align: right }"
    " .pipemagic-profile .spread { flex: 1 0 156px; overflow: hidden }"
    " .pipemagic-profile .figures { flex: 1 1 371px; display: flex; flex-wrap: wrap; gap: 4px; align-content: start;"
    " text-align: right }"
    " .pipemagic-profile .figures > div { flex: 1 1 71px; white-space: nowrap }"
    f" .pipemagic-profile .faint {{ color: {svg.FAINT} }}"
    " .pipemagic-profile .value { display: flex; gap: 6px; align-items: center; white-space: nowrap }"
    " .pipemagic-profile .value > :last-child { overflow: hidden; text-overflow: ellipsis }"
    f" .pipemagic-profile .all {{ flex: 0 0 40px; background: {svg.SHADE} }}"
    f" .pipemagic-profile .all span {{ display: block; height: 8px; min-width: 1px; background: {svg.ACCENT} }}"
    "</style>"
)


def as_text(profile: Profile) -> str:
    """Give a line for each column; stable: the same data give the same text."""
    cells = [list(_HEADS), *(_cells(column) for column in profile.columns)]
    lines = aligned(cells, [head in _RIGHT for head in _HEADS])
    return "\n".join([_title(profile), *lines, *([MOVED] if profile.moved else [])])


def _title(profile: Profile) -> str:
    return f"{_table(profile)}: {_counts(profile)}"


def _table(profile: Profile) -> str:
    where = f" where {svg.shortened(one_line(profile.where), 80)}" if profile.where else ""
    return one_line(profile.table) + where


def _counts(profile: Profile) -> str:
    return f"{plural(profile.rows, 'row')}, {plural(len(profile.columns), 'column')}"


def _cells(column: ColumnProfile) -> list[str]:
    name, counts = value(column.name, 32), (f"{column.nulls:,}", f"{column.distinct:,}")
    return [name, one_line(_type(column)), *counts, *_figures(column), _shape(column)]


def _figures(column: ColumnProfile) -> list[str]:
    figures = (column.minimum, *column.quartiles, column.maximum, column.mean)
    return ["" if figure is None else format_value(column, figure, 20) for figure in figures]


def _type(column: ColumnProfile) -> str:
    """Give the declared type, and what is stored where that is several things or not said by it."""
    stored = ", ".join(column.stored)
    if len(column.stored) > 1:
        return f"{column.type} ({stored})".lstrip()
    return svg.shortened(column.type or stored or "-", 24)


def _shape(column: ColumnProfile) -> str:
    if has_histogram(column):
        most = max(column.bins)
        return "".join(_BLOCKS[-(-len(_BLOCKS) * size // most) - 1] if size else " " for size in column.bins)
    return most_frequent(column)


def most_frequent(column: ColumnProfile) -> str:
    """Return the three most frequent values and their counts, or some values if all are there once."""
    shown = ", ".join(_format_common(column, one) for one in column.common[:3])
    return f"{shown}, …" if column.common and column.common[0].count == 1 and column.distinct > 3 else shown


def has_histogram(column: ColumnProfile) -> bool:
    """Return True if a histogram says more than the most frequent values."""
    return any(column.bins) and column.distinct > _ENOUGH


def format_value(column: ColumnProfile, given: SqlValue, width: int) -> str:
    """Return a value as text; where a column mixes types, '1' and 1 look different."""
    if isinstance(given, int | float):
        return number(given)
    return value(given, width, quotes=len(column.stored) > 1)


def _format_common(column: ColumnProfile, one: Common, width: int = 20) -> str:
    """Return a frequent value and its count, unless all are there once."""
    words = format_value(column, one.value, width)
    if not one.whole:
        words = words.removesuffix("…") + "…"
    return f"{words} ×{one.count:,}" if column.common[0].count > 1 else words


def as_html(profile: Profile) -> str:
    """Return a row for each column; all that comes from the database is escaped, colours follow the page's theme.

    The parts of a row are side by side on a wide page and below each other on a narrow one.
    """
    rows = "".join(_row(column) for column in profile.columns)
    moved = f"<p>{MOVED}</p>" if profile.moved else ""
    return (
        f'{_STYLE}<div class="pipemagic-profile"><p><b>{escape(_table(profile))}</b>: {_counts(profile)}</p>{moved}'
        f"{rows}</div>"
    )


def _row(column: ColumnProfile) -> str:
    name = f"<b>{escape(one_line(column.name))}</b>{_faint(escape(one_line(_type(column))))}"
    parts = {"name": name, "values": _filled(column), "spread": _picture(column), "figures": _html_figures(column)}
    return (
        '<div class="row">'
        + "".join(f'<div class="{part}">{inside}</div>' for part, inside in parts.items())
        + "</div>"
    )


def _faint(inside: str) -> str:
    return f'<div class="faint">{inside}</div>'


def _filled(column: ColumnProfile) -> str:
    """Show how many values there are, and how much of the column that is."""
    share = f" ({100 * column.count / column.rows:.1f} %)" if column.nulls else ""
    mean = "" if column.mean is None else _faint(f"mean {number(column.mean)}")
    return f"{column.count:,}{share}{_faint(f'{column.distinct:,} distinct')}{mean}"


def _html_figures(column: ColumnProfile) -> str:
    shown = zip(_FIGURES, _figures(column), strict=True)
    return "".join(f"<div>{_faint(name)}{escape(figure)}</div>" for name, figure in shown if figure and name != "mean")


def _picture(column: ColumnProfile) -> str:
    return _histogram(column) if has_histogram(column) else _most_frequent_bars(column)


def _histogram(column: ColumnProfile) -> str:
    most = max(column.bins)
    bars = [
        svg.box(place * _WIDE, _TALL - tall, _WIDE - 1, tall, fill=svg.ACCENT, stroke="none")
        for place, size in enumerate(column.bins)
        if (tall := _TALL * size / most)
    ]
    width = _WIDE * len(column.bins)
    floor = svg.line([(0, _TALL + 0.5), (width, _TALL + 0.5)])
    counts = "counts: " + ", ".join(f"{size:,}" for size in column.bins)
    return svg.picture(width, _TALL + 1, counts, *bars, floor, fluid=False)


def _most_frequent_bars(column: ColumnProfile) -> str:
    """Draw a bar for each of the most frequent values, as long as its share of all."""
    return "".join(
        f'<div class="value"><span class="all"><span style="width: {share:.1f}%"></span></span>'
        f"<span>{escape(_format_common(column, one, 24))}</span></div>"
        for one in column.common
        if (share := 100 * one.count / column.count)
    )
