"""The states of a stream and of its transaction: one table of each, for client and server.

Sources: the states of the requirement (none, open, closed; 10 s idle, 5 s for a transaction), and the rule of the
specification that a stream takes one request at a time and every response brings a new baton.
"""

from __future__ import annotations

from enum import Enum

from pipemagic.errors import StreamError

IDLE_LIMIT = 10.0
"""Seconds without a request after which a server closes a stream, counted from the response."""

TRANSACTION_LIMIT = 5.0
"""Seconds from BEGIN within which a transaction must be committed."""


LIMITS_HEADER, STRICT, RELAXED = b"pipemagic-limits", "strict", "relaxed"
"""The header, in responses on protocol versions, of a service that ends each transaction at its limit, or of one that
ends it then only if another request waits for what it holds."""


class Phase(Enum):
    """The state of a stream."""

    IDLE = "idle"  # the baton is valid for one more request; also before the first one
    IN_USE = "in use"  # a request is pending; the old baton is used up
    CLOSED = "closed"  # ended on purpose
    EXPIRED = "expired"  # idle for too long, or otherwise unknown to the server
    LOST = "lost"  # no response, or stopped by the server


class Event(Enum):
    """What happens to a stream."""

    SEND = "send"  # a request begins
    ANSWER = "answer"  # its response brings the next baton
    REFUSE = "refuse"  # nothing of the request ran, and the baton stays valid
    CLOSE = "close"
    EXPIRE = "expire"
    LOSE = "lose"
    REOPEN = "reopen"  # the next request of the client opens another stream


class Tx(Enum):
    """The state of the transaction of a stream."""

    NONE = "none"  # autocommit
    OPEN = "open"  # BEGIN or a first SAVEPOINT ran
    LOST = "lost"  # the server rolled it back, and the client has not acknowledged that yet


class TxEvent(Enum):
    """What happens to a transaction."""

    BEGIN = "begin"
    END = "end"  # COMMIT, ROLLBACK, or a failed statement that rolls back
    LOSE = "lose"  # rolled back by a limit, or with its stream
    DOUBT = "doubt"  # the statement that would have ended it got no response
    ACKNOWLEDGE = "acknowledge"  # of a loss: the server reported it, the user ran BEGIN or ROLLBACK
    RESTORE = "restore"  # a loss: a failed statement ended it, or the one that acknowledged it was refused


PHASES = {
    (Phase.IDLE, Event.SEND): Phase.IN_USE,
    (Phase.IN_USE, Event.ANSWER): Phase.IDLE,
    (Phase.IN_USE, Event.REFUSE): Phase.IDLE,
    (Phase.IDLE, Event.CLOSE): Phase.CLOSED,
    (Phase.IN_USE, Event.CLOSE): Phase.CLOSED,
    (Phase.IDLE, Event.EXPIRE): Phase.EXPIRED,
    (Phase.IN_USE, Event.EXPIRE): Phase.EXPIRED,  # the client learns it from the refusal of its baton
    (Phase.IDLE, Event.LOSE): Phase.LOST,
    (Phase.IN_USE, Event.LOSE): Phase.LOST,
    (Phase.CLOSED, Event.REOPEN): Phase.IDLE,
    (Phase.EXPIRED, Event.REOPEN): Phase.IDLE,
    (Phase.LOST, Event.REOPEN): Phase.IDLE,
}

TRANSACTIONS = {
    (Tx.NONE, TxEvent.BEGIN): Tx.OPEN,
    (Tx.OPEN, TxEvent.END): Tx.NONE,
    (Tx.OPEN, TxEvent.LOSE): Tx.LOST,
    (Tx.OPEN, TxEvent.DOUBT): Tx.NONE,
    (Tx.LOST, TxEvent.ACKNOWLEDGE): Tx.NONE,
    (Tx.NONE, TxEvent.RESTORE): Tx.LOST,
}

ENDS = {Event.CLOSE: TxEvent.END, Event.EXPIRE: TxEvent.LOSE, Event.LOSE: TxEvent.LOSE}
"""What the end of a stream means for a transaction that is open on it."""


class StreamState:
    """The state of a stream and of its transaction, on either side. It does no I/O and reads no clock.

    Only `move` and `change` assign ``phase`` and ``transaction``.
    """

    def __init__(self) -> None:
        self.phase = Phase.IDLE
        self.transaction = Tx.NONE

    def move(self, event: Event) -> None:
        """Change the state of the stream, and end its transaction with it; raise StreamError if that is illegal."""
        phase = PHASES.get((self.phase, event))
        if phase is None:
            raise StreamError(f"cannot {event.value} a stream that is {self.phase.value}")
        self.phase = phase
        if event in ENDS and self.transaction is Tx.OPEN:
            self.change(ENDS[event])

    def change(self, event: TxEvent) -> None:
        """Change the state of the transaction; raise StreamError if that is illegal."""
        state = TRANSACTIONS.get((self.transaction, event))
        if state is None:
            raise StreamError(f"cannot {event.value} a transaction that is {self.transaction.value}")
        self.transaction = state
