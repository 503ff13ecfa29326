"""Endpoints about tokens: those of databases, and the platform tokens of an account."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, TypedDict

from pipemagic.service.auth.tokens import FIRST_TOKEN, parse_expiration
from pipemagic.service.management.bodies import Body
from pipemagic.service.management.databases import DATABASE
from pipemagic.service.management.groups import GROUP
from pipemagic.service.management.routing import Call, Route, route
from pipemagic.service.registry.names import check_name
from pipemagic.service.registry.organizations import Role
from pipemagic.service.responses import Refused

log = logging.getLogger(__name__)


def create_database_token(call: Call) -> Any:
    """Make a token for one database."""
    wish = _wish(call)
    database = call.catalog.database(call["org"], call["db"])
    return {"jwt": call.platform.tokens.issue_database(database, **wish)}


def create_group_token(call: Call) -> Any:
    """Make a token for all databases of a group, also for later ones."""
    wish = _wish(call)
    return {"jwt": call.platform.tokens.issue_group(call.catalog.group(call["org"], call["group"]), **wish)}


class _Wish(TypedDict):
    read_only: bool
    expires_in: float | None
    subject: str


def _wish(call: Call) -> _Wish:
    """Read what kind of token is wanted; a viewer gets read-only ones."""
    expires_in = parse_expiration(call.request.query_params.get("expiration", "never"))
    authorization = call.request.query_params.get("authorization") or "full-access"
    if authorization not in ("full-access", "read-only"):
        raise Refused(400, "Invalid authorization: it is full-access or read-only")
    # Ignoring a wish for fewer rights would hand out more than was asked for.
    Body(call.body, optional=True).refuse(("fine_grained_permissions",))
    read_only = authorization == "read-only"
    if call.role is Role.VIEWER and not read_only:
        raise Refused(403, f"your role in {call['org']} is viewer: ask for a read-only token")
    return {"read_only": read_only, "expires_in": expires_in, "subject": call.account.username}


def rotate_database_tokens(call: Call) -> Any:
    """Make void all tokens that open a database, and end the streams that were opened with them."""
    call.platform.engine.check_change()
    database = call.catalog.rotate_database(call["org"], call["db"])
    log.info("tokens of database %s/%s rotated", call["org"], database.name)
    call.platform.on_rotate(database)
    return {}


def rotate_group_tokens(call: Call) -> Any:
    """Make void all tokens of a group and of its databases, and end the streams that were opened with them."""
    call.platform.engine.check_change()
    for database in call.catalog.rotate_group(call["org"], call["group"]):
        call.platform.on_rotate(database)
    log.info("tokens of group %s/%s rotated", call["org"], call["group"])
    return {}


def validate(call: Call) -> Any:
    """Tell when the token that was sent ends; platform tokens do not, they are revoked."""
    assert call.credential is not None
    expires = call.credential.expires
    return {"exp": -1 if expires is None else int(expires)}


def list_tokens(call: Call) -> Any:
    """List the account's platform tokens, never their values."""
    return {"tokens": [
        {"name": token.name, "id": token.id, "created_at": _date(token.created)}
        for token in call.catalog.accounts.tokens(call.account)
    ]}  # fmt: skip


def create_token(call: Call) -> Any:
    """Make a platform token; the only answer that ever holds its value."""
    check_name("token", call["name"], "")
    # A token for just an organization or group, or with fewer rights, would come out with more than was asked for.
    Body(call.body, optional=True).refuse(("organization", "group", "scopes"))
    record, token = call.platform.tokens.issue_platform(call.account, call["name"])
    return {"name": record.name, "id": record.id, "token": token}


def create_token_wrapped(call: Call) -> Any:
    """Make a platform token, for clients of the second version."""
    made = create_token(call)
    return {"token": {"name": made["name"], "id": made["id"], "value": made["token"]}}


def revoke_token(call: Call) -> Any:
    """Make a platform token invalid."""
    if call["name"] == FIRST_TOKEN:
        raise Refused(400, f"{FIRST_TOKEN} is the token in the data folder: delete its file and start again")
    call.catalog.accounts.remove_token(call.account, call["name"])
    return {"token": call["name"]}


def _date(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")


ROUTES: tuple[Route, ...] = (
    route("POST", f"{DATABASE}/auth/tokens", create_database_token, needs=Role.VIEWER),
    route("POST", f"{DATABASE}/auth/rotate", rotate_database_tokens),
    route("POST", f"{GROUP}/auth/tokens", create_group_token, needs=Role.VIEWER),
    route("POST", f"{GROUP}/auth/rotate", rotate_group_tokens),
    route("GET", "/v1/auth/validate", validate),
    route("GET", "/v1/auth/api-tokens/validate", validate),  # where the published JavaScript client asks
    *(
        route(method, f"/{version}/auth/api-tokens{path}", endpoint)
        for version in ("v1", "v2")
        for method, path, endpoint in (
            ("GET", "", list_tokens),
            ("POST", "/{name}", create_token if version == "v1" else create_token_wrapped),
            ("DELETE", "/{name}", revoke_token),
        )
    ),
)
