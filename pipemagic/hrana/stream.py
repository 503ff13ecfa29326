"""The life of a stream and of a transaction, as tables that both sides of the wire follow.

Source: the requirement's states (none, open, closed; 10 s idle, 5 s for a transaction) and the specification's
rule that a stream takes one request at a time and every answer brings a new baton.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pipemagic.errors import StreamError

IDLE_LIMIT = 10.0
"""Seconds without a request after which a server closes a stream; the clock starts at the answer."""

TRANSACTION_LIMIT = 5.0
"""Seconds from BEGIN within which a transaction must be committed."""


class Phase(Enum):
    """Where a stream is in its life."""

    IDLE = "idle"  # the baton is good for one more request
    IN_USE = "in use"  # a request is under way; the old baton is spent
    CLOSED = "closed"  # ended on purpose
    EXPIRED = "expired"  # idle for too long
    LOST = "lost"  # no answer came, so nobody knows what ran


MOVES = {
    (Phase.IDLE, "begin"): Phase.IN_USE,
    (Phase.IN_USE, "finish"): Phase.IDLE,
    (Phase.IN_USE, "close"): Phase.CLOSED,
    (Phase.IN_USE, "lose"): Phase.LOST,
    (Phase.IDLE, "expire"): Phase.EXPIRED,
    (Phase.IN_USE, "expire"): Phase.EXPIRED,
}
"""Which event leads from which phase to which; everything else is an error."""


@dataclass
class Stream:
    """One stream, as either side sees it: no sockets, no clock, no SQLite."""

    baton: str | None = None
    phase: Phase = Phase.IDLE

    def move(self, event: str) -> None:
        """Follow MOVES; StreamError for an event that the phase does not have."""
        following = MOVES.get((self.phase, event))
        if following is None:
            raise StreamError(f"cannot {event} a stream that is {self.phase.value}")
        self.phase = following


class Tx(Enum):
    """The transaction of a stream."""

    NONE = "none"  # autocommit
    OPEN = "open"  # BEGIN or a first SAVEPOINT ran
    LOST = "lost"  # the server rolled it back and the other side has not reacted to that yet


TX_MOVES = {
    (Tx.NONE, "open"): Tx.OPEN,
    (Tx.OPEN, "end"): Tx.NONE,
    (Tx.OPEN, "lose"): Tx.LOST,
    (Tx.LOST, "settle"): Tx.NONE,
}
"""The life of a transaction: a lost one must be settled before anything else happens on the stream."""


@dataclass
class Transaction:
    """The transaction of one stream, as either side sees it."""

    state: Tx = Tx.NONE

    def move(self, event: str) -> None:
        """Follow TX_MOVES; StreamError for an event that the state does not have."""
        following = TX_MOVES.get((self.state, event))
        if following is None:
            raise StreamError(f"cannot {event} a transaction that is {self.state.value}")
        self.state = following

    def observe(self, *, autocommit: bool) -> None:
        """Take over what the database engine says after a statement."""
        if autocommit and self.state is Tx.OPEN:
            self.move("end")
        elif not autocommit and self.state is Tx.NONE:
            self.move("open")
