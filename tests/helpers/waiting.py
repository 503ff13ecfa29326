"""Waiting for what other threads and processes do: as long as it takes, but not for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 30.0
AT_ONCE = 4.0
"""Seconds that are at once beside the 5 s of a transaction's window or of a writer's wait: what waits for one of
these takes longer, and what waits for nothing takes less, also on a machine that stands still for a while."""
TICK = 0.01
Found = TypeVar("Found")


def until(condition: Callable[[], Found], what: str = "", seconds: float = PATIENCE) -> Found:
    """Wait until the condition gives something true, and give that."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, what or "it did not happen in time"
        time.sleep(0.005)
    return found


def pause(seconds: float) -> None:
    """Give others time where no sign tells that they used it; where the machine stands still, they still get it."""
    for _ in range(round(seconds / TICK)):
        time.sleep(TICK)


class Stopwatch:
    """Counts seconds from now on, without those in which the machine stood still.

    A thread looks at the clock all the time; where it comes late by much, nobody else could have been quick either.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._last = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """End the counting and give the seconds."""
        self._over.set()
        self._thread.join()
        return self._seconds

    def _watch(self) -> None:
        while not self._over.wait(TICK):
            self._look()
        self._look()

    def _look(self) -> None:
        last, self._last = self._last, time.monotonic()
        self._seconds += min(self._last - last, 10 * TICK)
