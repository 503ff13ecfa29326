"""Groups and databases as the catalog knows them, and how its rows are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class GroupRecord:
    """A group and its locations; the first one is the primary, and some may be ``paused``.

    ``created`` is in Unix seconds.
    """

    id: str
    name: str
    organization: str
    locations: tuple[str, ...]
    paused: frozenset[str]
    created: float
    delete_protection: bool = False

    @property
    def primary(self) -> str:
        """The code of the location that takes the writes."""
        return self.locations[0]


@dataclass(frozen=True)
class Configuration:
    """What can be set of a database. ``size_limit`` is in bytes; None leaves it to the service."""

    size_limit: int | None = None
    block_reads: bool = False
    block_writes: bool = False
    delete_protection: bool = False


@dataclass(frozen=True)
class DatabaseRecord:
    """A database. ``id`` is never used again, not even for a new database of the same name.

    ``hostname`` is the full host name, without port; ``created`` is in Unix seconds; ``locations`` are
    those of its group, the primary first, of which some may be ``paused``; ``instances`` gives the host name of
    its instance at each of them; ``rotated`` is the number of the last rotation of its tokens.
    """

    id: str
    name: str
    group: str
    organization: str
    hostname: str
    created: float
    locations: tuple[str, ...]
    paused: frozenset[str]
    instances: dict[str, str]
    group_id: str
    rotated: int
    configuration: Configuration

    def below(self, domain: str) -> DatabaseRecord:
        """Give the record with the same host names below another domain."""
        hostname, *names = (
            f"{name.partition('.')[0]}.{domain}" for name in (self.hostname, *self.instances.values())
        )  # fmt: skip
        return replace(self, hostname=hostname, instances=dict(zip(self.instances, names, strict=True)))


_PLACES = """
  (SELECT group_concat(code, ',' ORDER BY position) FROM group_locations WHERE group_id = g.id),
  (SELECT group_concat(code) FROM group_locations WHERE group_id = g.id AND paused)
"""

GROUPS = f"""
SELECT g.id, g.name, g.organization, {_PLACES}, g.created, g.delete_protection
FROM "groups" AS g
"""

DATABASES = f"""
SELECT d.id, d.name, g.name, d.organization, h.label, d.created, {_PLACES},
  (SELECT group_concat(location || ' ' || label) FROM hosts WHERE database = d.id AND location IS NOT NULL),
  g.id, max(g.rotated, d.rotated), d.size_limit, d.block_reads, d.block_writes, d.delete_protection
FROM databases AS d JOIN "groups" AS g ON g.id = d.group_id JOIN hosts AS h ON h.database = d.id AND h.location IS NULL
"""


def read_group(row: tuple[Any, ...]) -> GroupRecord:
    """Read a row of `GROUPS`."""
    group_id, name, organization, locations, paused, created, protection = row
    return GroupRecord(group_id, name, organization, *_codes(locations, paused), created, bool(protection))


def read_database(row: tuple[Any, ...], domain: str) -> DatabaseRecord:
    """Read a row of `DATABASES`; the host names are below the domain."""
    (
        database_id, name, group, organization, label, created, locations, paused, instances,
        group_id, rotated, size_limit, *flags,
    ) = row  # fmt: skip
    hostname = f"{label}.{domain}"
    codes, down = _codes(locations, paused)
    named = dict(one.split(" ") for one in (instances or "").split(",") if one)
    places = {code: f"{named[code]}.{domain}" if code in named else hostname for code in codes}
    return DatabaseRecord(
        database_id, name, group, organization, hostname, created, codes, down, places,
        group_id, rotated, Configuration(size_limit, *map(bool, flags)),
    )  # fmt: skip


def _codes(locations: str, paused: str | None) -> tuple[tuple[str, ...], frozenset[str]]:
    return tuple(locations.split(",")), frozenset(paused.split(",") if paused else ())
