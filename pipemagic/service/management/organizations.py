"""Endpoints about organizations."""

from __future__ import annotations

import logging
from typing import Any

from pipemagic.service.management.bodies import Body
from pipemagic.service.management.routing import ORG, Call, Route, route
from pipemagic.service.registry.names import check_slug, slug_of
from pipemagic.service.registry.organizations import OrganizationRecord, Role
from pipemagic.service.responses import Refused

log = logging.getLogger(__name__)


def list_organizations(call: Call) -> Any:
    """List the organizations of the token's account, the personal one first."""
    return {"organizations": [shown(call, record) for record in call.catalog.organizations.of(call.account)]}


def get_organization(call: Call) -> Any:
    """Show one organization."""
    return {"organization": shown(call, call.catalog.organizations.get(call["org"]))}


def create_organization(call: Call) -> Any:
    """Make a team; its slug is made from the name. With ``dry_run`` only tell whether it could be made."""
    name = Body(call.body).text("name").strip()
    slug = slug_of(name)
    if not slug or not 1 <= len(name) <= 100 or not name.isprintable():
        raise Refused(400, "invalid organization name: it must have letters or digits, and at most 100 characters")
    if call.request.query_params.get("dry_run") == "true":
        call.catalog.organizations.check_free(check_slug(slug))
        return {"org": {"name": name, "slug": slug, "type": "team"}}
    record = call.catalog.organizations.create(call.account, slug, name=name)
    log.info("organization %s created by %s", slug, call.account.username)
    return {"org": shown(call, record), "organization": shown(call, record)}


def update_organization(call: Call) -> Any:
    """Switch the overages setting."""
    body = Body(call.body)
    body.refuse(("require_mfa",))
    return {"organization": shown(call, call.catalog.organizations.set_overages(call["org"], body.boolean("overages")))}


def delete_organization(call: Call) -> Any:
    """Delete a team that has no groups any more."""
    record = call.catalog.organizations.get(call["org"])
    answer = {"organization": shown(call, record)}
    call.catalog.organizations.delete(record.slug)
    log.info("organization %s deleted by %s", record.slug, call.account.username)
    return answer


def shown(call: Call, record: OrganizationRecord) -> dict[str, Any]:
    """Give an organization as it stands on the wire."""
    block = call.platform.meter.organization_block(record.slug)
    return {
        "id": record.id, "name": record.name, "slug": record.slug, "type": record.type, "overages": record.overages,
        "blocked_reads": block is not None and bool(block.reason(writes=False)),
        "blocked_writes": block is not None and bool(block.reason(writes=True)),
        "plan_id": "self-hosted", "plan_timeline": "monthly", "platform": "", "require_mfa": False,
    }  # fmt: skip


ROUTES: tuple[Route, ...] = (
    route("GET", "/v1/organizations", list_organizations),
    route("GET", "/v2/organizations", list_organizations),
    route("POST", "/v1/organizations", create_organization),
    route("GET", ORG, get_organization),
    route("PATCH", ORG, update_organization, needs=Role.ADMIN),
    route("DELETE", ORG, delete_organization, needs=Role.OWNER),
)
