"""The management API: organizations, locations, groups, databases and their tokens, as JSON over HTTP."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from pipemagic import __version__
from pipemagic.service.catalog import (
    Account,
    Catalog,
    DatabaseRecord,
    GroupRecord,
    OrganizationRecord,
)
from pipemagic.service.http import Refused, Request, Response, empty, json
from pipemagic.service.locations import LOCATIONS
from pipemagic.service.names import check_name
from pipemagic.service.tokens import FIRST_TOKEN, Tokens, parse_expiration

_LOG = logging.getLogger(__name__)

_NOT_IGNORED = ("seed", "is_schema", "schema", "remote_encryption")
"""Optional members of a new database that would make it another one than ours; refused unless unset."""


@dataclass(frozen=True)
class _Call:
    """One authenticated request on its way to an endpoint."""

    request: Request
    account: Account
    parts: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, part: str) -> str:
        return self.parts[part]


class Management:
    """All endpoints below ``/v1/``. ``on_delete`` is told about each database that was deleted.

    It is called when the catalog no longer has the database, and has to end its streams and remove its
    files. What a crash or a file in use leaves of them, `Catalog.finish_deletions` removes at the next start.
    """

    def __init__(self, catalog: Catalog, tokens: Tokens) -> None:
        self._catalog = catalog
        self._tokens = tokens
        self.on_delete: Callable[[DatabaseRecord], None] = lambda _: None

    def handle(self, request: Request) -> Response:
        """Authenticate, find the endpoint and call it; every refusal becomes an answer."""
        try:
            account = self._tokens.check_platform(request.headers.get("authorization"))
            return self._route(request, account)
        except Refused as refused:
            return refused.response()

    def _route(self, request: Request, account: Account) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        allowed = []
        for route in _ROUTES:
            match = route.pattern.fullmatch(request.path)
            if match and route.method == method:
                call = _Call(request, account, match.groupdict())
                if "org" in call.parts:
                    self._check_organization(account, call["org"])
                return json(route.endpoint(self, call))
            if match:
                allowed.append(route.method)
        if allowed:
            return empty(405, ("allow", ", ".join(sorted(allowed))))
        raise Refused(404, f"there is no {request.path} in the management API")

    def _check_organization(self, account: Account, slug: str) -> None:
        if self._catalog.organization(slug).account != account.id:
            raise Refused(404, "organization not found")  # not 403: other people's names are not given away

    # -- locations, organizations

    def _locations(self, _call: _Call) -> Any:
        return {"locations": {code: location.name for code, location in LOCATIONS.items()}}

    def _list_organizations(self, call: _Call) -> Any:
        return {"organizations": [_organization(record) for record in self._catalog.organizations(call.account)]}

    def _get_organization(self, call: _Call) -> Any:
        return {"organization": _organization(self._catalog.organization(call["org"]))}

    def _update_organization(self, call: _Call) -> Any:
        overages = _Body(call.request).boolean("overages")
        return {"organization": _organization(self._catalog.set_overages(call["org"], overages))}

    # -- groups

    def _list_groups(self, call: _Call) -> Any:
        return {"groups": [_group(record) for record in self._catalog.groups(call["org"])]}

    def _get_group(self, call: _Call) -> Any:
        return {"group": _group(self._catalog.group(call["org"], call["group"]))}

    def _create_group(self, call: _Call) -> Any:
        body = _Body(call.request)
        record = self._catalog.create_group(call["org"], body.text("name"), body.text("location"))
        _LOG.info("group %s/%s created at %s", call["org"], record.name, record.primary)
        return {"group": _group(record)}

    def _delete_group(self, call: _Call) -> Any:
        group, databases = self._catalog.delete_group(call["org"], call["group"])
        _LOG.info("group %s/%s deleted with %d databases", call["org"], group.name, len(databases))
        for database in databases:
            self._remove(database)
        return {"group": _group(group)}

    def _add_location(self, call: _Call) -> Any:
        return {"group": _group(self._catalog.add_location(call["org"], call["group"], call["location"]))}

    # -- databases

    def _list_databases(self, call: _Call) -> Any:
        group = call.request.query.get("group") or None
        return {"databases": [_database(record) for record in self._catalog.databases(call["org"], group)]}

    def _get_database(self, call: _Call) -> Any:
        return {"database": _database(self._catalog.database(call["org"], call["db"]))}

    def _create_database(self, call: _Call) -> Any:
        body = _Body(call.request)
        name, group = body.text("name"), body.text("group")
        body.refuse(_NOT_IGNORED)
        record = self._catalog.create_database(call["org"], name, group)
        _LOG.info("database %s/%s created as %s", call["org"], record.name, record.id)
        return {"database": {"DbId": record.id, "Hostname": record.hostname, "Name": record.name}}

    def _delete_database(self, call: _Call) -> Any:
        record = self._catalog.delete_database(call["org"], call["db"])
        self._remove(record)
        return {"database": record.name}

    def _list_instances(self, call: _Call) -> Any:
        return {"instances": _instances(self._catalog.database(call["org"], call["db"]))}

    def _remove(self, database: DatabaseRecord) -> None:
        _LOG.info("database %s/%s (%s) deleted", database.organization, database.name, database.id)
        self.on_delete(database)

    # -- tokens

    def _create_database_token(self, call: _Call) -> Any:
        expires_in = parse_expiration(call.request.query.get("expiration", "never"))
        authorization = call.request.query.get("authorization") or "full-access"
        if authorization not in ("full-access", "read-only"):
            raise Refused(400, "Invalid authorization: it is full-access or read-only")
        # Ignoring a wish for fewer rights would hand out more than was asked for.
        _Body(call.request, optional=True).refuse(("fine_grained_permissions",))
        database = self._catalog.database(call["org"], call["db"])
        return {"jwt": self._tokens.issue_database(
            database, read_only=authorization == "read-only", expires_in=expires_in, subject=call.account.username
        )}  # fmt: skip

    def _validate(self, _call: _Call) -> Any:
        return {"exp": -1}  # platform tokens never expire, they are revoked

    def _list_tokens(self, call: _Call) -> Any:
        return {"tokens": [
            {"name": token.name, "id": token.id, "created_at": _date(token.created)}
            for token in self._catalog.platform_tokens(call.account)
        ]}  # fmt: skip

    def _create_token(self, call: _Call) -> Any:
        check_name("token", call["name"], "")
        record, token = self._tokens.issue_platform(call.account, call["name"])
        return {"name": record.name, "id": record.id, "token": token}

    def _revoke_token(self, call: _Call) -> Any:
        if call["name"] == FIRST_TOKEN:
            raise Refused(400, f"{FIRST_TOKEN} is the token in the data folder: delete its file and start again")
        self._catalog.remove_platform_token(call.account, call["name"])
        return {"token": call["name"]}


class _Route(NamedTuple):
    method: str
    pattern: re.Pattern[str]
    endpoint: Callable[[Management, _Call], Any]


def _route(method: str, path: str, endpoint: Callable[[Management, _Call], Any]) -> _Route:
    return _Route(method, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)), endpoint)


_ORG = "/v1/organizations/{org}"

_ROUTES = (
    _route("GET", "/v1/locations", Management._locations),
    _route("GET", "/v1/organizations", Management._list_organizations),
    _route("GET", _ORG, Management._get_organization),
    _route("PATCH", _ORG, Management._update_organization),
    _route("GET", f"{_ORG}/groups", Management._list_groups),
    _route("POST", f"{_ORG}/groups", Management._create_group),
    _route("GET", f"{_ORG}/groups/{{group}}", Management._get_group),
    _route("DELETE", f"{_ORG}/groups/{{group}}", Management._delete_group),
    _route("POST", f"{_ORG}/groups/{{group}}/locations/{{location}}", Management._add_location),
    _route("GET", f"{_ORG}/databases", Management._list_databases),
    _route("POST", f"{_ORG}/databases", Management._create_database),
    _route("GET", f"{_ORG}/databases/{{db}}", Management._get_database),
    _route("DELETE", f"{_ORG}/databases/{{db}}", Management._delete_database),
    _route("GET", f"{_ORG}/databases/{{db}}/instances", Management._list_instances),
    _route("POST", f"{_ORG}/databases/{{db}}/auth/tokens", Management._create_database_token),
    _route("GET", "/v1/auth/validate", Management._validate),
    _route("GET", "/v1/auth/api-tokens", Management._list_tokens),
    _route("POST", "/v1/auth/api-tokens/{name}", Management._create_token),
    _route("DELETE", "/v1/auth/api-tokens/{name}", Management._revoke_token),
)


class _Body:
    """The JSON object in a request's body, whatever its content type says; member names in either case."""

    def __init__(self, request: Request, *, optional: bool = False) -> None:
        self._members: dict[str, Any] = {}
        if optional and not request.body.strip():
            return
        try:
            members = msgspec.json.decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(400, f"the request body is not JSON: {error}") from None
        if not isinstance(members, dict):
            raise Refused(400, "the request body must be a JSON object")
        # `Name` is what the public command-line tool sends; where both are there the lower-case one counts.
        self._members = {name.lower(): value for name, value in sorted(members.items())}

    def text(self, name: str) -> str:
        value = self._required(name)
        if not isinstance(value, str):
            raise Refused(400, f'"{name}" must be a string')
        return value

    def boolean(self, name: str) -> bool:
        value = self._required(name)
        if not isinstance(value, bool):
            raise Refused(400, f'"{name}" must be true or false')
        return value

    def refuse(self, names: tuple[str, ...]) -> None:
        for name in names:
            if self._members.get(name):
                raise Refused(400, f'"{name}" is not supported by this service')

    def _required(self, name: str) -> Any:
        if self._members.get(name) is None:
            raise Refused(400, f'"{name}" is missing')
        return self._members[name]


