"""ISO texts -> datetime64[us], all or nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_ZONE = r"Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d"
_VALUE = re.compile(rf"\d{{4}}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{{1,6}})?)?(?P<zone>{_ZONE})?)?", re.ASCII)
_OFFSET = re.compile(_ZONE, re.ASCII)
_DIGITS = bytes.maketrans(b"123456789", b"000000000")


def parse_dates(texts: Sequence[str | None]) -> Any | None:
    """Read a column of dates: ``YYYY-MM-DD``, with a time of up to six decimals, with or without an offset.

    At least one text is not None. Gives an array of ``datetime64[us]``; where every value has an offset, of
    ``datetime64[us, UTC]``. None if any value is not of this form, does not exist (30 February), or only some have
    an offset.
    """
    zones = _zones([text for text in texts if text is not None])
    if zones is None or (any(zones) and not all(zones)):
        return None
    try:
        return _aware(texts, zones) if any(zones) else _naive(texts)
    except ValueError:
        return None  # a date or a time that the calendar does not have


def parse_alike(texts: bytes, width: int) -> Any | None:
    """Read dates without offsets, ``width`` bytes each, which are all written in the form of the first.

    Gives what `parse_dates` gives; None also where that has to look.
    """
    import numpy as np

    first = texts[:width]
    match = _VALUE.fullmatch(first.decode()) if texts.isascii() else None
    if match is None or match["zone"] or texts.translate(_DIGITS) != first.translate(_DIGITS) * (len(texts) // width):
        return None
    try:
        return _of_our_era(np.frombuffer(texts, f"S{width}").astype("datetime64[us]"))
    except ValueError:
        return None


def _zones(present: Sequence[str]) -> list[str] | None:
    """Give the offset of each text, '' for none; None if any text does not look like a date."""
    first = _VALUE.fullmatch(present[0])
    if first is None:
        return None
    if _like_the_first(present):
        width = len(first["zone"] or "")
        zones = [text[-width:] for text in present] if width else [""] * len(present)
        return zones if not width or all(map(_OFFSET.fullmatch, set(zones))) else None
    matches = [_VALUE.fullmatch(text) for text in present]
    return None if None in matches else [match["zone"] or "" for match in matches if match]


def _like_the_first(texts: Sequence[str]) -> bool:
    """Tell whether all have digits and signs where the first has them; a tenth of the work of a match for each."""
    joined = "\n".join(texts) + "\n"
    if not joined.isascii():
        return False
    form = (texts[0] + "\n").encode().translate(_DIGITS)
    return joined.encode().translate(_DIGITS) == form * len(texts)


def _naive(texts: Sequence[str | None]) -> Any | None:
    import numpy as np

    return _of_our_era(np.array(["NaT" if text is None else text for text in texts], dtype="datetime64[us]"))


def _of_our_era(dates: Any) -> Any | None:
    """Give the dates; None if there is one of the year 0, which SQLite has and Python has not."""
    import numpy as np

    return None if (dates < np.datetime64("0001-01-01")).any() else dates


def _aware(texts: Sequence[str | None], zones: Sequence[str]) -> Any | None:
    import numpy as np
    import pandas as pd

    offsets = iter(zones)
    local: list[str | None] = []
    minutes: list[int] = []
    for text in texts:
        zone = "" if text is None else next(offsets)
        local.append(None if text is None else text[: -len(zone)])
        minutes.append(_minutes(zone))
    dates = _naive(local)
    if dates is None:
        return None
    instants = dates - np.array(minutes, dtype="timedelta64[m]")
    if (instants < np.datetime64("0001-01-01")).any() or (instants >= np.datetime64("10000-01-01")).any():
        return None
    return pd.DatetimeIndex(instants).tz_localize("UTC").array


def _minutes(zone: str) -> int:
    if zone in ("", "Z"):
        return 0
    sign = -1 if zone[0] == "-" else 1
    return sign * (int(zone[1:3]) * 60 + int(zone[-2:]))
