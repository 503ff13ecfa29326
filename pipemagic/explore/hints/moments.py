"""Dates of other databases as SQLite writes them: parts, shifts, differences and formats.

Whether a value is a day or a moment decides between ``date`` and ``datetime``. It is ``DAY``, ``MOMENT`` or, if that
is not known, ``ANY``.
"""

from __future__ import annotations

import re

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


def unit_of(text: str) -> str:
    """Return a unit of time by any of its names, with or without quotes; '' for any other text."""
    return _UNIT_BY_NAME.get(text.strip("'").lower(), "")


def part(unit: str, value: str) -> str:
    """Return the expression that is a part of a date as a number; '' for an unknown unit."""
    if unit in _CODES:
        return f"CAST(strftime('%{_CODES[unit]}', {value}) AS INTEGER)"
    if unit == "quarter":
        return f"((strftime('%m', {value}) + 2) / 3)"
    if unit == "week":  # of ISO 8601: that of the Thursday
        return f"((strftime('%j', date({value}, '-3 days', 'weekday 4')) - 1) / 7 + 1)"
    return f"((strftime('%w', {value}) + 6) % 7 + 1)" if unit == "isodow" else ""


def truncated(unit: str, value: str) -> str:
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


def difference(unit: str, start: str, end: str) -> str:
    """Return the expression for the number of units from one date to another; '' for an unknown unit."""
    if unit == "day":
        return f"CAST(julianday(date({end})) - julianday(date({start})) AS INTEGER)"
    if unit == "week":
        return f"{difference('day', start, end)} / 7"
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


def format_of(function: str, text: str) -> str:
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


def read_by(form: str, value: str) -> str:
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
