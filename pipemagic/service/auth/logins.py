"""Sign-up and log-in with a username and a password: scrypt hashes, and rate limits on attempts."""

from __future__ import annotations

import hmac
import ipaddress
import math
import threading
from base64 import b64decode, b64encode
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from hashlib import scrypt

from pipemagic.service.auth.tokens import TokenAuthority
from pipemagic.service.catalog.accounts import AccountRecord
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.catalog.names import SLUG_LIMIT
from pipemagic.service.executor import Steps, Waiter
from pipemagic.service.responses import Refused

SHORTEST, LONGEST = 8, 1024  # characters of a password

_COST, _BLOCK, _PARALLEL = 2**14, 8, 5
"""Each check of a password takes 16 MiB and about 0.2 s, as OWASP recommends."""
_SALT, _KEY = 16, 32

_AT_ONCE = 2
"""More passwords at a time would take memory and processor time from SQL."""
_BURST = 300  # attempts of one network at once, all of which may wait: a class behind one address logs in at once
_MOST_KEYS = 10_000  # of a rate limiter; beyond that the oldest are removed


class Logins:
    """Exchanges passwords for tokens. If ``signup`` is true, anyone can create an account.

    ``clock`` returns monotonic seconds; ``network`` is that of the client (`network_of`). Attempts are limited for each
    name from a network, so that wrong passwords from elsewhere do not lock the owner out, and for each network.
    """

    def __init__(
        self, catalog: Catalog, tokens: TokenAuthority, *, clock: Callable[[], float], random: Callable[[int], bytes],
        signup: bool = False,
    ) -> None:  # fmt: skip
        self._catalog, self._tokens, self._signup = catalog, tokens, signup
        self._random, self._slots = random, FairSemaphore(_AT_ONCE, _BURST)
        self._dummy_hash = _with_key(_settings(bytes(_SALT)), bytes(_KEY))
        self._by_name = RateLimiter(clock, burst=5, every=12.0)
        self._by_network = RateLimiter(clock, burst=_BURST, every=2.0)

    def sign_up(self, username: str, password: str, network: str) -> Steps[str]:
        """Create an account with its personal organization, and log it in; return the token.

        Raise `Refused`: 403 (signup is off), 400 or 422 (invalid name or password), 409 (the name is taken) or 429.
        """
        if not self._signup:
            raise Refused(403, "sign-up is off at this service; ask its operator for an account")
        self._by_network.take(network)
        return self._tokens.issue_login((yield from self.open_account(username, password, network)))

    def open_account(self, username: str, password: str, network: str) -> Steps[AccountRecord]:
        """Create an account even if signup is off; raise `Refused` as `sign_up` does."""
        return self._catalog.open_account(username, (yield from self._hash(password, network)))

    def log_in(self, username: str, password: str, network: str) -> Steps[str]:
        """Return a new token; raise `Refused`: 401 for a wrong password, 429 after many attempts.

        An unknown name has the same error as a wrong password, after the same time.
        """
        return self._tokens.issue_login((yield from self._check(username, password, network)))

    def change_password(self, account: AccountRecord, password: str, current: str, network: str) -> Steps[None]:
        """Replace a password, or set the first one, and end all logins; raise 401 if ``current`` is wrong."""
        if self._catalog.accounts.password_hash(account) is not None:
            yield from self._check(account.username, current, network)
        yield from self.reset_password(account, password, network)

    def reset_password(self, account: AccountRecord, password: str, network: str) -> Steps[None]:
        """Set a password without the current one, and end all logins."""
        self._catalog.accounts.set_password(account, (yield from self._hash(password, network)))

    def _check(self, username: str, password: str, network: str) -> Steps[AccountRecord]:
        attempt = network, username[: SLUG_LIMIT + 1]  # the key is kept, and no name is longer
        self._by_network.take(network)
        try:
            self._by_name.take(attempt)
        except Refused:
            self._by_network.refund(network)  # repeated attempts must not block others in this network
            raise
        account = self._catalog.accounts.find(username)
        stored = None if account is None else self._catalog.accounts.password_hash(account)
        try:
            matches = yield from self._matches(password, stored or self._dummy_hash, network)
        except Refused:  # too many are waiting: the password was not checked
            self._by_name.refund(attempt)
            self._by_network.refund(network)
            raise
        if account is None or stored is None or not matches:
            raise Refused(401, "wrong username or password", "UNAUTHORIZED")
        self._by_name.reset(attempt)
        self._by_network.refund(network)
        return account

    def _hash(self, password: str, network: str) -> Steps[str]:
        """Return the hash of a new password; raise `Refused`: 400 for its length, 429 if too many are waiting."""
        if not SHORTEST <= len(password) <= LONGEST:
            raise Refused(400, f"a password must have between {SHORTEST} and {LONGEST} characters")
        settings = _settings(self._random(_SALT))
        return (yield from self._derive(password, settings, network))

    def _matches(self, password: str, stored: str, network: str) -> Steps[bool]:
        """Return True if a password matches a hash; raise `Refused` (429) if too many are waiting."""
        settings = stored.rpartition("$")[0]
        return hmac.compare_digest((yield from self._derive(password[:LONGEST], settings, network)), stored)

    def _derive(self, password: str, settings: str, network: str) -> Steps[str]:
        waiter = self._slots.acquire(network)
        if not waiter.granted:
            yield waiter
        try:
            _, cost, block, parallel, salt = settings.split("$")
            key = scrypt(
                password.encode("utf-8", "surrogatepass"), salt=b64decode(salt), n=int(cost), r=int(block),
                p=int(parallel), dklen=_KEY, maxmem=256 * int(cost) * int(block),
            )  # fmt: skip
            return _with_key(settings, key)
        finally:
            self._slots.release()


