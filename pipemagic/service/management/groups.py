"""Endpoints about groups and their locations."""

from __future__ import annotations

import logging
from typing import Any

from pipemagic import __version__
from pipemagic.service.management.bodies import Body
from pipemagic.service.management.databases import remove, written
from pipemagic.service.management.routing import ORG, Call, Route, route
from pipemagic.service.registry.records import GroupRecord

log = logging.getLogger(__name__)

GROUPS = f"{ORG}/groups"
GROUP = f"{GROUPS}/{{group}}"


def list_groups(call: Call) -> Any:
    """List the groups of an organization."""
    return {"groups": [shown(call, record) for record in call.catalog.groups(call["org"])]}


def get_group(call: Call) -> Any:
    """Show one group."""
    return {"group": shown(call, call.catalog.group(call["org"], call["group"]))}


def create_group(call: Call) -> Any:
    """Make a group at a location."""
    body = Body(call.body)
    name, location = body.text("name"), body.text("location")
    call.platform.engine.check_group(location)
    record = call.catalog.create_group(call["org"], name, location)
    log.info("group %s/%s created at %s", call["org"], record.name, record.primary)
    return {"group": shown(call, record)}


def delete_group(call: Call) -> Any:
    """Delete a group and all its databases."""
    call.platform.engine.check_change()
    group, databases = call.catalog.delete_group(call["org"], call["group"])
    log.info("group %s/%s deleted with %d databases", call["org"], group.name, len(databases))
    for database in databases:
        remove(call, database)
    return {"group": shown(call, group)}


def wake_group(call: Call) -> Any:
    """Show a group that a client takes for archived; none ever is."""
    return get_group(call)


def shown(call: Call, record: GroupRecord) -> dict[str, Any]:
    """Give a group as it stands on the wire."""
    states = call.platform.engine.states(record)
    return {
        "name": record.name, "uuid": record.id, "locations": record.locations, "primary": record.primary,
        "archived": False, "version": __version__, "delete_protection": record.delete_protection,
        "created_at": written(record.created),
        "status": {"locations": [{"name": code, "status": states.get(code, "ok")} for code in record.locations]},
    }  # fmt: skip


ROUTES: tuple[Route, ...] = (
    route("GET", GROUPS, list_groups),
    route("POST", GROUPS, create_group),
    route("GET", GROUP, get_group),
    route("DELETE", GROUP, delete_group),
    route("POST", f"{GROUP}/unarchive", wake_group),
)
