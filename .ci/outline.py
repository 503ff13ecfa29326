"""Create the outline of the continents for the map of locations.

It is the land of Natural Earth at 1:110 million (https://www.naturalearthdata.com, in the public domain), as the npm
package world-atlas 2 ships it, without Antarctica and small islands and with fewer points.

Run it as ``python .ci/outline.py``; it needs npm. The same package gives the same file.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
import tempfile
from itertools import pairwise
from math import hypot
from pathlib import Path
from typing import Any

PACKAGE = "world-atlas@2.0.2"
TARGET = Path(__file__).parent.parent / "pipemagic/notebook/panels/land.json"

TOLERANCE = 0.6
"""Tolerance of the outline in degrees."""

LEAST = 4.0
"""Square degrees: smaller islands are omitted."""

SOUTH = -60.0
"""Degrees north: land below is omitted."""

Point = tuple[float, float]


def main() -> None:
    """Write the file."""
    rings = [simplified(ring) for ring in map(unwrapped, rings_of(topology())) if is_wanted(ring)]
    rings.sort(key=len, reverse=True)
    tenths = [[round(10 * number) for point in ring for number in point] for ring in rings]
    TARGET.write_text("[\n" + ",\n".join(json.dumps(ring, separators=(",", ":")) for ring in tenths) + "\n]\n", "utf-8")
    print(f"{TARGET.name}: {len(rings)} rings, {sum(map(len, rings))} points, {TARGET.stat().st_size} bytes")


def topology() -> Any:
    """Return the TopoJSON of the package."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as package:
            member = package.extractfile("package/land-110m.json")
            assert member is not None
            return json.load(member)


def rings_of(topology: Any) -> list[list[Point]]:
    """Return the outer rings of all land, as (longitude, latitude) in degrees."""
    (scale_x, scale_y), (west, south) = topology["transform"]["scale"], topology["transform"]["translate"]
    arcs = []
    for steps in topology["arcs"]:
        x = y = 0
        arc = []
        for step_x, step_y in steps:
            x, y = x + step_x, y + step_y
            arc.append((west + scale_x * x, south + scale_y * y))
        arcs.append(arc)
    rings = []
    for geometry in topology["objects"]["land"]["geometries"]:
        for outer, *_ in geometry["arcs"]:
            ring: list[Point] = []
            for index in outer:
                arc = arcs[index] if index >= 0 else arcs[~index][::-1]
                ring += arc[1:] if ring else arc
            rings.append(ring)
    return rings


def unwrapped(ring: list[Point]) -> list[Point]:
    """Return a ring without jumps from 180 to -180 degrees east: points beyond the line have more than 180."""
    whole = [ring[0]]
    for x, y in ring[1:]:
        last = whole[-1][0]
        whole.append((x - 360 * round((x - last) / 360), y))
    middle = (min(x for x, _ in whole) + max(x for x, _ in whole)) / 2
    return [(x - 360 * round(middle / 360), y) for x, y in whole]


def is_wanted(ring: list[Point]) -> bool:
    """Return True if a ring is large enough and far enough north."""
    area = sum(x * v - u * y for (x, y), (u, v) in pairwise(ring)) / 2
    return abs(area) >= LEAST and max(y for _, y in ring) > SOUTH


def simplified(ring: list[Point]) -> list[Point]:
    """Remove points of a closed ring that are close to the line without them (Douglas and Peucker)."""
    half = len(ring) // 2
    return thinned(ring[: half + 1])[:-1] + thinned(ring[half:])[:-1]


def thinned(line: list[Point]) -> list[Point]:
    """Remove points of an open line; its ends stay."""
    (x, y), (u, v) = line[0], line[-1]
    length = hypot(u - x, v - y) or 1e-9
    offs = [abs((u - x) * (q - y) - (v - y) * (p - x)) / length for p, q in line]
    if max(offs) <= TOLERANCE:
        return [line[0], line[-1]]
    at = offs.index(max(offs))
    return thinned(line[: at + 1])[:-1] + thinned(line[at:])


if __name__ == "__main__":
    main()
