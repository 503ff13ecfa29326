"""Which accounts, organizations, groups and databases exist: one SQLite file, opened by one process."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pipemagic.service.hosting import LOCAL_DOMAIN
from pipemagic.service.locations import LOCATIONS
from pipemagic.service.registry.accounts import Account, Accounts
from pipemagic.service.registry.names import LABEL_LIMIT, check_name
from pipemagic.service.registry.organizations import OrganizationRecord, Organizations
from pipemagic.service.registry.records import DATABASES, GROUPS, DatabaseRecord, GroupRecord, read_database, read_group
from pipemagic.service.registry.store import Run, Store
from pipemagic.service.registry.usage import Usage
from pipemagic.service.responses import Refused


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
        self._records: dict[str, DatabaseRecord] = {}  # by id and by host name: every request asks
        self._store = Store(path)
        self._store.on_change.append(self._records.clear)
        self.accounts = Accounts(self._store, now, new_id)
        self.organizations = Organizations(self._store, now, new_id)
        self.usage = Usage(self._store)
        if self.accounts.operator() is None:
            self.open_account(organization)

    @property
    def home(self) -> OrganizationRecord:
        """The personal organization of whoever runs the service: the one for those who name none."""
        operator = self.accounts.operator()
        assert operator is not None  # made with the catalog
        return self.organizations.of(operator)[0]

    @property
    def store(self) -> Store:
        """The file, for modules that keep tables of their own in it."""
        return self._store

    def check(self) -> None:
        """Read from it; apsw.Error if that cannot be."""
        self._store.check("SELECT count(*) FROM databases")

    def close(self) -> None:
        """Close the file; the catalog is of no use afterwards. Twice is fine."""
        self._store.close()

    def on_change(self, forget: Callable[[], object]) -> None:
        """Have a function called after each change, to forget what it remembered; it must not wait for anything."""
        self._store.on_change.append(forget)

    def open_account(self, username: str, password_hash: str | None = None) -> Account:
        """Make an account and its personal organization of the same name; 400, 409 or 422 if it cannot be."""
        with self._store.change():
            self.organizations.check_free(username)
            account = self.accounts.create(username, password_hash)
            self.organizations.create(account, username, kind="personal")
        return account

    # -- groups

    def groups(self, organization: str) -> list[GroupRecord]:
        """List the organization's groups, by name."""
        self.organizations.get(organization)
        return [
            read_group(row)
            for row in self._store.rows(f"{GROUPS} WHERE g.organization = ? ORDER BY g.name", (organization,))
        ]

    def group(self, organization: str, name: str) -> GroupRecord:
        """Find one group; 404 if there is none."""
        self.organizations.get(organization)
        rows = self._store.rows(f"{GROUPS} WHERE g.organization = ? AND g.name = ?", (organization, name))
        if not rows:
            raise Refused(404, "group not found")
        return read_group(rows[0])

    def create_group(self, organization: str, name: str, location: str) -> GroupRecord:
        """Add a group; 400 for an unfit name or an unknown location, 409 if the name is taken."""
        self.organizations.get(organization)
        check_name("group", name, organization)
        _check_location(location)
        group_id = self._new_id()
        with self._store.change() as run:
            if run('SELECT 1 FROM "groups" WHERE organization = ? AND name = ?', (organization, name)):
                raise Refused(409, "group already exists")
            run('INSERT INTO "groups" (id, organization, name, created) VALUES (?, ?, ?, ?)',
                (group_id, organization, name, self._now()))  # fmt: skip
            run("INSERT INTO group_locations (group_id, position, code) VALUES (?, 0, ?)", (group_id, location))
        return self.group(organization, name)

    def add_location(self, organization: str, group: str, code: str) -> GroupRecord:
        """Add a location to a group; one that it already has changes nothing.

        404 for an unknown group, 400 for an unknown location.
        """
        with self._store.change() as run:
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
        """Take a location from a group.

        404 for an unknown group, 400 for a location that it does not have, or that is its primary.
        """
        with self._store.change() as run:
            record = self._located(organization, group, code)
            if code == record.primary:
                raise Refused(400, f"{code} is the primary location of the group and cannot be removed")
            run("DELETE FROM group_locations WHERE group_id = ? AND code = ?", (record.id, code))
            run("DELETE FROM hosts WHERE location = ? AND database IN (SELECT id FROM databases WHERE group_id = ?)",
                (code, record.id))  # fmt: skip
        return self.group(organization, group)

    def set_paused(self, organization: str, group: str, code: str, paused: bool) -> GroupRecord:
        """Take a location of a group down, or up again; refuses as `remove_location` does for unknown ones."""
        with self._store.change() as run:
            record = self._located(organization, group, code)
            run("UPDATE group_locations SET paused = ? WHERE group_id = ? AND code = ?",
                (int(paused), record.id, code))  # fmt: skip
        return self.group(organization, group)

    def _located(self, organization: str, group: str, code: str) -> GroupRecord:
        record = self.group(organization, group)
        if code not in record.locations:
            raise Refused(400, f"Invalid location code: the group {group} is not at {code}")
        return record

    def _name_instance(self, run: Run, database_id: str, label: str, code: str) -> None:
        """Reserve a host name for an instance: the plain one unless a database has it, or it is too long."""
        short = database_id.replace("-", "")[:12]
        for name in (f"{code}-{label}", f"{code}-{short}-{label}", f"{code}-{short}"):
            if len(name) <= LABEL_LIMIT and not run("SELECT 1 FROM hosts WHERE label = ?", (name,)):
                run("INSERT INTO hosts (label, database, location) VALUES (?, ?, ?)", (name, database_id, code))
                return

    def delete_group(self, organization: str, name: str) -> tuple[GroupRecord, list[DatabaseRecord]]:
        """Remove a group and all its databases; gives what was removed. 400 if any of it is protected."""
        with self._store.change() as run:
            group = self.group(organization, name)
            databases = self.databases(organization, name)
            _check_unprotected("group", name, protected=group.delete_protection)
            for database in databases:
                _check_unprotected("database", database.name, protected=database.configuration.delete_protection)
                self._delete(run, database)
            run('DELETE FROM "groups" WHERE id = ?', (group.id,))
        return group, databases

    def protect_group(self, organization: str, name: str, protection: bool) -> GroupRecord:
        """Switch the protection of a group from deletion."""
        with self._store.change() as run:
            group = self.group(organization, name)
            run('UPDATE "groups" SET delete_protection = ? WHERE id = ?', (int(protection), group.id))
        return replace(group, delete_protection=protection)

    # -- databases

    def databases(self, organization: str, group: str | None = None) -> list[DatabaseRecord]:
        """List the organization's databases (of one group), by name."""
        self.organizations.get(organization)
        rows = self._store.rows(
            f"{DATABASES} WHERE d.organization = ?1 AND (?2 IS NULL OR g.name = ?2) ORDER BY d.name",
            (organization, group),
        )
        return [read_database(row, self.domain) for row in rows]

    def replicated(self) -> list[DatabaseRecord]:
        """List the databases, of every organization, that have more than one location."""
        several = "SELECT group_id FROM group_locations GROUP BY group_id HAVING count(*) > 1"
        return [
            read_database(row, self.domain)
            for row in self._store.rows(f"{DATABASES} WHERE g.id IN ({several}) ORDER BY d.id")
        ]

    def database(self, organization: str, name: str) -> DatabaseRecord:
        """Find one database; 404 if there is none."""
        self.organizations.get(organization)
        rows = self._store.rows(f"{DATABASES} WHERE d.organization = ? AND d.name = ?", (organization, name))
        if not rows:
            raise Refused(404, f"could not find database with name {name}: record not found")
        return read_database(rows[0], self.domain)

    def database_by_id(self, database_id: str) -> DatabaseRecord | None:
        """Find a database by its id."""
        return self._records.get(database_id) or self._remember("d.id = ?", database_id, database_id)

    def database_by_host(self, host: str, *, remembered: bool = False) -> DatabaseRecord | None:
        """Find a database by its host name or that of one of its instances (lower case, without port).

        Both are below the domain or below ``localhost``, and so are those of the record. With ``remembered`` the file
        is not read: None may mean that the database was not asked for lately.
        """
        label, dot, domain = host.removesuffix(".").partition(".")
        if not dot or domain not in (self.domain, LOCAL_DOMAIN):
            return None
        name = f"{label}.{self.domain}"
        record = self._records.get(name)
        if record is None and not remembered:
            record = self._remember("d.id = (SELECT database FROM hosts WHERE label = ?)", label, name)
        return record if record is None or domain == self.domain else record.below(domain)

    def create_database(
        self,
        organization: str,
        name: str,
        group: str,
        *,
        size_limit: int | None = None,
        prepare: Callable[[str], None] = lambda _: None,
    ) -> DatabaseRecord:
        """Add a database.

        400 for an unfit name or an unknown group, 409 if the name is taken, 422 if the host name is (``a-b``
        in ``c`` and ``a`` in ``b-c`` would have the same). ``prepare`` gets the id, to put files in place, when
        nothing can be refused any more and nobody can see the database yet.
        """
        self.organizations.get(organization)
        check_name("database", name, organization)
        label, database_id = f"{name}-{organization}", self._new_id()
        with self._store.change() as run:
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
            run("INSERT INTO databases (id, organization, group_id, name, created, size_limit)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (database_id, organization, groups[0][0], name, self._now(), size_limit))  # fmt: skip
            run("INSERT INTO hosts (label, database) VALUES (?, ?)", (label, database_id))
            for code in self.group(organization, group).locations:
                self._name_instance(run, database_id, label, code)
            prepare(database_id)
        return self.database(organization, name)

    def delete_database(self, organization: str, name: str) -> DatabaseRecord:
        """Remove a database; gives what was removed. Its files are the caller's to remove, afterwards.

        400 if it is protected.
        """
        with self._store.change() as run:
            database = self.database(organization, name)
            _check_unprotected("database", name, protected=database.configuration.delete_protection)
            self._delete(run, database)
        return database

    def configure_database(self, organization: str, name: str, changes: Mapping[str, int | None]) -> DatabaseRecord:
        """Change some members of a database's `Configuration`."""
        with self._store.change() as run:
            database = self.database(organization, name)
            new = replace(database.configuration, **changes)  # type: ignore[arg-type]
            run("UPDATE databases SET size_limit = ?, block_reads = ?, block_writes = ?, delete_protection = ?"
                " WHERE id = ?",
                (new.size_limit, int(new.block_reads), int(new.block_writes), int(new.delete_protection),
                 database.id))  # fmt: skip
        return self.database(organization, name)

    # -- rotations of tokens

    @property
    def rotations(self) -> int:
        """How many rotations there were; a token notes it, and is void once its database was rotated later."""
        number: int = self._store.rows("SELECT number FROM rotations")[0][0]
        return number

    def rotate_database(self, organization: str, name: str) -> DatabaseRecord:
        """Make all tokens that open this database until now void."""
        with self._store.change() as run:
            database = self.database(organization, name)
            run("UPDATE databases SET rotated = ? WHERE id = ?", (_next_rotation(run), database.id))
        return self.database(organization, name)

    def rotate_group(self, organization: str, name: str) -> list[DatabaseRecord]:
        """Make all tokens of a group and of its databases void until now; gives the databases."""
        with self._store.change() as run:
            group = self.group(organization, name)
            run('UPDATE "groups" SET rotated = ? WHERE id = ?', (_next_rotation(run), group.id))
        return self.databases(organization, name)

    # -- files of deleted databases

    def finish_deletions(self, databases: Path) -> list[str]:
        """Remove what is left of deleted databases below the folder; gives their ids.

        Only folders that were noted as deleted are touched, so that a lost catalog never costs data.
        Call it at the start, before any database is opened.
        """
        ids = [row[0] for row in self._store.rows("SELECT id FROM deleted_databases ORDER BY deleted")]
        for database_id in ids:
            folder = databases / database_id
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                with self._store.change() as run:
                    run("DELETE FROM deleted_databases WHERE id = ?", (database_id,))
        return ids

    # -- commit counters

    def reserve_index(self, database_id: str, up_to: int) -> None:
        """Write down, durably, the highest commit counter that may be used before this is called again."""
        with self._store.note() as run:
            run("UPDATE databases SET reserved_index = ? WHERE id = ?", (up_to, database_id))

    def reserved_index(self, database_id: str) -> int:
        """Give the highest counter that may have been used; 0 for a new database."""
        rows = self._store.rows("SELECT reserved_index FROM databases WHERE id = ?", (database_id,))
        return rows[0][0] if rows else 0

    # -- inside

    def _delete(self, run: Run, database: DatabaseRecord) -> None:
        run("INSERT INTO deleted_databases VALUES (?, ?)", (database.id, self._now()))
        run("DELETE FROM databases WHERE id = ?", (database.id,))

    def _remember(self, condition: str, value: str, key: str) -> DatabaseRecord | None:
        with self._store.lock:  # nothing can change between the look and the note
            rows = self._store.rows(f"{DATABASES} WHERE {condition}", (value,))
            if not rows:
                return None
            record = self._records[key] = read_database(rows[0], self.domain)
            return record


def _next_rotation(run: Run) -> int:
    number: int = run("UPDATE rotations SET number = number + 1 RETURNING number", ())[0][0]
    return number


def _check_location(code: str) -> None:
    if code not in LOCATIONS:
        raise Refused(400, f"invalid location: {code}")


def _check_unprotected(kind: str, name: str, *, protected: bool) -> None:
    if protected:
        raise Refused(
            400, f"{kind} {name} is protected from deletion: set delete_protection to false in its configuration first"
        )  # fmt: skip
