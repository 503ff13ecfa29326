"""What the management API returns, read tolerantly: bare or wrapped, names in any case, members missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from pipemagic.client.secrets import Secret
from pipemagic.client.urls import Endpoint, parse
from pipemagic.errors import AddressError, ProtocolError

_SNAKE = re.compile(r"(?<=[a-z])([A-Z])")
_OLD_NAMES = {"storage": "storage_bytes"}
"""Names of figures that usage and plans, or older and newer documents, write differently."""


@dataclass(frozen=True)
class Location:
    """A place for groups and databases: its code (opaque text) and its display name."""

    code: str
    name: str

    @property
    def is_legacy(self) -> bool:
        """Whether it is one of the codes of before: the hosted service lists ``aws-*`` codes only."""
        return not self.code.startswith("aws-")

    @classmethod
    def read_all(cls, parsed: Any) -> list[Location]:
        """Read a map from code to name, one more level deep or not, or a list of objects or codes."""
        found: dict[str, str] = {}
        _collect_locations(unwrapped(parsed, "locations"), found)
        return [cls(code, name) for code, name in sorted(found.items())]


@dataclass(frozen=True)
class Organization:
    """An organization or a personal account."""

    slug: str
    name: str
    type: str
    overages: bool | None
    """None where the server does not say."""
    blocked_reads: bool = False
    blocked_writes: bool = False
    """Whether a quota is used up, so that nothing can be read, or written."""

    @classmethod
    def read(cls, parsed: Any, slug: str = "", overages: bool | None = None) -> Organization:
        """Read one; what the answer leaves out is taken from the request."""
        told = member(parsed, "overages")
        slug = text_of(parsed, "slug") or slug
        if not slug:
            raise ProtocolError("the server sent an organization without a slug")
        return cls(
            slug=slug,
            name=text_of(parsed, "name") or slug,
            type=text_of(parsed, "type"),
            overages=told if isinstance(told, bool) else overages,
            blocked_reads=member(parsed, "blocked_reads") is True,
            blocked_writes=member(parsed, "blocked_writes") is True,
        )


@dataclass(frozen=True)
class Login:
    """What a login gives: the token, whose it is, and the slug of the account's organization ('' if not told)."""

    token: Secret
    username: str
    organization: str


@dataclass(frozen=True)
class ApiToken:
    """A platform token as it is listed, without its value; ``created`` is a date as the server writes it."""

    name: str
    id: str
    created: str

    @classmethod
    def read(cls, parsed: Any) -> ApiToken:
        """Read one."""
        return cls(text_of(parsed, "name"), text_of(parsed, "id"), text_of(parsed, "created_at", "createdAt"))


@dataclass(frozen=True)
class Member:
    """An account in an organization; ``role`` is owner, admin, member or viewer."""

    username: str
    role: str

    @classmethod
    def read(cls, parsed: Any, username: str = "", role: str = "") -> Member:
        """Read one; what the answer leaves out is taken from the request."""
        return cls(text_of(parsed, "username", "member", "name") or username, text_of(parsed, "role") or role)


@dataclass(frozen=True)
class Usage:
    """What was used since the month began: ``figures`` by name (``rows_read``, ``storage_bytes``, ...).

    ``databases`` holds the figures of each database, by its name, or by its id where the server tells only that.
    """

    figures: Mapping[str, int]
    databases: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def read(cls, parsed: Any) -> Usage:
        """Read the numbers of an organization; whatever is none is left out."""
        told = member(parsed, "databases")
        each = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
        return cls(
            _used(parsed),
            {key: _used(one) for one in each if (key := text_of(one, "name") or text_of(one, "uuid", "id"))},
        )


@dataclass(frozen=True)
class Plan:
    """A plan and its quotas, by the names that `Usage` has; 0 means unlimited."""

    name: str
    quotas: Mapping[str, int]

    @classmethod
    def read(cls, parsed: Any) -> Plan:
        """Read one."""
        return cls(text_of(parsed, "name"), _numbers(member(parsed, "quotas")))


@dataclass(frozen=True)
class Subscription:
    """Which plan an organization has, and whether it may go past its quotas (None where the server does not say)."""

    plan: str
    overages: bool | None

    @classmethod
    def read(cls, parsed: Any) -> Subscription:
        """Read one."""
        told = member(parsed, "overages")
        return cls(text_of(parsed, "plan", "name"), told if isinstance(told, bool) else None)


@dataclass(frozen=True)
class Group:
    """A group of databases; ``locations`` holds the primary one too, first.

    ``status`` tells how a location is (``ok``, ``paused``, ...), where the server says it.
    """

    name: str
    primary: str
    locations: tuple[str, ...]
    id: str = ""
    status: Mapping[str, str] = field(default_factory=dict)
    version: str = ""

    @classmethod
    def read(cls, parsed: Any, name: str = "", location: str = "") -> Group:
        """Read one; what the answer leaves out is taken from the request."""
        name = text_of(parsed, "name") or name
        if not name:
            raise ProtocolError("the server sent a group without a name")
        primary = text_of(parsed, "primary") or text_of(parsed, "location") or location
        told = member(parsed, "locations")
        others = [code for code in told if isinstance(code, str)] if isinstance(told, list) else []
        primary = primary or (others[0] if others else "")
        locations = dict.fromkeys([primary, *others] if primary else others)
        uuid, version = text_of(parsed, "uuid", "id"), text_of(parsed, "version")
        return cls(name, primary, tuple(locations), uuid, _statuses(parsed), version)


