"""The objects of the management API.

Servers differ: objects may be wrapped, spellings of member names vary, and members may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

import msgspec

from pipemagic.client.address import Endpoint, parse_address
from pipemagic.client.secrets import Secret
from pipemagic.errors import AddressError, ProtocolError

DEFAULT_GROUP = "default"
"""The group of a database whose group is not named, if there are several groups or none."""

_SPELLINGS = {
    "id": ("DbId", "uuid", "id"),
    "primary": ("primary", "primaryRegion", "location"),
    "locations": ("regions", "locations"),
    "username": ("username", "member", "name"),
    "plan": ("plan", "name"),
    "created": ("created_at", "created"),
    "lag": ("lag_seconds",),
}
"""Other names of members in responses, in order of precedence.

The spelling (``created_at``, ``createdAt``) does not matter.
"""

_CAMEL_CASE = re.compile(r"(?<=[a-z])([A-Z])")


class Model(msgspec.Struct, frozen=True):
    """Base class of the objects. ``wrapper`` is the name under which a server may wrap one."""

    wrapper: ClassVar[str] = ""

    @classmethod
    def read(cls, response: Any, **given: Any) -> Self:
        """Convert an object of a response.

        A member that is missing, empty or of another type has the value ``given``, known from the request, or its
        default. Raise ProtocolError if a required member has neither.
        """
        response = unwrapped(response, cls.wrapper)
        for field in msgspec.structs.fields(cls):
            candidates = (
                _convert(member(response, name), field.type) for name in _SPELLINGS.get(field.name, (field.name,))
            )
            if (
                value := next((candidate for candidate in candidates if candidate not in (None, "", ())), None)
            ) is not None:
                given[field.name] = value
            if field.required and not given.get(field.name):
                article = "an" if cls.wrapper.startswith("o") else "a"
                raise ProtocolError(f"the server sent {article} {cls.wrapper} without a {field.name}")
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
        """Convert a map from code to name, possibly nested by platform, or a list of objects or codes."""
        return [cls(code, name) for code, name in sorted(dict(_locations(unwrapped(response, "locations"))).items())]


class Organization(Model, frozen=True):
    """An organization or a personal account."""

    wrapper = "organization"
    slug: str
    name: str = ""
    type: str = ""
    overages: bool | None = None
    """None if the server does not report it."""
    blocked_reads: bool = False
    blocked_writes: bool = False
    """Whether reading or writing is blocked because a quota is exhausted."""

    @classmethod
    def read(cls, response: Any, **given: Any) -> Self:
        """Convert one; the default of its name is the slug."""
        organization = super().read(response, **given)
        return organization if organization.name else msgspec.structs.replace(organization, name=organization.slug)


class Login(msgspec.Struct, frozen=True):
    """The result of a login: the token, the account, and the slug of its organization ('' if unknown)."""

    token: Secret
    username: str
    organization: str


class ApiToken(Model, frozen=True):
    """A platform token in a list, without its value; ``created`` is a date in the server's format."""

    name: str = ""
    id: str = ""
    created: str = ""


class Member(Model, frozen=True):
    """An account in an organization; ``role`` is owner, admin, member or viewer."""

    wrapper = "member"
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
        response = unwrapped(response, "organization")
        databases = (
            (text_of(entry, "name") or text_of(entry, "uuid", "id"), entry)
            for entry in _list(member(response, "databases"))
        )
        return cls(_used(response), {name: _used(figures) for name, figures in databases if name})


class Plan(msgspec.Struct, frozen=True):
    """A plan and its quotas, by the names in `Usage`; 0 means unlimited."""

    name: str
    quotas: Mapping[str, int]

    @classmethod
    def read(cls, response: Any) -> Plan:
        """Convert one."""
        return cls(text_of(response, "name"), _numbers(member(response, "quotas")))


class Subscription(Model, frozen=True):
    """An organization's plan, and whether it may exceed its quotas (None if the server does not report it)."""

    wrapper = "subscription"
    plan: str = ""
    overages: bool | None = None


class Group(Model, frozen=True):
    """A group of databases; ``locations`` includes the primary one, first.

    ``status`` is the state of its locations by code (``ok``, ``paused``, ...), if the server sends it.
    """

    wrapper = "group"
    name: str
    primary: str = ""
    locations: tuple[str, ...] = ()
    id: str = ""
    status: Mapping[str, str] = {}
    version: str = ""

    @classmethod
    def read(cls, response: Any, **given: Any) -> Self:
        """Convert one; the default of the primary location is the first one."""
        group = super().read(response, **given)
        primary = group.primary or "".join(group.locations[:1])
        states = _list(member(member(unwrapped(response, cls.wrapper), "status"), "locations"))
        return msgspec.structs.replace(
            group,
            primary=primary,
            locations=tuple(dict.fromkeys([primary, *group.locations] if primary else ())),
            status={text_of(state, "name"): text_of(state, "status") for state in states},
        )


_STATUSES = {
    (False, False): "ok", (True, True): "suspended", (True, False): "reads blocked", (False, True): "writes blocked",
}  # fmt: skip
"""The states of databases, by what is blocked: reads, writes."""


