"""Corrections of statements as a whole: the order of clauses, two statements in one, operands that are missing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from pipemagic.explore.hints.keywords import COMPARISONS, is_after_comparison
from pipemagic.explore.hints.stopped import Change, Stopped
from pipemagic.explore.hints.words import Span, Words
from pipemagic.explore.sqlite_reference import KEYWORDS, STARTS

_ORDER = (
    ("SELECT", "UPDATE", "DELETE"), ("SET",), ("FROM",), ("JOIN",), ("WHERE",), ("PARTITION BY", "GROUP BY"),
    ("HAVING",), ("WINDOW",), ("ORDER BY",), ("LIMIT",), ("OFFSET",), ("RETURNING",),
)  # fmt: skip
_RANKS = {name: rank for rank, names in enumerate(_ORDER) for name in names}
_JOINS = ("NATURAL", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "OUTER", "JOIN")
_COMPOUND = ("UNION", "INTERSECT", "EXCEPT", ";")


class _Clause(NamedTuple):
    """A clause: its name, and the indexes of its first token and behind its last one."""

    name: str
    first: int
    end: int

    @property
    def rank(self) -> int:
        return _RANKS[self.name]


def reordered(stopped: Stopped) -> Iterator[Change]:
    """Propose the right order of the clauses around the stop."""
    clauses = _clauses(stopped)
    late = next((pair for pair in pairwise(clauses) if pair[0].rank > pair[1].rank), None)
    if late is None:
        return
    if late[1].name == "WHERE" and _has_aggregate(stopped, late[1]):
        hint = "write HAVING instead of WHERE: WHERE filters rows before they are grouped"
        yield Change(hint, stopped.replace(late[1].first, late[1].first, "HAVING"))
        return
    ordered = sorted(clauses, key=lambda clause: clause.rank)
    before = next(clause.name for clause in ordered if clause.rank > late[1].rank)
    names = ", ".join(dict.fromkeys(clause.name for clause in ordered))
    text = "\n".join(stopped.written(clause.first, clause.end - 1) for clause in ordered)
    hint = f"write {late[1].name} before {before}: the order is {names}"
    yield Change(hint, stopped.replace(clauses[0].first, clauses[-1].end - 1, text))


def _has_aggregate(stopped: Stopped, clause: _Clause) -> bool:
    """Return True if a clause uses an aggregate function, or the alias of one."""
    words = Words(stopped.text)
    first = words.at(stopped.tokens[clause.first].start)
    span = Span(first, first + clause.end - clause.first)
    select = words.select_around(first)
    items = [] if select is None else select.items()
    aliases = {words.name(item.end - 1).lower() for item in items if words.has_aggregate(item)} - {""}
    names = {words.name(index).lower() for index in range(*span)}
    return words.has_aggregate(span) or not aliases.isdisjoint(names)


def _clauses(stopped: Stopped) -> list[_Clause]:
    """Return the clauses of the query, or of the window, around the stop."""
    first, last = stopped.parenthesis()
    outer = list(stopped.outer(Span(first, last)))
    cuts = [index for index in outer if stopped.word(index) in _COMPOUND]
    first = max((index + 1 for index in cuts if index < stopped.at), default=first)
    last = min((index for index in cuts if index >= stopped.at), default=last)
    starts = [(index, name) for index in outer if first <= index < last and (name := _clause(stopped, index))]
    return [_Clause(name, index, end) for (index, name), (end, _) in pairwise([*starts, (last, "")])]


def _clause(stopped: Stopped, index: int) -> str:
    """Return the name of the clause that begins at an index; '' for none."""
    word = stopped.word(index)
    if word in _JOINS:
        return "" if stopped.word(index - 1) in _JOINS else "JOIN"
    name = f"{word} BY" if word in ("ORDER", "GROUP", "PARTITION") else word
    return name if name in _RANKS else ""


_STARTS = frozenset(phrase.split()[0] for phrase in STARTS)


def separated(stopped: Stopped) -> Iterator[Change]:
    """Propose a semicolon before the word that begins a second statement, and a statement for each table to drop."""
    for index in (stopped.at - 1, stopped.at):
        if index > 0 and stopped.word(index) in _STARTS:
            yield Change(
                f"write ; between the two statements, before {stopped.word(index)}", stopped.insert(index, ";")
            )
    if stopped.word(0) == "DROP" and stopped.word(stopped.at) == ",":
        first = stopped.at - 1
        head = stopped.text[: stopped.tokens[first].start]
        names = stopped.text[stopped.tokens[first].start : stopped.tokens[-1].end].split(",")
        text = "; ".join(f"{head}{name.strip()}" for name in names)
        yield Change(f"write {text}", text)


def missing_operand(stopped: Stopped) -> Iterator[Change]:
    """Propose an expression or a name where one is missing; which one is the user's choice."""
    at = stopped.at
    before = stopped.word(at - 1)
    if at == 0 or stopped.kind(at - 1) not in ("word", "op") or before == "%" or not _ends_operand(stopped, at):
        return
    if before == "BY":
        before = f"{stopped.word(at - 2)} BY"
    where = f"after {before}" if at == len(stopped.tokens) else f"between {before} and {stopped.shown(at)}"
    if before in KEYWORDS or before.endswith(" BY") or stopped.kind(at - 1) == "op":
        yield Change(f"an expression is missing {where}", stopped.insert(at, "1"))


def _ends_operand(stopped: Stopped, index: int) -> bool:
    """Return True if an expression can end before an index: not before a sign that other languages may have there."""
    return stopped.kind(index) != "op" or stopped.word(index) in (")", ",", *COMPARISONS)


def missing_name(stopped: Stopped) -> Iterator[Change]:
    """Propose a name where no other expression fits."""
    for change in missing_operand(stopped):
        hint = change.hint.replace("an expression", "a name", 1)
        yield Change(hint, stopped.insert(stopped.at, '"_"'))


def missing_operator(stopped: Stopped) -> Iterator[Change]:
    """Propose an operator between two operands."""
    at = stopped.at
    if not 0 < at < len(stopped.tokens) or stopped.kind(at) == "op" or stopped.word(at - 1) in KEYWORDS:
        return
    if stopped.word(at - 2) not in ("LIMIT", "OFFSET") and not is_after_comparison(stopped, at):
        hint = f"an operator such as = is missing between {stopped.shown(at - 1)} and {stopped.shown(at)}"
        yield Change(hint, stopped.insert(at, "="))
