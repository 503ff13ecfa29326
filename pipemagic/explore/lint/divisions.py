"""Divisions by 0, which are NULL, and of two integers, which drop the fraction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import (
    SHOWN,
    comparable,
    end_of_call,
    grouping_terms,
    is_call,
    number_value,
    without_parentheses,
    written,
)
from pipemagic.explore.query import DEPTH, QUERY, Group, Query
from pipemagic.sql import Token
from pipemagic.sql.type_affinity import is_decimal
from pipemagic.text import shorten


def zero_divisions(context: Context) -> Iterator[str]:
    """Yield each division by 0, or by a parameter that is 0 and that no condition can have excluded."""
    queries, args = context.queries, context.args
    parameters = [
        item.text for query in queries for item in query.part.items if isinstance(item, Token) and item.kind == "param"
    ]
    for query in queries:
        for index, word in enumerate(query.part.words()):
            if word in ("/", "%"):
                right = without_parentheses(query.part.slice(index + 1, index + 2))
                shown = written(right)
                if number_value(right) == 0:
                    yield f"a division by {shown} is NULL: SQLite raises no error"
                elif args.get(shown, "") == 0 and parameters.count(shown) == 1:
                    yield f"a division by {shown}, which is 0, is NULL: SQLite raises no error"


# -- divisions of integers

_MOST = 20  # divisions of an expression that are compared
_SIGNS = ("+", "-", "DISTINCT")
_TIGHT = frozenset(["||", "->", "->>", "COLLATE"])  # operators that bind more tightly than a division
_CONDITION = frozenset(
    ["=", "==", "<>", "!=", "<", ">", "<=", ">=", "AND", "OR", "NOT", "IN", "IS", "LIKE", "GLOB", "BETWEEN", "EXISTS",
     "ISNULL", "NOTNULL"]
)  # fmt: skip
_OF_INTEGERS = frozenset(["sum", "min", "max", "abs", "coalesce", "ifnull", "nullif", "iif"])
"""Functions that return an integer if their arguments are integers."""
_FRACTIONS = _OF_INTEGERS | {"avg", "total", "round"}
"""Functions whose argument needs the fraction; others, such as floor and printf, may be called to drop it."""


def integer_divisions(context: Context) -> Iterator[str]:
    """Yield each division of integers in a SELECT list, unless usually only the whole part is needed.

    That is so where it is grouped by, multiplied again, or an argument of a function such as floor. A column of
    decimals stores 10.00 as an integer.
    """
    if not context.statement.is_query or "/" not in context.text:
        return
    queries = context.queries
    terms = [term for query in queries for keyword in ("GROUP", "PARTITION") for term in grouping_terms(query, keyword)]
    grouped = {comparable(one) for term in terms for one in (term, term.slice(-1))}
    factors = _factors_of_products(queries)
    for query in queries:
        selected = query.select_list if query.clause("SELECT").word(0) != "DISTINCT" else ()
        for number, (item, alias) in enumerate(selected, 1):
            if {str(number), alias.lower(), comparable(without_parentheses(item))} & grouped:
                continue
            found: list[tuple[Group, Group]] = []
            _is_integer(query, item, found)
            for left, right in found[:_MOST]:
                division = f"{comparable(left)} / {comparable(right)}"
                if comparable(right.slice(-1)) in factors:
                    continue  # x / 100 beside x % 100, x / 10 * 10
                if not _is_exact(left, right) and not any(division in term for term in grouped):
                    shown = shorten(f"{written(left)} / {written(right)}", SHOWN)
                    decimals = next(chain(_decimals(query, left), _decimals(query, right)), "")
                    yield f"{shown} divides integers{decimals} and drops the fraction: write 1.0 * {shown}"


def _decimals(query: Query, group: Group) -> Iterator[str]:
    """Yield which values are integers for each column of decimals in an expression, for a note."""
    for index, item in enumerate(group.items):
        if isinstance(item, Group):
            yield from _decimals(query, item)
        elif (declared := query.declared(group.slice(index, index + 1))) and is_decimal(declared):
            yield f" where values of {shorten(item.text, SHOWN)} ({declared}) are whole"


def _factors_of_products(queries: Sequence[Query]) -> set[str]:
    """Return the operands of * and %, without the divisor of a / b * c."""
    return {
        comparable(query.part.slice(at, at + 1))
        for query in queries
        for index, word in enumerate(query.part.words())
        if word in ("*", "%")
        for at in (index - 1, index + 1)
        if at > index or (at >= 0 and "/" not in map(query.part.word, range(at - 3, at)))
    }


def _is_exact(left: Group, right: Group) -> bool:
    """Return True if a division by a number leaves no fraction, or is rounded up on purpose: (x + 2) / 3."""
    divisor, dividend = number_value(without_parentheses(right)), number_value(left)
    if not divisor or divisor == 1 or (dividend is not None and dividend % divisor == 0):
        return divisor is not None
    inner = left.group(len(left.items) - 1) or Group()
    last = len(inner.items) - 1
    return inner.word(last - 1) in ("+", "-") and inner.word(last).isdecimal()


def _is_integer(query: Query, group: Group, found: list[tuple[Group, Group]] | None, depth: int = 0) -> bool:
    """Return True if each expression of a list is known to be an integer.

    Adds the operands of the divisions of integers to ``found``, unless it is None: the whole part is then needed.
    """
    if depth > DEPTH or group.word(0) in QUERY:
        return depth <= DEPTH and _is_count(group)
    integers = [_is_integer_expression(query, item, found, depth) for item in group.split()]
    return bool(integers) and all(integers)


def _is_integer_expression(query: Query, item: Group, found: list[tuple[Group, Group]] | None, depth: int) -> bool:
    if not _CONDITION.isdisjoint(item.words()):
        return True  # in a condition usually only the whole part is needed
    start, is_product, result = 0, True, True  # of the term that is being read
    for sign, begin, end in _operands(item):
        operand = item.slice(begin, end)
        integer = _is_integer_operand(query, operand, found, depth)
        if sign in ("+", "-"):
            start, is_product = begin, True
        elif sign == "/" and is_product and integer and found is not None and len(found) < _MOST:
            found.append((item.slice(start, begin - 1), operand))
        is_product, result = is_product and integer, result and integer
    return result


def _operands(item: Group) -> Iterator[tuple[str, int, int]]:
    """Yield the operands of +, -, *, / and % as the operator before, '+' for the first, and their start and end."""
    sign, start, is_open = "+", 0, False
    for at, word in enumerate(item.words()):
        if is_open and word in ("+", "-", "*", "/", "%"):
            yield sign, start, at
            sign, start, is_open = word, at + 1, False
        elif word not in _SIGNS:
            is_open = True
    yield sign, start, len(item.items)


def _is_integer_operand(query: Query, part: Group, found: list[tuple[Group, Group]] | None, depth: int) -> bool:
    part = part.slice(next((at for at, word in enumerate(part.words()) if word not in _SIGNS), 0))
    inner, last = part.group(0), len(part.items) - 1
    if not part.items or not _TIGHT.isdisjoint(part.words()):
        return False
    if inner is not None and last == 0:
        if inner.word(0) == "CASE":
            values = [_is_integer(query, value, found, depth + 1) for value in _values_of_case(inner)]
            return all(values)
        return len(inner.split()) == 1 and _is_integer(query, inner, found, depth + 1)
    arguments = part.group(1)
    if part.word(0) == "CAST" and arguments is not None:
        cut = next((at for at, word in enumerate(arguments.words()) if word == "AS"), 0)
        to_integer = "INT" in comparable(arguments.slice(cut)).upper()
        value = arguments.slice(0, cut)
        _is_integer(query, value, None if to_integer else found, depth + 1)
        is_column = len(value.items) in (1, 3) and value.group(0) is None
        return to_integer and is_column  # the cast of a part of a text is often exact
    if arguments is not None and is_call(part, 0) and end_of_call(part, 0) > last:
        name = part.name(0).lower()
        integers = _is_integer(query, arguments, found if name in _FRACTIONS else None, depth + 1)
        return name in ("count", "length") or (integers and name in _OF_INTEGERS)
    if last in (0, 2, 4) and (column := query.column(part, last)) is not None:
        table = column[0].table
        columns = () if table is None or table.parsed else table.columns
        types = [one.type for one in columns if one.name.lower() == column[1]]
        # SQLite gives a column INTEGER affinity if its type contains INT.
        return bool(types) and ("INT" in types[0].upper() or is_decimal(types[0]))
    return last == 0 and part.word(0).isdecimal()


def _values_of_case(case: Group) -> list[Group]:
    words = case.words()
    cuts = [at for at, word in enumerate(words) if word in ("WHEN", "THEN", "ELSE", "END")]
    return [case.slice(start + 1, end) for start, end in pairwise(cuts) if words[start] in ("THEN", "ELSE")]


def _is_count(query: Group) -> bool:
    """Return True for SELECT count(...) FROM ... without a GROUP BY."""
    return query.word(1) == "COUNT" and query.group(2) is not None and query.clause(3) == "FROM"
