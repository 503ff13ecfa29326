"""Dates compared with texts of another form, which SQLite compares character by character."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipemagic.explore.comparisons import Comparison
from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import start_of, written
from pipemagic.explore.lint.forms import form_of_call, form_of_text, readings
from pipemagic.explore.query import Query
from pipemagic.sql import dates, unquote
from pipemagic.sql.type_affinity import affinity, is_date, is_day_type

EQUAL = ("=", "==", "<>", "!=", "IS", "IN", "WHEN")
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
        operator = order(comparison)
        note = _note(comparison, subject, form, text, operator) if form else ""
        if not note or (subject.text, operator, form) in causes or _is_disproved(context, comparison, subject, form):
            continue
        causes.add((subject.text, operator, form))
        yield note


def order(comparison: Comparison) -> str:
    """Return the operator with the other operand on its left; BETWEEN is >= and <=."""
    operator = comparison.operator
    if operator == "BETWEEN":
        operator = "<=" if comparison.is_end else ">="
        return _FLIPPED[operator] if comparison.is_first else operator
    return _FLIPPED.get(operator, operator) if comparison.is_first else operator


def value_of(comparison: Comparison) -> str:
    """Return the operand as it is written."""
    return written(comparison.operand) if comparison.value is None else comparison.value.text


def compared(comparison: Comparison, subject: str, value: str) -> str:
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
    if comparison.declared is not None and is_sent_as_date(context, comparison):
        return "day", text[:10]
    forms = {form_of_text(other) if isinstance(other, str) else "" for other in texts}
    return (forms.pop() if len(forms) == 1 else ""), text


def _holds_texts(context: Context, comparison: Comparison) -> bool:
    """Return True if the result shows that a column of dates has no numbers, such as years."""
    if not _is_numeric_column(comparison):
        return False
    if order(comparison) in (*EQUAL, "<", "<=") and context.finds_rows is False:
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


def is_sent_as_date(context: Context, comparison: Comparison) -> bool:
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
    value = value_of(comparison)
    is_equal = operator in EQUAL
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
            write = compared(comparison, f"CAST(strftime('%Y', {subject.text}) AS INTEGER)", value)
            return f"{subject.described} and {value} is a number, which is less than every date: write {write}"
        case _, "number" if len(text) == 4:
            start = f"strftime('%Y', {_argument(comparison)})"
            return _part_of_date(comparison, value, operator, start, "year")
        case _, "now":
            now = "date('now')" if subject.form == "day" else "datetime('now')"
            return f"in a comparison, {value} is only a string: write {compared(comparison, subject.text, now)}"
        case _, "other":
            write = " or ".join(compared(comparison, subject.text, f"'{day}'") for day in readings(text))
            is_never = "never equals a date" if is_equal else "is not ordered as dates are"
            return f"{value} is not in SQLite's date format and {is_never}: write {write}"
    return ""


def _moments_and_day(comparison: Comparison, subject: _Dates, value: str, operator: str, text: str) -> str:
    """Return the note on moments that are compared with a day; ``text`` is '' unless it is a constant."""
    write = f"write {compared(comparison, f'date({subject.text})', value)}"
    if operator in EQUAL:
        described = f"is declared {_declared(comparison)}" if _declared(comparison) else "has no time"
        return f"{subject.described} and {value} {described}, so they are never equal: {write}"
    if operator == "<=":
        sign = "BETWEEN" if comparison.operator == "BETWEEN" else operator
        return f"{subject.described}, so {sign} ends before the times of {value}: {write}"
    following = dates.next_day(text) if text else ""
    if operator == ">" and following.endswith("-01"):  # > '2013-01-01' is usual for: since that day
        return f"{subject.described}, so > begins with the times of {value}: write {subject.text} >= '{following}'"
    return ""


def _days_and_moment(comparison: Comparison, subject: _Dates, value: str, form: str, operator: str) -> str:
    token = comparison.value
    day = f"date({value})" if token is None or token.kind == "param" else f"'{unquote(value)[:10]}'"
    write = f"write {compared(comparison, subject.text, day)}"
    if operator in EQUAL:
        described = f"is declared {_declared(comparison)}" if _declared(comparison) else "has a time"
        return f"{subject.described} and {value} {described}, so they are never equal: {write}"
    if form == "midnight" and operator in ("<", ">="):
        return f"{subject.described} and {value} has a time, so the same day is less than it: {write}"
    return ""


def _part_of_date(comparison: Comparison, value: str, operator: str, start: str, part: str) -> str:
    """Return the note on a month or a year that is compared with whole dates."""
    write = f"write {compared(comparison, start, value)}"
    if operator in EQUAL:
        return f"{value} is only a {part}, so no date equals it: {write}"
    if operator in ("<=", ">"):
        return f"{value} is only a {part}, so all its dates are greater than it: {write}"
    return ""


def _year_or_day(comparison: Comparison, subject: str, value: str, text: str) -> str:
    """Return what to write for 2013 or 20130105; '' for other numbers, which may count days or seconds."""
    if len(text) == 4 and text.isdecimal():
        return compared(comparison, f"strftime('%Y', {subject})", value)
    return " or ".join(compared(comparison, subject, f"'{day}'") for day in readings(text))


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
    if order(comparison) in EQUAL and is_met(context, comparison):
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


def is_met(context: Context, comparison: Comparison) -> bool:
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
