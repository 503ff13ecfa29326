"""True if expressions are integers or have a fraction, as far as the text and the known tables prove it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, get_args

from pipemagic.explore.lint.expressions import end_of_call, is_call
from pipemagic.explore.query import Derived, Query, queries_of
from pipemagic.explore.schema import Relation
from pipemagic.explore.token_tree import DEPTH, QUERY, Group, nest
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import Token, significant
from pipemagic.sql.type_affinity import affinity, is_boolean, is_decimal

_NumericType = Literal["", "real", "decimal", "integer", "null"]
"""What a value is: '' for one that may be anything, 'decimal' for an integer or a number with a fraction."""

CONDITION = frozenset(
    ["=", "==", "<>", "!=", "<", ">", "<=", ">=", "AND", "OR", "NOT", "IN", "IS", "LIKE", "GLOB", "BETWEEN", "EXISTS",
     "ISNULL", "NOTNULL", "MATCH", "REGEXP"]
)  # fmt: skip
"""Words of an expression that has a truth value."""

BITS = frozenset(["<<", ">>", "&", "|"])
TIGHT = frozenset(["||", "->", "->>", "COLLATE"])
"""Operators that bind more tightly than a division."""

_SIGNS = ("+", "-", "~", "DISTINCT")
_COUNTS = frozenset(["count", "length", "exists", "row_number", "rank", "dense_rank", "ntile"])
_OF_ALL = frozenset(["sum", "min", "max", "abs", "coalesce", "ifnull", "iif", "if"])
_OF_FIRST = frozenset(["nullif", "lag", "lead", "first_value", "last_value", "nth_value"])
_REALS = frozenset(["avg", "total", "round", "julianday", "sqrt", "pow", "power", "exp", "ln", "log", "log10", "log2"])

LIKE_ARGUMENTS = _OF_ALL | _OF_FIRST
"""Functions that return an integer if their arguments are integers."""


class Numbers:
    """The kinds of the expressions of a statement, whose parameters have the values ``args``."""

    def __init__(self, args: Mapping[str, SqlValue], tables: Mapping[str, Relation]) -> None:
        self._args, self._tables = args, tables
        # by the id of a relation, which is kept so that no other one gets that id
        self._columns: dict[tuple[int, str], tuple[_NumericType, Relation]] = {}
        self._groups: dict[Group, _NumericType] = {}

    def kind(self, query: Query, expression: Group, depth: int = 0) -> _NumericType:
        """Return what an expression is; its columns are those of ``query``."""
        words = expression.words()
        if depth > DEPTH or not words:
            return ""
        if not (CONDITION.isdisjoint(words) and BITS.isdisjoint(words)):
            return "integer"
        return _together(self._operand(query, expression.slice(*place), depth) for _, *place in operands(expression))

    def _operand(self, query: Query, part: Group, depth: int) -> _NumericType:
        part = part.slice(next((at for at, word in enumerate(part.words()) if word not in _SIGNS), 0))
        inner, arguments, last = part.group(0), part.group(1), len(part.items) - 1
        if not part.items or not TIGHT.isdisjoint(part.words()):
            return ""
        if inner is not None:
            if last == 0 and inner not in self._groups:
                self._groups[inner] = self._of_group(query, inner, depth + 1)
            return self._groups[inner] if last == 0 else ""
        if part.word(0) == "CAST" and arguments is not None:
            return _of_cast(arguments)
        if arguments is not None and last > 0:
            is_whole = part.word(0) == "EXISTS" or (is_call(part, 0) and end_of_call(part, 0) > last)
            return self._of_call(query, part.name(0).lower(), arguments, depth + 1) if is_whole else ""
        return self._of_name(query, part, depth + 1) if part.is_name(last) else self._of_literal(part)

    def _of_group(self, query: Query, group: Group, depth: int) -> _NumericType:
        if group.word(0) == "CASE":
            return _together(self.kind(query, value, depth) for value in _values_of_case(group))
        if group.word(0) in QUERY:
            members = queries_of(group, query.tables, query)
            return _together(self._of_place(member, 0, depth) for member in members)
        return self.kind(query, group, depth) if "," not in group.words() else ""

    def _of_call(self, query: Query, name: str, arguments: Group, depth: int) -> _NumericType:
        if name in _COUNTS:
            return "integer"
        if name in _REALS:
            return "real"
        values = arguments.split()
        if name == "sum" and is_boolean(query.declared(arguments) or ""):
            return "integer"
        if name in ("iif", "if"):
            values = values[1:]
        elif name in _OF_FIRST:
            values = values[:1]
        is_known = name in LIKE_ARGUMENTS and bool(values)
        return _together(self.kind(query, value, depth) for value in values) if is_known else ""

    def _of_literal(self, part: Group) -> _NumericType:
        item = part.items[0] if len(part.items) == 1 else None
        if not isinstance(item, Token):
            return ""
        if item.kind == "param":
            value = self._args.get(item.text)
            return "integer" if isinstance(value, int) else "real" if isinstance(value, float) else ""
        if item.kind == "number":
            is_integer = item.text.replace("_", "").isdecimal() or item.text[:2].lower() == "0x"
            return "integer" if is_integer else "real"
        return ""

    def _of_name(self, query: Query, part: Group, depth: int) -> _NumericType:
        last = len(part.items) - 1
        if last not in (0, 2, 4) or any(part.word(at) != "." for at in range(1, last, 2)):
            return ""
        column = query.column(part, last)
        if column is not None:
            return self._of_column(column[0].table, column[1], depth)
        if last:
            return ""
        word = part.word(0)
        if word in ("TRUE", "FALSE", "NULL"):
            return "null" if word == "NULL" else "integer"
        for outer in query.enclosing():
            values = [item for item, alias in outer.select_list if alias.lower() == part.name(0).lower()]
            if values:
                return self.kind(outer, values[0], depth) if len(values) == 1 else ""
        return ""

    def _of_column(self, table: Relation | None, name: str, depth: int) -> _NumericType:
        if table is None or depth > DEPTH:
            return ""
        key = (id(table), name)
        if key not in self._columns:
            self._columns[key] = "null", table  # for a recursive table: what the other rows are
            self._columns[key] = self._of_derived(table, name, depth), table
        return self._columns[key][0]

    def _of_derived(self, table: Relation, name: str, depth: int) -> _NumericType:
        types = [type_ for column, type_ in table.typed if column.lower() == name]
        if len(types) != 1:
            return ""
        if isinstance(table, Derived):
            members: Sequence[Query] = table.queries
        elif table.kind == "view" and not types[0]:
            members = self._body(table)
        else:
            return _of_type(types[0])
        place = _place(table, members[0], name) if members else None
        if place is None:
            return ""
        kinds = {self._of_place(member, place, depth + 1) for member in members} - {"null"}
        return kinds.pop() if len(kinds) == 1 else ""

    def _of_place(self, query: Query, place: int, depth: int) -> _NumericType:
        """Return the kind of a column of the result, counted from 0."""
        if not any(map(_is_star, query.select_list)):
            chosen = query.select_list[place : place + 1]
            return self.kind(query, chosen[0][0], depth) if chosen else ""
        if not query.is_complete or place >= len(query.columns):
            return ""
        name = query.columns[place][0].lower()
        expressions = [item for item, alias in query.select_list if alias.lower() == name]
        tables = [source.table for source in query.all_sources if name in map(str.lower, source.names)]
        if len(expressions) + len(tables) != 1:
            return ""
        return self.kind(query, expressions[0], depth) if expressions else self._of_column(tables[0], name, depth)

    def _body(self, view: Relation) -> list[Query]:
        """Return the SELECTs of a view."""
        tokens = [token for token in significant(view.sql or "") if token.kind != "semi"]
        start = next((at + 1 for at, token in enumerate(tokens) if token.word == "AS"), len(tokens))
        return queries_of(nest(tokens[start:], cases=True).top, self._tables)


def _is_star(selected: tuple[Group, str]) -> bool:
    return selected[0].word(len(selected[0].items) - 1) == "*"


def _place(table: Relation, query: Query, name: str) -> int | None:
    """Return the place of a column of a table that consists of queries, the first of which is ``query``."""
    names = [column.lower() for column, _ in table.typed]
    if any(map(_is_star, query.select_list)) or len(names) == len(query.select_list):
        return names.index(name)
    for place, selected in enumerate(query.select_list):  # some have no name
        if name in (column.lower() for column, _ in query.columns_of(*selected)):
            return place
    return None


def operands(item: Group) -> Iterator[tuple[str, int, int]]:
    """Yield the operands of +, -, *, / and % as the operator before, '+' for the first, and their start and end."""
    sign, start, is_open = "+", 0, False
    for at, word in enumerate(item.words()):
        if is_open and word in ("+", "-", "*", "/", "%"):
            yield sign, start, at
            sign, start, is_open = word, at + 1, False
        elif word not in _SIGNS:
            is_open = True
    yield sign, start, len(item.items)


def _values_of_case(case: Group) -> list[Group]:
    """Return the expressions after THEN and ELSE."""
    words = case.words()
    cuts = [at for at, word in enumerate(words) if word in ("WHEN", "THEN", "ELSE", "END")]
    return [case.slice(start + 1, end) for start, end in pairwise(cuts) if words[start] in ("THEN", "ELSE")]


def _together(kinds: Iterable[_NumericType]) -> _NumericType:
    """Return the kind of a sum, or of one of several values."""
    members = set(kinds)
    return next((kind for kind in get_args(_NumericType) if kind in members), "")


def _of_cast(arguments: Group) -> _NumericType:
    cut = next((at for at, word in enumerate(arguments.words()) if word == "AS"), 0)
    type_ = affinity(" ".join(arguments.slice(cut + 1).words()))
    value = arguments.slice(0, cut)
    if type_ == "INTEGER":  # the cast of a part of a text is often exact
        return "integer" if len(value.items) in (1, 3) and value.group(0) is None else ""
    return "real" if type_ == "REAL" else ""


def _of_type(declared: str) -> _NumericType:
    """Return the kind of a column: SQLite gives it INTEGER affinity if its type contains INT."""
    if is_decimal(declared):
        return "decimal"
    if affinity(declared) == "INTEGER":
        return "integer"
    return "real" if affinity(declared) == "REAL" else ""
