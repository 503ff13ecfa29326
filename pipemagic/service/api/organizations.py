"""Organizations and their members."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import msgspec

from pipemagic.service.api.operations import ORG, ApiRequest, Body, Operation, Reach
from pipemagic.service.catalog.names import check_slug, slug_of
from pipemagic.service.catalog.organizations import MemberRecord, OrganizationRecord, Role
from pipemagic.service.responses import Refused

log = logging.getLogger(__name__)

MEMBERS = f"{ORG}/members"
MEMBER = f"{MEMBERS}/{{username}}"
INVITES = "/v2/organizations/{org}/invites"

RoleName = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [role.label for role in Role]})]


class NewOrganization(Body):
    """The name of a new organization, from which its slug is derived."""

    name: str


class OrganizationSettings(Body):
    """The settings of an organization."""

    unsupported = ("require_mfa",)

    overages: bool


class NewMember(Body):
    """An account and its role."""

    username: str
    role: RoleName = Role.MEMBER.label


class Invite(Body):
    """An account and its role; ``email`` is refused."""

    email: str | None = None
    username: str | None = None
    role: RoleName = Role.MEMBER.label


class NewRole(Body):
    """The role of a new member."""

    optional = True

    role: RoleName = Role.MEMBER.label


class ChangedRole(Body):
    """The new role of a member."""

    role: RoleName


@Operation("GET", "/v1/organizations", outside=Reach.ORGANIZATION)
@Operation("GET", "/v2/organizations", outside=Reach.ORGANIZATION)
def list_organizations(request: ApiRequest) -> Any:
    """List the organizations of the account, the personal one first, or only the one that the token is limited to."""
    records = request.catalog.organizations.of(request.account)
    if request.limits is not None:
        records = [record for record in records if record.slug == request.limits.organization]
    return {"organizations": [organization_json(request, record) for record in records]}


@Operation("GET", ORG)
def get_organization(request: ApiRequest) -> Any:
    """Return one organization."""
    return {"organization": organization_json(request, request.catalog.organizations.get(request["org"]))}


@Operation(
    "POST", "/v1/organizations", audit="org-create", query={"dry_run": {"type": "string", "enum": ["true", "false"]}}
)
def create_organization(request: ApiRequest, body: NewOrganization) -> Any:
    """Create a team. With ``dry_run``, check only whether that is possible."""
    name, slug = body.name.strip(), slug_of(body.name)
    if not slug or len(name) > 100 or not name.isprintable():
        raise Refused(400, "invalid organization name: it must have letters or digits, and at most 100 characters")
    if request.http.query_params.get("dry_run") == "true":
        request.catalog.organizations.check_free(check_slug(slug))
        return {"org": {"name": name, "slug": slug, "type": "team"}}
    record = request.catalog.organizations.create(request.account, slug, name=name)
    request.params["org"] = slug
    log.info("organization %s created by %s", slug, request.account.username)
    organization = organization_json(request, record)
    return {"org": organization, "organization": organization}


@Operation("PATCH", ORG, audit="org-set-overages", role=Role.ADMIN)
def update_organization(request: ApiRequest, body: OrganizationSettings) -> Any:
    """Change the overages setting."""
    record = request.catalog.organizations.set_overages(request["org"], body.overages)
    return {"organization": organization_json(request, record)}


@Operation("DELETE", ORG, role=Role.OWNER)
def delete_organization(request: ApiRequest) -> Any:
    """Delete a team without groups."""
    organization = get_organization(request)
    request.catalog.organizations.delete(request["org"])
    log.info("organization %s deleted by %s", request["org"], request.account.username)
    return organization


def organization_json(request: ApiRequest, record: OrganizationRecord) -> dict[str, Any]:
    """Return an organization as JSON."""
    block = request.parts.meter.organization_block(record.slug)
    return {
        "id": record.id, "name": record.name, "slug": record.slug, "type": record.type, "overages": record.overages,
        "blocked_reads": bool(block.reason(writes=False)),
        "blocked_writes": bool(block.reason(writes=True)),
        "plan_id": "self-hosted", "plan_timeline": "monthly", "platform": "", "require_mfa": False,
    }  # fmt: skip


@Operation("GET", MEMBERS)
def list_members(request: ApiRequest) -> Any:
    """List the members and their roles."""
    return {"members": [member_json(member) for member in request.catalog.organizations.members(request["org"])]}


@Operation("GET", MEMBER)
def get_member(request: ApiRequest) -> Any:
    """Return one member."""
    return {"member": member_json(request.catalog.organizations.member(request["org"], request["username"]))}


@Operation("POST", MEMBERS, audit="org-member-add", role=Role.ADMIN)
def add_member(request: ApiRequest, body: NewMember) -> Any:
    """Add an account to the organization."""
    return _add_member(request, body.username, body.role)


@Operation("POST", MEMBER, audit="org-member-add", role=Role.ADMIN)
def add_named_member(request: ApiRequest, body: NewRole) -> Any:
    """Add the account of the path to the organization."""
    return _add_member(request, request["username"], body.role)


def _add_member(request: ApiRequest, username: str, label: str) -> Any:
    role = _grantable(request, label)
    account = request.catalog.accounts.find(username)
    if account is None:
        raise Refused(404, f"user {username} not found")
    request.catalog.organizations.add_member(request["org"], account, role)
    log.info("%s made %s a %s of %s", request.account.username, username, role.label, request["org"])
    return {"member": username, "role": role.label}


@Operation("PATCH", MEMBER, audit="org-member-configure", role=Role.ADMIN)
def update_member(request: ApiRequest, body: ChangedRole) -> Any:
    """Change a member's role."""
    role = _grantable(request, body.role)
    _check_rank(request)
    request.catalog.organizations.set_role(request["org"], request["username"], role)
    log.info("%s made %s a %s of %s", request.account.username, request["username"], role.label, request["org"])
    return get_member(request)


