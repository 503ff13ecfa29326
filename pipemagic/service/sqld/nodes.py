"""The libSQL servers that hold the databases: the file that lists them, and checks of their open ports."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec

from pipemagic.errors import ServiceError
from pipemagic.http.tls import tls_context
from pipemagic.service.hosting import LOCAL_DOMAIN, LOOPBACK
from pipemagic.service.locations import LOCATIONS, GeoLocation

CHECK_TIMEOUT = 1.0
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""The first bytes of an HTTP/2 client, with an empty SETTINGS frame."""
_SETTINGS = 4
_SELECT = {"requests": [{"type": "execute", "stmt": {"sql": "SELECT 1"}}, {"type": "close"}]}


@dataclass(frozen=True)
class Node:
    """One libSQL server. ``http``, ``admin`` and ``grpc`` are addresses with scheme and port.

    ``domain`` is what follows a database's label in the host name that clients use. ``name`` is its display name.
    """

    code: str
    http: str
    admin: str
    grpc: str = ""
    domain: str = LOCAL_DOMAIN
    name: str = ""
    admin_key: str = field(default="", repr=False)

    def url(self, label: str) -> str:
        """Return the address of a database at this node."""
        parts = urlsplit(self.http)
        return f"{parts.scheme}://{label}.{self.domain}{f':{parts.port}' if parts.port else ''}"

    @property
    def location(self) -> GeoLocation:
        """The location as the management API lists it."""
        entry = LOCATIONS[self.code]
        return entry._replace(name=self.name or entry.name)


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    code: str
    http: str
    admin: str
    grpc: str = ""
    domain: str = ""
    admin_key_env: str = ""
    name: str = ""


class _NodesFile(msgspec.Struct):
    primary: str
    nodes: list[_Entry]


def load(path: Path, environment: Mapping[str, str] = os.environ) -> list[Node]:
    """Return the nodes of a file, the primary first; raise `ServiceError` if the file is not valid."""
    try:
        file = msgspec.toml.decode(path.read_bytes(), type=_NodesFile)
        nodes = {entry.code: _node(entry, environment) for entry in file.nodes}
        if len(nodes) < len(file.nodes):
            raise ValueError("a location has two nodes")
        if file.primary not in nodes:
            raise ValueError('primary = "CODE" must name the node that accepts writes')
    except OSError as error:
        raise _bad(path, f"cannot be read: {error.strerror}") from None
    except ValueError as error:  # msgspec's errors, and text that is not UTF-8, too
        raise _bad(path, str(error)) from None
    return [nodes.pop(file.primary), *nodes.values()]


def _node(entry: _Entry, environment: Mapping[str, str]) -> Node:
    if entry.code not in LOCATIONS:
        raise ValueError(f"{entry.code!r} is not a location; GET /v1/locations of a service lists them")
    for member in ("http", "admin", "grpc"):
        address = getattr(entry, member)
        if not _is_address(address) and (address or member != "grpc"):
            raise ValueError(f'the node {entry.code} requires {member} = "http://HOST:PORT" or https')
    variable = entry.admin_key_env
    if variable and not environment.get(variable):
        raise ValueError(f"the admin key of the node {entry.code} is read from {variable}, which is not set")
    return Node(
        entry.code, entry.http, entry.admin, entry.grpc, entry.domain or _domain(entry), entry.name,
        environment[variable] if variable else "",
    )  # fmt: skip


def _is_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.username
    except ValueError:
        return False
    return bool(usable) and not (parts.path.strip("/") or parts.query or parts.fragment)


def _domain(entry: _Entry) -> str:
    """Return the domain of an address: its name, or ``localhost`` for a loopback address."""
    host = (urlsplit(entry.http).hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if not address.is_loopback:
        raise ValueError(f'the node {entry.code} requires domain = "NAME": its databases are names below it')
    return LOCAL_DOMAIN


def _bad(path: Path, reason: str) -> ServiceError:
    hint = "in a notebook, %pipedb help operators/cluster shows an example of the file"
    return ServiceError(f"{path}: {reason}", hint=hint, code="BAD_NODES")


# Checks of the ports, without a token, key or certificate.


def open_client(address: str, timeout: float, headers: Mapping[str, str] | None = None) -> httpx.Client:
    """Return a client for one of a node's addresses.

    Each request has a connection of its own: the node may end at any time, and a request on a connection that the
    node has closed would fail.
    """
    return httpx.Client(
        base_url=_connectable(address), headers=headers, timeout=timeout, trust_env=False,
        verify=tls_context(), limits=httpx.Limits(max_keepalive_connections=0),
    )  # fmt: skip


def _connectable(address: str) -> str:
    """Return an address with 127.0.0.1 in place of ``localhost``, which may resolve to [::1] and another process.

    With TLS the name stays: the certificate is for it.
    """
    parts = urlsplit(address)
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme != "http" or not (host == LOCAL_DOMAIN or host.endswith(f".{LOCAL_DOMAIN}")):
        return address
    return parts._replace(netloc=LOOPBACK if parts.port is None else f"{LOOPBACK}:{parts.port}").geturl()


def refuse_open(node: Node) -> None:
    """Raise `ServiceError` if the HTTP port of a node, which any client can reach, runs SQL without a token.

    The request names the namespace that every sqld has: sqld looks for the namespace before it checks the token.
    """
    if _status(node.http, "POST", "/v2/pipeline", json=_SELECT, headers={"host": f"default.{node.domain}"}) == 200:
        raise ServiceError(
            f"the node {node.code} runs SQL without a token at {node.http}",
            hint="start it with --auth-jwt-key-file and --disable-default-namespace "
            "(in a notebook: %pipedb help operators/cluster)",
            code="NODE_OPEN",
        )  # fmt: skip


def warnings(node: Node) -> Iterator[str]:
    """Yield a warning for each port that should not be open, unless only this service and the nodes can reach it."""
    if _status(node.admin, "GET", "/") not in (None, 401, 403):
        yield (
            f"the admin port of the node {node.code} needs no key: set its LIBSQL_ADMIN_AUTH_KEY, and admin_key_env in "
            "the nodes' file (in a notebook: %pipedb help operators/cluster)"
        )
    if node.grpc and accepts_plain_http2(node.grpc):
        yield (
            f"the gRPC port of the node {node.code} sends every database to any client: start it with --grpc-tls "
            "(in a notebook: %pipedb help operators/cluster)"
        )


def accepts_plain_http2(grpc: str) -> bool:
    """Return True if the port speaks HTTP/2 without TLS; False also if it cannot be reached from here."""
    parts = urlsplit(grpc)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 5001), CHECK_TIMEOUT) as connection:
            connection.sendall(_HTTP2_PREFACE)
            header = connection.recv(9)
    except OSError:
        return False
    return len(header) > 3 and header[0] == 0 and header[3] == _SETTINGS


def _status(address: str, method: str, path: str, **request: object) -> int | None:
    """Return the status of a response; None if the port cannot be reached from here."""
    try:
        with open_client(address, CHECK_TIMEOUT) as client:
            return client.request(method, path, **request).status_code  # type: ignore[arg-type]
    except httpx.HTTPError:
        return None