@dataclass(frozen=True)
class DatabaseInfo:
    """A database: ``url`` is the address to connect to, ``hostname`` its name as the server gives it.

    ``created`` is in Unix seconds, None where the server does not say.
    """

    name: str
    group: str
    hostname: str
    url: str
    id: str = ""
    primary: str = ""
    locations: tuple[str, ...] = ()
    created: float | None = None

    @classmethod
    def read(cls, parsed: Any, endpoint: Endpoint, *, name: str = "", group: str = "") -> DatabaseInfo:
        """Read one; ``endpoint`` is that of the management API. What is left out is taken from the request."""
        name = text_of(parsed, "name") or name
        if not name:
            raise ProtocolError("the server sent a database without a name")
        told = member(parsed, "regions", "locations")
        hostname = text_of(parsed, "hostname")
        primary = text_of(parsed, "primaryRegion")
        return cls(
            name=name,
            group=text_of(parsed, "group") or group,
            hostname=hostname,
            url=_address(parsed, endpoint, local=primary == "local"),
            id=text_of(parsed, "DbId", "id"),
            primary=primary,
            locations=tuple(code for code in told if isinstance(code, str)) if isinstance(told, list) else (),
            created=_moment(member(parsed, "created_at", "createdAt")),
        )


@dataclass(frozen=True)
class Instance:
    """A database at one location. ``type`` is primary or replica, ``state`` what the server says of it, or ''.

    ``lag`` is by how many seconds a replica is behind its primary, None where the server does not say.
    """

    name: str
    type: str
    url: str
    state: str = ""
    lag: float | None = None

    @classmethod
    def read(cls, parsed: Any, endpoint: Endpoint) -> Instance:
        """Read one; ``endpoint`` is that of the management API."""
        status, lag = member(parsed, "status"), member(parsed, "lag_seconds")
        return cls(
            name=text_of(parsed, "name", "region"),
            type=text_of(parsed, "type"),
            url=_address(parsed, endpoint, local=False),
            state=status if isinstance(status, str) else text_of(status, "state") or text_of(parsed, "state"),
            lag=float(lag) if _is_number(lag) else None,
        )


def _address(parsed: Any, endpoint: Endpoint, *, local: bool) -> str:
    """Give the address that the server says, if it is at the host name that it says; else what follows from that."""
    hostname, told = text_of(parsed, "hostname"), text_of(parsed, "url")
    try:
        if told and parse(told).named_host == hostname:
            return told
    except AddressError:
        pass  # the host name does
    return _url(hostname, endpoint, local=local)


def _url(hostname: str, endpoint: Endpoint, *, local: bool) -> str:
    """Give the address of a host name; '' without one.

    The API gives no scheme. It is https, but for a service on this machine, whose port is that of the API, and for
    names below the API's own, which are at its scheme and port.
    """
    if not hostname or "://" in hostname:
        return hostname
    bare = hostname.rpartition(":")[0] or hostname
    if bare == hostname and bare.endswith(f".{endpoint.named_host}"):
        return f"{endpoint.scheme}://{hostname}{endpoint.port_suffix}"
    on_loopback = bare == "localhost" or bare.endswith(".localhost") or bare.startswith("127.")
    if not (local or on_loopback):
        return f"https://{hostname}"
    port = "" if bare != hostname or endpoint.port == 80 else f":{endpoint.port}"
    return f"http://{hostname}{port}"


def member(parsed: Any, *names: str) -> Any:
    """Give the first of the named members that is there, in whatever case; None if none is."""
    if isinstance(parsed, dict):
        for name in names:
            for key, value in parsed.items():
                if key.lower() == name.lower() and value is not None:
                    return value
    return None


def unwrapped(parsed: Any, name: str) -> Any:
    """Give the object under ``name``, or the answer itself where it is not wrapped."""
    inner = member(parsed, name)
    return inner if isinstance(inner, dict | list) else parsed


def listed(parsed: Any, name: str) -> list[Any]:
    """Give the list under ``name``, or the answer itself where it is one; ProtocolError if there is none."""
    found = unwrapped(parsed, name)
    if found is None or found == {}:
        return []
    if not isinstance(found, list):
        raise ProtocolError(f"the server's answer holds no list of {name}")
    return found


def text_of(parsed: Any, *names: str) -> str:
    """Give the first of the named members that is text; '' if none is."""
    value = member(parsed, *names)
    return value if isinstance(value, str) else ""


def _collect_locations(parsed: Any, found: dict[str, str]) -> None:
    if isinstance(parsed, list):
        for one in parsed:
            if isinstance(one, str):
                found[one] = one
            elif code := text_of(one, "code", "location", "name", "id"):
                found[code] = text_of(one, "description", "name") or code
    elif isinstance(parsed, dict):
        for code, value in parsed.items():
            if isinstance(value, str):
                found[code] = value
            else:  # platform -> code -> name
                _collect_locations(value, found)


def _statuses(group: Any) -> dict[str, str]:
    told = member(member(group, "status"), "locations")
    return {text_of(one, "name"): text_of(one, "status") for one in told} if isinstance(told, list) else {}


def _used(parsed: Any) -> dict[str, int]:
    """Give figures of use: under ``usage`` in some documents, under ``total`` in others, or bare."""
    inner = member(parsed, "usage", "total")
    return _numbers(inner if isinstance(inner, dict) else parsed)


def _numbers(parsed: Any) -> dict[str, int]:
    """Give the members that are numbers, under one name each: ``rows_read`` and not ``rowsRead``."""
    if not isinstance(parsed, dict):
        return {}
    named = {_SNAKE.sub(r"_\1", key).lower(): int(value) for key, value in parsed.items() if _is_number(value)}
    return {_OLD_NAMES.get(name, name): value for name, value in named.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _moment(told: Any) -> float | None:
    """Give the Unix seconds of a time as RFC 3339 writes it, or of a number of seconds; None if it is neither."""
    if _is_number(told):
        return float(told)
    try:
        moment = datetime.fromisoformat(told)
    except (TypeError, ValueError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
