"""The profile of a table: its values, a line of text for each column, and an HTML table with small bar charts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from pipemagic import svg
from pipemagic.explore.previews import format_number, preview_text
from pipemagic.explore.round_trip import note_on
from pipemagic.hrana.values import SqlValue
from pipemagic.text import escape_controls, literal_html, plural, shorten, text_table

if TYPE_CHECKING:
    from pandas import DataFrame

ColumnKind = Literal["number", "date", "text", "blob", "empty"]

_BLOCKS = "▁▂▃▄▅▆▇█"
_FIGURES = ("min", "25%", "50%", "75%", "max", "mean")
_HEADS = ("column", "type", "count", "nulls", "distinct", *_FIGURES, "distribution")
_RIGHT = {"count", "nulls", "distinct", *_FIGURES}

_TALL, _WIDE = 16, 8  # pixels: height of a histogram, width of a bar
_ENOUGH = 5  # distinct values, of which the most frequent ones say more than a histogram
_SMALL, _NARROW, _NARROWEST = 900, 780, 330
"""Pixels: on narrower pages, digits are smaller; a row is several lines of four figures; they have two figures each."""

_TABLE = ".pipemagic-profile table"
_STYLE = (
    f"<style>.pipemagic-profile {{ container-type: inline-size; color: {svg.INK}; overflow-x: auto }}"
    f" {_TABLE} {{ border-collapse: collapse; font-size: 12px; margin: 0; max-width: 1200px;"
    " table-layout: auto; width: 100% }"
    f" {_TABLE} :is(td, th) {{ border: 0; line-height: 1.35; max-width: 110px; overflow: hidden; overflow-wrap: normal;"
    " padding: 3px 4px; text-align: right; text-overflow: ellipsis; vertical-align: middle; white-space: nowrap }"
    f" {_TABLE} .column wbr {{ display: none }}"
    f" {_TABLE} thead th {{ color: {svg.FAINT}; font-weight: normal }}"
    f" {_TABLE} tbody tr {{ border-top: 1px solid {svg.LINE} }}"
    f" {_TABLE} :is(.column, .type, .distribution) {{ text-align: left }}"
    f" {_TABLE} .column {{ max-width: none }} {_TABLE} tbody .column {{ font-weight: 600 }}"
    f" {_TABLE} .type {{ color: {svg.FAINT}; white-space: normal }}"
    f" {_TABLE} .moment {{ font-size: 11px }}"
    f" {_TABLE} .distribution {{ max-width: 0; min-width: 98px; width: 100% }}"
    f" {_TABLE} svg {{ display: block }}"
    f" @container (min-width: {_NARROW}px) and (max-width: {_SMALL}px) {{"
    f" {_TABLE} {{ font-size: 11px }} {_TABLE} :is(td, th) {{ padding: 3px }}"
    f" {_TABLE} .column wbr {{ display: inline }} {_TABLE} .moment {{ font-size: 10px }} }}"
    f" @container (max-width: {_NARROW - 1}px) {{"
    f" {_TABLE}, {_TABLE} tbody {{ display: block }}"
    f" {_TABLE} thead {{ display: none }}"
    f" {_TABLE} tbody tr {{ display: grid; grid-template-columns: 3fr 4fr 3fr 3fr; padding: 4px 0 }}"
    f" {_TABLE} tbody :is(td, th) {{ max-width: none; min-width: 0; padding: 2px 4px; text-align: left }}"
    f" {_TABLE} :is(.column, .distribution) {{ grid-column: span 2; grid-row: 1; width: auto }}"
    f" {_TABLE} td:empty {{ display: none }}"
    f" {_TABLE} td::before {{ color: {svg.FAINT}; content: attr(data-label); display: block; font-size: 11px }}"
    f" {_TABLE} .distribution::before {{ content: none }}"
    f" }} @container (max-width: {_NARROWEST}px) {{"
    f" {_TABLE} tbody tr {{ grid-template-columns: 1fr 1fr }} {_TABLE} .distribution {{ grid-row: auto }}"
    " }</style>"
)
"""The width of a page is that of its output, since JupyterLab may show a list of files beside it."""

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d[T ])(?=\d\d:)", re.ASCII)


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

    ``inconsistent`` is True if the database changed while the profile was computed, None if that is not known.
    """

    table: str
    rows: int
    columns: tuple[ColumnProfile, ...]
    inconsistent: bool | None = False
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
        return "\n".join([f"{_title(self)}: {_size(self)}", *lines, *filter(None, [note_on(self.inconsistent)])])

    def _repr_html_(self) -> str:
        """Return a table with the cells of the text form; values are escaped, colours follow the page's theme.

        A row is one line on a wide page; on a narrow one, its cells have labels and are in several lines.
        """
        title = f"<p><b>{escape(_title(self))}</b>: {_size(self)}</p>"
        note = f"<p>{note_on(self.inconsistent)}</p>" if note_on(self.inconsistent) else ""
        heads = "".join(f'<th class="{_class(head)}" scope="col">{head}</th>' for head in _HEADS)
        rows = "".join(map(_html_row, self.columns))
        table = f'<table aria-label="Profile"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
        return literal_html(f'{_STYLE}<div class="pipemagic-profile" tabindex="0">{title}{note}{table}</div>')


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
    name, type_ = preview_text(column.name, 32), escape_controls(_type(column))
    return [name, type_, *count_cells(column), *_figures(column), shape]


def count_cells(column: ColumnProfile) -> list[str]:
    """Return the numbers of values, with their share of the rows if some are NULL, of NULLs and of distinct values."""
    share = f" ({_percent(column.count, column.rows)})" if column.nulls else ""
    return [f"{column.count:,}{share}", f"{column.nulls:,}", f"{column.distinct:,}"]


def _percent(part: int, whole: int) -> str:
    """Return a share of less than all; only 0 is shown as 0.0%, and none as 100.0%."""
    if whole - part < whole / 2000:
        return ">99.9%"
    return "<0.1%" if 0 < part < whole / 2000 else f"{100 * part / whole:.1f}%"


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
    """Return a row; a name may wrap behind ``_``, and a moment behind its day."""
    name, *cells, shape = map(escape, _cells(column))
    parts = [f'<th class="column" scope="row" title="{name}">{name.replace("_", "_<wbr>")}</th>']
    for head, cell in zip(_HEADS[1:-1], cells, strict=True):
        shown, is_moment = _MOMENT.subn(r"\1<wbr>", cell)
        kind = "moment" if is_moment else _class(head)
        parts.append(f'<td class="{kind}" data-label="{head}" title="{cell}">{shown}</td>')
    if has_histogram(column):
        parts.append(f'<td class="distribution">{_histogram(column)}</td>')
    else:
        parts.append(f'<td class="distribution" title="{shape}">{shape}</td>')
    return f"<tr>{''.join(parts)}</tr>"


def _class(head: str) -> str:
    return head if head in ("column", "type", "distribution") else "figure"


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
