"""Endpoints about the locations that there are; those of a group are in `groups`."""

from __future__ import annotations

from typing import Any

from pipemagic.service.locations import LOCATIONS
from pipemagic.service.management.routing import Call, Route, route


def list_locations(_call: Call) -> Any:
    """Give the display names of all locations, by code."""
    return {"locations": {code: location.name for code, location in LOCATIONS.items()}}


ROUTES: tuple[Route, ...] = (route("GET", "/v1/locations", list_locations),)