class DatabaseInfo(Model, frozen=True):
    """A database: ``url`` is its address, ``hostname`` its host name as sent by the server.

    ``created`` is in Unix seconds, None if the server does not report it. ``block_reads`` and ``block_writes`` are
    settings: whether statements, or those that write, are refused.
    """

    wrapper = "database"
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

    @property
    def status(self) -> str:
        """The state for people: ``ok``, ``suspended``, ``reads blocked`` or ``writes blocked``."""
        return _STATUSES[self.block_reads, self.block_writes]

    @classmethod
    def read_from(cls, endpoint: Endpoint, response: Any, **given: Any) -> Self:
        """Convert one; ``endpoint`` is that of the management API."""
        database = cls.read(response, **given)
        created = database.created
        if created is None:
            created = _timestamp(text_of(unwrapped(response, cls.wrapper), *_SPELLINGS["created"]))
        url = _address(database.hostname, database.url, endpoint, local=database.primary == "local")
        return msgspec.structs.replace(database, url=url, created=created)


class Instance(Model, frozen=True):
    """A database at one location. ``type`` is primary or replica, ``state`` the reported state, or ''.

    ``lag`` is the replica lag in seconds, None if the server does not report it.
    """

    name: str = ""
    type: str = ""
    url: str = ""
    state: str = ""
    lag: float | None = None

    @classmethod
    def read_from(cls, endpoint: Endpoint, response: Any) -> Self:
        """Convert one; ``endpoint`` is that of the management API."""
        instance = cls.read(response, name=text_of(response, "region"))
        url = _address(text_of(response, "hostname"), instance.url, endpoint, local=False)
        state = text_of(response, "status") or text_of(member(response, "status"), "state") or instance.state
        return msgspec.structs.replace(instance, url=url, state=state)


def member(response: Any, *names: str) -> Any:
    """Return the first existing one of the named members, in any spelling; None if there is none."""
    if isinstance(response, dict):
        for name in names:
            for key, value in response.items():
                if key.replace("_", "").lower() == name.replace("_", "").lower() and value is not None:
                    return value
    return None


def text_of(response: Any, *names: str) -> str:
    """Return the first existing one of the named members if it is text; otherwise ''."""
    value = member(response, *names)
    return value if isinstance(value, str) else ""


def unwrapped(response: Any, wrapper: str) -> Any:
    """Return the object under ``wrapper``, or the response itself if it is not wrapped."""
    inner = member(response, wrapper)
    return inner if isinstance(inner, dict | list) else response


def listed(response: Any, wrapper: str) -> list[Any]:
    """Return the list under ``wrapper``, or the response itself if it is a list; otherwise raise ProtocolError."""
    items = unwrapped(response, wrapper) or []
    if not isinstance(items, list):
        raise ProtocolError(f"the server's response holds no list of {wrapper}")
    return items


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _convert(value: Any, kind: Any) -> Any:
    """Convert a member; None if it has another type. Lists contain only text."""
    try:
        return msgspec.convert(
            [item for item in value if isinstance(item, str)] if isinstance(value, list) else value, kind
        )
    except msgspec.ValidationError:
        return None


def _locations(response: Any) -> Iterator[tuple[str, str]]:
    if isinstance(response, list):
        for item in response:
            if code := item if isinstance(item, str) else text_of(item, "code", "location", "name", "id"):
                yield code, text_of(item, "description", "name") or code
    elif isinstance(response, dict):
        for code, value in response.items():
            if isinstance(value, str):
                yield code, value
            else:  # platform -> code -> name
                yield from _locations(value)


def _used(response: Any) -> dict[str, int]:
    """Return the figures of a document: under ``usage``, under ``total``, or at the top."""
    inner = member(response, "usage", "total")
    return _numbers(inner if isinstance(inner, dict) else response)


def _numbers(response: Any) -> dict[str, int]:
    """Return the members that are numbers, with names in snake case: ``rows_read`` for ``rowsRead``."""
    if not isinstance(response, dict):
        return {}
    figures = {
        _CAMEL_CASE.sub(r"_\1", key).lower(): int(value) for key, value in response.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }  # fmt: skip
    return {"storage_bytes" if name == "storage" else name: value for name, value in figures.items()}


def _timestamp(text: str) -> float | None:
    """Convert a time in the format of RFC 3339 to Unix seconds; None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _address(hostname: str, url: str, endpoint: Endpoint, *, local: bool) -> str:
    """Return the address of a database: the one that the server sent, if it has this host name; '' without a name.

    The default scheme of a host name is https, except for a service on this machine, whose port is that of the API,
    and for names below the API's, which have its scheme and port.
    """
    try:
        if "://" in url and parse_address(url).named_host == hostname:
            return url
    except AddressError:
        pass  # the host name is enough
    if not hostname or "://" in hostname:
        return hostname
    bare = hostname.rpartition(":")[0] or hostname
    if bare == hostname and bare.endswith(f".{endpoint.named_host}"):
        return f"{endpoint.scheme}://{hostname}{endpoint.port_suffix}"
    if not (local or bare == "localhost" or bare.endswith(".localhost") or bare.startswith("127.")):
        return f"https://{hostname}"
    port = "" if bare != hostname or endpoint.port == 80 else f":{endpoint.port}"
    return f"http://{hostname}{port}"
