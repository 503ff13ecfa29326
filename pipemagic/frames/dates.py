"""ISO texts -> datetime64[us], all or nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_DATE = r"(?!0000)\d{4}-\d\d-\d\d"
_TIME = r"(?:[ T](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?)"
_ZONE = r"(?:Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)"
_NAIVE = re.compile(rf"(?:{_DATE}{_TIME}?\n)*+")
_AWARE = re.compile(rf"(?:{_DATE}{_TIME}{_ZONE}\n)*+")
_SPLIT = re.compile(rf"(?P<naive>{_DATE}{_TIME})(?P<zone>{_ZONE})")


def parse_dates(texts: Sequence[str | None]) -> Any | None:
    """Read a column of dates: ``YYYY-MM-DD``, with a time of up to six decimals, with or without an offset.

    Gives an array of ``datetime64[us]``; where every value has an offset, of ``datetime64[us, UTC]``. None if any
    value is not of this form, does not exist (30 February), or only some have an offset.
    """
    present = [text for text in texts if text is not None]
    # One search over the joined texts costs a tenth of one search for each.
    joined = "\n".join(present) + "\n"
    if joined.count("\n") != len(present):
        return None
    try:
        if _NAIVE.fullmatch(joined):
            return _naive(texts)
        if _AWARE.fullmatch(joined):
            return _aware(texts)
    except ValueError:
        return None  # a date that the calendar does not have
    return None


def _naive(texts: Sequence[str | None]) -> Any:
    import numpy as np

    return np.array(["NaT" if text is None else text for text in texts], dtype="datetime64[us]")


def _aware(texts: Sequence[str | None]) -> Any | None:
    import numpy as np
    import pandas as pd

    local: list[str] = []
    minutes: list[int] = []
    for text in texts:
        match = None if text is None else _SPLIT.fullmatch(text)
        local.append("NaT" if match is None else match["naive"])
        minutes.append(0 if match is None else _minutes(match["zone"]))
    instants = _naive(local) - np.array(minutes, dtype="timedelta64[m]")
    if instants.size and (instants < np.datetime64("0001-01-01")).any():
        return None
    return pd.DatetimeIndex(instants).tz_localize("UTC").array


def _minutes(zone: str) -> int:
    if zone == "Z":
        return 0
    hours, rest = zone[1:3], zone[-2:]
    return (-1 if zone[0] == "-" else 1) * (int(hours) * 60 + int(rest))
