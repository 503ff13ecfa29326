"""The forms of dates: in a text, and of the value of an expression."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from pipemagic.explore.query import Group
from pipemagic.sql import dates

_MONTH = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])", re.ASCII)
_MOMENT = re.compile(r"[ T]\d\d:\d\d.*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)

_TIME = r"(?P<time>[ T]\d\d:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?)?"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = r"(?P<name>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_OTHER = [
    re.compile(pattern + _TIME, re.ASCII | re.IGNORECASE)
    for pattern in (
        r"(?P<year>\d{4})(?P<sign>[-/.])(?P<month>\d{1,2})(?P=sign)(?P<day>\d{1,2})",
        r"(?P<year>[12]\d{3})(?P<month>\d\d)(?P<day>\d\d)",
        r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})",
        r"(?P<first>\d{1,2})(?P<sign>[-/])(?P<second>\d{1,2})(?P=sign)(?P<year>\d{4})",
        _NAME + r" (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?P<year>\d{4})",
        r"(?P<day>\d{1,2})(?:st|nd|rd|th)?[. -]{1,2}" + _NAME + r"[ -](?P<year>\d{4})",
    )
]
"""Dates that SQLite does not read: 2024-1-5, 20240105, 05.01.2024, 1/5/2024, Jan 5, 2024, 5 January 2024."""


def form_of_text(text: str) -> str:
    """Return the form of a date in a text; '' for any other text.

    It is 'day' (2013-01-31), 'midnight' and 'moment' (with a time), 'month' (2013-01), 'number' (2013), 'now', or
    'other' for a date that SQLite does not read.
    """
    if dates.is_day(text):
        return "day"
    if dates.day_of_midnight(text):
        return "midnight"
    if dates.is_day(text[:10]) and _MOMENT.fullmatch(text, 10):
        return "moment"
    if _MONTH.fullmatch(text):
        return "month"
    if _NUMBER.fullmatch(text):
        return "number"
    if text.lower() == "now":
        return "now"
    return "other" if readings(text) else ""


def is_number(text: str) -> bool:
    """Return True if a whole text is a number."""
    return _NUMBER.fullmatch(text) is not None


def readings(text: str) -> list[str]:
    """Return what a date of another form can mean, as SQLite writes it: 1/5/2024 is a day of January or of May."""
    if len(text) > 40 or dates.is_day(text[:10]):
        return []
    match = next(filter(None, (pattern.fullmatch(text) for pattern in _OTHER)), None)
    if match is None:
        return []
    time = (match["time"] or "").replace("T", " ")
    return list(dict.fromkeys(day + time for day in _days(match)))


def _days(match: re.Match[str]) -> Iterator[str]:
    parts = match.groupdict()
    if "first" in parts:
        orders = [(parts["first"], parts["second"]), (parts["second"], parts["first"])]
    else:
        month = parts.get("month") or str(_MONTHS.index(parts["name"].lower()) + 1)
        orders = [(month, parts["day"])]
    for month, day in orders:
        try:
            yield datetime.date(int(parts["year"]), int(month), int(day)).isoformat()
        except ValueError:
            continue


def form_of_call(expression: Group) -> str:
    """Return 'day', 'moment' or 'time' for a call of date(), datetime() or time() and its keyword; otherwise ''."""
    word = expression.word(0)
    if len(expression.items) == 1:
        return {"CURRENT_DATE": "day", "CURRENT_TIMESTAMP": "moment", "CURRENT_TIME": "time"}.get(word, "")
    if len(expression.items) != 2 or expression.group(1) is None:
        return ""
    return {"DATE": "day", "DATETIME": "moment", "TIME": "time"}.get(word, "")
