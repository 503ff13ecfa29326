"""Rows that the nodes have counted, and the databases that are blocked since a quota is used up.

SQL does not pass through the service, but sqld counts the rows of each namespace. So they are asked for now and
then, and what the quotas say of an organization goes to the nodes as settings of its databases. A quota is
therefore passed by what is used between two looks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import apsw

from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.quotas import Meter
from pipemagic.service.registry.records import DatabaseRecord
from pipemagic.service.registry.usage import Counts, Quotas
from pipemagic.service.responses import Refused
from pipemagic.service.sqld.admin import NodeDown, NoNamespace
from pipemagic.service.sqld.engine import SqldEngine
from pipemagic.service.sqld.namespaces import Namespaces

log = logging.getLogger(__name__)

LOOK_EVERY = 2.0
"""Seconds between two looks at the databases of organizations that have a quota."""
SELDOM = 30
"""Of so many looks one is at all other databases, too: their counts are only shown."""


class Metering:
    """Counts with a `Meter` what the nodes tell, and blocks what it says. One call to a node at a time."""

    def __init__(self, engine: SqldEngine, catalog: Catalog, meter: Meter, clock: Callable[[], float]) -> None:
        self._engine, self._catalog, self._meter, self._clock = engine, catalog, meter, clock
        self._namespaces = Namespaces(catalog.store)
        self._looks = 0
        self._unsettled: set[str] = set()  # organizations with a database that does not know its block yet
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pipemagic-metering", daemon=True)

    def start(self) -> None:
        """Judge by the counts of before, then look at the nodes from time to time."""
        for organization in self._catalog.organizations.all():
            self._engine.block(organization.slug, self._meter.organization_block(organization.slug))
        self._thread.start()

    def close(self) -> None:
        """Stop, and write down what was counted."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._meter.flush()

    def look(self) -> None:
        """Count what is new, then block or let go the databases of organizations for which that has changed."""
        everything = self._looks % SELDOM == 0
        self._looks += 1
        slugs = [organization.slug for organization in self._catalog.organizations.all()]
        limited = {slug for slug in slugs if self._catalog.usage.quotas(slug) != Quotas()}
        for slug in slugs if everything else limited:
            for record in self._catalog.databases(slug):
                if self._stopping.is_set():
                    return
                self._count(record)
        self._meter.sweep(self._clock())
        for slug in slugs:
            self._judge(slug)

    def _count(self, record: DatabaseRecord) -> None:
        for code in record.locations:
            if not self._engine.is_up(code):
                continue
            try:
                stats = self._engine.stats(record, code)
            except (NodeDown, NoNamespace):
                continue  # its count waits there
            rows = Counts(stats.rows_read, stats.rows_written)
            new = self._namespaces.count(record.id, code, stats.count, rows)
            if new != Counts():
                self._meter.count(record, *new)

    def _judge(self, slug: str) -> None:
        changed = self._engine.block(slug, self._meter.organization_block(slug))
        if not changed and slug not in self._unsettled:
            return
        self._unsettled.discard(slug)
        for record in self._catalog.databases(slug):
            try:
                self._engine.configure(record)
            except (Refused, NoNamespace) as error:
                self._unsettled.add(slug)
                log.warning("quotas do not reach %s/%s yet: %s", slug, record.name, error)

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_EVERY):
            try:
                self.look()
            except apsw.Error:
                log.exception("what the nodes have counted cannot be noted; it is tried again")
