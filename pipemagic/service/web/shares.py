"""A share of the threads for everybody: what one token asks for never takes them all.

Otherwise one client whose statements do not end would keep everybody else out, also those who ask for `/health`,
until the time limit of statements stops them. The share is looked at by the thread that takes a call, not while
calls wait in line: many short ones of one token cost nothing more than others do.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, TypeVar

from pipemagic.service.web.workers import Job, Workers

T = TypeVar("T")


class Shares:
    """Gives at most ``most`` threads at a time to each who asks."""

    def __init__(self, workers: Workers, most: int) -> None:
        self._workers, self._most = workers, most
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Shared[Any]]] = {}

    def run(self, who: str, call: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Have a thread make the call, in order of arrival among those of the same one; in an event loop."""
        return self._workers.put(self.job(who, call, *arguments))

    def job(self, who: str, call: Callable[..., T], *arguments: Any) -> Job[T]:
        """Give the call as a job, for later; in an event loop."""
        return _Shared(self, who, call, arguments)

    def enter(self, job: _Shared[Any]) -> bool:
        """Take a thread for a job; else it waits for one that is given back."""
        with self._lock:
            if self._running[job.who] < self._most:
                self._running[job.who] += 1
                return True
            self._waiting.setdefault(job.who, deque()).append(job)
            return False

    def hand_on(self, who: str) -> _Shared[Any] | None:
        """Give a thread to the first of the same one who waits, or back if nobody does."""
        with self._lock:
            waiting = self._waiting.get(who)
            if waiting:
                following = waiting.popleft()
                if not waiting:
                    del self._waiting[who]
                return following
            self._running[who] -= 1
            if not self._running[who]:
                del self._running[who]
            return None


class _Shared(Job[T]):
    """A call of somebody who has a share only."""

    __slots__ = ("_shares", "who")

    def __init__(self, shares: Shares, who: str, call: Callable[..., T], arguments: tuple[Any, ...]) -> None:
        super().__init__(call, arguments)
        self._shares, self.who = shares, who

    def make(self) -> None:
        """Make the call, and after it those of the same one that were kept waiting; or wait."""
        if not self._shares.enter(self):
            return
        following: _Shared[Any] | None = self
        while following is not None:
            if not following.future.cancelled():
                Job.make(following)
            following = self._shares.hand_on(self.who)
