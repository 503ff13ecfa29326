"""Endpoints about who belongs to an organization."""

from __future__ import annotations

import logging
from typing import Any

from pipemagic.service.management.bodies import Body
from pipemagic.service.management.routing import ORG, Call, Route, route
from pipemagic.service.registry.organizations import Member, Role
from pipemagic.service.responses import Refused

log = logging.getLogger(__name__)

MEMBERS = f"{ORG}/members"
MEMBER = f"{MEMBERS}/{{username}}"


def list_members(call: Call) -> Any:
    """List the members and their roles."""
    return {"members": [shown(member) for member in call.catalog.organizations.members(call["org"])]}


def get_member(call: Call) -> Any:
    """Show one member."""
    return {"member": shown(call.catalog.organizations.member(call["org"], call["username"]))}


def add_member(call: Call) -> Any:
    """Add an account; the name is in the path or in the body."""
    body = Body(call.body, optional="username" in call.parts)
    username = call.parts.get("username") or body.text("username")
    role = _granted(call, body.text("role", Role.MEMBER.label))
    account = call.catalog.accounts.find(username)
    if account is None:
        raise Refused(404, f"user {username} not found")
    call.catalog.organizations.add_member(call["org"], account, role)
    log.info("%s made %s a %s of %s", call.account.username, username, role.label, call["org"])
    return {"member": username, "role": role.label}


def update_member(call: Call) -> Any:
    """Change a member's role."""
    role = _granted(call, Body(call.body).text("role"))
    _touch(call)
    call.catalog.organizations.set_role(call["org"], call["username"], role)
    log.info("%s made %s a %s of %s", call.account.username, call["username"], role.label, call["org"])
    return get_member(call)


def remove_member(call: Call) -> Any:
    """Remove a member; whoever wants to may leave. Database tokens that they made stay valid until a rotation."""
    if call["username"] != call.account.username:
        _require_admin(call)
        _touch(call)
    call.catalog.organizations.remove_member(call["org"], call["username"])
    log.info("%s took %s out of %s", call.account.username, call["username"], call["org"])
    return {"member": call["username"]}


def shown(member: Member) -> dict[str, Any]:
    """Give a member as it stands on the wire."""
    return {"username": member.username, "role": member.role.label, "email": ""}


def _granted(call: Call, label: str) -> Role:
    """Give the role that a member is to have; nobody gives more than their own."""
    role = Role.named(label)
    if call.role is None or role > call.role:
        raise Refused(403, f"only an {role.label} can make somebody {role.label}")
    return role


def _touch(call: Call) -> None:
    """Refuse to change a member whose role is above that of the one who asks."""
    member = call.catalog.organizations.member(call["org"], call["username"])
    if call.role is None or member.role > call.role:
        raise Refused(403, f"{member.username} is {member.role.label} of {call['org']}: only an owner can change that")


def _require_admin(call: Call) -> None:
    if call.role is None or call.role < Role.ADMIN:
        raise Refused(403, "only an admin or owner can remove others")


ROUTES: tuple[Route, ...] = (
    route("GET", MEMBERS, list_members),
    route("POST", MEMBERS, add_member, needs=Role.ADMIN),
    route("GET", MEMBER, get_member),
    route("POST", MEMBER, add_member, needs=Role.ADMIN),
    route("PATCH", MEMBER, update_member, needs=Role.ADMIN),
    route("DELETE", MEMBER, remove_member, needs=Role.VIEWER),
)
