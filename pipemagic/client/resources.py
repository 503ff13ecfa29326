"""What the management API returns, read tolerantly: bare or wrapped, names in any case, members missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipemagic.client.urls import Endpoint
from pipemagic.errors import ProtocolError


@dataclass(frozen=True)
class Location:
    """A place for groups and databases: its code (opaque text) and its display name."""

    code: str
    name: str

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

    @classmethod
    def read(cls, parsed: Any, slug: str = "", overages: bool | None = None) -> Organization:
        """Read one; what the answer leaves out is taken from the request."""
        told = member(parsed, "overages")
        slug = _text(parsed, "slug") or slug
        if not slug:
            raise ProtocolError("the server sent an organization without a slug")
        return cls(
            slug=slug,
            name=_text(parsed, "name") or slug,
            type=_text(parsed, "type"),
            overages=told if isinstance(told, bool) else overages,
        )


@dataclass(frozen=True)
class Group:
    """A group of databases; ``locations`` holds the primary one too, first."""

    name: str
    primary: str
    locations: tuple[str, ...]
    id: str = ""

    @classmethod
    def read(cls, parsed: Any, name: str = "", location: str = "") -> Group:
        """Read one; what the answer leaves out is taken from the request."""
        name = _text(parsed, "name") or name
        if not name:
            raise ProtocolError("the server sent a group without a name")
        primary = _text(parsed, "primary") or _text(parsed, "location") or location
        told = member(parsed, "locations")
        others = [code for code in told if isinstance(code, str)] if isinstance(told, list) else []
        primary = primary or (others[0] if others else "")
        locations = dict.fromkeys([primary, *others] if primary else others)
        return cls(name=name, primary=primary, locations=tuple(locations), id=_text(parsed, "uuid", "id"))


@dataclass(frozen=True)
class DatabaseInfo:
    """A database: ``url`` is the address to connect to, ``hostname`` its name as the server gives it."""

    name: str
    group: str
    hostname: str
    url: str
    id: str = ""
    primary: str = ""
    locations: tuple[str, ...] = ()

    @classmethod
    def read(cls, parsed: Any, endpoint: Endpoint, *, name: str = "", group: str = "") -> DatabaseInfo:
        """Read one; ``endpoint`` is that of the management API. What is left out is taken from the request."""
        name = _text(parsed, "name") or name
        if not name:
            raise ProtocolError("the server sent a database without a name")
        told = member(parsed, "regions", "locations")
        hostname = _text(parsed, "hostname")
        primary = _text(parsed, "primaryRegion")
        return cls(
            name=name,
            group=_text(parsed, "group") or group,
            hostname=hostname,
            url=_url(hostname, endpoint, local=primary == "local"),
            id=_text(parsed, "DbId", "id"),
            primary=primary,
            locations=tuple(code for code in told if isinstance(code, str)) if isinstance(told, list) else (),
        )


def _url(hostname: str, endpoint: Endpoint, *, local: bool) -> str:
    """Give the address of a host name; '' without one.

    The API gives no scheme. It is https, but for a service on this machine, whose port is that of the API.
    """
    if not hostname or "://" in hostname:
        return hostname
    bare = hostname.rpartition(":")[0] or hostname
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


def _text(parsed: Any, *names: str) -> str:
    value = member(parsed, *names)
    return value if isinstance(value, str) else ""


def _collect_locations(parsed: Any, found: dict[str, str]) -> None:
    if isinstance(parsed, list):
        for one in parsed:
            if isinstance(one, str):
                found[one] = one
            elif code := _text(one, "code", "location", "name", "id"):
                found[code] = _text(one, "description", "name") or code
    elif isinstance(parsed, dict):
        for code, value in parsed.items():
            if isinstance(value, str):
                found[code] = value
            else:  # platform -> code -> name
                _collect_locations(value, found)
