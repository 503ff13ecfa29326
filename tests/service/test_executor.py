"""The worker threads: usually one, more while it is busy for long; slices of long statements; abandoned calls."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from queue import SimpleQueue

import pytest
from waiting import PATIENCE

from pipemagic.service.executor import FIRST_SLICE, HELD_UP, Call, Executor, Job, Slices, Waiter, pause
from pipemagic.service.sqlite.database import WriteLock

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


def test_long_jobs_of_one_database_have_a_limit_and_further_ones_run_when_one_ends():
    executor = Executor(of_database=2)
    ends, started = [threading.Event() for _ in range(6)], []

    def long(number):
        started.append(number)
        ends[number].wait(PATIENCE)

    async def work():
        jobs = [asyncio.ensure_future(executor.call(ADA, long, number)) for number in range(6)]
        await until(lambda: len(started) == 2)
        assert await executor.call(BOB, lambda: "free") == "free"
        assert started == [0, 1]
        ends[0].set()
        await until(lambda: len(started) == 3)
        for _ in range(3):
            assert await executor.call(BOB, lambda: "free") == "free"
        assert started == [0, 1, 2]
        for end in ends:
            end.set()
        await asyncio.gather(*jobs)
        assert started == [0, 1, 2, 3, 4, 5]
        await until(lambda: executor.workers == 1)

    run(work())
    executor.close()


def test_short_jobs_that_were_set_aside_all_run_when_a_long_one_ends():
    executor = Executor(of_database=1)
    gate, again, order = threading.Event(), threading.Event(), []

    async def work():
        long = asyncio.ensure_future(executor.call(ADA, gate.wait, PATIENCE))
        short = [asyncio.ensure_future(executor.call(ADA, order.append, number)) for number in range(5)]
        await until(lambda: executor.workers == 2)
        await executor.call(BOB, int)
        front = asyncio.ensure_future(executor.call(BOB, again.wait, PATIENCE))
        await asyncio.sleep(4 * HELD_UP)  # the timer has stopped: nothing is queued
        assert order == []
        gate.set()
        await asyncio.gather(long, *short)
        again.set()
        await front

    run(work())
    executor.close()
    assert order == [0, 1, 2, 3, 4]


def test_all_threads_have_a_limit():
    executor = Executor(3)
    gate, started = threading.Event(), SimpleQueue()

    def hold():
        started.put(None)
        gate.wait(PATIENCE)

    async def work():
        jobs = [asyncio.ensure_future(executor.call(f"database {number}", hold)) for number in range(5)]
        await until(lambda: started.qsize() == 3)
        await asyncio.sleep(10 * HELD_UP)
        assert (started.qsize(), executor.workers) == (3, 3)
        gate.set()
        await asyncio.gather(*jobs)

    run(work())
    executor.close()


def test_a_worker_that_cannot_be_replaced_goes_on(executor, monkeypatch):
    gate, failed = threading.Event(), threading.Event()

    def start(_):
        failed.set()
        raise RuntimeError("can't start new thread")

    async def work():
        long = asyncio.ensure_future(executor.call(ADA, gate.wait, PATIENCE))
        await until(lambda: executor._front is not None)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            short = asyncio.ensure_future(executor.call(BOB, lambda: "short"))
            await until(failed.is_set)
            gate.set()
            assert await short == "short"
        await long

    run(work())


def test_short_jobs_do_not_wait_for_long_statements(executor):
    long = [Statement() for _ in range(20)]

    async def work():
        jobs = [asyncio.ensure_future(executor.call(ADA, each.run)) for each in long]
        await until(lambda: all(each.started.is_set() for each in long))
        assert [await executor.call(ADA, int) for _ in range(100)] == [0] * 100
        assert not any(job.done() for job in jobs)
        for each in long:
            each.stop()
        await asyncio.gather(*jobs)

    run(work())


def test_a_database_with_many_long_statements_gets_no_time_in_advance_for_another_one(executor):
    long = [Statement() for _ in range((os.cpu_count() or 1) + 2)]

    def turns():
        return sum(statement.turns for statement in long)

    def begin(statement):
        before = turns()
        pause(statement)
        return turns() - before

    async def work():
        jobs = [asyncio.ensure_future(executor.call(ADA, statement.run)) for statement in long]
        await until(lambda: executor.workers > len(long))
        turns_before_it = await executor.call(ADA, begin, Statement())
        of_other_database = await executor.call(BOB, begin, Statement())
        for statement in long:
            statement.stop()
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
        jobs = [
            asyncio.ensure_future(executor.call(tenant, part.run)) for tenant, part in ((ADA, first), (BOB, second))
        ]
        await until(lambda: first.started.is_set() and second.started.is_set())
        for part, job in zip((first, second), jobs, strict=True):
            part.stop()
            assert await job

    run(work())


def test_a_job_whose_statement_has_ended_frees_its_slot(executor):
    """It may still compress its response for seconds."""
    statement, other, ended, enough = Statement(), Statement(), threading.Event(), threading.Event()

    def compresses():
        yield Call(statement.run, fail)
        ended.set()
        assert enough.wait(PATIENCE)

    async def work():
        first = executor.start(ADA, compresses()).future
        await until(statement.started.is_set)
        waits = asyncio.ensure_future(executor.call(BOB, other.run))
        await until(other.started.is_set)
        statement.stop()
        await until(ended.is_set)
        turns = other.turns
        await until(lambda: other.turns > turns + 50)  # more than it may run without a slot
        other.stop()
        enough.set()
        await waits
        await first

    run(work())


def test_a_statement_that_is_no_call_frees_its_slot_when_its_part_ends(executor):
    def describes():
        statement = Statement()
        while not executor.slices.running:
            pause(statement)
        yield "described"

    async def work():
        job = executor.start(ADA, describes())
        assert await job.future == "described"
        assert not executor.slices.running
        await executor.proceed(job)

    run(work())


# Slices.


class Turns:
    """Jobs that share the slots; the test ends each slice."""

    def __init__(self, slots=1):
        self.slices, self._granted = Slices(slots), SimpleQueue()
        self._ends, self._threads = {}, []

    def begin(self, name, database, used):
        """Let a job wait for its first slice, after it has run for some seconds."""
        job = Job(None, database, None, None, used=used, slice_began=time.monotonic())
        self._ends[name] = SimpleQueue()
        self._threads.append(threading.Thread(target=self._run, args=(name, job), daemon=True))
        self._threads[-1].start()
        while job not in self.slices.running and job not in self.slices._waiting:
            time.sleep(0.001)
        return job

    def _run(self, name, job):
        statement = Statement()
        self.slices.share(job, statement)
        self._granted.put(name)
        while self._ends[name].get():
            self.slices.share(job, statement)
            self._granted.put(name)
        self.slices.leave(job)

    def order(self, count):
        """End a slice after the other; return the names of the jobs that had them."""
        names = []
        for _ in range(count):
            names.append(self._granted.get(timeout=PATIENCE))
            if len(names) < count:
                self._ends[names[-1]].put(True)
        for ends in self._ends.values():
            ends.put(False)
        for thread in self._threads:
            thread.join(PATIENCE)
        return names


def test_databases_share_the_time_of_long_statements_not_their_number():
    turns = Turns()
    for name in ("a1", "a2", "a3"):
        turns.begin(name, ADA, used=1.0)
    turns.begin("b1", BOB, used=100.0)
    assert [name[0] for name in turns.order(8)] == list("abababab")


def test_of_one_database_the_statement_that_has_run_least_is_next():
    turns = Turns()
    for name, used in (("first", 1.0), ("long", 1000.0), ("short", 10.0), ("shorter", 5.0)):
        turns.begin(name, ADA, used=used)
    assert turns.order(4)[:2] == ["first", "first"]
    turns = Turns()
    for name, used in (("first", 2000.0), ("long", 1000.0), ("short", 10.0), ("shorter", 5.0)):
        turns.begin(name, ADA, used=used)
    assert turns.order(3) == ["first", "shorter", "shorter"]


def test_a_statement_that_begins_is_next_beside_endless_ones_of_many_databases():
    turns = Turns()
    for number in range(16):
        turns.begin(f"endless {number}", f"database {number}", used=10.0)
    turns.begin("new", BOB, used=HELD_UP)
    assert turns.order(2) == ["endless 0", "new"]


def test_endless_statements_leave_a_slot_for_those_that_begin():
    turns = Turns(slots=2)
    first, second = turns.begin("first", ADA, used=1.0), turns.begin("second", BOB, used=1.0)
    assert turns.slices.running == {first}
    new = turns.begin("new", BOB, used=HELD_UP)
    assert turns.slices.running == {first, new}
    assert second in turns.slices._waiting
    turns.order(1)


def test_statements_that_begin_do_not_stop_a_report():
    turns = Turns()
    turns.begin("report", BOB, used=1.0)
    for number in range(8):
        turns.begin(f"new {number}", ADA, used=-FIRST_SLICE * 1000)  # however many follow
    assert [name.split()[0] for name in turns.order(6)] == ["report", "new"] * 3


# Abandoned calls.


class Stuck:
    """A function that does not return until it is let go, and a job that calls it and then ends."""

    def __init__(self):
        self.began, self.gate, self.left = threading.Event(), threading.Event(), threading.Event()
        self.threads = []
        self.call = Call(self.run, self.left.set)

    def run(self):
        self.threads.append(threading.get_ident())
        self.began.set()
        assert self.gate.wait(PATIENCE)
        return "late"

    def job(self):
        yield self.call
        if self.call.left is None:
            return self.call.result()
        self.threads.append(threading.get_ident())
        return "abandoned"


@pytest.fixture
def stuck():
    stuck = Stuck()
    yield stuck
    stuck.gate.set()


def test_the_job_of_an_abandoned_call_goes_on_in_another_thread(executor, stuck):
    async def work():
        job = executor.start(ADA, stuck.job())
        await until(stuck.began.is_set)
        assert stuck.call.abandon()
        assert await job.future == "abandoned"
        assert (executor.workers, len(executor.lost), executor.abandoned) == (1, 1, 1)
        assert not stuck.call.abandon()
        assert not stuck.left.is_set()
        stuck.gate.set()
        await until(lambda: not executor.lost)
        assert stuck.left.is_set()
        assert await executor.call(ADA, lambda: "next") == "next"
        assert (executor.workers, executor.abandoned) == (1, 1)

    run(work())
    assert len(set(stuck.threads)) == 2


def test_a_call_that_has_not_begun_or_has_returned_is_not_abandoned(executor, stuck):
    assert not stuck.call.abandon()
    stuck.gate.set()

    async def work():
        assert await executor.start(ADA, stuck.job()).future == "late"

    run(work())
    assert not stuck.call.abandon()
    assert not stuck.left.is_set()
    assert executor.abandoned == 0


def test_a_call_that_returns_while_it_is_given_up_has_one_outcome(executor):
    async def work():
        for _ in range(100):
            stuck = Stuck()
            job = executor.start(ADA, stuck.job())
            await until(stuck.began.is_set)
            stuck.gate.set()
            abandoned = stuck.call.abandon()
            assert await job.future == ("abandoned" if abandoned else "late")
            await until(lambda: not executor.lost)
            assert stuck.left.is_set() == abandoned
            assert await executor.call(ADA, lambda: "next") == "next"
        await until(lambda: executor.workers == 1)

    run(work())


def test_a_call_that_commits_is_not_abandoned(executor, stuck):
    async def work():
        job = executor.start(ADA, stuck.job())
        await until(stuck.began.is_set)
        assert stuck.call.keep()
        assert not stuck.call.abandon()
        stuck.gate.set()
        assert await job.future == "late"

    run(work())


def test_an_abandoned_call_may_not_commit(executor, stuck):
    async def work():
        job = executor.start(ADA, stuck.job())
        await until(stuck.began.is_set)
        assert stuck.call.abandon()
        assert not stuck.call.keep()
        await job.future

    run(work())


def test_the_errors_of_a_call_are_raised_in_its_job(executor):
    def work():
        call = Call(lambda: fail(LookupError("no such thing")), fail)
        yield call
        call.result()

    async def wait():
        with pytest.raises(LookupError, match="no such thing"):
            await executor.start(ADA, work()).future

    run(wait())


def test_abandoned_calls_do_not_count_as_jobs_of_their_database():
    executor = Executor(of_database=1)
    stuck = Stuck()

    async def work():
        job = executor.start(ADA, stuck.job())
        waits = asyncio.ensure_future(executor.call(ADA, lambda: "waits"))
        await until(lambda: executor.workers == 2)  # the job counts, and the next one stays in the queue
        assert stuck.call.abandon()
        assert await waits == "waits"
        assert await job.future == "abandoned"

    run(work())
    executor.close()
    assert len(executor.lost) == 1
    stuck.gate.set()


def test_abandoned_calls_hold_no_slot(executor, stuck):
    """A statement that has a slot and then is inside one function, and another one that waits for the slot."""
    first, other = Statement(), Statement()

    def runs_and_hangs():
        first.run()
        return stuck.run()

    stuck.call = Call(runs_and_hangs, stuck.left.set)

    async def work():
        job = executor.start(ADA, stuck.job())
        await until(first.started.is_set)
        await until(lambda: executor.slices.running)
        first.stop()
        await until(stuck.began.is_set)
        waits = asyncio.ensure_future(executor.call(BOB, other.run))
        await until(lambda: executor.slices._waiting or not executor.slices.running)
        assert stuck.call.abandon()
        assert await job.future == "abandoned"
        turns = other.turns
        await until(lambda: other.turns > turns + 50)
        other.stop()
        await waits

    run(work())


def test_the_executor_closes_although_a_call_was_abandoned(stuck):
    executor = Executor()

    async def work():
        job = executor.start(ADA, stuck.job())
        await until(stuck.began.is_set)
        assert stuck.call.abandon()
        await job.future

    run(work())
    executor.close()
    assert (executor.workers, len(executor.lost)) == (0, 1)
