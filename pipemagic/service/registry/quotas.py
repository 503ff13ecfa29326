"""Counting what databases use, and stopping what goes beyond an organization's quotas.

Counts are kept in memory and written to the catalog every few seconds, so that a statement costs no write there;
a crash loses those of the last seconds. Whether a quota is used up is judged by them before each statement.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import apsw

from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.records import DatabaseRecord
from pipemagic.service.registry.usage import Counts, DatabaseCounts, Quotas
from pipemagic.service.sqlite.statement import Rejected

log = logging.getLogger(__name__)

FLUSH_EVERY = 5.0
"""Seconds between two writes to the catalog: as much a crash may lose; storage is measured as often."""

BLOCKED = "BLOCKED"


@dataclass(frozen=True)
class Block:
    """Why statements are refused at present; an empty reason refuses none."""

    reads: str = ""
    """Against every statement."""
    writes: str = ""
    """Against statements that write."""
    growth: str = ""
    """Against statements that write, unless they free space."""

    def reason(self, *, writes: bool, frees: bool = False) -> str:
        """Tell why a statement is refused; empty if it is not."""
        if self.reads or not writes:
            return self.reads
        return self.writes or ("" if frees else self.growth)


@dataclass
class _Tally:
    """What one database has used and is not written down yet."""

    organization: str
    rows_read: int = 0
    rows_written: int = 0


@dataclass
class _Allowance:
    """How far an organization has used its quotas up."""

    organization: str
    quotas: Quotas
    used: Counts
    storage: int
    overages: bool

    def block(self) -> Block | None:
        """Judge; None if nothing is refused."""
        if self.overages:
            return None
        block = Block(
            self._spent("read", self.used.rows_read, self.quotas.rows_read),
            self._spent("written", self.used.rows_written, self.quotas.rows_written),
            self._full(),
        )
        return block if block.reads or block.writes or block.growth else None

    def _spent(self, verb: str, used: int, quota: int) -> str:
        if not quota or used < quota:
            return ""
        return (
            f"the organization {self.organization} has {verb} {used:,} rows this month, its quota is {quota:,}; "
            "switch its overages on, or wait for the first of next month (UTC)"
        )

    def _full(self) -> str:
        quota = self.quotas.storage_bytes
        if not quota or self.storage < quota:
            return ""
        return (
            f"the organization {self.organization} stores {self.storage:,} bytes, its quota is {quota:,}; "
            "delete rows or tables and run VACUUM, or switch its overages on"
        )


def blocked(reason: str) -> Rejected:
    """Refuse a statement."""
    return Rejected(f"Operation was blocked: {reason}", BLOCKED)


class Meter:
    """Counts rows and refuses statements. ``now`` gives Unix seconds, ``size`` the bytes that a database's id takes."""

    def __init__(self, catalog: Catalog, *, now: Callable[[], float], size: Callable[[str], int]) -> None:
        self._catalog, self._now, self._size = catalog, now, size
        self._lock = threading.Lock()
        self._tallies: dict[str, _Tally] = {}
        self._allowances: dict[str, _Allowance | None] = {}
        self._swept = 0.0
        self._flushing = threading.Lock()
        catalog.on_change(self._forget)

    # -- for each statement

    def check(self, record: DatabaseRecord, *, writes: bool) -> None:
        """Let a piece of work pass that reads (and writes) a database, or raise `Rejected` with the code BLOCKED."""
        block = self.block(record)
        reason = "" if block is None else block.reason(writes=writes)
        if reason:
            raise blocked(reason)

    def block(self, record: DatabaseRecord) -> Block | None:
        """Give what is refused of a database at present; None, at the price of a look, where nothing can be."""
        configuration = record.configuration
        if configuration.block_reads or configuration.block_writes:
            return Block(
                "reads of this database are switched off (block_reads)" if configuration.block_reads else "",
                "writes to this database are switched off (block_writes)" if configuration.block_writes else "",
            )
        return self.organization_block(record.organization)

    def organization_block(self, slug: str) -> Block | None:
        """Give what the quotas of an organization refuse at present."""
        try:
            allowance = self._allowances[slug]
        except KeyError:
            allowance = self._load(slug)
        return None if allowance is None else allowance.block()

    def count(self, record: DatabaseRecord, rows_read: int, rows_written: int) -> None:
        """Count the rows of one statement."""
        with self._lock:
            tally = self._tallies.get(record.id)
            if tally is None:
                tally = self._tallies[record.id] = _Tally(record.organization)
            tally.rows_read += rows_read
            tally.rows_written += rows_written
            allowance = self._allowances.get(record.organization)
            if allowance is not None:
                allowance.used = allowance.used.plus(Counts(rows_read, rows_written))

    # -- now and then

    @property
    def month(self) -> str:
        """The calendar month of UTC, as ``2026-01``."""
        return month_of(self._now())

    def size(self, database_id: str) -> int:
        """Give the bytes that a database takes on the disk, its replicas not included."""
        return self._size(database_id)

    def sweep(self, clock: float) -> None:
        """Write the counts down and measure anew, if it is time to; ``clock`` is in seconds that only grow."""
        if clock - self._swept >= FLUSH_EVERY:
            self._swept = clock
            self.flush()
            self._forget()

    def flush(self) -> None:
        """Write the counts down; if the catalog cannot be written to they are kept for the next time."""
        with self._flushing:
            with self._lock:
                tallies, self._tallies = self._tallies, {}
            if not tallies:
                return
            try:
                self._catalog.usage.add(self.month, [
                    DatabaseCounts(tally.organization, database, Counts(tally.rows_read, tally.rows_written))
                    for database, tally in tallies.items()
                ])  # fmt: skip
            except apsw.Error as error:
                log.warning("the usage cannot be written down: %s", error)
                self._take_back(tallies)

    def _take_back(self, tallies: dict[str, _Tally]) -> None:
        with self._lock:
            for database, tally in tallies.items():
                kept = self._tallies.setdefault(database, _Tally(tally.organization))
                kept.rows_read += tally.rows_read
                kept.rows_written += tally.rows_written

    def _forget(self) -> None:
        self._allowances = {}  # no lock: it is called while the catalog's is held, which is to be taken last

    def _load(self, slug: str) -> _Allowance | None:
        allowances = self._allowances  # what is forgotten meanwhile stays forgotten
        usage = self._catalog.usage
        quotas = usage.quotas(slug)
        if quotas == Quotas():
            allowances[slug] = None
            return None
        storage = 0
        if quotas.storage_bytes:
            storage = sum(self._size(database.id) for database in self._catalog.databases(slug))
        overages = self._catalog.organizations.get(slug).overages
        with self._flushing, self._lock:  # each count is either in the catalog or in the tallies
            used = usage.of_organization(slug, self.month)
            for tally in self._tallies.values():
                if tally.organization == slug:
                    used = used.plus(Counts(tally.rows_read, tally.rows_written))
            allowance = allowances[slug] = _Allowance(slug, quotas, used, storage, overages)
        return allowance


def month_of(moment: float) -> str:
    """Give the calendar month of UTC that a moment (Unix seconds) is in."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m")
