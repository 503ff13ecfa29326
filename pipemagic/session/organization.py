"""An organization of a management API, as the session uses it, also where that API has few endpoints."""

from __future__ import annotations

import logging
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec.structs import replace

from pipemagic.client.database import Database
from pipemagic.client.names import Kind, problem
from pipemagic.client.secrets import Secret
from pipemagic.errors import (
    AlreadyExists,
    AuthError,
    ConnectError,
    NotFound,
    PipemagicError,
    ServerError,
    SessionError,
    UnknownOutcome,
    UnsupportedError,
)
from pipemagic.explore.names import near
from pipemagic.hrana.stream import Tx
from pipemagic.http import READ_TIMEOUT
from pipemagic.management_api.models import DatabaseInfo, Group, Instance, Location, Organization, Usage
from pipemagic.session import tokens
from pipemagic.session.profiles import Profile

if TYPE_CHECKING:
    from pipemagic.management_api.client import Management, Refusal  # imports httpx, which takes long
    from pipemagic.session.connection import Connection
    from pipemagic.session.session import Session

T = TypeVar("T")
N = TypeVar("N", Group, DatabaseInfo)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Listing(Generic[T]):
    """What exists; where the API cannot list it (``complete`` is False), what this session created."""

    items: Sequence[T]
    complete: bool = True


