"""The state of the service: accounts, organizations, groups, databases and usage, in one SQLite file."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import msgspec

from pipemagic.service.catalog.accounts import AccountRecord, Accounts
from pipemagic.service.catalog.audit import AuditLogs
from pipemagic.service.catalog.names import LABEL_LIMIT, check_name
from pipemagic.service.catalog.organizations import OrganizationRecord, Organizations
from pipemagic.service.catalog.records import DATABASES, GROUPS, DatabaseRecord, GroupRecord, Parent
from pipemagic.service.catalog.store import RunSql, Store, new_id
from pipemagic.service.catalog.usage import UsageTables
from pipemagic.service.hosting import LOCAL_DOMAIN
from pipemagic.service.locations import LOCATIONS
from pipemagic.service.responses import Refused

OPERATOR = "local"
"""The name of the operator's account, and of its personal organization."""

END_CODES = "UPDATE codes SET expires = min(expires, ?1) WHERE database IN ({})"
"""Ends the codes of databases; they are remembered as others that have expired, so that the error names the reason."""


class Catalog:
    """The catalog. Safe to use from several threads; only one process may open the file.

    Methods raise `Refused` with the status and the message of the response: 404 for what does not exist, and those
    that their docstrings name.
    """

    def __init__(self, path: Path, *, domain: str = LOCAL_DOMAIN, now: Callable[[], float] = time.time) -> None:
        self.domain = domain
        self.store = Store(path, now)
        """The file, for modules with tables of their own in it."""
        self._records: dict[str, DatabaseRecord] = {}  # by id and by host name: every request looks one up
        self.store.on_change.append(self._records.clear)
        self.accounts = Accounts(self.store)
        self.organizations = Organizations(self.store)
        self.usage = UsageTables(self.store)
        self.audit = AuditLogs(self.store)
        if self.accounts.operator() is None:
            self.open_account(OPERATOR)

    @property
    def home(self) -> OrganizationRecord:
        """The operator's personal organization."""
        operator = self.accounts.operator()
        assert operator is not None  # created with the catalog
        return self.organizations.of(operator)[0]

    def check(self) -> None:
        """Raise `apsw.Error` if the file cannot be read."""
        self.store.check("SELECT count(*) FROM databases")

    def close(self) -> None:
        """Close the file, unless it is closed."""
        self.store.close()

    def open_account(self, username: str, password_hash: str | None = None) -> AccountRecord:
        """Create an account and its personal organization of the same name; raise `Refused`: 400, 409 or 422."""
        with self.store.change():
            self.organizations.check_free(username)
            account = self.accounts.create(username, password_hash)
            self.organizations.create(account, username, kind="personal")
        return account

    # -- groups

    def groups(self, organization: str) -> list[GroupRecord]:
        """Return the organization's groups, by name."""
        return self._groups("g.organization = ? ORDER BY g.name", (organization,))

    def group(self, organization: str, name: str) -> GroupRecord:
        """Return one group."""
        for group in self._groups("g.organization = ? AND g.name = ?", (organization, name)):
            return group
        raise Refused(404, "group not found")

    def create_group(self, organization: str, name: str, location: str) -> GroupRecord:
        """Add a group; raise `Refused`: 400 for an invalid name or an unknown location, 409 if the name is taken."""
        check_name("group", name, organization)
        _check_location(location)
        group_id = new_id()
        with self.store.change() as run:
            self.organizations.get(organization)
            if run('SELECT 1 FROM "groups" WHERE organization = ? AND name = ?', (organization, name)):
                raise Refused(409, "group already exists")
            run('INSERT INTO "groups" (id, organization, name, created) VALUES (?, ?, ?, ?)',
                (group_id, organization, name, self.store.now()))  # fmt: skip
            run("INSERT INTO group_locations (group_id, position, code) VALUES (?, 0, ?)", (group_id, location))
        return self.group(organization, name)

    def add_location(self, organization: str, group: str, code: str) -> GroupRecord:
        """Add a location to a group, unless the group has it; raise `Refused` (400) for an unknown location."""
        with self.store.change() as run:
            record = self.group(organization, group)
            _check_location(code)
            if code not in record.locations:
                run("INSERT INTO group_locations (group_id, position, code)"
                    " SELECT ?1, max(position) + 1, ?2 FROM group_locations WHERE group_id = ?1",
                    (record.id, code))  # fmt: skip
                for database in self.databases(organization, group):
                    self._name_instance(run, database.id, database.hostname.partition(".")[0], code)
        return self.group(organization, group)

    def remove_location(self, organization: str, group: str, code: str) -> GroupRecord:
        """Remove a location from a group; raise `Refused` (400) if the group is not at it, or it is the primary."""
        with self.store.change() as run:
            record = self._group_at(organization, group, code)
            if code == record.primary:
                raise Refused(400, f"{code} is the primary location of the group and cannot be removed")
            run("DELETE FROM group_locations WHERE group_id = ? AND code = ?", (record.id, code))
            run("DELETE FROM hosts WHERE location = ? AND database IN (SELECT id FROM databases WHERE group_id = ?)",
                (code, record.id))  # fmt: skip
        return self.group(organization, group)

    def pause(self, organization: str, group: str, code: str, *, replication_only: bool = False) -> GroupRecord:
        """Pause a location of a group, or only its replication; raise `Refused` (400) if the group is not at it."""
        return self._set_paused(organization, group, code, 2 if replication_only else 1)

    def resume(self, organization: str, group: str, code: str) -> GroupRecord:
        """Resume a location of a group; raise `Refused` (400) if the group is not at it."""
        return self._set_paused(organization, group, code, 0)

    def _set_paused(self, organization: str, group: str, code: str, paused: int) -> GroupRecord:
        with self.store.change() as run:
            record = self._group_at(organization, group, code)
            if paused == 2 and code == record.primary:
                raise Refused(400, f"{code} is the primary location of the group, so it has no replication to pause")
            run("UPDATE group_locations SET paused = ? WHERE group_id = ? AND code = ?",
                (paused, record.id, code))  # fmt: skip
        return self.group(organization, group)

    def delete_group(self, organization: str, name: str) -> tuple[GroupRecord, list[DatabaseRecord]]:
        """Remove a group and its databases, and return them; raise `Refused` (400) if any of it is protected."""
        with self.store.change() as run:
            group = self.group(organization, name)
            databases = self.databases(organization, name)
            _check_unprotected("group", name, protected=group.delete_protection)
            for database in databases:
                self._delete(run, database)
            run('DELETE FROM "groups" WHERE id = ?', (group.id,))
        return group, databases

    def protect_group(self, organization: str, name: str, protection: bool) -> GroupRecord:
        """Change whether a group is protected from deletion."""
        with self.store.change() as run:
            group = self.group(organization, name)
            run('UPDATE "groups" SET delete_protection = ? WHERE id = ?', (int(protection), group.id))
        return self.group(organization, name)

    # -- databases

    def databases(self, organization: str, group: str | None = None) -> list[DatabaseRecord]:
        """Return the organization's databases (of one group), by name."""
        condition = "d.organization = ?1 AND (?2 IS NULL OR g.name = ?2) ORDER BY d.name"
        return self._databases(condition, (organization, group))

    def replicated(self) -> list[DatabaseRecord]:
        """Return the databases, of every organization, that have more than one location."""
        several = "SELECT group_id FROM group_locations GROUP BY group_id HAVING count(*) > 1"
        return self._databases(f"g.id IN ({several}) ORDER BY d.id")

    def database(self, organization: str, name: str) -> DatabaseRecord:
        """Return one database."""
        for record in self._databases("d.organization = ? AND d.name = ?", (organization, name)):
            return record
        raise unknown_database(name)

    def database_by_id(self, database_id: str) -> DatabaseRecord | None:
        """Return the database of that id, or None."""
        return self._records.get(database_id) or self._cache("d.id = ?", database_id, database_id)

    def database_by_host(self, host: str, *, remembered: bool = False) -> DatabaseRecord | None:
        """Return the database with that host name, or with an instance of that name (lower case, without port).

        The name is below the domain or below ``localhost``, and so are those of the returned record. With
        ``remembered`` the file is not read: None may also mean that the record is not cached.
        """
        label, dot, domain = host.removesuffix(".").partition(".")
        if not dot or domain not in (self.domain, LOCAL_DOMAIN):
            return None
        name = f"{label}.{self.domain}"
        record = self._records.get(name)
        if record is None and not remembered:
            record = self._cache("d.id = (SELECT database FROM hosts WHERE label = ?)", label, name)
        return record if record is None or domain == self.domain else record.below(domain)

    def create_database(
        self, organization: str, name: str, group: str, *, size_limit: int | None = None,
        parent: Parent | None = None, prepare: Callable[[str], None] = lambda _: None,
    ) -> DatabaseRecord:  # fmt: skip
        """Add a database.

        Raise `Refused`: 400 for an invalid name or an unknown group, 409 if the name is taken, 422 if the host name is
        (``a-b`` in ``c`` and ``a`` in ``b-c`` would have the same). ``prepare`` is called with the id, to move files
        to their place, after the last check and before the database can be found.
        """
        check_name("database", name, organization)
        label, database_id = f"{name}-{organization}", new_id()
        with self.store.change() as run:
            self.organizations.get(organization)
            groups = self._groups("g.organization = ? AND g.name = ?", (organization, group))
            if not groups:
                raise Refused(400, "group not found")
            if run("SELECT 1 FROM databases WHERE organization = ? AND name = ?", (organization, name)):
                raise Refused(409, f"database with name {name} already exists")
            if run("SELECT 1 FROM hosts WHERE label = ?", (label,)):
                raise Refused(
                    422, f"database name not available: the host name {label}.{self.domain} is taken",
                    "NAME_NOT_AVAILABLE",
                )  # fmt: skip
            run("INSERT INTO databases (id, organization, group_id, name, created, size_limit)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (database_id, organization, groups[0].id, name, self.store.now(), size_limit))  # fmt: skip
            if parent is not None:
                run("INSERT INTO branches VALUES (?, ?, ?, ?)", (database_id, *msgspec.structs.astuple(parent)))
            run("INSERT INTO hosts (label, database) VALUES (?, ?)", (label, database_id))
            for code in groups[0].locations:
                self._name_instance(run, database_id, label, code)
            record = self.database(organization, name)  # here, so that nothing can fail once it exists
            prepare(database_id)
        return record

    def delete_database(self, organization: str, name: str) -> DatabaseRecord:
        """Remove a database and return it; the caller removes its files.

        Raise `Refused` (400) if it or its group is protected.
        """
        with self.store.change() as run:
            database = self.database(organization, name)
            group = self.group(organization, database.group)
            _check_unprotected("group", group.name, protected=group.delete_protection)
            self._delete(run, database)
        return database

    def configure_database(self, organization: str, name: str, changes: Mapping[str, int | None]) -> DatabaseRecord:
        """Change some fields of a database's `Configuration`."""
        with self.store.change() as run:
            database = self.database(organization, name)
            new = msgspec.structs.replace(database.configuration, **changes)
            run("UPDATE databases SET size_limit = ?, block_reads = ?, block_writes = ?, delete_protection = ?"
                " WHERE id = ?", (*msgspec.structs.astuple(new), database.id))  # fmt: skip
        return self.database(organization, name)

    # -- rotations of tokens

    @property
    def rotations(self) -> int:
        """The number of rotations so far; a token contains it; a later rotation of its database invalidates it."""
        number: int = self.store.rows("SELECT number FROM rotations")[0][0]
        return number

    def rotate_database(self, organization: str, name: str) -> DatabaseRecord:
        """Invalidate all tokens that open a database, and its codes."""
        with self.store.change() as run:
            database = self.database(organization, name)
            run("UPDATE databases SET rotated = ? WHERE id = ?", (_next_rotation(run), database.id))
            run(END_CODES.format("?2"), (self.store.now(), database.id))
        return self.database(organization, name)

    def rotate_group(self, organization: str, name: str) -> list[DatabaseRecord]:
        """Invalidate all tokens and codes of a group and of its databases, and return the databases."""
        with self.store.change() as run:
            group = self.group(organization, name)
            run('UPDATE "groups" SET rotated = ? WHERE id = ?', (_next_rotation(run), group.id))
            run(END_CODES.format("SELECT id FROM databases WHERE group_id = ?2"), (self.store.now(), group.id))
        return self.databases(organization, name)

    # -- files of deleted databases

    def finish_deletions(self, databases: Path) -> list[str]:
        """Remove the remaining folders of deleted databases, and return the ids; call it before any is opened.

        Only folders that are recorded as deleted are removed, so databases survive the loss of the catalog. On a full
        disk the records stay, and the next start removes them.
        """
        ids = [row[0] for row in self.store.rows("SELECT id FROM deleted_databases ORDER BY deleted")]
        for database_id in ids:
            folder = databases / database_id
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                with suppress(apsw.FullError), self.store.change() as run:
                    run("DELETE FROM deleted_databases WHERE id = ?", (database_id,))
        return ids

    # -- commit counters

    def reserve_index(self, database_id: str, up_to: int) -> None:
        """Record, durably, the highest commit counter that may be used before the next call."""
        with self.store.change(cached=False) as run:
            run("UPDATE databases SET reserved_index = ? WHERE id = ?", (up_to, database_id))

    def reserved_index(self, database_id: str) -> int:
        """Return the highest counter that may have been used; 0 for a new database."""
        rows = self.store.rows("SELECT reserved_index FROM databases WHERE id = ?", (database_id,))
        return rows[0][0] if rows else 0

    # -- internals

    def _groups(self, condition: str, arguments: Sequence[Any]) -> list[GroupRecord]:
        rows = self.store.rows(f"{GROUPS} WHERE {condition}", arguments)
        return [msgspec.json.decode(row[0], type=GroupRecord, strict=False) for row in rows]

    def _databases(self, condition: str, arguments: Sequence[Any] = ()) -> list[DatabaseRecord]:
        rows = self.store.rows(f"{DATABASES} WHERE {condition}", arguments)
        records = (msgspec.json.decode(row[0], type=DatabaseRecord, strict=False) for row in rows)
        return [record.below(self.domain) for record in records]

    def _group_at(self, organization: str, group: str, code: str) -> GroupRecord:
        record = self.group(organization, group)
        if code not in record.locations:
            raise Refused(400, f"Invalid location code: the group {group} is not at {code}")
        return record

    def _name_instance(self, run: RunSql, database_id: str, label: str, code: str) -> None:
        """Reserve a host name for an instance; it contains the id if the plain one is taken or too long."""
        short = database_id.replace("-", "")[:12]
        for name in (f"{code}-{label}", f"{code}-{short}-{label}", f"{code}-{short}"):
            if len(name) <= LABEL_LIMIT and not run("SELECT 1 FROM hosts WHERE label = ?", (name,)):
                run("INSERT INTO hosts (label, database, location) VALUES (?, ?, ?)", (name, database_id, code))
                return

    def _delete(self, run: RunSql, database: DatabaseRecord) -> None:
        _check_unprotected("database", database.name, protected=database.configuration.delete_protection)
        run("INSERT INTO deleted_databases VALUES (?, ?)", (database.id, self.store.now()))
        run("DELETE FROM databases WHERE id = ?", (database.id,))

    def _cache(self, condition: str, value: str, key: str) -> DatabaseRecord | None:
        with self.store.lock:  # so that no change comes between the query and the entry
            for record in self._databases(condition, (value,)):
                self._records[key] = record
                return record
        return None


def unknown_database(name: str) -> Refused:
    """Return the response to the name of a database that does not exist."""
    return Refused(404, f"could not find database with name {name}: record not found")


def _next_rotation(run: RunSql) -> int:
    number: int = run("UPDATE rotations SET number = number + 1 RETURNING number", ())[0][0]
    return number


def _check_location(code: str) -> None:
    if code not in LOCATIONS:
        raise Refused(400, f"invalid location: {code}")


def _check_unprotected(kind: str, name: str, *, protected: bool) -> None:
    if protected:
        raise Refused(400, f"{kind} {name} is protected from deletion (delete_protection)")
