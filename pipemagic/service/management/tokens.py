"""Endpoints about tokens: those of databases, and the platform tokens of an account."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pipemagic.service.http import Refused
from pipemagic.service.management.bodies import Body
from pipemagic.service.management.databases import DATABASE
from pipemagic.service.management.routing import Call, Route, route
from pipemagic.service.names import check_name
from pipemagic.service.tokens import FIRST_TOKEN, parse_expiration


def create_database_token(call: Call) -> Any:
    """Make a token for one database."""
    expires_in = parse_expiration(call.request.query.get("expiration", "never"))
    authorization = call.request.query.get("authorization") or "full-access"
    if authorization not in ("full-access", "read-only"):
        raise Refused(400, "Invalid authorization: it is full-access or read-only")
    # Ignoring a wish for fewer rights would hand out more than was asked for.
    Body(call.request, optional=True).refuse(("fine_grained_permissions",))
    database = call.catalog.database(call["org"], call["db"])
    return {"jwt": call.platform.tokens.issue_database(
        database, read_only=authorization == "read-only", expires_in=expires_in, subject=call.account.username
    )}  # fmt: skip


def validate(_call: Call) -> Any:
    """Tell when the token that was sent ends."""
    return {"exp": -1}  # platform tokens never expire, they are revoked


def list_tokens(call: Call) -> Any:
    """List the account's platform tokens, never their values."""
    return {"tokens": [
        {"name": token.name, "id": token.id, "created_at": _date(token.created)}
        for token in call.catalog.platform_tokens(call.account)
    ]}  # fmt: skip


def create_token(call: Call) -> Any:
    """Make a platform token; the only answer that ever holds its value."""
    check_name("token", call["name"], "")
    record, token = call.platform.tokens.issue_platform(call.account, call["name"])
    return {"name": record.name, "id": record.id, "token": token}


def revoke_token(call: Call) -> Any:
    """Make a platform token invalid."""
    if call["name"] == FIRST_TOKEN:
        raise Refused(400, f"{FIRST_TOKEN} is the token in the data folder: delete its file and start again")
    call.catalog.remove_platform_token(call.account, call["name"])
    return {"token": call["name"]}


def _date(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")


ROUTES: tuple[Route, ...] = (
    route("POST", f"{DATABASE}/auth/tokens", create_database_token),
    route("GET", "/v1/auth/validate", validate),
    route("GET", "/v1/auth/api-tokens/validate", validate),  # where the published JavaScript client asks
    route("GET", "/v1/auth/api-tokens", list_tokens),
    route("POST", "/v1/auth/api-tokens/{name}", create_token),
    route("DELETE", "/v1/auth/api-tokens/{name}", revoke_token),
)
