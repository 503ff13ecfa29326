"""An organization of a management API, also of one with few endpoints."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec.structs import replace

from pipemagic.client import local_files
from pipemagic.client.database import Database
from pipemagic.client.names import NameKind, problem
from pipemagic.client.secrets import EncryptionKey, Secret
from pipemagic.errors import (
    AlreadyExists,
    ConnectError,
    NotFound,
    PipemagicError,
    ServerError,
    SessionError,
    UnknownOutcome,
    UnsupportedError,
)
from pipemagic.http import READ_TIMEOUT
from pipemagic.management_api import models
from pipemagic.management_api.models import DEFAULT_GROUP, DatabaseInfo, Group, Instance, Location, TopQuery, Usage
from pipemagic.session import tokens
from pipemagic.session.database_files import content_to_upload, create_from_file, without_upload
from pipemagic.suggestions import did_you_mean
from pipemagic.text import word

if TYPE_CHECKING:
    from pipemagic.client.address import Endpoint
    from pipemagic.client.transport import Transport
    from pipemagic.management_api.client import Management, Refusal

T = TypeVar("T")
N = TypeVar("N", Group, DatabaseInfo)
_log = logging.getLogger(__name__)
NAME_TAKEN = "choose another name, or use the existing one with --if-not-exists"
"""The hint for the name of something that exists."""


def command_line(action: str, kind: str, name: str) -> str:
    """Return the `%pipedb` line for an action on a database or group."""
    return f"%pipedb {action}-{kind} {word(name)}"


@dataclass(frozen=True)
class Listing(Generic[T]):
    """The existing items; if the API cannot list them (``complete`` is False), the items that this session created."""

    items: Sequence[T]
    complete: bool = True


class Organization:
    """One organization. ``where`` names its service for people; see Management for the errors of the methods.

    The smallest API has five endpoints and cannot list groups or databases: then the organization remembers those that
    this session created. ``find_again`` returns a transport to the API when no server listens at its address any more,
    or when it no longer accepts the token; ``moves`` is True if it is given. The token came from ``token_variable``.
    Threads may share it.
    """

    def __init__(
        self,
        api: Management,
        where: str,
        find_again: Callable[[], Transport] | None = None,
        *,
        token_variable: str = tokens.PLATFORM_TOKENS[0],
    ) -> None:
        self.where = where
        self.on_change: Callable[[Sequence[str]], None] = lambda _: None
        """Called after every change to the organization, with the names of deleted databases."""
        self.moves = find_again is not None
        self._api = api
        self._api.hint_for = self._hint_for
        self._token_variable = token_variable
        self._find_again = find_again
        if find_again is not None:
            self._api.transport.find_again = lambda _: find_again()
        self._siblings = [self]  # the organizations of the service in use, shared by all of them
        self._known: dict[str, dict[str, Any]] = {}  # groups, databases and locations by name, as last seen

    @property
    def slug(self) -> str:
        """The organization's slug."""
        return self._api.slug

    @property
    def address(self) -> str | None:
        """The address of the API; None for the embedded service, whose address changes with each start."""
        return None if self.moves else self._api.endpoint.address

    @property
    def api(self) -> Management:
        """The management API in use, for work that other modules do with it."""
        return self._api

    def check(self) -> None:
        """Check address, token and organization; raise SessionError if there is no such organization."""
        self.locations()
        try:
            self.groups()  # an API without this list accepts any name
        except NotFound:
            raise SessionError(
                f"organization {self.slug!r} does not exist ({self.where})",
                hint="%pipedb organization without a name shows the current one",
            ) from None

    def sibling(self, slug: str) -> Organization:
        """Return another organization of the same service, with the same token."""
        for sibling in self._siblings:
            if sibling._api.known_slug == slug:
                return sibling

        other = Organization(
            type(self._api)(self._api.endpoint, self._api.transport.token, organization=slug), self.where,
            self._find_again, token_variable=self._token_variable,
        )  # fmt: skip
        other._siblings = self._siblings
        self._siblings.append(other)
        return other

    def is_same(self, other: Organization) -> bool:
        """Return True if both are the same organization, also with different tokens; nothing is sent."""
        return (self._api.known_slug, self.where) == (other._api.known_slug, other.where)

    def names(self, kind: str) -> list[str]:
        """Return the names of a kind (group, database, location) that were listed or created; nothing is sent."""
        return sorted(self._known.get(kind, ()))

    def locations(self) -> list[Location]:
        """List the locations for groups, by code."""
        locations = self._api.locations()
        self._known["location"] = {location.code: location for location in locations}
        return locations

    def groups(self) -> Listing[Group]:
        """List the groups."""
        return self._list("group", self._api.groups)

    def databases(self) -> Listing[DatabaseInfo]:
        """List the databases."""
        return self._list("database", self._api.databases)

    def states(self) -> dict[str, Mapping[str, str]]:
        """Return the states of the locations of each group, by name and code, without starting the service."""
        if not self.moves:
            return {group.name: group.status for group in self._api.groups()}
        api = self._api
        with type(api)(api.endpoint, api.transport.token, organization=api.slug) as beside:  # it does not find it again
            return {group.name: group.status for group in beside.groups()}

    def cache_names(self) -> None:
        """List everything in the background, for completion, unless it was done before."""

        def work() -> None:
            try:
                for listing in (self.groups, self.databases, self.locations):
                    listing()
            except Exception:  # noqa: BLE001 - completion works without
                _log.debug("the names for completion could not be listed", exc_info=True)

        if "location" not in self._known:
            # No executor: at its exit the interpreter would wait for a server that does not respond.
            threading.Thread(target=work, name="pipemagic-names", daemon=True).start()

    def organizations(self) -> list[models.Organization]:
        """List the organizations that the token's owner belongs to."""
        return self._api.organizations()

    def audit_logs(self, page: int = 1) -> list[models.AuditLog]:
        """List the changes in the organization, the newest first, in pages of 100."""
        return self._api.audit_logs(page)

    def settings(self) -> models.Organization:
        """Return the organization itself, with its settings."""
        return self._api.organization()

    def usage(self) -> Usage:
        """Return the usage of this calendar month, in total and by database."""
        usage = self._api.usage()
        names = {database.id: database.name for database in self.databases().items if database.id}
        return Usage(usage.figures, {names.get(key, key): figures for key, figures in usage.databases.items()})

    def top_queries(self, database: str) -> list[TopQuery]:
        """List the statements of a database that were slow or frequent in the last day, without values."""
        return self._api.top_queries(database)

    def quotas(self) -> tuple[str, Mapping[str, int]]:
        """Return the plan's name and its quotas, by the names of `Usage.figures`; a missing quota or 0 is no limit."""
        plan = self._api.subscription().plan
        try:
            plans = {item.name.lower(): item.quotas for item in self._api.plans()}
        except UnsupportedError:
            return plan, {}
        name = plan.lower()
        return plan, plans.get(name) or plans.get(name.removesuffix("_overages"), {})

    def closest(self) -> str | None:
        """Return the code of the closest location, None if the service does not know it."""
        try:
            return self._api.closest() or None
        except ConnectError:
            raise
        except PipemagicError:  # it is only a default
            return None

    def name_problem(self, kind: NameKind, name: str) -> str:
        """Return why a new name is invalid, '' if it is valid; nothing is sent, so the name may be taken."""
        return problem(kind, name, self._api.known_slug)

    def create_group(self, name: str, location: str, *, if_not_exists: bool = False) -> Group:
        """Create a group; with ``if_not_exists`` return an existing one unchanged."""
        existing = (lambda: self._api.group(name)) if if_not_exists else None
        fallback = self._remembered(Group(name, location, (location,)))
        return self._create(lambda: self._api.create_group(name, location), existing, fallback)

    def delete_group(self, name: str) -> list[str]:
        """Delete a group with all its databases, and return their names, as far as known."""
        with self._changing() as deleted:
            inside = [database.name for database in self.databases().items if database.group == name]
            self._api.delete_group(name)
            self._known.get("group", {}).pop(name, None)
            deleted += inside
        return inside

    def add_location(self, name: str, location: str, *, if_not_exists: bool = False) -> Group:
        """Replicate a group to another location."""
        before = self._remembered(Group(name))
        extended = replace(before, locations=tuple(dict.fromkeys([*before.locations, location])))

        def add() -> Group:
            group = self._api.add_location(name, location)
            return group if location in group.locations else extended

        return self._create(add, (lambda: self._api.group(name)) if if_not_exists else None, extended)

    def remove_location(self, name: str, location: str) -> Group:
        """Remove a location other than the primary from a group; its replicas there are deleted."""
        with self._changing():
            group = self._api.remove_location(name, location)
            groups = self._known.setdefault("group", {})
            if not group.locations:  # the response does not contain them
                group = groups.get(name, group)
                group = replace(group, locations=tuple(code for code in group.locations if code != location))
            groups[name] = group
        return group

    def pause_location(self, group: str, location: str, *, replication_only: bool = False) -> None:
        """Pause a group at a location, or with ``replication_only`` its replication to the location."""
        with self._changing():
            self._api.pause_location(group, location, replication_only=replication_only)

    def resume_location(self, group: str, location: str) -> None:
        """Resume a group at a location."""
        with self._changing():
            self._api.resume_location(group, location)

    def protect(self, kind: str, name: str, *, on: bool) -> None:
        """Protect a ``database`` or ``group`` from deletion, or allow it again."""
        with self._changing():
            getattr(self._api, f"{'protect' if on else 'unprotect'}_{kind}")(name)

    def unarchive_group(self, name: str) -> None:
        """Make the databases of an archived group available again."""
        with self._changing():
            self._api.unarchive_group(name)

    def wait_for_location(self, group: str, location: str) -> None:
        """Wait until the group's replicas at the location have caught up; ServerError (503) if that takes too long."""
        self._api.wait_for_location(group, location)

    def create_database(
        self, name: str, group: str | None = None, *, if_not_exists: bool = False, file: Path | None = None,
        dump: str | None = None, copy_of: str | None = None, at: datetime | None = None,
        key: EncryptionKey | None = None, notify: Callable[[str], None] = lambda _: None,
    ) -> DatabaseInfo:  # fmt: skip
        """Create a database; with ``if_not_exists`` return an existing one unchanged.

        Its group is by default that of ``copy_of``, or the only one, otherwise ``default``; if there is no group,
        ``default`` is created at the closest location, and ``notify`` is called with a sentence that says so.
        SessionError if there are others.

        Its initial content is that of the SQLite ``file``, or the result of the SQL text in the file ``dump``, if
        given. Raise TransferError if it is not a SQLite file, or a statement of the text fails. Or it is that of the
        database ``copy_of``, as it is or as it was ``at`` an earlier time; see `Management.create_database`. It is
        encrypted with a ``key`` and its cipher.
        """
        existing = (lambda: self._api.database(name)) if if_not_exists else None
        fallback = self._remembered(DatabaseInfo(name, group or ""))

        def in_group() -> str:
            return group or self._default_group(name, copy_of, notify)

        def create() -> DatabaseInfo:
            return self._api.create_database(name, in_group(), copy_of=copy_of, at=at, encryption_key=key)

        try:
            if file is None and dump is None:
                return self._create(create, existing, fallback)
            with content_to_upload(file, dump) as copy:
                return self._create(
                    lambda: create_from_file(self._api, name, in_group(), copy, key=key), existing, fallback
                )  # fmt: skip
        except ServerError as error:
            if '"seed"' not in error.message:
                raise
            raise error.replace(hint="" if at else without_upload(name, group, file, dump, copy_of)) from None

    def group_option(self) -> str:
        """Return the option that `%pipedb create-database` requires, with a group that exists; often ''.

        Nothing is sent: groups that were neither listed nor created by this session are unknown.
        """
        groups = self.names("group")
        needed = len(groups) > 1 and DEFAULT_GROUP not in groups
        return f" --group {word(groups[0])}" if needed else ""

    def delete_database(self, name: str) -> None:
        """Delete a database and everything in it."""
        with self._changing() as deleted:
            self._api.delete_database(name)
            deleted.append(name)

    def suspend_database(self, name: str) -> None:
        """Block the reads and writes of a database, and end what runs on it."""
        with self._changing():
            self._api.suspend_database(name)

    def resume_database(self, name: str) -> None:
        """Allow the reads and writes of a database again."""
        with self._changing():
            self._api.resume_database(name)

    def archived_hint(self, database: str) -> str:
        """Return the hint for a refused request to a database if its group is archived; otherwise, or if unknown, ''.

        The proxies of the hosted service answer 404 or 502 then, without a reason.
        """
        from pipemagic.management_api.client import archived_error

        try:
            info = self._api.database(database)
        except PipemagicError:
            return ""
        error = archived_error(info, command_line)
        return f"{error.message}; {error.hint}" if info.archived else ""

    def instances(self, database: str) -> list[Instance]:
        """List a database's instances, one for each location, the primary first."""
        return self._api.instances(database)

    def create_token(self, database: str, *, expiration: str = "never", read_only: bool = False) -> Secret:
        """Create a token for a database; ``expiration`` is like ``7d``, ``1w2d6h`` or ``never``."""
        return self._api.create_token(database, expiration=expiration, read_only=read_only)

    def create_api_token(
        self, name: str, *, group: str | None = None, scopes: Sequence[str] = (), unlimited: bool = False
    ) -> Secret:
        """Create a platform token, limited to the organization, or to a group and scopes, unless ``unlimited``."""
        return self._api.create_api_token(name, group=group, scopes=scopes, unlimited=unlimited)

    def api_tokens(self, *, members: bool = False) -> list[models.ApiToken]:
        """List the account's platform tokens, or with ``members`` those of all that are limited to the organization."""
        return self._api.organization_tokens() if members else self._api.api_tokens()

    def revoke_api_token(self, name: str, *, by_id: bool = False) -> None:
        """Revoke a platform token of the account by its name, or one of the organization by its id."""
        (self._api.revoke_organization_token if by_id else self._api.revoke_api_token)(name)

    def invalidate_tokens(self, database: str) -> None:
        """Invalidate all tokens of a database immediately; some services invalidate all tokens of its group."""
        self._api.invalidate_tokens(database)

    def set_overages(self, *, on: bool) -> bool:
        """Set whether the organization may exceed its quotas; return the new setting."""
        with self._changing():
            overages = self._api.update_organization(overages=on).overages
        return on if overages is None else overages

    def open(
        self, name: str, timeout: float | None = READ_TIMEOUT, *, read_only: bool = False, similar: Sequence[str] = (),
        only_reads: bool = False,
        key_of: Callable[[Endpoint], EncryptionKey | None] = lambda _: None, follow: str | None = None,
    ) -> Database:  # fmt: skip
        """Return a database, with a token created for this session; ``timeout`` is in seconds.

        With ``read_only`` neither the token nor the Database allows writing. With ``only_reads`` the Database does not,
        and the token is valid for a day, and read-only if the database accepts such tokens. If there is no such
        database the error names the closest one, or the closest of the ``similar`` names. ``key_of`` returns the
        encryption key of the database at an endpoint, and ``follow`` is another host to which its server may refer.
        """
        from pipemagic.management_api.client import archived_error

        info = self._find(name, similar)
        if info.archived:
            raise archived_error(info, command_line)
        if not info.url:
            raise SessionError(
                f"the service does not report the address of {name}",
                hint="%pipedb connect ADDRESS --token-env VARIABLE",
            )
        try:
            if only_reads:
                token = self._api.create_reading_token(name, expiration="1d")
            else:
                token = self._api.create_token(name, read_only=read_only)
        except (NotFound, UnsupportedError):
            raise SessionError(
                f"the service creates no tokens for {name}", hint=f"%pipedb connect {info.url} --token-env VARIABLE"
            ) from None
        endpoint = self._api.endpoint.refer(info.url)
        return Database(
            endpoint, token, timeout=timeout, read_only=read_only or only_reads, encryption_key=key_of(endpoint),
            follow=follow,
        )  # fmt: skip

    def close(self) -> None:
        """Close the connections to the API permanently: later requests raise ConnectError."""
        self._siblings[:] = [sibling for sibling in self._siblings if sibling is not self]
        self._api.close()

    @contextmanager
    def _changing(self) -> Iterator[list[str]]:
        """Report a change, and an error that shows a change by another client.

        The block adds the names of databases that it deletes to the list.
        """
        deleted: list[str] = []
        try:
            yield deleted
        except (NotFound, AlreadyExists, UnknownOutcome):
            self.on_change(())
            raise
        for name in deleted:
            self._known.get("database", {}).pop(name, None)
        self.on_change(deleted)

    def _find(self, name: str, similar: Sequence[str]) -> DatabaseInfo:
        try:
            return self._api.database(name)
        except (NotFound, UnsupportedError) as error:
            if isinstance(error, NotFound) and "organization not found" in error.message:
                raise
        databases = {database.name: database for database in self.databases().items}
        if name in databases:  # an API without that endpoint
            return databases[name]
        hint = did_you_mean(name, databases) or did_you_mean(name, [other for other in similar if other != name])
        if not hint and not self.name_problem("database", name):
            is_file = local_files.start_of(name) == local_files.SQLITE_START
            source = f" --from-file {name}" if is_file else ""
            self.groups()  # group_option lists none
            hint = f"%pipedb create-database {name}{self.group_option()}{source} creates it"
        raise SessionError(
            f"database {name!r} does not exist in organization {self.slug}",
            hint=hint or "%pipedb databases lists the existing ones",
        )

    def _default_group(self, database: str, copy_of: str | None, notify: Callable[[str], None]) -> str:
        """Return the group for a new database; AlreadyExists if the database exists, in whatever group."""
        in_use = {info.name: info.group for info in self.databases().items}
        if database in in_use:
            raise AlreadyExists(f"database {database} already exists", status=409, hint=NAME_TAKEN)
        if copy_of is not None and in_use.get(copy_of):
            return in_use[copy_of]
        groups = self._known.setdefault("group", {})
        group = self._api.default_group(
            known=list(groups.values()), name_group=lambda name: f"add --group {word(name)}", notify=notify
        )
        groups[group.name] = group
        return group.name

    def _list(self, kind: str, request: Callable[[], list[N]]) -> Listing[N]:
        try:
            items = request()
        except UnsupportedError:
            return Listing(list(self._known.get(kind, {}).values()), complete=False)
        self._known[kind] = {item.name: item for item in items}
        return Listing(items)

    def _remembered(self, new: N) -> N:
        """Return the known item with the name of a new one, otherwise the new one."""
        item: N = self._known.get(new.noun, {}).get(new.name, new)
        return item

    def _create(self, create: Callable[[], N], existing: Callable[[], N] | None, fallback: N) -> N:
        """Create an item, or return the ``existing`` one; ``fallback`` is for an API that cannot return it."""
        with self._changing():
            try:
                item = create()
            except AlreadyExists as error:
                if existing is None:
                    raise
                item = self._existing(existing, fallback, error)
            self._known.setdefault(fallback.noun, {})[fallback.name] = item
        return item

    def _existing(self, existing: Callable[[], N], fallback: N, error: AlreadyExists) -> N:
        try:
            return existing()
        except UnsupportedError:
            return fallback
        except NotFound:  # either an API without this endpoint, or the name is taken in another organization
            if not self.groups().complete:
                return fallback
        hint = "choose another name, or use the existing one"
        raise AlreadyExists(error.message, status=error.status, hint=hint) from None

    def _hint_for(self, refusal: Refusal) -> str:
        """Return the hint for a refusal, usually the line to type."""
        from pipemagic.management_api.client import hint_for

        hint, kind = hint_for(refusal, command_line), refusal.unknown_kind
        if refusal.name_is_taken:
            return hint if refusal.message.startswith("token") else NAME_TAKEN
        if refusal.paused_location and "group" in refusal.names:
            return f"%pipedb resume-location {word(refusal.names['group'])} {refusal.paused_location} ends the pause"
        if kind == "location" and "is not at" in refusal.message:
            return "%pipedb groups shows the locations of each group"
        if kind == "token":
            return f"%pipedb api-tokens{' --members' * ('api-token' in refusal.names)} lists the existing ones"
        if kind:
            return self._nearest_name(kind, refusal) or f"%pipedb {kind}s lists the existing ones"
        match refusal.status:
            case 400 | 404 if "expiration" in refusal.message.lower():
                return "write it as 7d, 1w2d6h or never"
            case 401 if self.moves:
                return "%pipedb stop, then %pipedb connect, restarts the service"
            case 401:
                slug = f" {self._api.known_slug}" if self._api.known_slug else ""
                line = f"%pipedb organization{slug} --at {self.address} --token-env {self._token_variable}"
                return f"put a valid platform token into the variable {self._token_variable}, then {line}"
            case 402 if not refusal.adds_region:
                return f"{hint}; %pipedb usage shows the usage"
            case 403 if not refusal.scope or refusal.scope not in refusal.message:
                right = "this requires another role in the organization, or a token with more permissions"
                return f"{right}: {hint}" if hint else right
            case status if status >= 500 and refusal.method != "GET":
                return f"{hint}; %pipedb groups and %pipedb databases list the existing ones"
        return hint

    def _nearest_name(self, kind: str, refusal: Refusal) -> str:
        """Return the hint with the closest name to an unknown one in a request that changes something."""
        name = refusal.names.get(kind)
        if name is None or refusal.method == "GET":
            return ""
        if kind not in self._known:
            try:
                {"group": self.groups, "database": self.databases, "location": self.locations}[kind]()
            except PipemagicError:
                _log.debug("no names for a hint", exc_info=True)
        return did_you_mean(name, sorted(set(self.names(kind)) - {name}))
