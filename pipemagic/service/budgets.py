"""Limits on the memory for the requests or responses of all clients together."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from pipemagic.service.executor import Tenant

DATABASE_SHARE, ACCOUNT_SHARE = 1 / 2, 3 / 4
"""The largest shares of a budget that the requests of one database, and of one account, can use."""


class MemoryBudget:
    """Counts up to ``total`` bytes, of which one database and one account get at most their shares. Thread-safe."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._lock = threading.Lock()
        self._taken = 0
        self._by_database: Counter[str] = Counter()
        self._by_account: Counter[str] = Counter()
        self._on_release: list[Callable[[], object]] = []

    def take(self, tenant: Tenant, size: int) -> bool:
        """Take ``size`` bytes; return False if fewer are left, in total or for the tenant."""
        with self._lock:
            if (
                self._taken + size > self.total
                or self._by_database[tenant.database] + size > self.total * DATABASE_SHARE
                or self._by_account[tenant.account] + size > self.total * ACCOUNT_SHARE
            ):
                return False
            self._add(tenant, size)
            return True

    def release(self, tenant: Tenant, size: int) -> None:
        """Return bytes and call the callbacks."""
        with self._lock:
            self._add(tenant, -size)
            callbacks, self._on_release = self._on_release, []
        for callback in callbacks:
            callback()

    def _add(self, tenant: Tenant, size: int) -> None:
        self._taken += size
        for counts, key in ((self._by_database, tenant.database), (self._by_account, tenant.account)):
            counts[key] += size
            if not counts[key]:
                del counts[key]

    def when_released(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` once, at the next release, in the thread that releases."""
        with self._lock:
            self._on_release.append(callback)
