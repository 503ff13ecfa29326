"""Dates: calls of functions that return NULL, dates without quotes, moments in columns of another form."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise

from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import arguments_of, calls, number_value, string_value, text_of, written
from pipemagic.explore.lint.words import is_placeholder
from pipemagic.explore.query import Query
from pipemagic.explore.schema import Column
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.explore.token_tree import Group
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import Token, dates
from pipemagic.sql.type_affinity import is_date, is_day_type

# -- the forms of dates: in a text, and of the value of an expression

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


# -- calls that return NULL: texts, formats and modifiers that SQLite does not read

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
        return f"{value} does not exist, and SQLite reads it as {counted}"
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


# -- dates without quotes, which are subtractions and divisions: 2024-01-31 is 1992


def unquoted_dates(context: Context) -> Iterator[str]:
    """Yield each date that is written without quotes."""
    if "-" in context.text or "/" in context.text:
        for query in context.queries:
            yield from _unquoted_dates(query.part)


def _unquoted_dates(part: Group) -> Iterator[str]:
    index = 0
    while index < len(part.items):
        date, size = _date_at(part, index)
        index += size
        if date:
            yield date


def _date_at(part: Group, index: int) -> tuple[str, int]:
    """Return the note on a date at an index, and its number of tokens; '' and 1 if there is none."""
    tokens = [item for item in part.items[index : index + 5] if isinstance(item, Token)]
    texts = [token.text for token in tokens]
    if not texts or len(texts[0]) not in (2, 4) or not texts[0].isdecimal() or part.word(index - 1) in ("-", "/", "*"):
        return "", 1
    for size in (5, 3):
        adjacent = all(a.end == b.start for a, b in pairwise(tokens[:size]))
        if len(texts) >= size and adjacent and (days := _readings(texts[:size])):
            shown, value = "".join(texts[:size]), _value(texts[:size])
            write = " or ".join(f"'{day}'" for day in days)
            is_dates = f"{shown} without quotes is {value}"
            return f"{is_dates}: write {write}", size
    return "", 1


def _readings(texts: list[str]) -> list[str]:
    """Return the dates or the month that numbers with signs between them can mean."""
    numbers, signs = texts[::2], set(texts[1::2])
    if len(signs) != 1 or not signs <= {"-", "/"} or not all(number.isdecimal() for number in numbers):
        return []
    sizes = [len(number) for number in numbers]
    if sizes == [4, 2] and signs == {"-"} and numbers[1][0] == "0" and numbers[1] != "00":
        return [f"{numbers[0]}-{numbers[1]}"]  # 2024-12 is a subtraction
    if sizes == [4, 2, 2]:
        orders = [numbers]
    elif sizes == [2, 2, 4]:
        orders = [[numbers[2], numbers[0], numbers[1]], [numbers[2], numbers[1], numbers[0]]]
    else:
        return []
    return list(dict.fromkeys(day for order in orders if (day := _day(*map(int, order)))))


def _day(year: int, month: int, day: int) -> str:
    try:
        return datetime.date(year, month, day).isoformat() if year >= 1000 else ""
    except ValueError:
        return ""


def _value(texts: list[str]) -> int:
    """Return the number that SQLite computes."""
    first, *others = map(int, texts[::2])
    for number in others:
        first = first - number if texts[1] == "-" else first // number
    return first


# -- moments that are stored in a column of another form

_WITH_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d.*", re.ASCII)


def stored_moments(context: Context) -> Iterator[str]:
    """Yield each parameter of a statement that is stored in a column of another form."""
    queries = context.queries if context.args else ()
    return chain.from_iterable(_stored_moments(query, context.args) for query in queries)


def _stored_moments(query: Query, args: Mapping[str, SqlValue]) -> Iterator[str]:
    """Yield each parameter with a time that is stored in a DATE column, or a day in a column of times."""
    for column, parameter in _stored(query):
        value, name, declared = args.get(parameter), quote_if_needed(column.name), column.type
        if not isinstance(value, str) or not is_date(declared):
            continue
        if is_day_type(declared) and _WITH_TIME.fullmatch(value):
            yield f"{name} is declared {declared} and {parameter} has a time ({value}): write date({parameter})"
        elif not is_day_type(declared) and dates.is_day(value):
            yield f"{name} is declared {declared} and {parameter} has no time ({value}): write datetime({parameter})"


def _stored(query: Query) -> Iterator[tuple[Column, str]]:
    """Yield the columns that INSERT and UPDATE fill with a parameter itself, and the parameter."""
    part, table = query.part, query.sources[0].table if query.sources else None
    if table is None:
        return
    by_name = {column.name.lower(): column for column in table.columns}
    for name, value in chain(_assigned(part), _inserted(part, [column.name for column in table.visible])):
        item = value.items[0] if len(value.items) == 1 else None
        if name.lower() in by_name and isinstance(item, Token) and item.kind == "param":
            yield by_name[name.lower()], item.text


def _assigned(part: Group) -> Iterator[tuple[str, Group]]:
    """Yield the names and values of ``SET name = value, ...``."""
    words = part.words()
    for start in (at + 1 for at, word in enumerate(words) if word == "SET"):
        end = next((at for at in range(start, len(words)) if part.clause(at)), len(words))
        for item in part.slice(start, end).split():
            if item.is_name(0) and item.word(1) == "=":
                yield item.name(0), item.slice(2)


def _inserted(part: Group, names: Sequence[str]) -> Iterator[tuple[str, Group]]:
    """Yield the names and values of ``INTO table (name, ...) VALUES (value, ...), ...``; ``names`` are all columns."""
    words = part.words()
    if "INTO" not in words or "VALUES" not in words:
        return
    start = words.index("VALUES")
    listed = next((part.group(at) for at in range(words.index("INTO"), start) if part.group(at) is not None), None)
    if listed is not None:
        names = [item.name(0) if item.is_name(0) else "" for item in listed.split()]
    for at in range(start + 1, len(words)):
        row = part.group(at)
        if row is None and words[at] != ",":
            return
        yield from zip(names, row.split() if row is not None else (), strict=False)
