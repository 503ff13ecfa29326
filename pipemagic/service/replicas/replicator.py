"""The threads that bring replicas up to date, and the order in which they do."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time

from pipemagic.service.replicas.followers import Followers
from pipemagic.service.replicas.replica import Replica

log = logging.getLogger(__name__)

TROUBLE = 5.0
"""Seconds until another try after an error that nobody foresaw."""
THREADS = 2
"""One may be copying a large database while the other applies small changes of others."""


class Replicator:
    """Calls `Followers.work` for replicas that were scheduled, each by one thread at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[Replica, float] = {}
        self._queue: list[tuple[float, int, Followers, Replica]] = []
        self._count = itertools.count()
        self._running: dict[Replica, bool] = {}
        """Replicas that are worked on; True if they were scheduled again meanwhile."""
        self._threads: list[threading.Thread] = []
        self._stopping = False

    def start(self) -> None:
        """Start the threads."""
        for number in range(THREADS):
            thread = threading.Thread(target=self._run, name=f"pipemagic-replication-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Let the threads finish what they are doing."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def schedule(self, followers: Followers, replica: Replica, delay: float = 0.0) -> None:
        """Have the replica worked on in ``delay`` seconds, or earlier if that was asked for before."""
        when = time.monotonic() + delay
        with self._changed:
            if replica in self._running:
                self._running[replica] = True
            elif when < self._due.get(replica, float("inf")):
                self._due[replica] = when
                heapq.heappush(self._queue, (when, next(self._count), followers, replica))
                self._changed.notify()

    def run_due(self) -> bool:
        """Do one thing that is due, in this thread; False if there is none."""
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
                now = time.monotonic()
                if self._queue and self._queue[0][0] <= now:
                    when, _, followers, replica = heapq.heappop(self._queue)
                    if self._due.get(replica) != when:  # it was moved forward and is done
                        continue
                    del self._due[replica]
                    self._running[replica] = False
                    return followers, replica
                if not wait:
                    return None
                self._changed.wait(self._queue[0][0] - now if self._queue else None)
        return None

    def _do(self, followers: Followers, replica: Replica) -> None:
        again: float | None = None
        try:
            again = followers.work(replica)
        except Exception:  # the thread has other replicas to serve
            log.exception("a replica at %s cannot be brought up to date; trying again", replica.code)
            again = TROUBLE
        finally:
            with self._changed:
                if self._running.pop(replica) and again is None:
                    again = 0.0
            if again is not None:
                self.schedule(followers, replica, again)
