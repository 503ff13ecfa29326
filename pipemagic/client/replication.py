"""Reads that see one's own writes, also where a replica responds.

A replica may be a little behind. Every response says which state of the database it saw or made (its
``replication_index``, a number that grows with each commit); a read that names one is answered only when the replica
has got there. So the newest index seen goes along with the first read of a stream, and again after each write.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

from pipemagic import sql
from pipemagic.errors import (
    AnswerTimeout,
    BusyError,
    ConnectError,
    InterruptedRequest,
    ServerError,
    UnknownOutcome,
)
from pipemagic.hrana.messages import (
    BatchResponse,
    Describe,
    Entry,
    ErrorEntry,
    Execute,
    ExecuteResponse,
    Request,
    RunBatch,
    StmtResult,
)

WAIT_LIMIT = 10.0
"""Seconds that a read waits at a replica which sets itself no limit."""

AGAIN = "run it again; it will not wait for that write any more"

BEHIND = "REPLICA_BEHIND"
"""Code of a statement that a replica gave up waiting for."""


class ReplicationState:
    """The newest state of one database that this program knows of. Safe to use from several threads.

    ``grows`` is True once the index was seen to grow, so that an index which stays the same proves something.
    ``unbounded`` is True if a replica seems to respond which waits without limit, as sqld's do: a write that it passed
    on to the primary comes back without a duration.
    """

    def __init__(self) -> None:
        self.index: int | None = None
        self.grows = False
        self.unbounded = False
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Wait for nothing any more: after a crash the server may count from a lower number again."""
        with self._lock:
            self.index = None

    def update(self, entries: Sequence[Entry], before: int | None) -> None:
        """Update the state from the entries of requests that were sent when ``before`` was the index."""
        for entry in entries:
            if isinstance(entry, ErrorEntry):
                if entry.error.code == BEHIND:
                    self.forget()
                continue
            results: list[StmtResult] = []
            match entry.response:
                case ExecuteResponse(result):
                    results, told = [result], [result.replication_index]
                case BatchResponse(batch):
                    results = [one for one in batch.step_results if one is not None]
                    told = [batch.replication_index, *(one.replication_index for one in results)]
                case _:
                    continue
            index = max((int(one) for one in told if one is not None and str(one).isdecimal()), default=None)
            if index is None:
                continue
            wrote = any(result.affected_row_count for result in results)
            passed_on = bool(results) and not any(result.query_duration_ms for result in results)
            with self._lock:
                self.grows = self.grows or (self.index is not None and index > self.index)
                self.unbounded = self.unbounded or (wrote and passed_on)
                if self.index is None or index > self.index or ((wrote or passed_on) and index < (before or 0)):
                    self.index = index  # lower after a write: the server counts from a lower number since a crash


class ReadYourWrites:
    """What the reads of one stream wait for: the newest state seen of the database, each one once.

    Of the request under way, ``known`` is the state that was known when it was sent, and ``limit`` is how many seconds
    to wait for the response, since a read in it waits for that state; None if that is not for us to limit.
    """

    def __init__(self, state: ReplicationState) -> None:
        self.limit: float | None = None
        self.state = state
        self.known: int | None = None
        self._waited_for: int | None = None

    def restart(self) -> None:
        """Begin anew: another stream may be at another instance."""
        self._waited_for = None

    def prepare(self, requests: list[Request], *, waits: bool) -> list[Request]:
        """Return the requests to send: the first read waits for what is known, if it ``waits`` and none has before.

        A server with only the seed does not know how, and the statements of a transaction all run at one place.
        """
        self.limit, self.known = None, self.state.index
        if not waits or self.known is None or (self._waited_for is not None and self.known <= self._waited_for):
            return requests
        stamped = stamp(requests, self.known)
        if stamped is None:
            return requests
        self._waited_for, self.limit = self.known, WAIT_LIMIT if self.state.unbounded else None
        return stamped

    def failed(self, error: BaseException) -> BaseException:
        """Forget the state after what may have been a crash, or too long a wait. Return the error to raise."""
        self._waited_for = None  # nothing was read: the next read waits
        match error:
            case AnswerTimeout() if self.limit is not None:
                message = (
                    f"the server did not show your last write within {self.limit:.0f} s: "
                    "its replica is behind, or it was restored to an earlier state"
                )
                error = error.replace(message=message, hint=AGAIN)
            case InterruptedRequest() | BusyError():
                return error
            case UnknownOutcome() | ConnectError():
                pass
            case ServerError(status=status) if status >= 500:
                pass
            case _:
                return error
        self.state.forget()
        return error


def stamp(requests: Sequence[Request], index: int) -> list[Request] | None:
    """Return the requests with the index on the first one that only reads; None if there is none.

    What writes goes to the primary and needs no index.
    """
    for number, request in enumerate(requests):
        match request:
            case Execute(stmt) if _reads(stmt.sql):
                stamped: Request = Execute(msgspec.structs.replace(stmt, replication_index=str(index)))
            case RunBatch(batch) if all(_reads(step.stmt.sql) for step in batch.steps):
                stamped = RunBatch(msgspec.structs.replace(batch, replication_index=str(index)))
            case Describe():
                stamped = msgspec.structs.replace(request, replication_index=str(index))
            case _:
                continue
        return [*requests[:number], stamped, *requests[number + 1 :]]
    return None


def _reads(text: str | None) -> bool:
    statement = sql.parse(text or "")
    return statement.only_reads or statement.keyword == "PRAGMA"
