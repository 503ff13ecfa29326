"""Threads for an event loop."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref

import pytest
from waiting import until

from pipemagic.service.web.workers import Job, Workers

WAIT = 10.0


@pytest.fixture
def workers():
    workers = Workers(2, "test")
    yield workers
    workers.close()


def test_outcomes_and_errors_come_back(workers):
    async def go():
        assert await workers.run(divmod, 7, 2) == (3, 1)
        assert (await workers.run(threading.current_thread)).name.startswith("test-")
        with pytest.raises(ZeroDivisionError):
            await workers.run(divmod, 1, 0)

    asyncio.run(go())


def test_calls_run_side_by_side_up_to_the_number_of_threads(workers):
    both = threading.Barrier(2)

    async def go():
        await asyncio.wait_for(asyncio.gather(*[workers.run(both.wait, WAIT) for _ in range(2)]), WAIT)
        assert await asyncio.gather(*[workers.run(abs, -n) for n in range(50)]) == list(range(50))

    asyncio.run(go())


def test_further_threads_step_in_only_while_all_others_are_held_up(monkeypatch):
    """How long a call may take before it counts as held up is set, so that a slow machine changes nothing."""
    workers, gate = Workers(3, "test", usual=1), threading.Event()

    async def nobody_is_held_up():
        names = await asyncio.gather(*[workers.run(threading.current_thread) for _ in range(200)])
        assert {one.name for one in names} == {"test-0"}

    async def two_are_held_up():
        held = [workers.run(gate.wait, WAIT) for _ in range(2)]
        names = await asyncio.wait_for(asyncio.gather(*[workers.run(threading.current_thread) for _ in range(9)]), WAIT)
        assert len({one.name for one in names}) == 1
        gate.set()
        await asyncio.gather(*held)

    with monkeypatch.context() as patch:
        patch.setattr("pipemagic.service.web.workers.HELD_UP", 2 * WAIT)
        asyncio.run(nobody_is_held_up())
    asyncio.run(two_are_held_up())
    workers.close()


def test_a_job_ahead_of_all_that_wait():
    workers, gate, order = Workers(1, "test"), threading.Event(), []

    async def go():
        workers.run(gate.wait, WAIT)
        waiting = [workers.run(order.append, number) for number in range(3)]
        first = Job(order.append, ("first",))
        workers.run_ahead(first)
        gate.set()
        await asyncio.gather(*waiting, first.future)

    asyncio.run(go())
    workers.close()
    assert order == ["first", 0, 1, 2]


def test_a_job_ahead_is_done_though_nobody_looks_after_what_waits():
    """The only thread that takes calls is held up, and when it took that one nothing was waiting."""
    workers, gate = Workers(2, "test", usual=1), threading.Event()

    async def go():
        held = workers.run(gate.wait, WAIT)
        async with asyncio.timeout(WAIT):
            while workers._watched is not None:
                await asyncio.sleep(0.001)
        ahead = Job(abs, (-1,))
        await asyncio.to_thread(workers.run_ahead, ahead)
        assert await asyncio.wait_for(ahead.future, WAIT / 2) == 1
        gate.set()
        await held

    asyncio.run(go())
    workers.close()


def test_what_waits_behind_a_long_job_ahead_is_done_by_another_thread():
    workers, first, second = Workers(2, "test", usual=1), threading.Event(), threading.Event()
    begun = threading.Semaphore(0)

    def hold():
        begun.release()
        return first.wait(WAIT)

    async def go():
        held = [workers.run(hold) for _ in range(2)]
        for _ in held:
            assert await asyncio.to_thread(begun.acquire, timeout=WAIT)
        behind, ahead = workers.run(abs, -1), Job(second.wait, (WAIT,))
        workers.run_ahead(ahead)
        first.set()
        assert await asyncio.wait_for(behind, WAIT / 2) == 1
        second.set()
        await asyncio.gather(*held, ahead.future)

    asyncio.run(go())
    workers.close()


def test_threads_step_in_again_after_their_loop_was_closed():
    workers, gate = Workers(2, "test", usual=1), threading.Event()

    async def leave():
        workers.run(gate.wait, WAIT)  # the loop is closed before it looks whether anybody waits

    async def go():
        return await asyncio.wait_for(workers.run(abs, -1), WAIT)

    asyncio.run(leave())
    assert asyncio.run(go()) == 1
    gate.set()
    workers.close()


def test_nobody_has_to_wait_for_the_outcome(workers):
    gate = threading.Event()

    async def give_up():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(workers.run(gate.wait, WAIT), 0.01)
        workers.run(gate.wait, WAIT)  # still running when its loop is closed

    asyncio.run(give_up())
    gate.set()

    async def go():
        return await workers.run(abs, -1)

    assert asyncio.run(go()) == 1


def test_closing_waits_for_what_was_asked():
    workers = Workers(1, "test")
    seen = []

    async def go():
        for number in range(5):
            workers.run(seen.append, number)

    asyncio.run(go())
    workers.close()
    assert seen == [0, 1, 2, 3, 4]
    assert not any(thread.is_alive() for thread in workers._threads)


@pytest.mark.parametrize("usual", [1, 2, 3])
def test_closing_ends_all_threads_at_any_moment(usual):
    """Threads that step in take from the same queue that tells the others to end."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(150):
            workers = Workers(4, "test", usual=usual)
            for _ in range(3):
                workers._needed.put(None)
            closing = threading.Thread(target=workers.close, daemon=True)
            closing.start()
            closing.join(WAIT)
            assert not closing.is_alive()
    finally:
        sys.setswitchinterval(interval)


def test_an_idle_thread_keeps_nothing_alive(workers):
    class Large:
        pass

    async def go():
        large = Large()
        reference = weakref.ref(large)
        await workers.run(id, large)
        return reference

    reference = asyncio.run(go())
    until(lambda: gc.collect() or reference() is None)
