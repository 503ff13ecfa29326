"""What the catalog records about namespaces: the nodes that may hold one or have to remove one, and counts of rows.

sqld has no list of its namespaces, and a change of the catalog and a call to a node cannot be one step. So the catalog
records what was begun, and after a crash the engine finishes it. Namespaces in none of the tables belong to others and
are never touched.

SQL does not pass through the service, but sqld counts the rows of each namespace. They are read from time to time, and
what the quotas of an organization refuse becomes settings of its databases. So usage between two reads can exceed a
quota.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from pipemagic.service.catalog.records import DatabaseRecord
from pipemagic.service.catalog.store import Store
from pipemagic.service.catalog.usage import Counts, QuotaBlock, Quotas
from pipemagic.service.engine import EngineContext
from pipemagic.service.responses import Refused
from pipemagic.service.sqld.admin import NodeDown, NodeState, NoNamespace

log = logging.getLogger(__name__)

INTERVAL = 2.0
"""Seconds between two reads of the counts of organizations with a quota."""
ALL_EVERY = 30
"""The number of reads of which one includes all other organizations, whose counts are only displayed."""


def label(record: DatabaseRecord) -> str:
    """Return the name of a database's namespace: the first label of its host name, which sqld routes by."""
    return record.hostname.partition(".")[0]


class Removal(NamedTuple):
    """A namespace that a node still has to remove."""

    database: str
    label: str
    code: str


