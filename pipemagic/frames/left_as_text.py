"""Explain why columns of a delimited file stay text although they look like numbers or dates, and what reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from pipemagic.frames import inference
from pipemagic.frames.file_options import READING, Reading
from pipemagic.sql import quote
from pipemagic.text import list_names

_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?!\d)", re.ASCII)

_CURRENCIES = "AUD BRL CAD CHF CNY CZK DKK EUR GBP HUF INR JPY KRW MXN NOK NZD PLN SEK TRY USD ZAR Fr. Rs. kr z\u0142"
_MINUS = "\u2212"
_SIGN = "|".join(["[$\u00a3\u00a5\u20a0-\u20bf%\u2030]", *map(re.escape, _CURRENCIES.split())])
_DECORATED = re.compile(
    rf"(?P<open>\(?)(?P<minus>[-{_MINUS}]?)\s*(?P<before>(?:{_SIGN})?)\s*(?P<number>[-+\d.][\deE+.,'\u2019\s-]*?)\s*"
    rf"(?P<after>(?:{_SIGN})?)(?P<close>\)?)"
)
"""A number with a sign of a currency or of per cent, in parentheses if it is negative, or with the true minus sign."""

_DIGITS = re.compile(r"[\d.,'\u2019\seE+-]+")
"""The characters of numbers."""

_POINTS = {".": "decimal point", ",": "decimal comma"}

_DATE = re.compile(
    r"\d{1,2}(?P<mark>[./-])\d{1,2}(?P=mark)(?P<year>\d{4}|\d{2})(?: \d{1,2}:\d{2}(?::\d{2})?)?", re.ASCII
)
"""A date that is not in ISO format; the day or the month comes first."""


class LeftAsText(NamedTuple):
    """Columns of a file that stay text, why, the options that read them, and what the options read.

    One of several ``options`` has to be chosen; without any, none reads these columns together with the others.
    """

    columns: list[str]
    reason: str
    options: Sequence[str] = ()
    reads: str = ""
    expression: str = ""
    """The number in SQL, for the first of the columns."""

    def __str__(self) -> str:
        names = ", ".join(self.columns)
        subject = f"Column {names} was" if len(self.columns) == 1 else f"Columns {names} were"
        because = f"{subject} left as text because {self.reason}."
        if self.expression:
            return f"{because} In SQL, {self.expression} is the number."
        if len(self.options) == 1:
            return f"{because} Add -- {self.options[0]} to read {self.reads}."
        lines = [f"-- {options}" for options in self.options]
        return "\n".join([f"{because} Add one of these to read {self.reads}:" if lines else because, *lines])


class _Number(NamedTuple):
    """A text of a column of numbers that has a thousands separator, '' for none, and the decimal mark, '' for none."""

    text: str
    thousands: str
    decimal: str


class _Date(NamedTuple):
    """A text of a column of dates, and the formats that fit all of them."""

    text: str
    formats: Sequence[str]


def columns_left_as_text(frame: pd.DataFrame) -> Iterator[LeftAsText]:
    """Yield the columns of a CSV or TSV file that options of its reader would make numbers or dates."""
    reading: Reading | None = frame.attrs.get(READING)
    if reading is None:  # the readers of other files have no such options
        return
    names = [name for name in frame.columns[frame.dtypes == "string"] if name not in reading.typed]
    columns = {name: frame[name].dropna().drop_duplicates() for name in names}
    marked = {name: marks for name, texts in columns.items() if (marks := _marks_of_missing_values(texts))}
    if marked:
        marks = list(dict.fromkeys(mark for found in marked.values() for mark in found))
        because = " and ".join(map(repr, marks)) + (
            " is not a number or date" if len(marks) == 1 else " are not numbers or dates"
        )
        others = [name for name, texts in columns.items() if name not in marked and texts.isin(marks).any()]
        also = f", also in column{'s' * (len(others) > 1)} {', '.join(others)}" if others else ""  # where NA is Namibia
        yield LeftAsText(list(marked), because, [f"na_values={marks!r}"], f"missing values{also}")
    rest = {name: texts[~texts.isin(marked.get(name, []))] for name, texts in columns.items()}
    if dates := {name: date for name, texts in rest.items() if (date := _date(texts)) is not None}:
        yield _of_dates(dates)
    numbers = {name: number for name, texts in rest.items() if (number := _number(texts)) is not None}
    plain = {name: number for name, number in numbers.items() if not number.thousands}
    decimals = {reading.decimal, *(number.decimal for number in plain.values())}
    for name, texts in rest.items():
        if name not in dates and name not in numbers:
            other = _inexact(name, texts, reading) or _decorated(name, texts, reading) or _mixed_dates(name, texts)
            # The expression would make 0 of the marks.
            yield from [other._replace(expression="") if name in marked else other] if other else []
    for thousands in dict.fromkeys(number.thousands for number in numbers.values()):
        if thousands:
            alike = {name: number for name, number in numbers.items() if number.thousands == thousands}
            yield _of_numbers(alike, thousands, decimals, reading)
    # Without an option they are only beside marks of missing values, and will be read without these.
    unread = {name: number for name, number in plain.items() if number.decimal != (reading.decimal or ".")}
    if unread and not reading.detected:
        yield _of_numbers(unread, "", decimals, reading)


def _of_numbers(
    columns: Mapping[str, _Number], thousands: str, decimals: Iterable[str], reading: Reading
) -> LeftAsText:
    """Return columns of numbers with the same thousands separator; ``decimals`` are the decimal marks of the others.

    The options are those that the whole file needs.
    """
    number = max(columns.values(), key=lambda number: bool(number.decimal))
    first = next(iter(columns.values()))
    decimals = {*decimals, *(number.decimal for number in columns.values())} - {""}
    reason = f"{first.text!r} has a {'thousands separator' if thousands else _POINTS[number.decimal]}"
    if thousands in decimals:
        return LeftAsText(list(columns), f"{reason}, which is the decimal mark of other numbers")
    if len(decimals) > 1:
        return LeftAsText(list(columns), f"{number.text!r} has another decimal mark than other numbers")
    options = [f"thousands={thousands!r}"] if thousands else []
    options += [f"decimal={mark!r}" for mark in decimals if mark != "." and not reading.is_set]
    return LeftAsText(list(columns), reason, [" ".join(options)], "numbers")


def _of_dates(columns: Mapping[str, _Date]) -> LeftAsText:
    """Return columns of dates: one line of options reads all of them, whatever their formats."""
    firsts = dict[str, str]()
    for date in columns.values():
        firsts.setdefault(date.formats[0], date.text)
    texts = list(dict.fromkeys(firsts.values()))
    reason = f"{' and '.join(map(repr, texts))} {'is not an ISO date' if len(texts) == 1 else 'are not ISO dates'}"
    count = max(len(date.formats) for date in columns.values())
    options = []
    for choice in range(count):
        formats = {name: date.formats[min(choice, len(date.formats) - 1)] for name, date in columns.items()}
        shown = formats if len(set(formats.values())) > 1 else next(iter(formats.values()))
        options.append(f"parse_dates={list(columns)!r} date_format={shown!r}")
    doubt = ", and the day or the month may come first" if count > 1 else ""
    return LeftAsText(list(columns), reason + doubt, options, "dates")


def _marks_of_missing_values(texts: pd.Series[str]) -> list[str]:
    """Return the texts that usually mean a missing value, if all others are numbers, booleans or dates in any form."""
    is_mark = texts.str.strip().str.lower().isin(inference.MARKS)
    others = texts[~is_mark]
    if others.empty or not is_mark.any():
        return []
    column = inference.TextColumn.of(others, ())
    proven = any(
        inference.typed_texts(column, inference.NumberFormat(decimal)).dtype != column.as_text().dtype
        for decimal in (".", ",")
    )
    reading = Reading("", is_set=False, detected=True, typed=())
    are_numbers = proven or _number(others) or _inexact("a", others, reading) or _decorated("a", others, reading)
    return texts[is_mark].tolist() if are_numbers or _date(others) else []


def _number(texts: pd.Series[str]) -> _Number | None:
    """Return how numbers are written that stay text; None if they are no numbers in any format."""
    values = texts.tolist()
    for numbers in _formats(values):
        if inference.as_numbers(values, numbers) is None:
            continue
        text = next(text for text in values if numbers.thousands in text.strip())
        shown = next((text for text in values if numbers.decimal in text), "")
        if shown or numbers.thousands:
            return _Number(text if numbers.thousands else shown, numbers.thousands, numbers.decimal if shown else "")
    return None


def _formats(values: Sequence[str]) -> Iterator[inference.NumberFormat]:
    """Yield the formats that numbers may have, with each thousands separator that is in one of the texts."""
    formats = _formats_of_first(values)
    if formats and all(map(_DIGITS.fullmatch, values)):
        characters = {"", *"".join(map(str.strip, values))}
        yield from (numbers for numbers in formats if numbers.thousands in characters)


def _formats_of_first(values: Sequence[str]) -> list[inference.NumberFormat]:
    """Return the formats of the first texts. Most columns are no numbers: it would be slow to try all of them."""
    marks = ((mark, thousands) for thousands in (*".,'\u2019", *inference.SPACES, "") for mark in ".,")
    formats = [inference.NumberFormat(mark, thousands) for mark, thousands in marks if mark != thousands]
    return [numbers for numbers in formats if inference.plain_numbers(values[:100], numbers) is not None]


def _inexact(name: str, texts: pd.Series[str], reading: Reading) -> LeftAsText | None:
    """Return why a column of numbers is no column of integers or floats: one is not exact there; None if it is not."""
    values = texts.tolist()
    for numbers in _formats(values):
        text, kind = inference.inexact_number(values, numbers)
        if not text:
            continue
        reason = f"{text[:40]!r} is not exact as a 64-bit {kind}"
        is_integer = all(numbers.decimal not in text for text in values)
        is_plain = not numbers.thousands and (is_integer or numbers.decimal == (reading.decimal or "."))
        return LeftAsText([name], reason, [f"dtype={{{name!r}: 'float'}}"] if is_plain else [], "the nearest floats")
    return None


def _decorated(name: str, column: pd.Series[str], reading: Reading) -> LeftAsText | None:
    """Return a column of numbers with signs of a currency, of per cent and the like; None for another one."""
    texts = column.tolist()
    first, _ = _without_signs(texts[:100])
    values, signs = _without_signs(texts) if _formats_of_first(first) else ([], {})
    found = {
        form: numbers.tolist()
        for form in _formats(values)
        if reading.decimal in ("", form.decimal) and (numbers := inference.as_numbers(values, form)) is not None
    }
    if not found or not signs:
        return None
    shown = next(text for text in texts if any(sign in text for sign in signs))
    reason = f"{shown!r} has {list_names([repr(sign) for sign in signs])} beside the number"
    form, numbers = next(iter(found.items()))
    if any(others != numbers for others in found.values()):  # $1,234 may be 1.234
        return LeftAsText([name], reason)
    spaces = [space for space in inference.SPACES if any(space in text for text in texts)]
    changes = signs | dict.fromkeys([*spaces, form.thousands], "") | ({",": "."} if form.decimal == "," else {})
    changes = {old: new for old, new in changes.items() if old and any(old in text for text in texts)}
    expression, plain = quote(name), texts
    for old, new in changes.items():
        expression = f"replace({expression}, {quote(old, chr(39))}, '{new}')"
        plain = [text.replace(old, new) for text in plain]
    converted = inference.as_numbers(plain, inference.NumberFormat())
    if converted is None or converted.tolist() != numbers:
        return LeftAsText([name], reason)
    return LeftAsText([name], reason, expression=f"CAST({expression} AS REAL)")


def _without_signs(texts: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return numbers without their signs, and what to write for each sign; nothing if one of the texts is another."""
    values, signs = [], dict[str, str]()
    for text in texts:
        parts = _DECORATED.fullmatch(text.strip())
        if parts is None or bool(parts["open"]) != bool(parts["close"]):
            return [], {}
        values.append(("-" if parts["open"] or parts["minus"] else "") + parts["number"])
        signs |= dict.fromkeys(filter(None, (parts["before"], parts["after"])), "")
        signs |= {"(": "-", ")": ""} if parts["open"] else {}
        signs |= {_MINUS: "-"} if _MINUS in text else {}
    return values, signs


