"""Counts of rows from the nodes, and blocks of databases whose organization has used up a quota.

SQL does not pass through the service, but sqld counts the rows of each namespace. They are read from time to time, and
what the quotas of an organization refuse becomes settings of its databases. So usage between two reads can exceed a
quota.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from pipemagic.service.catalog.records import DatabaseRecord
from pipemagic.service.catalog.usage import Counts, QuotaBlock, Quotas
from pipemagic.service.engine import EngineContext
from pipemagic.service.responses import Refused
from pipemagic.service.sqld.admin import NodeDown, NodeState, NoNamespace
from pipemagic.service.sqld.keys import label
from pipemagic.service.sqld.namespaces import Namespaces

log = logging.getLogger(__name__)

INTERVAL = 2.0
"""Seconds between two reads of the counts of organizations with a quota."""
ALL_EVERY = 30
"""The number of reads of which one includes all other organizations, whose counts are only displayed."""


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
