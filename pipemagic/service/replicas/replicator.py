"""The threads that bring replicas up to date."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

RETRY_DELAY = 5.0
"""Seconds until the next attempt after an unexpected error."""
THREADS = 2
"""While one writes a large commit, the other writes small ones of other databases."""

ReplicationTask = Callable[[], float | None]
"""Does a piece of work; returns the seconds until it must be called again, None if there is no more."""


class Replicator:
    """Calls scheduled functions, each in one thread at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[ReplicationTask, float] = {}
        self._running: set[ReplicationTask] = set()
        self._threads: list[threading.Thread] = []
        self._stopping = False

    def start(self) -> None:
        """Start the threads."""
        for number in range(THREADS):
            name = f"pipemagic-replication-{number}"
            self._threads.append(threading.Thread(target=self._run_forever, name=name, daemon=True))
            self._threads[-1].start()

    def close(self) -> None:
        """End the threads after their current work."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def schedule(self, work: ReplicationTask, delay: float = 0.0) -> None:
        """Call ``work`` after a delay in seconds, or earlier if it is already due earlier."""
        time_due = time.monotonic() + delay
        with self._changed:
            self._due[work] = min(time_due, self._due.get(work, time_due))
            self._changed.notify()

    def run_due(self, *, wait: bool = False) -> bool:
        """Do one piece of work that is due, or becomes due if ``wait`` is true; return False if there is none."""
        with self._changed:
            while not self._stopping:
                work = min(self._due.keys() - self._running, key=self._due.__getitem__, default=None)
                delay = None if work is None else self._due[work] - time.monotonic()
                if work is not None and delay is not None and delay <= 0.0:
                    break
                if not wait:
                    return False
                self._changed.wait(delay)
            else:
                return False
            self._running.add(work)
            del self._due[work]
        self._run(work)
        return True

    def _run(self, work: ReplicationTask) -> None:
        try:
            delay = work()
        except Exception:  # the thread also serves other replicas
            log.exception("replicas cannot be brought up to date; trying again")
            delay = RETRY_DELAY
        with self._changed:
            self._running.discard(work)
            self._changed.notify()
        if delay is not None:
            self.schedule(work, delay)

    def _run_forever(self) -> None:
        while self.run_due(wait=True):
            pass
