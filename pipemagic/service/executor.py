"""The worker threads of the service: all SQL runs here, none in the event loop.

There is one queue and one worker thread. When that worker runs one job for longer than `HELD_UP`, another worker starts
as soon as the job pauses; if it does not and others are queued, a timer in the event loop starts one. The first worker
exits when its job ends. More threads would only compete for the interpreter lock (measured: benchmarks/NOTES.md).

A job is a generator. It may yield a `Waiter`, and holds no thread until that is done. It may yield a `Call`, which is
made while the generator is suspended, so that a call that does not return can be given up.

Long-running statements share the cores (`pause`): few of them run at a time, in slices. Short statements therefore
remain fast, however many long ones run.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias, TypeVar

from starlette.responses import Response

log = logging.getLogger(__name__)

HELD_UP = 0.005
"""Seconds after which a job is long-running, and another worker starts if jobs are queued."""

FIRST_SLICE, SLICE = 0.04, 0.02
"""Seconds in the first slice and in each further slice of a long-running job while others wait."""

THREADS = 512
"""The most worker threads, abandoned ones aside. Each takes about 80 kB in addition to its stream. A class of 200 with
an endless query each, or 15 databases at their limits, leave some threads for other requests."""
OF_DATABASE = 32
"""The most long-running jobs of one database; further jobs of this database wait until one of them ends."""

_CORES = os.cpu_count() or 1

Tenant = str
"""The id of the database that a job is for, or a name of other work."""
UNVERIFIED: Tenant = "unverified"
"""The tenant of requests before their token is checked."""


class Waiter:
    """A wait that ends once: ``granted``, or expired at its ``deadline`` (seconds of the service's clock).

    A job yields it to wait without a thread.
    """

    def __init__(self, deadline: float, *, exclusive: bool = False) -> None:
        self.deadline = deadline
        self.exclusive = exclusive
        """True if other requests wait for this job's lock; the job then skips the queue."""
        self.granted = False
        self._ended: Future[None] = Future()

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` when the wait ends, in the thread that ends it; immediately if it has ended."""
        self._ended.add_done_callback(lambda _: callback())

    @property
    def done(self) -> bool:
        """True if the wait has ended."""
        return self._ended.done()

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread; return True if the wait has ended."""
        return bool(wait([self._ended], timeout).done)

    def finish(self) -> None:
        """End the wait, granted or not."""
        with suppress(InvalidStateError):  # it has ended
            self._ended.set_result(None)


@dataclass(slots=True, eq=False)
class Call:
    """A call of ``function`` that can be abandoned. A job yields it, then checks ``left`` and takes its `result`.

    If it was given up, its thread calls ``on_return`` when the function has returned.
    """

    function: Callable[[], Any]
    on_return: Callable[[], None]
    value: Any = None
    error: BaseException | None = None
    job: Job | None = None
    """The job that makes it; None before it begins and when it cannot be given up any more."""
    left: Waiter | None = None
    """None unless it was given up. Is done when its thread has left, to which what it uses belongs until then."""

    def run(self, job: Job) -> bool:
        """Call the function for a job; return False if it was given up: another worker has the job then."""
        self.job = job
        try:
            self.value = self.function()
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self.error = error
        if self.keep():
            return True
        self._leave()
        return False

    def result(self) -> Any:
        """Return the result of a call that was not given up, or raise its error."""
        error, self.error = self.error, None
        if error is None:
            return self.value
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame: a reference cycle

    def abandon(self) -> bool:
        """Abandon it if it has begun and has not returned: its job goes on. Return True if so. Any thread."""
        job = self.job
        return job is not None and job.executor.leave_behind(job, self)

    def keep(self) -> bool:
        """Prevent the call from being abandoned from now on. Return False if it was abandoned before."""
        job = self.job
        if job is not None:
            with job.executor.lock:  # either this thread or another one continues its job, and not both
                self.job = None
        return self.left is None

    def _leave(self) -> None:
        """End an abandoned call, in its own thread."""
        assert self.left is not None
        self.error = None  # its traceback refers to this call: a reference cycle, which keeps the rows
        try:
            self.on_return()
        except Exception:
            log.exception("an abandoned call could not be ended")
        finally:
            self.left.finish()


class Stoppable(Protocol):
    """A running statement: ``resumed`` is set to end its pause; ``stopped`` is set first if it must end."""

    stopped: bool
    resumed: threading.Event


T = TypeVar("T")
Steps: TypeAlias = Generator[Waiter | Call | Response | bytes, None, T]
"""The work of a job, in parts. It yields a `Waiter` to wait for, or a `Call` to make, and continues after that.

A handler yields the response, too, and bytes, if its body is sent in pieces; it continues when the last one was sent.
"""


@dataclass(slots=True, eq=False)
class Job:
    """A generator that workers run part by part; ``future`` gets what the current part yields or returns."""

    executor: Executor
    tenant: Tenant
    steps: Steps[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any] = field(init=False)
    done: bool = False
    """True if the generator has ended."""
    ahead: bool = False
    """True if the job skips the queue: it holds the write lock, and other requests wait for it."""
    used: float = 0.0
    """Seconds that it has run."""
    slice_began: float = 0.0
    slice_ends: float = 0.0
    thread: threading.Thread | None = None
    """The thread that runs its current part."""
    left: Waiter | None = None
    """Is done when the thread of its abandoned call has left; None without one."""


_current = threading.local()  # .job: what this worker thread runs


def pause(statement: Stoppable) -> None:
    """Let other long-running statements run. A statement calls it every millisecond or so, until it is stopped.

    Blocks until the statement may continue or was stopped. Does nothing outside of a worker thread.
    """
    job: Job | None = getattr(_current, "job", None)
    if job is not None and time.monotonic() >= job.slice_ends:
        job.executor.replace(job)  # at once: until the timer does so, the queue would wait
        job.executor.slices.share(job, statement)


class Executor:
    """Runs jobs in order of arrival. Can be created in any thread; one event loop uses it at a time."""

    def __init__(self, threads: int = THREADS, *, slots: int = _CORES, of_database: int = OF_DATABASE) -> None:
        self.slices = Slices(slots)
        self._most, self._of_database = threads, of_database
        self.lock = threading.Lock()
        """Guards the fields below, and the end of calls."""
        self._queue: deque[Job | None] = deque()
        """Jobs; None after the last one."""
        self._entries: SimpleQueue[None] = SimpleQueue()
        """An entry for each one of the queue: workers wait for it. A lock would take a third of the time of a job."""
        self._aside: dict[Tenant, list[Job]] = {}
        """Jobs of databases that have as many long-running ones as they may."""
        self._long: Counter[Tenant] = Counter()
        """The number of long-running jobs of each database."""
        self._front: Job | None = None
        """The job of the worker that takes jobs. All others that run are long-running: their workers were replaced."""
        self._taken = 0
        self._threads: set[threading.Thread] = set()
        self.lost: set[threading.Thread] = set()
        """The threads of abandoned calls that have not returned."""
        self.abandoned = 0
        """How many calls were given up so far."""
        self._timer: asyncio.TimerHandle | None = None
        self._outcomes: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._notified = False
        """True if the event loop is about to take the outcomes."""
        with self.lock:
            self._start_worker()

    def start(self, tenant: Tenant, steps: Steps[Any]) -> Job:
        """Run the first part of a generator; the job's future gets what it yields. Call it in the event loop."""
        job = Job(self, tenant, steps, asyncio.get_running_loop())
        self.proceed(job)
        return job

    def proceed(self, job: Job) -> asyncio.Future[Any]:
        """Run the next part of a job after the current part has ended. Call it in the event loop."""
        job.future, job.ahead = job.loop.create_future(), False
        if self._timer is None:
            self._timer = job.loop.call_later(HELD_UP, self._check, job.loop, self._taken)
        self._queue.append(job)
        self._entries.put(None)
        return job.future

    async def call(self, tenant: Tenant, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a worker."""
        return await self.start(tenant, _steps(function, arguments)).future

    @property
    def workers(self) -> int:
        """The number of worker threads, without those of abandoned calls."""
        return len(self._threads)

    def close(self) -> None:
        """Run the queued jobs, then end the threads, except those of abandoned calls."""
        self._queue.append(None)
        self._entries.put(None)
        for thread in list(self._threads):
            while thread in self._threads:  # its call may be given up meanwhile
                thread.join(HELD_UP)

    # The queue.

    def _put(self, job: Job, *, ahead: bool = False) -> None:
        """Queue a job that goes on, ahead of all others if they wait for it. Call it in any thread."""
        job.ahead = ahead
        if ahead:
            self._queue.appendleft(job)
        else:
            self._queue.append(job)
        self._entries.put(None)
        if self._timer is None:
            with suppress(RuntimeError):  # the loop is closed
                job.loop.call_soon_threadsafe(self._check, job.loop)

    def _set_aside(self, job: Job) -> bool:
        """Set a job aside if its database still has as many long-running ones as it may; return True if so."""
        with self.lock:
            full = self._long[job.tenant] >= self._of_database
            if full:
                self._aside.setdefault(job.tenant, []).append(job)
            return full

    # The workers.

    def _start_worker(self) -> bool:
        """Start the worker that takes jobs from now on; return False if the system has no more threads.

        Call it under the lock.
        """
        front, self._front = self._front, None  # before it takes a job
        thread = threading.Thread(target=self._work, name="pipemagic-worker", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError as error:
            log.warning("%s", error)
            self._threads.discard(thread)
            self._front = front
            return False
        return True

    def _work(self) -> None:
        """Run jobs, until the executor is closed or another worker takes them."""
        thread, takes_jobs = threading.current_thread(), True
        try:
            while takes_jobs:
                self._entries.get()
                self._taken += 1
                job = self._queue.popleft()
                if job is None:  # also for the other workers
                    self._queue.append(None)
                    self._entries.put(None)
                    return
                if job.ahead or self._long[job.tenant] < self._of_database or not self._set_aside(job):
                    takes_jobs = self._run(job)
        finally:
            self._threads.discard(thread)
            self.lost.discard(thread)

    def _run(self, job: Job) -> bool:
        """Run one part of a job in this thread; return False if another worker takes jobs now."""
        _current.job = self._front = job
        job.thread = threading.current_thread()
        job.slice_began = time.monotonic()
        job.slice_ends = job.slice_began + HELD_UP
        if self._long[job.tenant] >= _CORES:  # a stream of such statements gets no time in advance for each of them
            job.used, job.slice_ends = max(job.used, FIRST_SLICE), job.slice_began
        outcome: Any = None
        error: BaseException | None = None
        try:
            while isinstance(outcome := next(job.steps), Call):
                if not outcome.run(job):
                    return False
                self.slices.leave(job)  # what follows, such as the compression of the response, is no statement
        except StopIteration as end:
            job.done, outcome = True, end.value
        except BaseException as raised:  # noqa: BLE001 - raised again where the future is awaited
            job.done, error = True, raised
        _current.job = None
        self.slices.leave(job)  # it may have run a statement that is no call, such as to describe one
        return self._end(job, outcome, error)

    def _end(self, job: Job, outcome: Any, error: BaseException | None) -> bool:
        """End a part of a job, and pass its outcome on; return False if another worker takes jobs now."""
        with self.lock:
            takes_jobs = job is self._front
            if takes_jobs:
                self._front = None
            else:
                self._end_long(job.tenant)
        if isinstance(outcome, Waiter) and not job.done:
            outcome.add_done_callback(partial(self._put, job, ahead=outcome.exclusive))
            return takes_jobs
        self._outcomes.append((job.future, outcome, error))
        if not self._notified:
            self._notified = True
            with suppress(RuntimeError):  # the loop is closed
                job.loop.call_soon_threadsafe(self._resolve)
        return takes_jobs

    def replace(self, job: Job | None) -> None:
        """Mark the job as long-running; start another worker if the worker that takes jobs runs it."""
        with self.lock:
            if job is not None and job is self._front and len(self._threads) < self._most:
                self._long[job.tenant] += 1  # before the other worker takes a job
                if not self._start_worker():
                    self._end_long(job.tenant)

    def _end_long(self, tenant: Tenant) -> None:
        """Record that a job is no longer long-running, and queue those that were set aside because of it.

        Some may be set aside again. Call it under the lock.
        """
        self._long[tenant] -= 1
        if not self._long[tenant]:
            del self._long[tenant]
        for job in self._aside.pop(tenant, ()):
            self._put(job)

    def leave_behind(self, job: Job, call: Call) -> bool:
        """Let a job go on in another thread, without its call; return False if that has returned, or there is none.

        The thread of the call no longer counts, and neither does the job as a long-running one.
        """
        with self.lock:
            if call.job is None or call.left is not None:
                return False
            if job is not self._front:
                self._end_long(job.tenant)
            elif not self._start_worker():
                return False
            assert job.thread is not None
            call.left = job.left = Waiter(math.inf)
            self.lost.add(job.thread)
            self._threads.discard(job.thread)
            self.abandoned += 1
        self.slices.leave(job)
        self._put(job, ahead=True)
        return True

    # The event loop.

    def _resolve(self) -> None:
        """Set the results of all futures that are due. Waking the loop for each would cost more than a job."""
        self._notified = False  # before the first is taken: a worker that adds one after the last wakes the loop again
        while self._outcomes:
            future, outcome, error = self._outcomes.popleft()
            if future.done():  # the task that awaited it was cancelled
                continue
            if error is None:
                future.set_result(outcome)
            else:
                future.set_exception(error)

    def _check(self, loop: asyncio.AbstractEventLoop, taken: int | None = None) -> None:
        """Start another worker if jobs are queued and none was taken since ``taken`` were; check while jobs are queued.

        Without ``taken``, the next check is the first.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None  # before the check: a job that is queued after it starts the timer again
        if self._queue:
            if self._taken == taken:
                self.replace(self._front)
            self._timer = loop.call_later(HELD_UP, self._check, loop, self._taken)


class Slices:
    """Runs ``slots`` long-running jobs at a time, in slices; one slot is for those under `FIRST_SLICE`.

    Without that slot, and with time in advance for each statement (see `Executor._run`), 16 streams of heavy queries on
    two cores make the p95 of others four to six times as long instead of twice (``benchmarks lesson``).

    A job that has run for less than `FIRST_SLICE` takes turns with one that has run for longer: a statement of 30 ms
    does not wait for all endless ones, and no number of such statements stops a report. Of either kind, databases take
    turns, and of one database, the job that has run least is next.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._lock = threading.Lock()
        self.running: set[Job] = set()
        """The jobs that hold a slot."""
        self._waiting: dict[Job, threading.Event] = {}
        """What resumes each job that waits for a slice."""
        self._served: dict[Tenant, int] = {}
        """The number of the last slice of each database."""
        self._count = 0
        self._last_was_new = False
        """True if the last slice was of a job that had run for less than `FIRST_SLICE`."""

    def share(self, job: Job, statement: Stoppable) -> None:
        """Wait for the next slice, which begins at once if no other job waits."""
        now = time.monotonic()
        with self._lock:
            self._stop(job, now)
            statement.resumed.clear()
            if not statement.stopped:
                self._waiting[job] = statement.resumed
            self._fill(now)
        if not statement.stopped:
            statement.resumed.wait()
        with self._lock:
            self._waiting.pop(job, None)  # it was stopped

    def leave(self, job: Job) -> None:
        """Free the slot of a job after its statement has ended or was abandoned, and start the next job."""
        if job not in self.running and job not in self._waiting:
            return
        now = time.monotonic()
        with self._lock:
            self._waiting.pop(job, None)  # its thread was stopped, and has not noticed yet
            self._stop(job, now)
            self._fill(now)

    def _stop(self, job: Job, now: float) -> None:
        job.used += now - job.slice_began
        job.slice_began = now
        self.running.discard(job)

    def _fill(self, now: float) -> None:
        while len(self.running) < self._slots and (waiting := [job for job in self._waiting if self._has_slot(job)]):
            job = min(waiting, key=self._rank)  # of equal ones the first, which waits longest
            resumed = self._waiting.pop(job)
            if not self._waiting:
                self._served.clear()
            self._count += 1
            self._served[job.tenant], self._last_was_new = self._count, _is_new(job)
            self.running.add(job)
            job.slice_began, job.slice_ends = now, now + max(SLICE, FIRST_SLICE - job.used)
            resumed.set()

    def _has_slot(self, job: Job) -> bool:
        """Return True if a job may run now; a slot must be free."""
        longer = sum(not _is_new(running) for running in self.running)
        return _is_new(job) or longer < max(1, self._slots - 1)

    def _rank(self, job: Job) -> tuple[bool, int, float]:
        return _is_new(job) is self._last_was_new, self._served.get(job.tenant, 0), job.used


def _is_new(job: Job) -> bool:
    return job.used < FIRST_SLICE


def _steps(function: Callable[..., T], arguments: tuple[Any, ...]) -> Steps[T]:
    return function(*arguments)
    yield  # makes it a generator
