"""Convert columns of ISO texts to datetime64: in microseconds, or in nanoseconds if the texts have them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pipemagic.frames.columns import ColumnChunk
from pipemagic.hrana.values import SqlValue
from pipemagic.text import escape_controls, shorten

_DAY = r"\d{4}-\d\d-\d\d"
_ZONE = r"Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d"
_VALUE = re.compile(
    rf"{_DAY}(?:[ T](?:[01]\d|2[0-3]):\d\d(?::\d\d(?:\.(?P<fraction>\d{{1,9}}))?)?(?P<zone>{_ZONE})?)?", re.ASCII
)
_LIKE_ISO = re.compile(rf"{_DAY}(?:[ T]\d\d:\d\d(?::\d\d(?:\.(?P<fraction>\d+))?)?(?:{_ZONE})?)?", re.ASCII)
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_MICROSECONDS = 6
"""The digits of a fraction that ``datetime64[us]`` holds."""
_LONGEST = len("2024-01-31 10:30:00.123456789+00:00")
_WIDTH_OF_DAY = len("2024-01-31")


class Misfit(NamedTuple):
    """The first value that keeps a column text: its row, from 1, and what it has."""

    row: int
    reason: str

    def __str__(self) -> str:
        return f"row {self.row:,} has {self.reason}"


class _Moments(NamedTuple):
    """Dates as ``datetime64[us]``, in UTC if they have an offset, and the nanoseconds beyond.

    These are an array of integers, -1 for a text without the digits of nanoseconds; None if no text has them.
    """

    zoned: bool
    values: Any
    rest: Any = None


def parse_dates(texts: ColumnChunk) -> Any | Misfit:
    """Parse a column of dates: ``YYYY-MM-DD``, with a time of up to nine decimals, with or without an offset.

    At least one text is not NULL. Return an array of ``datetime64[us]``, NaT for NULL, and of ``datetime64[ns]`` if a
    text has more than six decimals; if every value has an offset, in UTC. Return the first value that does not fit if
    it has another format, does not exist (30 February), or is the first with or without an offset.
    """
    import numpy as np
    import pandas as pd

    present = np.ones(texts.size, bool) if texts.missing is None else ~texts.missing
    result = _parse_alike(texts, present) or _parse_each(texts.items())
    if isinstance(result, Misfit):
        return result
    moments, unit = result.values, "us"
    outside = (moments < np.datetime64("0001-01-01")) | (moments >= np.datetime64("10000-01-01"))
    if outside.any():  # SQLite supports more years than Python
        return _misfit_at(texts, present, outside, "which is outside of the years 1 to 9999 in UTC")
    if result.rest is not None:
        outside = ~_fit_nanoseconds(moments, result.rest)
        if outside.any():
            row = np.flatnonzero(present)[result.rest >= 0][0] + 1
            why = f"and nanoseconds (row {row:,}) reach only from 1677 to 2262"
            return _misfit_at(texts, present, outside, why)
        # The first nanoseconds of 1677 overflow twice, which ends at the right value.
        moments = (moments.view("int64") * 1000 + np.maximum(result.rest, 0)).view("datetime64[ns]")
        unit = "ns"
    dates = np.full(texts.size, "NaT", f"datetime64[{unit}]")
    dates[present] = moments
    return pd.DatetimeIndex(dates).tz_localize("UTC").array if result.zoned else dates


def have_times(texts: ColumnChunk) -> bool:
    """Return True if some of the dates that `parse_dates` accepts have a time."""
    offsets = texts.values.offsets
    days = texts.size if texts.missing is None else texts.size - int(texts.missing.sum())
    return int(offsets[-1] - offsets[0]) > days * _WIDTH_OF_DAY


def first_misfit(items: Iterable[SqlValue]) -> Misfit | None:
    """Return the first value that is not a date like those before it."""
    result = _parse_each(items)
    return result if isinstance(result, Misfit) else None


def _fit_nanoseconds(moments: Any, rest: Any) -> Any:
    """Return where moments fit ``datetime64[ns]``, whose lowest integer is NaT."""
    micros = moments.view("int64")
    (low, after_low), (high, after_high) = divmod(1 - 2**63, 1000), divmod(2**63 - 1, 1000)
    return ((micros > low) | ((micros == low) & (rest >= after_low))) & (
        (micros < high) | ((micros == high) & (rest <= after_high))
    )


def _misfit_at(texts: ColumnChunk, present: Any, wrong: Any, why: str) -> Misfit:
    """Return the first of the present values that is wrong."""
    import numpy as np

    row = int(np.flatnonzero(present)[wrong][0])
    (text,) = texts.cut(row, row + 1).items()
    return Misfit(row + 1, f"{_quoted(str(text))}, {why}")


# -- texts of few forms, as arrays


def _parse_alike(texts: ColumnChunk, present: Any) -> _Moments | None:
    """Parse dates of which those of the same length have the same form; None for others."""
    import numpy as np

    data, offsets = texts.values
    lengths = np.diff(offsets)[present]
    joined = bytes(data[offsets[0] : offsets[-1]])
    if not joined.isascii() or int(lengths.max()) > _LONGEST:
        return None
    widths = np.flatnonzero(np.bincount(lengths)).tolist()
    if len(widths) == 1:
        return _parse_form(joined, widths[0])
    letters = np.frombuffer(joined, np.uint8)
    values, rest, zones = np.empty(len(lengths), "datetime64[us]"), np.full(len(lengths), -1), set()
    for width in widths:
        rows = lengths == width
        part = _parse_form(letters[np.repeat(rows, lengths)].tobytes(), width)
        if part is None:
            return None
        zones.add(part.zoned)
        values[rows] = part.values
        if part.rest is not None:
            rest[rows] = part.rest
    return _Moments(zones.pop(), values, rest if (rest >= 0).any() else None) if len(zones) == 1 else None


def _parse_form(joined: bytes, width: int) -> _Moments | None:
    """Parse concatenated dates of this length; None if not all have the form and the offset of the first."""
    import numpy as np

    first = joined[:width]
    match = _VALUE.fullmatch(first.decode()) if width else None
    if match is None or joined.translate(_DIGITS) != first.translate(_DIGITS) * (len(joined) // width):
        return None
    end = width - len(match["zone"] or "")
    letters = np.frombuffer(joined, np.uint8).reshape(-1, width)
    if (letters[:, end:] != letters[0, end:]).any():
        return None
    beyond = max(0, len(match["fraction"] or "") - _MICROSECONDS)
    start = end - beyond
    rest = (letters[:, start:end] - ord("0")) @ np.array([100, 10, 1][:beyond]) if beyond else None
    try:
        texts_alone = np.ascontiguousarray(letters[:, :start]).view(f"S{start}").ravel()
        # As characters: bytes that are not a date crash NumPy 1.26.
        moments = texts_alone.astype(f"U{start}").astype("datetime64[us]")
        offset = datetime.fromisoformat(match[0]).utcoffset() if match["zone"] else None
    except ValueError:
        return None  # an invalid date or time
    return _Moments(bool(match["zone"]), moments if offset is None else moments - np.timedelta64(offset), rest)


# -- others, one by one


def _parse_each(items: Iterable[SqlValue]) -> _Moments | Misfit:
    import numpy as np

    moments: list[datetime] = []
    rest: list[int] = []
    first: tuple[int, bool] | None = None
    for row, item in enumerate(items, start=1):
        if item is None:
            continue
        match = _VALUE.fullmatch(item) if isinstance(item, str) else None
        if match is None:
            return Misfit(row, _reason(item))
        zoned = bool(match["zone"])
        first = first or (row, zoned)
        if zoned != first[1]:
            what, other = ("an offset", "none") if zoned else ("no offset", "one")
            return Misfit(row, f"{what} ({_quoted(match[0])}), and row {first[0]:,} has {other}")
        try:
            moment = datetime.fromisoformat(match[0])
            moments.append(moment.astimezone(UTC).replace(tzinfo=None) if zoned else moment)
        except ValueError:
            return Misfit(row, _reason(item))
        except OverflowError:
            return Misfit(row, f"{_quoted(match[0])}, which is outside of the years 1 to 9999 in UTC")
        beyond = (match["fraction"] or "")[_MICROSECONDS:]
        rest.append(int(beyond.ljust(3, "0")) if beyond else -1)
    fine = any(nanoseconds >= 0 for nanoseconds in rest)
    zoned = first is not None and first[1]
    return _Moments(zoned, np.array(moments, "datetime64[us]"), np.array(rest) if fine else None)


def _reason(item: SqlValue) -> str:
    """Return what a value is that is not a date, for a message."""
    if isinstance(item, bytes):
        return "bytes"
    if not isinstance(item, str):
        return f"the number {item}"
    match = _LIKE_ISO.fullmatch(item)
    if match is None:
        return f"{_quoted(item)}, which is not an ISO date" if item else "an empty text"
    fraction = match["fraction"] or ""
    wrong = "has more than nine decimals" if len(fraction) > 9 else "is not a valid date or time"
    return f"{_quoted(item)}, which {wrong}"


def _quoted(text: str) -> str:
    return f"'{escape_controls(shorten(text, 60))}'"
