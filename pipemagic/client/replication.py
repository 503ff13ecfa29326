"""Read-your-writes, also at a replica.

A replica may lag behind. Every response contains the state of the database that it saw or created (its
``replication_index``, a number that grows with each commit); a read with an index waits until the replica
has reached it. So the newest index is sent with the first read of a stream, and again after each write.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

from pipemagic import sql
from pipemagic.errors import AnswerTimeout, BusyError, ConnectError, InterruptedRequest, ServerError, UnknownOutcome
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
"""Seconds that a read waits at a replica without its own limit."""

AGAIN = "run it again; it will no longer wait for that write"

BEHIND = "REPLICA_BEHIND"
"""Code of a statement for which a replica stopped waiting."""


class ReplicationState:
    """The newest known state of a database. Thread-safe.

    ``grows`` is True once the index has been seen to grow, so that an unchanged index is a proof. ``unbounded`` is True
    if a replica without a time limit seems to respond, such as one of sqld: a write that it forwarded to the primary
    has no duration in the response.
    """

    def __init__(self) -> None:
        self.index: int | None = None
        self.grows = False
        self.unbounded = False
        self._lock = threading.Lock()

    @property
    def reliable_index(self) -> int | None:
        """The index if an unchanged one proves that nothing was written, else None.

        It proves nothing if the server sends no index, if it was not seen to grow, and if a replica responds.
        """
        return self.index if self.grows and not self.unbounded else None

    def forget(self) -> None:
        """Forget the state: after a crash the server may count from a lower number."""
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
                    results, indexes = [result], [result.replication_index]
                case BatchResponse(batch):
                    results = [result for result in batch.step_results if result is not None]
                    indexes = [batch.replication_index, *(result.replication_index for result in results)]
                case _:
                    continue
            index = max((int(text) for text in indexes if text is not None and str(text).isdecimal()), default=None)
            if index is None:
                continue
            wrote = any(result.affected_row_count for result in results)
            passed_on = bool(results) and not any(result.query_duration_ms for result in results)
            with self._lock:
                self.grows = self.grows or (self.index is not None and index > self.index)
                self.unbounded = self.unbounded or (wrote and passed_on)
                if self.index is None or index > self.index or ((wrote or passed_on) and index < (before or 0)):
                    self.index = index  # lower after a write: the server restarted from a lower number after a crash


class ReadYourWrites:
    """The state that the reads of one stream wait for: each newest state of the database once.

    For the pending request, ``index`` is the state that was known when it was sent, and ``limit`` the seconds
    to wait for the response, since a read in it waits for that state; None if the server has its own limit.
    """

    def __init__(self, state: ReplicationState) -> None:
        self.limit: float | None = None
        self.state = state
        self.index: int | None = None
        self._waited_for: int | None = None

    def restart(self) -> None:
        """Reset: another stream may be at another instance."""
        self._waited_for = None

    def prepare(self, requests: list[Request], *, waits: bool) -> list[Request]:
        """Return the requests to send, the first read with the known state if it ``waits`` for the first time.

        A server with only the seed does not support it, and the statements of a transaction all run at one instance.
        """
        self.limit, self.index = None, self.state.index
        if not waits or self.index is None or (self._waited_for is not None and self.index <= self._waited_for):
            return requests
        stamped = stamp(requests, self.index)
        if stamped is None:
            return requests
        self._waited_for, self.limit = self.index, WAIT_LIMIT if self.state.unbounded else None
        return stamped

    def failed(self, error: BaseException) -> BaseException:
        """Forget the state after a possible crash or a long wait, and return the error to raise."""
        self._waited_for = None  # nothing was read: the next read has to wait
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
    """Return the requests with the index added to the first one that only reads; None if there is none.

    Writes run at the primary and need no index.
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
