"""What a statement compares: its parameters, literals, columns and other expressions.

A comparison is one of the operators = <> < <= > >= IS IN BETWEEN, or CASE x WHEN y. Both operands are read by SQLite's
precedence: ``day || '' = :day`` and ``day = :day || ''`` do not compare the column with the parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from pipemagic.explore.query import Query, all_queries, queries_of
from pipemagic.explore.schema import Relation
from pipemagic.explore.token_tree import QUERY, Group, bare, nest, split_alias
from pipemagic.sql import Token, significant

ORDERED = ("<", "<=", ">", ">=")
_EQUAL = ("=", "==", "<>", "!=", "IS", "IN", "BETWEEN")
_MATCHES = ("LIKE", "GLOB", "MATCH", "REGEXP")
_AFTER = frozenset([*_MATCHES, "ISNULL", "NOTNULL"])
"""Operators of the same precedence as =, which compare no values."""

_BOUNDARIES = frozenset(
    [",", "AND", "OR", "NOT", "AS", "CASE", "WHEN", "THEN", "ELSE", "END", "BY", "DISTINCT", "ALL", "ASC", "DESC",
     "NULLS", "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS", "NATURAL"]
)  # fmt: skip
"""Words and signs outside of the operands of comparisons, as are those that begin a clause."""

_OPERATORS = frozenset([*ORDERED, *_EQUAL])
_END = "BETWEEN AND"
"""The operator before the last value of a BETWEEN."""


@dataclass(frozen=True)
class Comparison:
    """An operand of a comparison and the ``other`` one, in ``query``; a comparison is read from either side.

    ``operator`` is the sign or word without NOT, WHEN for ``CASE x WHEN y``. ``is_first`` is True for an operand on its
    left, ``is_end`` for the last value of a BETWEEN. ``place`` counts the columns of a subquery that is ``other``.
    ``is_readable`` is False if the names cannot be resolved.
    """

    operand: Group
    operator: str
    other: Group
    query: Query
    is_first: bool = False
    is_end: bool = False
    place: int = 0
    is_readable: bool = True

    @cached_property
    def value(self) -> Token | None:
        """The operand if it is a parameter, a string or a number, with its sign; None for any other expression."""
        return _value(self.operand)

    @property
    def parameter(self) -> Token | None:
        """The operand if it is a parameter."""
        return self.value if self.value is not None and self.value.kind == "param" else None

    @cached_property
    def declared(self) -> str | None:
        """The declared type of the column on the other side, '' if unknown; None if it is another expression."""
        if not self.is_readable:
            return ""
        inner = self.other.group(0)
        if self.place and inner is not None:
            types = {query.declared_at(self.place) for query in queries_of(inner, self.query.tables, self.query)}
            return types.pop() if len(types) == 1 else None
        return self.query.declared(self.other)


def queries_in(text: str, tables: Mapping[str, Relation]) -> list[Query]:
    """Return all queries and parenthesized expressions of a statement; ``tables`` by their names in lower case."""
    tokens = [token for token in significant(text) if token.kind != "semi"]
    return list(all_queries(nest(tokens, cases=True).top, tables))


def compared_parameters(queries: Iterable[Query]) -> Iterator[tuple[Token, Comparison]]:
    """Yield each parameter with its comparison with another expression that is not a parameter."""
    for comparison in comparisons(queries):
        parameter = comparison.parameter
        if parameter is not None and _parameter(comparison.other) is None:
            yield parameter, comparison


def comparisons(queries: Iterable[Query]) -> Iterator[Comparison]:
    """Yield each comparison of two expressions, from either side."""
    for query in queries:
        for operator, left, right, is_readable in compared_pairs(query.part):
            yield from _compared(query, operator, left, right, is_readable)


def _compared(query: Query, operator: str, left: Group, right: Group, is_readable: bool) -> Iterator[Comparison]:
    left, right = bare(left), bare(right)
    if operator == "IN":
        yield from _in(query, left, right, is_readable)
        return
    columns, others = _row(left), _row(right)
    if columns and others:
        for column, other in zip(columns, others, strict=False):
            yield from _compared(query, operator, column, other, is_readable)
    elif columns or others:
        subquery = right if columns else left
        for number, element in enumerate(columns or others) if _is_query(subquery) else ():
            is_first = subquery is right
            yield Comparison(bare(element), operator, subquery, query, is_first, False, number, is_readable)
    elif left.items and right.items:
        operator, is_end = ("BETWEEN", True) if operator == _END else (operator, False)
        yield Comparison(left, operator, right, query, True, is_end, 0, is_readable)
        yield Comparison(right, operator, left, query, False, is_end, 0, is_readable)


def _in(query: Query, left: Group, right: Group, is_readable: bool) -> Iterator[Comparison]:
    """Yield the comparisons of ``left IN right``; a name there is that of a table."""
    if len(right.items) == 1 and right.is_name(0):
        right = Group([Group([*(Token("word", text, 0) for text in ("SELECT", "*", "FROM")), *right.items])])
    listed = right.group(0) if len(right.items) == 1 else None
    if listed is None:  # a parameter that stands for a list, or one value in parentheses
        values = [right]
    elif listed.word(0) == "VALUES":
        rows = [item for item in listed.items if isinstance(item, Group)]
        values = [Group([row]) if len(row.split()) > 1 else row for row in rows]
    elif (parameter := json_list(listed)) is not None:
        values = [Group([parameter])]
    elif _is_query(right):
        values = [right]
    else:
        values = listed.split()
    for value in values:
        for compared in _compared(query, "=", left, value, is_readable):
            yield replace(compared, operator="IN")


def json_list(query: Group) -> Token | None:
    """Return the parameter of ``SELECT +value FROM temp.json_each(:list)``, in which a long list is sent."""
    if " ".join(query.words()[:-1]).lower() != "select + value from temp . json_each":
        return None
    argument = query.group(7)
    return None if argument is None else _parameter(argument)


def _parameter(operand: Group) -> Token | None:
    item = operand.items[0] if len(operand.items) == 1 else None
    return item if isinstance(item, Token) and item.kind == "param" else None


def _value(operand: Group) -> Token | None:
    """Return a parameter, a string, or a number with its sign; None for any other expression."""
    sign = operand.items[0] if len(operand.items) == 2 and operand.word(0) in ("+", "-") else None
    item = operand.items[-1] if len(operand.items) == (1 if sign is None else 2) else None
    if not isinstance(item, Token) or item.kind not in (("param", "string", "number") if sign is None else ("number",)):
        return None
    return Token("number", sign.text + item.text, sign.start) if isinstance(sign, Token) else item


def _is_query(operand: Group) -> bool:
    inner = operand.group(0)
    return len(operand.items) == 1 and inner is not None and inner.word(0) in QUERY


def _row(operand: Group) -> list[Group]:
    """Return the elements of a row value such as ``(day, carrier)``; an empty list for anything else."""
    inner = operand.group(0) if len(operand.items) == 1 and not _is_query(operand) else None
    return [] if inner is None or inner.word(0) == "CASE" else inner.split()


# -- the operands of comparisons


def compared_pairs(part: Group) -> Iterator[tuple[str, Group, Group, bool]]:
    """Yield the operator and both operands of each comparison outside of the parentheses in a part of a statement.

    The last value is False behind the SELECT of an INSERT, where names are those of the filled table.
    """
    words = part.words()
    if _OPERATORS.isdisjoint(words) and words[:1] != ["CASE"]:
        return
    fills, is_readable = "INTO" in words and "SELECT" in words[words.index("INTO") :], True
    chain, start, between, clause, assigned = _Chain(), 0, 0, "", False
    index = 0
    while index < len(words):
        word, size, operator = words[index], 1, ""
        if part.clause(index):
            clause, assigned = part.clause(index), False
            is_readable = is_readable and not (fills and _is_behind_select(part, index))
        if word == "IS":
            size += words[index + 1 : index + 2] == ["NOT"]
            size += 2 * (words[index + size : index + size + 2] == ["DISTINCT", "FROM"])
            operator = "IS"
        elif (
            word == "NOT" and words[index + 1 : index + 2] and words[index + 1] in ("IN", "BETWEEN", "NULL", *_MATCHES)
        ):
            size, operator = 2, words[index + 1]
        elif word in ("=", "==") and clause == "SET" and not assigned:
            assigned, chain, start = True, _Chain(), index + 1
        elif word in ORDERED or word in _EQUAL or word in _AFTER:
            operator = word
        elif word == "AND" and between:
            between, operator = between - 1, "AND"
        is_boundary = not operator and (word in _BOUNDARIES or bool(part.clause(index)))
        if operator or is_boundary:
            chain.add(part.slice(start, index), operator)
            between += operator == "BETWEEN"
            start = index + size
        if is_boundary:
            yield from ((*pair, is_readable) for pair in chain.pairs())
            chain, between = _Chain(), 0
            assigned = assigned and word != ","
        index += size
    chain.add(part.slice(start), "")
    yield from ((*pair, is_readable) for pair in chain.pairs())
    yield from ((*pair, is_readable) for pair in _cases(part))


def _is_behind_select(part: Group, index: int) -> bool:
    """Return True for the RETURNING and ON CONFLICT of an INSERT ... SELECT."""
    return part.word(index) == "RETURNING" or (part.word(index) == "ON" and part.word(index + 1) == "CONFLICT")


def _cases(part: Group) -> Iterator[tuple[str, Group, Group]]:
    """Yield the comparisons of ``CASE x WHEN y``."""
    if part.word(0) != "CASE" or part.word(1) == "WHEN":
        return
    words = part.words()
    cuts = [at for at, word in enumerate(words) if word in ("CASE", "WHEN", "THEN", "ELSE", "END")]
    pieces = [(words[start], part.slice(start + 1, end)) for start, end in pairwise(cuts)]
    yield from (("WHEN", pieces[0][1], piece) for word, piece in pieces[1:] if word == "WHEN")


class _Chain:
    """Operands between comparison operators, such as ``a < b = c``: = compares the result of < with c."""

    def __init__(self) -> None:
        self._operands: list[Group] = []
        self._operators: list[str] = []

    def add(self, operand: Group, operator: str) -> None:
        """Add an operand and the operator behind it."""
        self._operands.append(split_alias(operand)[0])
        self._operators.append(operator)

    def pairs(self) -> Iterator[tuple[str, Group, Group]]:
        """Yield the operator and the operands of each comparison of two of the operands."""
        terms: list[Group | None] = []  # of the operators that bind less tightly than <; None for the result of one
        operators: list[str] = []
        for start, end in self._terms():
            operands = self._operands[start:end]
            if len(operands) > 1:
                yield self._operators[start], operands[0], operands[1]
            terms.append(operands[0] if len(operands) == 1 else None)
            operators.append(self._operators[end - 1])
        yield from _pairs_of_terms(terms, operators)

    def _terms(self) -> Iterator[tuple[int, int]]:
        """Yield the range of the operands of each sequence of < <= > >=."""
        start = 0
        for index, operator in enumerate(self._operators):
            if operator not in ORDERED:
                yield start, index + 1
                start = index + 1


def _pairs_of_terms(terms: Sequence[Group | None], operators: Sequence[str]) -> Iterator[tuple[str, Group, Group]]:
    first = terms[0] if terms else None
    if first is None:
        return
    for index, operator in enumerate(operators[:2]):  # others have the result of a comparison on their left
        other = terms[index + 1] if index + 1 < len(terms) else None
        is_end = operator == "AND" and operators[0] == "BETWEEN"
        if other is not None and (is_end or (index == 0 and operator in _EQUAL)):
            yield _END if is_end else operator, first, other
