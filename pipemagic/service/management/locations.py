"""Endpoints about the locations of a group: where its databases have instances."""

from __future__ import annotations

import logging
from typing import Any

from pipemagic.service.executor import Steps
from pipemagic.service.management.groups import GROUP, shown
from pipemagic.service.management.routing import Call, Route, route
from pipemagic.service.registry.records import GroupRecord
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.write_lock import Waiter

log = logging.getLogger(__name__)

LOCATION = f"{GROUP}/locations/{{location}}"
WAIT = 30.0
"""Seconds that a request waits at most for replicas to catch up."""


def add_location(call: Call) -> Any:
    """Add a location to a group; its databases replicate there. One that it has already changes nothing."""
    call.platform.engine.check_location(call["location"])
    return _changed(call, call.catalog.add_location(call["org"], call["group"], call["location"]), "added")


def remove_location(call: Call) -> Any:
    """Take a location from a group; the replicas there are deleted."""
    call.platform.engine.check_change()
    return _changed(call, call.catalog.remove_location(call["org"], call["group"], call["location"]), "removed")


def pause_location(call: Call) -> Any:
    """Take a location down: its instances answer nothing and its replicas do not follow."""
    call.platform.engine.check_pause(call["location"])
    return _changed(call, call.catalog.set_paused(call["org"], call["group"], call["location"], True), "paused")


def resume_location(call: Call) -> Any:
    """Take a location up again; its replicas catch up."""
    call.platform.engine.check_pause(call["location"])
    return _changed(call, call.catalog.set_paused(call["org"], call["group"], call["location"], False), "resumed")


def wait_for_location(call: Call) -> Steps:
    """Respond when the replicas of a location have what their primaries have now.

    503 if that takes too long, or at once if the location is paused.
    """
    group, code = call.catalog.group(call["org"], call["group"]), call["location"]
    if code not in group.locations:
        raise Refused(400, f"Invalid location code: the group {group.name} is not at {code}")
    if code in group.paused:
        raise Refused(503, f"the location {code} is paused, so its replicas do not follow", "LOCATION_PAUSED")
    waiters = call.platform.engine.waiting(group, code, WAIT)
    for waiter in waiters:
        if not (waiter.granted or call.cancel.cancelled):
            yield Waiter.until_done(waiter, call.cancel.add_callback)
    if not all(waiter.granted for waiter in waiters):
        raise Refused(503, f"the replicas at {code} did not catch up within {WAIT:g} s, or were paused")
    return {}


def _changed(call: Call, group: GroupRecord, how: str) -> Any:
    log.info("location %s of group %s/%s %s", call["location"], group.organization, group.name, how)
    call.platform.on_locations(group)
    return {"group": shown(call, group)}


ROUTES: tuple[Route, ...] = (
    route("POST", LOCATION, add_location),
    route("DELETE", LOCATION, remove_location),
    route("GET", f"{LOCATION}/wait", wait_for_location),
    route("POST", f"{LOCATION}/pause", pause_location),
    route("POST", f"{LOCATION}/resume", resume_location),
)
