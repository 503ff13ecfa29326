"""The records of groups and databases."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The first and the last time that `datetime` can express, in Unix seconds."""


def utc(seconds: float) -> datetime:
    """Convert Unix seconds to a time; one that `datetime` cannot express becomes its first or last second."""
    return datetime.fromtimestamp(min(max(seconds, _FIRST_SECOND), _LAST_SECOND), UTC)


def format_moment(seconds: float) -> str:
    """Convert Unix seconds to a time in RFC 3339, in milliseconds, rounded down."""
    return utc(seconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Record(msgspec.Struct, frozen=True, array_like=True):
    """A row of a query; `array_like` lets `Store.records` convert one."""


class GroupRecord(Record, frozen=True):
    """A group and its locations: the primary first.

    Some may be ``paused``. The ``stalled`` ones answer reads and receive no changes. ``created`` is in Unix seconds.
    """

    id: str
    name: str
    organization: str
    locations: tuple[str, ...]
    paused: frozenset[str]
    stalled: frozenset[str]
    created: float
    delete_protection: bool = False

    @property
    def primary(self) -> str:
        """The code of the location that takes the writes."""
        return self.locations[0]


class Configuration(Record, frozen=True):
    """The settings of a database. ``size_limit`` is in bytes; None: the service's own limit."""

    size_limit: int | None = None
    block_reads: bool = False
    block_writes: bool = False
    delete_protection: bool = False

    @property
    def suspended(self) -> bool:
        """True if nothing may run on the database."""
        return self.block_reads and self.block_writes


class Parent(Record, frozen=True):
    """The database that another one is a copy of, by id and name; ``moment`` is when it had that content.

    It may have been deleted since.
    """

    id: str
    name: str
    moment: float


class DatabaseRecord(Record, frozen=True):
    """A database. Its ``id`` is never used again, not even for a new database of the same name.

    ``hostname`` is the full host name, without port; ``created`` is in Unix seconds; ``locations`` are
    those of its group, the primary first, of which some may be ``paused`` or ``stalled``; ``instances`` has the host
    name of its instance at each of them; ``rotated`` is the number of the last rotation of its tokens.
    """

    id: str
    name: str
    group: str
    organization: str
    hostname: str
    created: float
    locations: tuple[str, ...]
    paused: frozenset[str]
    stalled: frozenset[str]
    instances: dict[str, str]
    group_id: str
    rotated: int
    configuration: Configuration
    parent: Parent | None = None

    def below(self, domain: str) -> DatabaseRecord:
        """Return the record with the same host names below another domain."""
        hostname = _below(self.hostname, domain)
        instances = {code: _below(name, domain) for code, name in self.instances.items()}
        return msgspec.structs.replace(self, hostname=hostname, instances=instances)

    def at(self, hostname: str) -> DatabaseRecord:
        """Return the record with the same host name for the database and all its instances."""
        return msgspec.structs.replace(self, hostname=hostname, instances=dict.fromkeys(self.instances, hostname))


def _below(name: str, domain: str) -> str:
    return f"{name.partition('.')[0]}.{domain}"


# Queries of one JSON array per row, in the order of the fields; host names are without their domain. The results of
# subqueries are text, which json() makes JSON again.

_LOCATIONS = """
  json((SELECT json_group_array(code ORDER BY position) FROM group_locations WHERE group_id = g.id)),
  json((SELECT json_group_array(code) FROM group_locations WHERE group_id = g.id AND paused = 1)),
  json((SELECT json_group_array(code) FROM group_locations WHERE group_id = g.id AND paused = 2))
"""

GROUPS = f"""
SELECT json_array(g.id, g.name, g.organization, {_LOCATIONS}, g.created, g.delete_protection)
FROM "groups" AS g
"""

DATABASES = f"""
SELECT json_array(
  d.id, d.name, g.name, d.organization, h.label, d.created, {_LOCATIONS},
  json((SELECT json_group_object(l.code, coalesce(i.label, h.label) ORDER BY l.position)
   FROM group_locations AS l LEFT JOIN hosts AS i ON i.database = d.id AND i.location = l.code
   WHERE l.group_id = g.id)),
  g.id, max(g.rotated, d.rotated), json_array(d.size_limit, d.block_reads, d.block_writes, d.delete_protection),
  json((SELECT json_array(parent, parent_name, moment) FROM branches WHERE database = d.id))
)
FROM databases AS d JOIN "groups" AS g ON g.id = d.group_id JOIN hosts AS h ON h.database = d.id AND h.location IS NULL
"""
