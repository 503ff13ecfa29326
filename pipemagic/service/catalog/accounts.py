"""Accounts, their platform tokens and their logins."""

from __future__ import annotations

from pipemagic.service.catalog.names import check_slug
from pipemagic.service.catalog.records import Record
from pipemagic.service.catalog.store import Store, new_id
from pipemagic.service.responses import Refused


class AccountRecord(Record, frozen=True):
    """The owner of platform tokens and logins. The operator's account is the first one of a data folder."""

    id: str
    username: str
    operator: bool


class PlatformToken(Record, frozen=True):
    """A platform token, without its value. ``created`` is in Unix seconds."""

    id: str
    name: str
    created: float


class Credential(Record, frozen=True):
    """A platform token or login: its account, its hash, and when it expires (Unix seconds; None: never)."""

    account: AccountRecord
    hash: bytes
    expires: float | None


_ACCOUNTS = "SELECT id, username, operator FROM accounts"


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
            "SELECT a.id, a.username, a.operator, c.hash, c.expires FROM"
            " (SELECT account, hash, NULL AS expires FROM platform_tokens WHERE hash = ?1"
            "  UNION ALL SELECT account, hash, expires FROM logins WHERE hash = ?1 AND expires > ?2) AS c"
            " JOIN accounts AS a ON a.id = c.account", (token_hash, self._store.now()),
        )  # fmt: skip
        for account_id, username, operator, stored, expires in rows:
            return Credential(AccountRecord(account_id, username, bool(operator)), stored, expires)
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

    def tokens(self, account: AccountRecord) -> list[PlatformToken]:
        """Return the account's platform tokens, oldest first."""
        query = "SELECT id, name, created FROM platform_tokens WHERE account = ? ORDER BY created, name"
        return self._store.records(PlatformToken, query, (account.id,))

    def add_token(self, account: AccountRecord, name: str, token_hash: bytes) -> PlatformToken:
        """Record a new token; raise `Refused` (409) if the account has one of that name."""
        token = PlatformToken(new_id(), name, self._store.now())
        with self._store.change() as run:
            if run("SELECT 1 FROM platform_tokens WHERE account = ? AND name = ?", (account.id, name)):
                raise Refused(409, f"token with name {name} already exists")
            run("INSERT INTO platform_tokens (id, account, name, hash, created) VALUES (?, ?, ?, ?, ?)",
                (token.id, account.id, name, token_hash, token.created))  # fmt: skip
        return token

    def remove_token(self, account: AccountRecord, name: str) -> None:
        """Revoke a token; raise `Refused` (404) if there is none of that name."""
        with self._store.change() as run:
            if not run("DELETE FROM platform_tokens WHERE account = ? AND name = ? RETURNING 1", (account.id, name)):
                raise Refused(404, "token not found")
