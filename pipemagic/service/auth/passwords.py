"""Password hashes: scrypt, with few at a time."""

from __future__ import annotations

import hmac
import math
import threading
from base64 import b64decode, b64encode
from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from hashlib import scrypt

from pipemagic.service.executor import Waiter
from pipemagic.service.responses import Refused

SHORTEST, LONGEST = 8, 1024

_COST, _BLOCK, _PARALLEL = 2**14, 8, 5
"""Each check of a password takes 16 MiB and about 0.2 s, as OWASP recommends."""
_SALT, _KEY = 16, 32


class FairSemaphore:
    """A semaphore that serves client addresses in turn. A waiter takes no thread.

    At most ``waiting`` wait for each address, so one address delays another by a single turn.
    """

    def __init__(self, slots: int, waiting: int) -> None:
        self._free, self._most = slots, waiting
        self._lock = threading.Lock()
        self._queues: OrderedDict[str, deque[Waiter]] = OrderedDict()

    def acquire(self, address: str) -> Waiter:
        """Take a slot or a place in the queue; ``granted`` of the waiter shows which. Raise `Refused` with 429."""
        waiter = Waiter(math.inf)
        with self._lock:
            if self._free:
                self._free -= 1
                waiter.granted = True
                return waiter
            queue = self._queues.setdefault(address, deque())
            if len(queue) >= self._most:
                raise Refused(429, "too many log-ins from your address are waiting; try again soon", retry_after=5)
            queue.append(waiter)
        return waiter

    def release(self) -> None:
        """Pass the slot on to the next address."""
        with self._lock:
            if not self._queues:
                self._free += 1
                return
            address, queue = self._queues.popitem(last=False)
            waiter = queue.popleft()
            if queue:
                self._queues[address] = queue
        waiter.granted = True
        waiter.finish()


class Passwords:
    """Hashes and compares passwords. ``random(n)`` returns n unguessable bytes.

    Both methods are generators that yield a `Waiter` while other passwords are processed: more than two at a time would
    take memory and processor time from SQL. ``address`` is that of the client.
    """

    def __init__(self, random: Callable[[int], bytes], *, slots: int = 2, waiting: int = 100) -> None:
        self._random = random
        self._semaphore = FairSemaphore(slots, waiting)
        self._dummy_hash = _stored(bytes(_SALT), bytes(_KEY))

    def hash(self, password: str, address: str) -> Generator[Waiter, None, str]:
        """Return the hash of a new password; raise `Refused`: 400 for its length, 429 if too many are waiting."""
        if not SHORTEST <= len(password) <= LONGEST:
            raise Refused(400, f"a password has between {SHORTEST} and {LONGEST} characters")
        salt = self._random(_SALT)
        return _stored(salt, (yield from self._derive(address, password, salt, _COST, _BLOCK, _PARALLEL)))

    def matches(self, password: str, stored: str | None, address: str) -> Generator[Waiter, None, bool]:
        """Return True if a password matches; False, after the same time, if ``stored`` is None. Raise 429 as `hash`."""
        _, cost, block, parallel, salt, key = (stored or self._dummy_hash).split("$")
        parameters = b64decode(salt), int(cost), int(block), int(parallel)
        made = yield from self._derive(address, password[:LONGEST], *parameters)
        return hmac.compare_digest(made, b64decode(key)) and stored is not None

    def _derive(
        self, address: str, password: str, salt: bytes, cost: int, block: int, parallel: int
    ) -> Generator[Waiter, None, bytes]:
        waiter = self._semaphore.acquire(address)
        if not waiter.granted:
            yield waiter
        try:
            return _derive(password, salt, cost, block, parallel)
        finally:
            self._semaphore.release()


def _stored(salt: bytes, key: bytes) -> str:
    return f"scrypt${_COST}${_BLOCK}${_PARALLEL}${b64encode(salt).decode()}${b64encode(key).decode()}"


def _derive(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    return scrypt(
        password.encode("utf-8", "surrogatepass"), salt=salt, n=cost, r=block, p=parallel, dklen=_KEY,
        maxmem=256 * cost * block,
    )  # fmt: skip
