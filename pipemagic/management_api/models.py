"""The objects of the management API.

Responses are those of the published API and of the embedded service; where these differ, a comment says who sends what.
The bodies of the five endpoints of the requirement are not specified: what a response lacks is taken from the request.
The member of a response has the name of its field, or the one in ``rename``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Self

import msgspec

from pipemagic.client.address import Endpoint, parse_address
from pipemagic.client.secrets import Secret
from pipemagic.errors import AddressError, ProtocolError
from pipemagic.scopes import summary

DEFAULT_GROUP = "default"
"""The group of a database if none is named, and there are several groups or none."""

SMALL_LAG = 1.0
"""Lag in seconds that counts as caught up: a primary under writes is always ahead."""

CAUGHT_UP = "caught up"

_CAMEL_CASE = re.compile(r"(?<=[a-z])([A-Z])")


class Model(msgspec.Struct, frozen=True):
    """Base class of the objects. ``noun`` is what messages call one, and the member under which a response has it."""

    noun: ClassVar[str] = ""

    @classmethod
    def read(cls, item: Any, **given: Any) -> Self:
        """Convert an object of a response.

        A member that is missing, null, empty or of another type has the value ``given``, known from the request, or its
        default. Raise ProtocolError if a required member has neither.
        """
        for field in msgspec.structs.fields(cls):
            value = _convert(member(item, field.encode_name), field.type)
            if value not in (None, "", ()):
                given[field.name] = value
            if field.required and not given.get(field.name):
                article = "an" if cls.noun.startswith("o") else "a"
                raise ProtocolError(f"the server sent {article} {cls.noun} without a {field.name}")
        return cls(**given)


class Location(msgspec.Struct, frozen=True):
    """A place for groups and databases: its code (opaque text) and its display name."""

    code: str
    name: str

    @property
    def is_legacy(self) -> bool:
        """Whether it is one of the older codes: the hosted service lists ``aws-*`` codes only."""
        return not self.code.startswith("aws-")

    @classmethod
    def read_all(cls, response: Any) -> list[Location]:
        """Convert the map ``locations`` from code to name; no locations if the response has none."""
        return [cls(code, name) for code, name in sorted(wrapped(response, "locations").items())]


def have_one_location(locations: Sequence[Location]) -> bool:
    """Return True if groups have one location: the hosted service lists only ``aws-*``, and deprecates others."""
    return bool(locations) and not any(location.is_legacy for location in locations)


ONE_LOCATION = "At this service, a group has one location: adding others is deprecated there."
"""The sentence on that."""


class Organization(Model, frozen=True):
    """An organization or a personal account."""

    noun = "organization"
    slug: str
    name: str = ""
    type: str = ""
    overages: bool | None = None
    """None if the server does not report it."""
    blocked_reads: bool = False
    blocked_writes: bool = False
    """Whether reading or writing is blocked because a quota is exhausted."""

    @classmethod
    def read(cls, item: Any, **given: Any) -> Self:
        """Convert one; the default of its name is the slug."""
        organization = super().read(item, **given)
        return organization if organization.name else msgspec.structs.replace(organization, name=organization.slug)


class Login(msgspec.Struct, frozen=True):
    """The result of a login: the token, the account, and the slug of its organization ('' if unknown)."""

    token: Secret
    username: str
    organization: str


class CodeAccess(msgspec.Struct, frozen=True):
    """What a one-time code is exchanged for: a token, the name of its database, and when it expires (Unix seconds).

    ``url`` is the address of the database, '' for that at which the code was exchanged.
    """

    token: Secret
    database: str
    expires: float
    url: str = ""


class ApiToken(Model, frozen=True, rename={"created": "created_at"}):
    """A platform token in a list, without its value; ``created`` is a date in the server's format.

    ``organization`` and ``group`` are its limits, '' for none; ``scopes`` are those of a token for a group.
    ``owner`` is the account that has it, in the list of an organization.
    """

    name: str = ""
    id: str = ""
    created: str = ""
    organization: str = ""
    group: str = ""
    scopes: tuple[str, ...] = ()
    owner: str = ""

    @property
    def scope(self) -> str:
        """What it is limited to: ``acme``, ``acme/edge``, or ``all`` organizations."""
        return "/".join(filter(None, [self.organization, self.group])) or "all"

    @property
    def permissions(self) -> str:
        """The scopes or their preset; '' for a token that has all rights of its account."""
        return summary(self.scopes) if self.scopes else ""

    @classmethod
    def read(cls, item: Any, **given: Any) -> Self:
        """Convert one; an owner is an object."""
        return super().read(item, owner=text_of(member(item, "owner"), "username"), **given)


class AuditLog(Model, frozen=True, rename={"created": "created_at"}):
    """A change in an organization: its ``code`` (``db-create``, ...), who made it, and when (RFC 3339).

    ``data`` names what was changed; its members differ by code and service.
    """

    code: str = ""
    author: str = ""
    origin: str = ""
    created: str = ""
    message: str = ""
    data: Mapping[str, Any] = {}


def describe_data(data: Mapping[str, Any]) -> str:
    """Return the data of an `AuditLog` as text."""
    return ", ".join(f"{name} {value}" for name, value in data.items() if isinstance(value, str | int | float))


class Member(Model, frozen=True):
    """An account in an organization; ``role`` is owner, admin, member or viewer."""

    username: str = ""
    role: str = ""


class Usage(msgspec.Struct, frozen=True):
    """The usage since the start of the month: ``figures`` by name (``rows_read``, ``storage_bytes``, ...).

    ``databases`` are the figures of each database, by name, or by id if the server sends only that.
    """

    figures: Mapping[str, int]
    databases: Mapping[str, Mapping[str, int]] = {}

    @classmethod
    def read(cls, response: Any) -> Usage:
        """Convert the figures of an organization; values other than numbers are omitted."""
        organization = wrapped(response, "organization")
        databases = (  # the embedded service sends names, the published one only ids
            (text_of(item, "name") or text_of(item, "uuid"), item) for item in _list(organization, "databases")
        )
        return cls(_numbers(organization, "usage"), {name: _sums(item) for name, item in databases if name})


class TopQuery(Model, frozen=True):
    """A statement that is slow or frequent, without values: what its runs of the last day read and wrote in total.

    ``runs`` and ``mean_duration_ms`` (of one run) are None if the server does not report them.
    """

    noun = "query"
    query: str
    rows_read: int = 0
    rows_written: int = 0
    runs: int | None = None
    mean_duration_ms: float | None = None


class Plan(msgspec.Struct, frozen=True):
    """A plan and its quotas, by the names in `Usage`; 0 means unlimited."""

    name: str
    quotas: Mapping[str, int]

    @classmethod
    def read(cls, item: Any) -> Plan:
        """Convert one."""
        return cls(text_of(item, "name"), _numbers(item, "quotas"))


class Subscription(Model, frozen=True):
    """An organization's plan, and whether it may exceed its quotas (None if the server does not report it)."""

    plan: str = ""
    overages: bool | None = None