def _date(texts: pd.Series[str]) -> _Date | None:
    """Return how dates are written that stay text; None if they are no dates."""
    first = _DATE.fullmatch(texts.iloc[0]) if len(texts) else None
    if first is None:
        return None
    year = "%Y" if len(first["year"]) == 4 else "%y"
    time = {0: "", 1: " %H:%M", 2: " %H:%M:%S"}[texts.iloc[0].count(":")]
    fitting: dict[str, pd.Series[pd.Timestamp]] = {}
    for order in (("%d", "%m", year), ("%m", "%d", year)):
        form = first["mark"].join(order) + time
        moments = pd.to_datetime(texts, format=form, errors="coerce")
        if moments.notna().all() and not any(moments.equals(others) for others in fitting.values()):
            fitting[form] = moments
    return _Date(texts.iloc[0], list(fitting)) if fitting else None


def _mixed_dates(name: str, texts: pd.Series[str]) -> LeftAsText | None:
    """Return a column of dates in several forms, which are in no order as text; None for another one."""
    forms: dict[str, str] = {}
    for text in texts.tolist():
        match = _DATE.match(text) or _ISO_DATE.match(text)
        if match is None:
            return None
        month, day = sorted(map(int, re.findall(r"\d+", text)[:2])) if match.re is _DATE else (1, 1)
        if not (1 <= month <= 12 and day <= 31):
            return None
        forms.setdefault(re.sub(r"\d", "", text), text)
    if not forms or inference.as_moments(texts.tolist()) is not None:  # beside marks of missing values
        return None
    first, *others = [*forms.values(), *texts.iloc[1:2]]
    shown = " and ".join(map(repr, [first, *others[:1]]))
    return LeftAsText([name], f"its dates have several forms: {shown}") if others else None
