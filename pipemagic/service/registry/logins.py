"""Signing up and logging in with a username and a password."""

from __future__ import annotations

from collections.abc import Callable

from pipemagic.service.http import Refused
from pipemagic.service.registry.accounts import Account
from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.names import SLUG_LIMIT
from pipemagic.service.registry.passwords import Passwords, Throttle
from pipemagic.service.registry.tokens import Tokens


class Logins:
    """Turns passwords into tokens. ``signup`` says whether strangers may make themselves an account.

    ``clock`` gives seconds that only grow.
    """

    def __init__(
        self, catalog: Catalog, tokens: Tokens, *, clock: Callable[[], float], random: Callable[[int], bytes],
        signup: bool = True,
    ) -> None:  # fmt: skip
        self._catalog, self._tokens, self._signup = catalog, tokens, signup
        self._passwords = Passwords(random)
        self._attempts = Throttle(clock, burst=5, every=12.0)  # for each name; a login that succeeds is not counted
        self._newcomers = Throttle(clock, burst=300, every=2.0)  # of all: a whole lecture may sign up at once

    def sign_up(self, username: str, password: str) -> tuple[Account, str]:
        """Make an account with its personal organization, and log it in; gives the token, too.

        Refused with 403 (strangers may not), 400 or 422 (an unfit name or password), 409 (taken) or 429.
        """
        if not self._signup:
            raise Refused(403, "this service lets nobody sign up; ask the one who runs it for an account")
        self._newcomers.take("")
        return self._log_in(self.open_account(username, password))

    def open_account(self, username: str, password: str) -> Account:
        """Make an account, whether strangers may or not; refused as by `sign_up`."""
        return self._catalog.open_account(username, self._passwords.hash(password))

    def log_in(self, username: str, password: str) -> tuple[Account, str]:
        """Give the account and a new token; 401 if name and password do not belong together, 429 after many tries.

        A name that does not exist is answered like a wrong password, in words and in time.
        """
        self._check(username, password)
        account = self._catalog.accounts.find(username)
        assert account is not None  # its password was just seen; accounts are not deleted
        return self._log_in(account)

    def log_out(self, account: Account) -> float:
        """End all logins of an account, give the moment (Unix seconds); its platform tokens stay."""
        return self._catalog.accounts.remove_logins(account)

    def change_password(self, account: Account, password: str, current: str) -> None:
        """Replace a password, or set the first one; ends all logins. 401 if ``current`` is wrong."""
        if self._catalog.accounts.password_hash(account) is not None:
            self._check(account.username, current)
        self.reset_password(account, password)

    def reset_password(self, account: Account, password: str) -> None:
        """Set a password without the current one; ends all logins."""
        self._catalog.accounts.set_password(account, self._passwords.hash(password))

    def _check(self, username: str, password: str) -> None:
        self._attempts.take(username[: SLUG_LIMIT + 1])  # it is remembered, and nobody has a longer name
        account = self._catalog.accounts.find(username)
        stored = None if account is None else self._catalog.accounts.password_hash(account)
        if not self._passwords.matches(password, stored):
            raise Refused(401, "the username or the password is wrong", "UNAUTHORIZED")
        self._attempts.forget(username)

    def _log_in(self, account: Account) -> tuple[Account, str]:
        return account, self._tokens.issue_login(account)
