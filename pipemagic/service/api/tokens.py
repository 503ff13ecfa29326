"""Tokens: those of databases and groups, and the platform tokens of an account."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import msgspec

from pipemagic.scopes import PRESETS, SCOPES, expand
from pipemagic.service.api.databases import DATABASE
from pipemagic.service.api.groups import GROUP
from pipemagic.service.api.operations import ORG, ApiRequest, Body, Operation, Reach, format_time
from pipemagic.service.auth.tokens import FIRST_TOKEN, parse_expiration
from pipemagic.service.catalog.accounts import PlatformToken, TokenLimits
from pipemagic.service.catalog.names import check_name
from pipemagic.service.catalog.organizations import Role
from pipemagic.service.catalog.records import utc
from pipemagic.service.responses import Refused

log = logging.getLogger(__name__)

API_TOKENS = "/v1/auth/api-tokens"
API_TOKEN = f"{API_TOKENS}/{{name}}"

QUERY = {
    "expiration": {"type": "string", "examples": ["never", "2w1d30m"]},
    "authorization": {"type": "string", "enum": ["full-access", "read-only"]},
}


ScopeName = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [*SCOPES, *PRESETS]})]


class DatabaseTokenOptions(Body):
    """No options: a token has the rights that the query names, so permissions other than none are refused."""

    optional = True
    unsupported = ("permissions", "fine_grained_permissions")


class CodeOptions(Body):
    """With ``replace``, earlier codes of the database are no longer valid; tokens stay valid."""

    optional = True

    replace: bool = False


class CodeExchange(Body):
    """A code, in any case, and the client's key."""

    code: str
    key: Annotated[str, msgspec.Meta(min_length=22, max_length=200)]


class PlatformTokenOptions(Body):
    """The limits of a new token: an organization, or a group of it and scopes, which may be presets."""

    optional = True

    organization: str | None = None
    group: str | None = None
    scopes: list[ScopeName] | None = None


@Operation("POST", f"{DATABASE}/auth/tokens", audit="db-token-create", role=Role.VIEWER, query=QUERY)
def create_database_token(request: ApiRequest, body: DatabaseTokenOptions) -> Any:  # noqa: ARG001
    """Create a token for one database."""
    rights = _parse_rights(request)
    database = request.catalog.database(request["org"], request["db"])
    return {"jwt": request.parts.tokens.issue_database(database, **rights)}


@Operation("POST", f"{DATABASE}/auth/codes", audit="db-code-create", role=Role.VIEWER, query=QUERY)
def create_database_code(request: ApiRequest, body: CodeOptions) -> Any:
    """Create a code that is exchanged for a token, once; both expire at the end of `expiration`, which is required."""
    rights = _parse_rights(request)
    database = request.catalog.database(request["org"], request["db"])
    code, expires = request.parts.codes.create(database, **rights, replace=body.replace)
    return {"code": code, "expires_at": format_time(expires)}


@Operation("POST", "/v1/auth/code", public=True)
def exchange_code(request: ApiRequest, body: CodeExchange) -> Any:
    """Exchange a code for a token of a database, which works at the address of this request unless there is a `url`.

    `key` is a random text of the client's, with which it can repeat the request; any other key is refused from then on.
    """
    database, token, expires = request.parts.codes.exchange(body.code, body.key, request.network)
    url = request.parts.engine.addresses(database).get(database.locations[0])
    address = {"url": url} if url else {}  # of a libSQL server: those do not know databases by their tokens
    return {"jwt": token, "database": database.name, "expires_at": format_time(expires), **address}


@Operation("POST", f"{GROUP}/auth/tokens", audit="group-token-create", role=Role.VIEWER, query=QUERY)
def create_group_token(request: ApiRequest, body: DatabaseTokenOptions) -> Any:  # noqa: ARG001
    """Create a token for all databases of a group, including later ones."""
    rights = _parse_rights(request)
    group = request.catalog.group(request["org"], request["group"])
    return {"jwt": request.parts.tokens.issue_group(group, **rights)}


