"""Password hashes, and rate limits on attempts."""

from __future__ import annotations

import hmac
import threading
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import scrypt

from pipemagic.service.responses import Refused

SHORTEST, LONGEST = 8, 1024

_COST, _BLOCK, _PARALLEL = 2**14, 8, 5
"""16 MiB and some 0.2 s for each check of a password: as OWASP recommends, and possible on a small machine."""
_SALT, _KEY = 16, 32

_KEYS = 10_000  # of a throttle; beyond that the oldest are removed


class Passwords:
    """Hashes and compares passwords. ``random(n)`` returns n unguessable bytes.

    Only two are processed at a time, and only a few may wait: more would take memory and threads from SQL.
    """

    def __init__(self, random: Callable[[int], bytes], *, at_once: int = 2, waiting: int = 6) -> None:
        self._random = random
        self._door = threading.BoundedSemaphore(at_once + waiting)
        self._desks = threading.Semaphore(at_once)
        self._dummy_hash = _stored(bytes(_SALT), bytes(_KEY))

    def hash(self, password: str) -> str:
        """Return the hash of a new password; raise `Refused`: 400 for its length, 429 if too many are waiting."""
        if not SHORTEST <= len(password) <= LONGEST:
            raise Refused(400, f"a password has between {SHORTEST} and {LONGEST} characters")
        salt = self._random(_SALT)
        with self._at_desk():
            key = _derive(password, salt, _COST, _BLOCK, _PARALLEL)
        return _stored(salt, key)

    def matches(self, password: str, stored: str | None) -> bool:
        """Return True if a password matches its hash; None never does, after the same time. Raise 429 as `hash`."""
        _, cost, block, parallel, salt, key = (stored or self._dummy_hash).split("$")
        with self._at_desk():
            made = _derive(password[:LONGEST], b64decode(salt), int(cost), int(block), int(parallel))
        return hmac.compare_digest(made, b64decode(key)) and stored is not None

    @contextmanager
    def _at_desk(self) -> Iterator[None]:
        if not self._door.acquire(blocking=False):
            raise Refused(429, "too many people are logging in at this moment; try again in a second")
        try:
            with self._desks:
                yield
        finally:
            self._door.release()


def _stored(salt: bytes, key: bytes) -> str:
    return f"scrypt${_COST}${_BLOCK}${_PARALLEL}${b64encode(salt).decode()}${b64encode(key).decode()}"


def _derive(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    return scrypt(
        password.encode("utf-8", "surrogatepass"), salt=salt, n=cost, r=block, p=parallel, dklen=_KEY,
        maxmem=256 * cost * block,
    )  # fmt: skip


class RateLimiter:
    """Allows each key ``burst`` attempts at once, then one every ``every`` seconds of the clock."""

    def __init__(self, clock: Callable[[], float], *, burst: int, every: float) -> None:
        self._clock, self._burst, self._every = clock, burst, every
        self._lock = threading.Lock()
        self._full_at: OrderedDict[str, float] = OrderedDict()  # when each key has all its attempts again

    def take(self, key: str) -> None:
        """Use up one attempt; raise `Refused` with 429 if none is left."""
        with self._lock:
            now = self._clock()
            full_at = max(self._full_at.pop(key, now), now) + self._every
            wait = full_at - now - self._burst * self._every
            if wait > 0:
                full_at -= self._every
            self._full_at[key] = full_at
            while len(self._full_at) > _KEYS:
                self._full_at.popitem(last=False)
        if wait > 0:
            raise Refused(429, f"too many attempts; try again in {max(1, round(wait))} s")

    def forget(self, key: str) -> None:
        """Restore all attempts of a key."""
        with self._lock:
            self._full_at.pop(key, None)
