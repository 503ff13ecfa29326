"""Which accounts, organizations, groups and databases exist: one SQLite file, opened by one process."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipemagic.service.hosting import LOCAL_DOMAIN
from pipemagic.service.http import Refused
from pipemagic.service.locations import LOCATIONS
from pipemagic.service.names import check_name, check_slug
from pipemagic.service.schema import open_catalog


@dataclass(frozen=True)
class Account:
    """Who a platform token belongs to."""

    id: str
    username: str


@dataclass(frozen=True)
class PlatformToken:
    """What is known about a platform token; never its value. ``created`` is in Unix seconds."""

    id: str
    name: str
    created: float


@dataclass(frozen=True)
class OrganizationRecord:
    """An organization, or the personal one of an account."""

    slug: str
    name: str
    type: str
    overages: bool
    account: str


@dataclass(frozen=True)
class GroupRecord:
    """A group and its locations; the first one is the primary."""

    id: str
    name: str
    organization: str
    locations: tuple[str, ...]

    @property
    def primary(self) -> str:
        """The code of the location that takes the writes."""
        return self.locations[0]


@dataclass(frozen=True)
class DatabaseRecord:
    """A database. ``id`` is never used again, not even for a new database of the same name.

    ``hostname`` is the full host name, without port; ``created`` is in Unix seconds; ``locations`` are
    those of its group, the primary first.
    """

    id: str
    name: str
    group: str
    organization: str
    hostname: str
    created: float
    locations: tuple[str, ...]


_GROUPS = """
SELECT g.id, g.name, g.organization,
  (SELECT group_concat(code, ',' ORDER BY position) FROM group_locations WHERE group_id = g.id)
FROM "groups" AS g
"""

_DATABASES = """
SELECT d.id, d.name, g.name, d.organization, h.label, d.created,
  (SELECT group_concat(code, ',' ORDER BY position) FROM group_locations WHERE group_id = g.id)
