"""An organization behind a management API, as the session sees it: also where that API is a small one."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from msgspec.structs import replace

from pipemagic.client import names
from pipemagic.client.database import Database
from pipemagic.client.secrets import Secret
from pipemagic.client.transport import READ_TIMEOUT
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
from pipemagic.management_api.client import Management
from pipemagic.management_api.models import DatabaseInfo, Group, Instance, Location, Organization, Usage
from pipemagic.session import refusals, secrets, uploads

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Listing(Generic[T]):
    """What there is; where the API cannot list it (``complete`` is False), what this session made."""

    items: Sequence[T]
    complete: bool = True


class Platform:
    """One organization. ``where`` names its service for people; see Management for the errors of the methods.

    The requirement's API has five endpoints and no list of groups or databases: there the platform remembers
    what it made itself. ``find_again`` gives the API anew when nothing listens at its address any more, or when it
    takes the token no longer; ``moves`` tells whether there is such a way. The token came from ``token_variable``.
    May be used from several threads.
    """

    def __init__(
        self,
        api: Management,
        where: str,
        find_again: Callable[[], Management] | None = None,
        *,
        token_variable: str = secrets.PLATFORM_TOKENS[0],
    ) -> None:
        self.where = where
        self.on_change: Callable[[], None] = lambda: None
        """Called after every change that is made in the organization here."""
        self.on_gone: Callable[[Sequence[str]], None] = lambda _: None
        """Called with the names of databases that were deleted here."""
        self.moves = find_again is not None
        self._service = object()  # its siblings have the same
        self._api = api
        self._token_variable = token_variable
        self._find_again = find_again
        self._closed = False
        self._finding = threading.Lock()
        self._groups: dict[str, Group] = {}
        self._databases: dict[str, DatabaseInfo] = {}
        self.seen: dict[str, set[str]] = {}
        """Names of each kind (group, database, location) that were listed or made, for completion."""

    @property
    def organization(self) -> str:
        """The organization's slug."""
        return self._ask(lambda api: api.slug)

    @property
    def address(self) -> str | None:
        """The address of the API; None for the embedded service, whose address is another after each start."""
        return None if self.moves else self._api.endpoint.address

    def check(self) -> None:
        """Find out whether address, token and organization are right; SessionError if there is no such organization."""
        self.locations()
        try:
            self.groups()  # an API without this list cannot tell
        except NotFound:
            raise SessionError(
                f"there is no organization {self.organization!r} ({self.where})",
                hint="%pipedb organization without a name shows the one in use",
            ) from None

    def sibling(self, slug: str) -> Platform:
        """Give another organization of the same service, with the same token."""

        def of_slug(api: Management) -> Management:
            return Management(api.endpoint, api.transport.token, organization=slug)

        again = self._find_again
        found = Platform(
            of_slug(self._api), self.where, None if again is None else lambda: of_slug(again()),
            token_variable=self._token_variable,
        )  # fmt: skip
        found._service = self._service
        return found

    def is_sibling(self, slug: str, other: Platform) -> bool:
        """Tell whether this is what `sibling` of another one would give."""
        return self._service is other._service and self._api.known_slug == slug

    def is_same(self, other: Platform) -> bool:
        """Tell whether another one is the same organization, also with another token; asks nobody."""
        return (self._api.known_slug, self.where) == (other._api.known_slug, other.where)

    def locations(self) -> list[Location]:
        """List the locations for groups, by code."""
        found = self._ask(lambda api: api.locations())
        self.seen["location"] = {location.code for location in found}
        return found

    def groups(self) -> Listing[Group]:
        """List the groups."""
        try:
            found = self._ask(lambda api: api.groups())
            self.seen["group"] = {group.name for group in found}
            return Listing(found)
        except UnsupportedError:
            return Listing(list(self._groups.values()), complete=False)

    def states(self) -> dict[str, Mapping[str, str]]:
        """Tell how the locations of each group are, by name and code; for this no service is started again."""
        return {one.name: one.status for one in self._api.groups()}

    def databases(self) -> Listing[DatabaseInfo]:
        """List the databases."""
        try:
            found = self._ask(lambda api: api.databases())
            self.seen["database"] = {database.name for database in found}
            return Listing(found)
        except UnsupportedError:
            return Listing(list(self._databases.values()), complete=False)

    def organizations(self) -> list[Organization]:
        """List the organizations that the token's owner belongs to."""
        return self._ask(lambda api: api.organizations())

    def settings(self) -> Organization:
        """Give the organization itself, with its settings."""
        return self._ask(lambda api: api.organization())

    def usage(self) -> Usage:
        """Give what was used in this calendar month, that of each database by its name."""
        used = self._ask(lambda api: api.usage())
        named = {one.id: one.name for one in self.databases().items if one.id}
        return Usage(used.figures, {named.get(key, key): figures for key, figures in used.databases.items()})

    def quotas(self) -> tuple[str, Mapping[str, int]]:
        """Give the plan's name and its quotas, by the names of `Usage.figures`; a missing one, or 0, is no limit."""
        plan = self._ask(lambda api: api.subscription()).plan
        try:
            plans = {one.name.lower(): one.quotas for one in self._ask(lambda api: api.plans())}
        except UnsupportedError:
            return plan, {}
        name = plan.lower()
        return plan, plans.get(name) or plans.get(name.removesuffix("_overages"), {})

    def closest(self) -> str | None:
        """Give the code of the location that is the closest one, None where the service does not tell."""
        try:
            return self._ask(lambda api: api.closest()) or None
        except ConnectError:
            raise
        except PipemagicError:  # nothing depends on it
            return None

    def name_problem(self, kind: names.Kind, name: str) -> str:
        """Say what is wrong with a new name, '' if nothing is; asks nobody, so a taken one may be fine here."""
        return names.problem(kind, name, self._api.known_slug)

    def create_group(self, name: str, location: str, *, if_not_exists: bool = False) -> Group:
        """Create a group; with ``if_not_exists`` an existing one is given as it is."""
        with self._naming(location=location), self._changing():
            group = self._unless_there(
                lambda api: api.create_group(name, location),
                (lambda api: api.group(name)) if if_not_exists else None,
                self._groups.get(name, Group(name, location, (location,))),
            )
            self._groups[name] = group
            self.seen.setdefault("group", set()).add(name)
        return group

    def delete_group(self, name: str) -> list[str]:
        """Delete a group with all its databases; gives the names of these, as far as they are known."""
        with self._naming(group=name), self._changing():
            gone = [one.name for one in self.databases().items if one.group == name]
            self._ask(lambda api: api.delete_group(name))
            self._groups.pop(name, None)
            self.seen.get("group", set()).discard(name)
            self._forget(gone)
        return gone

    def add_location(self, name: str, location: str, *, if_not_exists: bool = False) -> Group:
        """Replicate a group to one more location."""
        with self._naming(group=name, location=location), self._changing():
            known = self._groups.get(name, Group(name, "", ()))
            wanted = replace(known, locations=tuple(dict.fromkeys([*known.locations, location])))
            group = self._unless_there(
                lambda api: api.add_location(name, location),
                (lambda api: api.group(name)) if if_not_exists else None,
                wanted,
            )
            self._groups[name] = group = group if location in group.locations else wanted
        return group

    def remove_location(self, name: str, location: str) -> Group:
        """Take a location, not the primary one, from a group; its replicas there are deleted."""
        with self._naming(group=name, location=location), self._changing():
            group = self._ask(lambda api: api.remove_location(name, location))
            if not group.locations:  # the answer does not say
                known = self._groups.get(name, group)
                group = replace(known, locations=tuple(code for code in known.locations if code != location))
            self._groups[name] = group
        return group

    def wait_for_location(self, group: str, location: str) -> None:
        """Return when the group's replicas at the location have caught up; ServerError (503) if that takes too long."""
        self._ask(lambda api: api.wait_for_location(group, location))

    def create_database(
        self, name: str, group: str, *, if_not_exists: bool = False, file: Path | None = None
    ) -> DatabaseInfo:
        """Create a database; with ``if_not_exists`` an existing one is given as it is.

        It begins with the content of the SQLite ``file``, if there is one. TransferError if that file is none.
        """
        if file is None:
            return self._create_database(name, group, if_not_exists, lambda api: api.create_database(name, group))
        try:
            with uploads.prepared(file) as copy:
                return self._create_database(
                    name, group, if_not_exists, lambda api: uploads.create(api, name, group, copy)
                )
        except ServerError as error:
            uploads.explain(error, name, group, str(file))
            raise

    def _create_database(
        self, name: str, group: str, if_not_exists: bool, create: Callable[[Management], DatabaseInfo]
    ) -> DatabaseInfo:
        with self._naming(group=group), self._changing():
            database = self._unless_there(
                create,
                (lambda api: api.database(name)) if if_not_exists else None,
                self._databases.get(name, DatabaseInfo(name, group, "", "")),
            )
            self._databases[name] = database
            self.seen.setdefault("database", set()).add(name)
        return database

    def delete_database(self, name: str) -> None:
        """Delete a database and everything in it."""
        with self._naming(database=name), self._changing():
            self._ask(lambda api: api.delete_database(name))
            self._forget([name])

    def instances(self, database: str) -> list[Instance]:
        """List a database's instances, one for each location, the primary first."""
        return self._ask(lambda api: api.instances(database))

    def create_token(self, database: str, *, expiration: str = "never", read_only: bool = False) -> Secret:
        """Make a token for a database; ``expiration`` is like ``7d``, ``1w2d6h`` or ``never``."""
        with self._naming(database=database):
            return self._ask(lambda api: api.create_token(database, expiration=expiration, read_only=read_only))

    def invalidate_tokens(self, database: str) -> None:
        """Make all tokens of a database invalid, at once; with some services those of its whole group."""
        with self._naming(database=database):
            self._ask(lambda api: api.invalidate_tokens(database))

    def set_overages(self, *, on: bool) -> bool:
        """Set whether the organization may go past its quotas; gives what it is then."""
        with self._changing():
            told = self._ask(lambda api: api.update_organization(overages=on)).overages
        return on if told is None else told

    def open(self, name: str, timeout: float | None = READ_TIMEOUT, *, read_only: bool = False) -> Database:
        """Give a database, with a token made for this session; ``timeout`` is in seconds.

        With ``read_only`` neither the token nor the Database lets anything write.
        """
        info = self._find(name)
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
        """Close the connections to the API, for good: who still asks gets ConnectError."""
        with self._finding:
            self._closed = True
            self._api.close()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Tell of a change when it is made, and where the refusal shows that somebody else made one."""
        try:
            yield
        except (NotFound, AlreadyExists, UnknownOutcome):
            self.on_change()
            raise
        self.on_change()

    @contextmanager
    def _naming(self, **given: str) -> Iterator[None]:
        """Put the nearest known name into the refusal of an unknown group, database or location."""
        try:
            yield
        except ServerError as error:
            kind = refusals.unknown_kind(error)
            if kind in given and (hint := self._near(kind, given[kind])):
                error.hint = hint
            raise

    def _near(self, kind: str, name: str) -> str:
        known = self.seen.get(kind)
        if known is None:
            try:
                match kind:
                    case "group":
                        known = {one.name for one in self.groups().items}
                    case "database":
                        known = {one.name for one in self.databases().items}
                    case _:
                        known = {one.code for one in self.locations()}
            except PipemagicError:
                _log.debug("no names for a hint", exc_info=True)
                known = set()
        return near(name, known - {name})

    def _forget(self, databases: Sequence[str]) -> None:
        for name in databases:
            self._databases.pop(name, None)
            self.seen.get("database", set()).discard(name)
        self.on_gone(databases)

    def _find(self, name: str) -> DatabaseInfo:
        try:
            return self._ask(lambda api: api.database(name))
        except (NotFound, UnsupportedError) as error:
            if name in self._databases:
                return self._databases[name]
            if isinstance(error, NotFound) and "organization not found" in error.message:
                raise
        hint = near(name, (one.name for one in self.databases().items)) or "%pipedb databases lists what there is"
        if "did you mean" not in hint and re.fullmatch(r"[a-z0-9-]+", name):  # no service makes others
            hint = f"%pipedb create-database {name} --group GROUP makes it"
        raise SessionError(f"there is no database {name!r} in organization {self.organization}", hint=hint)

    def _unless_there(self, create: Callable[[Management], T], look: Callable[[Management], T] | None, known: T) -> T:
        """Create; if the name is taken, look at what is there, where that is wanted and the API can tell."""
        try:
            return self._ask(create)
        except AlreadyExists as refused:
            taken = refused
        if look is None:
            taken.hint = "choose another name, or take what is there with --if-not-exists"
            raise taken
        try:
            return self._ask(look)
        except UnsupportedError:
            return known
        except NotFound:  # either an API without this question, or the name belongs to somebody else
            if self.groups().complete:
                raise taken from None
            return known

    def _ask(self, ask: Callable[[Management], T]) -> T:
        try:
            return self._asked(ask)
        except ServerError as error:
            renewal = refusals.renewal(self._api.known_slug, self.address, self._token_variable)
            refusals.add_hint(error, renewal=renewal)
            raise

    def _asked(self, ask: Callable[[Management], T]) -> T:
        """Ask the API; where it is another one by now, with another address or token, ask that one."""
        api = self._api
        try:
            return ask(api)
        except (ConnectError, AuthError) as error:
            if self._find_again is None or (isinstance(error, AuthError) and error.status != 401):
                raise
            with self._finding:
                if self._closed:  # meanwhile: nobody would close what is found again
                    raise
                if self._api is api:  # else another thread has found it
                    self._api = self._find_again()
                    api.close()
        return ask(self._api)
