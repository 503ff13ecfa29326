"""The locations of databases by code: their names and approximate coordinates.

The coordinates are those of the airport, or of the city of a cloud region. They are accurate enough
for a map and for rough distances.
"""

from __future__ import annotations

from typing import NamedTuple


class Point(NamedTuple):
    """A place on Earth, in degrees north and east."""

    latitude: float
    longitude: float


_PLACES = (
    ("ams", "Amsterdam, Netherlands", 52.31, 4.76),
    ("arn", "Stockholm, Sweden", 59.65, 17.93),
    ("atl", "Atlanta, Georgia (US)", 33.64, -84.43),
    ("aws-ap-northeast-1", "AWS Tokyo", 35.68, 139.69),
    ("aws-ap-south-1", "AWS Mumbai", 19.08, 72.88),
    ("aws-eu-west-1", "AWS Ireland", 53.35, -6.26),
    ("aws-eu-west-3", "AWS Paris", 48.86, 2.35),
    ("aws-us-east-1", "AWS Virginia", 39.04, -77.49),
    ("aws-us-east-2", "AWS Ohio", 39.96, -83.00),
    ("aws-us-west-1", "AWS Northern California", 37.35, -121.96),
    ("aws-us-west-2", "AWS Oregon", 45.84, -119.70),
    ("bog", "Bogotá, Colombia", 4.70, -74.15),
    ("bom", "Mumbai, India", 19.09, 72.87),
    ("bos", "Boston, Massachusetts (US)", 42.36, -71.01),
    ("cdg", "Paris, France", 49.01, 2.55),
    ("den", "Denver, Colorado (US)", 39.86, -104.67),
    ("dfw", "Dallas, Texas (US)", 32.90, -97.04),
    ("ewr", "Secaucus, NJ (US)", 40.69, -74.17),
    ("eze", "Ezeiza, Argentina", -34.82, -58.54),
    ("fra", "Frankfurt, Germany", 50.03, 8.56),
    ("gdl", "Guadalajara, Mexico", 20.52, -103.31),
    ("gig", "Rio de Janeiro, Brazil", -22.81, -43.25),
    ("gru", "São Paulo, Brazil", -23.43, -46.47),
    ("hkg", "Hong Kong, Hong Kong", 22.31, 113.91),
    ("iad", "Ashburn, Virginia (US)", 38.94, -77.46),
    ("jnb", "Johannesburg, South Africa", -26.13, 28.24),
    ("lax", "Los Angeles, California (US)", 33.94, -118.41),
    ("lhr", "London, United Kingdom", 51.47, -0.45),
    ("mad", "Madrid, Spain", 40.47, -3.56),
    ("mia", "Miami, Florida (US)", 25.79, -80.29),
    ("nrt", "Tokyo, Japan", 35.77, 140.39),
    ("ord", "Chicago, Illinois (US)", 41.98, -87.90),
    ("otp", "Bucharest, Romania", 44.57, 26.09),
    ("phx", "Phoenix, Arizona (US)", 33.43, -112.01),
    ("qro", "Querétaro, Mexico", 20.62, -100.19),
    ("scl", "Santiago, Chile", -33.39, -70.79),
    ("sea", "Seattle, Washington (US)", 47.45, -122.31),
    ("sin", "Singapore, Singapore", 1.36, 103.99),
    ("sjc", "San Jose, California (US)", 37.36, -121.93),
    ("syd", "Sydney, Australia", -33.95, 151.18),
    ("waw", "Warsaw, Poland", 52.17, 20.97),
    ("yul", "Montreal, Canada", 45.47, -73.74),
    ("yyz", "Toronto, Canada", 43.68, -79.63),
)

NAMES: dict[str, str] = {code: name for code, name, _, _ in _PLACES}
"""The names of all known locations, sorted by code."""

COORDINATES: dict[str, Point] = {code: Point(latitude, longitude) for code, _, latitude, longitude in _PLACES}
"""The coordinates of all known locations, sorted by code."""


def whereabouts(code: str) -> Point | None:
    """Return the coordinates of a location, None for an unknown one; AWS regions with or without ``aws-``."""
    return COORDINATES.get(code) or COORDINATES.get(f"aws-{code}")
