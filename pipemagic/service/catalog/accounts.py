"""Accounts, their platform tokens and their logins."""

from __future__ import annotations

from typing import Self

from pipemagic.service.catalog.names import check_slug
from pipemagic.service.catalog.records import Record
from pipemagic.service.catalog.store import Store, new_id
from pipemagic.service.responses import Refused


class AccountRecord(Record, frozen=True):
    """The owner of platform tokens and logins. The operator's account is the first one of a data folder."""

    id: str
    username: str
    operator: bool


class TokenLimits(Record, frozen=True):
    """The limits of a platform token: one organization, or one group of it with some scopes.

    The catalog deletes a token with its organization or group, so a new one of the same name is another one.
    """

    organization: str
    group_id: str | None = None
    group: str | None = None
    scopes: tuple[str, ...] = ()

    @classmethod
    def of_row(
        cls, organization: str | None, group_id: str | None, group: str | None, scopes: str | None
    ) -> Self | None:
        """Return the limits of a row; None for a token without limits."""
        return cls(organization, group_id, group, tuple(scopes.split(",")) if scopes else ()) if organization else None


class PlatformToken(Record, frozen=True):
    """A platform token, without its value. ``created`` is in Unix seconds; ``username`` is the account that has it."""

    id: str
    name: str
    created: float
    username: str
    limits: TokenLimits | None = None


class Credential(Record, frozen=True):
    """A platform token or login: its account, its hash, when it expires (Unix seconds; None: never), its limits."""

    account: AccountRecord
    hash: bytes
    expires: float | None
    limits: TokenLimits | None


_ACCOUNTS = "SELECT id, username, operator FROM accounts"
_LIMITS = 't.organization, t.group_id, (SELECT name FROM "groups" AS g WHERE g.id = t.group_id), t.scopes'


class Accounts:
    """The accounts of the catalog."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # -- accounts

    def operator(self) -> AccountRecord | None:
        """Return the operator's account; None in an empty catalog."""
        return self._store.record(AccountRecord, f"{_ACCOUNTS} WHERE operator")

    def find(self, username: str) -> AccountRecord | None:
        """Return the account of that name, or None."""
        return self._store.record(AccountRecord, f"{_ACCOUNTS} WHERE username = ?", (username,))

    def create(self, username: str, password_hash: str | None = None) -> AccountRecord:
        """Add an account; raise `Refused`: 400 or 422 for an invalid name, 409 if it is taken.

        An account without a password cannot be used to log in.
        """
        check_slug(username, "user")
        account = AccountRecord(new_id(), username, operator=self.operator() is None)
        with self._store.change() as run:
            if run("SELECT 1 FROM accounts WHERE username = ?", (username,)):
                raise Refused(409, f"the username {username} is already taken")
            run("INSERT INTO accounts (id, username, created, operator, password) VALUES (?, ?, ?, ?, ?)",
                (account.id, username, self._store.now(), int(account.operator), password_hash))  # fmt: skip
        return account

    def password_hash(self, account: AccountRecord) -> str | None:
        """Return the stored hash of the account's password; None if it has none."""
        stored: str | None = self._store.rows("SELECT password FROM accounts WHERE id = ?", (account.id,))[0][0]
        return stored

    def set_password(self, account: AccountRecord, password_hash: str) -> None:
        """Replace the password, and end all logins."""
        with self._store.change() as run:
            run("UPDATE accounts SET password = ? WHERE id = ?", (password_hash, account.id))
            run("DELETE FROM logins WHERE account = ?", (account.id,))

    # -- credentials

    def credential(self, token_hash: bytes) -> Credential | None:
        """Return the platform token or login with that SHA-256; None if there is none, or it has expired."""
        rows = self._store.rows(
            f"SELECT a.id, a.username, a.operator, t.hash, t.expires, {_LIMITS} FROM"
            " (SELECT account, hash, NULL AS expires, organization, group_id, scopes FROM platform_tokens"
            "  WHERE hash = ?1 UNION ALL"
            "  SELECT account, hash, expires, NULL, NULL, NULL FROM logins WHERE hash = ?1 AND expires > ?2)"
            " AS t JOIN accounts AS a ON a.id = t.account", (token_hash, self._store.now()),
        )  # fmt: skip
        for account_id, username, operator, stored, expires, *limits in rows:
            account = AccountRecord(account_id, username, bool(operator))
            return Credential(account, stored, expires, TokenLimits.of_row(*limits))
        return None

    def add_login(self, account: AccountRecord, token_hash: bytes, expires: float) -> None:
        """Record a login; remove those that have expired."""
        with self._store.change() as run:
            run("DELETE FROM logins WHERE expires <= ?", (self._store.now(),))
            run("INSERT INTO logins VALUES (?, ?, ?)", (token_hash, account.id, expires))

    def remove_logins(self, account: AccountRecord) -> float:
        """End all logins of the account, and return the time in Unix seconds."""
        with self._store.change() as run:
            run("DELETE FROM logins WHERE account = ?", (account.id,))
        return self._store.now()

    # -- platform tokens

    def tokens(self, account: AccountRecord | None = None, *, organization: str | None = None) -> list[PlatformToken]:
        """Return the platform tokens of an account (None: of all), oldest first; with ``organization``, those of it."""
        rows = self._store.rows(
            f"SELECT t.id, t.name, t.created, a.username, {_LIMITS} FROM platform_tokens AS t"
            " JOIN accounts AS a ON a.id = t.account"
            " WHERE (?1 IS NULL OR t.account = ?1) AND (?2 IS NULL OR t.organization = ?2) ORDER BY t.created, t.name",
            (account and account.id, organization),
        )
        return [
            PlatformToken(token_id, name, created, username, TokenLimits.of_row(*limits))
            for token_id, name, created, username, *limits in rows
        ]

    def add_token(
        self, account: AccountRecord, name: str, token_hash: bytes, limits: TokenLimits | None = None
    ) -> PlatformToken:
        """Record a new token; raise `Refused` (409) if the account has one of that name."""
        token = PlatformToken(new_id(), name, self._store.now(), account.username, limits)
        with self._store.change() as run:
            if run("SELECT 1 FROM platform_tokens WHERE account = ? AND name = ?", (account.id, name)):
                raise Refused(409, f"token with name {name} already exists")
            bound = (limits.organization, limits.group_id, ",".join(limits.scopes) or None) if limits else (None,) * 3
            run("INSERT INTO platform_tokens (id, account, name, hash, created, organization, group_id, scopes)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (token.id, account.id, name, token_hash, token.created, *bound))  # fmt: skip
        return token

    def remove_token(self, token_id: str) -> None:
        """Revoke a token, if it still exists."""
        with self._store.change() as run:
            run("DELETE FROM platform_tokens WHERE id = ?", (token_id,))
