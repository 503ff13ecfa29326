"""The admin API of one libSQL server: a few calls about namespaces.

sqld's own checks are thin: it takes any name (also one that leads out of its folder), has no list, and what a
change of a namespace's settings leaves out goes back to its default (its size limit stays). So names are checked
here, and settings are always sent whole.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import msgspec

from pipemagic.service.registry.names import is_label
from pipemagic.service.sqld.nodes import Node

TIMEOUT = 5.0
"""Seconds for one call; a namespace of a replica may have to be fetched first."""
LONG_TIMEOUT = 20.0
CHECK_TIMEOUT = 2.0
UNLIMITED = "1000.0 PB"
"""How sqld tells that a namespace has no limit of size; left out, a limit would stay."""


class NodeDown(Exception):
    """The node cannot be reached, or does not answer as a libSQL server does. ``gone``: nothing listens there."""

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone


class NoNamespace(Exception):
    """The node has no such namespace."""


class NamespaceExists(Exception):
    """The node has this namespace already."""


@dataclass(frozen=True)
class Settings:
    """What a namespace is to be like.

    ``jwt_key`` is one or more public keys in PEM; ``block_reason`` follows sqld's "Operation was blocked";
    ``max_db_size`` is in bytes.
    """

    jwt_key: str
    block_reads: bool = False
    block_writes: bool = False
    block_reason: str | None = None
    max_db_size: int | None = None

    def wire(self) -> dict[str, Any]:
        """Give all settings as sqld reads them: what is acknowledged is on disk, nothing is attached."""
        return {
            "block_reads": self.block_reads, "block_writes": self.block_writes,
            "block_reason": self.block_reason, "jwt_key": self.jwt_key, "allow_attach": False,
            "durability_mode": "strong",
            "max_db_size": UNLIMITED if self.max_db_size is None else f"{self.max_db_size}B",
        }  # fmt: skip


@dataclass(frozen=True)
class Stats:
    """What a node tells of a namespace.

    ``index`` is its replication index, None while it is empty; ``size`` in bytes; the rows are those that its
    statements there have read and written since the count with the id ``count`` began.
    """

    index: int | None
    size: int
    count: str = ""
    rows_read: int = 0
    rows_written: int = 0


class Admin:
    """Speaks to the admin API of a node. All methods raise `NodeDown`."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def check(self) -> None:
        """Return if the node answers."""
        self._ask("GET", "/", timeout=CHECK_TIMEOUT)

    def answers(self) -> bool:
        """Tell whether the node answers."""
        try:
            self.check()
        except NodeDown:
            return False
        return True

    def exists(self, label: str) -> bool:
        """Tell whether there is such a namespace; a replica fetches it from its primary."""
        try:
            self._namespace("GET", label, "/config")
        except NoNamespace:
            return False
        return True

    def create(self, label: str, settings: Settings) -> None:
        """Make an empty namespace; `NamespaceExists` if there is one."""
        self._namespace("POST", label, "/create", settings.wire(), timeout=LONG_TIMEOUT)

    def configure(self, label: str, settings: Settings) -> bool:
        """Give a namespace its settings, unless it has them; tells whether it had not. `NoNamespace` if there is none.

        A replica fetches the namespace first and follows it from then on.
        """
        wanted = settings.wire()
        found = self._namespace("GET", label, "/config", timeout=LONG_TIMEOUT)
        if {name: found.get(name) for name in wanted} == wanted:  # never with a limit: sizes are told rounded
            return False
        self._namespace("POST", label, "/config", wanted)
        return True

    def delete(self, label: str) -> None:
        """Remove a namespace and its data; none is as good."""
        try:
            self._namespace("DELETE", label, "", timeout=LONG_TIMEOUT)
        except NoNamespace:
            return

    def stats(self, label: str) -> Stats:
        """Give the numbers of a namespace; `NoNamespace` if there is none."""
        found = self._namespace("GET", label, "/stats")
        index = found.get("replication_index")
        size, read, written = (
            value if isinstance(value := found.get(name), int) else 0
            for name in ("storage_bytes_used", "rows_read_count", "rows_written_count")
        )
        return Stats(index if isinstance(index, int) else None, size, str(found.get("id", "")), read, written)

    def _namespace(
        self, method: str, label: str, path: str, body: dict[str, Any] | None = None, timeout: float = TIMEOUT,
    ) -> dict[str, Any]:  # fmt: skip
        if not is_label(label):
            raise ValueError(f"{label[:100]!r} is no label of a database")
        status, answer = self._ask(method, f"/v1/namespaces/{label}{path}", body, timeout)
        error = answer.get("error", "")
        if status == 200:
            return answer
        if status == 404 and "exist" in error:
            raise NoNamespace(label)
        if status == 400 and "already exists" in error:
            raise NamespaceExists(label)
        raise NodeDown(f"the node {self.node.code} answers {status} to {method} {path or '/'}: {str(error)[:200]}")

    def _ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, timeout: float = TIMEOUT,
    ) -> tuple[int, dict[str, Any]]:  # fmt: skip
        headers = {"content-type": "application/json"}
        if self.node.admin_key:
            headers["authorization"] = f"basic {self.node.admin_key}"
        connection = connect(self.node.admin, timeout)
        try:
            connection.connect()
        except OSError as error:
            raise NodeDown(f"the node {self.node.code} cannot be reached: {error}", gone=True) from None
        try:
            connection.request(method, path, msgspec.json.encode(body or {}), headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException) as error:
            raise NodeDown(f"the node {self.node.code} does not answer: {str(error) or repr(error)}") from None
        finally:
            connection.close()
        if answer.status in (401, 403):
            raise NodeDown(f"the node {self.node.code} refuses the key of its admin API")
        return answer.status, _parsed(content)


def connect(address: str, timeout: float) -> HTTPConnection:
    """Give a connection, not yet opened, to a node's address."""
    parts = urlsplit(address)
    assert parts.hostname is not None, "addresses are checked when they are read"
    if parts.scheme == "https":
        return HTTPSConnection(parts.hostname, parts.port, timeout=timeout, context=ssl.create_default_context())
    return HTTPConnection(parts.hostname, parts.port, timeout=timeout)


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(content) if content else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}
