"""The client of one libSQL server: the namespaces of its admin API, and whether the server can be used.

sqld accepts any name (also of a path outside of its folder), does not list namespaces, and resets each setting that a
change omits (except the size limit). So names are checked here, and all settings are sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import httpx
import msgspec

from pipemagic.service.catalog.names import is_label
from pipemagic.service.catalog.records import DatabaseRecord
from pipemagic.service.sqld.keys import label
from pipemagic.service.sqld.nodes import CHECK_TIMEOUT, Node, open_client

T = TypeVar("T")

log = logging.getLogger(__name__)

TIMEOUT = 20.0
"""Seconds for a change of a namespace: a replica may have to fetch it first."""
UNLIMITED = "1000.0 PB"
"""The size limit of a namespace without one; if the member were omitted, an earlier limit would remain."""

WAIT_INTERVAL = 0.05
"""Seconds between two checks whether the node of a task went down, while a thread waits for the task."""


class NodeDown(Exception):
    """The node cannot be reached, or its response is not that of a libSQL server. ``refused``: nothing listens."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class NoNamespace(Exception):
    """The node has no such namespace."""


class NamespaceExists(Exception):
    """The node has this namespace already."""


def settings(
    jwt_key: str, *, block_reads: bool = False, block_writes: bool = False, block_reason: str | None = None,
    max_db_size: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return all settings of a namespace. What is acknowledged is on disk, and nothing can be attached.

    ``jwt_key`` is one or more public keys in PEM; ``block_reason`` follows sqld's "Operation was blocked".
    """
    return {
        "block_reads": block_reads, "block_writes": block_writes, "block_reason": block_reason, "jwt_key": jwt_key,
        "allow_attach": False, "durability_mode": "strong",
        "max_db_size": UNLIMITED if max_db_size is None else f"{max_db_size}B",
    }  # fmt: skip


class Stats(msgspec.Struct):
    """Figures of a namespace at a node.

    ``replication_index`` is None while it is empty; the rows are those of its statements there since the count with
    this ``id`` began.
    """

    id: str = ""
    replication_index: int | None = None
    storage_bytes_used: int = 0
    rows_read_count: int = 0
    rows_written_count: int = 0


class Admin:
    """Client of the admin API of a node. All methods raise `NodeDown`."""

    def __init__(self, node: Node) -> None:
        self.code = node.code
        headers = {"authorization": f"basic {node.admin_key}"} if node.admin_key else None
        self._client = open_client(node.admin, TIMEOUT, headers)

    def check(self) -> None:
        """Raise `NodeDown` if the node does not respond."""
        self._request("GET", "/", timeout=CHECK_TIMEOUT)

    def exists(self, label: str) -> bool:
        """Return True if there is such a namespace; a replica fetches it from its primary."""
        try:
            self._namespace("GET", label, "/config")
        except NoNamespace:
            return False
        return True

    def create(self, label: str, settings: dict[str, Any]) -> None:
        """Create an empty namespace; raise `NamespaceExists` if there is one."""
        self._namespace("POST", label, "/create", settings)

    def configure(self, label: str, settings: dict[str, Any]) -> None:
        """Set the settings of a namespace unless it has them; raise `NoNamespace` if there is none.

        A replica fetches the namespace first and follows it from then on.
        """
        present = self._namespace("GET", label, "/config")
        if any(present.get(name) != value for name, value in settings.items()):  # a size limit is returned rounded
            self._namespace("POST", label, "/config", settings)

    def delete(self, label: str) -> None:
        """Remove a namespace and its data, if it is there."""
        try:
            self._namespace("DELETE", label, "")
        except NoNamespace:
            return

    def stats(self, label: str) -> Stats:
        """Return the figures of a namespace; raise `NoNamespace` if there is none."""
        found = self._namespace("GET", label, "/stats", timeout=CHECK_TIMEOUT)
        try:
            return msgspec.convert(found, Stats)
        except msgspec.ValidationError as error:
            raise NodeDown(f"the node {self.code} returned unknown figures: {error}") from None

    def _namespace(
        self, method: str, label: str, path: str, body: dict[str, Any] | None = None, timeout: float = TIMEOUT,
    ) -> dict[str, Any]:  # fmt: skip
        if not is_label(label):
            raise ValueError(f"{label[:100]!r} is not a label of a database")
        response = self._request(method, f"/v1/namespaces/{label}{path}", body, timeout)
        content = _parse(response.content)
        error = str(content.get("error", ""))
        if response.status_code == 200:
            return content
        if response.status_code == 404 and "exist" in error:
            raise NoNamespace(label)
        if response.status_code == 400 and "already exists" in error:
            raise NamespaceExists(label)
        raise NodeDown(
            f"the node {self.code} returned {response.status_code} for {method} {path or '/'}: {error[:200]}"
        )

    def _request(
        self, method: str, path: str, body: dict[str, Any] | None = None, timeout: float = TIMEOUT
    ) -> httpx.Response:
        try:
            response = self._client.request(method, path, json=body or {}, timeout=timeout)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NodeDown(f"the node {self.code} cannot be reached: {error}", refused=True) from None
        except httpx.HTTPError as error:
            raise NodeDown(f"the node {self.code} does not respond: {str(error) or type(error).__name__}") from None
        if response.status_code in (401, 403):
            raise NodeDown(f"the node {self.code} refuses the key of its admin API")
        return response


class NodeState:
    """The state of a node, and the thread for its tasks.

    Changes of its namespaces run one after the other in this thread, and each reads the catalog when it runs: an older
    state never replaces a newer one, and a node that hangs delays no other.
    """

    def __init__(self, node: Node) -> None:
        self.node, self.code = node, node.code
        self.admin = Admin(node)
        self.down: NodeDown | None = NodeDown(f"the node {node.code} was not checked yet")
        """Why the node cannot be used; None if it can."""
        self.failures = 0
        """Checks in a row without a response."""
        self.starts = 0
        """The start of the process at which the node was brought up to date."""
        self.update: Future[None] | None = None
        """The last task that brings it up to date."""
        self.tasks = ThreadPoolExecutor(1, f"pipemagic-{node.code}")

    def run(self, task: Callable[[NodeState], T]) -> T:
        """Run a task in the node's thread and return its result; raise `NodeDown` if the node is down or goes down."""
        if self.down is not None:
            raise self.down
        future = self.submit(task)
        while self.down is None and not wait([future], WAIT_INTERVAL).done:
            pass
        if future.cancel() or not future.done():
            raise self.down or NodeDown(f"the connection to the node {self.code} is closed")
        return future.result()

    def submit(self, task: Callable[[NodeState], T]) -> Future[T]:
        """Run a task in the node's thread."""
        return self.tasks.submit(self._guard, task)

    def _guard(self, task: Callable[[NodeState], T]) -> T:
        try:
            return task(self)
        except NodeDown as down:
            self.set_down(down)
            raise
        except Exception:  # the result of an update is not read
            log.exception("a change of the node %s failed", self.code)
            raise

    def check(self) -> None:
        """Raise `NodeDown` if the node does not respond."""
        try:
            self.admin.check()
        except NodeDown as down:
            self.set_down(down)
            raise

    def index(self, record: DatabaseRecord) -> int:
        """Return the number of the last commit of a database that the node has."""
        return self.admin.stats(label(record)).replication_index or 0

    def set_down(self, down: NodeDown) -> None:
        """Record why the node cannot be used."""
        if str(self.down) != str(down):
            log.warning("%s", down)
        self.down = down

    def close(self) -> None:
        """Drop the waiting tasks, and end the waits for the running one, which ends with its request."""
        self.down = NodeDown("the service is stopping")
        self.tasks.shutdown(wait=False, cancel_futures=True)


def _parse(content: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(content or b"{}", type=dict[str, Any])
    except ValueError:  # msgspec's errors, too
        return {}
