"""Bring the nodes to what the catalog says, and keep them there: now, after a crash, and when a node comes back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from pipemagic.service.engine import Engine, InstanceStatus
from pipemagic.service.locations import Location
from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.names import is_label
from pipemagic.service.registry.quotas import Block
from pipemagic.service.registry.records import DatabaseRecord, GroupRecord
from pipemagic.service.responses import Refused
from pipemagic.service.sqld.admin import Admin, NamespaceExists, NodeDown, NoNamespace, Settings, Stats
from pipemagic.service.sqld.keys import DatabaseKeys, label
from pipemagic.service.sqld.namespaces import Namespaces
from pipemagic.service.sqld.nodes import Nodes
from pipemagic.service.sqld.removals import Removals
from pipemagic.service.sqlite.write_lock import Waiter

log = logging.getLogger(__name__)

LOOK_EVERY = 1.0
"""Seconds between two looks at the nodes: one that comes back is brought up to date then."""
HUNG_LOOKS = 2
"""Looks without an answer after which a node that runs counts as hung."""
POLL_EVERY = 0.02
"""Seconds between two looks at a replica that somebody waits for."""


class Local(Protocol):
    """What the engine needs of nodes that run on this machine."""

    def starts(self, code: str) -> int:
        """Tell how often the node of a location was started."""

    def set_paused(self, code: str, paused: bool) -> None:
        """Take the node of a location down, or let it run again."""

    def restart(self, code: str) -> None:
        """End the node of a location, so that it is started again."""


class SqldEngine(Engine):
    """Databases as namespaces of libSQL servers; ``local`` keeps those going that run on this machine.

    The primary holds every namespace; the nodes of a group's other locations follow it. A node that cannot be
    reached is brought up to date when it can.
    """

    def __init__(self, nodes: Nodes, catalog: Catalog, keys: DatabaseKeys, local: Local | None = None) -> None:
        self.nodes = nodes
        self._catalog = catalog
        self._keys = keys
        self._local = local
        self._starts = dict.fromkeys(nodes.by_code, 0)
        self._namespaces = Namespaces(catalog.store)
        self._admins = {code: Admin(node) for code, node in nodes.by_code.items()}
        self._removals = Removals(self._namespaces, self._admins, nodes.primary_code, self._lost)
        self._lock = threading.RLock()  # one change of the nodes at a time
        self._down = dict.fromkeys(nodes.by_code, "not looked at yet")
        self._missing: set[str] = set()
        self._blocks: dict[str, Block] = {}
        self._paused: set[str] = set()
        self._hung: dict[str, int] = {}
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="pipemagic-nodes", daemon=True)

    # Life.

    def start(self) -> None:
        """Finish what a crash left undone, then watch the nodes."""
        self._apply_pauses()
        self.look()
        self._watcher.start()

    def close(self) -> None:
        """Stop watching."""
        self._stopping.set()
        if self._watcher.is_alive():
            self._watcher.join()

    def look(self) -> None:
        """Look at all nodes, the primary first, and bring up to date those that came back."""
        for code in self.nodes.locations:
            with self._lock:
                if code in self._paused:
                    continue
                try:
                    self._look_at(code)
                    self._hung.pop(code, None)
                except NodeDown as down:
                    self._lost(code, down)
                    self._revive(code, down)
        with self._lock:
            self._removals.finish()

    def _look_at(self, code: str) -> None:
        starts = self._local.starts(code) if self._local else 0
        self._admins[code].check()
        if code in self._down or starts != self._starts[code]:
            self._reconcile(code)
            self._down.pop(code, None)
            self._starts[code] = starts
            log.info("the node %s is up and has what it should", code)

    def _revive(self, code: str, down: NodeDown) -> None:
        """Start a node of this machine again that runs and does not answer, time after time."""
        self._hung[code] = 0 if down.gone else self._hung.get(code, 0) + 1
        if self._local is not None and self._hung[code] >= HUNG_LOOKS:
            log.error("the node %s hangs; it is started again", code)
            self._local.restart(code)
            self._hung[code] = 0

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_EVERY):
            self.look()

    # What the management API asks for.

    @property
    def locations(self) -> Mapping[str, Location]:
        """The locations that have a node."""
        return self.nodes.locations

    def check_group(self, primary: str) -> None:
        """Refuse a primary location that is not the primary node's."""
        self.check_location(primary)
        if primary != self.nodes.primary_code:
            raise Refused(400, f"invalid location: a group begins at {self.nodes.primary_code}, where the primary node "
                               f"is; add {primary} to the group afterwards")  # fmt: skip

    def check_location(self, code: str) -> None:
        """Refuse a location without a node."""
        if code not in self.nodes.by_code:
            raise Refused(400, f"invalid location: {code} has no node; there are {', '.join(self.nodes.locations)}")

    def check_pause(self, code: str) -> None:
        """Refuse for nodes that run elsewhere."""
        if self._local is None:
            raise Refused(400, f"the node {code} was not started by this service: stop and start it where it runs")

    def check_new(self, label: str) -> None:
        """Refuse a name whose namespace is at the primary already: it is not ours, or is still being removed."""
        if not is_label(label):
            return  # the catalog says what is wrong with the name
        with self._lock, _refusing():
            self._removals.finish(label)
            if self._removals.primary_has(label):
                raise Refused(503, f"the nodes still remove an earlier {label}; try again in a moment", "NODE_DOWN")
            if self._admins[self.nodes.primary_code].exists(label) and not self._is_ours(label):
                raise Refused(
                    422, f"database name not available: the primary node has a namespace {label} that this service did "
                    "not make", "NAME_NOT_AVAILABLE",
                )  # fmt: skip

    def create(self, record: DatabaseRecord) -> None:
        """Make the namespace at the primary and let the replicas follow; the database is forgotten if that fails."""
        with self._lock:
            try:
                with _refusing():
                    self._make(record)
            except Refused:
                self._catalog.delete_database(record.organization, record.name)
                raise
            self._follow(record)

    def check_change(self) -> None:
        """Refuse while the primary cannot be reached: clients may reach it all the same."""
        with _refusing():
            self._admins[self.nodes.primary_code].check()

    def configure(self, record: DatabaseRecord) -> None:
        """Give the namespace its settings and its key, the primary first; 503 if that one cannot be reached."""
        with self._lock:
            with _refusing():
                self._admins[self.nodes.primary_code].configure(label(record), self.settings(record))
            self._follow(record)

    def remove(self, record: DatabaseRecord) -> None:
        """Remove the namespace of a database that the catalog no longer has.

        Its tokens are void at once; the data goes now where the nodes can be reached, else when they can.
        """
        with self._lock:
            self._removals.lock_out(label(record))
            self._removals.finish(label(record))

    def place(self, group: GroupRecord) -> None:
        """Carry out what has changed about a group's locations, or about which of them are paused."""
        with self._lock:
            self._apply_pauses()
            for record in self._catalog.databases(group.organization, group.name):
                for code in self._namespaces.nodes(record.id) - set(record.locations):
                    self._namespaces.drop_node(record.id, label(record), code)
                self._follow(record)
                self.remove(record)

    def addresses(self, record: DatabaseRecord) -> dict[str, str]:
        """Give the address of the database at each of its locations."""
        nodes = [self.nodes.by_code[code] for code in record.locations if code in self.nodes.by_code]
        return {node.code: node.url(label(record)) for node in nodes}

    def states(self, group: GroupRecord) -> dict[str, str]:
        """Tell how a group's nodes are."""
        return {code: self._state(code) for code in group.locations}

    def status(self, record: DatabaseRecord) -> dict[str, InstanceStatus]:
        """Tell how each instance of a database is, the primary first; nodes do not tell for how long they lag."""
        found: dict[str, InstanceStatus] = {}
        newest = 0
        for code in (code for code in record.locations if code in self._admins):
            role = "primary" if code == self.nodes.primary_code else "replica"
            state, index = self._state(code), 0
            if state == "ok":
                try:
                    index = self.stats(record, code).index or 0
                except (NodeDown, NoNamespace):
                    state = "down"
            if state == "ok" and index < newest:
                state = "lagging"
            newest = max(newest, index)
            found[code] = InstanceStatus(code, role, index, 0.0 if role == "primary" else None, state)
        return found

    def waiting(self, group: GroupRecord, code: str, patience: float) -> Sequence[Waiter]:
        """Give a turn for each database; they become ready when its replica has what its primary has now."""
        end = time.monotonic() + patience
        waits = [
            (record, Waiter(end)) for record in self._catalog.databases(group.organization, group.name)
            if code != self.nodes.primary_code
        ]  # fmt: skip
        threading.Thread(target=self._wait, args=(waits, code, end), name="pipemagic-wait", daemon=True).start()
        return [turn for _, turn in waits]

    def _wait(self, waits: list[tuple[DatabaseRecord, Waiter]], code: str, end: float) -> None:
        for record, turn in waits:
            try:
                wanted = self.stats(record, self.nodes.primary_code).index or 0
                while time.monotonic() < end and not turn.granted:
                    turn.granted = (self.stats(record, code).index or 0) >= wanted
                    if not turn.granted:
                        self._stopping.wait(POLL_EVERY)
            except (NodeDown, NoNamespace) as error:
                log.warning("nobody knows whether %s caught up: %s", code, error)
            turn.finish()

    def _state(self, code: str) -> str:
        return "paused" if code in self._paused else "down" if code in self._down else "ok"

    def is_up(self, code: str) -> bool:
        """Tell whether the node of a location answered when it was last looked at."""
        return code not in self._down

    def settings(self, record: DatabaseRecord) -> Settings:
        """Give all that sqld has to know of a database."""
        wanted = record.configuration
        block = self._blocks.get(record.organization, Block())
        # Which statements free space is not for sqld to tell: a full organization's write nothing at all.
        writes = block.writes or block.growth
        return Settings(
            self._keys.public(record), wanted.block_reads or bool(block.reads),
            wanted.block_writes or bool(block.reads or writes), block.reads or writes or None, wanted.size_limit,
        )  # fmt: skip

    def block(self, organization: str, block: Block | None) -> bool:
        """Note what is refused of all databases of an organization; tells whether that has changed."""
        before = self._blocks.get(organization)
        if block is None:
            self._blocks.pop(organization, None)
        else:
            self._blocks[organization] = block
        return _effect(before) != _effect(block)

    def stats(self, record: DatabaseRecord, code: str) -> Stats:
        """Give what the node of a location tells of a database; `NodeDown`, `NoNamespace`."""
        return self._admins[code].stats(label(record))

    def size(self, database: str) -> int:
        """Give the size of a database at the primary node in bytes, by its id; 0 where that cannot be told."""
        record = self._catalog.database_by_id(database)
        if record is None or not self.is_up(self.nodes.primary_code):
            return 0
        try:
            return self.stats(record, self.nodes.primary_code).size
        except (NodeDown, NoNamespace):
            return 0

    def is_missing(self, record: DatabaseRecord) -> bool:
        """Tell whether the primary has lost the database's namespace."""
        return record.id in self._missing

    # How it is done. The lock is held.

    def _apply_pauses(self) -> None:
        """Take down the nodes that any group has paused: a node serves all groups."""
        if self._local is None:
            return
        groups = [group for one in self._catalog.organizations.all() for group in self._catalog.groups(one.slug)]
        self._paused = {code for group in groups for code in group.paused}
        for code in self.nodes.by_code:
            self._local.set_paused(code, code in self._paused)
            if code in self._paused:
                self._down[code] = "it is paused"  # until it was looked at after that

    def _is_ours(self, name: str) -> bool:
        return self._catalog.database_by_host(f"{name}.{self._catalog.domain}") is not None

    def _make(self, record: DatabaseRecord) -> None:
        primary = self._admins[self.nodes.primary_code]
        self._namespaces.begin(record.id, label(record), [self.nodes.primary_code])
        with suppress(NamespaceExists):  # made just before a crash
            primary.create(label(record), self.settings(record))
        primary.configure(label(record), self.settings(record))  # a new namespace does not take all of them
        self._namespaces.made(record.id)

    def _follow(self, record: DatabaseRecord) -> None:
        """Let the replicas that can be reached follow the primary, with the key of now."""
        for code in record.locations:
            if code == self.nodes.primary_code or code not in self._admins:
                continue
            self._namespaces.add_node(record.id, code)
            try:
                self._admins[code].configure(label(record), self.settings(record))
            except NoNamespace:
                log.warning("the node %s does not find the namespace %s at its primary", code, label(record))
            except NodeDown as down:
                self._lost(code, down)

    def _reconcile(self, code: str) -> None:
        for organization in self._catalog.organizations.all():
            for record in self._catalog.databases(organization.slug):
                if code == self.nodes.primary_code:
                    self._restore(record)
                elif code in record.locations:
                    self._namespaces.add_node(record.id, code)
                    self._configure_replica(record, code)

    def _restore(self, record: DatabaseRecord) -> None:
        """Give the primary the namespace of a database whose creation was cut short, or its settings anew.

        A namespace that was there once and is gone had data: an empty one in its place would hide the loss.
        """
        if not self._namespaces.is_made(record.id):
            self._make(record)
            return
        try:
            self._admins[self.nodes.primary_code].configure(label(record), self.settings(record))
            self._missing.discard(record.id)
        except NoNamespace:
            if record.id not in self._missing:
                log.error("the primary node has lost the namespace %s; restore its folder, or delete the database",
                           label(record))  # fmt: skip
            self._missing.add(record.id)

    def _configure_replica(self, record: DatabaseRecord, code: str) -> None:
        try:
            self._admins[code].configure(label(record), self.settings(record))
        except NoNamespace:
            log.warning("the node %s does not find the namespace %s at its primary", code, label(record))

    def _lost(self, code: str, down: NodeDown) -> None:
        if self._down.get(code) != str(down):
            log.warning("%s", down)
        self._down[code] = str(down)


def _effect(block: Block | None) -> tuple[bool, bool, bool]:
    """Tell what a block does, without its words: they hold figures that change all the time."""
    return (False,) * 3 if block is None else (bool(block.reads), bool(block.writes), bool(block.growth))


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse with 503 what the primary node cannot be told."""
    try:
        yield
    except NodeDown as down:
        raise Refused(503, f"{down}; nothing was changed", "NODE_DOWN") from None
