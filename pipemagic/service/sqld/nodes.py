"""Which libSQL servers there are, one node a location, and what a file that lists them has to say."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipemagic.errors import ServiceError
from pipemagic.service.locations import LOCATIONS, Location

EXAMPLE = """
primary = "ams"

[[nodes]]
code = "ams"                          # a location of the management API
http = "https://ams.db.example.org"   # where clients reach it; a database is one label before this host
admin = "http://10.0.0.1:8081"        # where this service reaches its admin API
grpc = "https://10.0.0.1:5001"        # where replicas reach it; this service only checks who is let in
admin_key_env = "SQLD_ADMIN_KEY"      # the variable that holds its --admin-auth-key
"""
_MEMBERS = {"code", "http", "admin", "grpc", "domain", "admin_key_env", "name"}


@dataclass(frozen=True)
class Node:
    """One libSQL server. ``http``, ``admin`` and ``grpc`` are addresses with scheme and port.

    ``domain`` is what follows a database's label in the host name that clients use. ``name`` is for people.
    """

    code: str
    http: str
    admin: str
    grpc: str = ""
    domain: str = "localhost"
    name: str = ""
    admin_key: str = field(default="", repr=False)

    def url(self, label: str) -> str:
        """Give the address of a database at this node."""
        parts = urlsplit(self.http)
        return f"{parts.scheme}://{label}.{self.domain}{f':{parts.port}' if parts.port else ''}"

    @property
    def location(self) -> Location:
        """The location as the management API lists it."""
        known = LOCATIONS.get(self.code)
        name = self.name or (known.name if known else self.code)
        return Location(self.code, name, known.latitude if known else 0.0, known.longitude if known else 0.0)


@dataclass(frozen=True)
class Nodes:
    """All nodes by location; ``primary`` is the code of the one that takes the writes."""

    primary_code: str
    by_code: dict[str, Node]

    @property
    def primary(self) -> Node:
        """The node that takes the writes."""
        return self.by_code[self.primary_code]

    @property
    def replicas(self) -> list[Node]:
        """The nodes that follow the primary."""
        return [node for code, node in self.by_code.items() if code != self.primary_code]

    @property
    def locations(self) -> dict[str, Location]:
        """The locations on offer, the primary's first."""
        return {node.code: node.location for node in (self.primary, *self.replicas)}


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Nodes:
    """Read the nodes of a file; `ServiceError` says what is wrong with it."""
    try:
        parsed = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise _bad(path, f"it cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _bad(path, f"it is not TOML: {error}") from None
    entries = parsed.get("nodes")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries) or not entries:
        raise _bad(path, "it has no [[nodes]]")
    nodes: dict[str, Node] = {}
    for entry in entries:
        node = _node(path, entry, environment)
        if node.code in nodes:
            raise _bad(path, f"the location {node.code} has two nodes")
        nodes[node.code] = node
    primary = parsed.get("primary")
    if primary not in nodes:
        raise _bad(path, 'primary = "CODE" must name the node that takes the writes')
    return Nodes(primary, nodes)


def _node(path: Path, entry: dict[str, Any], environment: Mapping[str, str]) -> Node:
    code = entry.get("code")
    if not isinstance(code, str) or code not in LOCATIONS:
        raise _bad(path, f"{code!r} is no location; GET /v1/locations of a service lists them")
    if unknown := sorted(set(entry) - _MEMBERS):
        raise _bad(path, f"the node {code} has the unknown member {unknown[0]!r}")
    if not all(isinstance(value, str) for value in entry.values()):
        raise _bad(path, f"all members of the node {code} are texts")
    for member in ("http", "admin"):
        _check_address(path, code, member, entry.get(member, ""))
    if entry.get("grpc"):
        _check_address(path, code, "grpc", entry["grpc"])
    variable = entry.get("admin_key_env", "")
    if variable and not environment.get(variable):
        raise _bad(path, f"the node {code} takes its admin key from {variable}, which is not set")
    return Node(
        code, entry["http"], entry["admin"], entry.get("grpc", ""),
        entry.get("domain") or _domain(path, code, entry["http"]), entry.get("name", ""),
        environment[variable] if variable else "",
    )  # fmt: skip


def _check_address(path: Path, code: str, member: str, address: str) -> None:
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.username
    except ValueError:
        usable = False
    if not usable or parts.path.strip("/") or parts.query or parts.fragment:
        raise _bad(path, f'the node {code} needs {member} = "http://HOST:PORT" or https')


def _domain(path: Path, code: str, http: str) -> str:
    """Take the domain from the address: a name, or a loopback address, whose names are those below localhost."""
    host = (urlsplit(http).hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if not address.is_loopback:
        raise _bad(path, f'the node {code} needs domain = "NAME": its databases are names below it')
    return "localhost"


def _bad(path: Path, what: str) -> ServiceError:
    return ServiceError(f"{path}: {what}", hint="docs/sqld.md has an example of the file", code="BAD_NODES")
