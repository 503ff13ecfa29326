"""Compare a student's result with the expected one: points, advice, and the first differing rows.

Rows are a multiset unless their order counts. Numbers are equal within a relative tolerance; whole numbers in a column
of whole numbers only if they are the same. NULL equals only NULL, and text is never a number. Dates and times of a
frame equal every ISO text of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipemagic.hrana.values import SqlValue
from pipemagic.teaching.exercises import advice
from pipemagic.teaching.exercises.advice import shown
from pipemagic.teaching.exercises.constructs import uses
from pipemagic.teaching.exercises.matching import Column, Rows, columns_of
from pipemagic.text import join_words, plural

_COLUMNS, _ROWS, _ORDER = 0.2, 0.6, 0.2
_SHOWN = 5
_WIDTH = 200  # characters of a value in the rows that differ
_ADVISED = 1000  # rows
_ABSENT = ""  # in the place of the values of a row that one result does not have


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What counts in a comparison.

    ``order_by`` are the indexes of the expected columns by which the rows are sorted: rows that are equal in these may
    come in any order. Without it and with ``ordered``, the order is strict.
    """

    ordered: bool = False
    order_by: tuple[int, ...] = ()
    columns_in_order: bool = False
    check_names: bool = True
    tolerance: float = 1e-6


@dataclass(frozen=True)
class Comparison:
    """The score from 0 to 1, the advice, and the first differing rows with the line above them, None without any.

    The score is rounded down to hundredths, and 1 only if everything is right.
    """

    score: float
    messages: tuple[str, ...] = ()
    difference: pd.DataFrame | None = None
    heading: str = ""

    @property
    def passed(self) -> bool:
        """True if the result is right."""
        return self.score == 1


def compare(
    expected: pd.DataFrame, actual: pd.DataFrame, rules: Rules = Rules(), sql: str = "", reason: str = ""
) -> Comparison:
    """Compare two results; the statement of the actual one is used only for better advice.

    ``reason`` is why rows are missing, if that is known.

    Columns count 0.2, rows 0.6 and their order 0.2, or rows 0.8 without order. Only columns that match are compared.
    The score of the rows is the share of matched rows times the share of matched columns; order counts in matched
    rows. Raise LoadError for values that SQL cannot store.
    """
    names, values = columns_of(expected)
    columns, share, messages = _match_columns((names, values), columns_of(actual), rules)
    rows = Rows(list(columns.values()), len(expected), len(actual))
    keys = [columns[at] for at in rules.order_by if at in columns] or rows.columns
    out_of_order = rows.order_differs(keys) if rules.ordered else np.zeros(0, bool)
    if columns and not rows.are_same:
        messages += _row_advice(rows, sql, reason, are_whole=len(columns) == len(names))
    if rows.are_same and out_of_order.any():
        messages.append(advice.of_order(sql, is_reversed=not rows.order_differs(keys, backwards=True).any()))
    if not messages:
        return Comparison(1.0)
    part = len(rows.expected) / max(rows.size, rows.given, 1) * len(columns) / len(names)
    score = _COLUMNS * share + (_ROWS + _ORDER * (not out_of_order.any())) * part
    score = min(0.99, math.floor(score * 100 + 1e-9) / 100)
    if rows.are_same:
        at = np.flatnonzero(out_of_order)
        pairs, of, noun = list(zip(at[:_SHOWN], at[:_SHOWN] + rows.size, strict=True)), len(at), "position"
    else:
        pairs, of, noun = _different_rows(rows), rows.different, "row"
    return Comparison(score, tuple(messages), _difference(rows, pairs), _heading(len(pairs), of, noun))


# -- columns

_Table = tuple[list[str], list[list[SqlValue]]]


