"""The management API: accounts, organizations, groups, databases and tokens, one method per endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pipemagic.client.calls import Caller
from pipemagic.client.resources import (
    ApiToken,
    DatabaseInfo,
    Group,
    Instance,
    Location,
    Login,
    Member,
    Organization,
    Plan,
    Subscription,
    Usage,
    listed,
    member,
    text_of,
    unwrapped,
)
from pipemagic.client.secrets import Secret
from pipemagic.client.transport import CONNECT_TIMEOUT, READ_TIMEOUT
from pipemagic.errors import AuthError, ProtocolError

if TYPE_CHECKING:
    import httpx


def management(
    url: str,
    token: str | None = None,
    *,
    organization: str | None = None,
    timeout: float | None = READ_TIMEOUT,
    connect_timeout: float | None = CONNECT_TIMEOUT,
    http: httpx.Client | None = None,
) -> Management:
    """Give the management API at ``url``; nothing is sent yet.

    ``token`` is a platform token; ``organization`` the slug of an organization or a personal account, by default
    the token's own. The other arguments are those of `pipemagic.connect`.
    """
    return Management(
        url, token, organization=organization, timeout=timeout, connect_timeout=connect_timeout, http=http
    )


class Management(Caller):
    """One organization, or personal account, behind a management API.

    Methods raise AuthError (401, 403), NotFound (404), AlreadyExists (409, or 400 with that text), ServerError
    for other refusals, UnsupportedError for what the server does not have, ProtocolError for an answer that
    is none, ConnectError and UnknownOutcome as a database does.
    """

    # -- the account

    def signup(self, username: str, password: str) -> Login:
        """Make an account and log in."""
        return self._login("signup", username, password)

    def login(self, username: str, password: str) -> Login:
        """Get a token for an account; it lasts some days."""
        return self._login("login", username, password)

    def invalidate_logins(self) -> None:
        """End all login tokens of the account."""
        self._offered("logins", "POST", "/v1/auth/invalidate", {})

    def username(self) -> str:
        """Give the name of the account that the token belongs to."""
        parsed = self._offered("the account's name", "GET", "/v1/user")
        return text_of(unwrapped(parsed, "user"), "username", "name")

    def validate(self) -> float | None:
        """Give the second (Unix time) at which the platform token expires, None if never; AuthError if it is bad."""
        expires = member(self._get("/v1/auth/validate"), "exp")
        return float(expires) if isinstance(expires, int | float) and expires >= 0 else None

    def api_tokens(self) -> list[ApiToken]:
        """List the account's platform tokens, without their values."""
        parsed = self._list("/v1/auth/api-tokens", "tokens")
        return [ApiToken.read(one) for one in listed(parsed, "tokens")]

    def create_api_token(self, name: str) -> Secret:
        """Make a platform token; its value is told only now."""
        parsed = self._offered("tokens", "POST", self._below("/v1/auth/api-tokens", name))
        return _secret(member(unwrapped(parsed, "token"), "token", "value"))

    def revoke_api_token(self, name: str) -> None:
        """Revoke a platform token."""
        self._call("DELETE", self._below("/v1/auth/api-tokens", name))

    # -- organizations and locations

    def locations(self) -> list[Location]:
        """List the locations for groups and databases, by code."""
        return Location.read_all(self._get("/v1/locations"))

    def closest(self) -> str:
        """Give the code of the location where a new group had best be; '' if the server does not know."""
        return text_of(self._offered("the closest location", "GET", "/v1/closest"), "server")

    def organization(self) -> Organization:
        """Give the organization itself."""
        parsed = self._offered("an organization's settings", "GET", self._path())
        return Organization.read(unwrapped(parsed, "organization"), slug=self.slug)

    def create_organization(self, name: str) -> Organization:
        """Make an organization; the server makes the slug from its name."""
        parsed = self._offered("more organizations", "POST", "/v1/organizations", {"name": name})
        inner = unwrapped(parsed, "organization")
        return Organization.read(unwrapped(inner, "org"), slug=name)

    def update_organization(self, *, overages: bool) -> Organization:
        """Set whether the organization may go past its quotas."""
        parsed = self._call("PATCH", self._path(), {"overages": overages})
        return Organization.read(unwrapped(parsed, "organization"), slug=self.slug, overages=overages)

    def members(self) -> list[Member]:
        """List who belongs to the organization."""
        return [Member.read(one) for one in listed(self._list(self._path("members"), "members"), "members")]

    def add_member(self, username: str, role: str = "member") -> Member:
        """Let an account into the organization."""
        wish = {"member": username, "username": username, "role": role}
        parsed = self._offered("members", "POST", self._path("members"), wish)
        return Member.read(unwrapped(parsed, "member"), username=username, role=role)

    def remove_member(self, username: str) -> None:
        """Take an account out of the organization."""
        self._offered("members", "DELETE", self._path("members", username))

    def subscription(self) -> Subscription:
        """Give the organization's plan."""
        parsed = self._offered("plans", "GET", self._path("subscription"))
        return Subscription.read(unwrapped(parsed, "subscription"))

    def plans(self) -> list[Plan]:
        """List the plans with their quotas."""
        return [Plan.read(one) for one in listed(self._list(self._path("plans"), "plans"), "plans")]

    def usage(self) -> Usage:
        """Give what the organization used in this calendar month."""
        parsed = self._offered("figures of use", "GET", self._path("usage"))
        return Usage.read(unwrapped(parsed, "organization"))

    # -- groups

    def groups(self) -> list[Group]:
        """List the groups."""
        return [Group.read(one) for one in listed(self._list(self._path("groups"), "groups"), "groups")]

    def group(self, name: str) -> Group:
        """Give one group."""
        return Group.read(unwrapped(self._get(self._path("groups", name)), "group"), name=name)

    def create_group(self, name: str, location: str) -> Group:
        """Create a group with its primary location, a code from `locations`."""
        parsed = self._call("POST", self._path("groups"), {"name": name, "location": location})
        return Group.read(unwrapped(parsed, "group"), name=name, location=location)

    def delete_group(self, name: str) -> None:
        """Delete a group with all its databases."""
        self._offered("deleting groups", "DELETE", self._path("groups", name))

    def add_location(self, group: str, location: str) -> Group:
        """Replicate a group's databases to one more location."""
        parsed = self._call("POST", self._location(group, location))
        return Group.read(unwrapped(parsed, "group"), name=group)

    def remove_location(self, group: str, location: str) -> Group:
        """Remove the replicas of a group's databases at a location; not the primary one."""
        parsed = self._offered("removing locations", "DELETE", self._location(group, location))
        return Group.read(unwrapped(parsed, "group"), name=group)

    def wait_for_location(self, group: str, location: str) -> None:
        """Return when every replica of the group at the location has caught up, as far as the server waits."""
        self._offered("waiting for a location", "GET", f"{self._location(group, location)}/wait")

    def pause_location(self, group: str, location: str) -> Group:
        """Take a location down; the others go on."""
        return self._turn(group, location, "pause")

    def resume_location(self, group: str, location: str) -> Group:
        """Take a location up again; its replicas catch up."""
        return self._turn(group, location, "resume")

    def create_group_token(self, group: str, *, expiration: str = "never", read_only: bool = False) -> Secret:
        """Make a token for all databases of a group; see `create_token`."""
        wish = _token_wish(expiration, read_only)
        path = self._path("groups", group, "auth", "tokens")
        return _secret(member(self._offered("tokens for groups", "POST", path, params=wish), "jwt"))

    def invalidate_group_tokens(self, group: str) -> None:
        """Make all tokens of a group and of its databases invalid, at once."""
        self._offered("invalidating tokens", "POST", self._path("groups", group, "auth", "rotate"))

    # -- databases

    def databases(self, group: str | None = None) -> list[DatabaseInfo]:
        """List the databases, of one group or of all."""
        found = [self._database(one) for one in self._pages(self._path("databases"), "databases", group)]
        # A server that does not know the filter gives all of them.
        return [one for one in found if group is None or one.group in (group, "")]

    def database(self, name: str) -> DatabaseInfo:
        """Give one database."""
        return self._database(unwrapped(self._get(self._path("databases", name)), "database"), name=name)

    def create_database(
        self, name: str, group: str, *, copy_of: str | None = None, awaits_upload: bool = False,
        size_limit: str | None = None,
    ) -> DatabaseInfo:  # fmt: skip
        """Create a database in an existing group.

        ``copy_of`` names a database whose present state it starts with; with ``awaits_upload`` it is of no use
        until a file is sent to it (`pipemagic.client.transfer.upload`). ``size_limit`` is like ``256mb``.
        """
        wish: dict[str, object] = {"name": name, "group": group}
        if copy_of is not None:
            wish["seed"] = {"type": "database", "name": copy_of}
        elif awaits_upload:
            wish["seed"] = {"type": "database_upload"}
        if size_limit is not None:
            wish["size_limit"] = size_limit
        parsed = self._call("POST", self._path("databases"), wish)
        return self._database(unwrapped(parsed, "database"), name=name, group=group)

    def delete_database(self, name: str) -> None:
        """Delete a database and everything in it."""
        self._offered("deleting databases", "DELETE", self._path("databases", name))

    def instances(self, database: str) -> list[Instance]:
        """List a database's instances, one for each location, the primary first."""
        parsed = self._list(self._path("databases", database, "instances"), "instances")
        found = [Instance.read(one, self.endpoint) for one in listed(parsed, "instances")]
        return sorted(found, key=lambda one: (one.type != "primary", one.name))

    def create_token(self, database: str, *, expiration: str = "never", read_only: bool = False) -> Secret:
        """Make a token for a database; ``expiration`` is like ``7d``, ``1w2d6h`` or ``never``."""
        wish = _token_wish(expiration, read_only)
        path = self._path("databases", database, "auth", "tokens")
        return _secret(member(self._offered("tokens", "POST", path, params=wish), "jwt"))

    def invalidate_tokens(self, database: str) -> None:
        """Make all tokens of a database invalid, at once; with some services those of its whole group."""
        self._offered("invalidating tokens", "POST", self._path("databases", database, "auth", "rotate"))

    # -- inside

    def _login(self, how: str, username: str, password: str) -> Login:
        wish = {"username": username, "password": password}
        try:
            parsed = self._offered(f"{how} by password", "POST", f"/v1/auth/{how}", wish)
        except AuthError as refused:  # there is no token yet, which the usual words are about
            text = refused.message.partition(": ")[2] or refused.message
            raise AuthError(text, status=refused.status, code=refused.code) from None
        token = _secret(member(parsed, "token", "jwt"))
        return Login(token, text_of(parsed, "username") or username, text_of(parsed, "organization"))

    def _pages(self, path: str, what: str, group: str | None) -> Iterator[Any]:
        """Give a list's items, also where it comes in pages: ``pagination.next`` leads to the next one."""
        params, seen = {"group": group} if group else {}, set[str]()
        while True:
            parsed = self._list(path, what, params)
            yield from listed(parsed, what)
            cursor = text_of(member(parsed, "pagination"), "next")
            if not cursor or cursor in seen:
                return
            seen.add(cursor)
            params = {**params, "cursor": cursor}

    def _turn(self, group: str, location: str, how: str) -> Group:
        parsed = self._offered(f"to {how} locations", "POST", f"{self._location(group, location)}/{how}")
        return Group.read(unwrapped(parsed, "group"), name=group)

    def _location(self, group: str, location: str) -> str:
        return self._path("groups", group, "locations", location)

    def _database(self, parsed: Any, name: str = "", group: str = "") -> DatabaseInfo:
        return DatabaseInfo.read(parsed, self.endpoint, name=name, group=group)


def _token_wish(expiration: str, read_only: bool) -> dict[str, str]:
    return {"expiration": expiration, "authorization": "read-only" if read_only else "full-access"}


def _secret(token: Any) -> Secret:
    if not isinstance(token, str) or not token:
        raise ProtocolError("the server's answer holds no token")
    return Secret(token)
