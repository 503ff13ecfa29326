"""Wait for other threads and processes, with a time limit."""

from __future__ import annotations

import threading
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


class Stopwatch:
    """Counts seconds from now on, without those in which the machine stalled.

    A thread reads the clock continuously; if it is late, other threads were delayed, too.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._last = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Stop counting and return the seconds."""
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
