"""The limits of the service."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum

from pipemagic.hrana.stream import IDLE_LIMIT, TRANSACTION_LIMIT

MB = 1024 * 1024


class LimitMode(Enum):
    """When the time limits of streams and transactions end them."""

    EXACT = "exact"  # always
    RELAXED = "relaxed"  # only if another request waits for what they hold, and after `LONGEST` in any case


LONGEST = 3600.0
"""Seconds after which a stream without a request, and a transaction, end in any case if the limits are relaxed."""


@dataclass(frozen=True)
class Limits:
    """What an option of `pipemagic serve` sets, and the time limits of streams. Sizes in bytes, times in seconds."""

    idle: float = IDLE_LIMIT  # without a request on a stream
    transaction: float = TRANSACTION_LIMIT  # from BEGIN to COMMIT
    mode: LimitMode = LimitMode.EXACT
    body: int = 100 * MB  # a text of 16 MB whose characters are all escaped (\\u0001) has 96 MB
    value: int = 16 * MB  # an argument, and a value or row that SQL builds; a file may hold larger ones
    database: int | None = None  # a database file; its own size_limit can only be smaller
    response: int = 128 * MB
    memory: int = 1024 * MB
    """All memory that requests can take: half of it is SQLite's heap, half is one `MemoryBudget` (see `memory`)."""
    streams: int = 4096
    database_streams: int | None = None  # of one database (default: see `streams_of_database`)
    statement_time: float = 60.0  # how long one statement may run; the time of a slow reader does not count

    @property
    def relaxed(self) -> bool:
        """True if a stream or transaction may last longer than its limit while nothing waits for it."""
        return self.mode is LimitMode.RELAXED

    @property
    def longest_idle(self) -> float:
        """Seconds without a request after which a stream ends in any case."""
        return LONGEST if self.relaxed else self.idle

    @property
    def longest_transaction(self) -> float:
        """Seconds after which a transaction ends in any case."""
        return LONGEST if self.relaxed else self.transaction

    @property
    def streams_of_database(self) -> int:
        """The number of streams that one database may have open: by default, a quarter of all."""
        return math.ceil(self.streams / 4) if self.database_streams is None else self.database_streams

    def size_of(self, own: int | None) -> int | None:
        """Return the size limit of a database with the limit ``own``; None without any limit."""
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
