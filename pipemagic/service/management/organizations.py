"""Endpoints about organizations."""

from __future__ import annotations

from typing import Any

from pipemagic.service.catalog import OrganizationRecord
from pipemagic.service.management.bodies import Body
from pipemagic.service.management.routing import ORG, Call, Route, route


def list_organizations(call: Call) -> Any:
    """List the organizations of the token's account."""
    return {"organizations": [shown(record) for record in call.catalog.organizations(call.account)]}


def get_organization(call: Call) -> Any:
    """Show one organization."""
    return {"organization": shown(call.catalog.organization(call["org"]))}


def update_organization(call: Call) -> Any:
    """Switch the overages setting."""
    overages = Body(call.request).boolean("overages")
    return {"organization": shown(call.catalog.set_overages(call["org"], overages))}


def shown(record: OrganizationRecord) -> dict[str, Any]:
    """Give an organization as it stands on the wire."""
    return {
        "name": record.name, "slug": record.slug, "type": record.type, "overages": record.overages,
        "blocked_reads": False, "blocked_writes": False,
    }  # fmt: skip


ROUTES: tuple[Route, ...] = (
    route("GET", "/v1/organizations", list_organizations),
    route("GET", ORG, get_organization),
    route("PATCH", ORG, update_organization),
)