FROM databases AS d JOIN "groups" AS g ON g.id = d.group_id JOIN hosts AS h ON h.database = d.id
"""


class Catalog:
    """The state of the management API. Safe to use from several threads.

    Whatever is refused is raised as `Refused` with the status and the text of the answer.
    """

    def __init__(
        self, path: Path, *, domain: str = "localhost", organization: str = "local",
        now: Callable[[], float] = time.time, new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:  # fmt: skip
        self.domain = domain
        self._now = now
        self._new_id = new_id
        self._lock = threading.RLock()
        self._records: dict[str, DatabaseRecord] = {}  # by id and by host name: every request asks
        self._connection = open_catalog(path)
        if not self.accounts():
            self.create_organization(self.create_account(organization), organization, kind="personal")

    def close(self) -> None:
        """Close the file; the catalog is of no use afterwards. Twice is fine."""
        with self._lock:
            self._connection.close()

    # -- accounts and their tokens

    def accounts(self) -> list[Account]:
        """List the accounts, oldest first."""
        return [Account(*row) for row in self._rows("SELECT id, username FROM accounts ORDER BY created, id")]

    def create_account(self, username: str) -> Account:
        """Add an account."""
        account = Account(self._new_id(), username)
        with self._change() as run:
            run("INSERT INTO accounts VALUES (?, ?, ?)", (account.id, username, self._now()))
        return account

    def account_of_token(self, token_hash: bytes) -> tuple[Account, bytes] | None:
        """Find the account of a platform token by the token's SHA-256; gives the stored hash, too."""
        rows = self._rows(
            "SELECT a.id, a.username, t.hash FROM platform_tokens AS t JOIN accounts AS a ON a.id = t.account"
            " WHERE t.hash = ?", (token_hash,),
        )  # fmt: skip
        return (Account(*rows[0][:2]), rows[0][2]) if rows else None

    def platform_tokens(self, account: Account) -> list[PlatformToken]:
        """List the account's platform tokens, oldest first."""
        return [PlatformToken(*row) for row in self._rows(
            "SELECT id, name, created FROM platform_tokens WHERE account = ? ORDER BY created, name", (account.id,)
        )]  # fmt: skip

    def add_platform_token(self, account: Account, name: str, token_hash: bytes) -> PlatformToken:
        """Record a new token; 409 if the account has one of that name."""
        token = PlatformToken(self._new_id(), name, self._now())
        with self._change() as run:
            if run("SELECT 1 FROM platform_tokens WHERE account = ? AND name = ?", (account.id, name)):
                raise Refused(409, f"token with name {name} already exists")
            run("INSERT INTO platform_tokens VALUES (?, ?, ?, ?, ?)",
                (token.id, account.id, name, token_hash, token.created))  # fmt: skip
        return token

    def remove_platform_token(self, account: Account, name: str) -> None:
        """Revoke a token; 404 if there is none of that name."""
        with self._change() as run:
            if not run("DELETE FROM platform_tokens WHERE account = ? AND name = ? RETURNING 1", (account.id, name)):
                raise Refused(404, "token not found")

    # -- organizations

    def organizations(self, account: Account | None = None) -> list[OrganizationRecord]:
        """List the organizations (of one account), by slug."""
        rows = self._rows(
            "SELECT slug, name, type, overages, account FROM organizations"
            " WHERE ?1 IS NULL OR account = ?1 ORDER BY slug", (account.id if account else None,),
        )  # fmt: skip
        return [OrganizationRecord(slug, name, kind, bool(on), owner) for slug, name, kind, on, owner in rows]

    def organization(self, slug: str) -> OrganizationRecord:
        """Find one organization; 404 if there is none."""
        for record in self.organizations():
            if record.slug == slug:
                return record
        raise Refused(404, "organization not found")

    def create_organization(self, account: Account, slug: str, *, kind: str = "team") -> OrganizationRecord:
        """Add an organization; 400 or 422 for an unfit slug, 409 if it is taken."""
        check_slug(slug)
        with self._change() as run:
            if run("SELECT 1 FROM organizations WHERE slug = ?", (slug,)):
                raise Refused(409, "organization already exists")
            run("INSERT INTO organizations VALUES (?, ?, ?, ?, 0, ?)",
                (slug, slug, kind, account.id, self._now()))  # fmt: skip
        return self.organization(slug)

    def set_overages(self, slug: str, overages: bool) -> OrganizationRecord:
        """Switch the overages setting."""
        with self._change() as run:
            run("UPDATE organizations SET overages = ? WHERE slug = ?", (int(overages), slug))
        return self.organization(slug)

    # -- groups

    def groups(self, organization: str) -> list[GroupRecord]:
        """List the organization's groups, by name."""
        self.organization(organization)
        return [
            _group(row) for row in self._rows(f"{_GROUPS} WHERE g.organization = ? ORDER BY g.name", (organization,))
        ]

    def group(self, organization: str, name: str) -> GroupRecord:
        """Find one group; 404 if there is none."""
        self.organization(organization)
        rows = self._rows(f"{_GROUPS} WHERE g.organization = ? AND g.name = ?", (organization, name))
        if not rows:
            raise Refused(404, "group not found")
        return _group(rows[0])

    def create_group(self, organization: str, name: str, location: str) -> GroupRecord:
        """Add a group; 400 for an unfit name or an unknown location, 409 if the name is taken."""
        self.organization(organization)
        check_name("group", name, organization)
        _check_location(location)
        group_id = self._new_id()
        with self._change() as run:
            if run('SELECT 1 FROM "groups" WHERE organization = ? AND name = ?', (organization, name)):
                raise Refused(409, "group already exists")
            run('INSERT INTO "groups" VALUES (?, ?, ?, ?)', (group_id, organization, name, self._now()))
            run("INSERT INTO group_locations VALUES (?, 0, ?)", (group_id, location))
        return self.group(organization, name)

    def add_location(self, organization: str, group: str, code: str) -> GroupRecord:
        """Add a location to a group; one that it already has changes nothing.

        404 for an unknown group, 400 for an unknown location.
        """
        with self._change() as run:
            record = self.group(organization, group)
            _check_location(code)
            if code not in record.locations:
                run("INSERT INTO group_locations VALUES (?, ?, ?)", (record.id, len(record.locations), code))
        return self.group(organization, group)

    def delete_group(self, organization: str, name: str) -> tuple[GroupRecord, list[DatabaseRecord]]:
        """Remove a group and all its databases; gives what was removed."""
        with self._change() as run:
            group = self.group(organization, name)
            databases = self.databases(organization, name)
            for database in databases:
                self._delete(run, database)
            run('DELETE FROM "groups" WHERE id = ?', (group.id,))
        return group, databases

    # -- databases

    def databases(self, organization: str, group: str | None = None) -> list[DatabaseRecord]:
        """List the organization's databases (of one group), by name."""
        self.organization(organization)
        rows = self._rows(
            f"{_DATABASES} WHERE d.organization = ?1 AND (?2 IS NULL OR g.name = ?2) ORDER BY d.name",
            (organization, group),
        )
        return [self._database(row) for row in rows]

    def database(self, organization: str, name: str) -> DatabaseRecord:
        """Find one database; 404 if there is none."""
        self.organization(organization)
        rows = self._rows(f"{_DATABASES} WHERE d.organization = ? AND d.name = ?", (organization, name))
        if not rows:
            raise Refused(404, f"could not find database with name {name}: record not found")
        return self._database(rows[0])

    def database_by_id(self, database_id: str) -> DatabaseRecord | None:
        """Find a database by its id."""
        return self._records.get(database_id) or self._remember("d.id", database_id, database_id)

    def database_by_host(self, host: str) -> DatabaseRecord | None:
        """Find a database by its host name (lower case, without port), below the domain or below ``localhost``."""
        label, dot, domain = host.partition(".")
        if not dot or domain.removesuffix(".") not in (self.domain, LOCAL_DOMAIN):
            return None
        return self._records.get(host) or self._remember("h.label", label, host)

    def create_database(self, organization: str, name: str, group: str) -> DatabaseRecord:
        """Add a database.

        400 for an unfit name or an unknown group, 409 if the name is taken, 422 if the host name is (``a-b``
        in ``c`` and ``a`` in ``b-c`` would have the same).
        """
        self.organization(organization)
        check_name("database", name, organization)
        label, database_id = f"{name}-{organization}", self._new_id()
        with self._change() as run:
            groups = run('SELECT id FROM "groups" WHERE organization = ? AND name = ?', (organization, group))
            if not groups:
                raise Refused(400, "group not found")
            if run("SELECT 1 FROM databases WHERE organization = ? AND name = ?", (organization, name)):
                raise Refused(409, f"database with name {name} already exists")
            if run("SELECT 1 FROM hosts WHERE label = ?", (label,)):
                raise Refused(
                    422, f"database name not available: the host name {label}.{self.domain} is taken",
                    "NAME_NOT_AVAILABLE",
                )  # fmt: skip
            run("INSERT INTO databases (id, organization, group_id, name, created) VALUES (?, ?, ?, ?, ?)",
                (database_id, organization, groups[0][0], name, self._now()))  # fmt: skip
            run("INSERT INTO hosts VALUES (?, ?)", (label, database_id))
        return self.database(organization, name)

    def delete_database(self, organization: str, name: str) -> DatabaseRecord:
        """Remove a database; gives what was removed. Its files are the caller's to remove, afterwards."""
        with self._change() as run:
            database = self.database(organization, name)
            self._delete(run, database)
        return database

    # -- files of deleted databases

    def finish_deletions(self, databases: Path) -> list[str]:
        """Remove what is left of deleted databases below the folder; gives their ids.

        Only folders that were noted as deleted are touched, so that a lost catalog never costs data.
        Call it at the start, before any database is opened.
        """
        ids = [row[0] for row in self._rows("SELECT id FROM deleted_databases ORDER BY deleted")]
        for database_id in ids:
            folder = databases / database_id
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                with self._change() as run:
                    run("DELETE FROM deleted_databases WHERE id = ?", (database_id,))
        return ids

    # -- commit counters

    def reserve_index(self, database_id: str, up_to: int) -> None:
        """Write down, durably, the highest commit counter that may be used before this is called again."""
        with self._lock, self._connection:
            self._connection.execute("UPDATE databases SET reserved_index = ? WHERE id = ?", (up_to, database_id))

    def reserved_index(self, database_id: str) -> int:
        """Give the highest counter that may have been used; 0 for a new database."""
        rows = self._rows("SELECT reserved_index FROM databases WHERE id = ?", (database_id,))
        return rows[0][0] if rows else 0

    # -- inside

    def _rows(self, sql: str, arguments: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            return self._connection.execute(sql, tuple(arguments)).fetchall()

    @contextmanager
    def _change(self) -> Iterator[Callable[[str, Sequence[Any]], list[Any]]]:
        """Change something: all of it or nothing, durably; what was remembered is forgotten."""
        with self._lock:
            try:
                with self._connection:
                    yield self._rows
            finally:
                self._records.clear()

    def _delete(self, run: Callable[[str, Sequence[Any]], list[Any]], database: DatabaseRecord) -> None:
        run("INSERT INTO deleted_databases VALUES (?, ?)", (database.id, self._now()))
        run("DELETE FROM databases WHERE id = ?", (database.id,))

    def _remember(self, column: str, value: str, key: str) -> DatabaseRecord | None:
        with self._lock:  # nothing can change between the look and the note
            rows = self._rows(f"{_DATABASES} WHERE {column} = ?", (value,))
            if not rows:
                return None
            record = self._records[key] = self._database(rows[0])
            return record

    def _database(self, row: tuple[Any, ...]) -> DatabaseRecord:
        database_id, name, group, organization, label, created, locations = row
        hostname = f"{label}.{self.domain}"
        return DatabaseRecord(database_id, name, group, organization, hostname, created, tuple(locations.split(",")))


def _group(row: tuple[Any, ...]) -> GroupRecord:
    group_id, name, organization, locations = row
    return GroupRecord(group_id, name, organization, tuple(locations.split(",")))


def _check_location(code: str) -> None:
    if code not in LOCATIONS:
        raise Refused(400, f"invalid location: {code}")
