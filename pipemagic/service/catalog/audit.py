"""The audit logs of organizations: who changed what, and when."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import apsw
import msgspec

from pipemagic.service.catalog.records import Record
from pipemagic.service.catalog.store import Store

log = logging.getLogger(__name__)

KEPT = 10_000
"""The number of newest entries of an organization that are kept, and at most a hundredth more."""


class AuditRecord(Record, frozen=True):
    """An entry; ``created`` is in Unix seconds, ``data`` names what was changed, as JSON."""

    code: str
    author: str
    origin: str
    created: float
    data: str


class AuditLogs:
    """The audit logs of the catalog."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, organization: str, code: str, author: str, origin: str, data: Mapping[str, Any]) -> None:
        """Add an entry, unless the organization was deleted meanwhile, or the disk does not allow it."""
        try:
            self._add(organization, code, author, origin, data)
        except apsw.Error:  # the change itself has been made
            log.exception("%s of %s is not in the audit log", code, organization)

    def _add(self, organization: str, code: str, author: str, origin: str, data: Mapping[str, Any]) -> None:
        with self._store.change(cached=False) as run:
            rows = run(
                "INSERT INTO audit_logs (organization, code, author, origin, created, data)"
                " SELECT slug, ?, ?, ?, ?, ? FROM organizations WHERE slug = ? RETURNING id",
                (code, author, origin, self._store.now(), msgspec.json.encode(data).decode(), organization),
            )
            if rows and rows[0][0] % (KEPT // 100) == 0:
                run(
                    "DELETE FROM audit_logs WHERE organization = ?1 AND id <= (SELECT id FROM audit_logs"
                    " WHERE organization = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
                    (organization, KEPT),
                )

    def page(self, organization: str, page: int, size: int) -> tuple[list[AuditRecord], int]:
        """Return a page of the entries, the newest first, and the number of all; pages count from 1."""
        records = self._store.records(
            AuditRecord,
            "SELECT code, author, origin, created, data FROM audit_logs WHERE organization = ?"
            " ORDER BY id DESC LIMIT ? OFFSET ?",
            (organization, size, (page - 1) * size),
        )
        count: int = self._store.rows("SELECT count(*) FROM audit_logs WHERE organization = ?", (organization,))[0][0]
        return records, count
