"""The readers of a database, which give way to a checkpoint when the WAL is large.

SQLite begins its WAL again only after a checkpoint of all frames, at a moment without readers. If reads always
overlap, there is no such moment, and the WAL grows without limit ("checkpoint starvation", section 6 of
https://sqlite.org/wal.html). So beyond a size the readers make one:

========  ===========================================  ==============================================================
Phase     The WAL                                      A reader that begins
========  ===========================================  ==============================================================
OPEN      is small                                     reads
DRAINING  is large, and earlier readers continue       reads for `BRIEF`; if that does not suffice, it ends, waits for
                                                       the earlier readers and starts again
SEALED    is large, and earlier readers have ended     waits for the checkpoint
========  ===========================================  ==============================================================

A phase that lasts longer than its limit (`DRAIN_WAIT`, `CHECKPOINT_WAIT`) has failed: all readers begin
until the WAL has grown by `STEP`. Once it has `FULL_WAL`, they are stopped. Writers never wait for readers.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from pipemagic.service.executor import Waiter
from pipemagic.service.limits import MB

log = logging.getLogger(__name__)

BRIEF = 0.02
"""Seconds of processor time that a statement may read while others give way; most statements take less."""

STEP = 8 * MB
"""Bytes by which a WAL grows until its readers give way again after a failed attempt."""


DRAINED_WAL, FULL_WAL = 64 * MB, 256 * MB
"""Sizes of a WAL beyond which readers give way to a checkpoint, and are stopped."""

DRAIN_WAIT, CHECKPOINT_WAIT = 10.0, 1.0
"""Seconds that a reader waits for those that began before it, and then for the checkpoint."""


class CheckpointPhase(Enum):
    """True if readers give way to a checkpoint."""

    OPEN = "open"
    DRAINING = "draining"
    SEALED = "sealed"


@dataclass(slots=True, eq=False)
class Reading:
    """A statement or a transaction that reads, or an export. ``stop`` ends it soon and may be called in any thread."""

    stop: Callable[[], None]
    early: bool
    """True if it began before others gave way."""
    brief: bool
    """True if it has only `BRIEF`."""
    ends: float = math.inf
    """When it must end, in processor time of the thread in which it began (`time.thread_time`)."""
    stopped: bool = False
    """True if it must end because the WAL has its full size."""


class Readers:
    """The readers of one database. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._active: set[Reading] = set()
        self._waiting: list[Waiter] = []
        self.phase = CheckpointPhase.OPEN
        self._since = 0.0
        """When the phase began."""
        self._size = 0
        """The size of the WAL after the last commit that was recorded."""
        self._drain_at, self._stop_at = DRAINED_WAL, FULL_WAL
        """The sizes of the WAL at which readers give way, and are stopped."""

    @property
    def must_give_way(self) -> bool:
        """True if the WAL is so large that a checkpoint waits for the earlier readers."""
        return self.phase is not CheckpointPhase.OPEN

    def __len__(self) -> int:
        return len(self._active)

    def begin(self, stop: Callable[[], None], *, restartable: bool, now: bool = False) -> Reading | None:
        """Begin to read; return None if the reader must `wait` first.

        With ``now``, it need not: it has waited. A ``restartable`` reader has only `BRIEF` while others give way.
        """
        with self._lock:
            if self.phase is CheckpointPhase.SEALED and not now:
                return None
            early = now or self.phase is CheckpointPhase.OPEN
            reading = Reading(stop, early, brief=restartable and not early)
            if reading.brief:
                reading.ends = time.thread_time() + BRIEF
            self._active.add(reading)
            return reading

    def end(self, reading: Reading) -> None:
        """End a reading; a second call does nothing."""
        with self._lock:
            self._active.discard(reading)
            if self.phase is CheckpointPhase.OPEN:  # no reader gives way, as a rule
                return
            granted = self._next_phase()
        _grant(granted)

    def check_time(self) -> None:
        """Let readers begin if they have given way for too long; the sweeper calls it."""
        with self._lock:
            granted = self._next_phase()
        _grant(granted)

    def wait(self, seconds: float) -> Waiter:
        """Return a waiter that is granted once readers need not give way any more."""
        waiter = Waiter(self._clock() + seconds)
        with self._lock:
            if self.phase is CheckpointPhase.OPEN:
                waiter.granted = True
                waiter.finish()
            else:
                self._waiting.append(waiter)
        return waiter

    def waiters(self) -> list[Waiter]:
        """Return the waits that have not ended."""
        with self._lock:
            self._waiting = [waiter for waiter in self._waiting if not waiter.done]
            return list(self._waiting)

    def record_checkpoint(self, size: int, *, complete: bool) -> None:
        """Record that a commit left a WAL of ``size`` bytes, and whether a checkpoint included all of it."""
        with self._lock:
            self._size = size
            granted: list[Waiter] = []
            stopped: list[Reading] = []
            if size <= DRAINED_WAL or (complete and not self._active):
                self._drain_at, self._stop_at = DRAINED_WAL, FULL_WAL
                granted = self._open()
            elif size >= self._stop_at and not self._is_first_attempt:
                stopped = self._stop_all()
            else:
                if self.phase is CheckpointPhase.OPEN and size >= self._drain_at:
                    self._drain()
                granted = self._next_phase()
        _grant(granted)
        for reading in stopped:
            _stop(reading)

    @property
    def _is_first_attempt(self) -> bool:
        """True if readers had no occasion yet to give way since the WAL began: one transaction may exceed all sizes."""
        return self.phase is CheckpointPhase.OPEN and self._drain_at == DRAINED_WAL

    def _drain(self) -> None:
        if self._is_first_attempt:
            self._stop_at = max(self._stop_at, self._size + FULL_WAL // 4)
        self.phase, self._since = CheckpointPhase.DRAINING, self._clock()

    def _open(self) -> list[Waiter]:
        """Let all readers begin; return the waiters to grant."""
        waiting, self._waiting = self._waiting, []
        self.phase = CheckpointPhase.OPEN
        return waiting

    def _next_phase(self) -> list[Waiter]:
        """Go to the next phase if the present one is over; return the waiters to grant."""
        if self.phase is CheckpointPhase.OPEN:
            return []
        now = self._clock()
        limit = DRAIN_WAIT if self.phase is CheckpointPhase.DRAINING else CHECKPOINT_WAIT
        if now >= self._since + limit:
            self._drain_at = self._size + STEP
            return self._open()
        if self.phase is CheckpointPhase.DRAINING and not any(reading.early for reading in self._active):
            self.phase, self._since = CheckpointPhase.SEALED, now
        return []

    def _stop_all(self) -> list[Reading]:
        # Another program may read the file: the service's own readers are not stopped at every commit.
        self._stop_at = self._size + FULL_WAL // 4
        self.phase, self._since = CheckpointPhase.SEALED, self._clock()
        log.warning("a WAL has reached %d bytes: its %d readers are stopped", self._size, len(self._active))
        return list(self._active)


def _grant(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        waiter.granted = True
        waiter.finish()


def _stop(reading: Reading) -> None:
    reading.stopped, reading.ends = True, -math.inf
    try:
        reading.stop()
    except Exception:  # the commit of another client must not fail because of it
        log.exception("a reader could not be stopped")
