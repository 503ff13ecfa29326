"""``date_trunc(UNIT, DATE)``, as in PostgreSQL and DuckDB, of dates as SQLite stores them: as text.

The result is a day for units of a day or more, else a time. Weeks begin on Monday.
"""

from __future__ import annotations

import re
from functools import lru_cache

import apsw

from pipemagic.hrana.values import SqlValue
from pipemagic.service.sqlite.native import native

_STARTS = {
    "year": "date(?1, 'start of year')",
    "quarter": "date(?1, 'start of month', format('-%d months', (strftime('%m', ?1) - 1) % 3))",
    "month": "date(?1, 'start of month')",
    "week": "date(?1, '-6 days', 'weekday 1')",
    "day": "date(?1)",
    "hour": "strftime('%Y-%m-%d %H:00:00', ?1)",
    "minute": "strftime('%Y-%m-%d %H:%M:00', ?1)",
    "second": "datetime(?1)",
}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
"""The first characters of a date: SQLite also reads numbers, as Julian days, and times, as those of 2000-01-01."""
_LONGEST = 100


def date_trunc(unit: SqlValue, date: SqlValue) -> str | None:
    """Return the start of the unit that contains a date or time."""
    if unit is None or date is None:
        return None
    name = str(unit)[:30].lower()
    if name not in _STARTS:
        units = ", ".join(map(repr, _STARTS))
        raise apsw.SQLError(f"the first argument of date_trunc() must be one of {units}, not {str(unit)[:30]!r}")
    if date == "now":
        return str(native.value(_STARTS[name], date))
    start = _start(name, date) if isinstance(date, str) and len(date) <= _LONGEST else None
    if start is None:
        text = str(date)[:30]
        raise apsw.SQLError(f"date_trunc() cannot read {text!r} as a date: write YYYY-MM-DD or YYYY-MM-DD HH:MM:SS")
    return start


@lru_cache(maxsize=10_000)
def _start(name: str, date: str) -> str | None:
    """Return the start; None for a text that is no date, and for a day that does not exist."""
    day = _DAY.match(date)
    if day is None or native.value("date(?)", day[0]) != day[0]:
        return None
    start = native.value(_STARTS[name], date)
    return start if isinstance(start, str) else None
