"""Open streams: batons, both time limits, and the errors of streams that have ended.

Times are of the service's clock (seconds, monotonic). The time limits are checked twice: when a request arrives,
so that they are exact, and by a sweeper, which releases locks and interrupts statements without one. Relaxed limits
(`LimitMode`) are checked for an hour when a request arrives; for what another request waits for, the sweeper ends
transactions, and a stream that finds no place or no file handle ends an idle one.
"""

from __future__ import annotations

import hmac
import logging
import math
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Any

from pipemagic.hrana import faults
from pipemagic.hrana.messages import Error
from pipemagic.hrana.stream import Event, Phase, Tx
from pipemagic.service.auth.tokens import Owner
from pipemagic.service.database_api.stream import ServerStream
from pipemagic.service.executor import Waiter
from pipemagic.service.limits import Limits
from pipemagic.service.replicas.replica import Replica
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.database import OpenDatabase

TOMBSTONE = 300.0
"""Seconds for which an expired stream is distinguished from an unknown one."""

log = logging.getLogger(__name__)

_ID, _COUNT = 12, 4


class StreamTable:
    """All streams of the service."""

    def __init__(self, clock: Callable[[], float], random: Callable[[int], bytes], limits: Limits) -> None:
        self._clock, self._random, self._limits = clock, random, limits
        self._longest_idle, self._most_of_database = limits.longest_idle, limits.streams_of_database
        self.ttl = round(self._longest_idle * 1000)
        """The milliseconds without a request after which a stream may be closed."""
        self._key = random(32)
        self._lock = threading.Lock()
        self._streams: dict[bytes, ServerStream] = {}
        self._used: Counter[str] = Counter()
        """The number of open streams of each database, by its id."""
        self._count = 0
        """The number of all of them, also of those that wait for the thread of an abandoned statement."""
        self._expired: dict[bytes, float] = {}

    def __len__(self) -> int:
        return self._count

    def count_transactions(self) -> int:
        """Return the number of streams with an open transaction."""
        with self._lock:
            return sum(stream.state.transaction is Tx.OPEN for stream in self._streams.values())

    def open(self, database: OpenDatabase, owner: Owner, place: OpenDatabase | Replica | None = None) -> ServerStream:
        """Begin a stream, in use, for ``owner``; raise `Refused` with 429 if no more may be open.

        ``place`` is the primary (default) or one of its replicas.
        """
        number, now = self._random(_ID), self._clock()
        stream = ServerStream(number, database, place or database, owner, now, self._expire_idlest)
        while True:
            with self._lock:
                service_is_full = self._count >= self._limits.streams
                if not service_is_full and self._used[owner.database] < self._most_of_database:
                    self._streams[number] = stream
                    self._used[owner.database] += 1
                    self._count += 1
                    return stream
            if not self._expire_idlest(None if service_is_full else owner.database):
                raise self._too_many(service_is_full=service_is_full)

    def _too_many(self, *, service_is_full: bool) -> Refused:
        """Return the error if the service, or otherwise a database, has reached its limit of streams."""
        limits = self._limits
        if service_is_full:
            reason = f"the service has {limits.streams:,} open, which is its limit; try again soon, idle streams"
        else:
            reason = (
                f"this database has {self._most_of_database:,} open, which is the limit of one database; close those "
                "that are not needed, idle ones"
            )
        return Refused(429, f"Too many open streams: {reason} end after {limits.idle:g} s")

    def _expire_idlest(self, database: str | None = None) -> bool:
        """Expire a stream that was idle for its limit, of a database if one is named; return False if there is none.

        Those without a transaction end first, and then those that were idle for longest. Without relaxed limits, the
        sweeper does so.
        """
        if not self._limits.relaxed:
            return False
        now, limit = self._clock(), self._limits.idle
        with self._lock:
            streams = [stream for stream in self._streams.values() if database in (None, stream.owner.database)]
        idle = [stream for stream in streams if stream.was_idle_for(limit, now)]
        if not idle:
            return False
        idlest = min(idle, key=lambda stream: (stream.state.transaction is Tx.OPEN, stream.idle_since))
        _try(self._expire, idlest, limit)
        return True

    def resume(self, baton: str, owner: Owner) -> ServerStream | Waiter:
        """Return the stream of a baton and mark it as in use; raise `Refused` if the baton is not valid.

        Return a waiter if the baton is the `next_baton` of a running cursor.
        """
        number, count = self._parse(baton, owner)
        with self._lock:
            stream = self._streams.get(number)
        if stream is None:
            raise self._ended(number)
        with stream.guard:
            if stream.response_count == count and stream.done is not None:
                return stream.done
            if stream.response_count != count or stream.state.phase is Phase.IN_USE:
                raise Refused(400, faults.BATON_USED, plain=True)
            limit = self._longest_idle
            if stream.state.phase is Phase.IDLE and not stream.was_idle_for(limit, self._clock()):
                stream.state.move(Event.SEND)
                return stream
        self._expire(stream, limit)
        raise self._ended(number)

    def _ended(self, number: bytes) -> Refused:
        if number in self._expired:
            return Refused(400, "The stream has expired due to inactivity", faults.STREAM_EXPIRED)
        return _invalid()

    def next_baton(self, stream: ServerStream) -> str:
        """Return the baton that is valid after the current response; a request that sends it earlier waits."""
        with stream.guard:
            stream.response_count += 1
            stream.done = Waiter(math.inf)
        return self._baton(stream.number, stream.response_count, stream.owner)

    def finish(self, stream: ServerStream) -> str | None:
        """Return the new baton, or that of `next_baton`, after a response; the idle time starts when that was `sent`.

        Return None for a stream that was cancelled, and end it. This is decided under the guard: a cancellation after
        it finds the stream idle and ends it.
        """
        stream.rest()
        with stream.guard:
            if not (ended := stream.ended is not None):
                if stream.done is None:
                    stream.response_count += 1
                stream.idle_since = math.inf
                stream.state.move(Event.ANSWER)
                done, stream.done = stream.done, None
        if ended:
            self.end(stream, Event.LOSE)
            return None
        if done is not None:
            done.finish()
        return self._baton(stream.number, stream.response_count, stream.owner)

    def sent(self, stream: ServerStream, count: int) -> None:
        """Begin the idle time: the last byte of the response with this number was sent."""
        with stream.guard:
            if stream.response_count == count and stream.state.phase is Phase.IDLE:
                stream.idle_since = self._clock()

    def end(self, stream: ServerStream, event: Event, *, when: Callable[[], bool] = lambda: True) -> None:
        """End a stream if it has not ended, and ``when`` returns True, which is called under its guard.

        What it holds is released once no abandoned statement uses that.
        """
        with stream.guard:
            if stream.state.phase not in (Phase.IN_USE, Phase.IDLE) or not when():
                return
            stream.state.move(event)  # no request can begin now
            with self._lock:
                del self._streams[stream.number]
                if event is Event.EXPIRE:
                    self._expired[stream.number] = self._clock()
        if stream.done is not None:
            stream.done.finish()
        if stream.thread_left is None:
            self._release(stream)
        else:
            stream.thread_left.add_done_callback(partial(self._release, stream))

    def _release(self, stream: ServerStream) -> None:
        with self._lock:
            database = stream.owner.database
            self._used[database] -= 1
            if not self._used[database]:
                del self._used[database]
            self._count -= 1
        stream.release()

    def _expire(self, stream: ServerStream, limit: float) -> None:
        """Expire a stream if it was idle for ``limit`` seconds."""
        self.end(stream, Event.EXPIRE, when=lambda: stream.was_idle_for(limit, self._clock()))

    # Batons: an id, a counter, and a MAC of both and of the owner.

    def _baton(self, number: bytes, count: int, owner: Owner) -> str:
        head = number + count.to_bytes(_COUNT, "big")
        mac = hmac.digest(self._key, head + "\0".join(owner).encode(), "sha256")
        return urlsafe_b64encode(head + mac).decode("ascii")

    def _parse(self, baton: str, owner: Owner) -> tuple[bytes, int]:
        """Return the id and the counter of a baton; raise `Refused` if it is not one of ``owner``."""
        try:
            head = urlsafe_b64decode(baton.encode("ascii"))[: _ID + _COUNT]
        except ValueError:
            raise _invalid() from None
        number, count = head[:_ID], int.from_bytes(head[_ID:], "big")
        if not hmac.compare_digest(baton, self._baton(number, count, owner)):
            raise _invalid()
        return number, count

    # Sweeping.

    def sweep(self) -> None:
        """End what is overdue: idle streams, and transactions with their running statements."""
        now = self._clock()
        with self._lock:
            streams = list(self._streams.values())
            oldest = now - TOMBSTONE
            for number in list(takewhile(lambda number: self._expired[number] < oldest, self._expired)):
                del self._expired[number]  # the first ones: they are in order of time
        for stream in streams:
            if stream.next_deadline() <= now and not _try(self._sweep_one, stream, now):
                _try(self._end_idle, stream)

    def _sweep_one(self, stream: ServerStream, now: float) -> None:
        if stream.state.phase is Phase.IN_USE:
            stream.enforce(now)
            return
        if stream.was_idle_for(self._longest_idle, now):
            self._expire(stream, self._longest_idle)
            return
        with stream.guard:
            stream.end_window_if_due(now)
            if stream.state.phase is Phase.IDLE and stream.overdue(now):
                stream.time_out()

    def next_deadline(self) -> float | None:
        """Return when the next stream becomes overdue; None if none is open."""
        with self._lock:
            streams = list(self._streams.values())
        return min((stream.next_deadline() for stream in streams), default=None)

    def end_all(
        self, of: OpenDatabase | None = None, *, at: OpenDatabase | Replica | None = None, error: Error | None = None
    ) -> None:
        """End every stream, or those of one database, or those at one place.

        Running statements are interrupted, except a COMMIT, and fail with ``error`` if it is given, as do further ones
        of their requests. Open transactions are rolled back.
        """
        with self._lock:
            streams = [
                stream
                for stream in self._streams.values()
                if of in (None, stream.database) and at in (None, stream.place)
            ]
        for stream in streams:
            stream.cancel(error)
            _try(ServerStream.end_if_waiting, stream)
            _try(self._end_idle, stream)

    def _end_idle(self, stream: ServerStream) -> None:
        self.end(stream, Event.LOSE, when=lambda: stream.state.phase is Phase.IDLE)


def _try(do: Callable[..., None], stream: ServerStream, *arguments: Any) -> bool:
    """Call a function with one of many streams. Log errors: they must not keep the others waiting."""
    try:
        do(stream, *arguments)
    except Exception:
        log.exception("a stream could not be rolled back or ended")
        return False
    return True


def _invalid() -> Refused:
    return Refused(400, faults.BATON_INVALID, plain=True)
