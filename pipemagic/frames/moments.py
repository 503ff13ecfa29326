"""The text of a moment in SQL: one form in loads, parameters and lists, several in results.

| moment                                      | text |
|---------------------------------------------|------|
| a date                                      | ``2013-01-01`` |
| a date and time without a zone              | ``2013-01-01 05:17:00``, a fraction has 6 or 9 digits |
| a date and time with a zone                 | the same in UTC, with ``+00:00`` |

The order of these texts is the order of the moments, and each moment of a kind has one text. The years are 1 to 9999.

Texts of other programs may have other offsets, a T, and up to nine decimals: `parse_dates` converts them to
``datetime64`` in microseconds, or in nanoseconds if they have them.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pipemagic.errors import ProtocolError
from pipemagic.frames.columns import ColumnChunk, TextArray, of_kind
from pipemagic.hrana.values import SqlValue, Text
from pipemagic.text import escape_controls, shorten

_AT_ONCE = 50_000
_DATE, _SECONDS = 10, 19  # characters
_OFFSET = "+00:00"
_DAY_UNITS = ("Y", "M", "W", "D")
"""Units of NumPy that have no time of day."""

_DAY = r"\d{4}-\d\d-\d\d"
_ZONE = r"Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d"
_VALUE = re.compile(
    rf"{_DAY}(?:[ T](?:[01]\d|2[0-3]):\d\d(?::\d\d(?:\.(?P<fraction>\d{{1,9}}))?)?(?P<zone>{_ZONE})?)?", re.ASCII
)
_LIKE_ISO = re.compile(rf"{_DAY}(?:[ T]\d\d:\d\d(?::\d\d(?:\.(?P<fraction>\d+))?)?(?:{_ZONE})?)?", re.ASCII)
_TO_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_MICROSECONDS = 6
"""The digits of a fraction that ``datetime64[us]`` holds."""
_LONGEST = len("2024-01-31 10:30:00.123456789+00:00")


def text_of_datetime(moment: datetime.datetime) -> str:
    """Return the text of a date and time, possibly of pandas; raise ProtocolError outside the years 1 to 9999."""
    offset, nanoseconds = "", int(getattr(moment, "nanosecond", 0))
    if moment.utcoffset() is not None:
        try:
            moment, offset = moment.astimezone(datetime.UTC), _OFFSET
        except (OverflowError, ValueError):
            raise _outside() from None
    if not 1 <= moment.year <= 9999:  # as a Timestamp of pandas may have it
        raise _outside()
    plain = datetime.datetime(moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second)
    fraction = f".{moment.microsecond:06}" if moment.microsecond or nanoseconds else ""
    return f"{plain.isoformat(' ')}{fraction}{f'{nanoseconds:03}' if nanoseconds else ''}{offset}"


def text_of_datetime64(moment: Any) -> str:
    """Return the text of a ``numpy.datetime64`` other than NaT: a date for units of a day and more.

    Raise ProtocolError outside the years 1 to 9999, and for parts of a nanosecond.
    """
    import numpy as np

    when = np.array([moment])
    check_years(when)
    if np.datetime_data(when.dtype)[0] in _DAY_UNITS:
        return str(np.datetime_as_string(when.astype("M8[D]"))[0])
    if np.datetime_data(when.dtype)[0] not in ("h", "m", "s", "ms", "us"):
        whole = when.astype("M8[ns]")
        if (whole != when).any():
            raise ProtocolError(
                "a time has a resolution finer than 1 ns", hint="round it first: .astype('datetime64[ns]')"
            )
        when = whole
    return Moments(when).texts(days=False).strings()[0]


class Moments(NamedTuple):
    """The moments of a column: an array of ``datetime64``, NaT if missing; in UTC if they are ``aware`` of a zone."""

    when: Any
    aware: bool = False

    @property
    def present(self) -> Any:
        """The moments without missing ones."""
        import numpy as np

        return self.when[~np.isnat(self.when)]

    @property
    def row_with_time(self) -> int | None:
        """The number of the first row, from 0, with a time of day other than midnight; None if there is none."""
        import numpy as np

        if np.datetime_data(self.when.dtype)[0] in _DAY_UNITS:
            return None
        rows = np.flatnonzero((self.when != self.when.astype("M8[D]")) & ~np.isnat(self.when))
        return int(rows[0]) if rows.size else None

    @property
    def are_days(self) -> bool:
        """True if there are moments, without a zone, and all are midnights."""
        return not self.aware and bool(self.present.size) and self.row_with_time is None

    def texts(self, *, days: bool) -> TextArray:
        """Return the texts, '' for missing moments: dates with ``days``, otherwise dates and times."""
        import numpy as np

        missing, present = np.isnat(self.when), self.present
        if days:
            parts = [_letters(present[at : at + _AT_ONCE], "D") for at in range(0, len(present), _AT_ONCE)]
            lengths = np.full(len(present), _DATE)
        else:
            unit, lengths = _digits(present)
            offset = _OFFSET if self.aware else ""
            parts = [
                _with_offset(_letters(present[at : at + _AT_ONCE], unit), lengths[at : at + _AT_ONCE], offset)
                for at in range(0, len(present), _AT_ONCE)
            ]
            lengths = lengths + len(offset)
        offsets = np.zeros(len(self.when) + 1, np.int64)
        offsets[1:][~missing] = lengths
        data = np.concatenate(parts) if parts else np.zeros(0, np.uint8)
        return TextArray(data, np.cumsum(offsets))

    def chunk(self, *, days: bool) -> ColumnChunk:
        """Return the texts as values of a column."""
        import numpy as np

        return of_kind(Text, self.texts(days=days), np.isnat(self.when))


def moments_of(values: Sequence[Any]) -> Moments:
    """Convert dates and times of Python, NumPy and pandas, and None, to moments.

    Raise ProtocolError if only some have a zone, and for values outside the years 1 to 9999.
    """
    import numpy as np

    kinds = set(map(type, values)) - {type(None)}
    if kinds <= {datetime.date}:
        return Moments(_parsed(values).astype("M8[D]"))
    zones = {getattr(value, "tzinfo", None) is not None for value in values if value is not None}
    if len(zones) > 1:
        in_utc = "import pandas; {0} = pandas.to_datetime({0}, utc=True)  # if the others are in UTC"
        raise ProtocolError("it has times with a time zone and times without one", hint=in_utc)
    aware = zones == {True}
    if not aware and kinds <= {datetime.date, datetime.datetime}:
        return Moments(_parsed(values))
    texts = [None if value is None else _text_of(value).removesuffix(_OFFSET) for value in values]
    longest = max((len(text) for text in texts if text is not None), default=0)
    when = np.array(texts, "M8[us]" if longest <= _SECONDS + 7 else "M8[ns]")
    years = {int(text[:4]) for text in texts if text is not None}
    if when.dtype == "M8[ns]" and years - set(range(1678, 2262)):
        raise ProtocolError("it has both nanoseconds and years outside 1678 to 2261")
    return Moments(when, aware)


def _parsed(values: Sequence[Any]) -> Any:
    """Convert dates and datetimes of Python without a zone to ``datetime64[us]``, ten times faster than NumPy."""
    import numpy as np
    import pandas as pd

    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return pd.DatetimeIndex(objects, dtype="M8[us]").to_numpy()


def _text_of(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return text_of_datetime(value)
    return value.isoformat() if isinstance(value, datetime.date) else text_of_datetime64(value)


def check_years(when: Any) -> None:
    """Raise ProtocolError for a moment outside the years 1 to 9999; NaT is in them."""
    import numpy as np

    seconds = when.astype("M8[s]")  # outside the range of nanoseconds
    if (seconds < np.datetime64("0001-01-01", "s")).any() or (seconds >= np.datetime64("10000-01-01", "s")).any():
        raise _outside()


def _outside() -> ProtocolError:
    return ProtocolError("a date is outside the years 1 to 9999")


def _digits(present: Any) -> tuple[str, Any]:
    """Return the unit (s, us, ns) with the digits that moments need, and the length of each text."""
    import numpy as np

    lengths = np.full(len(present), _SECONDS)
    if np.datetime_data(present.dtype)[0] in (*_DAY_UNITS, "h", "m", "s"):
        return "s", lengths
    has_fraction = present != present.astype("M8[s]")
    if not has_fraction.any():
        return "s", lengths
    has_nanoseconds = present != present.astype("M8[us]")
    lengths[has_fraction], lengths[has_nanoseconds] = _SECONDS + 7, _SECONDS + 10
    return "ns" if has_nanoseconds.any() else "us", lengths


def _letters(when: Any, unit: Any) -> Any:
    """Return moments as rows of ASCII letters, with the digits of a unit; as one array if they are dates."""
    import numpy as np

    texts = np.datetime_as_string(when, unit=unit)
    width = len(texts[0])  # the type is wider
    letters = texts.astype(f"S{width}").view(np.uint8)
    if unit == "D":
        return letters
    letters = letters.reshape(len(texts), width)
    letters[:, _DATE] = ord(" ")  # as SQLite writes it, instead of the T
    return letters


def _with_offset(letters: Any, lengths: Any, offset: str) -> Any:
    """Return rows of letters, cut to their lengths, each with the offset, as one array."""
    import numpy as np

    width = letters.shape[1]
    suffix = np.frombuffer(offset.encode(), np.uint8)
    rows = np.hstack([letters, np.broadcast_to(suffix, (len(letters), len(suffix)))])
    if (lengths == width).all():
        return rows.ravel()
    shown = np.arange(rows.shape[1]) < lengths[:, None]
    shown[:, width:] = True
    return rows[shown]


# -- columns of texts


class Misfit(NamedTuple):
    """The first value that keeps a column text: its row, from 1, and what it has."""

    row: int
    reason: str

    def __str__(self) -> str:
        return f"row {self.row:,} has {self.reason}"


class _Parsed(NamedTuple):
    """Moments as ``datetime64[us]``, in UTC if their texts have an offset, and the nanoseconds beyond.

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
        return _misfit_at(texts, present, outside, "which is outside the years 1 to 9999 in UTC")
    if result.rest is not None:
        outside = ~_fit_nanoseconds(moments, result.rest)
        if outside.any():
            row = np.flatnonzero(present)[result.rest >= 0][0] + 1
            why = f"but nanoseconds (row {row:,}) are possible only from 1677 to 2262"
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
    return int(offsets[-1] - offsets[0]) > days * _DATE


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


