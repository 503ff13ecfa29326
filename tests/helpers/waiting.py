"""Waiting for what other threads and processes do: as long as it takes, but not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 30.0
Found = TypeVar("Found")


def until(condition: Callable[[], Found], what: str = "", seconds: float = PATIENCE) -> Found:
    """Wait until the condition gives something true, and give that."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, what or "it did not happen in time"
        time.sleep(0.005)
    return found
