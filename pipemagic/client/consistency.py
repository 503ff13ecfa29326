"""Reads that see one's own writes, also where a replica answers.

A replica may be a little behind. Every answer says which state of the database it saw or made (its
``replication_index``, a number that grows with each commit); a read that names one is answered only when the replica
has got there. So the newest index seen goes along with the first read of a stream, and again after each write.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

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

_READS = frozenset({"SELECT", "VALUES", "WITH", "EXPLAIN", "PRAGMA"})


class Seen:
    """The newest state of one database that this program knows of. Safe to use from several threads.

    ``grows`` tells that the index was seen to grow, so that an index which stays says something. ``unbounded`` tells
    that a replica seems to answer which waits without limit, as sqld's do: a write that it passed on to the primary
    comes back without a duration.
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

    def note(self, entries: Sequence[Entry], before: int | None) -> None:
        """Take in the answers to requests that were sent when ``before`` was the index."""
        for entry in entries:
            if isinstance(entry, ErrorEntry):
                if entry.error.code == BEHIND:
                    self.forget()
                continue
            match entry.response:
                case ExecuteResponse(result):
                    self._note([result], _number(result.replication_index), before)
                case BatchResponse(result):
                    ran = [one for one in result.step_results if one is not None]
                    told = [_number(one) for one in (result.replication_index, *(r.replication_index for r in ran))]
                    self._note(ran, max((one for one in told if one is not None), default=None), before)

    def _note(self, results: Sequence[StmtResult], index: int | None, before: int | None) -> None:
        if index is None:
            return
        wrote = any(result.affected_row_count for result in results)
        passed_on = bool(results) and not any(result.query_duration_ms for result in results)
        with self._lock:
            self.grows = self.grows or (self.index is not None and index > self.index)
            self.unbounded = self.unbounded or (wrote and passed_on)
            if self.index is None or index > self.index or ((wrote or passed_on) and index < (before or 0)):
                self.index = index  # lower after a write: the server counts from a lower number since a crash


class Sent(NamedTuple):
    """Requests as they are sent.

    ``known`` is the index that was known then. ``limit`` is how many seconds to wait for the answer because a read
    among them waits for a state of the database; None if that is not for us to limit.
    """

    requests: list[Request]
    known: int | None
    limit: float | None = None


class Freshness:
    """What the reads of one stream wait for: the newest state seen of the database, each one once."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._waited_for: int | None = None

    def restart(self) -> None:
        """Begin anew: another stream may be at another instance."""
        self._waited_for = None

    def prepare(self, requests: list[Request], *, asks: bool) -> Sent:
        """Have the first read wait for what is known; not if ``asks`` is false, since the server would not know how.

        Nor in a transaction: its statements all run at one place.
        """
        index = self._seen.index
        if not asks or index is None or (self._waited_for is not None and index <= self._waited_for):
            return Sent(requests, index)
        stamped = stamp(requests, index)
        if stamped is None:
            return Sent(requests, index)
        self._waited_for = index
        return Sent(stamped, index, WAIT_LIMIT if self._seen.unbounded else None)

    def answered(self, sent: Sent, entries: Sequence[Entry]) -> None:
        """Take in an answer."""
        self._seen.note(entries, sent.known)

    def failed(self, sent: Sent, error: BaseException) -> None:
        """Forget after what may have been a crash of the server, and when waiting took too long, which is said then."""
        match error:
            case AnswerTimeout() if sent.limit is not None:
                error.message = (
                    f"the server did not show your last write within {sent.limit:.0f} s: "
                    "its replica is behind, or it was restored to an earlier state"
                )
                error.hint = AGAIN
            case InterruptedRequest() | BusyError():
                return
            case UnknownOutcome() | ConnectError():
                pass
            case ServerError(status=status) if status >= 500:
                pass
            case _:
                return
        self._seen.forget()


def stamp(requests: Sequence[Request], index: int) -> list[Request] | None:
    """Give the requests with the index on the first one that only reads; None if there is none.

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
    return text is not None and sql.parse(text).keyword in _READS


def _number(index: str | int | None) -> int | None:
    try:
        return None if index is None else int(index)
    except ValueError:
        return None  # not a number that can be compared: of no use here
