"""Accounts: sign-up, login, logout and passwords."""

from __future__ import annotations

from typing import Any

from pipemagic.service.api.operations import ApiRequest, Body, Operation, Reach
from pipemagic.service.catalog.accounts import AccountRecord
from pipemagic.service.executor import Steps
from pipemagic.service.responses import Refused


class Credentials(Body):
    """A username and a password."""

    username: str
    password: str


class NewPassword(Body):
    """A new password, and the current one; the operator may omit the current one and name another account."""

    password: str
    current: str = ""
    username: str | None = None


@Operation("POST", "/v1/auth/signup", public=True)
def sign_up(request: ApiRequest, body: Credentials) -> Steps[dict[str, Any]]:
    """Create an account and log in."""
    token = yield from request.parts.logins.sign_up(body.username, body.password, request.network)
    return {"token": token, "username": body.username, "organization": body.username}


@Operation("POST", "/v1/auth/login", public=True)
def log_in(request: ApiRequest, body: Credentials) -> Steps[dict[str, Any]]:
    """Exchange a username and a password for a token."""
    token = yield from request.parts.logins.log_in(body.username, body.password, request.network)
    return {"token": token, "username": body.username, "organization": body.username}


@Operation("POST", "/v1/auth/invalidate")
def log_out(request: ApiRequest) -> Any:
    """End all logins of the account."""
    return {"ValidFrom": int(request.catalog.accounts.remove_logins(request.account))}


@Operation("POST", "/v1/auth/password")
def change_password(request: ApiRequest, body: NewPassword) -> Steps[dict[str, Any]]:
    """Set a new password; the operator may set the password of any account without the current one."""
    username = body.username
    if username is None or username == request.account.username:
        logins = request.parts.logins
        yield from logins.change_password(request.account, body.password, body.current, request.network)
        return {}
    if not request.account.operator:
        raise Refused(403, "only the operator of this service may set the password of another account")
    account = request.catalog.accounts.find(username)
    if account is None:
        raise Refused(404, f"user {username} not found")
    yield from request.parts.logins.reset_password(account, body.password, request.network)
    return {}


@Operation("POST", "/v1/users", operator="may create accounts for others")
def create_user(request: ApiRequest, body: Credentials) -> Steps[dict[str, Any]]:
    """Create an account for another person."""
    account = yield from request.parts.logins.open_account(body.username, body.password, request.network)
    return {"user": account_json(account)}


@Operation("GET", "/v1/user", outside=Reach.GROUP)
@Operation("GET", "/v1/current-user", outside=Reach.GROUP)
def get_user(request: ApiRequest) -> Any:
    """Return the account."""
    return {"user": account_json(request.account)}


def account_json(account: AccountRecord) -> dict[str, Any]:
    """Return an account as JSON; its e-mail address is not stored."""
    return {"username": account.username, "name": account.username, "email": "", "avatarUrl": "", "plan": "self-hosted"}
