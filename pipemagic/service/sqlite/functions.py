"""SQL functions that SQLite lacks, those of an extension that apsw brings, and some in the place of SQLite's own.

The extension has ``regexp`` (``x REGEXP y``) and ``regexpi``. ``changes()`` and ``total_changes()`` do not count those
of earlier streams.

Source: https://sqlite.org/src/file/ext/misc/regexp.c
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import apsw

from pipemagic.hrana.values import SqlValue
from pipemagic.service.sqlite import aggregates, vectors, virtual_tables
from pipemagic.service.sqlite.value_limit import most_bytes, too_big

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
_LONGEST_DATE = 100

MOST_STEPS = 1_000_000
"""The product of the sizes of a text and of a compiled pattern: a search takes at most some 20 ms."""
_MEMORY = 256 * 1024
"""Bytes of a compiled pattern: RE2 compiles one, or refuses it, in some 2 ms."""
_LONGEST_PATTERN = 4096
_MOST_GROUPS = 30
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_UPPER = bytes.maketrans(_LETTERS.lower(), _LETTERS)
_NO_LETTERS = bytes(set(range(256)) - set(_LETTERS + _LETTERS.lower()))
_SOUNDS = bytes.maketrans(_LETTERS, b"01230120022455012623010202")
_RUN = re.compile(rb"(.)\1+")
_PIECE = 64 * 1024  # bytes
_REFERENCE = re.compile(r"\\(.?)", re.DOTALL)


def install(connection: apsw.Connection, stopped: Callable[[], bool] = lambda: False) -> None:
    """Register the functions that SQLite lacks; call it before the connection has an authorizer.

    Once ``stopped`` returns True, ``regexp_replace`` raises `apsw.InterruptError`.
    """
    aggregates.install(connection)
    virtual_tables.install_series(connection)
    # Not deterministic for SQLite, which therefore refuses them in indexes and generated columns: other programs could
    # not read such a table.
    function: Callable[..., SqlValue] = _date_trunc
    connection.create_scalar_function("date_trunc", function, 2, flags=apsw.SQLITE_INNOCUOUS)
    replace = partial(_regexp_replace, lambda: connection.limit(apsw.SQLITE_LIMIT_LENGTH), stopped)
    connection.create_scalar_function("soundex", _soundex, 1, flags=apsw.SQLITE_INNOCUOUS)
    vectors.install(connection)
    for count in (3, 4):
        connection.create_scalar_function("regexp_replace", replace, count, flags=apsw.SQLITE_INNOCUOUS)
    path = _regexp()
    if path is None:
        return
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    try:
        connection.load_extension(path)
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)


@cache
def _regexp() -> str | None:
    try:
        from apsw import sqlite_extra
    except ImportError:  # apsw before 3.52, or a build without the extensions
        return None
    return str(sqlite_extra.path("regexp")) if sqlite_extra.has("regexp") == "extension" else None


def count_changes_since(connection: apsw.Connection, before: Callable[[], int], kept: Callable[[], int]) -> None:
    """Replace ``changes()`` and ``total_changes()``, which SQLite cannot reset.

    ``before()``: the changes not to count; ``kept()``: those that SQLite has reset too early, or 0.

    One difference remains: after a statement of a trigger was counted, `changes()` in the trigger's next run returns
    the count from before the outer statement, which may be that of the previous stream.
    """

    def total(*_: SqlValue) -> int:
        return connection.total_changes() - before()

    def changes(*_: SqlValue) -> int:
        return (connection.changes() or kept()) if total() else 0

    connection.create_scalar_function("total_changes", total, 0, flags=apsw.SQLITE_INNOCUOUS)
    connection.create_scalar_function("changes", changes, 0, flags=apsw.SQLITE_INNOCUOUS)


def _soundex(*arguments: SqlValue) -> str | None:
    """Return the American Soundex code of a name, as in libSQL and PostgreSQL; '' without ASCII letters.

    SQLite's own, with the option SQLITE_SOUNDEX, gives Ashcraft another code than Ashcroft's: it counts both letters of
    one sound that an H or W separates.
    """
    (name,) = arguments
    if name is None:
        return None
    data = name if isinstance(name, bytes) else str(name).encode()
    first = codes = sounds = b""
    for start in range(0, len(data), _PIECE):  # other threads run between the pieces
        letters = data[start : start + _PIECE].translate(_UPPER, _NO_LETTERS)
        if not first:
            first, letters = letters[:1], letters[1:]
            codes = first.translate(_SOUNDS)
        codes = _RUN.sub(rb"\1", codes + letters.translate(_SOUNDS, b"HW"))
        sounds = codes[1:].replace(b"0", b"")[:3]
        if len(sounds) == 3:
            break
    return (first + sounds.ljust(3, b"0")).decode() if first else ""


class _Native(threading.local):
    """A connection with SQLite's own functions, one for each thread. No SQL of users runs on it."""

    def __init__(self) -> None:
        self._connection = apsw.Connection(":memory:")

    def value(self, expression: str, *arguments: SqlValue) -> SqlValue:
        """Return the value of an expression of the service's own."""
        return self._connection.execute(f"SELECT {expression}", arguments).get  # type: ignore[no-any-return]


native = _Native()


