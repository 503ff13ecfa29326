"""The worker threads of the service: all SQL runs here, none in the event loop.

There is one queue and one worker thread. When that worker runs one job for longer than `HELD_UP`, another worker starts
as soon as the job pauses; if it does not and others are queued, a timer in the event loop starts one. The first worker
exits when its job ends. More threads would only compete for the interpreter lock (measured: benchmarks/NOTES.md).

A job is a generator. It may yield a `Waiter`, and holds no thread until that is done.

Long-running statements share the cores (`pause`): few of them run at a time, in slices, in turn by database.
Short statements therefore remain fast, however many long ones run. A database that has as many long ones as the machine
has cores gets no time in advance for further statements.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

HELD_UP = 0.005
"""Seconds after which a job is long-running, and another worker starts if jobs are queued."""

FIRST_SLICE, SLICE = 0.04, 0.02
"""Seconds that a long-running job runs while others wait; jobs that have used less than the first go first."""

THREADS = 128
"""At most. The long-running jobs of one database use a quarter of them. Once half are used, a database may use a
sixteenth, and once all but an eighth are used, one."""

_CORES = os.cpu_count() or 1


Tenant = str
"""The id of the database that a job is for, or a name of other work."""
UNVERIFIED: Tenant = "unverified"
"""The tenant of requests whose token has not been checked yet."""


class Waiter:
    """A wait that ends once: ``granted``, or expired at its ``deadline`` (seconds of the service's clock).

    A job yields it to wait without a thread.
    """

    def __init__(self, deadline: float, *, exclusive: bool = False) -> None:
        self.deadline = deadline
        self.exclusive = exclusive
        """Whether other requests wait for the lock that this one gets, so that its job goes ahead of the queue."""
        self.granted = False
        self._ended: Future[None] = Future()

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the wait ends, in the thread that ends it; immediately if it has ended."""
        self._ended.add_done_callback(lambda _: callback())

    @property
    def done(self) -> bool:
        """Whether the wait has ended."""
        return self._ended.done()

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread; return True if the wait has ended."""
        return bool(wait([self._ended], timeout).done)

    def finish(self) -> None:
        """End the wait, granted or not."""
        with suppress(InvalidStateError):  # it has ended
            self._ended.set_result(None)


class Stoppable(Protocol):
    """A running statement: ``resumed`` is set to end its pause; ``stopped`` is set first if it must end."""

    stopped: bool
    resumed: threading.Event


Steps = Generator[Any, None, Any]


@dataclass(slots=True, eq=False)
class Job:
    """A generator that workers run part by part; ``future`` gets what the current part yields or returns."""

    executor: Executor
    tenant: Tenant
    steps: Steps
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    done: bool = False
    """Whether the generator has ended."""
    ahead: bool = False
    """Whether it goes ahead of the queue: it has the write lock, and others wait for that."""
    used: float = 0.0
    """Seconds that it has run."""
    slice_began: float = 0.0
    slice_ends: float = 0.0
    statement: Stoppable | None = None
    """The statement that it runs, while it waits for a slice."""
    check: Callable[[int], None] | None = None
    """Called with ``thread`` every few milliseconds (see `watch`)."""
    thread: int = 0
    """The native id of the thread that runs its current part."""


_current = threading.local()  # .job: what this worker thread runs


def pause(statement: Stoppable) -> None:
    """Let other long-running statements run. A statement calls it every millisecond or so.

    Blocks until the statement may continue or was stopped. Does nothing outside of a worker thread.
    """
    job = getattr(_current, "job", None)
    if job is not None and time.monotonic() >= job.slice_ends:
        job.executor.share(job, statement)


def watch(check: Callable[[int], None] | None) -> None:
    """Call ``check`` every few milliseconds with the native id of this thread, once its job is long-running.

    None ends that: the statement has ended, and its job gives way to the next long-running one. Does nothing outside
    of a worker thread.
    """
    job = getattr(_current, "job", None)
    if job is not None:
        job.check = check
        if check is None and job in job.executor.slices.running:
            job.executor.slices.leave(job)


class Executor:
    """Runs jobs in order of arrival. Can be created in any thread; one event loop uses it at a time."""

    def __init__(self, threads: int = THREADS, *, slots: int = _CORES) -> None:
        self.slices = Slices(slots)
        self._most = threads
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        """Jobs; None stands for one of ``_ahead``. A worker runs one job for each entry that it takes."""
        self._ahead: deque[Job] = deque()
        self._aside: dict[Tenant, deque[Job]] = {}
        """Jobs of tenants that have reached their limit of long-running jobs."""
        self._lock = threading.Lock()
        self._held_up: set[Job] = set()
        """Jobs because of which another worker was started."""
        self._running: set[Job] = set()
        """The jobs of all workers, without those that wait for a slice."""
        self._front: Job | None = None
        """The job of the worker that takes jobs; a worker that was replaced has another one."""
        self._taken = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._outcomes: deque[tuple[asyncio.Future[Any], Callable[[Any], None], Any]] = deque()
        self._notified = False
        """Whether the event loop is about to take the outcomes."""
        self._threads: set[threading.Thread] = set()
        self._names = itertools.count()
        self._start_worker()

    def start(self, tenant: Tenant, steps: Steps) -> Job:
        """Run the first part of a generator; the job's future gets what it yields. Call it in the event loop."""
        loop = asyncio.get_running_loop()
        job = Job(self, tenant, steps, loop, loop.create_future())
        self._enqueue(job)
        return job

    def proceed(self, job: Job) -> asyncio.Future[Any]:
        """Run the next part of a job whose current one has ended."""
        job.future, job.ahead = job.loop.create_future(), False
        self._enqueue(job)
        return job.future

    def _enqueue(self, job: Job) -> None:
        if self._timer is None:
            self._watch(job.loop)
        self._queue.put(job)

    async def call(self, tenant: Tenant, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a worker."""
        return await self.start(tenant, _steps(function, arguments)).future

    def share(self, job: Job, statement: Stoppable) -> None:
        """Let other long-running jobs run."""
        self._replace(job)  # at once: until the timer does so, the queue would wait
        self._running.discard(job)
        self.slices.share(job, statement)
        self._running.add(job)
        self._start_timer(job.loop)

    @property
    def workers(self) -> int:
        """The number of worker threads."""
        return len(self._threads)

    def close(self) -> None:
        """Run what is queued, then end the threads."""
        self._closed = True
        self._queue.put(None)
        for thread in list(self._threads):
            thread.join()

    # Workers.

    def _start_worker(self) -> None:
        thread = threading.Thread(target=self._work, name=f"pipemagic-{next(self._names)}", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _work(self) -> None:
        try:
            while (job := self._take()) is not None and self._run(job):
                pass
        finally:
            self._threads.discard(threading.current_thread())

    def _take(self) -> Job | None:
        """Wait for the next job; return None once the executor is closed."""
        while True:
            job = self._queue.get()
            self._taken += 1
            if self._ahead or job is None:
                if job is not None:
                    self._ahead.append(job)
                try:
                    job = self._ahead.popleft()
                except IndexError:
                    if not self._closed:
                        continue
                    self._queue.put(None)  # for the other workers
                    return None
            if not self._held_up or job.ahead or not self._set_aside(job):
                return job

    def _set_aside(self, job: Job) -> bool:
        """Set a job aside if its tenant has reached its limit of long-running jobs; return True if so."""
        with self._lock:
            if self._may_have_more(job.tenant):
                return False
            self._aside.setdefault(job.tenant, deque()).append(job)
            return True

    def _run(self, job: Job) -> bool:
        """Run one part of a job in this thread; return False if the worker is to exit."""
        _current.job = self._front = job
        job.slice_began = time.monotonic()
        job.slice_ends = job.slice_began + HELD_UP
        if self._held_up and self._has_many(job.tenant):  # otherwise each would get HELD_UP and a first slice
            job.used, job.slice_ends = max(job.used, FIRST_SLICE), job.slice_began
        job.thread = threading.get_native_id()
        self._running.add(job)
        if self._timer is None:
            self._start_timer(job.loop)
        set_outcome: Callable[[Any], None] = job.future.set_result
        outcome: Any
        try:
            outcome = next(job.steps)
        except StopIteration as end:
            job.done, outcome = True, end.value
        except BaseException as error:  # noqa: BLE001 - raised again where the future is awaited
            job.done, set_outcome, outcome = True, job.future.set_exception, error
        _current.job = None
        self._running.discard(job)
        if job in self.slices.running:
            self.slices.leave(job)
        stays = self._finish(job)
        if isinstance(outcome, Waiter) and not job.done:
            outcome.add_done_callback(partial(self._resume, job, ahead=outcome.exclusive))
            return stays
        self._outcomes.append((job.future, set_outcome, outcome))
        if not self._notified:
            self._notified = True
            with suppress(RuntimeError):  # the loop is closed
                job.loop.call_soon_threadsafe(self._resolve)
        return stays

    def _resolve(self) -> None:
        """Set the results of all futures that are due: waking the loop for each would cost more than a job."""
        self._notified = False  # before the first is taken: a worker that adds one after the last wakes the loop again
        while self._outcomes:
            future, set_outcome, outcome = self._outcomes.popleft()
            if not future.done():  # the task that awaited it may have been cancelled
                set_outcome(outcome)

    def _finish(self, job: Job) -> bool:
        """Record that a part of a job has ended; return False if another worker has replaced this one."""
        with self._lock:
            if job not in self._held_up:
                self._front = None
                return True
            self._held_up.remove(job)
            self._requeue()
        self._start_timer(job.loop)
        return False

    def _requeue(self) -> None:
        """Queue the jobs that were set aside, ahead of all others. Some may be set aside again."""
        for tenant in [tenant for tenant in self._aside if self._may_have_more(tenant)]:
            for job in self._aside.pop(tenant):
                self._ahead.append(job)
                self._queue.put(None)

    def _may_have_more(self, tenant: Tenant) -> bool:
        """Return True if a tenant may have one more long-running job: fewer if few threads are free."""
        free, share = self._most - len(self._held_up), self._most // 4
        if free <= self._most // 2:
            share = self._most // 16 if free > self._most // 8 else 1
        return sum(job.tenant == tenant for job in self._held_up) < max(1, share)

    def _has_many(self, tenant: Tenant) -> bool:
        """Return True if a database has as many long-running jobs as the machine has cores."""
        with self._lock:
            return sum(job.tenant == tenant for job in self._held_up) >= _CORES

    def _start_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the timer from a worker thread: it queued jobs, or runs one."""
        if self._timer is None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._watch, loop)

    def _resume(self, job: Job, *, ahead: bool) -> None:
        """Queue a job whose waiter is done, ahead of all others if they wait for it. Call it in any thread."""
        job.ahead = ahead
        if ahead:
            self._ahead.append(job)
            self._queue.put(None)
        else:
            self._queue.put(job)
        self._start_timer(job.loop)

    # The timer, in the event loop; it runs while jobs are queued or run.

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is None:
            self._timer = loop.call_later(HELD_UP, self._check, loop, self._taken)

    def _check(self, loop: asyncio.AbstractEventLoop, taken: int) -> None:
        """Check long-running jobs; start another worker if jobs are queued and none was taken since the last check."""
        self._timer = None  # before the check: a job that is queued or runs after it starts the timer again
        running = self._running.copy()
        if self._queue.empty() and not running:
            return
        self._watch(loop)
        if self._taken == taken and not self._queue.empty():
            self._replace(self._front)
        long_ago = time.monotonic() - HELD_UP
        for job in running:
            if (check := job.check) is not None and job.slice_began <= long_ago:
                check(job.thread)

    def _replace(self, job: Job | None) -> None:
        """Start another worker if the one that takes jobs runs this one."""
        with self._lock:
            if job is None or job is not self._front or len(self._threads) >= self._most:
                return
            self._front = None
            self._held_up.add(job)
        self._start_worker()


class Slices:
    """Runs ``slots`` long-running jobs at a time, in slices: in turn by database, then in order."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._lock = threading.Lock()
        self.running: set[Job] = set()
        """The jobs that hold a slot."""
        self._waiting: list[Job] = []
        self._served: dict[Tenant, int] = {}
        """The number of the last slice of each database."""
        self._count = 0

    def share(self, job: Job, statement: Stoppable) -> None:
        """Wait for the next slice, which begins at once if no other job waits."""
        now = time.monotonic()
        with self._lock:
            self._stop(job, now)
            job.statement = statement
            statement.resumed.clear()
            waits = not statement.stopped
            if waits:
                self._waiting.append(job)
            self._fill(now)
            if job in self._waiting and job.used < FIRST_SLICE:
                self._preempt()
        if waits:
            statement.resumed.wait()
            with self._lock:
                if job in self._waiting:  # it was stopped
                    self._waiting.remove(job)

    def leave(self, job: Job) -> None:
        """Free the slot of a job that has ended, and start the next one."""
        now = time.monotonic()
        with self._lock:
            self._stop(job, now)
            self._fill(now)

    def _stop(self, job: Job, now: float) -> None:
        job.used += now - job.slice_began
        job.slice_began = now
        self.running.discard(job)

    def _preempt(self) -> None:
        """End the slice of a job that has had a long one, to free its slot."""
        for job in self.running:
            if job.used >= FIRST_SLICE:
                job.slice_ends = 0.0
                return

    def _has_slot(self, job: Job) -> bool:
        """Return True if a job may run. One slot is for those that ran for less than `FIRST_SLICE`."""
        if len(self.running) >= self._slots:
            return False
        longer = sum(running.used >= FIRST_SLICE for running in self.running)
        return job.used < FIRST_SLICE or longer < max(1, self._slots - 1)

    def _fill(self, now: float) -> None:
        while candidates := [job for job in self._waiting if self._has_slot(job)]:
            job = min(candidates, key=self._rank)  # of equal ones the first, which waits longest
            self._waiting.remove(job)
            self._grant(job, now)
            assert job.statement is not None
            job.statement.resumed.set()

    def _grant(self, job: Job, now: float) -> None:
        self._count += 1
        if not self._waiting:
            self._served.clear()
        self._served[job.tenant] = self._count
        self.running.add(job)
        job.slice_began = now
        job.slice_ends = now + max(SLICE, FIRST_SLICE - job.used)

    def _rank(self, job: Job) -> tuple[bool, int]:
        return job.used >= FIRST_SLICE, self._served.get(job.tenant, 0)


def _steps(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Steps:
    return function(*arguments)
    yield  # makes it a generator
