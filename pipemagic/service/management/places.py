"""Endpoints about the locations that there are; those of a group are in `groups`."""

from __future__ import annotations

from typing import Any

from pipemagic.service.locations import LOCATIONS, nearest
from pipemagic.service.management.routing import Call, Route, route
from pipemagic.service.responses import Refused

USUAL = "ams"
"""What the public command-line tool takes for the closest location when it cannot know."""


def list_locations(call: Call) -> Any:
    """Give the display names of the locations that groups may have, by code."""
    return {"locations": {code: location.name for code, location in call.platform.engine.locations.items()}}


def list_locations_by_platform(call: Call) -> Any:
    """Give them in two levels, as newer clients ask for them: platform, then code."""
    platforms: dict[str, dict[str, str]] = {"aws": {}, "fly": {}}
    for code, location in call.platform.engine.locations.items():
        platforms["aws" if code.startswith("aws-") else "fly"][code] = location.name
    return {"locations": platforms}


def get_location(call: Call) -> Any:
    """Show one location and the others, the closest first."""
    code = call["location"]
    if code not in LOCATIONS:
        raise Refused(404, f"location not found: {code}")
    others = [other for other in LOCATIONS if other != code]
    return {"location": {**_shown(code), "closest": [_shown(other) for other in nearest(code, others)]}}


def closest(call: Call) -> Any:
    """Tell which location a new group had best be at; the public service has this at an address of its own."""
    here = call.platform.engine.here or USUAL
    return {"server": here, "client": here}


def _shown(code: str) -> dict[str, str]:
    return {"code": code, "description": LOCATIONS[code].name}


ROUTES: tuple[Route, ...] = (
    route("GET", "/v1/locations", list_locations),
    route("GET", "/v1/locations/{location}", get_location),
    route("GET", "/v2/locations", list_locations_by_platform),
    route("GET", "/v2/organizations/{org}/locations", list_locations_by_platform),
    route("GET", "/v1/closest", closest, public=True),
)
