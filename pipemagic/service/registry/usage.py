"""What is kept of usage: counts per database and calendar month, and the quotas of organizations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pipemagic.service.registry.store import Store

DEFAULT = ""
"""Stands for every organization that has no quotas of its own."""


class Counts(NamedTuple):
    """Rows that were read (an approximation) and written."""

    rows_read: int = 0
    rows_written: int = 0

    def plus(self, other: Counts) -> Counts:
        """Add two counts up."""
        return Counts(self.rows_read + other.rows_read, self.rows_written + other.rows_written)


@dataclass(frozen=True)
class Quotas:
    """What an organization may use: rows in a calendar month (UTC), bytes at any time; 0: no limit."""

    rows_read: int = 0
    rows_written: int = 0
    storage_bytes: int = 0


class DatabaseCounts(NamedTuple):
    """What one database has used and has not been written down."""

    organization: str
    database: str
    counts: Counts


class Usage:
    """Usage and quotas in the catalog. A month is given as ``2026-01``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, month: str, used: Iterable[DatabaseCounts]) -> None:
        """Add to what databases have used in a month; what is for an organization that is gone is dropped."""
        with self._store.note() as run:
            for organization, database, counts in used:
                run("INSERT INTO usage SELECT ?1, ?2, ?3, ?4, ?5 FROM organizations WHERE slug = ?3"
                    " ON CONFLICT DO UPDATE SET rows_read = rows_read + ?4, rows_written = rows_written + ?5",
                    (database, month, organization, *counts))  # fmt: skip

    def of_database(self, database_id: str, first: str, last: str) -> Counts:
        """Add up what one database has used from one month to another, both included."""
        return Counts(*self._store.rows(
            f"{_SUMS} WHERE database = ? AND month BETWEEN ? AND ?", (database_id, first, last)
        )[0])  # fmt: skip

    def of_organization(self, slug: str, month: str) -> Counts:
        """Add up what an organization has used in a month, with databases that are deleted now."""
        return Counts(*self._store.rows(f"{_SUMS} WHERE organization = ? AND month = ?", (slug, month))[0])

    def quotas(self, slug: str) -> Quotas:
        """Give the quotas of an organization: its own, else those for all."""
        return self.own_quotas(slug) or self.own_quotas(DEFAULT) or Quotas()

    def own_quotas(self, slug: str) -> Quotas | None:
        """Give the quotas that were set for just this organization (or as `DEFAULT`)."""
        rows = self._store.rows(
            "SELECT rows_read, rows_written, storage_bytes FROM quotas WHERE organization = ?", (slug,)
        )  # fmt: skip
        return Quotas(*rows[0]) if rows else None

    def set_quotas(self, slug: str, quotas: Quotas | None) -> None:
        """Set the quotas of an organization (or the `DEFAULT`); None removes them."""
        with self._store.change() as run:
            run("DELETE FROM quotas WHERE organization = ?", (slug,))
            if quotas is not None:
                run("INSERT INTO quotas VALUES (?, ?, ?, ?)",
                    (slug, quotas.rows_read, quotas.rows_written, quotas.storage_bytes))  # fmt: skip


_SUMS = "SELECT coalesce(sum(rows_read), 0), coalesce(sum(rows_written), 0) FROM usage"