def _parse_rights(request: ApiRequest) -> dict[str, Any]:
    """Return the rights of a new token; raise `Refused` (403) if a viewer requests more than a read-only token."""
    expires_in = parse_expiration(request.http.query_params.get("expiration", "never"))
    authorization = request.http.query_params.get("authorization") or "full-access"
    if authorization not in ("full-access", "read-only"):
        raise Refused(400, "Invalid authorization: use full-access or read-only")
    read_only = authorization == "read-only"
    if request.role is Role.VIEWER and not read_only:
        raise Refused(403, f"your role in {request['org']} is viewer: request a read-only token")
    return {"read_only": read_only, "expires_in": expires_in, "subject": request.account.username}


@Operation("POST", f"{DATABASE}/auth/rotate", audit="db-rotate-creds")
def rotate_database_tokens(request: ApiRequest) -> Any:
    """Invalidate all tokens of a database, and end the streams that were opened with them."""
    request.parts.engine.check_change()
    database = request.catalog.rotate_database(request["org"], request["db"])
    log.info("tokens of database %s/%s rotated", request["org"], database.name)
    request.parts.engine.revoke_access(database)
    return {}


@Operation("POST", f"{GROUP}/auth/rotate", audit="group-rotate-creds")
def rotate_group_tokens(request: ApiRequest) -> Any:
    """Invalidate all tokens of a group and of its databases, and end the streams that were opened with them."""
    request.parts.engine.check_change()
    for database in request.catalog.rotate_group(request["org"], request["group"]):
        request.parts.engine.revoke_access(database)
    log.info("tokens of group %s/%s rotated", request["org"], request["group"])
    return {}


@Operation("GET", "/v1/auth/validate", outside=Reach.GROUP)
@Operation("GET", "/v1/auth/api-tokens/validate", outside=Reach.GROUP)  # of the published JavaScript client
def validate_token(request: ApiRequest) -> Any:
    """Return when the token of the request expires; platform tokens do not."""
    assert request.credential is not None
    expires = request.credential.expires
    return {"exp": -1 if expires is None else int(expires)}


@Operation("GET", API_TOKENS, outside=Reach.ORGANIZATION)
@Operation("GET", "/v2/auth/api-tokens", outside=Reach.ORGANIZATION)
def list_tokens(request: ApiRequest) -> Any:
    """List the account's platform tokens, without their values; with a token of an organization, those of it."""
    return {"tokens": [_token_json(token) for token in _own_tokens(request)]}


@Operation("POST", API_TOKEN, audit="user-token-create", outside=Reach.ORGANIZATION)
def create_token(request: ApiRequest, body: PlatformTokenOptions) -> Any:
    """Create a platform token; no later response contains its value.

    A token with an `organization` is limited to it; one with a `group` and `scopes` to that group, which requires the
    role admin. Without limits it is valid for everything that the account may do.
    """
    check_name("token", request["name"], "")
    limits = _limits(request, body)
    _belongs_to(request, limits)
    record, token = request.parts.tokens.issue_platform(request.account, request["name"], limits)
    log.info("platform token %s created by %s", record.name, request.account.username)
    return {"name": record.name, "id": record.id, "token": token}


@Operation("POST", "/v2/auth/api-tokens/{name}", audit="user-token-create", outside=Reach.ORGANIZATION)
def create_wrapped_token(request: ApiRequest, body: PlatformTokenOptions) -> Any:
    """Create a platform token, for clients of version 2."""
    token = create_token(request, body)
    return {"token": {"name": token["name"], "id": token["id"], "value": token["token"]}}