def _match_columns(expected: _Table, actual: _Table, rules: Rules) -> tuple[dict[int, Column], float, list[str]]:
    """Match columns by name, by their values and by position.

    Return the pairs by the index of the expected column, the part of the columns that is right, and advice.
    """
    (names, columns), (titles, others) = expected, actual
    matches: dict[int, int] = {}

    def add(fits: Callable[[int, int], bool]) -> dict[int, int]:
        for at in range(len(names)):
            for other in sorted(range(len(titles)), key=lambda other: other != at):
                if at not in matches and other not in matches.values() and fits(at, other):
                    matches[at] = other
        return dict(matches)

    def have_same_values(at: int, other: int) -> bool:
        column = Column("", columns[at], others[other], rules.tolerance)
        return Rows([column], len(columns[at]), len(others[other])).are_same

    def have_similar_values(at: int, other: int) -> bool:
        """Return True if at least half of the values occur among the expected ones: the column is probably renamed."""
        codes = Column("", columns[at], others[other], rules.tolerance).codes
        expected, actual = codes[: len(columns[at])], codes[len(columns[at]) :]
        return 2 * int(np.isin(actual, expected).sum()) >= len(actual)

    named = add(lambda at, other: rules.check_names and names[at].lower() == titles[other].lower())
    alike = add(have_same_values) if rules.check_names or not rules.columns_in_order else named
    if not rules.check_names or len(names) - len(matches) == len(titles) - len(matches) == 1:
        add(lambda *_: True)
    order = [matches[at] for at in sorted(matches)]
    is_in_order = not rules.columns_in_order or order == sorted(order)
    messages = []
    if not rules.check_names and len(names) != len(titles):
        messages = [f"{plural(len(titles), 'column')} instead of {len(names)}"]
    if rules.check_names:
        for at in sorted(matches.keys() - named):
            name, other = shown(names[at]), shown(titles[matches[at]])
            why = f"has the values of {name}" if at in alike else f"is in the position of {name}"
            is_renamed = at in alike or have_similar_values(at, matches[at])
            messages.append(
                f"column {other} {why}: rename it with AS {name}" if is_renamed else f"column {other} instead of {name}"
            )
        messages += lines_on_columns("is missing", [name for at, name in enumerate(names) if at not in matches])
        extra = set(range(len(titles))).difference(matches.values())
        messages += lines_on_columns("is unexpected", [titles[at] for at in sorted(extra)])
    if not is_in_order:
        messages.append(f"the order of the columns differs from {', '.join(map(shown, names))}")
    share = len(named if rules.check_names else matches) / max(len(names), len(titles)) / (1 if is_in_order else 2)
    pairs = {at: Column(names[at], columns[at], others[matches[at]], rules.tolerance) for at in sorted(matches)}
    return pairs, share, messages


def lines_on_columns(problem: str, names: list[str]) -> list[str]:
    """Return a line for each of the first columns, and the number of the others."""
    lines = [f"column {shown(name)} {problem}" for name in names[:_SHOWN]]
    return lines + [f"and {len(names) - _SHOWN:,} more"] * (len(names) > _SHOWN)


# -- rows


def _row_advice(rows: Rows, sql: str, reason: str, *, are_whole: bool) -> Iterator[str]:
    """Yield advice on the number of rows, then on each column.

    Advice on a column is based on the pairs of rows that differ only in this column, if there are any. If a column is
    missing (``are_whole`` is False), rows may look repeated although they are not.
    """
    if rows.given == rows.size:
        sorted_before = ": are the rows sorted as expected before LIMIT?" if uses(sql, "LIMIT") else ""
        count = len(rows.missing)
        yield f"{count:,} of {plural(rows.size, 'row')} differ{'s' if count == 1 else ''}{sorted_before}"
    else:
        yield _count_advice(rows, sql, reason, are_whole=are_whole)
    only, size, expected, actual = rows.near
    for column in rows.columns:
        part = slice(size) if column is only else slice(size, None)
        differ = np.flatnonzero(column.codes[expected[part]] != column.codes[actual[part]])[:_ADVISED]
        values = [column.values[of[part][differ]].tolist() for of in (expected, actual)]
        is_sure = rows.given == rows.size and (column is only or len(rows.columns) == 1)
        why = advice.of_values(list(zip(*values, strict=True)), sql, is_sure=is_sure)
        if why:
            yield f"column {shown(column.name)}: {why}"


