"""A share of the threads for everybody: what one token asks for never takes them all.

Otherwise one client whose statements do not end would keep everybody else out, also those who ask for `/health`,
until the time limit of statements stops them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, TypeVar

from pipemagic.service.web.workers import Workers

T = TypeVar("T")


class Shares:
    """Gives at most ``most`` threads at a time to each who asks; to be used in one event loop."""

    def __init__(self, workers: Workers, most: int) -> None:
        self._workers, self._most = workers, most
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def run(self, who: str, call: Callable[..., T], *arguments: Any) -> T:
        """Have a thread make the call, in order of arrival among those of the same one."""
        await self._enter(who)
        try:
            return await self._workers.run(call, *arguments)
        finally:
            self._leave(who)

    async def _enter(self, who: str) -> None:
        if self._running[who] < self._most:
            self._running[who] += 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._leave(who)  # it was given its thread at the same time
            raise

    def _leave(self, who: str) -> None:
        """Hand the thread on, to the first of the same one who still waits."""
        waiting = self._waiting.get(who, ())
        while waiting:
            place = waiting.popleft()
            if not waiting:
                del self._waiting[who]
            if not place.done():
                place.set_result(None)
                return
        self._running[who] -= 1
        if not self._running[who]:
            del self._running[who]
