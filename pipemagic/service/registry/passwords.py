"""Passwords: how they are stored, and how fast they may be tried."""

from __future__ import annotations

import hmac
import threading
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import scrypt

from pipemagic.service.http import Refused

SHORTEST, LONGEST = 8, 1024

_COST, _BLOCK, _PARALLEL = 2**14, 8, 5
"""16 MiB and some 0.2 s for each look at a password: as strong as OWASP asks for, and a small machine can do it."""
_SALT, _KEY = 16, 32

_KEYS = 10_000  # of a throttle; beyond that the oldest are forgotten


class Passwords:
    """Hashes and compares. ``random(n)`` gives n unguessable bytes.

    Only two are worked on at once, and only a few wait: whoever sends more must not take the memory and the
    threads of those who run SQL.
    """

    def __init__(self, random: Callable[[int], bytes], *, at_once: int = 2, waiting: int = 6) -> None:
        self._random = random
        self._door = threading.BoundedSemaphore(at_once + waiting)
        self._desks = threading.Semaphore(at_once)
        self._nobody = _stored(bytes(_SALT), bytes(_KEY))

    def hash(self, password: str) -> str:
        """Give what is stored of a new password; 400 if it is too short or too long, 429 in a crowd."""
        if not SHORTEST <= len(password) <= LONGEST:
            raise Refused(400, f"a password has between {SHORTEST} and {LONGEST} characters")
        salt = self._random(_SALT)
        with self._at_desk():
            key = _derive(password, salt, _COST, _BLOCK, _PARALLEL)
        return _stored(salt, key)

    def matches(self, password: str, stored: str | None) -> bool:
        """Tell whether a password is the stored one; with None it takes as long and is not. 429 in a crowd."""
        _, cost, block, parallel, salt, key = (stored or self._nobody).split("$")
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


class Throttle:
    """Lets each key try ``burst`` times at once, and then once in ``every`` seconds of the clock."""

    def __init__(self, clock: Callable[[], float], *, burst: int, every: float) -> None:
        self._clock, self._burst, self._every = clock, burst, every
        self._lock = threading.Lock()
        self._full_at: OrderedDict[str, float] = OrderedDict()  # when each key has all its tries again

    def take(self, key: str) -> None:
        """Use up one try; 429 if there is none left."""
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
        """Give a key all its tries back."""
        with self._lock:
            self._full_at.pop(key, None)
