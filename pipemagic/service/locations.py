"""The locations that groups and databases can be placed in: code, display name, approximate coordinates.

The coordinates are those of the airport, or of the metropolis that a cloud region is named after; they are
good for a map picture and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from math import asin, cos, radians, sin, sqrt
from typing import NamedTuple

EARTH_RADIUS = 6371.0  # km
KM_PER_SECOND = 200_000.0  # of light in fibre
DETOUR = 1.5  # how much longer than the great circle a fibre is
LAST_MILE = 0.001  # seconds


class Location(NamedTuple):
    """One place. ``latitude`` and ``longitude`` are degrees north and east."""

    code: str
    name: str
    latitude: float
    longitude: float


_TABLE = (
    Location("ams", "Amsterdam, Netherlands", 52.31, 4.76),
    Location("arn", "Stockholm, Sweden", 59.65, 17.93),
    Location("atl", "Atlanta, Georgia (US)", 33.64, -84.43),
    Location("aws-ap-northeast-1", "AWS Tokyo", 35.68, 139.69),
    Location("aws-ap-south-1", "AWS Mumbai", 19.08, 72.88),
    Location("aws-eu-west-1", "AWS Ireland", 53.35, -6.26),
    Location("aws-us-east-1", "AWS Virginia", 39.04, -77.49),
    Location("aws-us-east-2", "AWS Ohio", 39.96, -83.00),
    Location("aws-us-west-2", "AWS Oregon", 45.84, -119.70),
    Location("bog", "Bogotá, Colombia", 4.70, -74.15),
    Location("bom", "Mumbai, India", 19.09, 72.87),
    Location("bos", "Boston, Massachusetts (US)", 42.36, -71.01),
    Location("cdg", "Paris, France", 49.01, 2.55),
    Location("den", "Denver, Colorado (US)", 39.86, -104.67),
    Location("dfw", "Dallas, Texas (US)", 32.90, -97.04),
    Location("ewr", "Secaucus, NJ (US)", 40.69, -74.17),
    Location("eze", "Ezeiza, Argentina", -34.82, -58.54),
    Location("fra", "Frankfurt, Germany", 50.03, 8.56),
    Location("gdl", "Guadalajara, Mexico", 20.52, -103.31),
    Location("gig", "Rio de Janeiro, Brazil", -22.81, -43.25),
    Location("gru", "São Paulo, Brazil", -23.43, -46.47),
    Location("hkg", "Hong Kong, Hong Kong", 22.31, 113.91),
    Location("iad", "Ashburn, Virginia (US)", 38.94, -77.46),
    Location("jnb", "Johannesburg, South Africa", -26.13, 28.24),
    Location("lax", "Los Angeles, California (US)", 33.94, -118.41),
    Location("lhr", "London, United Kingdom", 51.47, -0.45),
    Location("mad", "Madrid, Spain", 40.47, -3.56),
    Location("mia", "Miami, Florida (US)", 25.79, -80.29),
    Location("nrt", "Tokyo, Japan", 35.77, 140.39),
    Location("ord", "Chicago, Illinois (US)", 41.98, -87.90),
    Location("otp", "Bucharest, Romania", 44.57, 26.09),
    Location("phx", "Phoenix, Arizona (US)", 33.43, -112.01),
    Location("qro", "Querétaro, Mexico", 20.62, -100.19),
    Location("scl", "Santiago, Chile", -33.39, -70.79),
    Location("sea", "Seattle, Washington (US)", 47.45, -122.31),
    Location("sin", "Singapore, Singapore", 1.36, 103.99),
    Location("sjc", "San Jose, California (US)", 37.36, -121.93),
    Location("syd", "Sydney, Australia", -33.95, 151.18),
    Location("waw", "Warsaw, Poland", 52.17, 20.97),
    Location("yul", "Montreal, Canada", 45.47, -73.74),
    Location("yyz", "Toronto, Canada", 43.68, -79.63),
)

LOCATIONS: dict[str, Location] = {location.code: location for location in _TABLE}
"""All locations by code, in the order of their codes."""


@cache
def round_trip(one: str, other: str) -> float:
    """Give the seconds that a message needs from one location to another and back, as the distance implies."""
    if one == other:
        return 0.0
    return LAST_MILE + 2 * DETOUR * _distance(LOCATIONS[one], LOCATIONS[other]) / KM_PER_SECOND


def nearest(here: str, codes: Iterable[str]) -> list[str]:
    """Sort locations by their distance from ``here``; what is as near keeps its order."""
    return sorted(codes, key=lambda code: round_trip(here, code))


def similar(code: str) -> list[str]:
    """Find the codes that someone may have meant."""
    return get_close_matches(code.lower(), LOCATIONS, n=3, cutoff=0.5)


def _distance(one: Location, other: Location) -> float:
    """Give the great-circle distance in km (haversine formula)."""
    north, south = radians(one.latitude), radians(other.latitude)
    east = radians(other.longitude - one.longitude)
    half = sin((south - north) / 2) ** 2 + cos(north) * cos(south) * sin(east / 2) ** 2
    return 2 * EARTH_RADIUS * asin(sqrt(half))
