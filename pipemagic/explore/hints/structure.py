"""Corrections of the structure of a statement: the order of clauses, operands, lists, ALTER TABLE."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from pipemagic.explore.hints.broken_statement import BrokenStatement, Suggestion
from pipemagic.explore.hints.keywords import COMPARISONS, compares, is_after_comparison, is_name, last_clause
from pipemagic.explore.hints.syntax_errors import TYPES
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


def reordered(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest the right order of the clauses around the stop."""
    clauses = _clauses(broken)
    late = next((pair for pair in pairwise(clauses) if pair[0].rank > pair[1].rank), None)
    if late is None:
        return
    if late[1].name == "WHERE" and _has_aggregate(broken, late[1]):
        hint = "write HAVING instead of WHERE: WHERE filters rows before they are grouped"
        yield Suggestion(hint, broken.replace(late[1].first, late[1].first, "HAVING"))
        return
    ordered = sorted(clauses, key=lambda clause: clause.rank)
    before = next(clause.name for clause in ordered if clause.rank > late[1].rank)
    names = ", ".join(dict.fromkeys(clause.name for clause in ordered))
    text = "\n".join(broken.written(clause.first, clause.end - 1) for clause in ordered)
    hint = f"write {late[1].name} before {before}: the order is {names}"
    yield Suggestion(hint, broken.replace(clauses[0].first, clauses[-1].end - 1, text))


def _has_aggregate(broken: BrokenStatement, clause: _Clause) -> bool:
    """Return True if a clause uses an aggregate function, or the alias of one."""
    words = Words(broken.text)
    first = words.at(broken.tokens[clause.first].start)
    span = Span(first, first + clause.end - clause.first)
    select = words.select_around(first)
    items = [] if select is None else select.items()
    aliases = {words.name(item.end - 1).lower() for item in items if words.has_aggregate(item)} - {""}
    names = {words.name(index).lower() for index in range(*span)}
    return words.has_aggregate(span) or not aliases.isdisjoint(names)


def _clauses(broken: BrokenStatement) -> list[_Clause]:
    """Return the clauses of the query, or of the window, around the stop."""
    first, last = broken.parenthesis()
    outer = list(broken.outer(Span(first, last)))
    cuts = [index for index in outer if broken.word(index) in _COMPOUND]
    first = max((index + 1 for index in cuts if index < broken.at), default=first)
    last = min((index for index in cuts if index >= broken.at), default=last)
    starts = [(index, name) for index in outer if first <= index < last and (name := _clause(broken, index))]
    return [_Clause(name, index, end) for (index, name), (end, _) in pairwise([*starts, (last, "")])]


def _clause(broken: BrokenStatement, index: int) -> str:
    """Return the name of the clause that begins at an index; '' for none."""
    word = broken.word(index)
    if word in _JOINS:
        return "" if broken.word(index - 1) in _JOINS else "JOIN"
    name = f"{word} BY" if word in ("ORDER", "GROUP", "PARTITION") else word
    return name if name in _RANKS else ""


_STARTS = frozenset(phrase.split()[0] for phrase in STARTS)


