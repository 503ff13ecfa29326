"""Databases, their instances and their settings."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from urllib.parse import urlsplit

import msgspec

from pipemagic.service.api.operations import (
    ORG,
    ApiRequest,
    Body,
    Name,
    Operation,
    Size,
    format_time,
    number_in_query,
    parse_time,
    size_in_bytes,
)
from pipemagic.service.catalog.catalog import unknown_database
from pipemagic.service.catalog.records import DatabaseRecord, Parent, format_moment
from pipemagic.service.engine import Seed
from pipemagic.service.hosting import proxied_url
from pipemagic.service.responses import Refused
from pipemagic.version import __version__

log = logging.getLogger(__name__)

DATABASES = f"{ORG}/databases"
DATABASE = f"{DATABASES}/{{db}}"


class SeedSource(msgspec.Struct):
    """The initial content of a database: a copy of another one (`database`), or an upload (`database_upload`)."""

    type: str | None = None
    name: str | None = None
    value: str | None = None
    """The name, as the public command-line tool sends it."""
    timestamp: str | None = None
    """Copy the database as it was at this time; by default as it is."""


class NewDatabase(Body):
    """A new database; its group is named by ``group``, or by ``group_id``."""

    unsupported = ("is_schema", "schema", "remote_encryption", "use_tursodb", "image", "extensions")

    name: Name
    group: str | None = None
    group_id: str | None = None
    size_limit: Size | None = None
    seed: SeedSource | None = None


class DatabaseSettings(Body):
    """The settings of a database; missing ones do not change. A ``size_limit`` of 0 removes the limit."""

    unsupported = ("allow_attach", "allowed_ips", "allowed_aws_vpc_ids")

    size_limit: Size | None = None
    block_reads: bool | None = None
    block_writes: bool | None = None
    delete_protection: bool | None = None


PAGES = {"limit": {"type": "integer", "minimum": 1}, "cursor": {"type": "string"}}
FILTERS = {"group": {"type": "string"}, "parent": {"type": "string"}}


@Operation("GET", DATABASES, query={**FILTERS, **PAGES}, for_operator=True)
def list_databases(request: ApiRequest) -> Any:
    """List the databases of an organization by name, or those of one group, or the branches of ``parent``.

    ``parent`` is the name or id of a database. With ``limit``, the response is one page; ``pagination.next`` is the
    ``cursor`` of the next one, null on the last.
    """
    query = request.http.query_params
    if query.get("schema") or query.get("type") == "schema":
        return {"databases": []}  # this service has no schema databases
    records = request.catalog.databases(request["org"], query.get("group") or None)
    if parent := query.get("parent"):
        records = [record for record in records if record.parent and parent in (record.parent.id, record.parent.name)]
    cursor, limit = query.get("cursor") or "", number_in_query(request, "limit", len(records) + 1)
    records = [record for record in records if record.name > cursor and request.reaches(record.group_id)]
    following = records[limit - 1].name if len(records) > limit else None
    databases = [database_json(request, record) for record in records[:limit]]
    return {"databases": databases, **({"pagination": {"next": following}} if query.get("limit") else {})}


@Operation("GET", DATABASE, for_operator=True)
def get_database(request: ApiRequest) -> Any:
    """Return one database."""
    return {"database": database_json(request, _database(request))}


@Operation("POST", DATABASES, audit="db-create")
def create_database(request: ApiRequest, body: NewDatabase) -> Any:
    """Create a database in a group: empty, as a copy of another one, or for a file that is uploaded next."""
    group = _group_name(request, body)
    request.parts.engine.check_new(f"{body.name}-{request['org']}")
    original, moment = _original(request, body.seed)
    with _content(request, body.seed, original, moment) as seed:
        record = request.catalog.create_database(
            request["org"], body.name, group, size_limit=size_in_bytes(body.size_limit) or None,
            parent=None if original is None else Parent(original.id, original.name, seed.moment), prepare=seed.place,
        )  # fmt: skip
    request.parts.engine.create(record)
    log.info("database %s/%s created as %s", request["org"], record.name, record.id)
    return {"database": {
        "DbId": record.id, "Hostname": request.with_local_names(record).hostname, "Name": record.name,
        "IssuedCertCount": 0, "IssuedCertLimit": 0,  # a published client requires them
        **({} if record.parent is None else {"parent": _parent_json(record)}),
        **_address(request, record),
    }}  # fmt: skip


def _group_name(request: ApiRequest, body: NewDatabase) -> str:
    """Return the name of a new database's group; newer clients may send its id."""
    if body.group is None and body.group_id is None:
        raise Refused(400, '"group" is missing')
    name, groups = body.group, request.catalog.groups(request["org"])
    if name is None:
        name = next((group.name for group in groups if group.id == body.group_id), None)
    if name is None or not all(request.reaches(group.id) for group in groups if group.name == name):
        raise Refused(400, "group not found")
    return name


def _content(
    request: ApiRequest, source: SeedSource | None, original: DatabaseRecord | None, moment: float | None
) -> AbstractContextManager[Seed]:
    """Return a context with the content of a new database; raise `Refused` (400) for an invalid seed."""
    if source is None:
        return nullcontext(Seed(lambda _: None))
    if source.type == "database_upload":
        return request.parts.engine.seed(None)
    if original is not None:
        return request.parts.engine.seed(original, moment)
    if source.type == "dump":
        raise Refused(400, "SQL text is not accepted here: send a SQLite file with the seed database_upload")
    raise Refused(400, f"unknown seed type {str(source.type)[:40]!r}: use database or database_upload")


