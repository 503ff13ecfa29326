"""Texts that become numbers, in arithmetic and casts: SQLite reads 2013 of a date, 0 of a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.dates import form_of_call, form_of_text, is_number
from pipemagic.explore.lint.expressions import arguments_of, calls, is_call, number_value, string_value, written
from pipemagic.explore.query import Query
from pipemagic.explore.sqlite_reference import KEYWORDS, UNRESERVED
from pipemagic.explore.token_tree import Group, bare
from pipemagic.sql import Token
from pipemagic.sql.type_affinity import affinity, is_date, is_day_type

_SIGNS = ("+", "-", "*", "/", "%")
_PRODUCTS = ("*", "/", "%")
_TIGHT = ("||", "->", "->>", "COLLATE", "~")
"""Operators that bind more tightly than arithmetic: what they return is not known."""

_NOW = frozenset(["CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_TIME"])
_LARGEST_STEP = 100_000
"""A number of days; larger ones are added to dates that are stored as numbers."""

_LARGEST_YEAR = 10_000 + _LARGEST_STEP
"""What is larger is not computed from a year: the column has numbers."""

_FUNCTIONS = {"day": "date", "moment": "datetime"}


@dataclass(frozen=True)
class _Operand:
    """An operand of an arithmetic operator.

    ``kind`` is 'day' or 'moment' for dates, 'text' for a column declared TEXT, 'words' for a text that is no number,
    otherwise ''.
    """

    expression: Group
    kind: str = ""
    declared: str = ""

    @property
    def text(self) -> str:
        """The expression as it is written."""
        return written(self.expression)


def text_arithmetic(context: Context) -> Iterator[str]:
    """Yield each operator of arithmetic with a date or a text."""
    causes = set[str]()
    for query in context.queries:
        for index, word in enumerate(query.part.words()):
            if word in _SIGNS and (pair := _operands(query, index)) is not None:
                note = _note(context, query.part, index, *pair)
                if note and note not in causes:
                    causes.add(note)
                    yield note


def text_sums(context: Context) -> Iterator[str]:
    """Yield each sum and mean of dates or texts."""
    for query in context.queries:
        for name, call in calls(query, ("sum", "avg", "total")):
            argument = (arguments_of(call) or [Group()])[0]
            distinct = "DISTINCT " if argument.word(0) == "DISTINCT" else ""
            argument = bare(argument.slice(1) if distinct else argument)
            operand = _operand(query, argument) if argument.items else _Operand(argument)
            if operand.kind and not _has_numbers(context, operand):
                yield from _sum_notes(name, written(call), operand, distinct)


def _sum_notes(name: str, call: str, operand: _Operand, distinct: str) -> Iterator[str]:
    if operand.kind in _FUNCTIONS:
        reads = f"{call} uses only the years of the dates"
        mean = f"{_FUNCTIONS[operand.kind]}(avg({distinct}julianday({operand.text})))"
        yield f"{reads}: write {mean}" if name == "avg" else reads
    elif operand.kind == "text":
        reads = (
            f"{operand.text} is declared {operand.declared}, so {call} uses only the number at the start of each text"
        )
        yield f"{reads}: write {name}({distinct}CAST({operand.text} AS REAL)) if each text is a number such as 1234.5"


def _note(context: Context, part: Group, index: int, left: _Operand, right: _Operand) -> str:
    sign, kinds = part.word(index), {left.kind, right.kind}
    if not any(kinds) or _has_numbers(context, left) or _has_numbers(context, right):
        return ""
    if sign == "-" and _FUNCTIONS.keys() & kinds and (count := _count(left) or _count(right)):
        return _count_note(left, right, count)
    if _FUNCTIONS.keys() & kinds and context.largest_number > _LARGEST_YEAR:
        return ""
    if sign in ("+", "-") and left.kind in _FUNCTIONS:
        is_difference = right.kind in _FUNCTIONS and sign == "-"
        return _difference(left, right) if is_difference else _step(context, sign, left, right)
    if sign == "+" and right.kind in _FUNCTIONS and not left.kind:
        return _step(context, sign, right, left)
    if sign == "+" and ("words" in kinds or kinds == {"text"}):
        return _concatenation(part, index, left, right)
    for operand, other in ((left, right), (right, left)):
        if operand.kind == "text" and not _converts(sign, other):
            reads = f"{operand.text} is declared {operand.declared}, so {sign} uses only the number at its start"
            number = f"CAST({operand.text} AS REAL)"
            return f"{reads}: write {number} instead of {operand.text} if it is a number such as 1234.5"
    return ""


def _converts(sign: str, other: _Operand) -> bool:
    """Return True for + 0, * 1 and * 1.0, which convert a text to a number on purpose."""
    return number_value(other.expression) == (0 if sign in ("+", "-") else 1)


def _difference(left: _Operand, right: _Operand) -> str:
    days = f"julianday({left.text}) - julianday({right.text})"
    return f"{left.text} - {right.text} is the difference between the years: write {days}"


def _count(operand: _Operand) -> str:
    """Return julianday or unixepoch for a call of it; '' for any other operand."""
    name = operand.expression.word(0).lower() if arguments_of(operand.expression) is not None else ""
    return name if name in ("julianday", "unixepoch") else ""


def _count_note(left: _Operand, right: _Operand, count: str) -> str:
    """Return the note on a date that is subtracted from a count of days or seconds, or the other way."""
    date = left if left.kind in _FUNCTIONS else right
    shown = f"{left.text} - {right.text}"
    return f"{shown} uses only the year of {date.text}: write {count}({date.text}) instead of {date.text}"


def _is_unknown_call(expression: Group) -> bool:
    """Return True for a function that may return a year, as strftime does, or anything else."""
    return arguments_of(expression) is not None and expression.word(0).lower() not in ("abs", "count", "round", "sum")


def _step(context: Context, sign: str, date: _Operand, other: _Operand) -> str:
    """Return the note on a date to which a number is added."""
    number, words = number_value(other.expression), string_value(other.expression)
    if (
        other.kind in ("day", "moment")
        or _is_unknown_call(other.expression)
        or (number is not None and not 0 < number <= _LARGEST_STEP)
    ):
        return ""
    shown = f"{date.text} {sign} {other.text}"
    if other.kind == "text":
        return f"{shown} uses only the year of the date"
    if words is not None:
        step = f"'{words if words[:1] in ('+', '-') else sign + words}'"
        if form_of_text(words):
            return ""
    elif number is not None:
        step = f"'{sign}{other.text} day{'s' if number != 1 else ''}'"
    elif _is_number(context, other):
        step = f"{'-' if sign == '-' else ''}{other.text} || ' days'"
    else:
        return f"{shown} uses only the year of the date"
    function = _FUNCTIONS[date.kind]
    arguments = arguments_of(date.expression) if form_of_call(date.expression) == date.kind else None
    start = ", ".join(map(written, arguments)) if arguments else date.text
    return f"{shown} uses only the year of the date: write {function}({start}, {step})"


def _is_number(context: Context, operand: _Operand) -> bool:
    """Return True for a parameter that is a number, and for a column of numbers, which other databases add as days."""
    if operand.declared:
        return affinity(operand.declared) in ("INTEGER", "REAL") and "INTERVAL" not in operand.declared.upper()
    return isinstance(context.args.get(operand.text), int | float)


def _concatenation(part: Group, index: int, left: _Operand, right: _Operand) -> str:
    """Return the note on texts that are added, with || between all operands."""
    chain = _chain(part, index)
    reason = "+ adds numbers, and text without digits counts as 0"
    if left.kind == right.kind == "text":
        reason = (
            f"{left.text} and {right.text} are declared {left.declared}, and + adds only the numbers at their start"
        )
    return f"{reason}: write {' || '.join(chain)}"


def _chain(part: Group, index: int) -> list[str]:
    """Return the operands of a sequence of +, as they are written."""
    start, end = index, index
    while part.word(start) == "+" and (group := _before(part, start)) is not None:
        start -= len(group.items) + 1
    while part.word(end) == "+" and (group := _after(part, end)) is not None:
        end += len(group.items) + 1
    cuts = [start, *(at for at in range(start + 1, end) if part.word(at) == "+"), end]
    return [written(part.slice(a + 1, b)) for a, b in pairwise(cuts)]


# -- operands


def _operands(query: Query, index: int) -> tuple[_Operand, _Operand] | None:
    """Return the operands next to a sign; None if it is no operator of two, or they are parts of others."""
    part = query.part
    left, right = _before(part, index), _after(part, index)
    if left is None or right is None:
        return None
    if part.word(index) in ("+", "-"):
        if part.word(index - len(left.items) - 1) in _PRODUCTS:
            return None
        right = _product(part, index, right)
    return _operand(query, left), _operand(query, right)


def _product(part: Group, index: int, first: Group) -> Group:
    """Return the product that begins with the operand after a sign, or only the operand."""
    end = index + 1 + len(first.items)
    while part.word(end) in _PRODUCTS and (factor := _after(part, end)) is not None:
        end += len(factor.items) + 1
    return part.slice(index + 1, end)


def _before(part: Group, index: int) -> Group | None:
    """Return the operand that ends before an index."""
    start = index - 1
    if part.group(start) is not None and is_call(part, start - 1):
        start -= 1
    elif part.is_name(start):
        while part.word(start - 1) == "." and part.is_name(start - 2):
            start -= 2
    return None if part.word(start - 1) in _TIGHT else _checked(part.slice(max(start, 0), index))


def _after(part: Group, index: int) -> Group | None:
    """Return the operand that begins after an index."""
    end = index + 2
    if part.is_name(index + 1):
        while part.word(end) == "." and part.is_name(end + 1):
            end += 2
        if part.group(end) is not None and is_call(part, end - 1):
            end += 1
    return None if part.word(end) in (*_TIGHT, "OVER", "FILTER") else _checked(part.slice(index + 1, end))


def _checked(operand: Group) -> Group | None:
    """Return an operand unless it is a sign, a keyword, or empty."""
    last = operand.items[-1] if operand.items else None
    if isinstance(last, Token):
        is_keyword = last.kind == "word" and last.word in KEYWORDS - UNRESERVED - _NOW
        return None if last.kind == "op" or is_keyword else operand
    return operand if last is not None else None


def _operand(query: Query, expression: Group) -> _Operand:
    expression = bare(expression)
    string = string_value(expression)
    if string is not None:
        form = form_of_text(string)
        kind = {"day": "day", "midnight": "moment", "moment": "moment"}.get(form, "" if is_number(string) else "words")
        return _Operand(expression, kind)
    form = form_of_call(expression)
    if form:
        return _Operand(expression, form if form in _FUNCTIONS else "")
    declared = query.declared(expression) or ""
    if is_date(declared):
        return _Operand(expression, "day" if is_day_type(declared) else "moment", declared)
    if affinity(declared) == "TEXT":
        return _Operand(expression, "text", declared)
    is_word = arguments_of(expression) is not None and expression.word(0) in ("UPPER", "LOWER")
    return _Operand(expression, "words" if is_word else "", declared)


def _has_numbers(context: Context, operand: _Operand) -> bool:
    """Return True if the result shows that a column of dates has numbers, such as seconds since 1970."""
    if not operand.declared or operand.kind not in _FUNCTIONS:
        return False
    values = context.values(operand.text.rpartition(".")[2])
    return context.counts_seconds or any(isinstance(value, int | float) for value in values)


# -- casts to types that SQLite does not have

_DATES = {
    "DATE": "date",
    "DATETIME": "datetime",
    "TIMESTAMP": "datetime",
    "TIMESTAMPTZ": "datetime",
    "TIME": "time",
}
"""Types of dates, and the function that returns them."""

_TEXTS = frozenset(["STRING", "STR", "UUID", "JSON", "JSONB", "ENUM"])
"""Types of texts without TEXT or CHAR in their names, by which SQLite finds the affinity."""


def casts(context: Context) -> Iterator[str]:
    """Yield each cast to a type of dates or texts that SQLite does not have."""
    for query in context.queries:
        expression, type_ = _cast(query.part)
        if expression is None or context.args.get(written(expression), "") is None:
            continue
        function = _DATES.get(type_.partition("(")[0].split(" ")[0])
        value, shown = written(expression), f"CAST({written(expression)} AS {type_})"
        number = _number(expression)
        if function is not None and (write := _date(query, expression, function)):
            yield f"{shown} is {number or 'a number, such as 2013'}: write {write}"
        elif type_.split("(")[0] in _TEXTS:
            yield f"{shown} is {number or 'a number, 0 for a text without digits'}: write CAST({value} AS TEXT)"


def _cast(part: Group) -> tuple[Group | None, str]:
    """Return the expression and the type of a cast from the tokens in its parentheses; None for any others."""
    if part.parent is None or part.parent.word(part.index - 1) != "CAST":
        return None, ""
    words = part.words()
    at = len(words) - 1 - words[::-1].index("AS") if "AS" in words else 0
    return (bare(part.slice(0, at)) if at else None), written(part.slice(at + 1)).upper()


def _number(expression: Group) -> str:
    """Return the number that SQLite reads at the start of a text in quotes; '' for any other expression."""
    text = string_value(expression)
    if text is None:
        return ""
    match = re.match(r"\s*([+-]?\d+(?:\.\d+)?)(?!\d|e)", text, re.ASCII | re.IGNORECASE)
    if match is None:
        return "" if re.match(r"\s*[+-]?\.?\d", text) else "0"
    return f"{float(match[1]):.15g}"


def _date(query: Query, expression: Group, function: str) -> str:
    """Return the call that returns the date; '' where a number is right or nothing is known about the date."""
    name = expression.word(0) if arguments_of(expression) is not None else ""
    if expression.word(0) == "NULL" or name in ("STRFTIME", "UNIXEPOCH", "JULIANDAY"):
        return ""
    declared = query.declared(expression) or ""
    if affinity(declared) in ("INTEGER", "REAL") or number_value(expression) is not None:
        return f"{function}({written(expression)}, 'unixepoch') if it counts seconds since 1970"
    return f"{function}({written(expression)})"
