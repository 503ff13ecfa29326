"""Expressions of a statement as the rules read and show them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from pipemagic.explore.query import Query
from pipemagic.explore.sqlite_reference import FUNCTIONS, KEYWORDS
from pipemagic.explore.token_tree import DEPTH, QUERY, Group
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import Token, unquote

SHOWN = 60
"""Characters of an expression in a note."""

_QUALIFIER = re.compile(r"\b[A-Za-z_]\w*\.")


def next_to(group: Group, index: int) -> str:
    """Return the word or sign at an index in capitals, ``)`` for a group, ``(`` before the first one in a group."""
    if index < 0:
        return "(" if group.parent is not None else ""
    return ")" if group.group(index) is not None else group.word(index)


def without_parentheses(term: Group) -> Group:
    """Return an expression without COLLATE and the parentheses around it."""
    while True:
        inner = term.group(0)
        if len(term.items) == 1 and inner is not None:
            term = inner
        elif term.word(len(term.items) - 2) == "COLLATE":
            term = term.slice(0, -2)
        else:
            return term


def is_call(group: Group, index: int) -> bool:
    """Return True if a function is called at an index."""
    return group.is_name(index) and group.group(index + 1) is not None and group.word(index) not in KEYWORDS


def kind_of_call(group: Group, index: int) -> str | None:
    """Return the kind of the function that is called at an index; None if it is unknown."""
    name, arguments = group.name(index).lower(), group.group(index + 1)
    several = arguments is not None and len(arguments.split()) > 1
    if several and name in ("min", "max"):
        return "function"
    function = FUNCTIONS.get(name)
    return None if function is None else function.kind


def end_of_call(group: Group, index: int) -> int:
    """Return the index after a call with its FILTER and OVER."""
    end = index + 2
    while group.word(end) in ("FILTER", "OVER"):
        end += 2
    return end


def number_value(operand: Group) -> float | None:
    """Return the value of a number; None for anything else."""
    try:
        return float(operand.word(0)) if len(operand.items) == 1 and operand.word(0)[:1] in "0123456789." else None
    except ValueError:  # a sign, a group, or a hexadecimal number
        return None


def comparable(group: Group) -> str:
    """Return an expression for comparisons: in lower case, without qualifiers, a single name without quotes."""
    text = group.name(0) if len(group.items) == 1 and group.is_name(0) else _QUALIFIER.sub("", written(group))
    return text.lower()


def written(group: Group) -> str:
    """Return an expression as text, with single blanks."""
    text = ""
    for index, item in enumerate(group.items):
        piece = item.text if isinstance(item, Token) else written(item)
        piece = f"({piece})" if isinstance(item, Group) and item.word(0) != "CASE" else piece
        is_function = piece[0] == "(" and group.is_name(index - 1) and group.word(index - 1) not in KEYWORDS - {"CAST"}
        joined = not text or is_function or piece in (".", ",") or text.endswith(".")
        text += piece if joined else f" {piece}"
    return text


def places(item: Group, depth: int = 0) -> Iterator[tuple[Group, int]]:
    """Yield each place of an expression outside its subqueries and the arguments of aggregates."""
    index = 0 if depth <= DEPTH and item.word(0) not in QUERY else len(item.items)
    while index < len(item.items):
        inner = item.group(index)
        if inner is None:
            yield item, index
            if is_call(item, index):
                end, inner = end_of_call(item, index), item.group(index + 1)
                if item.word(end - 2) != "OVER" and kind_of_call(item, index) == "aggregate":
                    inner = None
                index = end - 1
        if inner is not None:
            yield from places(inner, depth + 1)
        index += 1


def grouping_terms(query: Query, keyword: str = "GROUP") -> list[Group]:
    """Return the terms of GROUP BY or PARTITION BY."""
    return [without_parentheses(term) for term in query.clause(keyword).slice(1).split()]


def start_of(group: Group) -> int | None:
    """Return the offset of the first token of an expression in the statement; None for an empty one."""
    item = group.items[0] if group.items else None
    return start_of(item) if isinstance(item, Group) else None if item is None else item.start


def arguments_of(expression: Group) -> list[Group] | None:
    """Return the arguments of an expression that is one call of a function; None for any other expression."""
    inner = expression.group(1) if len(expression.items) == 2 and is_call(expression, 0) else None
    return None if inner is None else inner.split()


def string_value(expression: Group) -> str | None:
    """Return the text of a string; None for any other expression."""
    item = expression.items[0] if len(expression.items) == 1 else None
    return unquote(item.text) if isinstance(item, Token) and item.kind == "string" else None


def text_of(expression: Group, args: Mapping[str, SqlValue]) -> str | None:
    """Return the text of a string or of a parameter that is a text; None for any other expression."""
    value = args.get(written(expression)) if len(expression.items) == 1 else None
    return value if isinstance(value, str) else string_value(expression)


def calls(query: Query, names: Collection[str]) -> Iterator[tuple[str, Group]]:
    """Yield the name in lower case and the expression of each call of some functions outside of nested parentheses."""
    part = query.part
    for index, item in enumerate(part.items):
        if isinstance(item, Group) and is_call(part, index - 1) and (name := part.name(index - 1).lower()) in names:
            yield name, part.slice(index - 1, index + 1)
