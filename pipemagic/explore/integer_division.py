"""Divisions of two integers in a SELECT list, which drop the fraction.

A division is noted only where the fraction is wanted as a rule: not where the whole part is grouped by, multiplied
again, or handed to a function such as floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipemagic.explore.query_blocks import (
    DEPTH,
    SHOWN,
    Block,
    Note,
    comparable,
    end_of_call,
    number_of,
    text_of,
    without_parentheses,
)
from pipemagic.explore.scope import QUERY, select_items, split_alias
from pipemagic.explore.token_tree import Group
from pipemagic.explore.words import KEYWORDS
from pipemagic.svg import shortened


def integer_division(blocks: Sequence[Block]) -> Note | None:
    """Note a division of integers in a SELECT list, unless the whole part is what is wanted as a rule."""
    terms = [term for block in blocks for keyword in ("GROUP", "PARTITION") for term in block.grouping(keyword)]
    grouped = {comparable(one) for term in terms for one in (term, Group(term.items[-1:]))}
    factors = {
        comparable(Group(block.group.items[at : at + 1]))
        for block in blocks
        for index in range(len(block.group.items))
        if block.group.word(index) in ("*", "%")
        for at in (index - 1, index + 1)
        if at > index or (at >= 0 and "/" not in map(block.group.word, range(at - 3, at)))  # a / b * c
    }
    for block in blocks:
        for number, (item, alias) in enumerate(block.items if block.select.word(1) != "DISTINCT" else (), 1):
            if {str(number), alias.lower(), comparable(without_parentheses(item))} & grouped:
                continue
            divisions = _Divisions(block)
            divisions.is_integer(item)
            for group, start, sign, end in divisions.found[:_LOOKED_AT]:
                left, right = Group(group.items[start:sign]), Group(group.items[sign + 1 : end])
                shown = f"{text_of(left)} / {text_of(right)}"
                if comparable(Group(right.items[-1:])) in factors:
                    continue  # x / 100 beside x % 100, x / 10 * 10
                if _is_exact(left, right) or any(
                    f"{comparable(left)} / {comparable(right)}" in term for term in grouped
                ):
                    continue
                shown = shortened(shown, SHOWN)
                return "integer", f"{shown} divides integers and drops the fraction: write 1.0 * {shown}"
    return None


def _is_exact(left: Group, right: Group) -> bool:
    """Return True if a division by a number leaves no fraction, or is rounded up on purpose: (x + 2) / 3."""
    divisor, dividend = number_of(without_parentheses(right)), number_of(left)
    if divisor is None or not divisor or divisor == 1 or (dividend is not None and dividend % divisor == 0):
        return divisor is not None
    within = left.group(len(left.items) - 1)
    last = len(within.items) - 1 if within is not None else 0
    return within is not None and within.word(last - 1) in ("+", "-") and within.word(last).isdecimal()


_LOOKED_AT = 20  # divisions of an item
_TIGHT = ("||", "->", "->>", "COLLATE")
"""Operators that bind more tightly than a division."""
_SIGNS = frozenset("*/%,.=<>&|~;") | {"==", "<>", "!=", "<=", ">=", "<<", ">>", "||", "->", "->>"}
_CONDITION = frozenset(
    ["=", "==", "<>", "!=", "<", ">", "<=", ">=", "AND", "OR", "NOT", "IN", "IS", "LIKE", "GLOB", "BETWEEN", "EXISTS",
     "ISNULL", "NOTNULL"]
)  # fmt: skip
_OF_INTEGERS = frozenset(["sum", "min", "max", "abs", "coalesce", "ifnull", "nullif", "iif"])
"""Functions that return an integer if their arguments are integers."""
_FRACTIONS = _OF_INTEGERS | {"avg", "total", "round"}
"""Functions of which a division is not meant to drop the fraction; of others, such as floor and printf, it may be."""


@dataclass
class _Divisions:
    """The divisions of integers in an expression, which is read once from left to right.

    Each is found as its group, and there the indices of its left side, its sign and the end of its right side.
    """

    block: Block
    found: list[tuple[Group, int, int, int]] = field(default_factory=list)

    def is_integer(self, group: Group, depth: int = 0, *, meant: bool = False) -> bool:
        """Return True if an expression, or each one of a list, is known to be an integer.

        ``meant`` leaves its divisions out.
        """
        if depth > DEPTH or not group.items or group.word(0) in QUERY:
            return depth <= DEPTH and _is_count(group)
        at, start, before = 0, 0, len(self.found)
        result = integer = True
        product: bool | None = None  # whether the factors so far are integers; None before the first one
        condition = False
        while at < len(group.items):
            word = group.word(at)
            if word == ",":
                result, integer, condition, before = result and (integer or condition), True, False, len(self.found)
            if word in _CONDITION:
                condition = True
                del self.found[before:]  # in a condition it is meant as a rule
            if word in (",", "DISTINCT") or word in _CONDITION or (product is not None and word in ("+", "-")):
                at, product = at + 1, None
                continue
            is_factor = product is not None and word in ("*", "/", "%")
            end, one = self._operand(group, at + is_factor, depth, meant or condition)
            if end == at + is_factor or (product is not None and not is_factor):  # what stands there is not known
                at, product, integer = max(end, at + 1), None, False
                continue
            if word == "/" and product and one and not (meant or condition):
                self.found.append((group, start, at, end))
            start, product = (start, product and one) if is_factor else (at, one)
            at, integer = end, integer and one
        return result and (integer or condition)

    def _operand(self, group: Group, start: int, depth: int, meant: bool) -> tuple[int, bool]:
        """Return where an operand ends, and True if it is an integer; ``start`` if it cannot be read."""
        at = start
        while group.word(at) in ("+", "-"):
            at += 1
        end, integer = self._primary(group, at, depth, meant)
        while end > at and group.word(end) in _TIGHT:
            at, integer = end + 1, False
            end, _ = self._primary(group, at, depth, meant=True)
        return (end, integer) if end > at else (start, False)

    def _primary(self, group: Group, at: int, depth: int, meant: bool) -> tuple[int, bool]:
        arguments = group.group(at)
        if arguments is not None:
            several = any(arguments.word(index) == "," for index in range(len(arguments.items)))
            return at + 1, self.is_integer(arguments, depth + 1, meant=meant or several) and not several
        word, arguments = group.word(at), group.group(at + 1)
        if word == "CASE":
            return self._case(group, at, depth, meant)
        if word == "CAST" and arguments is not None:
            cut = next((index for index in range(len(arguments.items)) if arguments.word(index) == "AS"), 0)
            whole = "INT" in comparable(Group(arguments.items[cut:])).upper()
            value = Group(arguments.items[:cut])
            self.is_integer(value, depth + 1, meant=meant or whole)
            return at + 2, whole and len(value.items) in (1, 3)  # of a text that was taken apart, it is often meant
        if not group.is_name(at):
            isnumber_of = at < len(group.items) and word.isdecimal()
            return at + (at < len(group.items) and word not in _SIGNS), isnumber_of
        if word in KEYWORDS:
            return at, False
        while group.word(at + 1) == "." and group.is_name(at + 2):
            at += 2
        arguments = group.group(at + 1)
        if arguments is None:
            return at + 1, self._is_integer_column(group, at)
        function = group.name(at).lower()
        integers = self.is_integer(arguments, depth + 1, meant=meant or function not in _FRACTIONS)
        return end_of_call(group, at), function in ("count", "length") or (integers and function in _OF_INTEGERS)

    def _case(self, group: Group, start: int, depth: int, meant: bool) -> tuple[int, bool]:
        """Return where a CASE ends, and True if all its values are integers."""
        level, cut, integer = 0, start, True
        for at in range(start, len(group.items)):
            word = group.word(at)
            level += (word == "CASE") - (word == "END")
            if level == 0 or (level == 1 and word in ("WHEN", "THEN", "ELSE")):
                if group.word(cut) in ("THEN", "ELSE"):
                    value = Group(group.items[cut + 1 : at])
                    integer = self.is_integer(value, depth + 1, meant=meant) and integer
                cut = at
            if level == 0:
                return at + 1, integer
        return start, False

    def _is_integer_column(self, group: Group, at: int) -> bool:
        found = self.block.column(group, at)
        if found is None or found[0].shape is None or found[0].shape.relation is None:
            return False
        types = [column.type for column in found[0].shape.relation.columns if column.name.lower() == found[1]]
        return bool(types) and "INT" in types[0].upper()  # by which SQLite gives it INTEGER affinity


def _is_count(query: Group) -> bool:
    """Return True for SELECT count(...) FROM ... without a GROUP BY."""
    items = select_items(query, 1) if query.word(0) == "SELECT" else []
    item = split_alias(items[0])[0] if len(items) == 1 else Group()
    return item.word(0) == "COUNT" and item.group(1) is not None and len(item.items) == 2
