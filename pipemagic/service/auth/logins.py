"""Sign-up and log-in with a username and a password, and rate limits on attempts."""

from __future__ import annotations

import ipaddress
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable
from contextlib import suppress
from typing import TypeVar

from pipemagic.service.auth.passwords import Passwords
from pipemagic.service.auth.tokens import Tokens
from pipemagic.service.catalog.accounts import Account
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.catalog.names import SLUG_LIMIT
from pipemagic.service.executor import Waiter
from pipemagic.service.responses import Refused

T = TypeVar("T")
Steps = Generator[Waiter, None, T]
"""Work that yields a `Waiter` while other passwords are processed."""

_MOST_KEYS = 10_000  # of a rate limiter; beyond that the oldest are removed


class Logins:
    """Exchanges passwords for tokens. If ``signup`` is true, everybody can create an account.

    ``clock`` returns monotonic seconds. ``address`` is the IP address of the client. Attempts are limited for each name
    at an address, so that wrong passwords from elsewhere do not lock the owner out, and for each address.
    """

    def __init__(
        self, catalog: Catalog, tokens: Tokens, *, clock: Callable[[], float], random: Callable[[int], bytes],
        signup: bool = False,
    ) -> None:  # fmt: skip
        self._catalog, self._tokens, self._signup = catalog, tokens, signup
        self._passwords = Passwords(random)
        self._by_name = RateLimiter(clock, burst=5, every=12.0)
        self._by_address = RateLimiter(clock, burst=300, every=2.0)  # a class behind one address can log in at once

    def sign_up(self, username: str, password: str, address: str) -> Steps[str]:
        """Create an account with its personal organization, and log it in; return the token.

        Raise `Refused`: 403 (signup is off), 400 or 422 (invalid name or password), 409 (the name is taken) or 429.
        """
        if not self._signup:
            raise Refused(403, "sign-up is off at this service; ask its operator for an account")
        self._by_address.take(_network(address))
        return self._tokens.issue_login((yield from self.open_account(username, password, address)))

    def open_account(self, username: str, password: str, address: str) -> Steps[Account]:
        """Create an account even if signup is off; raise `Refused` as `sign_up` does."""
        return self._catalog.open_account(username, (yield from self._passwords.hash(password, _network(address))))

    def log_in(self, username: str, password: str, address: str) -> Steps[str]:
        """Return a new token; raise `Refused`: 401 for a wrong password, 429 after many attempts.

        An unknown name has the same error as a wrong password, after the same time.
        """
        return self._tokens.issue_login((yield from self._check(username, password, address)))

    def log_out(self, account: Account) -> float:
        """End all logins of an account and return the time (Unix seconds); its platform tokens stay valid."""
        return self._catalog.accounts.remove_logins(account)

    def change_password(self, account: Account, password: str, current: str, address: str) -> Steps[None]:
        """Replace a password, or set the first one, and end all logins; raise 401 if ``current`` is wrong."""
        if self._catalog.accounts.password_hash(account) is not None:
            yield from self._check(account.username, current, address)
        yield from self.reset_password(account, password, address)

    def reset_password(self, account: Account, password: str, address: str) -> Steps[None]:
        """Set a password without the current one, and end all logins."""
        self._catalog.accounts.set_password(account, (yield from self._passwords.hash(password, _network(address))))

    def _check(self, username: str, password: str, address: str) -> Steps[Account]:
        network = _network(address)
        attempt = network, username[: SLUG_LIMIT + 1]  # the key is kept, and no name is longer
        self._by_address.take(network)
        try:
            self._by_name.take(attempt)
        except Refused:
            self._by_address.refund(network)  # repeated attempts must not block others behind this address
            raise
        account = self._catalog.accounts.find(username)
        stored = None if account is None else self._catalog.accounts.password_hash(account)
        try:
            matches = yield from self._passwords.matches(password, stored, network)
        except Refused:  # too many are waiting: the password was not checked
            self._by_name.refund(attempt)
            self._by_address.refund(network)
            raise
        if account is None or not matches:
            raise Refused(401, "the username or the password is wrong", "UNAUTHORIZED")
        self._by_name.reset(attempt)
        self._by_address.refund(network)
        return account


def _network(address: str) -> str:
    """Return the key of a client in a rate limit: its address, or the /64 network of an IPv6 address."""
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
            wait = full_at - now - self._burst * self._every
            self._full_at[key] = full_at if wait <= 0 else full_at - self._every
            if len(self._full_at) > _MOST_KEYS:
                self._full_at.popitem(last=False)
        if wait > 0:
            seconds = math.ceil(wait)
            raise Refused(429, f"too many attempts; try again in {seconds} s", retry_after=seconds)

    def refund(self, key: Hashable) -> None:
        """Restore one attempt of a key, after a successful one."""
        with self._lock:
            if key in self._full_at:
                self._full_at[key] -= self._every

    def reset(self, key: Hashable) -> None:
        """Restore all attempts of a key."""
        with self._lock:
            self._full_at.pop(key, None)