def _original(request: ApiRequest, source: SeedSource | None) -> tuple[DatabaseRecord | None, float | None]:
    """Return the database to copy, and the moment at which its content is wanted; None for the present one."""
    if source is None or source.type != "database":
        if source is not None and source.timestamp:
            raise Refused(400, 'seed.timestamp requires the seed type "database"')
        return None, None
    name = source.name or source.value
    if not name:
        raise Refused(400, '"seed.name" must name the database to copy')
    moment = parse_time(source.timestamp, "seed.timestamp") if source.timestamp else None
    original = request.catalog.database(request["org"], name)
    if not request.reaches(original.group_id):
        raise unknown_database(name)
    return original, moment


@Operation("DELETE", DATABASE, audit="db-delete")
def delete_database(request: ApiRequest) -> Any:
    """Delete a database and its files."""
    request.parts.engine.check_change()
    record = request.catalog.delete_database(request["org"], request["db"])
    finish_deletion(request, record)
    return {"database": record.name}


def finish_deletion(request: ApiRequest, database: DatabaseRecord) -> None:
    """Delete the data of a database that is no longer in the catalog."""
    log.info("database %s/%s (%s) deleted", database.organization, database.name, database.id)
    request.parts.engine.delete(database)


@Operation("GET", f"{DATABASE}/instances")
def list_instances(request: ApiRequest) -> Any:
    """List the instances of a database, the primary first."""
    return {"instances": _instances_json(request, _database(request))}


@Operation("GET", f"{DATABASE}/instances/{{instance}}")
def get_instance(request: ApiRequest) -> Any:
    """Return the instance at one location."""
    for instance in _instances_json(request, _database(request)):
        if instance["name"] == request["instance"]:
            return {"instance": instance}
    raise Refused(404, f"database {request['db']} has no instance at {request['instance']}")


@Operation("POST", f"{DATABASE}/wakeup")
@Operation("POST", f"{DATABASE}/update")
def wake_database(request: ApiRequest) -> Any:
    """Do nothing: databases are always running and up to date."""
    _database(request)
    return {}


@Operation("GET", f"{DATABASE}/configuration", for_operator=True)
def get_settings(request: ApiRequest) -> Any:
    """Return the settings of a database."""
    return _settings_json(_database(request))


@Operation("PATCH", f"{DATABASE}/configuration", audit="db-configure", for_operator=True)
def update_settings(request: ApiRequest, body: DatabaseSettings) -> Any:
    """Change the settings of a database, from the next request on; `block_reads` ends what runs."""
    changes = body.changes()
    if "size_limit" in changes:
        changes["size_limit"] = size_in_bytes(body.size_limit) or None
    request.parts.engine.check_change()
    record = request.catalog.configure_database(request["org"], request["db"], changes)
    request.parts.engine.configure(record)
    settings = ", ".join(f"{name}={value}" for name, value in sorted(changes.items()))
    log.info("settings of %s/%s changed by %s: %s", request["org"], record.name, request.account.username, settings)
    return _settings_json(record)


def _settings_json(record: DatabaseRecord) -> dict[str, Any]:
    """Return the settings as JSON; the size is text, and ``0`` is no limit."""
    settings = msgspec.structs.asdict(record.configuration)
    return {
        **settings, "size_limit": str(record.configuration.size_limit or 0), "allow_attach": False, "allowed_ips": [],
        "allowed_aws_vpc_ids": [],
    }  # fmt: skip


def _database(request: ApiRequest) -> DatabaseRecord:
    return request.catalog.database(request["org"], request["db"])


def _address(request: ApiRequest, record: DatabaseRecord) -> dict[str, str]:
    """Return the field ``url``, for databases with an address that is more than a host name."""
    url = request.parts.engine.addresses(record).get(record.locations[0]) or proxied_url(request.http)
    return {"url": url} if url else {}


def database_json(request: ApiRequest, record: DatabaseRecord) -> dict[str, Any]:
    """Return a database as JSON, with all fields that published clients require."""
    record = request.with_local_names(record)
    return {
        "Name": record.name, "DbId": record.id, "Hostname": record.hostname, "hostname": record.hostname,
        "group": record.group, "primaryRegion": record.locations[0], "regions": record.locations,
        "type": "logical", "version": __version__, "is_schema": False, "schema": "", "allow_attach": False,
        "block_reads": record.configuration.block_reads, "block_writes": record.configuration.block_writes,
        "sleeping": False, "archived": False, "delete_protection": record.configuration.delete_protection,
        "created_at": format_time(record.created), "parent": _parent_json(record),
        **_address(request, record),
    }  # fmt: skip


def _parent_json(record: DatabaseRecord) -> dict[str, str] | None:
    """Return the database that this one is a copy of, as JSON, with the time of that content."""
    if (parent := record.parent) is None:
        return None
    return {"id": parent.id, "name": parent.name, "branched_at": format_moment(parent.moment)}


def _instances_json(request: ApiRequest, record: DatabaseRecord) -> list[dict[str, Any]]:
    """Return one instance per location as JSON, each with its host name, and its address if it has one."""
    record, addresses = request.with_local_names(record), request.parts.engine.addresses(record)
    instances = []
    for status in request.parts.engine.status(record).values():
        url = addresses.get(status.code)
        own = {"hostname": urlsplit(url).hostname or "", "url": url} if url else _address(request, record)
        instances.append({
            "uuid": f"{record.id}-{status.code}", "name": status.code, "type": status.role, "region": status.code,
            "hostname": record.instances.get(status.code, record.hostname), "status": status.state,
            "replication_index": str(status.index), "lag_seconds": status.lag, **own,
        })  # fmt: skip
    return instances