class Platform:
    """One organization. ``where`` names its service for people; see Management for the errors of the methods.

    The smallest API has five endpoints and no list of groups or databases: then the platform remembers what it created
    itself. ``find_again`` returns the API anew when nothing listens at its address any more, or when it no longer
    accepts the token; ``moves`` is True if there is such a way. The token came from ``token_variable``. Threads may
    share it.
    """

    def __init__(
        self,
        api: Management,
        where: str,
        find_again: Callable[[], Management] | None = None,
        *,
        token_variable: str = tokens.PLATFORM_TOKENS[0],
    ) -> None:
        self.where = where
        self.on_change: Callable[[Sequence[str]], None] = lambda _: None
        """Called after every change that is made in the organization here, with the names of deleted databases."""
        self.moves = find_again is not None
        self._api = api
        self._api.hint_for = self._hint_for
        self._token_variable = token_variable
        self._find_again = find_again
        self._siblings = [self]  # the organizations of the service that are in use, shared by all of them
        self._closed = False
        self._finding = threading.Lock()
        self._known: dict[str, dict[str, Any]] = {}  # groups, databases, locations by name: as listed last, or created

    @property
    def organization(self) -> str:
        """The organization's slug."""
        return self._ask(lambda api: api.slug)

    @property
    def address(self) -> str | None:
        """The address of the API; None for the embedded service, whose address is another after each start."""
        return None if self.moves else self._api.endpoint.address

    def check(self) -> None:
        """Check address, token and organization; SessionError if there is no such organization."""
        self.locations()
        try:
            self.groups()  # an API without this list accepts any name
        except NotFound:
            raise SessionError(
                f"there is no organization {self.organization!r} ({self.where})",
                hint="%pipedb organization without a name shows the one in use",
            ) from None

    def sibling(self, slug: str) -> Platform:
        """Return another organization of the same service, with the same token: the one in use, else a new one."""
        for one in self._siblings:
            if one._api.known_slug == slug:
                return one

        def of_slug(api: Management) -> Management:
            return type(api)(api.endpoint, api.transport.token, organization=slug)

        again = self._find_again
        found = Platform(
            of_slug(self._api), self.where, None if again is None else lambda: of_slug(again()),
            token_variable=self._token_variable,
        )  # fmt: skip
        found._siblings = self._siblings
        self._siblings.append(found)
        return found

    def is_same(self, other: Platform) -> bool:
        """Return True if another one is the same organization, also with another token; nothing is sent."""
        return (self._api.known_slug, self.where) == (other._api.known_slug, other.where)

    def names(self, kind: str) -> list[str]:
        """Return the names of a kind (group, database, location) that were listed or created; nothing is sent."""
        return sorted(self._known.get(kind, ()))

    def locations(self) -> list[Location]:
        """List the locations for groups, by code."""
        found = self._ask(lambda api: api.locations())
        self._known["location"] = {location.code: location for location in found}
        return found

    def groups(self) -> Listing[Group]:
        """List the groups."""
        return self._list("group", lambda api: api.groups())

    def databases(self) -> Listing[DatabaseInfo]:
        """List the databases."""
        return self._list("database", lambda api: api.databases())

    def states(self) -> dict[str, Mapping[str, str]]:
        """Return the states of the locations of each group, by name and code; this starts no service."""
        return {one.name: one.status for one in self._api.groups()}

    def cache_names(self) -> None:
        """List everything once in the background, for completion, if that was not done yet."""

        def work() -> None:
            try:
                for listing in (self.groups, self.databases, self.locations):
                    listing()
            except Exception:  # noqa: BLE001 - completion works without
                _log.debug("the names for completion could not be listed", exc_info=True)

        if "location" not in self._known:
            # No executor: the interpreter would wait at its exit for a server that does not respond.
            threading.Thread(target=work, name="pipemagic-names", daemon=True).start()

    def organizations(self) -> list[Organization]:
        """List the organizations that the token's owner belongs to."""
        return self._ask(lambda api: api.organizations())

    def settings(self) -> Organization:
        """Return the organization itself, with its settings."""
        return self._ask(lambda api: api.organization())

    def usage(self) -> Usage:
        """Return what was used in this calendar month, that of each database by its name."""
        used = self._ask(lambda api: api.usage())
        named = {one.id: one.name for one in self.databases().items if one.id}
        return Usage(used.figures, {named.get(key, key): figures for key, figures in used.databases.items()})

    def quotas(self) -> tuple[str, Mapping[str, int]]:
        """Return the plan's name and its quotas, by the names of `Usage.figures`; a missing one, or 0, is no limit."""
        plan = self._ask(lambda api: api.subscription()).plan
        try:
            plans = {one.name.lower(): one.quotas for one in self._ask(lambda api: api.plans())}
        except UnsupportedError:
            return plan, {}
        name = plan.lower()
        return plan, plans.get(name) or plans.get(name.removesuffix("_overages"), {})

    def closest(self) -> str | None:
        """Return the code of the closest location, None where the service does not know."""
        try:
            return self._ask(lambda api: api.closest()) or None
        except ConnectError:
            raise
        except PipemagicError:  # nothing depends on it
            return None

    def name_problem(self, kind: Kind, name: str) -> str:
        """Return what is wrong with a new name, '' if nothing is; nothing is sent, so the name may be taken."""
        return problem(kind, name, self._api.known_slug)

    def create_group(self, name: str, location: str, *, if_not_exists: bool = False) -> Group:
        """Create a group; with ``if_not_exists`` an existing one is returned as it is."""
        existing = (lambda api: api.group(name)) if if_not_exists else None
        fallback = self._remembered(Group(name, location, (location,)))
        return self._create(lambda api: api.create_group(name, location), existing, fallback)

    def delete_group(self, name: str) -> list[str]:
        """Delete a group with all its databases; returns the names of these, as far as they are known."""
        with self._changing() as deleted:
            inside = [one.name for one in self.databases().items if one.group == name]
            self._ask(lambda api: api.delete_group(name))
            self._known.get("group", {}).pop(name, None)
            deleted += inside
        return inside

    def add_location(self, name: str, location: str, *, if_not_exists: bool = False) -> Group:
        """Replicate a group to one more location."""
        known = self._remembered(Group(name))
        extended = replace(known, locations=tuple(dict.fromkeys([*known.locations, location])))

        def add(api: Management) -> Group:
            group = api.add_location(name, location)
            return group if location in group.locations else extended

        return self._create(add, (lambda api: api.group(name)) if if_not_exists else None, extended)

    def remove_location(self, name: str, location: str) -> Group:
        """Remove a location, not the primary one, from a group; its replicas there are deleted."""
        with self._changing():
            group = self._ask(lambda api: api.remove_location(name, location))
            known = self._known.setdefault("group", {})
            if not group.locations:  # the response does not say
                group = known.get(name, group)
                group = replace(group, locations=tuple(code for code in group.locations if code != location))
            known[name] = group
        return group

    def wait_for_location(self, group: str, location: str) -> None:
        """Return when the group's replicas at the location have caught up; ServerError (503) if that takes too long."""
        self._ask(lambda api: api.wait_for_location(group, location))

    def create_database(
        self, name: str, group: str, *, if_not_exists: bool = False, file: Path | None = None
    ) -> DatabaseInfo:
        """Create a database; with ``if_not_exists`` an existing one is returned as it is.

        It begins with the content of the SQLite ``file``, if there is one. TransferError if it is not a SQLite file.
        """
        existing = (lambda api: api.database(name)) if if_not_exists else None
        fallback = self._remembered(DatabaseInfo(name, group))
        if file is None:
            return self._create(lambda api: api.create_database(name, group), existing, fallback)
        try:
            with prepared_upload(file) as copy:
                return self._create(lambda api: create_from_file(api, name, group, copy), existing, fallback)
        except ServerError as error:
            if '"seed"' not in error.message:
                raise
            hint = (  # for a service that accepts no files
                f"sqlite3 {file} .dump > COPY.sql, then pipemagic db create {name} --group {group}, then "
                f"pipemagic db shell {name} < COPY.sql"
            )
            raise ServerError(error.message, status=error.status, code=error.code, hint=hint) from None

    def delete_database(self, name: str) -> None:
        """Delete a database and everything in it."""
        with self._changing() as deleted:
            self._ask(lambda api: api.delete_database(name))
            deleted.append(name)

    def instances(self, database: str) -> list[Instance]:
        """List a database's instances, one for each location, the primary first."""
        return self._ask(lambda api: api.instances(database))

    def create_token(self, database: str, *, expiration: str = "never", read_only: bool = False) -> Secret:
        """Make a token for a database; ``expiration`` is like ``7d``, ``1w2d6h`` or ``never``."""
        return self._ask(lambda api: api.create_token(database, expiration=expiration, read_only=read_only))

    def invalidate_tokens(self, database: str) -> None:
        """Make all tokens of a database invalid, at once; with some services those of its whole group."""
        self._ask(lambda api: api.invalidate_tokens(database))

    def set_overages(self, *, on: bool) -> bool:
        """Set whether the organization may go past its quotas; returns the setting after that."""
        with self._changing():
            overages = self._ask(lambda api: api.update_organization(overages=on)).overages
        return on if overages is None else overages

    def open(
        self, name: str, timeout: float | None = READ_TIMEOUT, *, read_only: bool = False, similar: Sequence[str] = ()
    ) -> Database:
        """Return a database, with a token made for this session; ``timeout`` is in seconds.

        With ``read_only`` neither the token nor the Database lets anything write. If there is no such database the
        error names the nearest one, or the nearest of the ``similar`` names.
        """
        info = self._find(name, similar)
        if not info.url:
            raise SessionError(
                f"the service does not say at which address {name} is",
                hint="%pipedb connect ADDRESS --token-env VARIABLE",
            )
        try:
            token = self._ask(lambda api: api.create_token(name, read_only=read_only))
        except (NotFound, UnsupportedError):
            raise SessionError(
                f"the service makes no tokens for {name}", hint=f"%pipedb connect {info.url} --token-env VARIABLE"
            ) from None
        return Database(info.url, token, timeout=timeout, read_only=read_only)

    def close(self) -> None:
        """Close the connections to the API for good: later requests raise ConnectError."""
        with self._finding:
            self._closed = True
            self._siblings[:] = [one for one in self._siblings if one is not self]
            self._api.close()

    @contextmanager
    def _changing(self) -> Iterator[list[str]]:
        """Report a change when it is made, and where the refusal shows that somebody else made one.

        The list is for the names of databases that it deletes.
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
            return self._ask(lambda api: api.database(name))
        except (NotFound, UnsupportedError) as error:
            if isinstance(error, NotFound) and "organization not found" in error.message:
                raise
        listed = {one.name: one for one in self.databases().items}
        if name in listed:  # an API without that endpoint
            return listed[name]
        hint = near(name, listed) or near(name, similar)
        if not hint and re.fullmatch(r"[a-z0-9-]+", name):  # no service makes others
            hint = f"%pipedb create-database {name} --group GROUP makes it"
        raise SessionError(
            f"there is no database {name!r} in organization {self.organization}",
            hint=hint or "%pipedb databases lists what there is",
        )

    def _list(self, kind: str, ask: Callable[[Management], list[N]]) -> Listing[N]:
        try:
            found = self._ask(ask)
        except UnsupportedError:
            return Listing(list(self._known.get(kind, {}).values()), complete=False)
        self._known[kind] = {one.name: one for one in found}
        return Listing(found)

    def _remembered(self, new: N) -> N:
        """Return what is known under the name of something new, else that."""
        found: N = self._known.get(new.wrapper, {}).get(new.name, new)
        return found

    def _create(self, create: Callable[[Management], N], existing: Callable[[Management], N] | None, fallback: N) -> N:
        """Create something, or return the ``existing`` one; the ``fallback`` is for an API that cannot return it."""
        with self._changing():
            try:
                found = self._ask(create)
            except AlreadyExists as taken:
                if existing is None:
                    raise
                found = self._existing(existing, fallback, taken)
            self._known.setdefault(fallback.wrapper, {})[fallback.name] = found
        return found

    def _existing(self, existing: Callable[[Management], N], fallback: N, taken: AlreadyExists) -> N:
        try:
            return self._ask(existing)
        except UnsupportedError:
            return fallback
        except NotFound:  # either an API without this endpoint, or the name belongs to somebody else
            if not self.groups().complete:
                return fallback
        hint = "choose another name, or go on with what is there"
        raise AlreadyExists(taken.message, status=taken.status, hint=hint) from None

    def _ask(self, ask: Callable[[Management], T]) -> T:
        """Call the API; where it is another one by now, with another address or token, call that one."""
        api = self._api
        try:
            return ask(api)
        except (ConnectError, AuthError) as error:
            if self._find_again is None or (isinstance(error, AuthError) and error.status != 401):
                raise
            with self._finding:
                if self._closed:  # meanwhile: what is found again would never be closed
                    raise
                if self._api is api:  # else another thread has found it
                    self._api = self._find_again()
                    self._api.hint_for = self._hint_for
                    api.close()
        return ask(self._api)

    def _hint_for(self, refusal: Refusal) -> str:
        """Return what a notebook can do about a refusal: mostly the line to type."""
        from pipemagic.management_api.client import hint_for

        hint, kind = hint_for(refusal), refusal.unknown_kind
        if refusal.name_is_taken:
            return "choose another name, or take what is there with --if-not-exists"
        if kind:
            return self._nearest_name(kind, refusal) or f"%pipedb {kind}s lists what there is"
        match refusal.status:
            case 400 | 404 if "expiration" in refusal.message.lower():
                return "write it as 7d, 1w2d6h or never"
            case 401 if self.moves:
                return "%pipedb stop, then %pipedb connect, starts the service anew"
            case 401:
                slug = f" {self._api.known_slug}" if self._api.known_slug else ""
                line = f"%pipedb organization{slug} --at {self.address} --token-env {self._token_variable}"
                return f"put a valid platform token into the variable {self._token_variable}, then {line}"
            case 402:
                return f"{hint}; %pipedb usage shows what it does"
            case 403:
                return "it takes another role in the organization, or a token that may do more"
            case status if status >= 500 and refusal.method != "GET":
                return f"{hint}; %pipedb groups and %pipedb databases show what there is"
        return hint

    def _nearest_name(self, kind: str, refusal: Refusal) -> str:
        """Return the hint with the nearest name for an unknown one in a request that changes something."""
        name = refusal.names.get(kind)
        if name is None or refusal.method == "GET":
            return ""
        if kind not in self._known:
            try:
                {"group": self.groups, "database": self.databases, "location": self.locations}[kind]()
            except PipemagicError:
                _log.debug("no names for a hint", exc_info=True)
        return near(name, set(self.names(kind)) - {name})


# -- SQLite files


@contextmanager
def prepared_upload(source: Path) -> Iterator[Path]:
    """Copy a SQLite file, which other programs may be using, into the form that services accept.

    The copy is removed at the end. Raises TransferError if it is not a SQLite file.
    """
    # A session that sends no file does not load the SQLite library.
    from pipemagic.service.transfer.upload import prepare_upload

    with tempfile.TemporaryDirectory(prefix="pipemagic-", ignore_cleanup_errors=True) as scratch:
        copy = Path(scratch) / "upload.sqlite"
        prepare_upload(source, copy)
        yield copy


def create_from_file(
    api: Management,
    name: str,
    group: str,
    file: Path,
    *,
    size_limit: str | None = None,
    warn: Callable[[str], None] = lambda _: None,
) -> DatabaseInfo:
    """Create a database and send its file, as `prepared_upload` yields it; if that fails there is no database.

    ``warn`` is called if the empty database could not be deleted.
    """
    from pipemagic.client import transfer

    info = api.create_database(name, group, awaits_upload=True, size_limit=size_limit)
    try:
        url = info.url or api.database(name).url
        with Database(url, api.create_token(name, expiration="1d")) as database:
            transfer.upload(database, file)
    except BaseException:
        try:
            api.delete_database(name)
        except PipemagicError as error:
            warn(f"Warning: the database {name} is empty and could not be deleted: {error.message}")
        raise
    return info


# -- connections


def database_of(connection: Connection, organization: str, where: str) -> str | None:
    """Return the name of a connection's database, None if it is not one of this organization and service."""
    if connection.platform is None or connection.where != where:
        return None
    profile = connection.profile  # None for a temporary service, which has one organization
    return connection.listed_as if profile is None or profile.organization == organization else None


