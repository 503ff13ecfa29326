"""Days and moments in the ISO format that SQLite stores: ``2013-01-01``, ``2013-01-01 05:17:00``."""

from __future__ import annotations

import datetime
import re

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MIDNIGHT = re.compile(r"[ T]00:00(?::00(?:\.0+)?)?")


def is_day(text: str) -> bool:
    """Return True if a text is a date of the calendar, without a time."""
    if _DAY.fullmatch(text) is None:
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def day_of_midnight(text: str) -> str | None:
    """Return the date of a moment at midnight without an offset; None for any other text."""
    return text[:10] if is_day(text[:10]) and _MIDNIGHT.fullmatch(text, 10) else None


def next_day(day: str) -> str:
    """Return a text above all moments of a day, and not above any of the next one."""
    date = datetime.date.fromisoformat(day)
    return "9999-12-32" if date == datetime.date.max else (date + datetime.timedelta(1)).isoformat()


def midnights_as_days(value: str) -> str:
    """Return the SQL expression that is the day for a moment at midnight, and the same value for any other."""
    return f"CASE WHEN {_is_midnight(value)} THEN substr({value}, 1, 10) ELSE {value} END"


def days_as_midnights(value: str) -> str:
    """Return the SQL expression that is the moment at midnight for a day, and the same value for any other."""
    is_day = f"typeof({value}) = 'text' AND {value} GLOB '{_DAY_PATTERN}'"
    return f"CASE WHEN {is_day} THEN {value} || ' 00:00:00' ELSE {value} END"


_DAY_PATTERN = "-".join("[0-9]" * digits for digits in (4, 2, 2))


def _is_midnight(value: str) -> str:
    """Return the SQL condition for 00:00, 00:00:00 and 00:00:00.000 after a date."""
    time = f"substr({value}, 11)"
    return (
        f"typeof({value}) = 'text' AND {value} GLOB '{_DAY_PATTERN}[ T]00:00*' AND "
        f"({time} IN (' 00:00', 'T00:00', ' 00:00:00', 'T00:00:00') "
        f"OR ({time} GLOB '?00:00:00.0*' AND rtrim({time}, '0') IN (' 00:00:00.', 'T00:00:00.')))"
    )
