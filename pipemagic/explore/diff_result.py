"""The result of a comparison, as text and as HTML tables. Text values are quoted: '1' is not 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from pipemagic.explore.previews import preview_text
from pipemagic.explore.round_trip import note_on
from pipemagic.hrana.values import SqlValue
from pipemagic.text import escape_controls, literal_html, plural, text_table

if TYPE_CHECKING:
    from pandas import DataFrame

Row = tuple[SqlValue, ...]

_CONTEXT = 8
"""Characters or bytes shown before the first difference of two long values."""


@dataclass(frozen=True)
class ChangedValue:
    """A value that differs: the key of its row, its column, and both values."""

    key: Row
    column: str
    a: SqlValue
    b: SqlValue


@dataclass(frozen=True)
class Diff:
    """The differences between ``a`` and ``b``. Counts are of all rows; only the first rows are included.

    ``key`` are the columns that match rows; without a key whole rows are compared, with their number of occurrences.
    ``columns_a`` and ``columns_b`` are columns of one of the two, ``retyped`` have different declared types.
    ``inconsistent`` is True if the database changed during the comparison, None if that is not known.
    """

    a: str
    b: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    columns_a: tuple[str, ...]
    columns_b: tuple[str, ...]
    retyped: tuple[tuple[str, str, str], ...]
    same_rows: int
    only_a_count: int
    only_b_count: int
    changed_count: int
    changed_columns: dict[str, int]
    inconsistent: bool | None = False
    rows_a: tuple[tuple[int, Row], ...] = field(default=(), repr=False)
    rows_b: tuple[tuple[int, Row], ...] = field(default=(), repr=False)
    changes: tuple[ChangedValue, ...] = field(default=(), repr=False)

    @property
    def same(self) -> bool:
        """True if columns, declared types and rows are equal."""
        rows_differ = self.only_a_count or self.only_b_count or self.changed_count
        return not (rows_differ or self.columns_a or self.columns_b or self.retyped)

    @cached_property
    def only_a(self) -> DataFrame:
        """The first rows only in A; without a key with a column ``times``."""
        return self._frame(self.rows_a)

    @cached_property
    def only_b(self) -> DataFrame:
        """The first rows only in B; without a key with a column ``times``."""
        return self._frame(self.rows_b)

    @cached_property
    def changed(self) -> DataFrame:
        """The differing values of the first changed rows: key, column, value in A, value in B."""
        from pandas import DataFrame

        rows = [(*change.key, change.column, change.a, change.b) for change in self.changes]
        return DataFrame(rows, columns=[*self.key, "column", "a", "b"], dtype=object)

    def _frame(self, rows: Sequence[tuple[int, Row]]) -> DataFrame:
        from pandas import DataFrame

        cells = [row if self.key else (*row, times) for times, row in rows]
        return DataFrame(cells, columns=[*self.columns, *([] if self.key else ["times"])], dtype=object)

    def __repr__(self) -> str:
        lines = _summary(self)
        for title, heads, rows in _tables(self):
            lines += ["", f"{title}:", *(f"  {line}" for line in text_table([heads, *rows]))]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the summary and tables with all values escaped."""
        summary = "".join(f"<p>{escape(line.strip())}</p>" for line in _summary(self))
        tables = "".join(
            f"<p><b>{escape(title)}</b></p><table><thead>{_html_row('th', heads)}</thead>"
            f"<tbody>{''.join(_html_row('td', row) for row in rows)}</tbody></table>"
            for title, heads, rows in _tables(self)
        )
        return literal_html(summary + tables)


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f'<{tag} style="text-align: left">{escape(cell)}</{tag}>' for cell in cells) + "</tr>"


def _summary(diff: Diff) -> list[str]:
    """Return a line for each kind of difference."""
    a, b = escape_controls(diff.a), escape_controls(diff.b)
    by = f"by {escape_controls(', '.join(diff.key))}" if diff.key else "by whole rows"
    note = list(filter(None, [note_on(diff.inconsistent)]))
    if diff.same:
        return [f"{a} and {b} are equal: {plural(diff.same_rows, 'row')}, compared {by}.", *note]
    lines = [f"{a} and {b}, compared {by}"]
    for side, names in ((a, diff.columns_a), (b, diff.columns_b)):
        lines += [f"  column {escape_controls(name)} only in {side}" for name in names]
    for name, *types in diff.retyped:
        type_a, type_b = (escape_controls(type_) or "no type" for type_ in types)
        lines.append(f"  column {escape_controls(name)}: {type_a} in {a}, {type_b} in {b}")
    counts = [f"{plural(diff.same_rows, 'row')} equal"]
    counts += [f"{diff.only_a_count} only in {a}"] if diff.only_a_count else []
    counts += [f"{diff.only_b_count} only in {b}"] if diff.only_b_count else []
    changed = ", ".join(f"{escape_controls(name)} {number}" for name, number in diff.changed_columns.items())
    counts += [f"{diff.changed_count} changed ({changed})"] if diff.changed_count else []
    return [*lines, "  " + ", ".join(counts), *note]


def _tables(diff: Diff) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yield the title, heads and cells of each table of differences."""
    heads = [escape_controls(name) for name in diff.columns]
    sides = ((diff.a, diff.only_a_count, diff.rows_a), (diff.b, diff.only_b_count, diff.rows_b))
    for name, count, rows in sides:
        if rows:
            title = f"only in {escape_controls(name)}{_limit(sum(times for times, _ in rows), count)}"
            repeated = any(times > 1 for times, _ in rows)  # possible without a key
            cells = [[*map(_format, row), *([str(times)] * repeated)] for times, row in rows]
            yield title, heads + ["times"] * repeated, cells
    if diff.changes:
        title = f"changed{_limit(len({change.key for change in diff.changes}), diff.changed_count)}"
        heads = [*map(escape_controls, diff.key), "column", escape_controls(diff.a), escape_controls(diff.b)]
        cells = [
            [*map(_format, change.key), escape_controls(change.column), *_format_pair(change.a, change.b)]
            for change in diff.changes
        ]
        yield title, heads, cells


def _limit(shown: int, count: int) -> str:
    return "" if shown == count else f", the first {shown} of {count}"


def _format(value: SqlValue) -> str:
    # Floats may differ in the last digit.
    return repr(value) if isinstance(value, float) else preview_text(value, quotes=True)


def _format_pair(a: SqlValue, b: SqlValue) -> tuple[str, str]:
    """Return two different values as text; of long ones the part around the first difference."""
    texts = _format(a), _format(b)
    if texts[0] == texts[1] and isinstance(a, str | bytes) and isinstance(b, str | bytes):
        pairs = enumerate(zip(a, b, strict=False))
        first = next((at for at, (char_a, char_b) in pairs if char_a != char_b), min(len(a), len(b)))
        start = max(0, first - _CONTEXT)
        return f"…{_format(a[start:])}", f"…{_format(b[start:])}"
    return texts
