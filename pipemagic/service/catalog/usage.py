"""Counts the rows that databases read and write, and blocks organizations that have used up a quota.

Counts are kept in memory and written to the catalog every few seconds, so statements do not write to it; a crash
loses those of the last seconds.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import apsw

from pipemagic.service.catalog.records import DatabaseRecord, Record, utc
from pipemagic.service.catalog.store import Store
from pipemagic.service.responses import Refused
from pipemagic.service.top_queries import TopQueries

log = logging.getLogger(__name__)

FLUSH_EVERY = 5.0
"""Seconds between two writes to the catalog, and between two measurements of the storage."""

BLOCKED, OPERATION_BLOCKED = "BLOCKED", "Operation was blocked"

SUSPENDED = "the database {0} is suspended until a member of its organization resumes it (pipemagic db resume {0})"

DEFAULT = ""
"""The key of the quotas for all organizations without quotas of their own."""


class Counts(NamedTuple):
    """Rows that were read (an approximation) and written."""

    rows_read: int = 0
    rows_written: int = 0

    def plus(self, other: Counts) -> Counts:
        """Add two counts."""
        return Counts(self.rows_read + other.rows_read, self.rows_written + other.rows_written)


class Quotas(Record, frozen=True):
    """The quotas of an organization: rows in a calendar month (UTC), bytes at any time; 0: no limit."""

    rows_read: int = 0
    rows_written: int = 0
    storage_bytes: int = 0


PendingUsage = dict[tuple[str, str], Counts]
"""Counts that are not in the catalog yet, by organization and database (its id)."""

_SUMS = "SELECT coalesce(sum(rows_read), 0), coalesce(sum(rows_written), 0) FROM usage"


class UsageTables:
    """Usage and quotas in the catalog. A month is a string such as ``2026-01``."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def add(self, month: str, pending: PendingUsage) -> None:
        """Add counts to a month; skip those of deleted organizations."""
        with self.store.change(cached=False) as run:
            for (organization, database), counts in pending.items():
                run("INSERT INTO usage SELECT ?1, ?2, ?3, ?4, ?5 FROM organizations WHERE slug = ?3"
                    " ON CONFLICT DO UPDATE SET rows_read = rows_read + ?4, rows_written = rows_written + ?5",
                    (database, month, organization, *counts))  # fmt: skip

    def of_database(self, database_id: str, first: str, last: str) -> Counts:
        """Return the counts of a database from one month to another, inclusive."""
        condition = "WHERE database = ? AND month BETWEEN ? AND ?"
        return Counts(*self.store.rows(f"{_SUMS} {condition}", (database_id, first, last))[0])

    def of_organization(self, slug: str, month: str) -> Counts:
        """Return the counts of an organization in a month, including those of deleted databases."""
        return Counts(*self.store.rows(f"{_SUMS} WHERE organization = ? AND month = ?", (slug, month))[0])

    def quotas(self, slug: str) -> Quotas:
        """Return the quotas of an organization: its own, or the default ones."""
        return self.own_quotas(slug) or self.own_quotas(DEFAULT) or Quotas()

    def enforced_quotas(self, slug: str) -> Quotas:
        """Return the quotas of an organization; none if it has overages."""
        overages = self.store.rows("SELECT 1 FROM organizations WHERE slug = ? AND overages", (slug,))
        return Quotas() if overages else self.quotas(slug)

    def own_quotas(self, slug: str) -> Quotas | None:
        """Return the quotas that were set for this organization (or as `DEFAULT`)."""
        query = "SELECT rows_read, rows_written, storage_bytes FROM quotas WHERE organization = ?"
        return self.store.record(Quotas, query, (slug,))

    def set_quotas(self, slug: str, quotas: Quotas | None) -> None:
        """Set the quotas of an organization (or the `DEFAULT`); None removes them."""
        with self.store.change() as run:
            run("DELETE FROM quotas WHERE organization = ?", (slug,))
            if quotas is not None:
                run("INSERT INTO quotas VALUES (?, ?, ?, ?)",
                    (slug, quotas.rows_read, quotas.rows_written, quotas.storage_bytes))  # fmt: skip


@dataclass(frozen=True)
class QuotaBlock:
    """The reasons for which statements are refused; an empty one refuses none."""

    reads: str = ""
    """Refuses every statement."""
    writes: str = ""
    """Refuses statements that write."""
    growth: str = ""
    """Refuses statements that write, unless they free space."""

    def reason(self, *, writes: bool, frees: bool = False) -> str:
        """Return why a statement is refused; an empty string if it is not."""
        if self.reads or not writes:
            return self.reads
        return self.writes or ("" if frees else self.growth)

    def check(self, *, writes: bool) -> None:
        """Raise `Refused` (403) for a transfer of a database that may not be read (and written)."""
        if reason := self.reason(writes=writes):
            raise Refused(403, f"{OPERATION_BLOCKED}: {reason}", BLOCKED)


NO_BLOCK = QuotaBlock()

_MONTH_ENDS = "switch its overages on, or wait for the first of next month (UTC)"
_ROWS_READ = "the organization {} has read {:,} rows this month (quota: {:,}); " + _MONTH_ENDS
_ROWS_WRITTEN = "the organization {} has written {:,} rows this month (quota: {:,}); " + _MONTH_ENDS
_STORAGE = (
    "the organization {} stores {:,} bytes (quota: {:,}); "
    "delete rows or tables and run VACUUM, or switch its overages on"
)


def settings_block(record: DatabaseRecord) -> QuotaBlock:
    """Return what the settings of a database refuse."""
    configuration = record.configuration
    if configuration.suspended:
        reason = SUSPENDED.format(record.name)
        return QuotaBlock(reason, reason)
    return QuotaBlock(
        "reads from this database are blocked (block_reads)" if configuration.block_reads else "",
        "writes to this database are blocked (block_writes)" if configuration.block_writes else "",
    )