def _parse_alike(texts: ColumnChunk, present: Any) -> _Parsed | None:
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
    return _Parsed(zones.pop(), values, rest if (rest >= 0).any() else None) if len(zones) == 1 else None


def _parse_form(joined: bytes, width: int) -> _Parsed | None:
    """Parse concatenated dates of this length; None if not all have the form and the offset of the first."""
    import numpy as np

    first = joined[:width]
    match = _VALUE.fullmatch(first.decode()) if width else None
    if match is None or joined.translate(_TO_ZEROS) != first.translate(_TO_ZEROS) * (len(joined) // width):
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
        offset = datetime.datetime.fromisoformat(match[0]).utcoffset() if match["zone"] else None
    except ValueError:
        return None  # an invalid date or time
    return _Parsed(bool(match["zone"]), moments if offset is None else moments - np.timedelta64(offset), rest)


# -- others, one by one


def _parse_each(items: Iterable[SqlValue]) -> _Parsed | Misfit:
    import numpy as np

    moments: list[datetime.datetime] = []
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
            return Misfit(row, f"{what} ({_quoted(match[0])}), but row {first[0]:,} has {other}")
        try:
            moment = datetime.datetime.fromisoformat(match[0])
            moments.append(moment.astimezone(datetime.UTC).replace(tzinfo=None) if zoned else moment)
        except ValueError:
            return Misfit(row, _reason(item))
        except OverflowError:
            return Misfit(row, f"{_quoted(match[0])}, which is outside the years 1 to 9999 in UTC")
        beyond = (match["fraction"] or "")[_MICROSECONDS:]
        rest.append(int(beyond.ljust(3, "0")) if beyond else -1)
    fine = any(nanoseconds >= 0 for nanoseconds in rest)
    zoned = first is not None and first[1]
    return _Parsed(zoned, np.array(moments, "datetime64[us]"), np.array(rest) if fine else None)


def _reason(item: SqlValue) -> str:
    """Return what a value is that is not a date, for a message."""
    if isinstance(item, bytes):
        return "bytes"
    if not isinstance(item, str):
        return f"the number {item}"
    match = _LIKE_ISO.fullmatch(item)
    if match is None:
        return f"{_quoted(item)}, which is not an ISO date" if item else "an empty string"
    fraction = match["fraction"] or ""
    wrong = "has more than nine decimals" if len(fraction) > 9 else "is not a valid date or time"
    return f"{_quoted(item)}, which {wrong}"


def _quoted(text: str) -> str:
    return f"'{escape_controls(shorten(text, 60))}'"
