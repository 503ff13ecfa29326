"""Divisions by 0, which are NULL, and of two integers, which drop the fraction."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, islice
from typing import NamedTuple

from pipemagic.explore.comparisons import compared_pairs
from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import (
    comparable,
    end_of_call,
    grouping_terms,
    is_call,
    next_to,
    number_value,
    without_parentheses,
    written,
)
from pipemagic.explore.lint.numbers import BITS, CONDITION, LIKE_ARGUMENTS, TIGHT, Numbers, operands
from pipemagic.explore.query import Query
from pipemagic.explore.sqlite_reference import BEFORE_OPERAND
from pipemagic.explore.token_tree import DEPTH, Group, split_alias
from pipemagic.sql import Token
from pipemagic.sql.type_affinity import affinity, is_decimal


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

_MOST = 20  # divisions of a statement that are shown, and of a chain that are read
_BOUNDARIES = CONDITION | BITS | frozenset(
    [",", "AS", "CASE", "WHEN", "THEN", "ELSE", "END", "BY", "DISTINCT", "ALL", "ASC", "DESC", "NULLS", "ESCAPE",
     "PARTITION", "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS", "NATURAL"]
)  # fmt: skip
"""Words and signs outside of the operands of + - * / %, as are those that begin a clause."""

_FRACTIONS = LIKE_ARGUMENTS | {"avg", "total", "round"}
"""Functions that need the fraction of their argument; others, such as floor and printf, may drop it on purpose."""

_FRACTION_FORMAT = re.compile(r"'(?:[^%]|%%)*%[^%a-z]*[fFeEgG](?:[^%]|%%)*'")
"""Matches a format with one conversion, that of a number with a fraction."""

_RANKS = frozenset(["row_number", "rank", "dense_rank", "ntile"])
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class _Term(NamedTuple):
    """An expression of + - * / % in a query, between two boundaries.

    ``group`` are its items, ``start`` is the index of the first one, ``before`` and ``after`` are the words around it,
    ``clause`` is the keyword of its clause, in which ``place`` commas precede it.
    """

    query: Query
    group: Group
    start: int
    before: str
    after: str
    clause: str
    place: int


class _Division(NamedTuple):
    """The operands of a division in a term."""

    term: _Term
    left: Group
    right: Group

    @property
    def text(self) -> str:
        """The division as a note shows it."""
        return f"{written(self.left)} / {written(self.right)}"


def integer_divisions(context: Context) -> Iterator[str]:
    """Yield each division of integers, unless only the whole part may be needed.

    That is so where it is grouped by, multiplied again, compared with an integer, or an argument of a function such as
    floor. A column of decimals stores 10.00 as an integer.
    """
    if "/" not in context.text:
        return
    usage = _Usage(context)
    divisions = list(islice(_divisions(context, usage), _MOST))
    for division in divisions:
        query = division.term.query
        if usage.contains_another(division):  # whose note is enough
            continue
        decimals = next(chain(_decimals(query, division.left), _decimals(query, division.right)), "")
        if not decimals and "decimal" in map(partial(usage.numbers.kind, query), division[1:]):
            continue  # which column has whole values is not known
        yield f"{division.text} divides integers{decimals} and drops the fraction: write 1.0 * {division.text}"


def _decimals(query: Query, group: Group) -> Iterator[str]:
    """Yield which values are integers for each column of decimals in an expression, for a note."""
    for index, item in enumerate(group.items):
        if isinstance(item, Group):
            yield from _decimals(query, item)
        elif (declared := query.declared(group.slice(index, index + 1))) and is_decimal(declared):
            yield f" where values of {item.text} ({declared}) are whole"


def _divisions(context: Context, usage: _Usage) -> Iterator[_Division]:
    """Yield the first division of each chain, such as a / b / c, that drops a fraction which is needed."""
    for query in context.queries:
        if "/" not in query.part.words():
            continue
        for term in usage.terms(query):
            for chained in _chains(usage.numbers, term) if "/" in term.group.words() else ():
                yield from islice(filter(usage.loses_fraction, chained), 1)


def _terms(query: Query) -> Iterator[_Term]:
    """Yield the expressions of a query."""
    part, words = query.part, query.part.words()
    start, clause, place = 0, "", 0
    for at, word in enumerate([*words, ""]):
        keyword = "PARTITION" if word == "PARTITION" else part.clause(at)
        if at < len(words) and not keyword and word not in _BOUNDARIES:
            continue
        if at > start:
            group = split_alias(part.slice(start, at))[0]
            yield _Term(query, group, start, part.word(start - 1), word, clause, place)
        place = 0 if keyword else place + (word == ",")
        start, clause = at + 1, keyword or clause


def _chains(numbers: Numbers, term: _Term) -> Iterator[list[_Division]]:
    """Yield the divisions of integers in each product: a / b and a / b / c of a / b / c + d."""
    item, divisions = term.group, list[_Division]()
    start, is_integer, is_cut = 0, True, False
    for sign, begin, end in operands(item):
        if sign in ("+", "-"):
            yield divisions
            start, is_integer, is_cut, divisions = begin, True, False, []
        if sign == "%" and divisions:
            is_cut, divisions = True, []  # x / 100 % 10 is a digit
        right = item.slice(begin, end)
        is_integer = is_integer and numbers.kind(term.query, right) in ("integer", "decimal")
        if sign == "/" and is_integer and not is_cut and len(divisions) < _MOST:
            divisions.append(_Division(term, item.slice(start, begin - 1), right))
    yield divisions


class _Usage:
    """What the statement does with its divisions."""

    def __init__(self, context: Context) -> None:
        self.numbers = Numbers(context.args, context.tables)
        self._context, queries = context, context.queries
        self._around_others: set[int] = set()
        self._terms: dict[Query, list[_Term]] = {}
        self._pairs: dict[Query, dict[int, list[tuple[str, Group]]]] = {}
        grouping = [
            term for query in queries for word in ("GROUP", "PARTITION") for term in grouping_terms(query, word)
        ]
        self._grouped = {comparable(part) for term in grouping for part in (term, term.slice(-1))}
        self._factors = _factors_of_products(queries)

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(_keys(self._context.queries))

    def terms(self, query: Query) -> list[_Term]:
        """Return the expressions of a query."""
        if query not in self._terms:
            self._terms[query] = list(_terms(query))
        return self._terms[query]

    def loses_fraction(self, division: _Division) -> bool:
        """Return True for a division that may have a fraction, which is needed."""
        if self._is_whole(division.left, division.right):
            return False
        path: list[Token | Group] = []
        is_needed = self._is_needed(division, division.term, path)
        self._around_others.update(map(id, path if is_needed else ()))
        return is_needed

    def contains_another(self, division: _Division) -> bool:
        """Return True for a division of the result of another one: (a / b) / c."""
        return any(id(item) in self._around_others for item in (*division.left.items, *division.right.items))

    def _is_whole(self, left: Group, right: Group) -> bool:
        """Return True for a division that has no fraction, or whose parts are both used: x / 100 beside x % 100."""
        if comparable(right.slice(-1)) in self._factors or _is_exact(left, right) or _is_rest(left, right):
            return True
        if self._context.args.get(written(right)) == 0:  # which has a note of its own
            return True
        if number_value(right) is not None and not _RANKS.isdisjoint(map(str.lower, left.words())):
            return True  # the number of a page or group
        text = f"{comparable(left)} / {comparable(right)}"
        return any(text in term for term in self._grouped)

    def _is_needed(self, division: _Division, term: _Term, path: list[Token | Group]) -> bool:
        """Return True if the value of a term that contains a division is known to need its fraction.

        ``path`` are the parentheses around the division that have its value; others are added.
        """
        part, around = term.query.part, {term.before, term.after}
        if len(path) > DEPTH or around & BITS or not TIGHT.isdisjoint(term.group.words()):
            return False
        if term.clause == "SET" and term.before == "=" and part.word(term.start - 3) in ("SET", ","):
            return part.is_name(term.start - 2) and self._is_stored(part.name(term.start - 2))
        if around & CONDITION:
            return any(self._is_compared(division, *pair) for pair in self._compared(term))
        if part.word(0) == "CASE":
            return term.before in ("THEN", "ELSE") and self._is_needed_outside(division, term, path)
        if term.clause == "SELECT":
            return self._is_selected(division, term, path)
        if term.clause == "ORDER":
            return number_value(division.right) is None
        return term.clause == "RETURNING" or (not term.clause and self._is_needed_outside(division, term, path))

    def _is_needed_outside(self, division: _Division, term: _Term, path: list[Token | Group]) -> bool:
        """Return True if the fraction is needed by what surrounds the parentheses of a term."""
        part, outer = term.query.part, term.query.outer
        if outer is None or part.parent is None:
            return False
        path.append(part.parent.items[part.index])
        at = _index(outer.part, path[-1])
        end, before, around = at + 1, next_to(outer.part, at - 1), self._around(outer, at)
        if around is None or (before in ("IN", "EXISTS") and around.clause != "VALUES"):
            return False
        if around.clause == "VALUES":
            is_stored = self._context.statement.changes_rows and outer.part.parent is None
            return self._is_stored(term.place) if is_stored else True
        if before == "CAST":
            is_called = affinity(" ".join(part.slice(_index_of(part, "AS") + 1).words())) != "INTEGER"
        elif is_call(outer.part, at - 1):
            is_called = outer.part.name(at - 1).lower() in _FRACTIONS or _shows_fraction(outer.part, at - 1)
            end = end_of_call(outer.part, at - 1)
        else:
            is_called = before in BEFORE_OPERAND
        return is_called and outer.part.word(end) != "%" and self._is_needed(division, around, path)

    def _around(self, query: Query, at: int) -> _Term | None:
        """Return the term of a query that contains the item at an index."""
        terms = self.terms(query)
        index = bisect_right(terms, at, key=lambda term: term.start) - 1
        return terms[index] if index >= 0 and at < terms[index].start + len(terms[index].group.items) else None

    def _is_selected(self, division: _Division, term: _Term, path: list[Token | Group]) -> bool:
        """Return True if the fraction is needed in a SELECT list: no DISTINCT and no GROUP BY collects its values."""
        query = term.query
        if query.clause("SELECT").word(0) == "DISTINCT" or term.place >= len(query.select_list):
            return False
        item, alias = query.select_list[term.place]
        if {str(term.place + 1), alias.lower(), comparable(without_parentheses(item))} & self._grouped:
            return False
        if alias and alias.lower() in self._keys:
            return False
        outer, part = query.outer, query.part
        if outer is None or part.parent is None:
            return not self._context.statement.changes_rows or self._is_stored(term.place)
        at = _index(outer.part, part.parent.items[part.index])
        around = self._around(outer, at)
        if around is not None and around.clause in ("FROM", "JOIN", "WITH"):
            return True
        return self._is_needed_outside(division, term, path)

    def _is_stored(self, target: str | int) -> bool:
        """Return True if a column that the statement fills, by name or place, stores fractions."""
        query = self._context.queries[0]
        table = query.sources[0].table if query.sources else None
        if table is None:
            return False
        names = _filled(query.part) or [column.name for column in table.visible]
        name = target if isinstance(target, str) else names[target] if target < len(names) else ""
        types = [column.type for column in table.columns if column.name.lower() == name.lower()]
        return any(affinity(type_) == "REAL" or is_decimal(type_) for type_ in types)

    def _compared(self, term: _Term) -> list[tuple[str, Group]]:
        """Return the comparisons of a term, as if it were on the left: the operator and the other side."""
        if term.query not in self._pairs:
            pairs = self._pairs[term.query] = {}
            for operator, left, right, _ in compared_pairs(term.query.part):
                for sign, side, other in ((operator, left, right), (_FLIPPED.get(operator, operator), right, left)):
                    for item in side.items:
                        pairs.setdefault(id(item), []).append((sign, other))
        return self._pairs[term.query].get(id(term.group.items[0]), [])

    def _is_compared(self, division: _Division, operator: str, other: Group) -> bool:
        """Return True for a comparison whose result depends on the fraction.

        ``a / b >= n`` does not for an integer n, and ``a / b = n`` usually means groups of b.
        """
        kind = self.numbers.kind(division.term.query, other)
        if kind == "real":
            return True
        is_divided = number_value(division.right) is not None or "/" in other.words()
        is_fixed = number_value(other) is not None or (len(other.items) == 1 and other.word(0)[:1] in (":", "@", "$"))
        return kind == "integer" and operator in (">", "<=") and not (is_divided or is_fixed)


def _shows_fraction(part: Group, at: int) -> bool:
    """Return True for a call such as ``printf('%.1f', ...)``."""
    arguments = part.group(at + 1)
    item = arguments.items[0] if arguments is not None and arguments.items else None
    if not isinstance(item, Token) or item.kind != "string" or part.word(at) not in ("PRINTF", "FORMAT"):
        return False
    return _FRACTION_FORMAT.fullmatch(item.text) is not None


def _keys(queries: Sequence[Query]) -> Iterator[str]:
    """Yield the columns that a USING lists, or that are equal to another column or an integer."""
    for query in queries:
        part = query.part
        for at, word in enumerate(part.words()):
            listed = part.group(at + 1)
            if word == "USING" and listed is not None:
                yield from map(comparable, listed.split())
            elif word in ("=", "=="):
                sides = part.slice(max(at - 1, 0), at), part.slice(at + 1, at + 2)
                if all(side.is_name(0) or side.word(0).isdecimal() for side in sides):
                    yield from (comparable(side) for side in sides if side.is_name(0))
                if part.word(at + 2) == "." and part.is_name(at + 3):
                    yield part.name(at + 3).lower()


def _index(part: Group, item: Token | Group) -> int:
    """Return the index of an item of a part."""
    return next(at for at, other in enumerate(part.items) if other is item)


def _index_of(part: Group, word: str) -> int:
    words = part.words()
    return words.index(word) if word in words else len(words)


def _filled(part: Group) -> list[str]:
    """Return the columns that an INSERT lists."""
    words = part.words()
    start = words.index("INTO") if "INTO" in words else len(words)
    end = next((at for at in range(start + 1, len(words)) if words[at] in ("SELECT", "VALUES", "WITH")), start)
    listed = next((part.group(at) for at in range(start, end) if part.group(at) is not None), None)
    return [] if listed is None else [item.name(0) for item in listed.split() if item.is_name(0)]


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
    divisor, dividend = number_value(without_parentheses(right)), _product(left)
    if not divisor or divisor == 1 or (dividend is not None and dividend % divisor == 0):
        return divisor is not None
    inner = left.group(len(left.items) - 1) or Group()
    last = len(inner.items) - 1
    return inner.word(last - 1) in ("+", "-") and inner.word(last).isdecimal()


def _product(group: Group) -> float | None:
    """Return the value of numbers that are multiplied and divided; None for any other expression."""
    product = 1.0
    for sign, start, end in operands(group):
        value = number_value(group.slice(start, end))
        if value is None or sign in ("-", "%") or (sign == "/" and (not value or product % value)):
            return None
        product = product / value if sign == "/" else product * value
    return product


def _is_rest(left: Group, right: Group) -> bool:
    """Return True for the minutes of the rest of an hour: x % 3600 / 60."""
    words = without_parentheses(left)
    divisor, modulus = number_value(right), number_value(words.slice(-1))
    if not divisor or modulus is None or words.word(len(words.items) - 2) != "%":
        return False
    return modulus % divisor == 0
