"""Endpoints about databases and their instances."""

from __future__ import annotations

import logging
from typing import Any

from pipemagic import __version__
from pipemagic.service.catalog import DatabaseRecord
from pipemagic.service.management.bodies import Body
from pipemagic.service.management.routing import ORG, Call, Route, route

log = logging.getLogger(__name__)

DATABASES = f"{ORG}/databases"
DATABASE = f"{DATABASES}/{{db}}"

_NOT_IGNORED = ("seed", "is_schema", "schema", "remote_encryption")
"""Optional members of a new database that would make it another one than ours; refused unless unset."""


def list_databases(call: Call) -> Any:
    """List the databases of an organization (of one group)."""
    group = call.request.query.get("group") or None
    return {"databases": [shown(call.addressed(record)) for record in call.catalog.databases(call["org"], group)]}


def get_database(call: Call) -> Any:
    """Show one database."""
    return {"database": shown(call.addressed(call.catalog.database(call["org"], call["db"])))}


def create_database(call: Call) -> Any:
    """Make an empty database in a group."""
    body = Body(call.request)
    name, group = body.text("name"), body.text("group")
    body.refuse(_NOT_IGNORED)
    record = call.catalog.create_database(call["org"], name, group)
    log.info("database %s/%s created as %s", call["org"], record.name, record.id)
    return {"database": {
        "DbId": record.id, "Hostname": call.addressed(record).hostname, "Name": record.name,
        "IssuedCertCount": 0, "IssuedCertLimit": 0,  # without them a published client raises
    }}  # fmt: skip


def delete_database(call: Call) -> Any:
    """Delete a database and its files."""
    record = call.catalog.delete_database(call["org"], call["db"])
    remove(call, record)
    return {"database": record.name}


def list_instances(call: Call) -> Any:
    """List the instances of a database, the primary first."""
    return {"instances": instances(call.addressed(call.catalog.database(call["org"], call["db"])))}


def remove(call: Call, database: DatabaseRecord) -> None:
    """Clean up behind a database that the catalog no longer has."""
    log.info("database %s/%s (%s) deleted", database.organization, database.name, database.id)
    call.platform.on_delete(database)


def shown(record: DatabaseRecord) -> dict[str, Any]:
    """Give a database as it stands on the wire, with all members that some published client insists on."""
    return {
        "Name": record.name, "DbId": record.id, "Hostname": record.hostname, "hostname": record.hostname,
        "group": record.group, "primaryRegion": record.locations[0], "regions": record.locations,
        "type": "logical", "version": __version__, "is_schema": False, "schema": "", "allow_attach": False,
        "block_reads": False, "block_writes": False, "sleeping": False, "archived": False,
        "delete_protection": False,
    }  # fmt: skip


def instances(record: DatabaseRecord) -> list[dict[str, Any]]:
    """One instance per location. All answer under the database's own host name, which every caller can use."""
    return [
        {
            "uuid": f"{record.id}-{code}", "name": code, "type": "replica" if number else "primary",
            "region": code, "hostname": record.hostname,
        }
        for number, code in enumerate(record.locations)
    ]  # fmt: skip


ROUTES: tuple[Route, ...] = (
    route("GET", DATABASES, list_databases),
    route("POST", DATABASES, create_database),
    route("GET", DATABASE, get_database),
    route("DELETE", DATABASE, delete_database),
    route("GET", f"{DATABASE}/instances", list_instances),
)
