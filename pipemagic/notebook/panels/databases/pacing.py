"""Doing something again when there is a reason, and not more often than is good for the service."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Pacing:
    """Calls ``act`` in a thread of its own after it was asked for, and ``pause`` seconds or more after the last call.

    What is asked for meanwhile is done by the same call.
    """

    def __init__(self, act: Callable[[], None], pause: float) -> None:
        self._act, self._pause = act, pause
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._free = 0.0  # when the next call may be, by time.monotonic()

    def ask(self) -> None:
        """Have it done: at once, or when the pause is over."""
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(max(0.0, self._free - time.monotonic()), self._run)
                self._timer.daemon, self._timer.name = True, "pipemagic: looking again"
                self._timer.start()

    def stop(self) -> None:
        """Do nothing of what was asked for and is not done yet."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _run(self) -> None:
        with self._lock:
            if self._timer is not threading.current_thread():
                return  # stopped meanwhile
            self._timer = None
            self._free = time.monotonic() + self._pause
        self._act()
