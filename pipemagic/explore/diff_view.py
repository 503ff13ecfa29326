"""A comparison as text, and as small tables for notebooks. Text stands in quotes: '1' is not 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from pipemagic.counts import plural
from pipemagic.explore.asking import MOVED
from pipemagic.explore.values import aligned, one_line, value

if TYPE_CHECKING:
    from pipemagic.explore.diff import Diff
    from pipemagic.hrana.values import SqlValue

Table = tuple[str, list[str], list[list[str]]]


def as_text(found: Diff) -> str:
    """Give the differences as lines; stable: the same data give the same text."""
    lines = _lines(found)
    for title, heads, rows in _tables(found):
        lines += ["", f"{title}:", *(f"  {line}" for line in aligned([heads, *rows]))]
    return "\n".join(lines)


def as_html(found: Diff) -> str:
    """Give the differences as tables; all that comes from the database is escaped."""
    told = "".join(f"<p>{escape(line.strip())}</p>" for line in _lines(found))
    return told + "".join(_table(*one) for one in _tables(found))


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{_cells('th', heads)}</tr></thead>"
    return f"<p><b>{escape(title)}</b></p><table>{head}<tbody>{body}</tbody></table>"


def _cells(tag: str, words: Sequence[str]) -> str:
    return "".join(f'<{tag} style="text-align: left">{escape(word)}</{tag}>' for word in words)


def _lines(found: Diff) -> list[str]:
    """Say what differs, in a line for each kind of it."""
    a, b = one_line(found.a), one_line(found.b)
    by = f"by {one_line(', '.join(found.key))}" if found.key else "whole rows"
    if found.same:
        return [f"{a} and {b} hold the same: {plural(found.same_rows, 'row')}, compared {by}.", *_moved(found)]
    lines = [f"{a} and {b}, compared {by}"]
    for side, names in ((a, found.columns_a), (b, found.columns_b)):
        lines += [f"  only {side} has the column {one_line(name)}" for name in names]
    for name, one, other in found.retyped:
        lines.append(f"  {one_line(name)} is declared {one_line(one) or 'without a type'} in {a}, "
                     f"{one_line(other) or 'without a type'} in {b}")  # fmt: skip
    counts = [f"{plural(found.same_rows, 'row')} the same"]
    counts += [f"{found.only_a_count} only in {a}"] if found.only_a_count else []
    counts += [f"{found.only_b_count} only in {b}"] if found.only_b_count else []
    changed = ", ".join(f"{one_line(name)} {number}" for name, number in found.changed_columns.items())
    counts += [f"{found.changed_count} changed ({changed})"] if found.changed_count else []
    return [*lines, "  " + ", ".join(counts), *_moved(found)]


def _moved(found: Diff) -> list[str]:
    return [MOVED] if found.moved else []


def _tables(found: Diff) -> Iterator[Table]:
    heads = [one_line(name) for name in found.columns]
    sides = ((found.a, found.only_a_count, found.rows_a), (found.b, found.only_b_count, found.rows_b))
    for name, number, rows in sides:
        if rows:
            shown = sum(times for times, _ in rows)
            title = f"only in {one_line(name)}{'' if number == shown else f', the first {shown} of {number}'}"
            # Without a key the same row may be there several times.
            several = any(times > 1 for times, _ in rows)
            yield title, heads + ["times"] * several, [
                [*map(_shown, row), *([str(times)] * several)] for times, row in rows
            ]  # fmt: skip
    if found.changes:
        keys = len({one.key for one in found.changes})
        title = f"changed{'' if keys == found.changed_count else f', the first {keys} of {found.changed_count}'}"
        names = [one_line(name) for name in found.key]
        yield title, [*names, "column", one_line(found.a), one_line(found.b)], [
            [*map(_shown, one.key), one_line(one.column), *_both(one.a, one.b)] for one in found.changes
        ]  # fmt: skip


def _shown(given: SqlValue) -> str:
    return repr(given) if isinstance(given, float) else value(given, quotes=True)  # all digits: they may differ there


_BEFORE = 8  # characters or bytes that are shown before the first difference


def _both(a: SqlValue, b: SqlValue) -> tuple[str, str]:
    """Show two values that differ: of long ones that begin alike, from shortly before the first difference on."""
    told = _shown(a), _shown(b)
    if told[0] != told[1]:
        return told
    if (isinstance(a, str) and isinstance(b, str)) or (isinstance(a, bytes) and isinstance(b, bytes)):
        start = max(0, _alike(a, b) - _BEFORE)
        return f"…{_shown(a[start:])}", f"…{_shown(b[start:])}"
    return told


def _alike(a: Sequence[object], b: Sequence[object]) -> int:
    """Give how many characters or bytes two values have in common from the beginning on."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(a), len(b)))