class Group(Model, frozen=True, rename={"id": "uuid"}):
    """A group of databases; ``locations`` includes the primary one, first.

    ``status`` is the state of its locations by code (``ok``, ``paused``, ...), if the server sends it.
    """

    noun = "group"
    name: str
    primary: str = ""
    locations: tuple[str, ...] = ()
    id: str = ""
    status: Mapping[str, str] = {}
    version: str = ""
    archived: bool = False
    """Whether its databases cannot be used until it is unarchived: the hosted service archives unused free groups."""
    delete_protection: bool = False

    @property
    def health(self) -> str:
        """The state for people: without its primary it cannot be written to, without a replica reads are slower."""
        if self.archived:
            return "archived"
        failed = sorted(code for code, status in self.status.items() if status not in ("ok", ""))
        if not failed:
            return "healthy"
        return ("unhealthy" if self.primary in failed else "degraded") + f" ({', '.join(failed)})"

    @classmethod
    def read(cls, item: Any, **given: Any) -> Self:
        """Convert one."""
        group = super().read(item, **given)
        states = _list(member(item, "status"), "locations")
        return msgspec.structs.replace(
            group,
            locations=tuple(dict.fromkeys(filter(None, [group.primary, *group.locations]))),
            status={text_of(state, "name"): text_of(state, "status") for state in states},
        )


_STATUSES = {
    (False, False): "ok", (True, True): "suspended", (True, False): "reads blocked", (False, True): "writes blocked",
}  # fmt: skip
"""The states of databases, by what is blocked: reads, writes."""


_DATABASE_MEMBERS = {
    "name": "Name", "hostname": "Hostname", "id": "DbId", "primary": "primaryRegion", "locations": "regions",
}  # fmt: skip


class DatabaseInfo(Model, frozen=True, rename=_DATABASE_MEMBERS):
    """A database: ``url`` is its address, ``hostname`` its host name as sent by the server.

    ``created`` is in Unix seconds, None if the server does not report it. ``block_reads`` and ``block_writes`` are
    settings: whether statements, or those that write, are refused. ``archived`` is that of its group. ``parent`` is the
    name of the database that it is a copy of, '' if it is none, and ``branched`` when that had the content, in Unix
    seconds, None if unknown.
    """

    noun = "database"
    name: str
    group: str = ""
    hostname: str = ""
    url: str = ""
    id: str = ""
    primary: str = ""
    locations: tuple[str, ...] = ()
    created: float | None = None
    block_reads: bool = False
    block_writes: bool = False
    archived: bool = False
    delete_protection: bool = False
    parent: str = ""
    branched: float | None = None

    @property
    def status(self) -> str:
        """The state for people: ``ok``, ``archived``, ``suspended``, ``reads blocked`` or ``writes blocked``."""
        return "archived" if self.archived else _STATUSES[self.block_reads, self.block_writes]

    @classmethod
    def read_from(cls, endpoint: Endpoint, item: Any, **given: Any) -> Self:
        """Convert a JSON object from this ``endpoint``. Only the embedded service sends when and where."""
        database, parent = cls.read(item, **given), wrapped(item, "parent")
        return msgspec.structs.replace(
            database,
            url=_address(database.hostname, database.url, endpoint, local=database.primary == "local"),
            created=timestamp_in(text_of(item, "created_at")),
            archived=database.archived or member(item, "sleeping") is True,  # its name until August 2024
            parent=text_of(parent, "name") or text_of(parent, "Name") or database.parent,
            branched=timestamp_in(text_of(parent, "branched_at")),
        )


