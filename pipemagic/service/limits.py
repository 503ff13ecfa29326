"""The limits of the service."""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from functools import partial

from pipemagic.hrana.stream import IDLE_LIMIT, TRANSACTION_LIMIT
from pipemagic.service.executor import Tenant, Waiter

MB = 1024 * 1024


class LimitMode(Enum):
    """When the time limits of streams and transactions end them."""

    EXACT = "exact"  # always
    RELAXED = "relaxed"  # only if another request waits for what they hold, and after `Limits.longest` in any case


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    idle: float = IDLE_LIMIT  # without a request on a stream
    transaction: float = TRANSACTION_LIMIT  # from BEGIN to COMMIT
    mode: LimitMode = LimitMode.EXACT
    longest: float = 3600.0  # a stream without a request, and a transaction, in any case if the limits are relaxed
    body: int = 100 * MB  # a text of 16 MB whose characters are all escaped (\\u0001) has 96 MB
    statement: int = 16 * MB  # the text of one statement
    value: int = 16 * MB  # an argument, and a value or row that SQL builds; a file may hold larger ones
    database: int | None = None  # a database file; its own size_limit can only be smaller
    temporary: int = 256 * MB  # of the temporary tables of one stream
    temporary_reserve: int = 256 * MB
    """Free space of the disk of temporary files below which the statement with the largest ones is stopped; of a small
    disk, a twentieth."""
    disk_reserve: int = 256 * MB  # free space that writes to databases leave; of a small disk, a twentieth
    response: int = 128 * MB
    memory: int = 1024 * MB
    """All memory that requests can take: half of it is SQLite's (`heap`), half is one `MemoryBudget`."""
    streams: int = 4096
    database_streams: int | None = None  # of one database (default: see `streams_of_database`)
    writer_wait: float = 5.0
    statement_time: float = 60.0  # how long one statement may run; the time of a slow reader does not count
    reader_wait: float = 30.0  # how long the rows of a cursor wait for a reader that reads nothing
    # Readers give way to a checkpoint beyond the first size of the WAL, and are stopped at the second one.
    drained_wal: int = 64 * MB
    wal: int = 256 * MB
    drain_wait: float = 10.0  # how long a reader waits for those that began before it
    checkpoint_wait: float = 1.0  # how long a reader waits once these have ended
    tombstone: float = 300.0  # how long an expired stream is distinguished from an unknown one
    idle_connections: int = 8  # clean SQLite connections kept per database
    idle_connections_in_all: int = 500  # of all databases; each needs three file handles and 200 kB
    idle_connection_age: float = 60.0
    replica_wait: float = 5.0  # how long a request waits at a replica for the index that it names

    @property
    def relaxed(self) -> bool:
        """Whether a stream or transaction may last longer than its limit while nothing waits for it."""
        return self.mode is LimitMode.RELAXED

    @property
    def longest_idle(self) -> float:
        """Seconds without a request after which a stream ends in any case."""
        return self.longest if self.relaxed else self.idle

    @property
    def longest_transaction(self) -> float:
        """Seconds after which a transaction ends in any case."""
        return self.longest if self.relaxed else self.transaction

    @property
    def streams_of_database(self) -> int:
        """The number of streams that one database may have open: by default, a quarter of all."""
        return math.ceil(self.streams / 4) if self.database_streams is None else self.database_streams

    def size_of(self, own: int | None) -> int | None:
        """Return the size limit of a database whose ``own`` limit is given; None without any limit."""
        limits = [limit for limit in (self.database, own) if limit is not None]
        return min(limits, default=None)


_SIZE = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?\s*(?:([kmgt])i?)?b?", re.IGNORECASE | re.ASCII)
_UNITS: dict[str, int] = {"": 1, "k": 1024, "m": MB, "g": 1024 * MB, "t": 1024 * 1024 * MB}


def parse_size(text: str) -> int | None:
    """Parse a size such as ``256mb``, ``1.5 GB`` or ``10000`` (units of 1024) to bytes; None if it is not valid."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    whole, fraction, unit = int(match[1]), match[2] or "0", _UNITS[(match[3] or "").lower()]
    parts: int = int(fraction) * unit // 10 ** len(fraction)
    return min(whole * unit + parts, 2**62)


class MemoryBudget:
    """Memory for the bodies, responses and stored texts of all clients together: up to ``total`` bytes. Thread-safe.

    A database may have as much as it leaves free: a single one half of the total, each of two a third, each of sixteen
    a seventeenth. So there is memory for another one, however many there are.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.lock = threading.Lock()
        self._taken = 0
        self._by_database: Counter[Tenant] = Counter()

    @property
    def largest(self) -> int:
        """The most bytes that one database can have."""
        return self.total // 2

    @property
    def taken(self) -> int:
        """The bytes that are in use."""
        return self._taken

    def reserve(self, tenant: Tenant) -> Reservation:
        """Return a reservation of 0 bytes."""
        return Reservation(self, tenant)

    def add(self, tenant: Tenant, size: int) -> bool:
        """Take ``size`` bytes, or return them if negative; return False, and take nothing, if they are too many.

        Call it under ``lock``.
        """
        overall, own = self._taken + size, self._by_database[tenant] + size
        if size > 0 and own > self.total - overall:
            return False
        self._taken, self._by_database[tenant] = overall, own
        if not own:
            del self._by_database[tenant]
        return True


class Reservation:
    """The bytes of a `MemoryBudget` that one request, or the stored texts of one stream, have. Thread-safe."""

    def __init__(self, budget: MemoryBudget, tenant: Tenant) -> None:
        self._budget, self.tenant = budget, tenant
        self.size = 0
        self._thread_left: Waiter | None = None

    def resize(self, size: int) -> bool:
        """Change the reservation to ``size`` bytes; return False, and change nothing, if they are too many."""
        if size != self.size:
            with self._budget.lock:
                if not self._budget.add(self.tenant, size - self.size):
                    return False
                self.size = size
        return True

    def release(self) -> None:
        """Return all bytes: now, or when the thread that still uses them has left."""
        if self._thread_left is None:
            self.resize(0)
        else:
            self._thread_left.add_done_callback(partial(self.resize, 0))

    def release_after(self, thread_left: Waiter) -> None:
        """Let `release` wait for the thread of an abandoned statement, which uses the bytes until it has left."""
        self._thread_left = thread_left
