"""The two windows of a server-side connection: how much is left of them."""

from __future__ import annotations

from dataclasses import dataclass

from pipemagic.client.stream import ClientStream
from pipemagic.hrana.stream import IDLE_LIMIT, TRANSACTION_LIMIT


@dataclass(frozen=True)
class Clocks:
    """Seconds left. ``idle`` is None without a server-side connection, ``transaction`` without a transaction."""

    idle: float | None = None
    transaction: float | None = None

    @property
    def transaction_left(self) -> str:
        """What is left of the transaction's window, in words; '' without a transaction."""
        return "" if self.transaction is None else _left(self.transaction, TRANSACTION_LIMIT)

    @property
    def idle_left(self) -> str:
        """What is left of the idle time, in words; '' without a server-side connection."""
        return "" if self.idle is None else _left(self.idle, IDLE_LIMIT)


def read(stream: ClientStream | None) -> Clocks:
    """Read the clocks of a stream, without asking its server."""
    if stream is None or not stream.is_open:
        return Clocks()
    idle, age = stream.idle_for(), stream.transaction_age()
    return Clocks(
        max(0.0, IDLE_LIMIT - idle) if idle <= IDLE_LIMIT or age is not None else None,
        None if age is None else max(0.0, TRANSACTION_LIMIT - age),
    )


def _left(seconds: float, limit: float) -> str:
    return f"{seconds:.1f} of {limit:.0f} s left" if seconds else f"its {limit:.0f} s are over"
