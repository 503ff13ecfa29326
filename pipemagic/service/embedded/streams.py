"""Open streams: batons, the two windows, and who is told what when one is over.

Times are of the service's clock (seconds, monotonic). The windows are judged twice: when a request arrives,
so that they are exact, and by a sweeper, so that locks are freed and statements interrupted without one.
"""

from __future__ import annotations

import hmac
import logging
import math
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, NamedTuple

from pipemagic.hrana import faults
from pipemagic.hrana.stream import (
    IDLE_LIMIT,
    Phase,
    Tx,
)
from pipemagic.service.embedded.primaries import OpenDatabase
from pipemagic.service.embedded.replication.replica import Replica
from pipemagic.service.embedded.stream import ServerStream
from pipemagic.service.http import Refused
from pipemagic.service.limits import Limits
from pipemagic.service.turns import Turn

log = logging.getLogger(__name__)

_ID, _COUNT, _SEAL = 12, 4, 32


class Census(NamedTuple):
    """How many streams are open, and how many of them have a transaction open."""

    open: int
    transactions: int


class StreamTable:
    """All streams of the service."""

    def __init__(self, clock: Callable[[], float], random: Callable[[int], bytes], limits: Limits) -> None:
        self._clock, self._random, self._limits = clock, random, limits
        self._key = random(32)
        self._lock = threading.Lock()
        self._streams: dict[bytes, ServerStream] = {}
        self._expired: dict[bytes, float] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def census(self) -> Census:
        """Count the streams."""
        with self._lock:
            streams = list(self._streams.values())
        return Census(len(streams), sum(stream.transaction.state is Tx.OPEN for stream in streams))

    def open(
        self, database: OpenDatabase, owner: tuple[str, str], place: OpenDatabase | Replica | None = None
    ) -> ServerStream:
        """Begin a stream, in use, for ``owner``: the database's id and the token's subject.

        ``place`` is the primary (default) or one of its replicas.
        """
        stream = ServerStream(self._random(_ID), database, place or database, owner, self._clock())
        with self._lock:
            if len(self._streams) >= self._limits.streams:
                raise Refused(429, f"Too many open streams ({self._limits.streams}); close those that are not needed")
            self._streams[stream.number] = stream
        return stream

    def resume(self, baton: str, owner: tuple[str, str]) -> ServerStream:
        """Take the stream that a baton stands for into use; Refused for every other baton."""
        number, count = self._unseal(baton, owner)
        with self._lock:
            stream = self._streams.get(number)
            expired = number in self._expired
        if stream is None:
            raise _expired() if expired else _invalid()
        with stream.guard:
            if stream.answers != count or stream.life.phase is Phase.IN_USE:
                raise Refused(400, faults.BATON_USED, plain=True)
            if stream.life.phase is not Phase.IDLE:
                raise _expired() if stream.life.phase is Phase.EXPIRED else _invalid()
            if self._clock() >= stream.idle_since + IDLE_LIMIT:
                late = True
            else:
                late = False
                stream.life.move("begin")
        if late:
            self._expire(stream)
            raise _expired()
        return stream

    def promise(self, stream: ServerStream) -> str:
        """Give the baton that is good once the answer under way is over; who sends it earlier has to wait."""
        with stream.guard:
            stream.answers += 1
            stream.over = Turn(math.inf)
        return self._seal(stream)

    def finish(self, stream: ServerStream) -> str | None:
        """Give the new baton, or the promised one, after an answer; the idle time starts when that was `sent`.

        None for a stream that was abandoned, which ends. It is told under the guard: who abandons it a moment later
        finds it idle, and ends it.
        """
        with stream.guard:
            gone = stream.gone
            if not gone:
                if stream.over is None:
                    stream.answers += 1
                stream.idle_since = math.inf
                stream.life.move("finish")
        if gone:
            self.destroy(stream)
            return None
        self._tell_who_waits(stream)
        return self._seal(stream)

    def sent(self, stream: ServerStream, answer: int) -> None:
        """Begin the idle time: the last byte of the answer with this number is on its way."""
        with stream.guard:
            if stream.answers == answer and stream.life.phase is Phase.IDLE:
                stream.idle_since = self._clock()

    def under_way(self, baton: str, owner: tuple[str, str]) -> Turn | None:
        """Give the cursor that this baton continues and that is not over yet, as a Turn to wait for."""
        number, count = self._unseal(baton, owner)
        with self._lock:
            stream = self._streams.get(number)
        return stream.over if stream is not None and stream.answers == count else None

    def _tell_who_waits(self, stream: ServerStream) -> None:
        over, stream.over = stream.over, None
        if over is not None:
            over.fire()

    def close(self, stream: ServerStream) -> None:
        """End a stream on purpose."""
        self._end(stream, "close")

    def destroy(self, stream: ServerStream) -> None:
        """End a stream whose request failed as a whole, or whose client is gone."""
        self._end(stream, "lose")

    def _end(self, stream: ServerStream, event: str) -> None:
        with self._lock:
            if self._streams.pop(stream.number, None) is None:
                return
        with stream.guard:
            if stream.life.phase is Phase.IN_USE:
                stream.life.move(event)
        self._tell_who_waits(stream)
        stream.release()

    def _expire(self, stream: ServerStream) -> None:
        with stream.guard:
            if stream.life.phase is not Phase.IDLE or self._clock() < stream.idle_since + IDLE_LIMIT:
                return
            stream.life.move("expire")
        with self._lock:
            self._streams.pop(stream.number, None)
            self._expired[stream.number] = self._clock()
        stream.release()

    # Batons: an id, a counter and a seal over both, the database and the token's subject.

    def _seal(self, stream: ServerStream) -> str:
        head = stream.number + stream.answers.to_bytes(_COUNT, "big")
        return urlsafe_b64encode(head + self._mac(head, stream.owner)).decode("ascii")

    def _mac(self, head: bytes, owner: tuple[str, str]) -> bytes:
        return hmac.digest(self._key, head + "\0".join(owner).encode(), "sha256")

    def _unseal(self, baton: str, owner: tuple[str, str]) -> tuple[bytes, int]:
        try:
            raw = urlsafe_b64decode(baton.encode("ascii"))
        except ValueError:
            raise _invalid() from None
        head, seal = raw[: _ID + _COUNT], raw[_ID + _COUNT :]
        if urlsafe_b64encode(raw).decode("ascii") != baton:
            raise _invalid()  # the decoder passes over characters that are not its own
        if len(seal) != _SEAL or not hmac.compare_digest(seal, self._mac(head, owner)):
            raise _invalid()
        return head[:_ID], int.from_bytes(head[_ID:], "big")

    # Sweeping.

    def sweep(self) -> None:
        """End what is overdue now: idle streams, transactions with what they run."""
        now = self._clock()
        with self._lock:
            streams = list(self._streams.values())
            forget = [number for number, at in self._expired.items() if now > at + self._limits.tombstone]
            for number in forget:
                del self._expired[number]
        for stream in streams:
            if not _tried(self._sweep_one, stream, now):
                _tried(self._end_idle, stream)

    def _sweep_one(self, stream: ServerStream, now: float) -> None:
        if stream.life.phase is Phase.IN_USE:
            stream.enforce(now, self._limits)
            return
        if now >= stream.idle_since + IDLE_LIMIT:
            self._expire(stream)
            return
        with stream.guard:
            if stream.life.phase is Phase.IDLE and stream.overdue(now):
                stream.time_out()

    def next_deadline(self) -> float | None:
        """When the next thing becomes overdue; None if nothing is open."""
        with self._lock:
            streams = list(self._streams.values())
        times = [one.idle_since + IDLE_LIMIT for one in streams if one.life.phase is Phase.IDLE]
        others = [one.next_deadline(self._limits) for one in streams]
        return min(times + [deadline for deadline in others if deadline is not None], default=None)

    def end_all(self, of: OpenDatabase | None = None, *, at: OpenDatabase | Replica | None = None) -> None:
        """End every stream, or those of one database, or those at one place.

        What runs is interrupted, what is open rolled back.
        """
        with self._lock:
            streams = [one for one in self._streams.values() if of in (None, one.database) and at in (None, one.place)]
        for stream in streams:
            stream.abandon()
            _tried(ServerStream.end_if_paused, stream)
            _tried(self._end_idle, stream)

    def _end_idle(self, stream: ServerStream) -> None:
        with stream.guard:
            if stream.life.phase is not Phase.IDLE:
                return
            stream.life.move("begin")  # now nobody else can
        self.close(stream)


def _tried(do: Callable[..., None], stream: ServerStream, *arguments: Any) -> bool:
    """Do something with one of many streams; an error is logged, since the others must not wait for this one."""
    try:
        do(stream, *arguments)
    except Exception:
        log.exception("a stream could not be rolled back or ended")
        return False
    return True


def _expired() -> Refused:
    return Refused(400, "The stream has expired due to inactivity", faults.STREAM_EXPIRED)


def _invalid() -> Refused:
    return Refused(400, faults.BATON_INVALID, plain=True)
