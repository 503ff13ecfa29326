"""Endpoints about what can be set of a database or a group."""

from __future__ import annotations

from typing import Any

from pipemagic.service.management.bodies import Body
from pipemagic.service.management.databases import DATABASE
from pipemagic.service.management.groups import GROUP
from pipemagic.service.management.routing import Call, Route, route
from pipemagic.service.registry.records import DatabaseRecord, GroupRecord

_SWITCHES = ("block_reads", "block_writes", "delete_protection")

_NOT_IGNORED = ("allow_attach", "allowed_ips")
"""Members that would open or close a database in ways that this service has not; refused unless unset."""


def get_database(call: Call) -> Any:
    """Show a database's configuration."""
    return _shown(call.catalog.database(call["org"], call["db"]))


def update_database(call: Call) -> Any:
    """Change the members that were sent; they hold from the next request on. A ``size_limit`` of 0 removes it."""
    body = Body(call.body)
    body.refuse(_NOT_IGNORED)
    changes: dict[str, int | None] = {name: body.boolean(name) for name in _SWITCHES if body.has(name)}
    if body.has("size_limit"):
        changes["size_limit"] = body.size("size_limit") or None
    call.platform.engine.check_change()
    record = call.catalog.configure_database(call["org"], call["db"], changes)
    call.platform.on_configure(record)
    return _shown(record)


def get_group(call: Call) -> Any:
    """Show a group's configuration."""
    return _shown_group(call.catalog.group(call["org"], call["group"]))


def update_group(call: Call) -> Any:
    """Change the members that were sent."""
    body = Body(call.body)
    if not body.has("delete_protection"):
        return get_group(call)
    protection = body.boolean("delete_protection")
    return _shown_group(call.catalog.protect_group(call["org"], call["group"], protection))


def _shown(record: DatabaseRecord) -> dict[str, Any]:
    """Give it as it stands on the wire, where the size is text and no limit is ``0``."""
    configuration = record.configuration
    return {
        "size_limit": str(configuration.size_limit or 0), "allow_attach": False,
        "block_reads": configuration.block_reads, "block_writes": configuration.block_writes,
        "delete_protection": configuration.delete_protection,
    }  # fmt: skip


def _shown_group(record: GroupRecord) -> dict[str, Any]:
    return {"delete_protection": record.delete_protection}


ROUTES: tuple[Route, ...] = (
    route("GET", f"{DATABASE}/configuration", get_database),
    route("PATCH", f"{DATABASE}/configuration", update_database),
    route("GET", f"{GROUP}/configuration", get_group),
    route("PATCH", f"{GROUP}/configuration", update_group),
)
