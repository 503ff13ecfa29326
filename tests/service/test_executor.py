"""The worker threads: usually one, more while it is busy for long, and shares for long-running jobs."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import threading
import time
from collections import Counter

import pytest
from waiting import PATIENCE

from pipemagic.service.executor import HELD_UP, Executor, Waiter, pause, watch
from pipemagic.service.sqlite.write_lock import WriteLock

ADA, BOB = "flights", "planes"


class Statement:
    """A long-running statement, which pauses like SQLite's progress handler until it is stopped."""

    def __init__(self):
        self.stopped, self.resumed, self.turns = False, threading.Event(), 0
        self.started = threading.Event()

    def run(self):
        while not self.stopped:
            self.started.set()
            self.turns += 1
            time.sleep(0.0005)  # a step of it
            pause(self)
        return self.turns

    def stop(self):
        self.stopped = True
        self.resumed.set()


@pytest.fixture
def executor():
    executor = Executor(slots=1)
    yield executor
    executor.close()
    assert executor.workers == 0


def run(coroutine):
    async def in_time():
        async with asyncio.timeout(PATIENCE):
            return await coroutine

    return asyncio.run(in_time())


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


def steps(*values):
    yield from values[:-1]
    return values[-1]


def acquire(lock):
    """Wait for a write lock; return the waiter that releases it."""
    waiter = lock.acquire(math.inf)
    if not waiter.granted:
        yield waiter
    return waiter


async def keep_busy(executor, function, *arguments):
    """Start a job that runs until a gate is opened, and a second one; return the gate and both."""
    gate = threading.Event()
    calls = ((gate.wait, PATIENCE), (function, *arguments))
    jobs = [asyncio.ensure_future(executor.call(BOB, *call)) for call in calls]
    await asyncio.sleep(0)
    return gate, jobs


def fail(error):
    raise error


def test_a_job_has_the_results_and_errors_of_its_generator(executor):
    async def work():
        job = executor.start(ADA, steps(1, 2, 3))
        found = [await job.future, await executor.proceed(job), job.done, await executor.proceed(job), job.done]
        assert found == [1, 2, False, 3, True]
        assert await executor.call(ADA, divmod, 7, 2) == (3, 1)
        with pytest.raises(LookupError, match="no such thing"):
            await executor.call(ADA, fail, LookupError("no such thing"))

    run(work())


def test_one_worker_runs_short_jobs_in_order(executor):
    order, threads = [], set()

    def note(number):
        order.append(number)
        threads.add(threading.get_ident())

    async def work():
        await asyncio.gather(*(executor.call(ADA, note, number) for number in range(200)))

    run(work())
    assert order == list(range(200))
    assert len(threads) == executor.workers == 1


def test_a_waiting_job_holds_no_worker_and_the_holder_of_a_lock_goes_first(executor):
    lock, order = WriteLock(time.monotonic), []

    def write(name):
        waiter = yield from acquire(lock)
        order.append(name)
        return waiter

    async def work():
        first = await executor.start(ADA, write("first")).future
        waiting = [executor.start(ADA, write(name)).future for name in ("second", "third")]
        assert await executor.call(BOB, lambda: "not blocked") == "not blocked"
        assert executor.workers == 1
        gate, others = await keep_busy(executor, order.append, "behind")
        lock.release(first)
        gate.set()
        lock.release(await waiting[0])
        lock.release(await waiting[1])
        await asyncio.gather(*others)

    run(work())
    assert order.index("second") < order.index("behind")
    assert [name for name in order if name != "behind"] == ["first", "second", "third"]


def test_a_wait_that_has_ended_does_not_wait(executor):
    waiter = Waiter(0.0)
    waiter.finish()

    async def work():
        return await executor.start(ADA, steps(waiter, "done")).future

    assert run(work()) == "done"


def test_another_worker_starts_while_one_is_busy_and_the_busy_one_exits(executor):
    gate = threading.Event()

    async def work():
        held_up = asyncio.ensure_future(executor.call(ADA, gate.wait, PATIENCE))
        await asyncio.sleep(0)
        assert await executor.call(BOB, lambda: "quick") == "quick"
        assert executor.workers == 2
        gate.set()
        assert await held_up
        await until(lambda: executor.workers == 1)
        assert await executor.call(BOB, lambda: "again") == "again"

    run(work())


def test_a_database_has_a_share_of_the_workers():
    executor = Executor(8, slots=1)  # 2 for a database
    gate, started = threading.Event(), Counter()

    def hold(tenant):
        started[tenant] += 1
        gate.wait(PATIENCE)

    async def work():
        held = [asyncio.ensure_future(executor.call(ADA, hold, ADA)) for _ in range(5)]
        await until(lambda: started[ADA] == 2)
        for _ in range(3):
            assert await executor.call(BOB, lambda: "free") == "free"
        assert started[ADA] == 2
        gate.set()
        await asyncio.gather(*held)
        await until(lambda: executor.workers == 1)

    run(work())
    executor.close()
    assert started[ADA] == 5


def test_databases_share_the_time_of_long_statements_not_their_number(executor):
    many, one = [Statement() for _ in range(6)], Statement()

    async def work():
        jobs = [asyncio.ensure_future(executor.call(ADA, each.run)) for each in many]
        jobs.append(asyncio.ensure_future(executor.call(BOB, one.run)))
        await until(lambda: all(each.started.is_set() for each in (*many, one)))
        before = one.turns, sum(each.turns for each in many)
        await asyncio.sleep(1)
        after = one.turns, sum(each.turns for each in many)
        for each in (*many, one):
            each.stop()
        await asyncio.gather(*jobs)
        return [last - first for first, last in zip(before, after, strict=True)]

    of_one, of_many = run(work())
    assert of_one > 0.6 * of_many


