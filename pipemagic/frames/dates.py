"""Convert columns of ISO texts to datetime64[us]."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pipemagic.frames.columns import ColumnChunk

_ZONE = r"Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d"
_VALUE = re.compile(
    rf"\d{{4}}-\d\d-\d\d(?:[ T](?:[01]\d|2[0-3]):\d\d(?::\d\d(?:\.\d{{1,6}})?)?(?P<zone>{_ZONE})?)?", re.ASCII
)
_DIGITS = bytes.maketrans(b"123456789", b"000000000")


def parse_dates(texts: ColumnChunk) -> Any | None:
    """Parse a column of dates: ``YYYY-MM-DD``, with a time of up to six decimals, with or without an offset.

    At least one text is not NULL. Return an array of ``datetime64[us]``, NaT for NULL; if every value has an offset, of
    ``datetime64[us, UTC]``. Return None if any value has another format, does not exist (30 February), or only some
    have an offset.
    """
    import numpy as np
    import pandas as pd

    present = np.ones(texts.size, bool) if texts.missing is None else ~texts.missing
    found = _parse_alike(texts, present) or _parse_each(text for text in texts.items() if text is not None)
    if found is None:
        return None
    zoned, moments = found
    if (moments < np.datetime64("0001-01-01")).any() or (moments >= np.datetime64("10000-01-01")).any():
        return None  # SQLite supports more years than Python
    dates = np.full(texts.size, "NaT", "datetime64[us]")
    dates[present] = moments
    return pd.DatetimeIndex(dates).tz_localize("UTC").array if zoned else dates


def _parse_alike(texts: ColumnChunk, present: Any) -> tuple[bool, Any] | None:
    """Return whether dates have an offset, and the dates, then in UTC; None if not all have the form of the first."""
    import numpy as np

    data, offsets = texts.values
    lengths = np.diff(offsets)[present]
    width, joined = int(lengths[0]), bytes(data[offsets[0] : offsets[-1]])
    first = joined[:width]
    match = _VALUE.fullmatch(first.decode()) if joined.isascii() else None
    if (
        match is None
        or (lengths != width).any()
        or joined.translate(_DIGITS) != first.translate(_DIGITS) * len(lengths)
    ):
        return None
    zone = len(match["zone"] or "")
    letters = np.frombuffer(joined, np.uint8).reshape(-1, width)
    if zone and (letters[:, -zone:] != letters[0, -zone:]).any():
        return None
    try:
        texts_alone = np.ascontiguousarray(letters[:, : width - zone]).view(f"S{width - zone}").ravel()
        # As characters: bytes that are not a date crash NumPy 1.26.
        moments = texts_alone.astype(f"U{width - zone}").astype("datetime64[us]")
        offset = datetime.fromisoformat(match[0]).utcoffset() if zone else None
    except ValueError:
        return None  # an invalid date or time
    return zone > 0, moments if offset is None else moments - np.timedelta64(offset)


def _parse_each(texts: Iterable[Any]) -> tuple[bool, Any] | None:
    import numpy as np

    found = []
    for text in texts:
        match = _VALUE.fullmatch(text)
        if match is None:
            return None
        try:
            moment = datetime.fromisoformat(text)
            found.append(
                (bool(match["zone"]), moment.astimezone(UTC).replace(tzinfo=None) if match["zone"] else moment)
            )
        except (ValueError, OverflowError):
            return None  # an invalid date or time
    zones = {zone for zone, _ in found}
    return (zones.pop(), np.array([moment for _, moment in found], "datetime64[us]")) if len(zones) == 1 else None
