"""Texts and numbers that stand where a condition is expected: x = 'a' OR 'b', SET a = 1 AND b = 2."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import number_value, string_value, written
from pipemagic.explore.query import Group, Query
from pipemagic.sql import Token

_EQUAL = ("=", "==")


def constant_conditions(context: Context) -> Iterator[str]:
    """Yield each OR whose right side is a text or a number beside a comparison with =."""
    if "OR" in context.text.upper():
        for query in context.queries:
            yield from _constant_conditions(query.part)


def _constant_conditions(part: Group) -> Iterator[str]:
    words = part.words()
    for index, word in enumerate(words):
        if word != "OR" or not _is_constant(part, index + 1):
            continue
        value = part.slice(index + 1, index + 2)
        if words[index - 2 : index - 1] and words[index - 2] in _EQUAL and _is_literal(part, index - 1):
            name = _name_before(part, index - 2)
            if name:
                values = ", ".join([written(part.slice(index - 1, index)), *_constants(part, index)])
                is_own = f"OR {written(value)} is a condition of its own, which is {_truth(value)} true"
                yield f"{is_own}: write {name} IN ({values})"
        elif index == 1 and part.parent is not None and part.parent.word(part.index - 1) == "IN":
            values = ", ".join([written(part.slice(0, 1)), *_constants(part, index)])
            if len(words) == 2 * len(values.split(", ")) - 1:
                yield f"{written(part)} is one condition, 0 or 1: write ({values})"


def _constants(part: Group, index: int) -> Iterator[str]:
    """Yield the constants of OR 'b' OR 'c' from an index on."""
    while part.word(index) == "OR" and _is_constant(part, index + 1):
        yield written(part.slice(index + 1, index + 2))
        index += 2


def _is_constant(part: Group, index: int) -> bool:
    """Return True for a text or a number other than 0 and 1 that no operator follows."""
    follows = part.word(index + 1)
    return _is_value(part, index) and (follows in ("", "OR", "AND") or bool(part.clause(index + 1)))


def _is_value(part: Group, index: int) -> bool:
    return _is_literal(part, index) and number_value(part.slice(index, index + 1)) not in (0, 1)


def _is_literal(part: Group, index: int) -> bool:
    item = part.items[index] if 0 <= index < len(part.items) else None
    return isinstance(item, Token) and item.kind in ("string", "number")


def _is_constant_value(part: Group, index: int) -> bool:
    """Return True for a literal or a parameter; another value and a condition behind AND may be meant."""
    item = part.items[index] if index < len(part.items) else None
    return isinstance(item, Token) and item.kind in ("string", "number", "param")


def _truth(value: Group) -> str:
    """Return how often a constant is true: a text counts as the number at its start."""
    text = string_value(value)
    digits = re.match(r"\s*[+-]?[\d.]*", text) if text is not None else None
    return "always" if digits is None or re.search("[1-9]", digits[0]) else "never"


def _name_before(part: Group, index: int) -> str:
    """Return the column that ends before an index; '' for any other expression."""
    start = index - 1
    while part.word(start - 1) == "." and part.is_name(start - 2):
        start -= 2
    return written(part.slice(start, index)) if start >= 0 and part.is_name(start) else ""


def joined_assignments(context: Context) -> Iterator[str]:
    """Yield each assignment of an UPDATE that continues with AND and another assignment."""
    if "SET" in context.text.upper():
        for query in context.queries:
            yield from _joined_assignments(query)


def _joined_assignments(query: Query) -> Iterator[str]:
    names = {name.lower() for source in query.sources for name in source.names}
    for item in query.clause("SET").split():
        assignments = _assignments(item)
        if len(assignments) > 1 and all(part.name(0).lower() in names for part in assignments):
            name, parts = assignments[0].name(0), ", ".join(map(written, assignments))
            yield f"AND makes one condition of it, so {name} becomes 0 or 1: write SET {parts}"


def _assignments(item: Group) -> list[Group]:
    """Return the parts of a = 1 AND b = 2; an empty list for a condition that may be meant, such as a = b AND c = 2."""
    words = item.words()
    cuts = [-1, *(at for at, word in enumerate(words) if word == "AND"), len(words)]
    parts = [item.slice(start + 1, end) for start, end in pairwise(cuts)]
    is_simple = len(parts[0].items) == 3 and _is_constant_value(parts[0], 2)
    return parts if is_simple and all(part.is_name(0) and part.word(1) == "=" for part in parts) else []
