"""The threads are shared: nobody gets all of them."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pipemagic.service.web.shares import Shares
from pipemagic.service.web.workers import Workers

WAIT = 10.0


class Gate:
    """Calls that run until they are let out; counts who is in."""

    def __init__(self):
        self.entered, self._open = threading.Semaphore(0), threading.Event()
        self.order = []

    def call(self, name):
        self.order.append(name)
        self.entered.release()
        assert self._open.wait(WAIT)
        return name

    def open(self):
        self._open.set()


@pytest.fixture
def workers():
    made = Workers(4, "shares")
    yield made
    made.close()


async def all_given_back(shares):
    """A thread is given back just after its call's outcome is known."""
    async with asyncio.timeout(WAIT):
        while shares._running or shares._waiting:
            await asyncio.sleep(0)


async def entered(gate, count):
    for _ in range(count):
        assert await asyncio.to_thread(gate.entered.acquire, timeout=WAIT)


def test_one_who_asks_for_much_leaves_threads_to_others(workers):
    async def main():
        shares, gate = Shares(workers, 3), Gate()
        greedy = [shares.run("greedy", gate.call, number) for number in range(10)]
        await entered(gate, 3)
        assert await asyncio.wait_for(shares.run("other", lambda: "at once"), WAIT) == "at once"
        gate.open()
        assert await asyncio.gather(*greedy) == list(range(10))
        assert gate.order == list(range(10))  # in order of arrival
        await all_given_back(shares)

    asyncio.run(main())


def test_who_stops_waiting_leaves_no_gap_and_an_error_hands_the_thread_on(workers):
    def fail():
        raise ValueError("no")

    async def main():
        shares, gate = Shares(workers, 1), Gate()
        first = shares.run("a", gate.call, 1)
        await entered(gate, 1)
        leaves, fails, last = (shares.run("a", *call) for call in ((gate.call, 2), (fail,), (gate.call, 3)))
        await asyncio.sleep(0)
        leaves.cancel()
        gate.open()
        with pytest.raises(ValueError, match="no"):
            await fails
        assert (await first, await last, gate.order) == (1, 3, [1, 3])
        await all_given_back(shares)

    asyncio.run(main())


def test_many_short_calls_of_one_take_no_thread_from_each_other(workers):
    async def main():
        shares = Shares(workers, 2)
        calls = [shares.run("one", lambda number=number: number) for number in range(500)]
        assert await asyncio.wait_for(asyncio.gather(*calls), WAIT) == list(range(500))
        await all_given_back(shares)

    asyncio.run(main())
