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
from pipemagic.service.sqld.nodes import CHECK_TIMEOUT, Node, open_client

T = TypeVar("T")

log = logging.getLogger(__name__)

TIMEOUT = 20.0
"""Seconds for a change of a namespace: a replica may have to fetch it first."""
DELETE_ATTEMPTS = 3
"""A request that arrives while a replica removes a namespace creates it again, and the removal fails."""
WAIT_INTERVAL = 0.05
"""Seconds between two checks whether the node of a task went down, while a thread waits for the task."""

SETTINGS: dict[str, Any] = {
    "block_reads": False, "block_writes": False, "block_reason": None, "allow_attach": False,
    "durability_mode": "strong", "max_db_size": "1000.0 PB",
}  # fmt: skip
"""All settings of a namespace except its keys (``jwt_key``).

Acknowledged commits are on disk, and no database can be attached. The size stands for no limit: if it were omitted, an
earlier limit would remain.
"""


class NodeDown(Exception):
    """The node cannot be reached, or does not respond like a libSQL server. ``refused``: nothing listens."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class NoNamespace(Exception):
    """The node has no such namespace."""


class NamespaceExists(Exception):
    """The node has this namespace already."""


class Stats(msgspec.Struct):
    """Figures of a namespace at a node.

    The rows are those of its statements there since the count with this ``id`` began.
    """

    id: str = ""
    replication_index: int | None = None
    storage_bytes_used: int = 0
    rows_read_count: int = 0
    rows_written_count: int = 0

    @property
    def index(self) -> int:
        """The number of the last commit; 0 while it is empty."""
        return self.replication_index or 0


class Admin:
    """Client of the admin API of a node. All methods raise `NodeDown`."""

    def __init__(self, node: Node) -> None:
        self._code = node.code
        headers = {"authorization": f"basic {node.admin_key}"} if node.admin_key else None
        self._client = open_client(node.admin, TIMEOUT, headers)

    def close(self) -> None:
        """Close the client; later requests raise `NodeDown`."""
        self._client.close()

    def check(self) -> None:
        """Raise `NodeDown` if the node does not respond."""
        self._request("GET", "/", timeout=CHECK_TIMEOUT)

    def exists(self, label: str) -> bool:
        """Return True if there is such a namespace; a replica fetches it from its primary."""
        try:
            self._request("GET", _path(label, "/config"))
        except NoNamespace:
            return False
        return True

    def create(self, label: str, settings: dict[str, Any]) -> None:
        """Create an empty namespace; raise `NamespaceExists` if there is one."""
        self._request("POST", _path(label, "/create"), settings)

    def configure(self, label: str, settings: dict[str, Any]) -> None:
        """Set the settings of a namespace; raise `NoNamespace` if there is none.

        A replica fetches the namespace first and follows it from then on.
        """
        self._request("POST", _path(label, "/config"), settings)

    def delete(self, label: str) -> None:
        """Remove a namespace and its data, if it is there."""
        for attempt in range(1, DELETE_ATTEMPTS + 1):
            try:
                self._request("DELETE", _path(label))
            except NoNamespace:
                return
            except NodeDown as down:
                if attempt == DELETE_ATTEMPTS or down.refused:
                    raise
            else:
                return

    def stats(self, label: str) -> Stats:
        """Return the figures of a namespace; raise `NoNamespace` if there is none."""
        content = self._request("GET", _path(label, "/stats"), timeout=CHECK_TIMEOUT)
        try:
            return msgspec.json.decode(content, type=Stats)
        except ValueError as error:
            raise NodeDown(f"the node {self._code} returned unknown figures: {error}") from None

    def _send(self, method: str, path: str, body: dict[str, Any], timeout: float) -> httpx.Response:
        try:
            return self._client.request(method, path, json=body, timeout=timeout)
        except httpx.RemoteProtocolError:  # sqld sometimes closes a new connection without a response
            if method != "GET":
                raise
            return self._client.request(method, path, json=body, timeout=timeout)

    def _request(
        self, method: str, path: str, body: dict[str, Any] | None = None, timeout: float = TIMEOUT
    ) -> bytes:  # fmt: skip
        try:
            response = self._send(method, path, body or {}, timeout)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NodeDown(f"the node {self._code} cannot be reached: {error}", refused=True) from None
        except (httpx.HTTPError, RuntimeError) as error:  # RuntimeError: the client is closed
            raise NodeDown(f"the node {self._code} does not respond: {str(error) or type(error).__name__}") from None
        if response.status_code == 200:
            return response.content
        if response.status_code in (401, 403):
            raise NodeDown(f"the node {self._code} refuses the key of its admin API")
        if response.status_code == 404 and "exist" in response.text:
            raise NoNamespace(path)
        if response.status_code == 400 and "already exists" in response.text:
            raise NamespaceExists(path)
        raise NodeDown(
            f"the node {self._code} returned {response.status_code} for {method} {path}: {response.text[:200]}"
        )


def _path(label: str, action: str = "") -> str:
    if not is_label(label):
        raise ValueError(f"{label[:100]!r} is not a label of a database")
    return f"/v1/namespaces/{label}{action}"


class NodeState:
    """The state of a node, and the thread for its tasks.

    Changes of its namespaces run one after the other in this thread, and each reads the catalog when it runs: an older
    state never replaces a newer one, and a node that hangs delays no other. ``exit_status`` returns that of the process
    of a local node, None while it runs.
    """

    def __init__(self, node: Node, exit_status: Callable[[], int | None] = lambda: None) -> None:
        self.node, self.code = node, node.code
        self._exit_status = exit_status
        self.admin = Admin(node)
        self.down: NodeDown | None = NodeDown(f"the node {node.code} was not checked yet")
        """Why the node cannot be used; None if it can."""
        self.update: Future[None] | None = None
        """The last task that brings it up to date."""
        self._tasks = ThreadPoolExecutor(1, f"pipemagic-{node.code}")

    def run(self, task: Callable[[NodeState], T]) -> T:
        """Run a task in the node's thread and return its result; raise `NodeDown` if the node is down or goes down."""
        self.check_up()
        future = self.submit(task)
        self.wait(future, None)
        if future.cancel() or not future.done():
            self.check_up()
            raise NodeDown(f"the connection to the node {self.code} is closed")
        return future.result()

    def check_up(self) -> None:
        """Raise `NodeDown` if the node is known to be down."""
        if (down := self.down) is not None:
            raise NodeDown(str(down), refused=down.refused)  # raising the stored one again would extend its traceback

    def submit(self, task: Callable[[NodeState], T]) -> Future[T]:
        """Run a task in the node's thread."""
        return self._tasks.submit(self._guard, task)

    def wait(self, future: Future[Any], down: NodeDown | None) -> None:
        """Wait for a task until it is done or the state of the node is no longer ``down`` (None: up)."""
        while self.down is down and not wait([future], WAIT_INTERVAL).done:
            pass

    def check(self) -> None:
        """Raise `NodeDown` if the node has ended or does not respond."""
        self._guard(NodeState._check)

    def _check(self) -> None:
        if (status := self._exit_status()) is not None:
            raise NodeDown(f"the node {self.code} ended with {status}; restart the service to start it", refused=True)
        self.admin.check()

    def _guard(self, task: Callable[[NodeState], T]) -> T:
        try:
            return task(self)
        except NodeDown as down:
            self.set_down(down)
            raise
        except Exception:  # the result of an update is not read
            log.exception("a change of the node %s failed", self.code)
            raise

    def set_down(self, down: NodeDown) -> None:
        """Record why the node cannot be used."""
        if str(self.down) != str(down):
            log.warning("%s", down)
        self.down = down

    def close(self) -> None:
        """Cancel the waiting tasks and close the client; the running task ends with its request."""
        self.down = NodeDown("the service is stopping")
        self._tasks.shutdown(wait=False, cancel_futures=True)
        self.admin.close()
