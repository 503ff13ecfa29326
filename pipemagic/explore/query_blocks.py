"""The parts of a statement that have a scope of their own, and the expressions in them, for `lint`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from pipemagic.explore.scope import (
    AFTER_SOURCES,
    COMPOUND,
    Source,
    common_tables,
    select_items,
    sources_of,
    split_alias,
)
from pipemagic.explore.shapes import Shape
from pipemagic.explore.token_tree import Group
from pipemagic.explore.words import FUNCTIONS, KEYWORDS

Note = tuple[str, str]
"""The kind of construct, and the line to show."""

DEPTH = 50
"""Levels of parentheses that are read."""

SHOWN = 60
"""Characters of an expression that a note shows."""

_LABEL = re.compile(r"\b[A-Za-z_]\w*\.")


@dataclass(frozen=True)
class Block:
    """A query, one SELECT of a compound query, or what stands in parentheses.

    ``sources`` are those of the query itself, ``around`` is the block that holds it, ``common`` are the common table
    expressions that it can name.
    """

    group: Group
    sources: tuple[Source, ...]
    around: Block | None
    common: dict[str, Shape]

    def word(self, index: int) -> str:
        """Return the word or sign at an index in capitals, ``)`` for a group, ``(`` before the first one inside."""
        if index < 0:
            return "(" if self.around else ""
        return ")" if self.group.group(index) is not None else self.group.word(index)

    @cached_property
    def columns(self) -> dict[tuple[str, str], Source]:
        """The sources of the columns by label and name in lower case; the label is also ''."""
        found: dict[tuple[str, str], Source] = {}
        for source in self.sources:
            for name in map(str.lower, source.columns):
                found.setdefault(("", name), source)
                found.setdefault((source.label.lower(), name), source)
        return found

    def column(self, group: Group, index: int) -> tuple[Source, str] | None:
        """Return the column that is named at an index, with its source; None if there is none that is known."""
        if not group.is_name(index) or group.group(index + 1) is not None:
            return None
        if group.word(index) in KEYWORDS or group.word(index + 1) == ".":
            return None
        is_qualified = group.word(index - 1) == "." and group.is_name(index - 2)
        name = group.name(index).lower()
        key = (group.name(index - 2).lower() if is_qualified else "", name)
        block: Block | None = self
        while block is not None:
            if key in block.columns:
                return block.columns[key], name
            block = block.around
        return None

    @cached_property
    def select(self) -> Group:
        """The query from its SELECT on; nothing if it has none."""
        return clause(self.group, "SELECT", ())

    @cached_property
    def items(self) -> list[tuple[Group, str]]:
        """The expressions of the SELECT with their aliases."""
        first = 2 if self.select.word(1) in ("DISTINCT", "ALL") else 1
        return [split_alias(item) for item in select_items(self.select, first)]

    def grouping(self, keyword: str = "GROUP") -> list[Group]:
        """Return the terms of GROUP BY or PARTITION BY."""
        return [without_parentheses(term) for term in select_items(clause(self.group, keyword), 2)]


def blocks_of(group: Group, tables: Mapping[str, Shape], around: Block | None, depth: int) -> Iterator[Block]:
    """Return every part of a statement that has a scope of its own, or stands in parentheses."""
    if depth > DEPTH:
        return
    common = common_tables(group, tables)
    tables = {**tables, **common} if common else tables
    if around is not None:
        common = {**around.common, **common}
    cuts = [-1, *(at for at in range(len(group.items)) if group.word(at) in COMPOUND), len(group.items)]
    for start, end in pairwise(cuts):
        part = Group(group.items[start + 1 : end])
        block = Block(part, tuple(sources_of(part, tables)), around, common)
        yield block
        for item in part.items:
            if isinstance(item, Group):
                yield from blocks_of(item, tables, block, depth + 1)


def clause(select: Group, keyword: str, ends: Sequence[str] | frozenset[str] = AFTER_SOURCES) -> Group:
    """Return a clause of a query from its keyword on; nothing if there is none."""
    start = next((at for at in range(len(select.items)) if select.word(at) == keyword), len(select.items))
    end = next((at for at in range(start + 1, len(select.items)) if select.word(at) in ends), len(select.items))
    return Group(select.items[start:end])


def without_parentheses(term: Group) -> Group:
    """Return an expression without COLLATE and the parentheses around it."""
    while True:
        if len(term.items) == 1 and (within := term.group(0)) is not None:
            term = within
        elif term.word(len(term.items) - 2) == "COLLATE":
            term = Group(term.items[:-2])
        else:
            return term


def is_call(item: Group, index: int) -> bool:
    """Return True if a function is called at an index."""
    return item.is_name(index) and item.group(index + 1) is not None and item.word(index) not in KEYWORDS


def kind_of(item: Group, index: int) -> str | None:
    """Return the kind of the function that is called at an index; None if it is not known."""
    name, arguments = item.name(index).lower(), item.group(index + 1) or Group()
    if name in ("min", "max") and any(arguments.word(at) == "," for at in range(len(arguments.items))):
        return "function"
    return FUNCTIONS.get(name)


def end_of_call(item: Group, index: int) -> int:
    """Return the index after a call with its FILTER and OVER."""
    end = index + 2
    while item.word(end) in ("FILTER", "OVER"):
        end += 2
    return end


def number_of(operand: Group) -> float | None:
    """Return the value of a number; None for anything else."""
    try:
        return float(operand.word(0)) if len(operand.items) == 1 and operand.word(0)[:1] in "0123456789." else None
    except ValueError:  # a sign, a parenthesis, or a hexadecimal number
        return None


def comparable(group: Group) -> str:
    """Return an expression for comparisons: in lower case, without labels, a single name without quotes."""
    text = group.name(0) if len(group.items) == 1 and group.is_name(0) else _LABEL.sub("", text_of(group))
    return text.lower()


def text_of(group: Group) -> str:
    """Return an expression as text."""
    text = ""
    for index, item in enumerate(group.items):
        piece = f"({text_of(item)})" if isinstance(item, Group) else item.text
        is_call = (
            isinstance(item, Group) and group.is_name(index - 1) and group.word(index - 1) not in KEYWORDS - {"CAST"}
        )
        joined = not text or is_call or piece in (".", ",") or text.endswith(".")
        text += piece if joined else f" {piece}"
    return text