def separated(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest a semicolon before the word that begins a second statement, and a statement for each table to drop."""
    for index in (broken.at - 1, broken.at):
        if index > 0 and broken.word(index) in _STARTS:
            yield Suggestion(
                f"write ; between the two statements, before {broken.word(index)}", broken.insert(index, ";")
            )
    if broken.word(0) == "DROP" and broken.word(broken.at) == ",":
        first = broken.at - 1
        head = broken.text[: broken.tokens[first].start]
        names = broken.text[broken.tokens[first].start : broken.tokens[-1].end].split(",")
        text = "; ".join(f"{head}{name.strip()}" for name in names)
        yield Suggestion(f"write {text}", text)


def missing_operand(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest an expression or a name where one is missing; which one is the user's choice."""
    at = broken.at
    before = broken.word(at - 1)
    if at == 0 or broken.kind(at - 1) not in ("word", "op") or before == "%" or not _ends_operand(broken, at):
        return
    if before == "BY":
        before = f"{broken.word(at - 2)} BY"
    where = f"after {before}" if at == len(broken.tokens) else f"between {before} and {broken.shown(at)}"
    if before in KEYWORDS or before.endswith(" BY") or broken.kind(at - 1) == "op":
        yield Suggestion(f"an expression is missing {where}", broken.insert(at, "1"))


def _ends_operand(broken: BrokenStatement, index: int) -> bool:
    """Return True if an expression can end before an index: not before a sign that other languages may have there."""
    return broken.kind(index) != "op" or broken.word(index) in (")", ",", *COMPARISONS)


def missing_name(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest a name where no other expression fits."""
    for change in missing_operand(broken):
        hint = change.hint.replace("an expression", "a name", 1)
        yield Suggestion(hint, broken.insert(broken.at, '"_"'))


def missing_operator(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest an operator between two operands."""
    at = broken.at
    if not 0 < at < len(broken.tokens) or broken.kind(at) == "op" or broken.word(at - 1) in KEYWORDS:
        return
    if broken.word(at - 2) not in ("LIMIT", "OFFSET") and not is_after_comparison(broken, at):
        hint = f"an operator such as = is missing between {broken.shown(at - 1)} and {broken.shown(at)}"
        yield Suggestion(hint, broken.insert(at, "="))


# -- lists: commas that are missing or too many, and parentheses around values

_BEGIN_ITEM = frozenset(
    ["NULL", "CASE", "CAST", "NOT", "EXISTS", "REPLACE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "PRIMARY",
     "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT"]
)  # fmt: skip
"""Keywords that an item of a list begins with."""

_END_ITEM = frozenset(
    ["NULL", "END", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "ASC", "DESC", "KEY", "UNIQUE",
     "AUTOINCREMENT"]
)  # fmt: skip
"""Keywords that an item of a list ends with."""

_LITERALS = ("number", "string", "blob", "param")


def commas_removed(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest removing the comma at the stop, or the comma before it."""
    at = broken.at
    if broken.word(at) == "," and broken.word(at - 1) == ",":
        yield Suggestion("remove one of the two commas", broken.remove(at))
    elif broken.word(at) == "," and at + 1 == len(broken.tokens):
        yield Suggestion("remove the comma at the end", broken.remove(at))
    elif broken.word(at) == "," and broken.word(at - 1) not in COMPARISONS:
        yield Suggestion(f"remove the comma after {broken.shown(at - 1)}", broken.remove(at))
    elif broken.word(at - 1) == ",":
        before = "at the end" if at == len(broken.tokens) else f"before {broken.shown(at)}"
        yield Suggestion(f"remove the comma {before}", broken.remove(at - 1))


def commas_inserted(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest a comma before the stop, or before the word in front of it that SQLite reads as an alias.

    Of three names without a comma between them, two are missing.
    """
    at = broken.at
    if not 0 < at < len(broken.tokens):
        return
    names = [broken.shown(index) for index in range(at - 2, at + 1) if is_name(broken, index)] if at > 1 else []
    if len(names) == 3 and broken.word(at + 1) in (",", "FROM") and broken.word(at - 3) in (",", "SELECT"):
        listed = ", ".join(names)
        yield Suggestion(f"write {listed}", broken.replace(at - 2, at, listed), broken.tokens[at].end)
        return
    for index in (at, at - 1):
        if index > 1 and broken.word(index - 2) not in ("LIMIT", "OFFSET") and _begins_item(broken, index):
            hint = f"a comma before {broken.shown(index)}"
            if broken.word(index - 2) == "AS":
                hint = f'AS "{broken.written(index - 1, index)}" for one name, or {hint}'
            yield Suggestion(f"write {hint}", broken.insert(index, ","), broken.tokens[index].start)


def _begins_item(broken: BrokenStatement, index: int) -> bool:
    """Return True if one item of a list may end before an index, and another one begin there.

    A parenthesis behind a name would be that of a call, a bracket an index of other databases. No item of a list is a
    type, and few are comparisons.
    """
    word, before = broken.word(index), broken.word(index - 1)
    token = broken.tokens[index]
    if token.text[0] == "[" and token.start == broken.tokens[index - 1].end:
        return False
    if (broken.word(0) == "CREATE" and word in TYPES) or (
        compares(broken, index) and last_clause(broken, index) != "SET"):  # fmt: skip
        return False
    if broken.kind(index) == "op":
        return word == "(" and before == ")" and broken.word(index + 1) != "SELECT"
    return (word not in KEYWORDS or word in _BEGIN_ITEM) and (before not in KEYWORDS or before in _END_ITEM)


def parentheses(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest parentheses around values, around a subquery, around the columns of a table; and ``count(*)``."""
    at, count = broken.at, len(broken.tokens)
    if at == count:
        return
    first = at - 1 if broken.word(at) == "," else at  # SQLite reads the text after IN as the name of a table
    before = broken.word(first - 1)
    end = first
    while end + 2 < count and broken.word(end + 1) == "," and broken.kind(end + 2) in _LITERALS:
        end += 2
    if broken.kind(first) in _LITERALS and before in ("VALUES", "IN"):
        listed = f"({broken.written(first, end)})"
        yield Suggestion(f"write {before} {listed}", broken.replace(first, end, listed))
    if broken.word(at) in ("SELECT", "WITH") and before != "(":
        last = broken.parenthesis().end - 1
        text = broken.replace(at, last, f"({broken.written(at, last)})")
        yield Suggestion(f"put the {broken.word(at)} after {before} in parentheses", text)
    if broken.word(0) == "CREATE" and is_name(broken, at) and broken.parenthesis() == (0, count):
        text = broken.replace(at, count - 1, f"({broken.written(at, count - 1)})")
        yield Suggestion(f"put what follows {broken.shown(at - 1)} in parentheses", text)
    for star in (at - 1, at):
        if broken.word(star) == "*" and broken.word(star - 1) == "COUNT":
            yield Suggestion(f"write {broken.shown(star - 1)}(*)", broken.replace(star, star, "(*)"))


# -- ALTER TABLE of other databases: another type for a column, several columns at once

_CHANGES = ("MODIFY", "ALTER", "CHANGE")
_BEFORE_TYPE = ("SET", "DATA", "TYPE")


def column_changed(broken: BrokenStatement) -> str:
    """Return a hint on how to change the definition of a column; '' for any other statement.

    SQLite does not have the statement to write, so its grammar cannot prove it. libSQL and the embedded service do.
    """
    words = [broken.word(index) for index in range(len(broken.tokens))]
    if words[:2] != ["ALTER", "TABLE"] or len(words) < 6 or words[3] not in _CHANGES:
        return ""
    column = 5 if words[4] == "COLUMN" else 4
    first = column + 1
    if words[3] == "CHANGE" and first < len(words):
        if words[first] != words[column]:
            return ""
        first += 1
    if words[first : first + 2] == ["SET", "DATA"] or words[first : first + 1] == ["TYPE"]:
        while first < len(words) and words[first] in _BEFORE_TYPE:
            first += 1
    if first >= len(words) or words[first] in ("SET", "DROP", "TO", "ADD"):
        return ""
    table, name = broken.tokens[2].text, broken.tokens[column].text
    definition = broken.written(first, len(words) - 1)
    return f"write ALTER TABLE {table} ALTER COLUMN {name} TO {name} {definition}\nStored values do not change."


def columns_added(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest a statement for each of several columns."""
    words = [broken.word(index) for index in range(min(len(broken.tokens), 6))]
    if words[:2] != ["ALTER", "TABLE"] or words[3:4] != ["ADD"]:
        return
    first, last = 4, len(broken.tokens)
    if words[4:5] == ["("] and broken.word(last - 1) == ")":
        first, last = 5, last - 1
    commas = [index for index in broken.outer(Span(first, last)) if broken.word(index) == ","]
    if not commas:
        return
    starts, ends = [first, *(index + 1 for index in commas)], [*commas, last]
    definitions = [_definition(broken, start, end) for start, end in zip(starts, ends, strict=True) if start < end]
    text = "; ".join(f"ALTER TABLE {broken.tokens[2].text} ADD COLUMN {definition}" for definition in definitions)
    yield Suggestion(f"write {text}", text)


def _definition(broken: BrokenStatement, first: int, end: int) -> str:
    """Return the definition of a column, without the words that each of several ones may begin with."""
    while first < end - 1 and broken.word(first) in ("ADD", "COLUMN"):
        first += 1
    return broken.written(first, end - 1)
