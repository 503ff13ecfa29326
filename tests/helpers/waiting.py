"""Wait for other threads and processes, with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 30.0
TICK = 0.01
Found = TypeVar("Found")


def until(condition: Callable[[], Found], what: str = "", seconds: float = PATIENCE) -> Found:
    """Wait until the condition returns a true value, and return it."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, what or "it did not happen in time"
        time.sleep(0.005)
    return found


def pause(seconds: float) -> None:
    """Give other threads time if nothing shows that they have run, also on a machine that stalls."""
    for _ in range(round(seconds / TICK)):
        time.sleep(TICK)
