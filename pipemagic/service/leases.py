"""Leases: the service does not stop while a program holds one.

A lease is a response that does not end. It needs no thread and no clock, and when the program ends, however that
happens, the operating system closes the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

LINGER = 20.0
"""Seconds without a lease after which a service stops that was not started by hand."""


class Leases:
    """Counts the open leases; with ``linger`` set, calls ``on_idle`` that many seconds after the last one.

    The clock starts with `start`, so that the service also stops if its starter died.
    """

    def __init__(self, linger: float | None, on_idle: Callable[[], None]) -> None:
        self.open = 0
        self._linger = linger
        self._on_idle = on_idle
        self._timer: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()

    def start(self) -> None:
        """Start the clock."""
        if self._linger is not None and not self.ended:
            self._timer = asyncio.get_running_loop().call_later(self._linger, self._on_idle)

    def end(self) -> None:
        """End all leases: the service is stopping."""
        self._ended.set()

    @property
    def ended(self) -> bool:
        """Whether the leases have ended and no further ones are held."""
        return self._ended.is_set()

    async def hold(self, disconnected: Coroutine[Any, Any, None]) -> None:
        """Hold one lease until ``disconnected``, which waits for its client to hang up, ends or the service stops."""
        self.open += 1
        if self._timer is not None:
            self._timer.cancel()
        tasks = [asyncio.ensure_future(disconnected), asyncio.ensure_future(self._ended.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self.open -= 1
            if not self.open:
                self.start()
