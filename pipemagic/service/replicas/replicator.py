"""The threads that bring replicas up to date, and the order in which they do."""

from __future__ import annotations

import logging
import threading
import time

from pipemagic.service.replicas.followers import Followers
from pipemagic.service.replicas.replica import Replica

log = logging.getLogger(__name__)

RETRY_DELAY = 5.0
"""Seconds until the next attempt after an unexpected error."""
THREADS = 2
"""One may be copying a large database while the other applies small changes of others."""


class Replicator:
    """Calls `Followers.work` for replicas that were scheduled, each in one thread at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[Replica, tuple[float, Followers]] = {}
        self._running: set[Replica] = set()
        self._threads: list[threading.Thread] = []
        self._stopping = False

    def start(self) -> None:
        """Start the threads."""
        for number in range(THREADS):
            thread = threading.Thread(target=self._run, name=f"pipemagic-replication-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Let the threads finish their current work."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def schedule(self, followers: Followers, replica: Replica) -> None:
        """Schedule work on a replica as soon as possible."""
        now = time.monotonic()
        with self._changed:
            if replica not in self._due or now < self._due[replica][0]:
                self._due[replica] = (now, followers)
                self._changed.notify()

    def run_due(self) -> bool:
        """Do one piece of work that is due, in this thread; return False if there is none."""
        job = self._take(wait=False)
        if job is not None:
            self._do(*job)
        return job is not None

    def _run(self) -> None:
        while (job := self._take(wait=True)) is not None:
            self._do(*job)

    def _take(self, *, wait: bool) -> tuple[Followers, Replica] | None:
        with self._changed:
            while not self._stopping:
                idle = [replica for replica in self._due if replica not in self._running]
                first = min(idle, key=lambda replica: self._due[replica][0], default=None)
                delay = None if first is None else self._due[first][0] - time.monotonic()
                if first is not None and delay is not None and delay <= 0.0:
                    self._running.add(first)
                    return self._due.pop(first)[1], first
                if not wait:
                    return None
                self._changed.wait(delay)
        return None

    def _do(self, followers: Followers, replica: Replica) -> None:
        delay: float | None = None
        try:
            delay = followers.work(replica)
        except Exception:  # the thread has other replicas to serve
            log.exception("a replica at %s cannot be brought up to date; trying again", replica.code)
            delay = RETRY_DELAY
        finally:
            with self._changed:
                self._running.discard(replica)
                if delay is not None:  # also if it was scheduled meanwhile
                    self._due[replica] = (time.monotonic() + delay, followers)
                self._changed.notify()
