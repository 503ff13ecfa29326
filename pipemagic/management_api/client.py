"""The client of the management API: a method for each endpoint."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote

import msgspec

from pipemagic.client.address import Endpoint, parse_api_address
from pipemagic.client.http_errors import OTHER_TOKEN, PARTLY, retry_seconds, retry_time
from pipemagic.client.response_body import HttpResponse
from pipemagic.client.secrets import BearerToken, EncryptionKey, Secret
from pipemagic.client.transport import Transport
from pipemagic.errors import (
    AlreadyExists,
    AuthError,
    BusyError,
    NotFound,
    ParameterError,
    PipemagicError,
    ProtocolError,
    ServerError,
    SessionError,
    UnsupportedError,
)
from pipemagic.hrana.faults import read_fault
from pipemagic.http import CONNECT_TIMEOUT, READ_TIMEOUT
from pipemagic.management_api.branches import timestamp
from pipemagic.management_api.models import (
    DEFAULT_GROUP,
    ApiToken,
    AuditLog,
    CodeAccess,
    DatabaseInfo,
    Group,
    Instance,
    Location,
    Login,
    Member,
    Organization,
    Plan,
    Subscription,
    TopQuery,
    Usage,
    listed,
    member,
    text_of,
    timestamp_in,
    wrapped,
)
from pipemagic.scopes import PRESETS, SCOPES, expand, required_scope

if TYPE_CHECKING:
    import httpx

_MISSING = re.compile(
    r"\b(?:organization|group|database|location|member|user|token)\b.* not found|could not find |is not a member",
    re.IGNORECASE,
)
"""A 404 about an object: the endpoint exists, the object does not. The published API and ours use these words."""

_UNKNOWN = re.compile(
    r"\b(group|database|organization|token)\b.* not found|could not find (database)|invalid (location)", re.IGNORECASE
)
"""The same in a 400 or 404, for the kinds of names that requests have."""

PAGE = 1000
"""The number of databases that a request asks for, as the public command-line tool does."""

_LOGINS = ("/v1/auth/signup", "/v1/auth/login", "/v1/auth/code")
_ERRORS: dict[int, tuple[type[ServerError], str]] = {
    401: (AuthError, "the token was not accepted"),
    403: (AuthError, "the token does not allow this"),
    404: (NotFound, "not found"),
    429: (BusyError, "the server is busy"),
}
"""The errors of some statuses, and the beginnings of their messages."""


@dataclass(frozen=True)
class Refusal:
    """A refused request, as far as its hint depends on it.

    ``names`` holds the names in the request by kind: group, database, location.
    """

    method: str
    status: int
    message: str
    retry: str
    names: Mapping[str, str]
    scope: str = ""
    """The scope that the request needs if the token is limited to a group; '' if no scope suffices."""

    @property
    def name_is_taken(self) -> bool:
        """Whether a name already exists. Requests other than POST create nothing."""
        if self.method != "POST":
            return False
        match self.status:
            case 409:  # by the documents of the published API, and by ours
                return True
            case 400:  # by the published API since July 2026
                return "already exists" in self.message
            case 422:  # a name that cannot be taken, by both
                return "not available" in self.message
        return False

    @property
    def unknown_kind(self) -> str:
        """The kind of the unknown name: group, database, organization, location or token; '' for other errors."""
        unknown = _UNKNOWN.search(self.message) if self.status in (400, 404) else None
        return next(filter(None, unknown.groups())).lower() if unknown else ""

    @property
    def paused_location(self) -> str:
        """The code of a location that is paused, or only its replication; '' for other errors."""
        paused = re.search(r"the location (\S+) is paused", self.message) if self.status == 503 else None
        return paused[1] if paused else ""

    @property
    def protected(self) -> tuple[str, str]:
        """The kind and the name of what is protected from deletion; twice '' for other errors."""
        if self.method != "DELETE" or "protect" not in self.message.lower():
            return "", ""
        match = re.search(r"\b(database|group) (\S+) is protected", self.message)  # one of a group that is deleted
        return (match[1], match[2]) if match else next(iter(self.names.items()), ("", ""))

    @property
    def adds_region(self) -> bool:
        """Whether the hosted service refuses to add one of its ``aws-*`` locations to a group."""
        adds = self.method == "POST" and set(self.names) == {"group", "location"} and self.status in (400, 402)
        return adds and self.names["location"].startswith("aws-") and not self.unknown_kind

    @property
    def archived_group(self) -> str:
        """The name of the archived group that refuses the request; '' for other errors."""
        if not re.search(r"\b(archived|sleeping)\b", self.message):
            return ""
        match = re.search(r"\bgroup (\S+) because it is", self.message)
        return match[1] if match else self.names.get("group", "")

    @property
    def missing_right(self) -> str:
        """The scope that the token may lack, for a 403 that is not about the role."""
        if not self.scope or "your role" in self.message:
            return ""
        if self.scope in self.message:
            return f"create a platform token with the scope {self.scope}"
        return f"a token that is limited to a group needs the scope {self.scope}"

    @property
    def lacks_read_only(self) -> bool:
        """Whether the database accepts no tokens with fewer rights, such as those of the new engine."""
        return self.status == 400 and "permissions are not supported" in self.message.lower()


ONLY_FULL_ACCESS = "this database accepts only tokens with full access; no token was created"
"""The hint for a read-only token that a database refuses; only `Management.create_reading_token` asks for another."""


class OnlyFullAccess(ServerError):
    """The database accepts only tokens with full access, such as those of the new engine."""


def method_line(action: str, kind: str, name: str) -> str:
    """Return the call of `Management` for an action on a database or group."""
    return f"management(...).{action}_{kind}({name!r})"


def hint_for(refusal: Refusal, line: Callable[[str, str, str], str] = method_line) -> str:
    """Return the hint for a refusal, for any Python program; ``line`` returns what to type for an action."""
    kind, name = refusal.protected
    if name:
        return f"{line('unprotect', kind, name)} removes the protection"
    if refusal.archived_group:
        return f"{line('unarchive', 'group', refusal.archived_group)} makes its databases available again"
    if refusal.lacks_read_only:
        return ONLY_FULL_ACCESS
    if refusal.paused_location:
        return "resume the location first"
    later = f"; try again {refusal.retry}" if refusal.retry else ""
    if refusal.name_is_taken:
        return "choose another name, or use the existing one"
    if refusal.adds_region:
        return "the hosted service has deprecated more than one location: create another group at the location"
    match refusal.status:
        case 401:
            return OTHER_TOKEN
        case 402:
            return "the organization's plan does not include this"
        case 403:
            return refusal.missing_right
        case 404 if refusal.unknown_kind == "token":
            return "check the name, or the ID in an organization, in the list of tokens"
        case 404:
            return "check the name; groups and databases belong to one organization"
        case 429:
            return f"nothing was run; close connections that are not needed{later or ', or try again later'}"
        case status if status >= 500 and refusal.method == "GET":
            return f"nothing was changed{later or '; try again later'}"
        case status if status >= 500:
            return PARTLY + later
    return ""


def archived_error(database: DatabaseInfo, line: Callable[[str, str, str], str] = method_line) -> SessionError:
    """Return the error for a database whose group is archived; ``line`` is that of `hint_for`."""
    return SessionError(
        f"database {database.name} is archived with its group {database.group}, which was not used for some days",
        hint=f"{line('unarchive', 'group', database.group)} makes it available again",
        code="ARCHIVED",
    )


def management(
    url: str,
    token: str | None = None,
    *,
    organization: str | None = None,
    timeout: float | None = READ_TIMEOUT,
    connect_timeout: float | None = CONNECT_TIMEOUT,
    http: httpx.Client | None = None,
) -> Management:
    """Return the management API at ``url``; nothing is sent yet.

    ``token`` is a platform token; ``organization`` the slug of an organization or a personal account, by default
    the token's own. The other arguments are those of `pipemagic.connect`.
    """
    return Management(
        url, token, organization=organization, timeout=timeout, connect_timeout=connect_timeout, http=http
    )


_CODE_HINTS = {
    "CODE_WRONG": "compare it with what you were given, character by character; if it is the same, ask for a new one",
    "CODE_USED": "if that was you, it was on another computer or with other settings; ask for a new code",
    "CODE_EXPIRED": "use the newest code that you were given, or ask for a new one",
}


class Management:
    """One organization, or personal account, of a management API.

    Methods raise AuthError (401, 403), NotFound (404), AlreadyExists (409, or 400 with that text), ServerError
    for other refusals, UnsupportedError for a missing endpoint, ProtocolError for a malformed
    response, and ConnectError and UnknownOutcome like a database. ``hint_for`` returns the hints of refusals.
    """

    def __init__(
        self,
        url: str | Endpoint,
        token: str | BearerToken | None = None,
        *,
        organization: str | None = None,
        timeout: float | None = READ_TIMEOUT,
        connect_timeout: float | None = CONNECT_TIMEOUT,
        http: httpx.Client | None = None,
        hint_for: Callable[[Refusal], str] = hint_for,
    ) -> None:
        endpoint = parse_api_address(url) if isinstance(url, str) else url
        self.transport = Transport(endpoint, token, timeout=timeout, connect_timeout=connect_timeout, http=http)
        self.hint_for = hint_for
        self.known_slug = organization or ""
        """The organization's slug if it is known without a request, otherwise ''."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.endpoint.address!r}, organization={self.known_slug or None!r})"

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of the server; the embedded service has another one after each start."""
        return self.transport.endpoint

    @property
    def url(self) -> str:
        """The address as named by the user."""
        return self.endpoint.address

    @property
    def slug(self) -> str:
        """The organization's slug; requested if none was given and the server has only one."""
        if not self.known_slug:
            try:
                mine = self.organizations()
            except (UnsupportedError, AuthError) as error:
                if isinstance(error, AuthError) and error.status != 403:
                    raise
                who = "this token" if isinstance(error, AuthError) else "this management API"
                raise SessionError(
                    f"no organization is named, and {who} does not list organizations",
                    hint="%pipedb organization SLUG --at ADDRESS, or organization='slug' in Python",
                ) from None
            mine = [organization for organization in mine if organization.type == "personal"] if len(mine) > 1 else mine
            if len(mine) != 1:
                raise SessionError("no organization is named", hint="name it with organization='slug'")
            self.known_slug = mine[0].slug
        return self.known_slug

    def close(self) -> None:
        """Close the connections to the server."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the account

    def signup(self, username: str, password: str) -> Login:
        """Create an account and log in."""
        return self._login("signup", username, password)

    def login(self, username: str, password: str) -> Login:
        """Return a token for an account, which is valid for some days."""
        return self._login("login", username, password)

    def invalidate_logins(self) -> None:
        """End all login tokens of the account."""
        self._call("POST", "/v1/auth/invalidate", {}, optional="logins")

    def username(self) -> str:
        """Return the name of the account that the token belongs to."""
        response = self._call("GET", "/v1/user", optional="the account's name")
        return text_of(wrapped(response, "user"), "username")

    def validate(self) -> float | None:
        """Return the Unix time at which the platform token expires, None if never; raise AuthError if it is invalid."""
        expires = member(self._call("GET", "/v1/auth/validate"), "exp")
        return float(expires) if isinstance(expires, int | float) and expires >= 0 else None

    def exchange_code(self, code: str, key: str) -> CodeAccess:
        """Exchange a one-time code for a token, for which no platform token is necessary.

        The ``key`` is a secret of the caller's, of at least 22 characters: with the same key the code can be exchanged
        again, since a response may be lost. Raise AuthError with the code CODE_WRONG, CODE_USED or CODE_EXPIRED, and
        BusyError after too many wrong codes.
        """
        try:
            response = self._call("POST", "/v1/auth/code", {"code": code, "key": key}, optional="codes")
        except AuthError as error:
            raise error.replace(hint=_CODE_HINTS.get(error.code, error.hint)) from None
        except BusyError as error:
            raise (error.replace(hint=_CODE_HINTS["CODE_WRONG"]) if "wrong" in error.message else error) from None
        expires = timestamp_in(text_of(response, "expires_at")) or 0.0
        return CodeAccess(
            _secret(member(response, "jwt")), text_of(response, "database"), expires, text_of(response, "url")
        )

    def api_tokens(self) -> list[ApiToken]:
        """List the account's platform tokens, without their values."""
        return [ApiToken.read(item) for item in self._list("/v1/auth/api-tokens", "tokens")]

    def create_api_token(
        self, name: str, *, group: str | None = None, scopes: Sequence[str] = (), unlimited: bool = False
    ) -> Secret:
        """Create a platform token; only this response contains its value.

        It is limited to this organization, or to a ``group`` of it and the ``scopes``, names or presets of
        `pipemagic.scopes`; with ``unlimited`` it is valid for all organizations of the account. Raise ParameterError
        for an unknown scope, a group without scopes, or scopes without a group, and UnsupportedError for a service that
        ignores limits; the token is revoked then.
        """
        if unlimited and (group or scopes):
            raise ParameterError("a token without limits has no group or scopes")
        if bool(group) != bool(scopes):
            raise ParameterError(
                "a token for a group requires scopes" if group else "scopes require a group",
                hint=f"the scopes are {', '.join([*SCOPES, *PRESETS])}" if group else "name a group, too",
            )
        try:
            limits = {"group": group, "scopes": expand(scopes)} if group else {}
        except ValueError as error:
            raise ParameterError(str(error)) from None
        body = None if unlimited else {"organization": self.slug, **limits}
        response = self._call("POST", _path("/v1/auth/api-tokens", name), body, optional="tokens")
        token = _secret(member(response, "token"))
        if not unlimited:
            self._check_limited(name, group)
        return token

    def _check_limited(self, name: str, group: str | None) -> None:
        """Revoke a new token and raise UnsupportedError if the service ignored its limits, as release 0.1.0 does."""
        for token in self.api_tokens():
            if token.name == name and not (token.group if group else token.organization):
                self.revoke_api_token(name)
                raise UnsupportedError(
                    f"this management API does not limit platform tokens, so the token {name} was revoked",
                    hint="upgrade the service; --unlimited, in Python unlimited=True, creates a token with all rights",
                )

    def revoke_api_token(self, name: str) -> None:
        """Revoke a platform token of the account."""
        self._call("DELETE", _path("/v1/auth/api-tokens", name))

    def organization_tokens(self) -> list[ApiToken]:
        """List the platform tokens that are limited to the organization; those of others for admins and owners only."""
        path = self._path("api-tokens")
        return [ApiToken.read(item) for item in self._list(path, "tokens", optional="tokens of an organization")]

    def revoke_organization_token(self, token_id: str) -> None:
        """Revoke a platform token that is limited to the organization, by its id."""
        self._call("DELETE", self._path("api-tokens", token_id), optional="revoking tokens of an organization")

    # -- organizations and locations

    def organizations(self) -> list[Organization]:
        """List the organizations of the token's owner."""
        return [Organization.read(item) for item in self._list("/v1/organizations", "organizations")]

    def locations(self) -> list[Location]:
        """List the locations for groups and databases, by code."""
        return Location.read_all(self._call("GET", "/v1/locations"))

    def closest(self) -> str:
        """Return the code of the closest location for a new group; '' if the server does not know it."""
        return text_of(self._call("GET", "/v1/closest", optional="the closest location"), "server")

    def organization(self) -> Organization:
        """Return the organization itself."""
        response = self._call("GET", self._path(), optional="an organization's settings")
        return Organization.read(wrapped(response, "organization"), slug=self.slug)

    def create_organization(self, name: str) -> Organization:
        """Create an organization; the server derives the slug from its name."""
        response = self._call("POST", "/v1/organizations", {"name": name}, optional="more organizations")
        return Organization.read(wrapped(response, "org"), slug=name)

    def update_organization(self, *, overages: bool) -> Organization:
        """Set whether the organization may exceed its quotas."""
        response = self._call("PATCH", self._path(), {"overages": overages})
        return Organization.read(wrapped(response, "organization"), slug=self.slug, overages=overages)

    def members(self) -> list[Member]:
        """List the members of the organization."""
        return [Member.read(item) for item in self._list(self._path("members"), "members")]

    def add_member(self, username: str, role: str = "member") -> Member:
        """Add an account to the organization."""
        # The published API reads member, ours username; neither returns the account as in its list.
        body = {"member": username, "username": username, "role": role}
        self._call("POST", self._path("members"), body, optional="members")
        return Member(username, role)

    def remove_member(self, username: str) -> None:
        """Remove an account from the organization."""
        self._call("DELETE", self._path("members", username), optional="members")

    def audit_logs(self, page: int = 1, size: int = 100) -> list[AuditLog]:
        """List the changes in the organization, the newest first: a page, of ``size`` entries, counted from 1."""
        params = {"page": str(page), "page_size": str(size)}
        response = self._call("GET", self._path("audit-logs"), params=params, optional="audit logs", is_list=True)
        return [AuditLog.read(item) for item in listed(response, "audit_logs")]

    def subscription(self) -> Subscription:
        """Return the organization's plan."""
        response = self._call("GET", self._path("subscription"), optional="plans")
        return Subscription.read(wrapped(response, "subscription"))

    def plans(self) -> list[Plan]:
        """List the plans with their quotas."""
        return [Plan.read(item) for item in self._list(self._path("plans"), "plans")]

    def usage(self) -> Usage:
        """Return the organization's usage in this calendar month."""
        return Usage.read(self._call("GET", self._path("usage"), optional="figures of use"))

    def database_usage(self, database: str) -> Mapping[str, int]:
        """Return the figures of one database in this calendar month, by their names in `Usage`."""
        response = self._call("GET", self._path("databases", database, "usage"), optional="figures of databases")
        return Usage.read({"organization": {"usage": _figures(response)}}).figures

    def top_queries(self, database: str) -> list[TopQuery]:
        """List the statements of a database that were slow or frequent in the last day, the slowest first.

        Literals in them are replaced by ``?``. The hosted service sends statements by rows read, without durations.
        """
        response = self._call("GET", self._path("databases", database, "stats"), optional="statistics of statements")
        return [TopQuery.read(item) for item in listed(response or [], "top_queries")]  # null if there are none

    # -- groups

    def groups(self) -> list[Group]:
        """List the groups."""
        return [Group.read(item) for item in self._list(self._path("groups"), "groups")]

    def group(self, name: str) -> Group:
        """Return one group."""
        return Group.read(wrapped(self._call("GET", self._path("groups", name)), "group"), name=name)

    def create_group(self, name: str, location: str) -> Group:
        """Create a group with its primary location, a code from `locations`."""
        response = self._call("POST", self._path("groups"), {"name": name, "location": location})
        return Group.read(wrapped(response, "group"), name=name, primary=location)

    def default_group(
        self, *, known: Sequence[Group] = (), name_group: Callable[[str], str] = "name it with group={!r}".format,
        notify: Callable[[str], None] = lambda _: None,
    ) -> Group:  # fmt: skip
        """Return the group for a database if none is named: the only group, otherwise ``default``.

        If there is no group, ``default`` is created at the closest location, and ``notify`` is called with a sentence
        that says so. ``known`` are groups that exist, for an API that cannot list them. Raise SessionError if there
        are several groups without ``default``, or none is known; ``name_group`` returns its hint, which names a group.
        """
        try:
            groups = self.groups()
        except UnsupportedError:
            if not known:
                raise SessionError(
                    "this management API cannot list groups, so the group must be named", hint=name_group("GROUP")
                ) from None
            groups = list(known)
        if not groups:
            return self._create_default_group(notify)
        by_name = {group.name: group for group in groups}
        if len(groups) > 1 and DEFAULT_GROUP not in by_name:
            names = sorted(by_name)
            raise SessionError(
                f"organization {self.slug} has several groups: {', '.join(names)}", hint=name_group(names[0])
            )
        return by_name.get(DEFAULT_GROUP, groups[0])

    def _create_default_group(self, notify: Callable[[str], None]) -> Group:
        locations = sorted(self.locations(), key=lambda location: location.is_legacy)
        if not locations:
            raise UnsupportedError("this management API lists no locations, so no group can be created")
        try:
            closest = self.closest()
        except UnsupportedError:
            closest = ""
        is_known = closest in {location.code for location in locations}
        code = closest if is_known else locations[0].code
        try:
            group = self.create_group(DEFAULT_GROUP, code)
        except AlreadyExists:  # another client has created it meanwhile
            return self.group(DEFAULT_GROUP)
        reason = "the closest location" if is_known else "since the service does not report the closest location"
        notify(f"Created group {group.name} in {code}, {reason}.")
        return group

    def delete_group(self, name: str) -> None:
        """Delete a group with all its databases."""
        self._call("DELETE", self._path("groups", name), optional="deleting groups")

    def protect_group(self, name: str) -> None:
        """Protect a group and its databases from deletion."""
        self._configure("protection from deletion", ("groups", name), delete_protection=True)

    def unprotect_group(self, name: str) -> None:
        """Allow the deletion of a group again."""
        self._configure("protection from deletion", ("groups", name), delete_protection=False)

    def unarchive_group(self, name: str) -> Group:
        """Make the databases of an archived group available again; does nothing to another group."""
        response = self._call("POST", self._path("groups", name, "unarchive"), optional="unarchiving groups")
        return Group.read(wrapped(response, "group"), name=name)

    def add_location(self, group: str, location: str) -> Group:
        """Replicate a group's databases to another location."""
        return self._change_location("POST", group, location)

    def remove_location(self, group: str, location: str) -> Group:
        """Remove the replicas of a group's databases at a location other than the primary."""
        return self._change_location("DELETE", group, location, optional="removing locations")

    def wait_for_location(self, group: str, location: str) -> None:
        """Wait until every replica of the group at the location has caught up, for the server's time limit."""
        path = self._path("groups", group, "locations", location, "wait")
        self._call("GET", path, optional="waiting for a location")

    def pause_location(self, group: str, location: str, *, replication_only: bool = False) -> Group:
        """Pause a location; the others continue.

        With ``replication_only`` its replicas answer reads, but receive no changes until it is resumed. Raise
        UnsupportedError for a service that pauses the location instead, as release 0.1.0 does; it is resumed then.
        """
        params = {"replication_only": "true"} if replication_only else None
        paused = self._change_location("POST", group, location, "pause", optional="pausing locations", params=params)
        if replication_only and paused.status.get(location) == "paused":
            self.resume_location(group, location)
            raise UnsupportedError(
                f"this management API cannot pause the replication only, so the location {location} was resumed",
                hint="upgrade the service, or pause the location",
            )
        return paused

    def resume_location(self, group: str, location: str) -> Group:
        """Resume a location; its replicas catch up."""
        return self._change_location("POST", group, location, "resume", optional="resuming locations")

    def create_group_token(self, group: str, *, expiration: str = "never", read_only: bool = False) -> Secret:
        """Create a token for all databases of a group; see `create_token`."""
        return self._create_token("tokens for groups", ("groups", group), expiration, read_only)

    def invalidate_group_tokens(self, group: str) -> None:
        """Invalidate all tokens of a group and of its databases immediately."""
        self._call("POST", self._path("groups", group, "auth", "rotate"), optional="invalidating tokens")

    # -- databases

    def databases(self, group: str | None = None, *, parent: str | None = None) -> list[DatabaseInfo]:
        """List the databases, of one group or of all, or those that are copies of the database ``parent``."""
        filters = {"group": group, "parent": parent}
        # The hosted service sends no more than a page of an unknown size to a request without a limit.
        params = {"limit": str(PAGE)} | {name: value for name, value in filters.items() if value}
        responses = self._list(self._path("databases"), "databases", **params)
        return [DatabaseInfo.read_from(self.endpoint, item) for item in responses]

    def database(self, name: str) -> DatabaseInfo:
        """Return one database."""
        response = self._call("GET", self._path("databases", name))  # by the endpoint of now, which may have changed
        return DatabaseInfo.read_from(self.endpoint, wrapped(response, "database"), name=name)

    def create_database(
        self, name: str, group: str | None = None, *, copy_of: str | None = None, at: datetime | None = None,
        awaits_upload: bool = False, size_limit: str | None = None, encryption_key: str | EncryptionKey | None = None,
    ) -> DatabaseInfo:  # fmt: skip
        """Create a database in an existing group: by default in that of ``copy_of``, else see `default_group`.

        ``copy_of`` names a database to copy: as it is, or as it was ``at`` an earlier time (local time without an
        offset), or at the last backup before; `DatabaseInfo.branched` says when. The embedded service has backups with
        ``serve --backups N``; raise ServerError if there is none. With ``awaits_upload`` it cannot be used until a file
        is uploaded (`pipemagic.client.transfer.upload`). ``size_limit`` is like ``256mb``. It is encrypted with an
        ``encryption_key``, and the cipher of a `pipemagic.client.secrets.EncryptionKey`; a copy of an encrypted
        database needs the key of that one. Raise ParameterError for an empty key.
        """
        original = self.database(copy_of) if copy_of and not group else None
        group = group or (original and original.group) or self.default_group().name
        body: dict[str, object] = {"name": name, "group": group}
        if copy_of is not None:
            body["seed"] = {"type": "database", "name": copy_of, **({} if at is None else {"timestamp": timestamp(at)})}
        elif awaits_upload:
            body["seed"] = {"type": "database_upload"}
        if size_limit is not None:
            body["size_limit"] = size_limit
        if encryption_key is not None:
            if isinstance(encryption_key, str):
                encryption_key = EncryptionKey(encryption_key)
            if not encryption_key:
                raise ParameterError("the encryption key is empty")
            body["remote_encryption"] = encryption_key
        response = self._call("POST", self._path("databases"), body)
        return DatabaseInfo.read_from(
            self.endpoint, wrapped(response, "database"), name=name, group=group, parent=copy_of or ""
        )

    def delete_database(self, name: str) -> None:
        """Delete a database and everything in it."""
        self._call("DELETE", self._path("databases", name), optional="deleting databases")

    def suspend_database(self, name: str) -> None:
        """Block the reads and writes of a database; the embedded service also ends what runs on it, at once."""
        self._configure("suspending databases", ("databases", name), block_reads=True, block_writes=True)

    def resume_database(self, name: str) -> None:
        """Allow the reads and writes of a database again."""
        self._configure("suspending databases", ("databases", name), block_reads=False, block_writes=False)

    def protect_database(self, name: str) -> None:
        """Protect a database from deletion."""
        self._configure("protection from deletion", ("databases", name), delete_protection=True)

    def unprotect_database(self, name: str) -> None:
        """Allow the deletion of a database again."""
        self._configure("protection from deletion", ("databases", name), delete_protection=False)

    def _configure(self, feature: str, owner: tuple[str, str], **settings: bool) -> None:
        self._call("PATCH", self._path(*owner, "configuration"), settings, optional=feature)

    def instances(self, database: str) -> list[Instance]:
        """List a database's instances, one for each location, the primary first."""
        responses = self._list(self._path("databases", database, "instances"), "instances")
        instances = [Instance.read_from(self.endpoint, item) for item in responses]
        return sorted(instances, key=lambda instance: (instance.type != "primary", instance.name))

    def create_token(self, database: str, *, expiration: str = "never", read_only: bool = False) -> Secret:
        """Create a token for a database; ``expiration`` is like ``7d``, ``1w2d6h`` or ``never``."""
        return self._create_token("tokens", ("databases", database), expiration, read_only)

    def create_reading_token(self, database: str, *, expiration: str) -> Secret:
        """Create a token for reads: read-only, or with full access if the database accepts no other tokens.

        A token for others, which must not write, comes from `create_token`, which then fails.
        """
        try:
            return self.create_token(database, expiration=expiration, read_only=True)
        except OnlyFullAccess:
            return self.create_token(database, expiration=expiration)

    def create_code(self, database: str, *, expiration: str, read_only: bool = False, replace: bool = False) -> Secret:
        """Create a one-time code that is exchanged for a token of a database; both end with the ``expiration``.

        With ``replace`` earlier codes of the database end; their tokens stay valid.
        """
        params = {"expiration": expiration} | ({"authorization": "read-only"} if read_only else {})
        path = self._path("databases", database, "auth", "codes")
        response = self._call("POST", path, {"replace": replace}, params=params, optional="codes")
        return _secret(member(response, "code"))

    def invalidate_tokens(self, database: str) -> None:
        """Invalidate all tokens and codes of a database immediately; some services do so for all of its group."""
        self._call("POST", self._path("databases", database, "auth", "rotate"), optional="invalidating tokens")

    # -- requests

    def _login(self, how: str, username: str, password: str) -> Login:
        body = {"username": username, "password": password}
        response = self._call("POST", f"/v1/auth/{how}", body, optional=f"{how} by password")
        token = _secret(member(response, "token"))
        return Login(token, text_of(response, "username") or username, text_of(response, "organization"))

    def _change_location(
        self, method: str, group: str, location: str, *action: str, optional: str = "",
        params: Mapping[str, str] | None = None,
    ) -> Group:  # fmt: skip
        path = self._path("groups", group, "locations", location, *action)
        response = self._call(method, path, params=params, optional=optional)
        return Group.read(wrapped(response, "group"), name=group)

    def _create_token(self, optional: str, owner: tuple[str, str], expiration: str, read_only: bool) -> Secret:
        # Databases of the new engine refuse the parameter, also for full access, which is the default everywhere.
        params = {"expiration": expiration} | ({"authorization": "read-only"} if read_only else {})
        path = self._path(*owner, "auth", "tokens")
        return _secret(member(self._call("POST", path, params=params, optional=optional), "jwt"))

    def _path(self, *names: str) -> str:
        return _path("/v1/organizations", self.slug, *names)

    def _list(self, path: str, what: str, *, optional: str = "", **params: str) -> list[Any]:
        """GET a list, including all pages: the published API may send the next one's cursor in ``pagination.next``."""
        items, cursors = list[Any](), set[str]()
        while True:
            response = self._call("GET", path, params=params, optional=optional or what, is_list=True)
            items += listed(response, what)
            cursor = text_of(member(response, "pagination"), "next")
            if not cursor or cursor in cursors:
                return items
            cursors.add(cursor)
            params["cursor"] = cursor

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        optional: str = "",
        is_list: bool = False,
    ) -> Any:
        """Send a request and return the parsed JSON of the response, None without a body.

        ``optional`` names a feature of some services: UnsupportedError is raised if the endpoint is missing.
        """
        response = self.transport.request(method, path, None if body is None else _encode(body), params=params)
        if not response.ok:
            missing = optional and (f"has no list of {optional}" if is_list else f"does not offer {optional}")
            error = self._error(method, path, body or {}, response, missing)
            if isinstance(error, ServerError):
                error.retry_after = retry_seconds(response.retry_after)
            raise error
        if not response.body.strip():
            return None
        try:
            return msgspec.json.decode(response.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProtocolError(
                f"the response from {self.url} is not JSON", hint="check that this is the address of a management API"
            ) from None

    def _error(
        self, method: str, path: str, body: Mapping[str, object], response: HttpResponse, missing: str
    ) -> PipemagicError:
        """Return the error for a response that is not 2xx, without tokens and keys."""
        fault, status = read_fault(response.body, response.content_type), response.status
        text, code = self.transport.redact(fault.message), fault.code or ""
        for value in body.values():
            if isinstance(value, EncryptionKey):
                text = value.redact(text)
        if status in (405, 501):
            return UnsupportedError("this management API does not offer that")
        if status == 404 and missing and not _MISSING.search(text):
            return UnsupportedError(f"this management API {missing}")
        if status in (401, 403) and code != "BLOCKED" and path in _LOGINS:  # no token was sent
            return AuthError(text, status=status, code=code)
        retry = retry_time(response.retry_after) if status in (429, 503) else ""
        refusal = Refusal(method, status, text, retry, _names(path, body), required_scope(method, path))
        if status == 403 and code == "BLOCKED":  # by a quota or a setting, with any token
            return ServerError(text, status=status, code=code)
        if refusal.name_is_taken:
            error: ServerError = AlreadyExists(text, status=status)
        elif refusal.lacks_read_only:
            error = OnlyFullAccess(f"the server refused the request (HTTP {status}): {text}", status=status, code=code)
        elif status in _ERRORS:
            kind, says = _ERRORS[status]
            error = kind(f"{says}: {text}", status=status)
        else:
            error = ServerError(f"the server refused the request (HTTP {status}): {text}", status=status, code=code)
        return error.replace(hint=self.hint_for(refusal))


def _encode(body: Mapping[str, object]) -> bytes:
    """Return a body as JSON. An encryption key is in it only here, since tracebacks may show variables."""
    return msgspec.json.encode(body, enc_hook=attrgetter("members"))


def _path(start: str, *names: str) -> str:
    for name in names:
        if name in ("", ".", ".."):
            raise ParameterError(f"{name!r} is not a name")
    return "/".join([start, *(quote(name, safe="") for name in names)])


def _names(path: str, body: Mapping[str, object]) -> dict[str, str]:
    """Return the names in a request by kind, from its path (``groups/edge/locations/ams``) and body."""
    parts = [unquote(part) for part in path.split("/")[4:]]
    in_path = {kind.removesuffix("s"): name for kind, name in zip(parts[::2], parts[1::2], strict=False)}
    in_body = {kind: str(body[kind]) for kind in ("group", "location") if kind in body}
    seed = body.get("seed")
    original = {"database": str(seed["name"])} if isinstance(seed, dict) and "name" in seed else {}
    return in_path | original | in_body


def _figures(response: Any) -> Any:
    """Return the figures of a database, which the documents of the published API call ``total`` or ``usage``."""
    database = wrapped(response, "database")
    return member(database, "usage") or member(database, "total") or member(response, "total")


def _secret(token: Any) -> Secret:
    if not isinstance(token, str) or not token:
        raise ProtocolError("the server's response contains no token")
    return Secret(token)
