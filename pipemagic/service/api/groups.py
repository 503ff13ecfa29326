"""Locations, and the groups of databases at them."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import msgspec

from pipemagic.service.api.databases import finish_deletion
from pipemagic.service.api.operations import ORG, ApiRequest, Body, Name, Operation, format_time
from pipemagic.service.catalog.records import GroupRecord
from pipemagic.service.executor import Steps
from pipemagic.service.locations import LOCATIONS, nearest
from pipemagic.service.responses import Refused
from pipemagic.version import __version__

log = logging.getLogger(__name__)

GROUPS = f"{ORG}/groups"
GROUP = f"{GROUPS}/{{group}}"
LOCATION = f"{GROUP}/locations/{{location}}"

FALLBACK = "ams"
"""The location that the public command-line tool uses if it cannot determine the closest one."""

WAIT = 30.0
"""Seconds that a request waits for replicas."""


class NewGroup(Body):
    """The name of a new group, and its primary location."""

    unsupported = ("extensions", "version")

    name: Name
    location: Annotated[str, msgspec.Meta(examples=["ams"])]


class GroupSettings(Body):
    """The settings of a group; missing ones do not change."""

    delete_protection: bool | None = None


@Operation("GET", "/v1/locations")
def list_locations(request: ApiRequest) -> Any:
    """List the names of the locations that groups may have, by code."""
    return {"locations": {code: location.name for code, location in request.parts.engine.locations.items()}}


@Operation("GET", "/v2/locations")
@Operation("GET", "/v2/organizations/{org}/locations")
def list_locations_by_platform(request: ApiRequest) -> Any:
    """List the names of the locations by platform and code, for newer clients."""
    platforms: dict[str, dict[str, str]] = {"aws": {}, "fly": {}}
    for code, location in request.parts.engine.locations.items():
        platforms["aws" if code.startswith("aws-") else "fly"][code] = location.name
    return {"locations": platforms}


@Operation("GET", "/v1/locations/{location}")
def get_location(request: ApiRequest) -> Any:
    """Return one location and the others, the closest first."""
    code = request["location"]
    if code not in LOCATIONS:
        raise Refused(404, f"location not found: {code}")
    code_and_others = [code, *nearest(code, [other for other in LOCATIONS if other != code])]
    location, *others = [{"code": place, "description": LOCATIONS[place].name} for place in code_and_others]
    return {"location": {**location, "closest": others}}


@Operation("GET", "/v1/closest", public=True)
def get_closest_location(request: ApiRequest) -> Any:
    """Return the best location for a new group; the public service has this at an address of its own."""
    here = request.parts.engine.here or FALLBACK
    return {"server": here, "client": here}


@Operation("GET", GROUPS)
def list_groups(request: ApiRequest) -> Any:
    """List the groups of an organization."""
    groups = request.catalog.groups(request["org"])
    return {"groups": [group_json(request, record) for record in groups if request.reaches(record.id)]}


@Operation("GET", GROUP)
@Operation("POST", f"{GROUP}/unarchive")
def get_group(request: ApiRequest) -> Any:
    """Return one group. Groups are never archived."""
    return {"group": group_json(request, request.catalog.group(request["org"], request["group"]))}


@Operation("POST", GROUPS, audit="group-create")
def create_group(request: ApiRequest, body: NewGroup) -> Any:
    """Create a group at a location."""
    request.parts.engine.check_group(body.location)
    record = request.catalog.create_group(request["org"], body.name, body.location)
    log.info("group %s/%s created at %s", request["org"], record.name, record.primary)
    return {"group": group_json(request, record)}


@Operation("DELETE", GROUP, audit="group-delete")
def delete_group(request: ApiRequest) -> Any:
    """Delete a group and all its databases."""
    request.parts.engine.check_change()
    group, databases = request.catalog.delete_group(request["org"], request["group"])
    log.info("group %s/%s deleted with %d databases", request["org"], group.name, len(databases))
    for database in databases:
        finish_deletion(request, database)
    return {"group": group_json(request, group)}


@Operation("GET", f"{GROUP}/configuration")
def get_group_settings(request: ApiRequest) -> Any:
    """Return the settings of a group."""
    return {"delete_protection": request.catalog.group(request["org"], request["group"]).delete_protection}


@Operation("PATCH", f"{GROUP}/configuration", audit="group-configure")
def update_group_settings(request: ApiRequest, body: GroupSettings) -> Any:
    """Change the settings of a group."""
    if body.delete_protection is not None:
        request.catalog.protect_group(request["org"], request["group"], body.delete_protection)
    return get_group_settings(request)


@Operation("POST", LOCATION, audit="instance-create")
def add_location(request: ApiRequest) -> Any:
    """Add a location to a group, unless the group has it; its databases get replicas there."""
    request.parts.engine.check_location(request["location"])
    record = request.catalog.add_location(request["org"], request["group"], request["location"])
    return _apply_locations(request, record, "added")


@Operation("DELETE", LOCATION, audit="instance-delete")
def remove_location(request: ApiRequest) -> Any:
    """Remove a location from a group, with the replicas there."""
    request.parts.engine.check_change()
    record = request.catalog.remove_location(request["org"], request["group"], request["location"])
    return _apply_locations(request, record, "removed")


@Operation("POST", f"{LOCATION}/pause", query={"replication_only": {"type": "string", "enum": ["true", "false"]}})
def pause_location(request: ApiRequest) -> Any:
    """Stop the instances and the replication at a location, or the replication only: its reads lag behind then."""
    org, group, code = request["org"], request["group"], request["location"]
    replication_only = request.http.query_params.get("replication_only") == "true"
    request.parts.engine.check_pause(code, replication_only=replication_only)
    record = request.catalog.pause(org, group, code, replication_only=replication_only)
    return _apply_locations(request, record, "not replicated" if replication_only else "paused")


@Operation("POST", f"{LOCATION}/resume")
def resume_location(request: ApiRequest) -> Any:
    """Start the instances and the replication at a location again."""
    request.parts.engine.check_pause(request["location"], replication_only=False)
    record = request.catalog.resume(request["org"], request["group"], request["location"])
    return _apply_locations(request, record, "resumed")


@Operation("GET", f"{LOCATION}/wait")
def wait_for_location(request: ApiRequest) -> Steps[dict[str, Any]]:
    """Respond when the replicas at a location have all commits that their primaries have now.

    503 if that takes too long, or at once if the location is paused.
    """
    group, code = request.catalog.group(request["org"], request["group"]), request["location"]
    if code not in group.locations:
        raise Refused(400, f"Invalid location code: the group {group.name} is not at {code}")
    if code in group.paused | group.stalled:
        raise Refused(503, f"the location {code} is paused, so its replicas are not updated", "LOCATION_PAUSED")
    waiters = request.parts.engine.wait_for_replicas(group, code, WAIT)
    for waiter in waiters:
        if not (waiter.granted or request.http.cancelled):
            request.http.add_callback(waiter.finish)
            yield waiter
    if not all(waiter.granted for waiter in waiters):
        raise Refused(503, f"the replicas at {code} did not catch up within {WAIT:g} s, or were paused")
    return {}


def _apply_locations(request: ApiRequest, group: GroupRecord, change: str) -> Any:
    log.info("location %s of group %s/%s %s", request["location"], group.organization, group.name, change)
    request.parts.engine.sync_locations(group)
    return {"group": group_json(request, group)}


def group_json(request: ApiRequest, record: GroupRecord) -> dict[str, Any]:
    """Return a group as JSON."""
    states = request.parts.engine.states(record)
    return {
        "name": record.name, "uuid": record.id, "locations": record.locations, "primary": record.primary,
        "archived": False, "version": __version__, "delete_protection": record.delete_protection,
        "created_at": format_time(record.created),
        "status": {"locations": [{"name": code, "status": states.get(code, "ok")} for code in record.locations]},
    }  # fmt: skip
