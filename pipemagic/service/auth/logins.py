"""Signing up and logging in with a username and a password."""

from __future__ import annotations

from collections.abc import Callable

from pipemagic.service.auth.passwords import Passwords, RateLimiter
from pipemagic.service.auth.tokens import Tokens
from pipemagic.service.registry.accounts import Account
from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.names import SLUG_LIMIT
from pipemagic.service.responses import Refused


class Logins:
    """Exchanges passwords for tokens. ``signup``: whether anybody may create an account.

    ``clock`` returns monotonic seconds.
    """

    def __init__(
        self, catalog: Catalog, tokens: Tokens, *, clock: Callable[[], float], random: Callable[[int], bytes],
        signup: bool = True,
    ) -> None:  # fmt: skip
        self._catalog, self._tokens, self._signup = catalog, tokens, signup
        self._passwords = Passwords(random)
        self._attempts = RateLimiter(clock, burst=5, every=12.0)  # for each name; a successful login is not counted
        self._newcomers = RateLimiter(clock, burst=300, every=2.0)  # for all together: a lecture may sign up at once

    def sign_up(self, username: str, password: str) -> tuple[Account, str]:
        """Create an account with its personal organization, and log it in; return both account and token.

        Raise `Refused`: 403 (signup is off), 400 or 422 (invalid name or password), 409 (the name is taken) or 429.
        """
        if not self._signup:
            raise Refused(403, "this service lets nobody sign up; ask the one who runs it for an account")
        self._newcomers.take("")
        return self._log_in(self.open_account(username, password))

    def open_account(self, username: str, password: str) -> Account:
        """Create an account even if signup is off; raise `Refused` as `sign_up` does."""
        return self._catalog.open_account(username, self._passwords.hash(password))

    def log_in(self, username: str, password: str) -> tuple[Account, str]:
        """Return the account and a new token; raise `Refused`: 401 for a wrong password, 429 after many attempts.

        An unknown name has the same error as a wrong password, after the same time.
        """
        self._check(username, password)
        account = self._catalog.accounts.find(username)
        assert account is not None  # its password was just checked; accounts are not deleted
        return self._log_in(account)

    def log_out(self, account: Account) -> float:
        """End all logins of an account and return the time (Unix seconds); its platform tokens stay valid."""
        return self._catalog.accounts.remove_logins(account)

    def change_password(self, account: Account, password: str, current: str) -> None:
        """Replace a password, or set the first one, and end all logins; raise 401 if ``current`` is wrong."""
        if self._catalog.accounts.password_hash(account) is not None:
            self._check(account.username, current)
        self.reset_password(account, password)

    def reset_password(self, account: Account, password: str) -> None:
        """Set a password without the current one, and end all logins."""
        self._catalog.accounts.set_password(account, self._passwords.hash(password))

    def _check(self, username: str, password: str) -> None:
        self._attempts.take(username[: SLUG_LIMIT + 1])  # the key is kept, and no name is longer
        account = self._catalog.accounts.find(username)
        stored = None if account is None else self._catalog.accounts.password_hash(account)
        if not self._passwords.matches(password, stored):
            raise Refused(401, "the username or the password is wrong", "UNAUTHORIZED")
        self._attempts.forget(username)

    def _log_in(self, account: Account) -> tuple[Account, str]:
        return account, self._tokens.issue_login(account)
