"""Lengths of time as people write them."""

from __future__ import annotations

import re

from pipemagic.errors import SessionError

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Give the seconds that ``90``, ``90s``, ``1.5m`` or ``2h`` stands for; SessionError for all else, and 0."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip(), re.ASCII)
    if match is None or not float(match[1]):
        raise SessionError(
            f"{text!r} is not a length of time", hint="write 90s, 10m or 1h; without a unit it is seconds"
        )
    return float(match[1]) * _UNITS[match[2]]


def words(length: float) -> str:
    """Give a length of time in words: ``45 s``, ``9 min 30 s``, ``2 h 5 min``."""
    whole = int(length)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min" if whole % 3600 // 60 else f"{whole // 3600} h"