@Operation("DELETE", MEMBER, audit="org-member-rm", role=Role.VIEWER)
def remove_member(request: ApiRequest) -> Any:
    """Remove a member, who may also be the sender. Database tokens of the member stay valid until a rotation."""
    if request["username"] != request.account.username:
        if request.role < Role.ADMIN:
            raise Refused(403, "only an admin or owner can remove others")
        _check_rank(request)
    request.catalog.organizations.remove_member(request["org"], request["username"])
    log.info("%s removed %s from %s", request.account.username, request["username"], request["org"])
    return {"member": request["username"]}


@Operation("GET", INVITES)
def list_invites(request: ApiRequest) -> Any:
    """List the pending invites: there are none, since an invited account is a member at once."""
    request.catalog.organizations.get(request["org"])
    return {"invites": []}


@Operation("POST", INVITES, audit="org-member-add", role=Role.ADMIN)
def invite(request: ApiRequest, body: Invite) -> Any:
    """Add an account to the organization: the service sends no e-mail, so the username is required."""
    if body.email is not None or body.username is None:
        raise Refused(400, "this service sends no e-mail: invite an account by its username")
    member = _add_member(request, body.username, body.role)
    return {"invited": {"email": "", "username": member["member"], "role": member["role"],
                        "organization": request["org"]}}  # fmt: skip


@Operation("DELETE", f"{INVITES}/{{email}}", role=Role.ADMIN)
def delete_invite(request: ApiRequest) -> Any:  # noqa: ARG001
    """Return 404: there are no pending invites."""
    raise Refused(404, "invite not found")


def member_json(member: MemberRecord) -> dict[str, Any]:
    """Return a member as JSON."""
    return {"username": member.username, "role": member.role.label, "email": ""}


def _grantable(request: ApiRequest, label: str) -> Role:
    """Return the role of that name; raise `Refused` (403) if it is above the sender's."""
    role = Role.named(label)
    if role > request.role:
        raise Refused(403, f"only {role.label}s can grant the role {role.label}")
    return role


def _check_rank(request: ApiRequest) -> None:
    """Raise `Refused` (403) if the member's role is above the sender's."""
    member = request.catalog.organizations.member(request["org"], request["username"])
    if member.role > request.role:
        raise Refused(
            403, f"{member.username} is {member.role.label} of {request['org']}: only an owner can change that"
        )  # fmt: skip
