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


async def entered(gate, count):
    for _ in range(count):
        assert await asyncio.to_thread(gate.entered.acquire, timeout=WAIT)


def test_one_who_asks_for_much_leaves_threads_to_others(workers):
    async def main():
        shares, gate = Shares(workers, 3), Gate()
        greedy = [asyncio.create_task(shares.run("greedy", gate.call, number)) for number in range(10)]
        await entered(gate, 3)
        assert await asyncio.wait_for(shares.run("other", lambda: "at once"), WAIT) == "at once"
        gate.open()
        assert await asyncio.gather(*greedy) == list(range(10))
        assert gate.order == list(range(10))  # in order of arrival
        assert not shares._running
        assert not shares._waiting

    asyncio.run(main())


def test_who_stops_waiting_leaves_no_gap_and_an_error_hands_the_thread_on(workers):
    def fail():
        raise ValueError("no")

    async def main():
        shares, gate = Shares(workers, 1), Gate()
        first = asyncio.create_task(shares.run("a", gate.call, 1))
        await entered(gate, 1)
        leaves, fails, last = (
            asyncio.create_task(shares.run("a", *call)) for call in ((gate.call, 2), (fail,), (gate.call, 3))
        )
        await asyncio.sleep(0)
        leaves.cancel()
        gate.open()
        with pytest.raises(ValueError, match="no"):
            await fails
        assert (await first, await last, gate.order) == (1, 3, [1, 3])
        assert not shares._running

    asyncio.run(main())


def test_who_is_cancelled_as_his_thread_is_free_hands_it_on(workers):
    async def main():
        shares = Shares(workers, 1)
        await shares._enter("a")
        leaves, stays = (asyncio.create_task(shares.run("a", lambda: "mine")) for _ in range(2))
        await asyncio.sleep(0)
        shares._leave("a")
        leaves.cancel()
        assert await asyncio.wait_for(stays, WAIT) == "mine"
        assert not shares._running

    asyncio.run(main())
