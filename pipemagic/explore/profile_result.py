"""The profile of a table: its values, a line of text for each column, and an HTML table with small bar charts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from pipemagic import svg
from pipemagic.explore.previews import format_number, preview_text
from pipemagic.explore.round_trip import INCONSISTENT
from pipemagic.hrana.values import SqlValue
from pipemagic.text import escape_controls, literal_html, plural, shorten, text_table

if TYPE_CHECKING:
    from pandas import DataFrame

ColumnKind = Literal["number", "date", "text", "blob", "empty"]

_BLOCKS = "▁▂▃▄▅▆▇█"
_FIGURES = ("min", "25%", "50%", "75%", "max", "mean")
_HEADS = ("column", "type", "nulls", "distinct", *_FIGURES, "")
_RIGHT = {"nulls", "distinct", *_FIGURES}

_TALL, _WIDE = 32, 13  # pixels: height of a histogram, width of a bar
_ENOUGH = 5  # frequent values, which are shown as bars

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


@dataclass(frozen=True)
class ValueCount:
    """A frequent value and its number of rows. ``complete`` is False if the server truncated the value."""

    value: SqlValue
    count: int
    complete: bool = True


@dataclass(frozen=True)
class ColumnProfile:
    """The profile of a column. Quartiles and bins are those of the values of ``kind``, other figures of all values.

    ``stored`` counts the values by storage class ('integer', 'real', 'text', 'blob'). ``distinct`` is SQL's
    ``count(DISTINCT ...)``: NULL is not counted, 1 and 1.0 are equal. ``minimum`` and ``maximum`` follow SQL, too:
    numbers come before text, text before blobs. ``quartiles`` are interpolated for numbers, as pandas does; of two
    dates they are the earlier one. ``bins`` are counts between the smallest and the largest finite number or date.
    """

    name: str
    type: str
    kind: ColumnKind
    rows: int
    nulls: int
    distinct: int
    stored: Mapping[str, int]
    minimum: SqlValue = None
    maximum: SqlValue = None
    mean: float | None = None
    quartiles: tuple[SqlValue, SqlValue, SqlValue] = (None, None, None)
    common: tuple[ValueCount, ...] = ()
    bins: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """The number of values that are not NULL."""
        return self.rows - self.nulls


@dataclass(frozen=True)
class Profile:
    """The profile of a table by columns; with ``where`` of the rows that match this SQL condition.

    ``inconsistent`` is True if the database changed while the profile was computed.
    """

    table: str
    rows: int
    columns: tuple[ColumnProfile, ...]
    inconsistent: bool = False
    where: str = ""

    def __getitem__(self, name: str) -> ColumnProfile:
        """Return the profile of a column. Raise KeyError if it was not profiled."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @cached_property
    def frame(self) -> DataFrame:
        """The figures as a DataFrame, one row for each column; missing figures are None."""
        from pandas import DataFrame

        frame = DataFrame([_frame_row(column) for column in self.columns], dtype=object)
        return frame.astype(dict.fromkeys(("count", "nulls", "distinct", "top count"), "int64"))

    def __repr__(self) -> str:
        rows = [_cells(column) for column in self.columns]
        lines = text_table([list(_HEADS), *rows], [head in _RIGHT for head in _HEADS])
        return "\n".join([f"{_title(self)}: {_size(self)}", *lines, *([INCONSISTENT] if self.inconsistent else [])])

    def _repr_html_(self) -> str:
        """Return a row for each column; values are escaped, colours follow the page's theme.

        The parts of a row are side by side on a wide page and below each other on a narrow one.
        """
        title = f"<p><b>{escape(_title(self))}</b>: {_size(self)}</p>"
        note = f"<p>{INCONSISTENT}</p>" if self.inconsistent else ""
        rows = "".join(map(_html_row, self.columns))
        return literal_html(f'{_STYLE}<div class="pipemagic-profile">{title}{note}{rows}</div>')


