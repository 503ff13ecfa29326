"""Endpoints about databases and their instances."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from pipemagic import __version__
from pipemagic.service.management import seeds
from pipemagic.service.management.bodies import Body
from pipemagic.service.management.routing import ORG, Call, Route, route
from pipemagic.service.registry.records import DatabaseRecord
from pipemagic.service.responses import Refused

log = logging.getLogger(__name__)

DATABASES = f"{ORG}/databases"
DATABASE = f"{DATABASES}/{{db}}"

_NOT_IGNORED = ("is_schema", "schema", "remote_encryption")
"""Optional members of a new database that would make it another one than ours; refused unless unset."""


def list_databases(call: Call) -> Any:
    """List the databases of an organization (of one group); none is a schema of others or made from one."""
    query = call.request.query_params
    if query.get("schema") or query.get("parent") or query.get("type") == "schema":
        return {"databases": []}
    group = query.get("group") or None
    return {"databases": [shown(call, record) for record in call.catalog.databases(call["org"], group)]}


def get_database(call: Call) -> Any:
    """Show one database."""
    return {"database": shown(call, call.catalog.database(call["org"], call["db"]))}


def create_database(call: Call) -> Any:
    """Make a database in a group: empty, a copy of another one, or one for a file that is uploaded next."""
    body = Body(call.body)
    name, group = body.text("name"), _group(call, body)
    body.refuse(_NOT_IGNORED)
    size_limit = (body.size("size_limit") or None) if body.has("size_limit") else None
    call.platform.engine.check_new(f"{name}-{call['org']}")
    with seeds.prepared(call, body) as prepare:
        record = call.catalog.create_database(call["org"], name, group, size_limit=size_limit, prepare=prepare)
    call.platform.engine.create(record)
    log.info("database %s/%s created as %s", call["org"], record.name, record.id)
    return {"database": {
        "DbId": record.id, "Hostname": call.addressed(record).hostname, "Name": record.name,
        "IssuedCertCount": 0, "IssuedCertLimit": 0,  # without them a published client raises
        **address(call, record),
    }}  # fmt: skip


def _group(call: Call, body: Body) -> str:
    """Give the name of a new database's group; newer clients may send its id instead."""
    if body.has("group") or not body.has("group_id"):
        return body.text("group")
    for group in call.catalog.groups(call["org"]):
        if group.id == body.text("group_id"):
            return group.name
    raise Refused(400, "group not found")


def delete_database(call: Call) -> Any:
    """Delete a database and its files."""
    call.platform.engine.check_change()
    record = call.catalog.delete_database(call["org"], call["db"])
    remove(call, record)
    return {"database": record.name}


def list_instances(call: Call) -> Any:
    """List the instances of a database, the primary first."""
    return {"instances": instances(call, call.catalog.database(call["org"], call["db"]))}


def get_instance(call: Call) -> Any:
    """Show the instance at one location."""
    for instance in instances(call, call.catalog.database(call["org"], call["db"])):
        if instance["name"] == call["instance"]:
            return {"instance": instance}
    raise Refused(404, f"database {call['db']} has no instance at {call['instance']}")


def wake_database(call: Call) -> Any:
    """Do what is asked of a database that sleeps or is out of date, which none ever is."""
    call.catalog.database(call["org"], call["db"])
    return {}


def remove(call: Call, database: DatabaseRecord) -> None:
    """Clean up behind a database that the catalog no longer has."""
    log.info("database %s/%s (%s) deleted", database.organization, database.name, database.id)
    call.platform.on_delete(database)


def address(call: Call, record: DatabaseRecord) -> dict[str, str]:
    """Give the member ``url``, where the database is not at the service's own address."""
    url = call.platform.engine.addresses(record).get(record.locations[0])
    return {"url": url} if url else {}


def shown(call: Call, record: DatabaseRecord) -> dict[str, Any]:
    """Give a database as it stands on the wire, with all members that some published client insists on."""
    record = call.addressed(record)
    return {
        "Name": record.name, "DbId": record.id, "Hostname": record.hostname, "hostname": record.hostname,
        "group": record.group, "primaryRegion": record.locations[0], "regions": record.locations,
        "type": "logical", "version": __version__, "is_schema": False, "schema": "", "allow_attach": False,
        "block_reads": record.configuration.block_reads, "block_writes": record.configuration.block_writes,
        "sleeping": False, "archived": False, "delete_protection": record.configuration.delete_protection,
        "created_at": written(record.created),
        **address(call, record),
    }  # fmt: skip


def written(moment: float) -> str:
    """Write a moment (Unix seconds) as RFC 3339."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def instances(call: Call, record: DatabaseRecord) -> list[dict[str, Any]]:
    """Give one instance per location, as they stand on the wire.

    Each has a host name of its own, and an address of its own where the service's is not the database's.
    """
    record, addresses = call.addressed(record), call.platform.engine.addresses(record)
    return [
        {
            "uuid": f"{record.id}-{one.code}", "name": one.code, "type": one.role, "region": one.code,
            "hostname": record.instances.get(one.code, record.hostname), "status": one.state,
            "replication_index": str(one.index), "lag_seconds": one.lag, **_own(addresses.get(one.code)),
        }
        for one in call.platform.engine.status(record).values()
    ]  # fmt: skip


def _own(url: str | None) -> dict[str, str]:
    return {"hostname": urlsplit(url).hostname or "", "url": url} if url else {}


ROUTES: tuple[Route, ...] = (
    route("GET", DATABASES, list_databases),
    route("POST", DATABASES, create_database),
    route("GET", DATABASE, get_database),
    route("DELETE", DATABASE, delete_database),
    route("GET", f"{DATABASE}/instances", list_instances),
    route("GET", f"{DATABASE}/instances/{{instance}}", get_instance),
    route("POST", f"{DATABASE}/wakeup", wake_database),
    route("POST", f"{DATABASE}/update", wake_database),
)