class Instance(Model, frozen=True, rename={"state": "status", "lag": "lag_seconds"}):
    """A database at one location. ``type`` is primary or replica, ``state`` the reported state, or ''.

    ``lag`` is the replica lag in seconds, None if the server does not report it. Only the embedded service sends
    ``url``, ``state`` and ``lag``.
    """

    name: str = ""
    type: str = ""
    url: str = ""
    state: str = ""
    lag: float | None = None

    @property
    def status(self) -> str:
        """The state for people: ``caught up``, ``12.0 s behind``, ``lagging``, ``copying``, ``paused`` or ``down``."""
        if not self.answers:
            return self.state
        if self.lag is not None and self.lag > SMALL_LAG:
            return f"{self.lag:.1f} s behind"
        return "lagging" if self.state == "lagging" and self.lag is None else CAUGHT_UP

    @property
    def answers(self) -> bool:
        """Whether it answers reads, as far as the server reports it; its data may be old."""
        return self.state in ("", "ok", "lagging")

    @classmethod
    def read_from(cls, endpoint: Endpoint, item: Any) -> Self:
        """Convert a JSON object from this ``endpoint``."""
        instance = cls.read(item)
        url = _address(text_of(item, "hostname"), instance.url, endpoint, local=False)
        return msgspec.structs.replace(instance, url=url)


def member(item: Any, name: str) -> Any:
    """Return a member of an object; None if it has none of that name, or is no object."""
    return item.get(name) if isinstance(item, dict) else None


def text_of(item: Any, name: str) -> str:
    """Return a member of an object if it is text; otherwise ''."""
    value = member(item, name)
    return value if isinstance(value, str) else ""


def wrapped(response: Any, name: str) -> dict[str, Any]:
    """Return the object that a response has under a name; an empty one if it has none."""
    value = member(response, name)
    return value if isinstance(value, dict) else {}


def listed(response: Any, name: str) -> list[Any]:
    """Return the list that a response has under a name; raise ProtocolError if it has none."""
    if isinstance(response, list):  # the organizations, by the OpenAPI document of the published API
        return response
    items = response.get(name, "") if isinstance(response, dict) else ""
    if not isinstance(items, list | None):
        raise ProtocolError(f"the server's response contains no list of {name}")
    return items or []  # an empty list of a program in Go may be null


def _list(item: Any, name: str) -> list[Any]:
    """Return a member of an object if it is a list; otherwise an empty list."""
    value = member(item, name)
    return value if isinstance(value, list) else []


def _convert(value: Any, kind: Any) -> Any:
    """Convert a member; None if it has another type."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None


def _sums(database: Any) -> dict[str, int]:
    """Return the figures of a database: under ``usage``, or ``total`` by the documents of the published API."""
    return _numbers(database, "usage") or _numbers(database, "total")


def _numbers(item: Any, name: str) -> dict[str, int]:
    """Return the numbers in a member, with names in snake case: quotas have ``rowsRead``, figures ``rows_read``."""
    figures = {
        _CAMEL_CASE.sub(r"_\1", key).lower(): int(value) for key, value in wrapped(item, name).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }  # fmt: skip
    # In quotas, and in figures of the published API before 2025, the size is called storage.
    return {"storage_bytes" if name == "storage" else name: value for name, value in figures.items()}


def timestamp_in(text: str) -> float | None:
    """Convert a time in the format of RFC 3339 to Unix seconds; None for anything else."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _address(hostname: str, url: str, endpoint: Endpoint, *, local: bool) -> str:
    """Return the address of a database: the server's, if it has this host name; '' without a name.

    The default scheme of a host name is https, except for a service on this machine, whose port is that of the API,
    and for names below the API's, which have its scheme and port.
    """
    try:
        if "://" in url and parse_address(url).named_host == hostname:
            return url
    except AddressError:
        pass  # the host name is enough
    if not hostname:
        return ""
    bare = hostname.rpartition(":")[0] or hostname
    if bare == hostname and bare.endswith(f".{endpoint.named_host}"):
        return f"{endpoint.scheme}://{hostname}{endpoint.port_suffix}"
    if not (local or bare == "localhost" or bare.endswith(".localhost") or bare.startswith("127.")):
        return f"https://{hostname}"
    port = "" if bare != hostname or endpoint.port == 80 else f":{endpoint.port}"
    return f"http://{hostname}{port}"
