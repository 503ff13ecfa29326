"""The threads that work for an event loop: few at a time, more only while those are held up.

Python runs one thread at a time, so threads beyond what is needed hand the interpreter lock to and fro: with 200
clients that read and write it made a third of the answers a second (benchmarks/NOTES.md). A thread that waits
for the disk or runs a long statement is held up, and then another one steps in.

`ThreadPoolExecutor` knows nothing of this, and its second future and locks make a call and back cost 61 us
where this takes 37.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")

USUAL = 1
"""Threads that take calls at any time."""

HELD_UP = 0.002
"""Seconds after which a call counts as held up; looked at as often, and only while calls wait."""


class Sign(Enum):
    """What a thread may find in place of a job."""

    WAKE = "wake"
    """There is something ahead."""
    END = "end"


class Job(Generic[T]):
    """A call that a thread will make once `Workers.put` was told to; ``future`` gets its outcome."""

    __slots__ = ("_arguments", "_call", "_loop", "future")

    def __init__(self, call: Callable[..., T], arguments: tuple[Any, ...]) -> None:
        self._loop = asyncio.get_running_loop()
        self._call, self._arguments = call, arguments
        self.future: asyncio.Future[T] = self._loop.create_future()

    def make(self) -> None:
        """Make the call, in this thread."""
        settle: Callable[[Any], None] = self.future.set_result
        try:
            outcome: Any = self._call(*self._arguments)
        except BaseException as error:  # noqa: BLE001 - it is raised again where the outcome is awaited
            settle, outcome = self.future.set_exception, error
        with suppress(RuntimeError):  # the loop is closed, and with it whoever waited
            self._loop.call_soon_threadsafe(_settle, self.future, settle, outcome)


class Workers:
    """``count`` threads that take calls in order of arrival, ``usual`` of them as long as none is held up."""

    def __init__(self, count: int, name: str, *, usual: int = USUAL) -> None:
        self._jobs: SimpleQueue[Job[Any] | Sign] = SimpleQueue()
        self._ahead: deque[Job[Any]] = deque()
        """What is to be done first. For each entry of the queue there is one job, here or there."""
        self._needed: SimpleQueue[None] = SimpleQueue()
        """An entry for each time that a further thread has to step in."""
        self._began: list[float | None] = [None] * count
        """When each thread began what it does; None if it waits."""
        self._taken = 0.0
        self._watched: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._usual = min(usual, count)
        works = [self._work] * self._usual + [self._step_in] * (count - self._usual)
        self._threads = [
            threading.Thread(target=work, args=(number,), name=f"{name}-{number}", daemon=True)
            for number, work in enumerate(works)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, call: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Have a thread make the call; to be used in an event loop, which gets the outcome."""
        return self.put(Job(call, arguments))

    def put(self, job: Job[T]) -> asyncio.Future[T]:
        """Have a thread make a job's call; to be used in the event loop that the job was made in."""
        self._jobs.put(job)
        self._look_after(job.future.get_loop())
        return job.future

    def run_ahead(self, job: Job[Any]) -> None:
        """Have a thread do the job before all that wait; from any thread."""
        self._ahead.append(job)
        self._jobs.put(Sign.WAKE)
        if self._watched is not (loop := job.future.get_loop()):
            with suppress(RuntimeError):  # the loop is closed, and with it whoever waited
                loop.call_soon_threadsafe(self._look_after, loop)

    def close(self) -> None:
        """Wait until all calls are made, then end the threads."""
        self._closed = True
        usual, others = self._threads[: self._usual], self._threads[self._usual :]
        # The others first: they take jobs, too, and an END that one of them took would be missing in the end.
        for _ in others:
            self._needed.put(None)
        for thread in others:
            thread.join()
        for _ in usual:
            self._jobs.put(Sign.END)
        for thread in usual:
            thread.join()

    def _look_after(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look again and again, from now on, whether calls wait."""
        if self._watched is not loop:
            self._watched = loop
            loop.call_later(HELD_UP, self._watch, loop, self._taken)

    def _watch(self, loop: asyncio.AbstractEventLoop, taken: float) -> None:
        """Look whether calls wait and none was taken since the last look: then a further thread is needed."""
        self._watched = None  # before the look: who puts a job after it sees that nobody will look again
        if self._jobs.empty():
            return
        if self._taken == taken and self._needed.empty():
            self._needed.put(None)
        self._watched = loop
        loop.call_later(HELD_UP, self._watch, loop, self._taken)

    def _work(self, number: int) -> None:
        while self._make(number, self._jobs.get()):
            pass

    def _step_in(self, number: int) -> None:
        while self._needed.get() is None and not self._closed:
            with suppress(Empty):
                while self._all_held_up():
                    self._make(number, self._jobs.get_nowait())

    def _all_held_up(self) -> bool:
        """Tell whether fewer threads than usual are getting on."""
        since = time.monotonic() - HELD_UP
        return sum(began is not None and began > since for began in self._began) < self._usual

    def _make(self, number: int, entry: Job[Any] | Sign) -> bool:
        """Do one job for an entry, if not its own then one that goes first; False at the end.

        One only: what a thread had in hand while it did another one would wait although other threads are idle.
        """
        if entry is Sign.END:
            return False
        self._taken = self._began[number] = time.monotonic()
        if isinstance(entry, Job):
            self._ahead.append(entry)
        self._ahead.popleft().make()
        self._began[number] = None
        return True


def _settle(future: asyncio.Future[Any], settle: Callable[[Any], None], outcome: Any) -> None:
    if not future.done():  # who waited may have been cancelled
        settle(outcome)
