"""The locations that groups and databases can be placed in, and how far they are from each other."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from math import asin, cos, radians, sin, sqrt
from typing import NamedTuple

from pipemagic.geography import COORDINATES

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


_NAMES = (
    ("ams", "Amsterdam, Netherlands"),
    ("arn", "Stockholm, Sweden"),
    ("atl", "Atlanta, Georgia (US)"),
    ("aws-ap-northeast-1", "AWS Tokyo"),
    ("aws-ap-south-1", "AWS Mumbai"),
    ("aws-eu-west-1", "AWS Ireland"),
    ("aws-us-east-1", "AWS Virginia"),
    ("aws-us-east-2", "AWS Ohio"),
    ("aws-us-west-2", "AWS Oregon"),
    ("bog", "Bogotá, Colombia"),
    ("bom", "Mumbai, India"),
    ("bos", "Boston, Massachusetts (US)"),
    ("cdg", "Paris, France"),
    ("den", "Denver, Colorado (US)"),
    ("dfw", "Dallas, Texas (US)"),
    ("ewr", "Secaucus, NJ (US)"),
    ("eze", "Ezeiza, Argentina"),
    ("fra", "Frankfurt, Germany"),
    ("gdl", "Guadalajara, Mexico"),
    ("gig", "Rio de Janeiro, Brazil"),
    ("gru", "São Paulo, Brazil"),
    ("hkg", "Hong Kong, Hong Kong"),
    ("iad", "Ashburn, Virginia (US)"),
    ("jnb", "Johannesburg, South Africa"),
    ("lax", "Los Angeles, California (US)"),
    ("lhr", "London, United Kingdom"),
    ("mad", "Madrid, Spain"),
    ("mia", "Miami, Florida (US)"),
    ("nrt", "Tokyo, Japan"),
    ("ord", "Chicago, Illinois (US)"),
    ("otp", "Bucharest, Romania"),
    ("phx", "Phoenix, Arizona (US)"),
    ("qro", "Querétaro, Mexico"),
    ("scl", "Santiago, Chile"),
    ("sea", "Seattle, Washington (US)"),
    ("sin", "Singapore, Singapore"),
    ("sjc", "San Jose, California (US)"),
    ("syd", "Sydney, Australia"),
    ("waw", "Warsaw, Poland"),
    ("yul", "Montreal, Canada"),
    ("yyz", "Toronto, Canada"),
)

LOCATIONS: dict[str, Location] = {code: Location(code, name, *COORDINATES[code]) for code, name in _NAMES}
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
