"""Accounts, and the platform tokens and logins that stand for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipemagic.service.registry.names import check_slug
from pipemagic.service.registry.store import Store
from pipemagic.service.responses import Refused


@dataclass(frozen=True)
class Account:
    """Who a platform token belongs to. The operator's is the account that the data folder was made with."""

    id: str
    username: str
    operator: bool


@dataclass(frozen=True)
class PlatformToken:
    """What is known about a platform token; never its value. ``created`` is in Unix seconds."""

    id: str
    name: str
    created: float


@dataclass(frozen=True)
class Credential:
    """A token that stands for an account: its hash, and when it ends (Unix seconds; None: never)."""

    account: Account
    hash: bytes
    expires: float | None


_ACCOUNTS = "SELECT id, username, operator FROM accounts"


class Accounts:
    """The accounts of the catalog. The first one that is made is the operator's."""

    def __init__(self, store: Store, now: Callable[[], float], new_id: Callable[[], str]) -> None:
        self._store, self._now, self._new_id = store, now, new_id

    # -- accounts

    def all(self) -> list[Account]:
        """List the accounts, by name."""
        return [_account(row) for row in self._store.rows(f"{_ACCOUNTS} ORDER BY username")]

    def operator(self) -> Account | None:
        """Find the account of whoever runs the service; None in an empty catalog."""
        rows = self._store.rows(f"{_ACCOUNTS} WHERE operator")
        return _account(rows[0]) if rows else None

    def find(self, username: str) -> Account | None:
        """Find an account by its name."""
        rows = self._store.rows(f"{_ACCOUNTS} WHERE username = ?", (username,))
        return _account(rows[0]) if rows else None

    def create(self, username: str, password_hash: str | None = None) -> Account:
        """Add an account; 400 or 422 for an unfit name, 409 if it is taken. Without a password none can log in."""
        check_slug(username, "user")
        account = Account(self._new_id(), username, operator=self.operator() is None)
        with self._store.change() as run:
            if run("SELECT 1 FROM accounts WHERE username = ?", (username,)):
                raise Refused(409, f"the username {username} is already taken")
            run("INSERT INTO accounts (id, username, created, operator, password) VALUES (?, ?, ?, ?, ?)",
                (account.id, username, self._now(), int(account.operator), password_hash))  # fmt: skip
        return account

    def password_hash(self, account: Account) -> str | None:
        """Give the stored hash of the account's password; None if it has none."""
        stored: str | None = self._store.rows("SELECT password FROM accounts WHERE id = ?", (account.id,))[0][0]
        return stored

    def set_password(self, account: Account, password_hash: str) -> None:
        """Replace the password; whoever was logged in is logged out."""
        with self._store.change() as run:
            run("UPDATE accounts SET password = ? WHERE id = ?", (password_hash, account.id))
            run("DELETE FROM logins WHERE account = ?", (account.id,))

    # -- what stands for an account

    def credential(self, token_hash: bytes) -> Credential | None:
        """Find a platform token or login by the token's SHA-256; one that has ended is none."""
        rows = self._store.rows(
            "SELECT a.id, a.username, a.operator, c.hash, c.expires FROM"
            " (SELECT account, hash, NULL AS expires FROM platform_tokens WHERE hash = ?1"
            "  UNION ALL SELECT account, hash, expires FROM logins WHERE hash = ?1 AND expires > ?2) AS c"
            " JOIN accounts AS a ON a.id = c.account", (token_hash, self._now()),
        )  # fmt: skip
        return Credential(_account(rows[0][:3]), *rows[0][3:]) if rows else None

    def add_login(self, account: Account, token_hash: bytes, expires: float) -> None:
        """Record a login; forgets those that have ended."""
        with self._store.change() as run:
            run("DELETE FROM logins WHERE expires <= ?", (self._now(),))
            run("INSERT INTO logins VALUES (?, ?, ?)", (token_hash, account.id, expires))

    def remove_logins(self, account: Account) -> float:
        """Log the account out everywhere; gives the moment, in Unix seconds."""
        with self._store.change() as run:
            run("DELETE FROM logins WHERE account = ?", (account.id,))
        return self._now()

    # -- platform tokens

    def tokens(self, account: Account) -> list[PlatformToken]:
        """List the account's platform tokens, oldest first."""
        return [PlatformToken(*row) for row in self._store.rows(
            "SELECT id, name, created FROM platform_tokens WHERE account = ? ORDER BY created, name", (account.id,)
        )]  # fmt: skip

    def add_token(self, account: Account, name: str, token_hash: bytes) -> PlatformToken:
        """Record a new token; 409 if the account has one of that name."""
        token = PlatformToken(self._new_id(), name, self._now())
        with self._store.change() as run:
            if run("SELECT 1 FROM platform_tokens WHERE account = ? AND name = ?", (account.id, name)):
                raise Refused(409, f"token with name {name} already exists")
            run("INSERT INTO platform_tokens VALUES (?, ?, ?, ?, ?)",
                (token.id, account.id, name, token_hash, token.created))  # fmt: skip
        return token

    def remove_token(self, account: Account, name: str) -> None:
        """Revoke a token; 404 if there is none of that name."""
        with self._store.change() as run:
            if not run("DELETE FROM platform_tokens WHERE account = ? AND name = ? RETURNING 1", (account.id, name)):
                raise Refused(404, "token not found")


def _account(row: tuple[str, str, int]) -> Account:
    return Account(row[0], row[1], bool(row[2]))
