"""Texts that are compared with numbers: a TEXT column converts the number, and any other text is never equal to one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipemagic.explore.comparisons import ORDERED, Comparison
from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.date_comparisons import EQUAL, compared, is_met, order, value_of
from pipemagic.explore.lint.expressions import arguments_of, string_value, written
from pipemagic.explore.lint.forms import form_of_call, is_number
from pipemagic.explore.query import Group
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import unquote
from pipemagic.sql.type_affinity import affinity

TEXTS = frozenset(
    ["char", "concat", "concat_ws", "date", "datetime", "format", "group_concat", "hex", "lower", "ltrim", "printf",
     "quote", "replace", "rtrim", "strftime", "string_agg", "substr", "substring", "time", "trim", "typeof", "upper"]
)  # fmt: skip
"""Functions that return a text."""

NUMBERS = frozenset(
    ["abs", "avg", "changes", "count", "cume_dist", "dense_rank", "instr", "julianday", "last_insert_rowid", "length",
     "ntile", "octet_length", "percent_rank", "random", "rank", "round", "row_number", "sign", "sum", "total",
     "total_changes", "unicode", "unixepoch"]
)  # fmt: skip
"""Functions that return a number."""

_DIGITS = {"Y": 4, "G": 4, "j": 3, "w": 1, "u": 1, **dict.fromkeys("dHIkmMSUVWgel", 2)}
"""Letters of strftime that are replaced by digits, and how many."""

_ARITHMETIC = frozenset(["+", "-", "*", "/", "%"])


def text_comparisons(context: Context) -> Iterator[str]:
    """Yield each comparison of a text with a number.

    A TEXT column converts the number to text: '10' < '9.5'. An integer equals the text of its digits, so = and IN with
    integers are left out. Other texts, such as that of strftime(), are greater than every number.
    """
    causes = set[str]()
    for comparison in context.comparisons:
        message = next(filter(None, (note(context, comparison) for note in _NOTES)), "")
        cause = written(comparison.other) + comparison.operator
        if message and cause not in causes:
            causes.add(cause)
            yield message


# -- columns declared TEXT


def _column_note(context: Context, comparison: Comparison) -> str:
    values = _values_of(context, comparison)
    is_float = any(isinstance(value, float) for value in values)
    if not is_float and (comparison.operator not in (*ORDERED, "BETWEEN") or not any(map(_is_number, values))):
        return ""
    declared = comparison.declared if comparison.other.word(0) not in ("MIN", "MAX") else None
    if not declared or affinity(declared) != "TEXT" or (order(comparison) in EQUAL and is_met(context, comparison)):
        return ""
    column, value = written(comparison.other), value_of(comparison)
    what = "contains numbers" if comparison.parameter is not None and value not in context.args else "is a number"
    reason = f"{column} is declared {declared} and {value} {what}, so {comparison.operator} compares text"
    return f"{reason}: write {compared(comparison, f'CAST({column} AS REAL)', value)}"


def _values_of(context: Context, comparison: Comparison) -> list[SqlValue]:
    """Return the value of the operand, or the values of a parameter that stands for a list."""
    token = comparison.value
    if token is None or token.kind == "string":
        return [] if token is None else [unquote(token.text)]
    if token.kind == "param":
        return context.values_of(token.text) if context.args else []
    try:
        return [int(token.text)]
    except ValueError:
        pass
    try:
        return [float(token.text)]
    except ValueError:  # a hexadecimal number
        return []


def _is_number(value: SqlValue) -> bool:
    return isinstance(value, int | float)


# -- texts without a declared type, such as that of strftime()


def _text_note(context: Context, comparison: Comparison) -> str:
    """Return the note on a text that is no column and is compared with a number, or with fewer digits than it has."""
    text = comparison.query.definition(comparison.other) if comparison.is_readable else comparison.other
    if not _is_text(text) or (order(comparison) in EQUAL and is_met(context, comparison)):
        return ""
    shown, value = written(comparison.other), value_of(comparison)
    values = _values_of(context, comparison)
    if not _is_number_expression(comparison.operand) and not any(map(_is_number, values)):
        return _digits_note(comparison, text, shown, values)
    write = _as_number(comparison, text, shown, values)
    what = "contains numbers" if comparison.parameter is not None and value not in context.args else "is a number"
    why = "so they are never equal" if order(comparison) in EQUAL else "and text is greater than every number"
    return f"{shown} is text and {value} {what}, {why}: write {write}"


def _is_text(expression: Group) -> bool:
    if form_of_call(expression):
        return True
    words = expression.words()
    if "||" in words:
        return _ARITHMETIC.isdisjoint(words)
    return arguments_of(expression) is not None and expression.name(0).lower() in TEXTS


def _is_number_expression(expression: Group) -> bool:
    words = expression.words()
    if len(words) > 2 and not _ARITHMETIC.isdisjoint(words[1:]) and "||" not in words and "(" not in words:
        return words[0] != "CASE"
    return arguments_of(expression) is not None and expression.name(0).lower() in NUMBERS


def _as_number(comparison: Comparison, text: Group, shown: str, values: list[SqlValue]) -> str:
    """Return a comparison of numbers, or of the digits that strftime() returns; ``text`` defines the other operand."""
    token, value = comparison.value, value_of(comparison)
    is_one = comparison.operator not in ("IS", "IN", "BETWEEN", "WHEN")
    if is_one and token is not None and token.kind == "number" and token.text.isdecimal():
        digits = _digits_of(text)
        if len(token.text) <= digits:
            return compared(comparison, shown, f"'{token.text.zfill(digits)}'")
    part = {"day": "%Y", "moment": "%Y", "time": "%H"}.get(form_of_call(text))
    if part is not None:
        arguments = ", ".join(map(written, arguments_of(text) or [])) or "'now'"
        shown = f"strftime('{part}', {arguments if text is comparison.other else shown})"
    type_ = "REAL" if any(isinstance(number, float) for number in values) else "INTEGER"
    return compared(comparison, f"CAST({shown} AS {type_})", value)


def _letters_of(expression: Group) -> list[str]:
    """Return the format of a call of strftime(), as the texts between its letters and the letters in turn."""
    arguments = arguments_of(expression)
    if not arguments or expression.word(0) != "STRFTIME":
        return []
    return re.split("%([A-Za-z])", string_value(arguments[0]) or "")


def _digits_of(expression: Group) -> int:
    """Return the number of digits that strftime() returns for a format of one letter; 0 for anything else."""
    match _letters_of(expression):
        case ["", letter, ""]:
            return _DIGITS.get(letter, 0)
    return 0


def _padded(expression: Group, text: str) -> str:
    """Return a text with the zeros that strftime() writes; '' if none is missing, or it has another form."""
    parts = _letters_of(expression)
    letters, between = parts[1::2], parts[2:-1:2]
    if not letters or not all(between) or not all(letter in _DIGITS for letter in letters):
        return ""
    pattern = "".join(
        rf"(\d{{1,{_DIGITS[part]}}})" if number % 2 else re.escape(part) for number, part in enumerate(parts)
    )
    match = re.fullmatch(pattern, text, re.ASCII)
    if match is None:
        return ""
    digits = [digits.zfill(_DIGITS[letter]) for digits, letter in zip(match.groups(), letters, strict=True)]
    padded = parts[0] + "".join(piece for pair in zip(digits, parts[2::2], strict=True) for piece in pair)
    return padded if padded != text else ""


def _digits_note(comparison: Comparison, text: Group, shown: str, values: list[SqlValue]) -> str:
    """Return the note on strftime('%m', day) = '6', which is '06', and '%Y-%m' with '2013-6'."""
    number = values[0] if len(values) == 1 else None
    padded = _padded(text, number) if isinstance(number, str) else ""
    digits = _digits_of(text)
    if not padded or (digits == 0 and (order(comparison) not in EQUAL or comparison.parameter is not None)):
        return ""
    form = f"{digits} digits" if digits else "zeros in front of single digits"
    write = f"'{padded}'" if comparison.parameter is None else f"printf('%0{digits}d', {value_of(comparison)})"
    return f"{shown} has {form}, such as '{padded}': write {compared(comparison, shown, write)}"


# -- numbers that are no columns


def _number_note(context: Context, comparison: Comparison) -> str:
    """Return the note on a number that is no column, such as count(*), and is compared with a text."""
    if not _is_number_expression(comparison.other):
        return ""
    texts = [value for value in _values_of(context, comparison) if isinstance(value, str)]
    if not texts or not is_number(texts[0]):
        return ""
    shown, value = written(comparison.other), value_of(comparison)
    number = texts[0].strip()
    type_ = "INTEGER" if number.lstrip("+-").isdecimal() else "REAL"
    write = number if comparison.parameter is None else f"CAST({value} AS {type_})"
    why = "so they are never equal" if order(comparison) in EQUAL else "and a number is less than any text"
    if comparison.operator in ("IS", "IN", "BETWEEN", "WHEN"):
        write = f"{write} instead of {value}"
    else:
        write = compared(comparison, shown, write)
    return f"{shown} is a number and {value} is text, {why}: write {write}"


_NOTES = (_column_note, _text_note, _number_note)
