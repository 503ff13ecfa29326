"""The statements that were stopped because they exceeded a limit: a counter for ``/metrics``, and lines of the log.

Both name the database and the token, by its account and rights, so that an operator finds whom to suspend.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from enum import Enum

from prometheus_client.core import CounterMetricFamily

from pipemagic.service.auth.tokens import AccessGrant

log = logging.getLogger(__name__)

MOST_SERIES = 100
"""The databases and tokens that are named in the metrics; those that exceed a limit later count as `OTHER`."""
OTHER = "other"

LABELS = ("database", "account", "access", "reason")


class StopReason(Enum):
    """The limit that a statement exceeded; the value is the label in the metrics."""

    TIME = "time"
    MEMORY = "memory"
    DISK = "disk"
    FUNCTION = "function"
    WAL = "wal"


_WORDS = {
    StopReason.TIME: "it ran for too long", StopReason.MEMORY: "the memory was used up",
    StopReason.DISK: "its temporary files filled the disk",
    StopReason.FUNCTION: "it is in a function that cannot be interrupted, and was abandoned",
    StopReason.WAL: "others wrote too much to the database while it read",
}  # fmt: skip


class StoppedStatements:
    """Counts and logs stopped statements. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str, str, str]] = Counter()

    def add(self, grant: AccessGrant, reason: StopReason) -> None:
        """Count and log a statement of a token that exceeded a limit."""
        database, access = f"{grant.database.organization}/{grant.database.name}", grant.owner.access
        log.warning(
            "a statement on %s was stopped: %s (token of %s, %s)", database, _WORDS[reason], grant.subject, access
        )
        series = (database, grant.subject, access, reason.value)
        with self._lock:
            if series not in self._counts and len(self._counts) >= MOST_SERIES:
                series = (OTHER, OTHER, access, reason.value)
            self._counts[series] += 1

    def collect(self) -> CounterMetricFamily:
        """Return the counter."""
        family = CounterMetricFamily(
            "pipemagic_statements_stopped", "Statements that exceeded a limit, by database, account and rights (ro, rw)"
            f" of the token, and limit; after the first {MOST_SERIES} series the others are counted together.",
            labels=LABELS,
        )  # fmt: skip
        with self._lock:
            counts = sorted(self._counts.items())
        for series, count in counts:
            family.add_metric(series, count)
        return family