def connections_of(session: Session, database: str, organization: str, where: str) -> list[Connection]:
    """Return the connections to a database of an organization, the current one first."""
    found = [one for one in list(session.connections.values()) if database_of(one, organization, where) == database]
    return sorted(found, key=lambda one: one.name != session.current)


def invalidate_tokens(session: Session, database: str, platform: Platform | None = None) -> list[str]:
    """Make all tokens of a database invalid, and return lines that report it; by default in the current organization.

    Some services do that to the whole group, so the connections of this session to any database of the group get new
    tokens. Raises what `Platform.invalidate_tokens` does.
    """
    platform = platform or session.platform
    group = {one.name: one.group for one in platform.databases().items}
    platform.invalidate_tokens(database)
    lines = [f"All tokens of {database} are invalid."]
    for connection in list(session.connections.values()):
        name = database_of(connection, platform.organization, platform.where)
        if name is not None and (name == database or (group.get(name) and group.get(name) == group.get(database))):
            lines.append(_renew_token(session, connection, name, platform))
    return lines


def _renew_token(session: Session, connection: Connection, database: str, platform: Platform) -> str:
    was_open = connection.transaction is Tx.OPEN
    timeout = None if connection.profile is None else connection.profile.timeout
    try:
        profile = Profile(connection.name, database=database, timeout=timeout, read_only=connection.read_only)
        connection.renew(session.open(profile, platform))
    except PipemagicError as error:
        return f"{connection.name} has no new token ({error.message}): %pipedb connect {connection.name} makes one."
    ended = " Its open transaction may be rolled back." if was_open else ""
    return f"{connection.name} goes on with a new token.{ended}"