class Namespaces:
    """The tables ``namespaces...`` of the catalog; a trigger fills that of the removals."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, database: str, label: str, code: str) -> bool:
        """Record that the node of a location may hold the namespace; return False if the database was deleted.

        A node that had to remove it, because its location was removed from the group, keeps it now.
        """
        with self._store.change() as run:
            run("INSERT OR IGNORE INTO namespaces SELECT id, ?, 0 FROM databases WHERE id = ?", (label, database))
            run("INSERT OR IGNORE INTO namespace_nodes SELECT database, ? FROM namespaces WHERE database = ?",
                (code, database))  # fmt: skip
            rows = run("SELECT 1 FROM namespaces WHERE database = ?", (database,))
            if rows:
                run("DELETE FROM namespace_removals WHERE database = ? AND code = ?", (database, code))
            return bool(rows)

    def set_created(self, database: str) -> None:
        """Record that the namespace exists: if it is ever missing, its data is lost."""
        with self._store.change() as run:
            run("UPDATE namespaces SET made = 1 WHERE database = ?", (database,))

    def is_created(self, database: str) -> bool:
        """Return True if the namespace has existed."""
        return bool(self._store.rows("SELECT 1 FROM namespaces WHERE database = ? AND made", (database,)))

    def drop_nodes(self, database: str, locations: tuple[str, ...]) -> None:
        """Record that the nodes of all locations except these have to remove the namespace."""
        with self._store.change() as run:
            for label, code in run("SELECT label, code FROM namespace_nodes JOIN namespaces USING (database)"
                                   " WHERE database = ?", (database,)):  # fmt: skip
                if code not in locations:
                    run("DELETE FROM namespace_nodes WHERE database = ? AND code = ?", (database, code))
                    run("INSERT OR IGNORE INTO namespace_removals VALUES (?, ?, ?)", (database, label, code))

    def count(self, database: str, code: str, count: str, rows: Counts) -> Counts:
        """Record the count of a node; return the rows since the last time.

        A node that was killed continues with a count from some moments before: nothing is counted twice.
        """
        with self._store.change(cached=False) as run:
            last = run("SELECT rows_read, rows_written FROM namespace_counts"
                       " WHERE database = ? AND code = ? AND count = ?", (database, code, count))  # fmt: skip
            if not run("INSERT OR REPLACE INTO namespace_counts SELECT database, ?2, ?3, ?4, ?5 FROM namespaces"
                       " WHERE database = ?1 RETURNING 1", (database, code, count, *rows)):  # fmt: skip
                return Counts()  # it was deleted meanwhile
        read, written = last[0] if last else (0, 0)
        return Counts(max(0, rows.rows_read - read), max(0, rows.rows_written - written))

    def removals(self, label: str | None = None) -> list[Removal]:
        """Return the namespaces that nodes still have to remove (of one name), in the order of the requests."""
        rows = self._store.rows(
            "SELECT database, label, code FROM namespace_removals WHERE ?1 IS NULL OR label = ?1 ORDER BY rowid",
            (label,),
        )
        return [Removal(*row) for row in rows]

    def set_removed(self, removal: Removal) -> None:
        """Record that a node has removed a namespace."""
        with self._store.change() as run:
            run("DELETE FROM namespace_removals WHERE database = ? AND code = ?", (removal.database, removal.code))

    def group_rotation(self, group_id: str) -> int:
        """Return the number of the last rotation of all tokens of a group."""
        rows = self._store.rows('SELECT rotated FROM "groups" WHERE id = ?', (group_id,))
        return int(rows[0][0]) if rows else 0


class Metering:
    """Adds the counts of the nodes to the service's meter. ``configure`` applies a changed block to a database."""

    def __init__(
        self, context: EngineContext, nodes: Mapping[str, NodeState], configure: Callable[[DatabaseRecord], None]
    ) -> None:
        self._catalog, self._meter, self._clock = context.catalog, context.meter, context.clock
        self._nodes, self._configure = nodes, configure
        self._namespaces = Namespaces(context.catalog.store)
        self._reads = 0
        self._blocks: dict[str, QuotaBlock] = {}
        """The block that the settings of an organization's databases have, or get next."""
        self._unapplied: set[str] = set()
        """Organizations with a database whose settings may lack the block."""

    def block(self, slug: str) -> QuotaBlock:
        """Return the block of an organization as of the last read: a later one is applied by the next read."""
        if slug not in self._blocks:
            self._blocks[slug] = self._meter.organization_block(slug)
        return self._blocks[slug]

    def read(self) -> None:
        """Count new rows, then block or unblock databases if the quotas of their organization require it."""
        everything = self._reads % ALL_EVERY == 0
        self._reads += 1
        slugs = [organization.slug for organization in self._catalog.organizations.all()]
        for slug in slugs:
            if everything or self._catalog.usage.quotas(slug) != Quotas():
                for record in self._catalog.databases(slug):
                    self._count(record)
        self._meter.sweep(self._clock())
        for slug in slugs:
            before, block = self.block(slug), self._meter.organization_block(slug)
            self._blocks[slug] = block
            changed = _effect(before) != _effect(block)
            if changed or slug in self._unapplied:
                self._apply(slug, changed)

    def _count(self, record: DatabaseRecord) -> None:
        for code in record.locations:
            node = self._nodes.get(code)
            if node is None or node.down is not None:
                continue  # the node keeps its count
            with suppress(NodeDown, NoNamespace):
                stats = node.admin.stats(label(record))
                rows = Counts(stats.rows_read_count, stats.rows_written_count)
                new = self._namespaces.count(record.id, code, stats.id, rows)
                if new != Counts():
                    self._meter.count(record, *new)

    def _apply(self, slug: str, changed: bool) -> None:
        """Apply the block of an organization to its databases; if that fails, the next read tries again."""
        self._unapplied.add(slug)
        try:
            for record in self._catalog.databases(slug):
                self._configure(record)
        except Refused as refused:
            if changed:  # not at each attempt
                log.warning("quotas do not apply to the databases of %s yet: %s", slug, refused)
        else:
            self._unapplied.discard(slug)


def _effect(block: QuotaBlock) -> tuple[bool, ...]:
    """Return which statements a block refuses, without its reasons: they contain figures that change all the time."""
    return bool(block.reads), bool(block.writes), bool(block.growth)
