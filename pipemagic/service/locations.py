"""The locations that groups and databases can be placed in, and how far they are from each other."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import asin, cos, radians, sin, sqrt
from typing import NamedTuple

from pipemagic.geography import COORDINATES, NAMES
from pipemagic.suggestions import closest

EARTH_RADIUS = 6371.0  # km
KM_PER_SECOND = 200_000.0  # of light in fibre
DETOUR = 1.5  # how much longer than the great circle a fibre is
LAST_MILE = 0.001  # seconds


class GeoLocation(NamedTuple):
    """One place. ``latitude`` and ``longitude`` are degrees north and east."""

    code: str
    name: str
    latitude: float
    longitude: float


_MISSING = frozenset({"aws-eu-west-3", "aws-us-west-1"})
"""Locations of other services that this one does not have."""

LOCATIONS: dict[str, GeoLocation] = {
    code: GeoLocation(code, name, *COORDINATES[code]) for code, name in NAMES.items() if code not in _MISSING
}
"""All locations by code, in the order of their codes."""


@cache
def round_trip(first: str, second: str) -> float:
    """Return the seconds that a message takes from one location to another and back, as the distance implies."""
    if first == second:
        return 0.0
    return LAST_MILE + 2 * DETOUR * _distance(LOCATIONS[first], LOCATIONS[second]) / KM_PER_SECOND


def nearest(here: str, codes: Iterable[str]) -> list[str]:
    """Sort locations by their distance from ``here``; locations at the same distance keep their order."""
    return sorted(codes, key=lambda code: round_trip(here, code))


def similar(code: str) -> list[str]:
    """Return the codes that are spelled like an unknown one."""
    return closest(code, LOCATIONS)


def _distance(first: GeoLocation, second: GeoLocation) -> float:
    """Return the great-circle distance in km (haversine formula)."""
    north, south = radians(first.latitude), radians(second.latitude)
    east = radians(second.longitude - first.longitude)
    half = sin((south - north) / 2) ** 2 + cos(north) * cos(south) * sin(east / 2) ** 2
    return 2 * EARTH_RADIUS * asin(sqrt(half))
