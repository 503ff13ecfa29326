"""The engine, which applies the catalog to the nodes: at once, after a crash, and when a node responds again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import apsw
from prometheus_client.core import GaugeMetricFamily, Metric
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from pipemagic.errors import ServiceError
from pipemagic.service.catalog.names import is_label
from pipemagic.service.catalog.records import DatabaseRecord, GroupRecord
from pipemagic.service.catalog.usage import settings_block
from pipemagic.service.database_api.endpoints import GreetingEndpoint
from pipemagic.service.endpoint import Runtime
from pipemagic.service.engine import Engine, EngineContext, InstanceStatus, Seed
from pipemagic.service.executor import Waiter
from pipemagic.service.locations import GeoLocation
from pipemagic.service.request import ServiceRequest
from pipemagic.service.responses import Refused, ServiceResponse, empty, text
from pipemagic.service.service import Service
from pipemagic.service.sqld.admin import SETTINGS, TIMEOUT, NamespaceExists, NodeDown, NodeState, NoNamespace
from pipemagic.service.sqld.keys import NamespaceTokens, throwaway_key
from pipemagic.service.sqld.local_nodes import NodeProcess, close_cluster, find_sqld, start_cluster
from pipemagic.service.sqld.namespaces import INTERVAL, Metering, Namespaces, Removal, label
from pipemagic.service.sqld.nodes import Node, load, refuse_open, warnings
from pipemagic.version import __version__

if TYPE_CHECKING:
    from pipemagic.service.settings import Settings

log = logging.getLogger(__name__)

POLL_INTERVAL = 1.0
"""Seconds between two checks of the nodes: one that responds again is brought up to date then."""
REPLICA_POLL_INTERVAL = 0.02
SQL_PATHS = ("/v2", "/v2/pipeline", "/v3", "/v3/pipeline", "/v3/cursor")


class SqldEngine(Engine):
    """Databases as namespaces of libSQL servers; ``processes`` are the nodes that run on this machine.

    The primary, the first node, holds every namespace; the nodes of a group's other locations follow it. A node that
    cannot be reached is brought up to date when it can.
    """

    def __init__(
        self, context: EngineContext, nodes: Sequence[Node], processes: Sequence[NodeProcess] = ()
    ) -> None:  # fmt: skip
        self._folder, self._catalog = context.folder, context.catalog
        self.tokens: NamespaceTokens = NamespaceTokens(context.folder, context.catalog, context.now, context.random)
        self._namespaces = Namespaces(context.catalog.store)
        self._processes = {process.node.code: process for process in processes}
        self._nodes = {node.code: NodeState(node) for node in nodes}
        for code, process in self._processes.items():
            self._nodes[code] = NodeState(process.node, process.exit_status)
        self._primary, *self._replicas = self._nodes.values()
        self._metering = Metering(context, self._nodes, self.configure)
        self._failed: dict[str, DatabaseRecord] = {}
        """Databases that could not be created and are still in the catalog."""
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(interval, action), name=f"pipemagic-{name}", daemon=True)
            for name, interval, action in (
                ("nodes", POLL_INTERVAL, self._poll_all),
                ("metering", INTERVAL, self._metering.read),
            )
        ]

    # Start and end.

    def start(self) -> None:
        """Finish what a crash interrupted, then check the nodes every second.

        Raise `ServiceError` if a node runs SQL without a token, or if the data folder is for other databases.
        """
        self._check_folder()
        for state in self._nodes.values():
            refuse_open(state.node)
            for warning in warnings(state.node):
                log.warning("%s", warning)
        self._apply_pauses()
        for states in ([self._primary], self._replicas):  # replicas fetch from the primary
            for state in states:
                self._poll(state)
            wait([state.update for state in states if state.update is not None], TIMEOUT)
        for thread in self._threads:
            thread.start()

    def _check_folder(self) -> None:
        """Refuse a data folder if its databases are elsewhere: empty databases would replace them."""
        for organization in self._catalog.organizations.all():
            for group in self._catalog.groups(organization.slug):
                if group.primary != self._primary.code:
                    raise ServiceError(
                        f"the group {group.name} in {self._folder} has its primary at {group.primary}, the nodes "
                        f"have theirs at {self._primary.code}",
                        hint="it cannot be moved: name another folder with --data", code="OTHER_FOLDER",
                    )  # fmt: skip
            for record in self._catalog.databases(organization.slug):
                if (self._folder / "databases" / record.id).exists():
                    raise ServiceError(
                        f"{self._folder} holds databases of the embedded service, such as {record.name}",
                        hint="name another folder with --data", code="OTHER_FOLDER",
                    )  # fmt: skip

    def close(self) -> None:
        """End the nodes of this machine and the threads."""
        self._stopping.set()
        close_cluster(list(self._processes.values()))
        for state in self._nodes.values():
            state.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _repeat(self, interval: float, action: Callable[[], None]) -> None:
        while not self._stopping.wait(interval):
            try:
                action()
            except Exception:  # any error: no node would be brought up to date any more, or quotas would not apply
                if not self._stopping.is_set():
                    log.exception("error in a background thread; the next round follows")

    # Checks of the nodes.

    def _poll_all(self) -> None:
        self._remove_failed()
        for state in self._nodes.values():
            self._poll(state)

    def _poll(self, state: NodeState) -> None:
        """Check a node, after starting it if it was resumed; bring it up to date in its own thread."""
        process = self._processes.get(state.code)
        if self._stopping.is_set() or (process is not None and process.stopped):
            return
        try:
            if process is not None:
                process.start()
            state.check()
        except ServiceError as error:
            state.set_down(NodeDown(error.message, refused=True))
        except NodeDown:
            return  # it is recorded
        else:
            if state.update is None or state.update.done():
                state.update = state.submit(self._bring_up_to_date)

    def _bring_up_to_date(self, state: NodeState) -> None:
        """Apply the catalog to a node that was down or restarted; remove the namespaces that are to be removed."""
        down = state.down
        if down is not None:
            for organization in self._catalog.organizations.all():
                for record in self._catalog.databases(organization.slug):
                    self._apply(state, record.id)
            if state.down is down:  # it was not paused meanwhile
                state.down = None
                log.info("the node %s is up and up to date", state.code)
        self._remove(state)

    # Checks before a change of the catalog.

    @property
    def locations(self) -> Mapping[str, GeoLocation]:
        """The locations that have a node."""
        return {code: state.node.location for code, state in self._nodes.items()}

    def check_group(self, primary: str) -> None:
        """Refuse a primary location that is not the primary node's."""
        self.check_location(primary)
        if primary != self._primary.code:
            raise Refused(400, f"invalid location: a group begins at {self._primary.code}, where the primary node is; "
                               f"add {primary} to the group afterwards")  # fmt: skip

    def check_location(self, code: str) -> None:
        """Refuse a location without a node."""
        if code not in self._nodes:
            raise Refused(400, f"invalid location: {code} has no node; the nodes are at {', '.join(self._nodes)}")

    def check_pause(self, code: str, *, replication_only: bool) -> None:
        """Refuse to pause a node that runs elsewhere, and to pause the replication of a running node."""
        if replication_only:
            raise Refused(400, "libSQL servers cannot pause the replication only: omit replication_only")
        if code not in self._processes:
            raise Refused(400, f"the node {code} was not started by this service: stop and start it where it runs")

    def check_new(self, label: str) -> None:
        """Refuse a name if the primary already has its namespace: of another service, or not removed yet."""
        if not is_label(label):
            return  # the catalog refuses the name
        self.check_change()
        self._remove_everywhere(label)
        if self._has_to_remove(self._primary, label):
            raise Refused(503, f"the nodes are still removing an earlier {label}; try again in a moment", "NODE_DOWN")
        with _refusing():
            exists = self._primary.run(lambda state: state.admin.exists(label))
        if exists and self._catalog.database_by_host(f"{label}.{self._catalog.domain}") is None:
            raise Refused(
                422, f"database name not available: the primary node has a namespace {label} that this service did "
                "not create", "NAME_NOT_AVAILABLE",
            )  # fmt: skip

    def check_change(self) -> None:
        """Refuse a change while the primary cannot be reached: clients may still be able to reach it."""
        with _refusing():
            self._primary.check()
            if (down := self._primary.down) is not None:  # it responds again: do not wait for the next poll
                self._primary.wait(self._primary.submit(self._bring_up_to_date), down)
                self._primary.check_up()

    def seed(self, original: DatabaseRecord | None, moment: float | None = None) -> AbstractContextManager[Seed]:  # noqa: ARG002
        """Refuse a seed: the nodes accept no files."""
        raise Refused(
            400, '"seed" is not supported by this service: its libSQL servers take no files, so create the database '
            "empty and send its contents as SQL text", "NO_SEED",
        )  # fmt: skip

    # Changes.

    def create(self, record: DatabaseRecord) -> None:
        """Create the namespace at the primary, then at the replicas; remove the database if the first fails."""
        try:
            with _refusing():
                self._primary.run(partial(self._apply, database=record.id))
        except Exception:
            self._failed[record.id] = record
            self._remove_failed()
            raise
        self._apply_at_replicas(record)

    def _remove_failed(self) -> None:
        """Remove the databases that could not be created from the catalog; the next poll tries again."""
        for record in list(self._failed.values()):
            try:
                if self._catalog.database_by_id(record.id) is not None:
                    self._catalog.delete_database(record.organization, record.name)
            except apsw.Error as error:
                log.warning("%s could not be created, and is not removed yet: %s", record.name, error)
            else:
                del self._failed[record.id]

    def configure(self, record: DatabaseRecord) -> None:
        """Apply the settings and keys of a database, at the primary first; 503 if that one cannot be reached."""
        with _refusing("the change applies when it responds again"):
            self._primary.run(partial(self._apply, database=record.id))
        self._apply_at_replicas(record)

    def revoke_access(self, record: DatabaseRecord) -> None:
        """Replace the keys of a database."""
        self.configure(record)

    def delete(self, record: DatabaseRecord) -> None:
        """Remove the namespaces of a database where it has none any more.

        Its tokens are void at once; the data is removed now where the nodes can be reached, otherwise later.
        """
        self._remove_everywhere(label(record))

    def sync_locations(self, group: GroupRecord) -> None:
        """Apply a change of a group's locations, or of which of them are paused."""
        self._apply_pauses()
        for record in self._catalog.databases(group.organization, group.name):
            self._namespaces.drop_nodes(record.id, record.locations)
            self._apply_at_replicas(record)
            self.delete(record)

    def _apply_pauses(self) -> None:
        """Stop the nodes that any group has paused: a node serves all groups."""
        groups = [
            group
            for organization in self._catalog.organizations.all()
            for group in self._catalog.groups(organization.slug)
        ]
        for code, process in self._processes.items():
            process.set_stopped(any(code in group.paused for group in groups))
            if process.stopped:
                self._nodes[code].set_down(NodeDown(f"the node {code} is paused", refused=True))

    def _apply_at_replicas(self, record: DatabaseRecord) -> None:
        for state in self._replicas:
            if state.code in record.locations:
                with suppress(NodeDown):
                    state.run(partial(self._apply, database=record.id))

    def _remove_everywhere(self, label: str) -> None:
        """Remove a namespace from its nodes.

        Replace the keys at the primary, remove the replicas, then remove the primary.
        """
        for state in (self._primary, *self._replicas, self._primary):
            if self._has_to_remove(state, label):
                with suppress(NodeDown):
                    state.run(partial(self._remove, label=label))

    def _has_to_remove(self, state: NodeState, label: str) -> bool:
        return any(removal.code == state.code for removal in self._namespaces.removals(label))

    # Tasks, which run in the threads of the nodes.

    def _apply(self, state: NodeState, database: str) -> None:
        """Apply the catalog's record of a database, by its id, to a node.

        A namespace that existed at the primary and is missing had data: an empty one would hide the loss.
        """
        record = self._catalog.database_by_id(database)
        if record is None or state.code not in record.locations:
            return
        name, desired = label(record), self._settings(record)
        if not self._namespaces.add(database, name, state.code):
            return
        is_new = state is self._primary and not self._namespaces.is_created(database)
        if is_new:
            with suppress(NamespaceExists):  # created just before a crash
                state.admin.create(name, desired)
        try:
            state.admin.configure(name, desired)  # also a new one: sqld ignores some settings of a creation
        except NoNamespace:
            if state is self._primary:
                log.error(
                    "the primary node has lost the namespace %s; restore its folder, or delete the database", name
                )
            else:
                log.warning("the node %s does not find the namespace %s at its primary", state.code, name)
        else:
            if is_new:
                self._namespaces.set_created(database)

    def _settings(self, record: DatabaseRecord) -> dict[str, Any]:
        config, block, own = record.configuration, self._metering.block(record.organization), settings_block(record)
        # sqld does not know which statements free space: with the storage used up, none can write.
        writes = block.writes or block.growth
        size = {} if config.size_limit is None else {"max_db_size": f"{config.size_limit}B"}
        return {
            **SETTINGS, **size, "jwt_key": self.tokens.public_keys(record),
            "block_reads": config.block_reads or bool(block.reads),
            "block_writes": config.block_writes or bool(block.reads or writes),
            "block_reason": own.reads or block.reads or own.writes or writes or None,
        }  # fmt: skip

    def _remove(self, state: NodeState, label: str | None = None) -> None:
        """Do the recorded removals of a node, or of one label; its keys are replaced if it must stay for now."""
        for removal in self._namespaces.removals(label):
            if removal.code != state.code:
                continue
            if self._may_remove(removal):
                state.admin.delete(removal.label)
                self._namespaces.set_removed(removal)
            elif label is not None:
                with suppress(NoNamespace):
                    state.admin.configure(label, {**SETTINGS, "jwt_key": throwaway_key(), "block_reads": True})

    def _may_remove(self, removal: Removal) -> bool:
        """Return False for the primary while a replica may follow the namespace.

        Such a replica would continue to serve its copy, and ask for more without a pause.
        """
        followers = (
            self._nodes[other.code].down for other in self._namespaces.removals(removal.label)
            if other.database == removal.database and other.code in self._nodes and other.code != self._primary.code
        )  # fmt: skip
        return removal.code != self._primary.code or all(down is not None and down.refused for down in followers)

    # States.

    def addresses(self, record: DatabaseRecord) -> dict[str, str]:
        """Return the address of the database at each of its locations."""
        return {code: self._nodes[code].node.url(label(record)) for code in record.locations if code in self._nodes}

    def states(self, group: GroupRecord) -> dict[str, str]:
        """Return the states of a group's nodes."""
        return {code: self._state(code) for code in group.locations}

    def _state(self, code: str) -> str:
        if code in self._processes and self._processes[code].stopped:
            return "paused"
        return "ok" if code in self._nodes and self._nodes[code].down is None else "down"

    def status(self, record: DatabaseRecord) -> dict[str, InstanceStatus]:
        """Return the state of each instance of a database, the primary first; nodes do not report their lag."""
        statuses: dict[str, InstanceStatus] = {}
        newest = 0
        for code in self.addresses(record):
            role = "primary" if code == self._primary.code else "replica"
            state, index = self._state(code), 0
            if state == "ok":
                try:
                    index = self._nodes[code].admin.stats(label(record)).index
                except (NodeDown, NoNamespace):
                    state = "down"
            if state == "ok" and index < newest:
                state = "lagging"
            newest = max(newest, index)
            statuses[code] = InstanceStatus(code, role, index, 0.0 if role == "primary" else None, state)
        return statuses

    def size(self, database: str) -> int:
        """Return the bytes of a database at the primary node, by its id; 0 if that is unknown."""
        record = self._catalog.database_by_id(database)
        if record is None or self._primary.down is not None:
            return 0
        try:
            return self._primary.admin.stats(label(record)).storage_bytes_used
        except (NodeDown, NoNamespace):
            return 0

    def wait_for_replicas(self, group: GroupRecord, code: str, timeout: float) -> Sequence[Waiter]:
        """Return a waiter that is granted when a replica has what its primary has now."""
        records = [] if code == self._primary.code else self._catalog.databases(group.organization, group.name)
        waiter = Waiter(time.monotonic() + timeout)
        threading.Thread(target=self._wait, args=(records, code, waiter), name="pipemagic-wait", daemon=True).start()
        return [waiter]

    def _wait(self, records: Sequence[DatabaseRecord], code: str, waiter: Waiter) -> None:
        try:
            for record in records:
                index = self._primary.admin.stats(label(record)).index
                while self._nodes[code].admin.stats(label(record)).index < index:
                    if time.monotonic() > waiter.deadline or self._stopping.wait(REPLICA_POLL_INTERVAL):
                        return
            waiter.granted = True
        except (NodeDown, NoNamespace) as error:
            log.warning("cannot determine whether %s is up to date: %s", code, error)
        finally:
            waiter.finish()

    # Routes and metrics.

    def routes(self, runtime: Runtime) -> list[BaseRoute]:
        """Return the routes at the service's own address."""
        return [
            Route("/health", GreetingEndpoint(runtime, self._health)),
            Route("/version", GreetingEndpoint(runtime, _version)),
            *(Route(path, SqlRefusal(self)) for path in SQL_PATHS),
        ]

    def database_routes(self, runtime: Runtime) -> list[BaseRoute]:  # noqa: ARG002
        """Return the routes at the addresses of databases."""
        return [Route("/{rest:path}", SqlRefusal(self))]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the nodes."""
        nodes = GaugeMetricFamily("pipemagic_node_up", "1 if the node of a location responds.", labels=("location",))
        for code in self._nodes:
            nodes.add_metric((code,), int(self._state(code) == "ok"))
        yield nodes

    def _health(self, *_: object) -> ServiceResponse:
        """Return 200 if databases can be created: the catalog is readable and the primary node is up."""
        self._catalog.organizations.all()
        return empty(200 if self._primary.down is None else 503)


class SqlRefusal:
    """An endpoint, for all methods, that refuses SQL: clients send it to the nodes."""

    def __init__(self, engine: SqldEngine) -> None:
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> NoReturn:  # noqa: ARG002
        """Refuse a request."""
        request: ServiceRequest = scope["state"]["request"]
        record = request.record
        if record is None:
            raise Refused(404, "this service manages databases on libSQL servers; send SQL to a database's own address")
        raise Refused(421, f"send SQL for {record.name} to {self._engine.addresses(record)[record.locations[0]]}")


def _version(*_: object) -> ServiceResponse:
    return text(f"pipemagic {__version__} (sqld; SQLite {apsw.sqlite_lib_version()} for the catalog)")


@contextmanager
def _refusing(outcome: str = "nothing was changed") -> Iterator[None]:
    """Refuse with 503 if the primary node is down, and state the outcome."""
    try:
        yield
    except NodeDown as down:
        raise Refused(503, f"{down}; {outcome}", "NODE_DOWN") from None


def open_local(settings: Settings, *, count: int, cache: Path) -> Service:
    """Start ``count`` nodes on this machine and return the service in front of them.

    ``cache`` is where a binary that a package contains is unpacked. Raise `ServiceError` if there is none, or if a
    node does not start.
    """
    processes = start_cluster(find_sqld(cache), settings.folder / "nodes", count)
    try:
        return _open(settings, [process.node for process in processes], processes)
    except BaseException:
        close_cluster(processes)
        raise


def open_remote(settings: Settings, *, nodes: Path) -> Service:
    """Return the service in front of the nodes of a file; raise `ServiceError` if the file is not valid."""
    return _open(settings, load(nodes), [])


def _open(settings: Settings, nodes: Sequence[Node], processes: Sequence[NodeProcess]) -> Service:
    return Service(
        settings.folder, partial(SqldEngine, nodes=nodes, processes=processes), limits=settings.limits,
        domain=settings.hosting.domain, database_domain=nodes[0].domain, signup=settings.signup,
    )  # fmt: skip
