"""Keeping the server-side connection of the cells alive while nobody runs one: small requests, for a bounded time.

Only the idle time is renewed. While a transaction is open nothing is sent: it has its own 5 s, and a server that counts
them loosely must not hold its locks for longer because of us. A stream that is gone is never opened again from here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from pipemagic.client.stream import ClientStream
from pipemagic.client.tracing import RequestOrigin, requests_of
from pipemagic.errors import PipemagicError
from pipemagic.hrana.stream import IDLE_LIMIT, Phase, Tx

RENEW_AFTER = 0.6 * IDLE_LIMIT
"""Seconds of idle time after which it is renewed."""

LOOK_EVERY = 1.0
"""Seconds between two looks at the clock; they send nothing by themselves."""

ORIGIN = RequestOrigin("keep-alive")
"""What a trace lists its requests under."""

KEEPING = "pipemagic: keeping a connection"
"""The name of the threads that do so."""


class Kept(Protocol):
    """What is kept alive: a connection of a session."""

    @property
    def stream(self) -> ClientStream | None: ...  # noqa: D102 - as it says


class KeepAlive:
    """Renews the idle time of a stream between cells, for at most ``seconds`` after the last one.

    ``lock`` is what a cell holds while it runs: where it is taken nothing is sent. ``ended`` says why it stopped, ''
    if it did not. A thread runs only while there is something to keep; each cell starts it again.
    """

    def __init__(
        self, kept: Kept, seconds: float, lock: threading.RLock, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds = seconds
        self.ended = ""
        self._kept = kept
        self._lock = lock
        self._clock = clock
        self._since = clock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def left(self) -> float:
        """Seconds for which it goes on without a cell; 0.0 if it has stopped."""
        return 0.0 if self.ended else max(0.0, self._since + self.seconds - self._clock())

    def touch(self) -> None:
        """Begin anew, since a cell has run."""
        self._since, self.ended = self._clock(), ""
        if self._thread is None or not self._thread.is_alive():
            self._stop = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._stop,), name=KEEPING, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread; nothing more is sent."""
        self._stop.set()

    def look(self) -> bool:
        """Renew the idle time if it is time for that; tells whether there will be something to do later on."""
        if not self._lock.acquire(blocking=False):
            return True  # a cell is running, which renews it
        try:
            return self._renew()
        finally:
            self._lock.release()

    def _renew(self) -> bool:
        stream = self._kept.stream
        if stream is None or not stream.is_open:
            return self._end("there is no server-side connection")
        if not self.left:
            return self._end("the time is over")
        if stream.phase is Phase.IN_USE:
            return True
        if stream.transaction.state is not Tx.NONE or stream.idle_for() < RENEW_AFTER:
            return stream.idle_for() <= IDLE_LIMIT or self._end("a transaction was open, which it does not keep")
        try:
            with requests_of(ORIGIN):
                renewed = stream.renew()
            return renewed or self._end("the server has closed the connection")
        except PipemagicError as error:
            return self._end(error.message.partition("\n")[0])

    def _end(self, why: str) -> bool:
        self.ended, self._thread = why, None  # a cell that comes while this one ends starts another
        return False

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_EVERY) and self.look():
            pass
