"""Advice for results that differ: questions and hints, chosen by the values and by the constructs of the statement."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pipemagic.explore.lint.expressions import comparable, grouping_terms
from pipemagic.explore.query import queries_of
from pipemagic.explore.token_tree import nest
from pipemagic.sql import split
from pipemagic.teaching.exercises.constructs import uses
from pipemagic.text import escape_controls, shorten

Pairs = Sequence[tuple[Any, Any]]
"""Pairs of differing values of a column: the expected value and the value of the result."""

_WIDTH = 40

# A trait of the rows, constructs that the statement uses, those that it does not use, and the question.
_MIXED = (
    ("mixed", ("LIMIT",), (), "are the rows sorted as expected before LIMIT?"),
    ("mixed", ("WHERE",), (), "does a condition select other rows?"),
    ("mixed", ("HAVING",), (), "does a condition select other rows?"),
    ("mixed", (), (), ""),
)
_EXTRA = (
    (
        "",
        ("JOIN",),
        ("ON", "USING", "NATURAL", "WHERE"),
        "a join without a condition combines every row with every other",
    ),
    ("repeated", ("JOIN",), (), "does the join multiply rows?"),
    ("repeated", (), (), "is DISTINCT or GROUP BY missing?"),
    *_MIXED,
    ("", ("LIMIT",), (), "is LIMIT too large?"),
    ("", (), (), "is a condition missing or too wide?"),
)
_MISSING = (
    ("none", ("WHERE",), (), "is a condition never true?"),
    ("none", ("JOIN",), (), "is the condition of the join never true?"),
    ("one", ("aggregate function",), ("GROUP BY",), "is GROUP BY missing?"),
    (
        "empty",
        ("LEFT JOIN", "WHERE"),
        (),
        "does a condition in WHERE remove the rows without a match? In ON it does not",
    ),
    ("empty", ("JOIN",), ("LEFT JOIN",), "LEFT JOIN keeps rows without a match"),
    ("repeated", ("DISTINCT",), (), "does DISTINCT remove rows that are needed?"),
    ("repeated", ("UNION",), (), "does UNION remove rows that are needed?"),
    *_MIXED,
    ("", ("LIMIT",), (), "is LIMIT too small?"),
    ("", ("WHERE",), (), "is a condition too strict?"),
    ("", ("HAVING",), (), "is a condition too strict?"),
    ("", ("JOIN",), ("LEFT JOIN",), "does the join remove rows without a match?"),
    ("", (), (), ""),
)


def shown(text: str, width: int = _WIDTH) -> str:
    """Return a name or a value in the form for messages: short, on one line."""
    return shorten(escape_controls(text[: width + 1]), width)


def of_count(head: str, given: int, sql: str, traits: set[str], *, is_extra: bool) -> str:
    """Return ``head``, a wrong number of rows, with a question.

    ``traits`` of the rows that are missing or too many are ``repeated`` if the other result has them all, ``empty`` if
    each has a NULL or 0, and ``mixed`` if some are missing and others too many. Without a statement, and if one changes
    something, there is no question.
    """
    traits = traits | {"", {0: "none", 1: "one"}.get(given, "")}
    if not sql or any(not statement.only_reads for statement in split(sql)):
        return head
    why = next(
        why
        for trait, used, absent, why in (_EXTRA if is_extra else _MISSING)
        if trait in traits and all(uses(sql, name) for name in used) and not any(uses(sql, name) for name in absent)
    )
    return f"{head}: {why}" if why else head


def grouping_of(sql: str) -> tuple[list[str], list[str]]:
    """Return the names of the terms of GROUP BY, and of the selected columns that are none, in lower case.

    They are those of the last statement; a term that the result contains has its name there. A UNION has none.
    """
    queries = queries_of(nest(split(sql)[-1].tokens).top, {}) if split(sql) else []
    if len(queries) != 1:
        return [], []
    selected = [(comparable(item), (alias or comparable(item)).lower(), item) for item, alias in queries[0].select_list]
    names = {str(number): name for number, (_, name, _) in enumerate(selected, 1)}
    names |= {text: name for text, name, _ in selected}
    terms = [names.get(text, text) for text in map(comparable, grouping_terms(queries[0]))]
    columns = [name for _, name, item in selected if item.is_name(len(item.items) - 1) and len(item.items) in (1, 3)]
    return terms, [name for name in columns if name not in terms]


def of_order(sql: str, *, is_reversed: bool) -> str:
    """Return advice for the right rows in a wrong order."""
    why = "is ASC or DESC wrong?" if is_reversed else "which columns are they sorted by?"
    order = "reversed" if is_reversed else "wrong"
    return f"the rows are right, but their order is {order}: {why if uses(sql, 'ORDER BY') else 'is ORDER BY missing?'}"


def of_values(pairs: Pairs, sql: str, *, is_sure: bool) -> str:
    """Return advice that fits all pairs of a column; '' if none fits.

    Pairs that are not ``is_sure`` may be of rows that have nothing to do with each other.
    """
    kinds = {(_kind(expected), _kind(actual)) for expected, actual in pairs}
    for kind, fits, why in _FITTING:
        is_likely = fits is not _is_truncated or ("/" in sql if sql else any(actual for _, actual in pairs))
        if is_likely and kinds == {(kind, kind)} and all(fits(expected, actual) for expected, actual in pairs):
            return why
    reason = _of_numbers(pairs, sql if is_sure else "") if kinds == {("number", "number")} else ""
    is_alone = is_sure and len(pairs) == 1
    if not reason and kinds and (is_alone or all(expected != actual for expected, actual in kinds)):
        expected, actual = pairs[0]
        hint = ": does coalesce() help?" if actual is None and expected == 0 and sql else ""
        return f"expected {_described(expected)}, got {_described(actual)}{hint}"
    return reason


_KINDS: dict[type, str] = {type(None): "NULL", str: "text", bytes: "blob"}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "number")


def _described(value: Any) -> str:
    return f"{_kind(value)} {shown(repr(value))}" if isinstance(value, str | int | float) else _kind(value)


def _is_close(first: float, second: float) -> bool:
    if isinstance(first, int) and isinstance(second, int):
        return first == second
    return math.isfinite(first) and math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12)


def _is_truncated(expected: float, actual: float) -> bool:
    return isinstance(actual, int) and math.isfinite(expected) and actual == math.trunc(expected)


_FITTING: tuple[tuple[str, Callable[[Any, Any], bool], str], ...] = (
    ("text", lambda expected, actual: expected.strip() == actual.strip(), "leading or trailing spaces differ"),
    ("text", lambda expected, actual: expected.lower() == actual.lower(), "upper and lower case differ"),
    ("number", _is_truncated, "integer division? 1 / 2 is 0, 1.0 / 2 is 0.5"),
    ("number", lambda expected, actual: _is_close(expected, 100 * actual), "got a fraction, expected a percentage?"),
    ("number", lambda expected, actual: _is_close(100 * expected, actual), "got a percentage, expected a fraction?"),
    ("number", lambda expected, actual: _is_close(expected, -actual), "the sign is reversed"),
)  # fmt: skip


def _of_numbers(pairs: Pairs, sql: str) -> str:
    """Return advice for numbers by their digits or their size."""
    for digits in range(8) if any(actual for _, actual in pairs) else ():
        if all(_is_close(actual, round(expected, digits)) for expected, actual in pairs):
            return "rounded too early, or to too few digits?"
        if all(_is_close(expected, round(actual, digits)) for expected, actual in pairs):
            return f"more digits than expected: round(..., {digits})?"
    larger = {actual > expected for expected, actual in pairs}
    if len(larger) > 1 or not uses(sql, "aggregate function"):
        return ""
    if larger == {True} and uses(sql, "JOIN") and not uses(sql, "LEFT JOIN"):
        return "larger than expected: does the join multiply rows?"
    if larger == {True} and uses(sql, "count(*)") and all(isinstance(actual, int) for _, actual in pairs):
        return "larger than expected: does count(*) count rows that it should not, such as rows with NULL?"
    return "larger than expected" if larger == {True} else "smaller than expected"
