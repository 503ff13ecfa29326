"""The text of a moment in SQL: one form in loads, parameters and lists.

| moment                                      | text |
|---------------------------------------------|------|
| a date                                      | ``2013-01-01`` |
| a date and time without a zone              | ``2013-01-01 05:17:00``, a fraction has 6 or 9 digits |
| a date and time with a zone                 | the same in UTC, with ``+00:00`` |

The order of these texts is the order of the moments, and each moment of a kind has one text. The years are 1 to 9999.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, NamedTuple

from pipemagic.errors import ProtocolError
from pipemagic.frames.columns import ColumnChunk, Texts, of_kind
from pipemagic.hrana.values import Text

_AT_ONCE = 50_000
_DATE, _SECONDS = 10, 19  # characters
_OFFSET = "+00:00"
_DAYS = ("Y", "M", "W", "D")
"""Units of NumPy that have no time of day."""


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
    if np.datetime_data(when.dtype)[0] in _DAYS:
        return str(np.datetime_as_string(when.astype("M8[D]"))[0])
    if np.datetime_data(when.dtype)[0] not in ("h", "m", "s", "ms", "us"):
        whole = when.astype("M8[ns]")
        if (whole != when).any():
            raise ProtocolError("a time has parts of a nanosecond", hint="round it first: .astype('datetime64[ns]')")
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

        if np.datetime_data(self.when.dtype)[0] in _DAYS:
            return None
        rows = np.flatnonzero((self.when != self.when.astype("M8[D]")) & ~np.isnat(self.when))
        return int(rows[0]) if rows.size else None

    @property
    def are_days(self) -> bool:
        """True if there are moments, without a zone, and all are midnights."""
        return not self.aware and bool(self.present.size) and self.row_with_time is None

    def texts(self, *, days: bool) -> Texts:
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
        return Texts(data, np.cumsum(offsets))

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
        raise ProtocolError("some of its times have a time zone, others have none", hint=in_utc)
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
    return ProtocolError("a date is outside the years 1 to 9999, the range of ISO text")


def _digits(present: Any) -> tuple[str, Any]:
    """Return the unit (s, us, ns) with the digits that moments need, and the length of each text."""
    import numpy as np

    lengths = np.full(len(present), _SECONDS)
    if np.datetime_data(present.dtype)[0] in (*_DAYS, "h", "m", "s"):
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
