"""The time limits of a server-side connection, and requests that renew its idle time between cells.

Only the idle time is renewed. While a transaction is open nothing is sent: it has its own limit, and a server that
applies the limit loosely must not hold locks for longer because of these requests. A closed stream is never reopened
here.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pipemagic.client.stream import ClientStream
from pipemagic.client.tracing import RequestOrigin, current_origin
from pipemagic.errors import PipemagicError, SessionError
from pipemagic.hrana.stream import IDLE_LIMIT, RELAXED, STRICT, TRANSACTION_LIMIT, Phase, Tx
from pipemagic.text import format_duration, format_limit

RENEW_AFTER = 0.6
"""The part of the idle limit after which a request renews it."""

CHECK_EVERY = 1.0
"""Seconds between two checks of the time."""

ORIGIN = RequestOrigin("keep-alive")
"""The name of its requests in a trace."""

LONGEST = 10**9
"""Seconds; a longer duration is a mistake, and sockets do not accept it."""

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}

TEMPORARY_TABLES_FOR = 3600.0
"""Seconds for which a connection with temporary tables is kept alive after a cell, unless the user chose a time."""

RELAXED_TRANSACTION = (
    f"ends after {TRANSACTION_LIMIT:g} s only if another connection waits for it, and after 1 h in any case"
)
"""What status and panel show instead of the time left of a transaction with relaxed limits."""

THREAD_NAME = "pipemagic: keeping a connection"


@dataclass(frozen=True)
class RemainingTime:
    """Seconds left. ``idle`` is None without a server-side connection, ``transaction`` without a transaction.

    ``idle_limit`` is the limit of the former. ``idle_about`` and ``transaction_about`` are True if the time is an
    estimate: the server has not named its idle limit, or it may end a transaction later than at its limit. With
    ``relaxed`` limits an open transaction has no time that ends, so ``transaction`` is None.
    """

    idle: float | None = None
    transaction: float | None = None
    idle_limit: float = IDLE_LIMIT
    idle_about: bool = True
    transaction_about: bool = True
    relaxed: bool = False

    @classmethod
    def of(cls, stream: ClientStream | None) -> RemainingTime:
        """Return the remaining times of a stream, without a request."""
        if stream is None or not stream.is_open or stream.is_outdated:
            return cls()
        relaxed, age = stream.limits == RELAXED, stream.transaction_age()
        left = stream.idle_limit - stream.idle_for()
        if left < 0 and stream.names_limit and age is None:
            return cls()  # the server has closed it
        return cls(
            max(0.0, left),
            None if age is None or relaxed else max(0.0, TRANSACTION_LIMIT - age),
            stream.idle_limit,
            not stream.names_limit,
            stream.limits != STRICT,
            relaxed and age is not None,
        )

    @property
    def transaction_left(self) -> str:
        """The remaining time of the transaction as text; '' without a transaction."""
        if self.relaxed:
            return RELAXED_TRANSACTION
        return _left(self.transaction, TRANSACTION_LIMIT, about=self.transaction_about)

    @property
    def idle_left(self) -> str:
        """The remaining idle time as text; '' without a server-side connection."""
        return _left(self.idle, self.idle_limit, about=self.idle_about)


def _left(seconds: float | None, limit: float, *, about: bool) -> str:
    """Return the time left of a limit as text; ``about`` if it is an estimate, which proves nothing at its end."""
    if seconds is None:
        return ""
    whole = format_limit(limit)
    if not seconds and about:
        return f"its {whole} have passed: the next cell shows whether it is still open"
    if not seconds:
        return f"its {whole} have expired"
    if limit > 60:
        return f"{'about ' if about else ''}{format_duration(seconds)} of {whole} left"
    return f"about {seconds:.0f} of {whole} left" if about else f"{seconds:.1f} of {whole} left"


class KeepAlive:
    """Renews the idle time of a stream between cells, for at most ``seconds`` after the last one; never if it is None.

    ``chosen`` is True if the user chose the time; otherwise a connection with temporary tables is kept for an hour.
    A cell holds ``lock`` while it runs; nothing is sent then. ``ended`` is the reason for its end, '' while it runs. A
    thread runs only while a stream is kept; each cell starts it again.
    """

    def __init__(
        self,
        stream: Callable[[], ClientStream | None],
        lock: threading.RLock,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds: float | None = None
        self.chosen = False
        self.ended = ""
        self._stream = stream
        self._lock = lock
        self._clock = clock
        self._since = clock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def left(self) -> float:
        """Seconds for which it continues without a cell; 0.0 if it has stopped."""
        return 0.0 if self.ended else max(0.0, self._since + (self.seconds or 0.0) - self._clock())

    def choose(self, seconds: float | None) -> None:
        """Use the time that the user chose."""
        self.chosen, self.seconds = True, seconds
        self._since, self.ended = self._clock(), ""

    def after_cell(self, *, temporary: bool) -> None:
        """Start the time again, after a cell; its connection may have ``temporary`` tables."""
        if not self.chosen:
            self.seconds = TEMPORARY_TABLES_FOR if temporary else None
        if self.seconds is None:
            self.ended = ""
            self.close()
        elif self._stream() is not None:
            self.restart()

    def restart(self) -> None:
        """Start the time again."""
        self._since, self.ended = self._clock(), ""
        if self._thread is None or self._stop.is_set() or not self._thread.is_alive():
            self._stop = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._stop,), name=THREAD_NAME, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread; nothing more is sent."""
        self._stop.set()

    def check(self) -> bool:
        """Renew the idle time if it is due; return True if later checks are needed."""
        if not self._lock.acquire(blocking=False):
            return True  # a cell is running, which renews it
        try:
            if self.seconds is None:
                return False
            self.ended = self._renew()
            if self.ended:
                self._thread = None  # a cell that runs while this thread ends starts another
            return not self.ended
        finally:
            self._lock.release()

    def _renew(self) -> str:
        """Renew the idle time if it is due; return the reason to stop, '' to continue."""
        stream = self._stream()
        if stream is None or not stream.is_open:
            return "there is no server-side connection"
        if not self.left:
            return "the time has expired"
        # With relaxed limits, a stream that was idle for the usual time makes room for another one.
        limit = IDLE_LIMIT if stream.limits == RELAXED else stream.idle_limit
        if stream.phase is Phase.IN_USE or stream.idle_for() < RENEW_AFTER * limit:
            return ""
        if stream.transaction.state is not Tx.NONE:
            return "" if stream.idle_for() <= stream.idle_limit else "a transaction was open, which is not kept alive"
        try:
            return "" if stream.renew() else "the server has closed the connection"
        except PipemagicError as error:
            return error.message.partition("\n")[0]

    def _run(self, stop: threading.Event) -> None:
        current_origin.set(ORIGIN)
        while not stop.wait(CHECK_EVERY) and self.check():
            pass


def parse_duration(text: str) -> float:
    """Convert ``90``, ``90s``, ``1.5m`` or ``2h`` to seconds; raise SessionError for anything else, also for 0."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip(), re.ASCII)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= LONGEST:
        raise SessionError(
            f"{text!r} is not a duration", hint="write 90s, 10m or 1h; a number without a unit is in seconds"
        )
    return seconds