def _settings(salt: bytes) -> str:
    """Return the settings of a new hash; a stored hash consists of its settings and its key."""
    return f"scrypt${_COST}${_BLOCK}${_PARALLEL}${b64encode(salt).decode()}"


def _with_key(settings: str, key: bytes) -> str:
    return f"{settings}${b64encode(key).decode()}"


def network_of(address: str) -> str:
    """Return the network of a client, for rate limits: its address, or the first 64 bits of an IPv6 address."""
    with suppress(ValueError):
        ip = ipaddress.IPv6Address(address)
        return str(ip.ipv4_mapped or ipaddress.IPv6Network((int(ip), 64), strict=False))
    return address


class RateLimiter:
    """Limits attempts: each key may have ``burst`` at once, then one every ``every`` seconds of the clock."""

    def __init__(self, clock: Callable[[], float], *, burst: int, every: float) -> None:
        self._clock, self._burst, self._every = clock, burst, every
        self._lock = threading.Lock()
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()  # when each key has all its attempts again

    def take(self, key: Hashable) -> None:
        """Use up one attempt; raise `Refused` with 429 if none is left."""
        with self._lock:
            now = self._clock()
            full_at = max(self._full_at.pop(key, now), now) + self._every
            wait = round(full_at - now - self._burst * self._every, 3)  # sums of fractions are not exact
            self._full_at[key] = full_at if wait <= 0 else full_at - self._every
            if len(self._full_at) > _MOST_KEYS:
                self._full_at.popitem(last=False)
        if wait > 0:
            seconds = math.ceil(wait)
            raise Refused(429, f"too many attempts; try again in {seconds} s", headers={"retry-after": f"{seconds}"})

    def refund(self, key: Hashable) -> None:
        """Restore one attempt of a key, after a successful one."""
        with self._lock:
            if key in self._full_at:
                self._full_at[key] -= self._every

    def reset(self, key: Hashable) -> None:
        """Restore all attempts of a key."""
        with self._lock:
            self._full_at.pop(key, None)


class FairSemaphore:
    """A semaphore that serves client networks in turn. A waiter takes no thread.

    At most ``waiting`` wait for each network, so one network delays another by a single turn.
    """

    def __init__(self, slots: int, waiting: int) -> None:
        self._free, self._most = slots, waiting
        self._lock = threading.Lock()
        self._queues: OrderedDict[str, deque[Waiter]] = OrderedDict()

    def acquire(self, network: str) -> Waiter:
        """Take a slot or a place in the queue; ``granted`` of the waiter shows which. Raise `Refused` with 429."""
        waiter = Waiter(math.inf)
        with self._lock:
            if self._free:
                self._free -= 1
                waiter.granted = True
                return waiter
            queue = self._queues.setdefault(network, deque())
            if len(queue) >= self._most:
                raise Refused(
                    429, "too many log-ins from your address are waiting; try again soon", headers={"retry-after": "5"}
                )
            queue.append(waiter)
        return waiter

    def release(self) -> None:
        """Pass the slot on to the next network."""
        with self._lock:
            if not self._queues:
                self._free += 1
                return
            network, queue = self._queues.popitem(last=False)
            waiter = queue.popleft()
            if queue:
                self._queues[network] = queue
        waiter.granted = True
        waiter.finish()