def _count_advice(rows: Rows, sql: str, reason: str, *, are_whole: bool) -> str:
    """Return advice on a wrong number of rows, which counts them as the differing rows below it show them."""
    missing, extra = map(len, rows.unpaired)
    pairs, is_extra = rows.different - missing - extra, rows.given > rows.size
    parts = [plural(missing, "missing row")] * (missing > 0) + [plural(extra, "extra row")] * (extra > 0)
    parts += [f"{plural(pairs, 'row')} that differ{'s' if pairs == 1 else ''}"] * (pairs > 0)
    head = join_words(parts) if rows.given else "no rows"
    if reason and not is_extra:
        return reason if reason.startswith("no row") and not rows.given else f"{head}: {reason}"
    terms, others = advice.grouping_of(sql)
    grouped = [column for column in rows.columns if column.name.lower() in terms]
    keys = grouped or [column for column in rows.columns if terms and column.name.lower() in others]
    names = [column.name.lower() for column in rows.columns]
    if keys:  # repeated values of the groups' columns show that there are too many groups, or too few
        expected, actual = rows.repeats(keys)
        if actual and not expected and (more := [shown(term) for term in terms if term not in names]):
            return f"{head}: does {' or '.join(more)} in GROUP BY make too many groups?"
        if grouped and expected and not actual and len(grouped) == len(terms):
            less = [shown(name) for name in others if name in names] or ["a column"]
            return f"{head}: is {' or '.join(less)} missing in GROUP BY?"
    traits = rows.traits if are_whole else rows.traits - {"repeated"}
    mixed = {"mixed"} if missing and extra else set()
    return advice.of_count(head, rows.given, sql, traits | mixed, is_extra=is_extra)


def _different_rows(rows: Rows) -> list[tuple[Any, Any]]:
    """Return the first pairs of rows that differ, None for an absent one: of each kind at least one."""
    *_, expected, actual = rows.near
    missing, extra = rows.unpaired
    order = np.argsort(actual)[: _SHOWN - bool(len(missing)) - bool(len(extra))]
    pairs: list[tuple[Any, Any]] = list(zip(expected[order], actual[order], strict=True))
    pairs += [(row, None) for row in missing[: _SHOWN - len(pairs) - bool(len(extra))]]
    return pairs + [(None, row) for row in extra[: _SHOWN - len(pairs)]]


def _heading(count: int, of: int, noun: str) -> str:
    """Return the line above the differing rows."""
    if count < of:
        return f"The first {count} of {of:,} {noun}s that differ:"
    return f"The {noun} that differs:" if of == 1 else f"The {noun}s that differ:"


def _difference(rows: Rows, pairs: list[tuple[Any, Any]]) -> pd.DataFrame | None:
    """Return the expected rows, the differing values of the result, and the row numbers in the result."""
    if not pairs or not rows.columns:
        return None
    left, right = zip(*pairs, strict=True)

    def differs(column: Column) -> bool:
        return any(b is not None and (a is None or column.codes[a] != column.codes[b]) for a, b in pairs)

    parts = [("expected", column, left) for column in rows.columns]
    parts += [("your result", column, right) for column in rows.columns if differs(column)]
    data = [["missing" if row is None else row - rows.size + 1 for row in right]]
    data += [[_ABSENT if row is None else _short(column.values[row]) for row in chosen] for _, column, chosen in parts]
    headings = [("", "row"), *((part, column.name) for part, column, _ in parts)]
    frame = pd.DataFrame(dict(enumerate(data)), dtype=object)
    return frame.set_axis(pd.MultiIndex.from_tuples(headings), axis=1)


def _short(value: SqlValue) -> SqlValue:
    """Return a value with a text that is not too long to be shown."""
    if isinstance(value, bytes):
        return f"<{plural(len(value), 'byte')}>"
    return shown(value, _WIDTH) if isinstance(value, str) else value