def _date_trunc(unit: SqlValue, date: SqlValue) -> str | None:
    """Return the start of the unit that contains a date or time, as in PostgreSQL and DuckDB.

    Dates are texts, as SQLite stores them. The result is a day for units of a day or more, else a time; weeks begin on
    Monday.
    """
    if unit is None or date is None:
        return None
    name = str(unit)[:30].lower()
    if name not in _STARTS:
        units = ", ".join(map(repr, _STARTS))
        raise apsw.SQLError(f"the first argument of date_trunc() must be one of {units}, not {str(unit)[:30]!r}")
    if date == "now":
        return str(native.value(_STARTS[name], date))
    start = _start_of_unit(name, date) if isinstance(date, str) and len(date) <= _LONGEST_DATE else None
    if start is None:
        text = str(date)[:30]
        raise apsw.SQLError(f"date_trunc() cannot read {text!r} as a date: write YYYY-MM-DD or YYYY-MM-DD HH:MM:SS")
    return start


@lru_cache(maxsize=10_000)
def _start_of_unit(name: str, date: str) -> str | None:
    """Return the start; None for a text that is no date, and for a day that does not exist."""
    day = _DAY.match(date)
    if day is None or native.value("date(?)", day[0]) != day[0]:
        return None
    start = native.value(_STARTS[name], date)
    return start if isinstance(start, str) else None


def _regexp_replace(largest: Callable[[], int], stopped: Callable[[], bool], *arguments: SqlValue) -> str | None:
    """Return the text with its first match replaced, or with the flag ``g`` all of them, as in DuckDB.

    The engine is RE2, which has no lookaround and no references in a pattern: a search takes at most the time of the
    product of the sizes of the text and of the compiled pattern, which is limited. ``largest`` returns the limit of a
    value in bytes. Source: https://github.com/google/re2/wiki/Syntax
    """
    if stopped():
        raise apsw.InterruptError("interrupted")
    if None in arguments:
        return None
    text, pattern, replacement, flags = [*map(_text, arguments), ""][:4]
    compiled = _compile(pattern, flags.replace("g", ""))
    _check_time(compiled, text)
    parts = _parts_of(replacement, compiled.groups)
    limit = largest()
    pieces: list[str] = []
    size, end = 0, -1
    for match in compiled.finditer(text):
        if stopped():
            raise apsw.InterruptError("interrupted")
        if match.start() == end and not match[0]:
            continue  # an empty match does not follow another match directly
        pieces.append(text[max(0, end) : match.start()])
        pieces += (part if isinstance(part, str) else match[part] or "" for part in parts)
        size += len(pieces[-1 - len(parts)]) + sum(map(len, pieces[len(pieces) - len(parts) :]))
        if size > limit:
            raise too_big()
        end = match.end()
        if "g" not in flags:
            break
    return "".join(pieces) + text[max(0, end) :]


def _text(value: SqlValue) -> str:
    if isinstance(value, bytes):
        raise apsw.SQLError("regexp_replace() takes text, not a BLOB")
    return value if isinstance(value, str) else str(native.value("CAST(? AS TEXT)", value))


@lru_cache(maxsize=100)
def _compile(pattern: str, flags: str) -> Any:
    """Compile a pattern; the flags are those of DuckDB that concern it."""
    if set(flags) - set("is"):
        raise apsw.SQLError(
            "regexp_replace() has the flags g (replace all), i (ignore case) and s (. matches a line break), "
            f"not {flags!r}"
        )
    if len(pattern) > _LONGEST_PATTERN:
        raise apsw.SQLError(f"the pattern of regexp_replace() is limited to {_LONGEST_PATTERN:,} characters")
    try:
        import re2  # only here: few statements need it
    except ImportError:
        raise apsw.SQLError(
            "regexp_replace() needs google-re2: pip install google-re2, and start the service again"
        ) from None
    options = re2.Options()
    options.max_mem, options.log_errors = _MEMORY, False
    options.case_sensitive, options.dot_nl = "i" not in flags, "s" in flags
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise apsw.SQLError(f"regexp_replace() cannot read the pattern {pattern[:100]!r}: {reason}") from None
    if compiled.groups > _MOST_GROUPS:
        raise apsw.SQLError(f"the pattern of regexp_replace() is limited to {_MOST_GROUPS} groups: write (?:...)")
    return compiled


def _check_time(pattern: Any, text: str) -> None:
    if pattern.programsize * most_bytes(text) > MOST_STEPS:
        raise apsw.SQLError(
            f"regexp_replace() takes {MOST_STEPS // pattern.programsize:,} bytes for the pattern "
            f"{pattern.pattern[:100]!r}, not {most_bytes(text):,}: shorten the text or the pattern"
        )


@lru_cache(maxsize=100)
def _parts_of(replacement: str, groups: int) -> tuple[str | int, ...]:
    r"""Return the literal parts of the replacement and the numbers of groups: ``\0`` (the whole match) to ``\9``."""
    parts: list[str | int] = []
    end = 0
    for reference in _REFERENCE.finditer(replacement):
        parts.append(replacement[end : reference.start()])
        sign, end = reference[1], reference.end()
        if sign == "\\":
            parts.append(sign)
        elif sign in tuple("0123456789") and int(sign) <= groups:
            parts.append(int(sign))
        else:
            raise apsw.SQLError(f"the replacement of regexp_replace() has {reference[0]}, which is not a group")
    parts.append(replacement[end:])
    return tuple(parts)