def _organization(record: OrganizationRecord) -> dict[str, Any]:
    return {
        "name": record.name, "slug": record.slug, "type": record.type, "overages": record.overages,
        "blocked_reads": False, "blocked_writes": False,
    }  # fmt: skip


def _group(record: GroupRecord) -> dict[str, Any]:
    return {
        "name": record.name, "uuid": record.id, "locations": record.locations, "primary": record.primary,
        "archived": False, "version": __version__, "delete_protection": False,
    }  # fmt: skip


def _database(record: DatabaseRecord) -> dict[str, Any]:
    """Give all members that some published client insists on."""
    return {
        "Name": record.name, "DbId": record.id, "Hostname": record.hostname, "hostname": record.hostname,
        "group": record.group, "primaryRegion": record.locations[0], "regions": record.locations,
        "type": "logical", "version": __version__, "is_schema": False, "schema": "", "allow_attach": False,
        "block_reads": False, "block_writes": False, "sleeping": False, "archived": False,
        "delete_protection": False,
    }  # fmt: skip


def _instances(record: DatabaseRecord) -> list[dict[str, Any]]:
    """One instance per location. All answer under the database's own host name, which every caller can use."""
    return [
        {
            "uuid": f"{record.id}-{code}", "name": code, "type": "replica" if number else "primary",
            "region": code, "hostname": record.hostname,
        }
        for number, code in enumerate(record.locations)
    ]  # fmt: skip


def _date(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
