"""Comparisons of dates with texts of another form, and of texts with numbers.

SQLite compares dates character by character. A TEXT column converts a number; any other text is never equal to one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipemagic.explore.comparisons import ORDERED, Comparison
from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.dates import form_of_call, form_of_text, is_number, readings
from pipemagic.explore.lint.expressions import arguments_of, start_of, string_value, written
from pipemagic.explore.query import Query
from pipemagic.explore.token_tree import Group
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import dates, unquote
from pipemagic.sql.type_affinity import affinity, is_date, is_day_type

_EQUAL = ("=", "==", "<>", "!=", "IS", "IN", "WHEN")
_YEAR = re.compile(r"[12]\d{3}", re.ASCII)
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True)
class _Dates:
    """An expression whose values are dates: its text, its form ('day' or 'moment'), and its declared type or ''."""

    text: str
    form: str
    declared: str

    @property
    def described(self) -> str:
        """The reason for its form, for a note."""
        if self.declared:
            return f"{self.text} is declared {self.declared}"
        return f"{self.text} has {'no time' if self.form == 'day' else 'a time'}"


def date_comparisons(context: Context) -> Iterator[str]:
    """Yield each comparison of dates with a text, a parameter or other dates of another form."""
    causes = set[tuple[str, str, str]]()
    for comparison in context.comparisons:
        subject = _dates(comparison)
        if subject is None or (comparison.value is None and not subject.declared and _declared(comparison)):
            continue  # the column is the subject, from the other side
        form, text = _form_of_value(context, comparison)
        operator = _order(comparison)
        note = _note(comparison, subject, form, text, operator) if form else ""
        if not note or (subject.text, operator, form) in causes or _is_disproved(context, comparison, subject, form):
            continue
        causes.add((subject.text, operator, form))
        yield note


def _order(comparison: Comparison) -> str:
    """Return the operator with the other operand on its left; BETWEEN is >= and <=."""
    operator = comparison.operator
    if operator == "BETWEEN":
        operator = "<=" if comparison.is_end else ">="
        return _FLIPPED[operator] if comparison.is_first else operator
    return _FLIPPED.get(operator, operator) if comparison.is_first else operator


def _value_of(comparison: Comparison) -> str:
    """Return the operand as it is written."""
    return written(comparison.operand) if comparison.value is None else comparison.value.text


def _compared(comparison: Comparison, subject: str, value: str) -> str:
    """Return a comparison as it is to be written, or the part of it that is to be replaced."""
    operator, old = comparison.operator, written(comparison.other)
    if operator in ("IS", "IN", "BETWEEN", "WHEN"):
        return f"{subject} instead of {old}" if subject != old else f"{value} instead of {written(comparison.operand)}"
    return f"{value} {operator} {subject}" if comparison.is_first else f"{subject} {operator} {value}"


def _dates(comparison: Comparison) -> _Dates | None:
    """Return the other operand if its values are dates."""
    if comparison.declared and is_date(comparison.declared):
        form = "day" if is_day_type(comparison.declared) else "moment"
        return _Dates(written(comparison.other), form, comparison.declared)
    form = form_of_call(comparison.other)
    return _Dates(written(comparison.other), form, "") if form in ("day", "moment") else None


def _form_of_value(context: Context, comparison: Comparison) -> tuple[str, str]:
    """Return the form of the operand, and its text; 'days' and 'moments' for an expression whose values are dates."""
    value = comparison.value
    if value is None:
        declared, form = _declared(comparison), form_of_call(comparison.operand)
        if declared:
            form = "day" if is_day_type(declared) else "moment"
        return (f"{form}s" if form in ("day", "moment") else ""), ""
    texts = [unquote(value.text)] if value.kind == "string" else context.values_of(value.text)
    text = value.text if value.kind == "number" else texts[0] if texts else None
    if not isinstance(text, str) or value.kind == "number":
        is_year = _YEAR.fullmatch(str(text)) is not None and _holds_texts(context, comparison)
        return ("year" if is_year else ""), ""
    if comparison.declared is not None and _is_sent_as_date(context, comparison):
        return "day", text[:10]
    forms = {form_of_text(other) if isinstance(other, str) else "" for other in texts}
    return (forms.pop() if len(forms) == 1 else ""), text


def _holds_texts(context: Context, comparison: Comparison) -> bool:
    """Return True if the result shows that a column of dates has no numbers, such as years."""
    if not _is_numeric_column(comparison):
        return False
    if _order(comparison) in (*_EQUAL, "<", "<=") and context.finds_rows is False:
        return True
    values = context.values(_column(written(comparison.other)))
    return any(isinstance(value, str) and dates.is_day(value[:10]) for value in values)


def _column(text: str) -> str:
    """Return the name of a column without its table and quotes."""
    return text.rpartition(".")[2].strip('"[]`')


def _declared(comparison: Comparison) -> str:
    """Return the declared type of the operand if it is a column of dates; otherwise ''."""
    declared = comparison.query.declared(comparison.operand) or "" if comparison.is_readable else ""
    return declared if is_date(declared) else ""


def _is_sent_as_date(context: Context, comparison: Comparison) -> bool:
    """Return True for a parameter at midnight that is compared with DATE columns alone: they get its date.

    So is a list with one.
    """
    name = comparison.parameter.text if comparison.parameter is not None else ""
    if not any(sent in context.dates for sent in context.names_of(name)):
        return False
    types = [other.declared for other in context.comparisons if other.parameter and other.parameter.text == name]
    return all(type_ is None or is_day_type(type_) for type_ in types)


def _note(comparison: Comparison, subject: _Dates, form: str, text: str, operator: str) -> str:
    """Return the note on dates that are compared with a value of a form; '' if it is right."""
    value = _value_of(comparison)
    is_equal = operator in _EQUAL
    match subject.form, form:
        case "moment", "day" | "days":
            return _moments_and_day(comparison, subject, value, operator, text)
        case "day", "moment" | "midnight" | "moments":
            return _days_and_moment(comparison, subject, value, form, operator)
        case _, "month":
            start = f"strftime('%Y-%m', {_argument(comparison)})"
            return _part_of_date(comparison, value, operator, start, "month")
        case _, "number" if _is_numeric_column(comparison):
            write = _year_or_day(comparison, subject.text, value, text)
            compares = f"{value} becomes a number, which is less than every date"
            return write and f"{subject.described}, so {compares}: write {write}"
        case _, "year":
            write = _compared(comparison, f"CAST(strftime('%Y', {subject.text}) AS INTEGER)", value)
            return f"{subject.described} and {value} is a number, which is less than every date: write {write}"
        case _, "number" if len(text) == 4:
            start = f"strftime('%Y', {_argument(comparison)})"
            return _part_of_date(comparison, value, operator, start, "year")
        case _, "now":
            now = "date('now')" if subject.form == "day" else "datetime('now')"
            return f"{value} is only a string in a comparison: write {_compared(comparison, subject.text, now)}"
        case _, "other":
            write = " or ".join(_compared(comparison, subject.text, f"'{day}'") for day in readings(text))
            is_never = "never equals a date" if is_equal else "does not sort as a date"
            return f"{value} is not in SQLite's date format and {is_never}: write {write}"
    return ""


def _moments_and_day(comparison: Comparison, subject: _Dates, value: str, operator: str, text: str) -> str:
    """Return the note on moments that are compared with a day; ``text`` is '' unless it is a constant."""
    write = f"write {_compared(comparison, f'date({subject.text})', value)}"
    if operator in _EQUAL:
        described = f"is declared {_declared(comparison)}" if _declared(comparison) else "has no time"
        return f"{subject.described} and {value} {described}, so they are never equal: {write}"
    if operator == "<=":
        sign = "BETWEEN" if comparison.operator == "BETWEEN" else operator
        return f"{subject.described}, so {sign} excludes the times on {value}: {write}"
    following = dates.next_day(text) if text else ""
    if operator == ">" and following.endswith("-01"):  # > '2013-01-01' is usual for: since that day
        return f"{subject.described}, so > includes the times on {value}: write {subject.text} >= '{following}'"
    return ""


def _days_and_moment(comparison: Comparison, subject: _Dates, value: str, form: str, operator: str) -> str:
    token = comparison.value
    day = f"date({value})" if token is None or token.kind == "param" else f"'{unquote(value)[:10]}'"
    write = f"write {_compared(comparison, subject.text, day)}"
    if operator in _EQUAL:
        described = f"is declared {_declared(comparison)}" if _declared(comparison) else "has a time"
        return f"{subject.described} and {value} {described}, so they are never equal: {write}"
    if form == "midnight" and operator in ("<", ">="):
        return f"{subject.described} and {value} has a time, so the day itself is less: {write}"
    return ""


def _part_of_date(comparison: Comparison, value: str, operator: str, start: str, part: str) -> str:
    """Return the note on a month or a year that is compared with whole dates."""
    write = f"write {_compared(comparison, start, value)}"
    if operator in _EQUAL:
        return f"{value} is only a {part}, so no date equals it: {write}"
    if operator in ("<=", ">"):
        return f"{value} is only a {part}, so all its dates are greater: {write}"
    return ""


def _year_or_day(comparison: Comparison, subject: str, value: str, text: str) -> str:
    """Return what to write for 2013 or 20130105; '' for other numbers, which may count days or seconds."""
    if len(text) == 4 and text.isdecimal():
        return _compared(comparison, f"strftime('%Y', {subject})", value)
    return " or ".join(_compared(comparison, subject, f"'{day}'") for day in readings(text))


def _argument(comparison: Comparison) -> str:
    """Return what a function of dates gets: the argument of date(x) instead of the call."""
    inner = comparison.other.group(1)
    return written(comparison.other if inner is None or len(inner.split()) != 1 else inner)


def _is_numeric_column(comparison: Comparison) -> bool:
    """Return True for a column of a table: it converts a text of digits to a number, as no expression does."""
    other, query = comparison.other, comparison.query
    place = query.column(other, len(other.items) - 1) if len(other.items) in (1, 3) else None
    if place is None or place[0].table is None or place[0].table.kind not in ("table", "view"):
        return False
    return affinity(comparison.declared or "") == "NUMERIC"


# -- proof in the result that the values are of another form

_OTHERS = {"moment": ("day",), "day": ("moment", "midnight")}


def _is_disproved(context: Context, comparison: Comparison, subject: _Dates, form: str) -> bool:
    """Return True if the result shows that the column has other values than its declared type says."""
    if _order(comparison) in _EQUAL and _is_met(context, comparison):
        return True
    if subject.declared and context.counts_seconds:
        return True
    name = _column(subject.text) if subject.declared else ""
    for value in context.values(name) if name else ():
        if isinstance(value, int | float):
            return True
        if (
            isinstance(value, str)
            and form_of_text(value) in ({"moment": ["day"], "day": ["moment", "midnight"]}[subject.form])
        ):
            return True
        if isinstance(value, str) and form == "other" and readings(value):
            return True
    return False


def _is_met(context: Context, comparison: Comparison) -> bool:
    """Return True if the result has rows, each of which meets the comparison."""
    query = comparison.query
    if not context.finds_rows or query.outer is not None or comparison.operator in ("<>", "!="):
        return False
    words = query.part.words()
    if "WHERE" not in words or not {"OR", "NOT", "UNION", "CASE"}.isdisjoint(words):
        return False
    return _is_in_where(query, comparison)


def _is_in_where(query: Query, comparison: Comparison) -> bool:
    where = query.clause("WHERE")
    first, last = start_of(where), start_of(where.slice(-1))
    return first is not None and last is not None and first <= (start_of(comparison.other) or -1) <= last


# -- texts and numbers

_TEXTS = frozenset(
    ["char", "concat", "concat_ws", "date", "datetime", "format", "group_concat", "hex", "lower", "ltrim", "printf",
     "quote", "replace", "rtrim", "strftime", "string_agg", "substr", "substring", "time", "trim", "typeof", "upper"]
)  # fmt: skip
"""Functions that return a text."""

_NUMBERS = frozenset(
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
    if not declared or affinity(declared) != "TEXT" or (_order(comparison) in _EQUAL and _is_met(context, comparison)):
        return ""
    column, value = written(comparison.other), _value_of(comparison)
    what = "contains numbers" if comparison.parameter is not None and value not in context.args else "is a number"
    reason = f"{column} is declared {declared} and {value} {what}, so {comparison.operator} compares them as text"
    write = _compared(comparison, f"CAST({column} AS REAL)", value)
    return f"{reason}: write {write} if each text is a number such as 1234.5"


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
    if not _is_text(text) or (_order(comparison) in _EQUAL and _is_met(context, comparison)):
        return ""
    shown, value = written(comparison.other), _value_of(comparison)
    values = _values_of(context, comparison)
    if not _is_number_expression(comparison.operand) and not any(map(_is_number, values)):
        return _digits_note(comparison, text, shown, values)
    write = _as_number(comparison, text, shown, values)
    what = "contains numbers" if comparison.parameter is not None and value not in context.args else "is a number"
    why = "so they are never equal" if _order(comparison) in _EQUAL else "and text is greater than every number"
    return f"{shown} is text and {value} {what}, {why}: write {write}"


def _is_text(expression: Group) -> bool:
    if form_of_call(expression):
        return True
    words = expression.words()
    if "||" in words:
        return _ARITHMETIC.isdisjoint(words)
    return arguments_of(expression) is not None and expression.name(0).lower() in _TEXTS


def _is_number_expression(expression: Group) -> bool:
    words = expression.words()
    if len(words) > 2 and not _ARITHMETIC.isdisjoint(words[1:]) and "||" not in words and "(" not in words:
        return words[0] != "CASE"
    return arguments_of(expression) is not None and expression.name(0).lower() in _NUMBERS


def _as_number(comparison: Comparison, text: Group, shown: str, values: list[SqlValue]) -> str:
    """Return a comparison of numbers, or of the digits that strftime() returns; ``text`` defines the other operand."""
    token, value = comparison.value, _value_of(comparison)
    is_one = comparison.operator not in ("IS", "IN", "BETWEEN", "WHEN")
    if is_one and token is not None and token.kind == "number" and token.text.isdecimal():
        digits = _digits_of(text)
        if len(token.text) <= digits:
            return _compared(comparison, shown, f"'{token.text.zfill(digits)}'")
    part = {"day": "%Y", "moment": "%Y", "time": "%H"}.get(form_of_call(text))
    if part is not None:
        arguments = ", ".join(map(written, arguments_of(text) or [])) or "'now'"
        shown = f"strftime('{part}', {arguments if text is comparison.other else shown})"
    type_ = "REAL" if any(isinstance(number, float) for number in values) else "INTEGER"
    return _compared(comparison, f"CAST({shown} AS {type_})", value)


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
    if not padded or (digits == 0 and (_order(comparison) not in _EQUAL or comparison.parameter is not None)):
        return ""
    form = f"{digits} digits" if digits else "a leading zero before single digits"
    write = f"'{padded}'" if comparison.parameter is None else f"printf('%0{digits}d', {_value_of(comparison)})"
    return f"{shown} has {form}, such as '{padded}': write {_compared(comparison, shown, write)}"


# -- numbers that are no columns


def _number_note(context: Context, comparison: Comparison) -> str:
    """Return the note on a number that is no column, such as count(*), and is compared with a text."""
    if not _is_number_expression(comparison.other):
        return ""
    texts = [value for value in _values_of(context, comparison) if isinstance(value, str)]
    if not texts or not is_number(texts[0]):
        return ""
    shown, value = written(comparison.other), _value_of(comparison)
    number = texts[0].strip()
    type_ = "INTEGER" if number.lstrip("+-").isdecimal() else "REAL"
    write = number if comparison.parameter is None else f"CAST({value} AS {type_})"
    why = "so they are never equal" if _order(comparison) in _EQUAL else "and a number is less than any text"
    if comparison.operator in ("IS", "IN", "BETWEEN", "WHEN"):
        write = f"{write} instead of {value}"
    else:
        write = _compared(comparison, shown, write)
    return f"{shown} is a number and {value} is text, {why}: write {write}"


_NOTES = (_column_note, _text_note, _number_note)
