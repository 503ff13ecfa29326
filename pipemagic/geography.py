"""Where locations are on Earth: approximate coordinates by code.

They are those of the airport, or of the metropolis that a cloud region is named after; they are good for a map and
for guessing distances, and for nothing else.
"""

from __future__ import annotations

from typing import NamedTuple


class Point(NamedTuple):
    """A place on Earth, in degrees north and east."""

    latitude: float
    longitude: float


COORDINATES: dict[str, Point] = {
    code: Point(latitude, longitude)
    for code, latitude, longitude in (
        ("ams", 52.31, 4.76),
        ("arn", 59.65, 17.93),
        ("atl", 33.64, -84.43),
        ("aws-ap-northeast-1", 35.68, 139.69),
        ("aws-ap-south-1", 19.08, 72.88),
        ("aws-eu-west-1", 53.35, -6.26),
        ("aws-eu-west-3", 48.86, 2.35),
        ("aws-us-east-1", 39.04, -77.49),
        ("aws-us-east-2", 39.96, -83.00),
        ("aws-us-west-1", 37.35, -121.96),
        ("aws-us-west-2", 45.84, -119.70),
        ("bog", 4.70, -74.15),
        ("bom", 19.09, 72.87),
        ("bos", 42.36, -71.01),
        ("cdg", 49.01, 2.55),
        ("den", 39.86, -104.67),
        ("dfw", 32.90, -97.04),
        ("ewr", 40.69, -74.17),
        ("eze", -34.82, -58.54),
        ("fra", 50.03, 8.56),
        ("gdl", 20.52, -103.31),
        ("gig", -22.81, -43.25),
        ("gru", -23.43, -46.47),
        ("hkg", 22.31, 113.91),
        ("iad", 38.94, -77.46),
        ("jnb", -26.13, 28.24),
        ("lax", 33.94, -118.41),
        ("lhr", 51.47, -0.45),
        ("mad", 40.47, -3.56),
        ("mia", 25.79, -80.29),
        ("nrt", 35.77, 140.39),
        ("ord", 41.98, -87.90),
        ("otp", 44.57, 26.09),
        ("phx", 33.43, -112.01),
        ("qro", 20.62, -100.19),
        ("scl", -33.39, -70.79),
        ("sea", 47.45, -122.31),
        ("sin", 1.36, 103.99),
        ("sjc", 37.36, -121.93),
        ("syd", -33.95, 151.18),
        ("waw", 52.17, 20.97),
        ("yul", 45.47, -73.74),
        ("yyz", 43.68, -79.63),
    )
}
"""The coordinates of every code that is known, in the order of the codes."""


def whereabouts(code: str) -> Point | None:
    """Find a location; None for an unknown one. Codes of AWS regions come with ``aws-`` in front and without it."""
    return COORDINATES.get(code) or COORDINATES.get(f"aws-{code}")
