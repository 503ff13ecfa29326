"""Who may write: one writer per database, the others wait in order of arrival, without holding a thread.

A `Turn` is what a call yields while it waits: a thin shell parks the request until `ready` fires; a plain
caller blocks on it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class Turn:
    """One place in a queue. `ready` fires once: it is this one's turn, or it was given up."""

    def __init__(self, deadline: float, *, exclusive: bool = False) -> None:
        self.deadline = deadline
        """Service-clock time at which waiting ends."""
        self.exclusive = exclusive
        """Whether others wait until this one is done: who gets it must not wait for anything else."""
        self.granted = False
        self._fired = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` (from any thread) when waiting is over; at once if it already is.

        Several may wait: for the end of a cursor, each request that continues it.
        """
        with self._lock:
            if not self._fired.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def block(self, timeout: float | None = None) -> bool:
        """Wait in this thread; True when waiting is over."""
        return self._fired.wait(timeout)

    def fire(self) -> None:
        """End the waiting (granted or given up)."""
        with self._lock:
            if self._fired.is_set():
                return
            self._fired.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class WriterQueue:
    """The writer's turn of one database."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._holder: Turn | None = None
        self._since = 0.0
        self._waiting: deque[Turn] = deque()

    @property
    def waiting(self) -> int:
        """How many wait for the turn."""
        return len(self._waiting)

    def enter(self, deadline: float) -> Turn:
        """Take the turn, or a place in the queue; look at ``granted``."""
        turn = Turn(deadline, exclusive=True)
        with self._lock:
            if self._holder is None:
                self._grant(turn)
            else:
                self._waiting.append(turn)
        if turn.granted:
            turn.fire()
        return turn

    def leave(self, turn: Turn) -> None:
        """Give the turn back, or the place in the queue; the next in line gets it. Twice is fine."""
        following: Turn | None = None
        with self._lock:
            if self._holder is turn:
                self._holder = None
                if self._waiting:
                    following = self._waiting.popleft()
                    self._grant(following)
            elif turn in self._waiting:
                self._waiting.remove(turn)
        turn.fire()
        if following is not None:
            following.fire()

    def _grant(self, turn: Turn) -> None:
        self._holder, self._since = turn, self._clock()
        turn.granted = True

    def expire(self, now: float) -> None:
        """End the waiting of those whose deadline has passed; they find ``granted`` false."""
        if not self._waiting:
            return
        with self._lock:
            late = [turn for turn in self._waiting if turn.deadline <= now]
            for turn in late:
                self._waiting.remove(turn)
        for turn in late:
            turn.fire()

    def next_deadline(self) -> float | None:
        """When the first of those who wait gives up."""
        if not self._waiting:
            return None
        with self._lock:
            return min((turn.deadline for turn in self._waiting), default=None)

    def holder_age(self) -> float:
        """Seconds for which the present holder has had the turn; 0 without one."""
        with self._lock:
            return self._clock() - self._since if self._holder else 0.0