def test_short_jobs_do_not_wait_for_long_statements(executor):
    long = [Statement() for _ in range(20)]

    async def work():
        jobs = [asyncio.ensure_future(executor.call(ADA, each.run)) for each in long]
        await until(lambda: sum(each.started.is_set() for each in long) >= 10)
        turns = [0]
        for _ in range(100):
            await executor.call(ADA, int)
            turns.append(sum(each.turns for each in long))
        for each in long:
            each.stop()
        await asyncio.gather(*jobs)
        return sorted(after - before for before, after in itertools.pairwise(turns))[50]

    assert run(work()) < 100, "it waited for the slices of the long statements"


def test_a_database_with_many_long_statements_gets_no_time_in_advance_for_another_one(executor):
    long = [Statement() for _ in range((os.cpu_count() or 1) + 2)]

    def turns():
        return sum(each.turns for each in long)

    def begin(statement):
        before = turns()
        pause(statement)
        return turns() - before

    async def work():
        jobs = [asyncio.ensure_future(executor.call(ADA, each.run)) for each in long]
        await until(lambda: executor.workers > len(long))
        turns_before_it = await executor.call(ADA, begin, Statement())
        of_other_database = await executor.call(BOB, begin, Statement())
        for each in long:
            each.stop()
        await asyncio.gather(*jobs)
        return turns_before_it, of_other_database

    turns_before_it, of_other_database = run(work())
    assert turns_before_it > 10, "it ran before those that wait for a slice"
    assert of_other_database < 10


def test_a_long_job_that_pauses_does_not_keep_others_waiting(executor):
    """Only its pause can start another worker: the timer runs in the event loop, which is blocked."""
    long, ran = Statement(), threading.Event()

    async def work():
        job = asyncio.ensure_future(executor.call(ADA, long.run))
        await until(long.started.is_set)
        short = asyncio.ensure_future(executor.call(BOB, ran.set))
        await asyncio.sleep(0)  # it is queued
        try:
            assert ran.wait(PATIENCE)
        finally:
            long.stop()
        await asyncio.gather(job, short)

    run(work())


def test_a_statement_that_is_stopped_while_it_is_paused_ends_at_once(executor):
    first, second = Statement(), Statement()

    async def work():
        jobs = [asyncio.ensure_future(executor.call(tenant, one.run)) for tenant, one in ((ADA, first), (BOB, second))]
        await until(lambda: first.started.is_set() and second.started.is_set())
        for one, job in zip((first, second), jobs, strict=True):
            one.stop()
            assert await job

    run(work())


def test_jobs_that_were_set_aside_do_not_wait_for_a_long_job_in_front():
    executor = Executor(4, slots=1)  # one for a database
    first, front = threading.Event(), threading.Event()

    async def work():
        held_up = asyncio.ensure_future(executor.call(ADA, first.wait, PATIENCE))
        aside = asyncio.ensure_future(executor.call(ADA, lambda: "aside"))
        await until(lambda: executor.workers == 2)
        await executor.call(BOB, int)
        long = asyncio.ensure_future(executor.call(BOB, front.wait, PATIENCE))
        await asyncio.sleep(4 * HELD_UP)  # the timer has stopped: nothing is queued
        first.set()
        assert await held_up
        assert await aside == "aside"
        front.set()
        await long

    run(work())
    executor.close()


def test_jobs_that_were_set_aside_are_within_the_share_of_their_tenant_again():
    executor = Executor(8)  # two for a database
    ends, started = [threading.Event() for _ in range(6)], []

    def long(number):
        started.append(number)
        ends[number].wait(PATIENCE)

    async def work():
        jobs = [asyncio.ensure_future(executor.call(ADA, long, number)) for number in range(6)]
        await until(lambda: len(started) == 2)
        await executor.call(BOB, int)
        ends[0].set()
        await until(lambda: len(started) == 3)
        await asyncio.sleep(20 * HELD_UP)
        assert started == [0, 1, 2]
        for end in ends:
            end.set()
        await asyncio.gather(*jobs)
        assert started == [0, 1, 2, 3, 4, 5]

    run(work())
    executor.close()


def test_a_job_that_waited_is_checked_too(executor):
    """No job is queued or runs when it continues, so the timer has stopped."""
    lock, checked = WriteLock(time.monotonic), threading.Event()

    def work():
        yield lock.acquire(math.inf)
        watch(lambda _thread: checked.set())
        assert checked.wait(PATIENCE)
        return "checked"

    async def waiting():
        first = lock.acquire(math.inf)
        job = executor.start(ADA, work())
        await until(lambda: executor._timer is None)
        lock.release(first)
        assert await job.future == "checked"

    run(waiting())


def test_a_job_whose_statement_has_ended_is_not_checked_and_frees_its_slot(executor):
    """It may still compress its response for seconds."""
    statement, other, ended, enough = Statement(), Statement(), threading.Event(), threading.Event()
    checks = []

    def compresses():
        watch(checks.append)
        statement.run()
        watch(None)
        checks.clear()
        ended.set()
        assert enough.wait(PATIENCE)
        assert not checks

    async def work():
        first = asyncio.ensure_future(executor.call(ADA, compresses))
        await until(statement.started.is_set)
        waits = asyncio.ensure_future(executor.call(BOB, other.run))
        await until(other.started.is_set)
        statement.stop()
        await until(ended.is_set)
        turns = other.turns
        await until(lambda: other.turns > turns + 50)  # longer than it may run without a slot
        other.stop()
        enough.set()
        await waits
        await first

    run(work())
