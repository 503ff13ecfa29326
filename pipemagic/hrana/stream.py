"""The states of a stream and of its transaction, for client and server.

Sources: the states of the requirement (none, open, closed; 10 s idle, 5 s for a transaction), and the rule of the
specification that a stream takes one request at a time and every response brings a new baton.
"""

from __future__ import annotations

from enum import Enum

IDLE_LIMIT = 10.0
"""Seconds without a request after which a server closes a stream, counted from the response."""

TRANSACTION_LIMIT = 5.0
"""Seconds from BEGIN within which a transaction must be committed."""


LIMITS_HEADER, STRICT = b"pipemagic-limits", "strict"
"""The header, in responses on protocol versions, of a service that ends each transaction at its limit."""


class Phase(Enum):
    """The state of a stream."""

    IDLE = "idle"  # the baton is valid for one more request
    IN_USE = "in use"  # a request is pending; the old baton is used up
    CLOSED = "closed"  # ended on purpose
    EXPIRED = "expired"  # idle for too long
    LOST = "lost"  # no response: the outcome is unknown


class Tx(Enum):
    """The transaction of a stream."""

    NONE = "none"  # autocommit
    OPEN = "open"  # BEGIN or a first SAVEPOINT ran
    LOST = "lost"  # the server rolled it back, and the client has not acknowledged that yet
