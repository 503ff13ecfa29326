"""Endpoints by which the operator of the service says how much each organization may use."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from typing import Any

from pipemagic.service.management.bodies import Body
from pipemagic.service.management.routing import Call, Route, route
from pipemagic.service.registry.usage import DEFAULT, Quotas
from pipemagic.service.responses import Refused

log = logging.getLogger(__name__)


def list_quotas(call: Call) -> Any:
    """Show the quotas for all, and for each organization its own (or null) and what it has used in this month."""
    _check_operator(call)
    call.platform.meter.flush()
    usage, month = call.catalog.usage, call.platform.meter.month
    organizations = {}
    for record in call.catalog.organizations.all():
        own = usage.own_quotas(record.slug)
        used = usage.of_organization(record.slug, month)
        organizations[record.slug] = {"quotas": own and asdict(own), "usage": used._asdict()}
    return {"default": asdict(usage.own_quotas(DEFAULT) or Quotas()), "organizations": organizations}


def update_default(call: Call) -> Any:
    """Change the quotas of all organizations that have none of their own."""
    _check_operator(call)
    return _update(call, DEFAULT)


def get_quotas(call: Call) -> Any:
    """Show the quotas that hold for one organization."""
    return {"quotas": asdict(call.catalog.usage.quotas(_slug(call)))}


def update_quotas(call: Call) -> Any:
    """Change the quotas of one organization; what is not sent stays as it is."""
    return _update(call, _slug(call))


def remove_quotas(call: Call) -> Any:
    """Let an organization have the quotas for all again."""
    slug = _slug(call)
    call.catalog.usage.set_quotas(slug, None)
    return get_quotas(call)


def _update(call: Call, slug: str) -> Any:
    body = Body(call.body)
    quotas = call.catalog.usage.quotas(slug)
    if body.has("rows_read"):
        quotas = replace(quotas, rows_read=body.count("rows_read"))
    if body.has("rows_written"):
        quotas = replace(quotas, rows_written=body.count("rows_written"))
    if body.has("storage_bytes"):
        quotas = replace(quotas, storage_bytes=body.size("storage_bytes"))
    call.catalog.usage.set_quotas(slug, quotas)
    log.info("quotas of %s: %s", slug or "all organizations", quotas)
    return {"quotas": asdict(quotas)}


def _slug(call: Call) -> str:
    """Give the organization that is meant, which the operator need not belong to."""
    _check_operator(call)
    return call.catalog.organizations.get(call["slug"]).slug


def _check_operator(call: Call) -> None:
    if not call.account.operator:
        raise Refused(403, "only the operator of this service sees and sets quotas")


ROUTES: tuple[Route, ...] = (
    route("GET", "/v1/quotas", list_quotas),
    route("PATCH", "/v1/quotas", update_default),
    route("GET", "/v1/quotas/{slug}", get_quotas),
    route("PATCH", "/v1/quotas/{slug}", update_quotas),
    route("DELETE", "/v1/quotas/{slug}", remove_quotas),
)
