"""Tokens: those of databases and groups, and the platform tokens of an account."""

from __future__ import annotations

import logging
from typing import Any

from pipemagic.service.api.databases import DATABASE
from pipemagic.service.api.groups import GROUP
from pipemagic.service.api.operations import ApiRequest, Body, Operation
from pipemagic.service.auth.tokens import FIRST_TOKEN, parse_expiration
from pipemagic.service.catalog.names import check_name
from pipemagic.service.catalog.organizations import Role
from pipemagic.service.catalog.records import utc
from pipemagic.service.responses import Refused

log = logging.getLogger(__name__)

QUERY = {
    "expiration": {"type": "string", "examples": ["never", "2w1d30m"]},
    "authorization": {"type": "string", "enum": ["full-access", "read-only"]},
}


class DatabaseTokenOptions(Body):
    """No options: tokens with fewer rights than the query names are not supported."""

    optional = True
    unsupported = ("fine_grained_permissions",)


class PlatformTokenOptions(Body):
    """No options: tokens for one organization or group, or with fewer rights, are not supported."""

    optional = True
    unsupported = ("organization", "group", "scopes")


@Operation("POST", f"{DATABASE}/auth/tokens", role=Role.VIEWER, query=QUERY)
def create_database_token(request: ApiRequest, body: DatabaseTokenOptions) -> Any:  # noqa: ARG001
    """Create a token for one database."""
    rights = _parse_rights(request)
    database = request.catalog.database(request["org"], request["db"])
    return {"jwt": request.parts.tokens.issue_database(database, **rights)}


@Operation("POST", f"{GROUP}/auth/tokens", role=Role.VIEWER, query=QUERY)
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


@Operation("POST", f"{DATABASE}/auth/rotate")
def rotate_database_tokens(request: ApiRequest) -> Any:
    """Invalidate all tokens of a database, and end the streams that were opened with them."""
    request.parts.engine.check_change()
    database = request.catalog.rotate_database(request["org"], request["db"])
    log.info("tokens of database %s/%s rotated", request["org"], database.name)
    request.parts.engine.revoke_access(database)
    return {}


@Operation("POST", f"{GROUP}/auth/rotate")
def rotate_group_tokens(request: ApiRequest) -> Any:
    """Invalidate all tokens of a group and of its databases, and end the streams that were opened with them."""
    request.parts.engine.check_change()
    for database in request.catalog.rotate_group(request["org"], request["group"]):
        request.parts.engine.revoke_access(database)
    log.info("tokens of group %s/%s rotated", request["org"], request["group"])
    return {}


@Operation("GET", "/v1/auth/validate")
@Operation("GET", "/v1/auth/api-tokens/validate")  # of the published JavaScript client
def validate_token(request: ApiRequest) -> Any:
    """Return when the token of the request expires; platform tokens do not."""
    assert request.credential is not None
    expires = request.credential.expires
    return {"exp": -1 if expires is None else int(expires)}


@Operation("GET", "/v1/auth/api-tokens")
@Operation("GET", "/v2/auth/api-tokens")
def list_tokens(request: ApiRequest) -> Any:
    """List the account's platform tokens, without their values."""
    return {"tokens": [
        {"name": token.name, "id": token.id, "created_at": utc(token.created).date().isoformat()}
        for token in request.catalog.accounts.tokens(request.account)
    ]}  # fmt: skip


@Operation("POST", "/v1/auth/api-tokens/{name}")
def create_token(request: ApiRequest, body: PlatformTokenOptions) -> Any:  # noqa: ARG001
    """Create a platform token; no later response contains its value."""
    check_name("token", request["name"], "")
    record, token = request.parts.tokens.issue_platform(request.account, request["name"])
    return {"name": record.name, "id": record.id, "token": token}


@Operation("POST", "/v2/auth/api-tokens/{name}")
def create_wrapped_token(request: ApiRequest, body: PlatformTokenOptions) -> Any:
    """Create a platform token, for clients of version 2."""
    token = create_token(request, body)
    return {"token": {"name": token["name"], "id": token["id"], "value": token["token"]}}


@Operation("DELETE", "/v1/auth/api-tokens/{name}")
@Operation("DELETE", "/v2/auth/api-tokens/{name}")
def revoke_token(request: ApiRequest) -> Any:
    """Revoke a platform token."""
    if request["name"] == FIRST_TOKEN:
        raise Refused(400, f"{FIRST_TOKEN} is the token in the data folder: delete its file and start again")
    request.catalog.accounts.remove_token(request.account, request["name"])
    return {"token": request["name"]}
