"""The management API: locations, groups, databases and their tokens, one method per endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, NoReturn
from urllib.parse import quote

import httpx
import msgspec

from pipemagic.client import urls
from pipemagic.client.resources import DatabaseInfo, Group, Location, Organization, listed, unwrapped
from pipemagic.client.secrets import Secret, Token
from pipemagic.client.transport import CONNECT_TIMEOUT, READ_TIMEOUT, HttpAnswer, Transport
from pipemagic.errors import (
    AlreadyExists,
    NotFound,
    ParameterError,
    ProtocolError,
    SessionError,
    UnsupportedError,
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
    """Give the management API at ``url``; nothing is sent yet.

    ``token`` is a platform token; ``organization`` the slug of an organization or a personal account, by default
    the token's own. The other arguments are those of `pipemagic.connect`.
    """
    return Management(
        url, token, organization=organization, timeout=timeout, connect_timeout=connect_timeout, http=http
    )


class Management:
    """One organization, or personal account, behind a management API.

    Methods raise AuthError (401, 403), NotFound (404), AlreadyExists (409, or 400 with that text), ServerError
    for other refusals, UnsupportedError for a list that the server does not have, ProtocolError for an answer that
    is none, ConnectError and UnknownOutcome as a database does.
    """

    def __init__(
        self,
        url: str | urls.Endpoint,
        token: str | Token | None = None,
        *,
        organization: str | None = None,
        timeout: float | None = READ_TIMEOUT,
        connect_timeout: float | None = CONNECT_TIMEOUT,
        http: httpx.Client | None = None,
    ) -> None:
        endpoint = urls.parse(url.rstrip("/").removesuffix("/v1")) if isinstance(url, str) else url
        self.endpoint = endpoint
        self.transport = Transport(endpoint, token, timeout=timeout, connect_timeout=connect_timeout, http=http)
        self._slug = organization

    def __repr__(self) -> str:
        return f"Management({self.endpoint.address!r}, organization={self._slug!r})"

    @property
    def url(self) -> str:
        """The address, as it was named."""
        return self.endpoint.address

    @property
    def slug(self) -> str:
        """The organization's slug; asked from the server if none was given and there is only one to choose."""
        if self._slug is None:
            mine = self.organizations()
            mine = [one for one in mine if one.type == "personal"] if len(mine) > 1 else mine
            if len(mine) != 1:
                raise SessionError("which organization?", hint="name it with organization='slug'")
            self._slug = mine[0].slug
        return self._slug

    # -- organizations and locations

    def locations(self) -> list[Location]:
        """List the locations for groups and databases, by code."""
        return Location.read_all(self._get("/v1/locations"))

    def organizations(self) -> list[Organization]:
        """List the organizations of the token's owner."""
        parsed = self._list("/v1/organizations", "organizations")
        return [Organization.read(one) for one in listed(parsed, "organizations")]

    def organization(self) -> Organization:
        """Give the organization itself."""
        return Organization.read(unwrapped(self._get(self._path()), "organization"), slug=self.slug)

    def update_organization(self, *, overages: bool) -> Organization:
        """Set whether the organization may go past its quotas."""
        parsed = self._call("PATCH", self._path(), {"overages": overages})
        return Organization.read(unwrapped(parsed, "organization"), slug=self.slug, overages=overages)

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
        self._call("DELETE", self._path("groups", name))

    def add_location(self, group: str, location: str) -> Group:
        """Replicate a group's databases to one more location."""
        parsed = self._call("POST", self._path("groups", group, "locations", location))
        return Group.read(unwrapped(parsed, "group"), name=group)

    # -- databases

    def databases(self, group: str | None = None) -> list[DatabaseInfo]:
        """List the databases, of one group or of all."""
        parsed = self._list(self._path("databases"), "databases", {"group": group} if group else None)
        found = [self._database(one) for one in listed(parsed, "databases")]
        # A server that does not know the filter gives all of them.
        return [one for one in found if group is None or one.group in (group, "")]

    def database(self, name: str) -> DatabaseInfo:
        """Give one database."""
        return self._database(unwrapped(self._get(self._path("databases", name)), "database"), name=name)

    def create_database(self, name: str, group: str) -> DatabaseInfo:
        """Create a database in an existing group."""
        parsed = self._call("POST", self._path("databases"), {"name": name, "group": group})
        return self._database(unwrapped(parsed, "database"), name=name, group=group)

    def delete_database(self, name: str) -> None:
        """Delete a database and everything in it."""
        self._call("DELETE", self._path("databases", name))

    def create_token(self, database: str, *, expiration: str = "never", read_only: bool = False) -> Secret:
        """Make a token for a database; ``expiration`` is like ``7d``, ``1w2d6h`` or ``never``."""
        wish = {"expiration": expiration, "authorization": "read-only" if read_only else "full-access"}
        parsed = self._call("POST", self._path("databases", database, "auth", "tokens"), params=wish)
        token = parsed.get("jwt") if isinstance(parsed, dict) else None
        if not isinstance(token, str) or not token:
            raise ProtocolError("the server's answer holds no token")
        return Secret(token)

    # -- the token itself

    def validate(self) -> float | None:
        """Give the second (Unix time) at which the platform token expires, None if never; AuthError if it is bad."""
        parsed = self._get("/v1/auth/validate")
        expires = parsed.get("exp") if isinstance(parsed, dict) else None
        return float(expires) if isinstance(expires, int | float) and expires >= 0 else None

    def close(self) -> None:
        """Close the connections to the server."""
        self.transport.close()

    def __enter__(self) -> Management:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _database(self, parsed: Any, name: str = "", group: str = "") -> DatabaseInfo:
        return DatabaseInfo.read(parsed, self.endpoint, name=name, group=group)

    def _path(self, *parts: str) -> str:
        for part in parts:
            if part in ("", ".", ".."):
                raise ParameterError(f"{part!r} is not a name")
        return "/".join(["/v1/organizations", *(quote(part, safe="") for part in (self.slug, *parts))])

    def _get(self, path: str) -> Any:
        return self._call("GET", path)

    def _list(self, path: str, what: str, params: Mapping[str, str] | None = None) -> Any:
        """GET a list; a server with only the endpoints of the requirement has none."""
        try:
            return self._call("GET", path, params=params)
        except NotFound as error:
            if "organization" in error.message:
                raise
            raise UnsupportedError(f"this management API has no list of {what}") from None

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request; gives the parsed JSON of the answer, None where it has no body."""
        content = None if body is None else msgspec.json.encode(body)
        answer = self.transport.request(method, path, content, params=params)
        if not answer.ok:
            self._refuse(answer, method)
        if not answer.body.strip():
            return None
        try:
            return msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProtocolError(
                f"what came back from {self.url} is not JSON", hint="is this the address of a management API?"
            ) from None

    def _refuse(self, answer: HttpAnswer, method: str) -> NoReturn:
        error = self.transport.refusal(answer)
        text = error.message.lower()
        taken = "already exist" in text or (answer.status == 422 and "available" in text)
        if answer.status == 409 or (answer.status in (400, 422) and taken):
            # The text after the status is the server's own.
            raise AlreadyExists(
                error.message.rpartition(f"(HTTP {answer.status}): ")[2],
                status=answer.status,
                hint="choose another name, or go on with what is there",
            )
        if method == "GET" and answer.status in (405, 501):
            raise UnsupportedError("this management API does not offer that")
        if answer.status == 404:
            error.hint = "is the name right? names of groups and databases belong to one organization"
        elif answer.status == 402:
            error.hint = "the organization's plan does not include this"
        raise error