@dataclass
class _Allowance:
    """The quotas of an organization and what it has used of them."""

    organization: str
    quotas: Quotas
    used: Counts
    storage: int

    def block(self) -> QuotaBlock:
        """Return what is refused."""
        return QuotaBlock(
            self._reason(_ROWS_READ, self.used.rows_read, self.quotas.rows_read),
            self._reason(_ROWS_WRITTEN, self.used.rows_written, self.quotas.rows_written),
            self._reason(_STORAGE, self.storage, self.quotas.storage_bytes),
        )

    def _reason(self, text: str, usage: int, quota: int) -> str:
        return text.format(self.organization, usage, quota) if quota and usage >= quota else ""


class UsageMeter:
    """Counts rows and blocks statements. ``now`` returns Unix seconds, ``size`` the bytes of a database by its id.

    Storage is measured by `sweep`, in its thread: requests never wait for the file system, except the first one of an
    organization with a storage quota.
    """

    def __init__(self, usage: UsageTables, *, now: Callable[[], float], size: Callable[[str], int]) -> None:
        self.size = size
        self.reclaim: Callable[[Sequence[str], int], int] = lambda *_: 0
        """Frees bytes of some databases that their owners can do without: their backups. Returns how many."""
        self._usage, self._now = usage, now
        self._lock = threading.Lock()
        self._pending: PendingUsage = {}
        self._allowances: dict[str, _Allowance | None] = {}
        self._storage: dict[str, int] = {}
        """Used bytes of each organization with a storage quota that had a request."""
        self._swept = 0.0
        self._flushing = threading.Lock()
        usage.store.on_change.append(self._clear)
        self.queries = TopQueries(usage.store, now)
        """The statements that are slow or frequent."""

    # -- for each statement

    def block(self, record: DatabaseRecord) -> QuotaBlock:
        """Return what is refused of a database now."""
        configuration = record.configuration
        if configuration.block_reads or configuration.block_writes:
            return settings_block(record)
        return self.organization_block(record.organization)

    def organization_block(self, slug: str) -> QuotaBlock:
        """Return what the quotas of an organization refuse now."""
        try:
            allowance = self._allowances[slug]
        except KeyError:
            allowance = self._load(slug)
        return NO_BLOCK if allowance is None else allowance.block()

    def count(self, record: DatabaseRecord, rows_read: int, rows_written: int) -> None:
        """Count the rows of one statement."""
        key = record.organization, record.id
        with self._lock:
            read, written = self._pending.get(key, (0, 0))
            self._pending[key] = Counts(read + rows_read, written + rows_written)
            allowance = self._allowances.get(record.organization)
            if allowance is not None:
                allowance.used = allowance.used.plus(Counts(rows_read, rows_written))

    # -- from time to time

    @property
    def month(self) -> str:
        """The calendar month of UTC, as ``2026-01``."""
        return month_of(self._now())

    def sweep(self, clock: float) -> None:
        """Write the counts and measure the storage if that is due; ``clock`` is in monotonic seconds."""
        if clock - self._swept >= FLUSH_EVERY:
            self._swept = clock
            self.flush()
            for slug in list(self._storage):
                self._measure(slug)
            self._clear()

    def flush(self) -> None:
        """Write the counts to the catalog; if that fails, keep them for the next time."""
        with self._flushing:
            with self._lock:
                pending, self._pending = self._pending, {}
            if not pending and not self.queries.pending:
                return
            try:
                with self._usage.store.change(cached=False):
                    self._usage.add(self.month, pending)
                    self.queries.flush()
            except apsw.Error as error:
                log.warning("the usage cannot be written to the catalog: %s", error)
                with self._lock:
                    for key, counts in pending.items():
                        self._pending[key] = counts.plus(self._pending.get(key, Counts()))

    def storage_left(self, slug: str) -> float:
        """Measure the storage of an organization; return the bytes up to its quota, infinity without a quota."""
        quota = self._usage.enforced_quotas(slug).storage_bytes
        return quota - sum(map(self.size, self._databases(slug))) if quota else math.inf

    def _databases(self, slug: str) -> list[str]:
        rows = self._usage.store.rows("SELECT id FROM databases WHERE organization = ?", (slug,))
        return [database for (database,) in rows]

    def _clear(self) -> None:
        self._allowances = {}  # no lock: the caller may hold that of the catalog, which is always taken last

    def _load(self, slug: str) -> _Allowance | None:
        allowances = self._allowances  # an entry of this dictionary is out of date once it was replaced
        quotas = self._usage.enforced_quotas(slug)
        if quotas == Quotas():
            allowances[slug] = None
            return None
        if quotas.storage_bytes and slug not in self._storage:
            self._measure(slug)
        with self._flushing, self._lock:  # each count is either in the catalog or pending
            usage = self._usage.of_organization(slug, self.month)
            for (organization, _), counts in self._pending.items():
                if organization == slug:
                    usage = usage.plus(counts)
            allowance = allowances[slug] = _Allowance(slug, quotas, usage, self._storage.get(slug, 0))
        return allowance

    def _measure(self, slug: str) -> None:
        """Measure the storage of an organization, unless it has no storage quota any more."""
        if quota := self._usage.enforced_quotas(slug).storage_bytes:
            databases = self._databases(slug)
            size = sum(map(self.size, databases))
            if size >= quota:
                size -= self.reclaim(databases, size - quota + 1)
            self._storage[slug] = size
        else:
            self._storage.pop(slug, None)


def month_of(seconds: float) -> str:
    """Return the calendar month of UTC of a time in Unix seconds."""
    return utc(seconds).isoformat()[:7]