def _frame_row(column: ColumnProfile) -> dict[str, Any]:
    first = column.common[0] if column.common else ValueCount(None, 0)
    low, middle, high = column.quartiles
    return {
        "column": column.name, "type": column.type, "stored as": ", ".join(column.stored), "count": column.count,
        "nulls": column.nulls, "distinct": column.distinct, "min": column.minimum, "25%": low, "50%": middle,
        "75%": high, "max": column.maximum, "mean": column.mean, "top": first.value, "top count": first.count,
    }  # fmt: skip


def _title(profile: Profile) -> str:
    where = f" where {shorten(escape_controls(profile.where), 80)}" if profile.where else ""
    return escape_controls(profile.table) + where


def _size(profile: Profile) -> str:
    return f"{plural(profile.rows, 'row')}, {plural(len(profile.columns), 'column')}"


def _cells(column: ColumnProfile) -> list[str]:
    most = max(column.bins, default=0)
    blocks = (_BLOCKS[-(-len(_BLOCKS) * size // most) - 1] if size else " " for size in column.bins)
    shape = "".join(blocks) if has_histogram(column) else most_frequent(column)
    name, counts = preview_text(column.name, 32), (f"{column.nulls:,}", f"{column.distinct:,}")
    return [name, escape_controls(_type(column)), *counts, *_figures(column), shape]


def _figures(column: ColumnProfile) -> list[str]:
    figures = (column.minimum, *column.quartiles, column.maximum, column.mean)
    return ["" if figure is None else format_value(column, figure, 20) for figure in figures]


def _type(column: ColumnProfile) -> str:
    """Return the declared type, and the storage classes if there are several or no type is declared."""
    stored = ", ".join(column.stored)
    if len(column.stored) > 1:
        return f"{column.type} ({stored})".lstrip()
    return shorten(column.type or stored or "-", 24)


def most_frequent(column: ColumnProfile) -> str:
    """Return the three most frequent values and their counts, or some values if all are different."""
    shown = ", ".join(_format_count(column, count) for count in column.common[:3])
    return f"{shown}, …" if column.common and column.common[0].count == 1 and column.distinct > 3 else shown


def has_histogram(column: ColumnProfile) -> bool:
    """Return True if a histogram is more informative than the most frequent values."""
    return any(column.bins) and column.distinct > _ENOUGH


def format_value(column: ColumnProfile, given: SqlValue, width: int) -> str:
    """Return a value as text. In a column of several types text is quoted: '1' is not 1."""
    if isinstance(given, int | float):
        return format_number(given)
    return preview_text(given, width, quotes=len(column.stored) > 1)


def _format_count(column: ColumnProfile, count: ValueCount, width: int = 20) -> str:
    """Return a frequent value and its count, or just the value if all are different."""
    text = format_value(column, count.value, width)
    if not count.complete:
        text = text.removesuffix("…") + "…"
    return f"{text} ×{count.count:,}" if column.common[0].count > 1 else text


def _html_row(column: ColumnProfile) -> str:
    share = f" ({100 * column.count / column.rows:.1f} %)" if column.nulls else ""
    mean = "" if column.mean is None else _faint(f"mean {format_number(column.mean)}")
    figures = zip(_FIGURES, _figures(column), strict=True)
    parts = {
        "name": f"<b>{escape(escape_controls(column.name))}</b>{_faint(escape(escape_controls(_type(column))))}",
        "values": f"{column.count:,}{share}{_faint(f'{column.distinct:,} distinct')}{mean}",
        "spread": _histogram(column) if has_histogram(column) else _frequency_bars(column),
        "figures": "".join(
            f"<div>{_faint(name)}{escape(figure)}</div>" for name, figure in figures if figure and name != "mean"
        ),
    }
    inside = "".join(f'<div class="{part}">{html}</div>' for part, html in parts.items())
    return f'<div class="row">{inside}</div>'


def _faint(inside: str) -> str:
    return f'<div class="faint">{inside}</div>'


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


def _frequency_bars(column: ColumnProfile) -> str:
    """Return a bar for each of the most frequent values, which shows its share of all values."""
    return "".join(
        f'<div class="value"><span class="all"><span style="width: {share:.1f}%"></span></span>'
        f"<span>{escape(_format_count(column, count, 24))}</span></div>"
        for count in column.common
        if (share := 100 * count.count / column.count)
    )
