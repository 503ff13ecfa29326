"""Dates of other databases as SQLite writes them: parts, shifts, differences and formats; the functions for them.

Whether a value is a day or a moment decides between ``date`` and ``datetime``. It is ``DAY``, ``MOMENT`` or, if that
is not known, ``ANY``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pipemagic.explore.hints.words import FunctionCall, FunctionRule, Span, Words, by_name
from pipemagic.explore.query import query_at
from pipemagic.explore.schema import Relation
from pipemagic.explore.sqlite_reference import quoted
from pipemagic.explore.token_tree import cursor_at, nest
from pipemagic.sql import unquote
from pipemagic.sql.dates import is_day
from pipemagic.sql.type_affinity import is_date, is_day_type

DAY, MOMENT, ANY = "day", "moment", "any"
_UNITS = {
    "year": "year years yy yyyy y", "quarter": "quarter quarters qq q", "month": "month months mon mons mm m",
    "week": "week weeks wk ww isoweek", "day": "day days dd d", "hour": "hour hours hh hh24 h",
    "minute": "minute minutes mi n min mins", "second": "second seconds ss s sec secs",
    "dow": "dow weekday dw dayofweek", "isodow": "isodow", "doy": "doy dayofyear dy", "epoch": "epoch",
}  # fmt: skip
_UNIT_BY_NAME = {name: unit for unit, names in _UNITS.items() for name in names.split()}
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_DAYS = {"week": 7, "day": 1}
_CODES = {"year": "Y", "month": "m", "day": "d", "hour": "H", "minute": "M", "second": "S", "dow": "w", "doy": "j",
          "epoch": "s"}  # fmt: skip
_NOW = ("date('now')", "datetime('now')", "current_date", "current_timestamp")
_SECONDS = {"hour": 3600, "minute": 60, "second": 1}


def _unit_of(text: str) -> str:
    """Return a unit of time by any of its names, with or without quotes; '' for any other text."""
    return _UNIT_BY_NAME.get(text.strip("'").lower(), "")


def _part_of(unit: str, value: str) -> str:
    """Return the expression that is a part of a date as a number; '' for an unknown unit."""
    if unit in _CODES:
        return f"CAST(strftime('%{_CODES[unit]}', {value}) AS INTEGER)"
    if unit == "quarter":
        return f"((strftime('%m', {value}) + 2) / 3)"
    if unit == "week":  # of ISO 8601: that of the Thursday
        return f"((strftime('%j', date({value}, '-3 days', 'weekday 4')) - 1) / 7 + 1)"
    return f"((strftime('%w', {value}) + 6) % 7 + 1)" if unit == "isodow" else ""


def _truncated(unit: str, value: str) -> str:
    """Return the expression for the beginning of the year, month, hour, ... of a date; '' for an unknown unit."""
    if unit in ("year", "month"):
        return f"date({value}, 'start of {unit}')"
    if unit == "quarter":
        return f"date({value}, 'start of month', -((strftime('%m', {value}) - 1) % 3) || ' months')"
    if unit == "week":  # from Monday on
        return f"date({value}, '-6 days', 'weekday 1')"
    if unit == "day":
        return f"date({value})"
    formats = {"hour": "%Y-%m-%d %H:00:00", "minute": "%Y-%m-%d %H:%M:00", "second": "%Y-%m-%d %H:%M:%S"}
    return f"strftime('{formats[unit]}', {value})" if unit in formats else ""


def shifted(value: str, kind: str, count: str, unit: str, sign: int = 1) -> list[str]:
    """Return the expressions for a date plus (or minus) a number of units; several if the kind is not known.

    A day that the month does not have becomes its last one, as in other databases: SQLite would go on to the next
    month.
    """
    value = "'now'" if value.lower() in _NOW else value
    if unit in _SECONDS:
        return [f"datetime({value}, {_modifier(count, f'{unit}s', 1, sign)})"]
    if unit in _DAYS:
        modifier = _modifier(count, "days", _DAYS[unit], sign)
        kinds = {DAY: ["date"], MOMENT: ["datetime"]}.get(kind, ["date", "datetime"])
        return [f"{function}({value}, {modifier})" for function in kinds]
    if unit not in _MONTHS:
        return []
    modifier = _modifier(count, "months", _MONTHS[unit], sign)
    after = _modifier(count, "months", _MONTHS[unit], sign, plus=1)
    day = f"min(date({value}, {modifier}), date({value}, 'start of month', {after}, '-1 day'))"
    moment = f"{day} || ' ' || time({value})"
    return {DAY: [day], MOMENT: [moment]}.get(kind, [day, moment])


def _modifier(count: str, units: str, factor: int, sign: int, plus: int = 0) -> str:
    if re.fullmatch(r"[-+]?\d+", count):
        total = int(count) * factor * sign + plus
        return f"'{total:+d} {units.rstrip('s') if abs(total) == 1 else units}'"
    number = count if re.fullmatch(r"[\w.]+", count) else f"({count})"
    if factor * sign != 1:
        number = f"{factor * sign} * {number}"
    number = f"{number} + {plus}" if plus else number
    return f"({number}) || ' {units}'"


def _difference(unit: str, start: str, end: str) -> str:
    """Return the expression for the number of units from one date to another; '' for an unknown unit."""
    if unit == "day":
        return f"CAST(julianday(date({end})) - julianday(date({start})) AS INTEGER)"
    if unit == "week":
        return f"{_difference('day', start, end)} / 7"
    if unit in _SECONDS:
        factor = f" / {_SECONDS[unit]}" if unit != "second" else ""
        return f"unixepoch({end}){factor} - unixepoch({start}){factor}"
    years = f"strftime('%Y', {end}) - strftime('%Y', {start})"
    if unit == "year":
        return years
    return f"12 * ({years}) + strftime('%m', {end}) - strftime('%m', {start})" if unit == "month" else ""


# -- formats

_OF_MYSQL = {"%Y": "%Y", "%m": "%m", "%d": "%d", "%H": "%H", "%i": "%M", "%s": "%S", "%S": "%S", "%j": "%j",
             "%w": "%w", "%T": "%H:%M:%S", "%%": "%%"}  # fmt: skip
_OF_C = {code: code for code in ("%Y", "%m", "%d", "%H", "%M", "%S", "%j", "%w", "%s", "%%")} | {"%F": "%Y-%m-%d",
         "%T": "%H:%M:%S", "%I": "%I", "%p": "%p"}  # fmt: skip
_OF_ORACLE = {"YYYY": "%Y", "MM": "%m", "DDD": "%j", "DD": "%d", "HH24": "%H", "MI": "%M", "SS": "%S"}
_WIDTHS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2}


def _format_of(function: str, text: str) -> str:
    """Return the format of strftime for one of another database; '' if a code has no equivalent."""
    if function in ("to_char", "to_date", "to_timestamp"):
        return _translated(text, _OF_ORACLE, r"YYYY|HH24|DDD|MM|DD|MI|SS|[A-Za-z]|.", upper=True)
    codes = _OF_MYSQL if function in ("date_format", "str_to_date") else _OF_C
    return _translated(text, codes, r"%.|.")


def _translated(text: str, codes: dict[str, str], pattern: str, *, upper: bool = False) -> str:
    parts = []
    for code in re.findall(pattern, text, re.IGNORECASE):
        key = code.upper() if upper else code
        if key in codes:
            parts.append(codes[key])
        elif code.isalpha() if upper else code.startswith("%"):
            return ""
        else:
            parts.append(code)
    return "".join(parts)


def _read_by(form: str, value: str) -> str:
    """Return the date or moment in a text that has a format of strftime; '' if its parts have no fixed places."""
    places, at = dict[str, int](), 1
    for code in re.findall(r"%.|.", form):
        if len(code) == 2 and (code not in _WIDTHS or code in places):
            return ""
        if len(code) == 2:
            places[code] = at
        at += _WIDTHS.get(code, 1)
    if not {"%Y", "%m", "%d"} <= places.keys():
        return ""
    if form in ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S"):
        return f"date({value})" if len(places) == 3 else f"datetime({value})"
    parts = {code: f"substr({value}, {place}, {_WIDTHS[code]})" for code, place in places.items()}
    day = " || '-' || ".join(parts[code] for code in ("%Y", "%m", "%d"))
    if len(places) == 3:
        return f"date({day})"
    if not {"%H", "%M"} <= places.keys():
        return ""
    time = " || ':' || ".join(parts[code] for code in ("%H", "%M", "%S") if code in parts)
    return f"datetime({day} || ' ' || {time})"


# -- functions


def kind_of(words: Words, span: Span, text: str, tables: Mapping[str, Relation]) -> str:
    """Return whether an expression is a day or a moment, by its text or its declared type."""
    token, word = words.literal(span), words.word(span.start).lower()
    if token is not None and token.kind == "string":
        return DAY if is_day(unquote(token.text)) else MOMENT
    if words.operand_after(span.start) != span:
        return ANY
    if word in ("date", "current_date", "curdate", "today", "to_date", "last_day", "eomonth"):
        return DAY
    if word in ("datetime", "current_timestamp", "now", "getdate", "sysdate", "localtimestamp", "to_timestamp"):
        return MOMENT
    query = query_at(cursor_at(text, words.tokens[span.start].start), tables)
    type_ = query.declared(nest(words.tokens[span.start : span.end]).top) or ""
    return DAY if is_day_type(type_) else MOMENT if is_date(type_) else ANY


def _kind(call: FunctionCall, number: int) -> str:
    """Return whether an argument is a day or a moment."""
    return kind_of(call.words, call.spans[number], call.text, call.tables)


def _date_trunc(call: FunctionCall) -> str:
    unit, value = _unit_and(call.arguments, last_is_unit="_" in call.name)
    return _truncated(unit, value) if value else ""


def _date_part(call: FunctionCall) -> str:
    unit, value = _unit_and(call.arguments, last_is_unit="_" in call.name)
    if call.name == "extract" and len(call.spans) == 1:
        words, (start, end) = call.words, call.spans[0]
        at = next((at for at in words.outer(call.spans[0]) if words.word(at) == "FROM"), end)
        unit = _unit_of(words.text(Span(start, at)))
        value = call.rewrite(Span(at + 1, end))
    return _part_of(unit, value) if value else ""


def _part(call: FunctionCall) -> str:
    units = {"dayofmonth": "day", "weekofyear": "week", "dayofweek": "dow", "weekday": "dow"}
    return _part_of(_unit_of(units.get(call.name, call.name)), *call.arguments) if len(
        call.arguments) == 1 else ""  # fmt: skip


def _unit_and(arguments: Sequence[str], *, last_is_unit: bool) -> tuple[str, str]:
    """Return the unit, which is one of two arguments, and the other argument.

    BigQuery has the unit last, as a word: a column may have the name of a unit.
    """
    if len(arguments) != 2:
        return "", ""
    first, last = _unit_of(arguments[0]), _unit_of(arguments[1])
    if arguments[0].startswith("'") or not last or (first and not last_is_unit):
        return first, arguments[1]
    return last, arguments[0]


def _dayname(call: FunctionCall) -> str:
    names = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
    cases = " ".join(f"WHEN '{number}' THEN '{name}'" for number, name in enumerate(names))
    return f"CASE strftime('%w', {call.arguments[0]}) {cases} END" if len(call.arguments) == 1 else ""


def _monthname(call: FunctionCall) -> str:
    names = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
             "November", "December")  # fmt: skip
    cases = " ".join(f"WHEN '{number:02}' THEN '{name}'" for number, name in enumerate(names, 1))
    return f"CASE strftime('%m', {call.arguments[0]}) {cases} END" if len(call.arguments) == 1 else ""


def _datediff(call: FunctionCall) -> str:
    """MySQL: the end first, days; SQL Server, DuckDB: the unit first; BigQuery: the end first, the unit last."""
    arguments = call.arguments
    if len(arguments) == 2:
        return _difference("day", arguments[1], arguments[0])
    if len(arguments) != 3:
        return ""
    first, last = _unit_of(arguments[0]), _unit_of(arguments[2])
    if arguments[0].startswith("'") or (first and not (last and call.name == "date_diff")):
        return _difference(first, arguments[1], arguments[2])
    return _difference(last, arguments[1], arguments[0])


def _dateadd(call: FunctionCall) -> list[str]:
    sign = -1 if "sub" in call.name else 1
    if len(call.arguments) == 3 and (unit := _unit_of(call.arguments[0])):
        return shifted(call.arguments[2], _kind(call, 2), call.arguments[1], unit, sign)
    if len(call.arguments) != 2:
        return []
    interval = interval_at(call.words, call.spans[1].start)
    if interval is None:
        return shifted(call.arguments[0], _kind(call, 0), call.arguments[1], "day", sign)
    count, unit, _ = interval
    return shifted(call.arguments[0], _kind(call, 0), count, unit, sign)


def _add_months(call: FunctionCall) -> list[str]:
    if len(call.arguments) != 2:
        return []
    return shifted(call.arguments[0], _kind(call, 0), call.arguments[1], "month")


def interval_at(words: Words, index: int) -> tuple[str, str, int] | None:
    """Return the number and the unit of an INTERVAL at an index, and the index after it; None if it is no such one.

    It is ``INTERVAL '1 day'``, ``INTERVAL 1 DAY`` or ``INTERVAL '1' DAY``.
    """
    span = words.operand_after(index + 1)
    if words.word(index) != "INTERVAL" or span is None:
        return None
    token = words.literal(span)
    written = words.text(span)
    if token is not None and token.kind == "string":
        parts = unquote(token.text).split()
        if len(parts) == 2 and re.fullmatch(r"[-+]?\d+", parts[0]) and _unit_of(parts[1]):
            return parts[0], _unit_of(parts[1]), span.end
        if len(parts) != 1 or not re.fullmatch(r"[-+]?\d+", parts[0]):
            return None
        written = parts[0]
    unit = _unit_of(words.word(span.end))
    return (written, unit, span.end + 1) if unit else None


def _to_date(call: FunctionCall) -> str:
    if len(call.arguments) == 1:
        return (
            f"date({call.arguments[0]})"
            if call.name != "to_timestamp"
            else f"datetime({call.arguments[0]}, 'unixepoch')"
        )
    form = call.string(1) if len(call.arguments) == 2 else None
    return _read_by(_format_of(call.name, form), call.arguments[0]) if form else ""


def _to_char(call: FunctionCall) -> str:
    if len(call.arguments) != 2:
        return ""
    value = 1 if call.string(0) is not None and call.string(1) is None else 0  # BigQuery has the format first
    form = call.string(1 - value)
    if form is None:
        return ""
    if call.name == "to_char" and (decimals := re.fullmatch(r"(?:FM)?[90,]*[90](?:\.([90]*))?", form)):
        return f"printf('%.{len(decimals[1] or '')}f', {call.arguments[value]})"
    code = _format_of(call.name, form)
    return f"strftime({quoted(code, chr(39))}, {call.arguments[value]})" if code else ""


def takes_unit(words: Words, index: int) -> bool:
    """Return True if a function of other databases is at an index, whose first argument is a unit."""
    names = ("dateadd", "datediff", "datepart", "datetrunc", "date_diff", "timestampadd", "timestampdiff")
    return words.word(index).lower() in names and bool(_unit_of(words.word(index + 2)))


DATE_RULES: dict[str, FunctionRule] = by_name(
    {
        "date_trunc datetrunc timestamp_trunc": _date_trunc,
        "date_part datepart extract": _date_part,
        "year month day dayofmonth hour minute second dayofweek weekday dayofyear week weekofyear quarter isodow dow "
        "doy epoch": _part,
        "dayname": _dayname,
        "monthname": _monthname,
        "datediff date_diff timestampdiff": _datediff,
        "dateadd date_add adddate timestampadd date_sub subdate": _dateadd,
        "add_months": _add_months,
        "to_date str_to_date to_timestamp strptime": _to_date,
        "to_char date_format format_date": _to_char,
    }
)