@Operation("DELETE", API_TOKEN, audit="user-token-delete", outside=Reach.ORGANIZATION)
@Operation("DELETE", "/v2/auth/api-tokens/{name}", audit="user-token-delete", outside=Reach.ORGANIZATION)
def revoke_token(request: ApiRequest) -> Any:
    """Revoke a platform token."""
    if request["name"] == FIRST_TOKEN:
        raise Refused(400, f"{FIRST_TOKEN} is the token in the data folder: delete its file and start again")
    for token in _own_tokens(request):
        if token.name == request["name"]:
            _belongs_to(request, token.limits)
            request.catalog.accounts.remove_token(token.id)
            return {"token": token.name}
    raise Refused(404, "token not found")


@Operation("GET", f"{ORG}/api-tokens")
def list_organization_tokens(request: ApiRequest) -> Any:
    """List the platform tokens that are limited to the organization or a group of it.

    Admins and owners get those of all members, with their owners; others get their own.
    """
    tokens = _organization_tokens(request)
    items = [_token_json(token) for token in tokens]
    if request.role >= Role.ADMIN:
        for item, token in zip(items, tokens, strict=True):
            item["owner"] = {"username": token.username, "email": ""}
    return {"tokens": items}


@Operation("DELETE", f"{ORG}/api-tokens/{{token}}", audit="user-token-delete", role=Role.VIEWER)
def revoke_organization_token(request: ApiRequest) -> Any:
    """Revoke a platform token of the organization, by its id; only admins and owners can revoke those of others."""
    for token in _organization_tokens(request):
        if token.id == request["token"]:
            request.catalog.accounts.remove_token(token.id)
            log.info("platform token %s of %s revoked by %s", token.name, token.username, request.account.username)
            return {"token": token.id}
    raise Refused(404, "token not found")


def _belongs_to(request: ApiRequest, limits: TokenLimits | None) -> None:
    """Make a change of a token one of the organization that it is limited to, which has it in its audit log."""
    if limits is not None:
        request.params["org"] = limits.organization


def _own_tokens(request: ApiRequest) -> list[PlatformToken]:
    """Return the account's tokens, as far as the token of the request reaches."""
    organization = None if request.limits is None else request.limits.organization
    return request.catalog.accounts.tokens(request.account, organization=organization)


def _organization_tokens(request: ApiRequest) -> list[PlatformToken]:
    """Return the tokens that are limited to the organization of the path, as far as the role allows."""
    account = None if request.role >= Role.ADMIN else request.account
    return request.catalog.accounts.tokens(account, organization=request["org"])


def _limits(request: ApiRequest, body: PlatformTokenOptions) -> TokenLimits | None:
    """Return the limits of a new token, which cannot exceed those of the sender's.

    Raise `Refused`: 400 for invalid limits, 403 or 404 for those that the sender may not set.
    """
    own, slug = request.limits, body.organization or None
    if slug is None and (body.group or body.scopes):
        raise Refused(400, "a token with a group or scopes requires an organization")
    if own is not None and slug != own.organization:
        raise Refused(403, f"the token is limited to the organization {own.organization}, so new ones must be, too")
    if slug is None:
        return None
    role = request.catalog.organizations.role(slug, request.account)
    if role is None:
        raise Refused(404, "organization not found")
    if not body.group:
        if body.scopes:
            raise Refused(400, "scopes require a group: a token of an organization has all rights of the account in it")
        return TokenLimits(slug)
    if not body.scopes:
        raise Refused(400, "a token for a group requires scopes")
    try:
        scopes = expand(body.scopes)
    except ValueError as error:
        raise Refused(400, str(error)) from None
    if role < Role.ADMIN:
        raise Refused(403, f"your role in {slug} is {role.label}; a token for a group requires the role admin")
    group = request.catalog.group(slug, body.group)
    return TokenLimits(slug, group.id, group.name, scopes)


def _token_json(token: PlatformToken) -> dict[str, Any]:
    """Return a platform token as JSON; members for limits that it does not have are missing."""
    limits = token.limits
    bound = {"organization": limits.organization, "group": limits.group, "scopes": limits.scopes} if limits else {}
    return {
        "name": token.name, "id": token.id, "created_at": utc(token.created).date().isoformat(),
        **{name: value for name, value in bound.items() if value},
    }  # fmt: skip
