"""Digests of results, for exercises that must not contain their expected rows.

Stored files of exercises contain these values: a change of them makes right answers to these exercises wrong.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import pandas as pd

from pipemagic.hrana.values import SqlValue
from pipemagic.teaching.exercises.advice import shown
from pipemagic.teaching.exercises.comparison import Rules, lines_on_columns
from pipemagic.teaching.exercises.exercise import Probe
from pipemagic.teaching.exercises.matching import LARGEST_WHOLE, SMALLEST, columns_of, short_moment
from pipemagic.text import plural

_WHOLE = 1e-9
"""Floats within this part of a whole number are that number."""
_SHIFT = 0.38196601125
"""Keep the limits of rounding away from numbers with few digits."""


def digest(frame: pd.DataFrame, rules: Rules, salt: bytes, columns: Sequence[str] = ()) -> str:
    """Return a slow hash that is the same for results that compare as equal.

    ``columns`` are the names of the expected columns in their order, by default those of the frame; they are needed
    for ``rules.order_by`` if the columns may come in any order. Numbers are rounded to the digits of the tolerance, so
    equal results may have different digests if a number is at a limit of rounding, which is improbable for those
    that differ only in their last bits. ISO texts of the same moment are equal, because a frame does not tell their
    form. If names are ignored, columns in any order are sorted by their values, which may fail for columns with the
    same values in other rows.
    """
    names, values = columns_of(frame)
    names = [name.lower() if rules.check_names else "" for name in names]
    table = [[canonical(value, rules.tolerance) for value in column] for column in values]
    order = list(range(len(names)))
    if not rules.columns_in_order:
        order.sort(key=lambda at: (names[at], [] if rules.check_names else sorted(table[at])))
    lines = list(zip(*(table[at] for at in order), strict=True))
    if not rules.ordered:
        lines.sort()
    elif keys := _key_columns(names, columns, rules):
        parts = groupby(range(len(lines)), key=lambda row: [table[at][row] for at in keys])
        lines = [line for _, rows in parts for line in sorted(lines[row] for row in rows)]
    content = hashlib.sha256(ascii([names[at] for at in order]).encode())
    for line in lines:
        content.update(ascii(line).encode())
    return hashlib.scrypt(content.digest(), salt=salt, n=2**14, r=8, p=1).hex()


def in_any_order(rules: Rules) -> Rules:
    """Return the rules for rows in any order."""
    return replace(rules, ordered=False, order_by=())


def outline(frame: pd.DataFrame, probe: Probe) -> list[str]:
    """Return what is wrong with a result that has another digest, without values: columns, number of rows, order."""
    (names, _), rules, wanted = columns_of(frame), probe.rules, list(probe.columns)
    missing, extra = _without(wanted, names), _without(names, wanted)
    lines = []
    if not rules.check_names:
        lines += [f"{plural(len(names), 'column')} instead of {len(wanted)}"] * (len(names) != len(wanted))
    elif len(missing) == len(extra) == 1:
        lines.append(f"column {shown(extra[0])} instead of {shown(missing[0])}")
    else:
        lines += lines_on_columns("is missing", missing) + lines_on_columns("is unexpected", extra)
    if rules.check_names and rules.columns_in_order and not (missing or extra):
        in_order = [name.lower() for name in names] == [name.lower() for name in wanted]
        lines += [] if in_order else [f"the order of the columns differs from {', '.join(map(shown, wanted))}"]
    if probe.rows not in (-1, len(frame)):
        lines.append(f"{plural(len(frame), 'row')} instead of {probe.rows:,}")
    if lines or probe.rows == -1:
        return lines or ["the result is not correct"]
    salt = bytes.fromhex(probe.salt)
    if probe.unordered and digest(frame, in_any_order(rules), salt, probe.columns) == probe.unordered:
        return ["the rows are right, but their order is wrong"]
    return ["the columns and the number of rows are right, the values are not"]


def _without(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the names that are not among others, or occur more often than there."""
    left = Counter(map(str.lower, names)) - Counter(map(str.lower, others))
    return [name for name in names if name.lower() in left]


def _key_columns(names: list[str], columns: Sequence[str], rules: Rules) -> list[int]:
    """Return the indexes of the columns by which the rows are sorted."""
    if columns and rules.check_names:
        wanted = [columns[at].lower() for at in rules.order_by]
        return [names.index(name) for name in wanted if name in names]
    return [at for at in rules.order_by if at < len(names)]


def canonical(value: SqlValue, tolerance: float) -> str:
    """Return a text that is the same for equal values."""
    match value:
        case None:
            return ""
        case str():
            return f"t{short_moment(value)}"
        case bytes():
            return f"b{value.hex()}"
        case float() if math.isfinite(value):
            return f"n{_rounded(value, max(tolerance, 1e-15))}"
    return f"n{value}"


def _rounded(value: float, tolerance: float) -> str:
    """Return a float with the digits of a tolerance, or the whole number that it is almost."""
    whole = round(value)
    if abs(value) < LARGEST_WHOLE and abs(value - whole) <= min(max(_WHOLE * abs(value), tolerance * SMALLEST), 0.01):
        return str(whole)
    exponent = math.floor(math.log10(abs(value) * tolerance) + _SHIFT)
    return f"{math.floor(value / 10.0**exponent + _SHIFT)}e{exponent}"
