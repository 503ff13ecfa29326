"""Calls of functions of dates that return NULL: texts, formats and modifiers that SQLite does not read."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping

from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import arguments_of, calls, number_value, string_value, text_of, written
from pipemagic.explore.lint.forms import is_number, readings
from pipemagic.explore.lint.placeholders import is_placeholder
from pipemagic.explore.query import Group
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import dates

_FUNCTIONS = frozenset(["date", "time", "datetime", "julianday", "unixepoch", "strftime"])

_CLOCK = r"\d\d:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?"
_READ = re.compile(
    rf"(?:-?\d{{4}}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?:[ T]*{_CLOCK}\s*(?:Z|[+-]\d\d:\d\d)?)?"
    rf"|{_CLOCK}\s*(?:Z|[+-]\d\d:\d\d)?)\s*|now|subsec|subsecond|\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?\s*",
    re.ASCII | re.IGNORECASE,
)
"""The texts that SQLite reads as a date (https://www.sqlite.org/lang_datefunc.html)."""

_LAST_DAY = 5373484.5
"""The largest Julian day."""

_AMOUNT = r"(?:[+-](?:\d+\.?\d*|\.\d+)|\d+\.?\d*)(?:e[+-]?\d+)?"
_MODIFIER = re.compile(
    rf"{_AMOUNT} +(?:second|minute|hour|day|month|year)s?|[+-]?{_CLOCK}|[+-]\d{{4}}-\d\d-\d\d(?: {_CLOCK})?"
    r"|(?:start|end) of \w+|weekday +[0-6](?:\.0*)?"
    r"|unixepoch|julianday|auto|localtime|utc|subsec|subsecond|ceiling|floor",
    re.ASCII | re.IGNORECASE,
)
"""The modifiers of the newest SQLite; ends of months and others are not in all versions."""

_STEP = re.compile(r"\s*([+-]?)\s*(\d+)\s*([a-z]+?)s?\s*", re.ASCII | re.IGNORECASE)
_UNITS = {
    **dict.fromkeys(["s", "sec", "second"], (1, "second")),
    **dict.fromkeys(["min", "minute"], (1, "minute")),
    **dict.fromkeys(["h", "hr", "hour"], (1, "hour")),
    **dict.fromkeys(["d", "day"], (1, "day")),
    **dict.fromkeys(["w", "wk", "week"], (7, "day")),
    "fortnight": (14, "day"),
    **dict.fromkeys(["mon", "month"], (1, "month")),
    **dict.fromkeys(["q", "quarter"], (3, "month")),
    **dict.fromkeys(["y", "yr", "year"], (1, "year")),
    "decade": (10, "year"),
    "century": (100, "year"),
}
"""Units, and the number of a unit that SQLite has."""

_LETTERS = frozenset("defgjklmpsuwFGHIJMPRSTUVWY%")
"""Letters after % that strftime replaces."""

_INSTEAD = {
    **dict.fromkeys("BbhN", "%m, the number of the month"),
    **dict.fromkeys("Aa", "%w, the number of the weekday, which is 0 on a Sunday"),
    **dict.fromkeys("yg", "%Y, the year"),
    "i": "%M, the minutes",
    **dict.fromkeys("Dx", "%F, the date"),
    **dict.fromkeys("Xr", "%T, the time"),
    **dict.fromkeys(["-d", "-m", "-H", "-I", "-M", "-S"], "CAST(... AS INTEGER) for a number without its zeros"),
    "c": "%F %T, the date and the time",
    "q": "(CAST(strftime('%m', ...) AS INTEGER) + 2) / 3, the quarter",
}
_WORDS = {"YYYY": "%Y", "MM": "%m", "DD": "%d", "HH24": "%H", "HH": "%H", "MI": "%M", "SS": "%S"}
_OTHER_FORMAT = re.compile(r"(?:YYYY|MM|DD|HH24|HH|MI|SS|[-/.: T])+", re.IGNORECASE)


def date_functions(context: Context) -> Iterator[str]:
    """Yield each call of a function of dates that is NULL for a text, a format or a modifier that it has."""
    for query in context.queries:
        for name, call in calls(query, _FUNCTIONS):
            arguments = arguments_of(call) or []
            if name == "strftime":
                note = _format_note(call, arguments)
                arguments = arguments[1:]
            else:
                note = ""
            text = string_value(arguments[0]) if arguments else None
            if not note and text is not None and is_placeholder(text, context.variables):
                continue  # which has a note of its own
            note = note or _text_note(call, arguments, context.args) or _modifier_note(call, arguments, context.args)
            if note:
                yield note


# -- formats


def _format_note(call: Group, arguments: list[Group]) -> str:
    format_ = string_value(arguments[0]) if arguments else None
    shown = written(call)
    if len(arguments) > 1 and "%" not in (format_ or "") and "%" in (string_value(arguments[1]) or ""):
        first, second, *others = map(written, arguments)
        return f"strftime takes the format first: write strftime({', '.join((second, first, *others))})"
    if format_ is None:
        return ""
    if "%" not in format_ and len(arguments) > 1 and re.search("YY|DD|MM|HH", format_, re.IGNORECASE):
        if not _OTHER_FORMAT.fullmatch(format_):
            return ""
        own = re.sub("YYYY|MM|DD|HH24|HH|MI|SS", lambda match: _WORDS[match[0].upper()], format_, flags=re.IGNORECASE)
        return f"{shown} returns the format itself, which has no %: write '{own}'"
    letters = re.findall("%([-_#^]?.?)", format_, re.DOTALL)
    unknown = next((letter for letter in letters if letter not in _LETTERS), None)
    if unknown is None:
        return ""
    instead = f": use {_INSTEAD[unknown]}" if unknown in _INSTEAD else ""
    return f"strftime has no %{unknown}, so {shown} is NULL{instead}"


# -- texts


def _text_note(call: Group, arguments: list[Group], args: Mapping[str, SqlValue]) -> str:
    """Return the note on a text or a number that is no date for SQLite."""
    if not arguments:
        return ""
    shown, value, number = written(call), written(arguments[0]), number_value(arguments[0])
    text = text_of(arguments[0], args)
    if number is not None or (text is not None and _is_julian(text)):
        number = float(text or "0") if number is None else number
        return _number_note(shown, value, number, arguments, text)
    if not text:  # an empty text may stand for no date
        return ""
    is_negative = len(arguments) == 1 and is_number(text) and float(text) < 0  # otherwise it may count seconds
    if is_negative or not _READ.fullmatch(text):
        days = " or ".join(f"'{day}'" for day in readings(text.strip()))
        is_shown = value if value[0] == "'" else f"{value} ('{text[:40]}')"
        write = f"write {days}" if days else "write it as 2013-01-31 or 2013-01-31 05:33:00"
        return f"SQLite cannot read {is_shown} as a date, so {shown} is NULL: {write}"
    if re.match(r"[1-9]\d{3}-\d\d-\d\d", text) and not dates.is_day(text[:10]):
        first = datetime.date(int(text[:4]), int(text[5:7]), 1)
        counted = (first + datetime.timedelta(int(text[8:10]) - 1)).isoformat()
        return f"{value} is not in the calendar, and SQLite reads it as {counted}"
    return ""


def _is_julian(text: str) -> bool:
    return re.fullmatch(r"\d+(?:\.\d*)?", text, re.ASCII) is not None


def _number_note(shown: str, value: str, number: float, arguments: list[Group], text: str | None) -> str:
    """Return the note on a number, which SQLite reads as a Julian day."""
    if len(arguments) > 1:  # 'unixepoch' or 'auto'
        return ""
    days = readings(text or value)
    if days:
        return f"SQLite reads {value} as a Julian day, so {shown} is NULL: write '{days[0]}'"
    if number > _LAST_DAY:
        write = f"{shown[:-1]}, 'unixepoch')" if "(" in shown else ""
        return f"{value} is beyond the last Julian day, so {shown} is NULL: write {write} for seconds since 1970"
    if 1000 <= number < 3000 and number == int(number):
        return f"SQLite reads {value} as a Julian day, not as a year: write '{int(number)}-01-01'"
    return ""


# -- modifiers


def _modifier_note(call: Group, arguments: list[Group], args: Mapping[str, SqlValue]) -> str:
    for argument in arguments[1:]:
        text = text_of(argument, args)
        if text is None or _is_known(text):
            continue
        shown, value = written(call), written(argument)
        is_shown = value if value[0] == "'" else f"{value} ('{text[:40]}')"
        instead = _modifier(text)
        return f"SQLite has no modifier {is_shown}, so {shown} is NULL" + (f": write {instead}" if instead else "")
    return ""


def _is_known(text: str) -> bool:
    if text.lower() in ("start of week", "start of quarter", "end of week", "end of quarter"):
        return False
    return _MODIFIER.fullmatch(text) is not None


def _modifier(text: str) -> str:
    """Return the modifier of SQLite that a text means; '' if there is none."""
    if text.lower() == "start of week":
        return "'-6 days', 'weekday 1' for the Monday"
    match = _STEP.fullmatch(text)
    if match is None:
        return ""
    unit = _UNITS.get(match[3].lower())
    if unit is None:
        return ""
    amount = int(match[2]) * unit[0]
    return f"'{match[1] or '+'}{amount} {unit[1]}{'s' if amount != 1 else ''}'"
