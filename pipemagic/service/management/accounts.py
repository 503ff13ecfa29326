"""Endpoints about the account of whoever calls: signing up, logging in and out, the password."""

from __future__ import annotations

from typing import Any

from pipemagic.service.management.bodies import Body
from pipemagic.service.management.routing import Call, Route, route
from pipemagic.service.registry.accounts import Account
from pipemagic.service.responses import JSON, Refused


def sign_up(call: Call) -> Any:
    """Make an account and log it in."""
    body = _own_body(call)
    return _logged_in(*call.platform.logins.sign_up(body.text("username"), body.text("password")))


def log_in(call: Call) -> Any:
    """Give a token for a username and a password."""
    body = _own_body(call)
    return _logged_in(*call.platform.logins.log_in(body.text("username"), body.text("password")))


def invalidate(call: Call) -> Any:
    """End all logins of the account."""
    return {"ValidFrom": int(call.platform.logins.log_out(call.account))}


def change_password(call: Call) -> Any:
    """Set a new password; the operator may set anybody's, without the current one."""
    body = Body(call.body)
    username, password = body.text("username", call.account.username), body.text("password")
    if username == call.account.username:
        call.platform.logins.change_password(call.account, password, body.text("current", ""))
        return {}
    if not call.account.operator:
        raise Refused(403, "only the operator of this service may set the password of somebody else")
    account = call.catalog.accounts.find(username)
    if account is None:
        raise Refused(404, f"user {username} not found")
    call.platform.logins.reset_password(account, password)
    return {}


def create_user(call: Call) -> Any:
    """Make an account for somebody else; only the operator may."""
    if not call.account.operator:
        raise Refused(403, "only the operator of this service may make accounts for others")
    body = Body(call.body)
    return {"user": shown(call.platform.logins.open_account(body.text("username"), body.text("password")))}


def get_user(call: Call) -> Any:
    """Show the account."""
    return {"user": shown(call.account)}


def shown(account: Account) -> dict[str, Any]:
    """Give an account as it stands on the wire; no addresses are kept."""
    return {"username": account.username, "name": account.username, "email": "", "avatarUrl": "", "plan": "self-hosted"}


def _logged_in(account: Account, token: str) -> Any:
    return {"token": token, "username": account.username, "organization": account.username}


def _own_body(call: Call) -> Body:
    """Read the body of a public route. A web page of another origin cannot send this content type unasked."""
    if call.request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise Refused(400, f"send the body with Content-Type: {JSON}")
    return Body(call.body)


ROUTES: tuple[Route, ...] = (
    route("POST", "/v1/auth/signup", sign_up, public=True),
    route("POST", "/v1/auth/login", log_in, public=True),
    route("POST", "/v1/auth/invalidate", invalidate),
    route("POST", "/v1/auth/password", change_password),
    route("GET", "/v1/user", get_user),
    route("GET", "/v1/current-user", get_user),
    route("POST", "/v1/users", create_user),
)
