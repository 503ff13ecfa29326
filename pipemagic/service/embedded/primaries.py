"""A database that is in use: its primary file, and the replicas that follow it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import apsw

from pipemagic.service.embedded.connections import Connection
from pipemagic.service.embedded.pools import Pool
from pipemagic.service.embedded.replication.followers import Followers
from pipemagic.service.embedded.replication.replica import Replica
from pipemagic.service.haste import Known, Pace
from pipemagic.service.limits import Limits
from pipemagic.service.turns import WriterQueue

log = logging.getLogger(__name__)

CHECKPOINT_PAGES = 1000
INDEX_BLOCK = 1000


class OpenDatabase:
    """One database that is in use: its file, its writer's queue, its commit counter, its replicas.

    It is the primary, too: a place that streams take connections from.
    """

    def __init__(
        self,
        path: Path,
        limits: Limits,
        clock: Callable[[], float],
        *,
        index: int,
        reserve: Callable[[int], None],
        primary: str = "",
    ) -> None:
        self.path, self.limits, self._clock, self._reserve = path, limits, clock, reserve
        self.code = primary
        """The location of the primary."""
        self.paused = False
        self.writers = WriterQueue(clock)
        self.known, self.reads, self.writes = Known(), Pace(), Pace()
        """What can be run in haste, and how long it took then."""
        self.schema_changes = 0
        self.followers: Followers | None = None
        self._lock = threading.Lock()
        self._commits = self._reserved = index
        self.pool = Pool(self._connect, limits, clock)
        self.take, self.give_back = self.pool.take, self.pool.give_back
        path.parent.mkdir(parents=True, exist_ok=True)
        first = apsw.Connection(str(path))
        try:
            first.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # the followers read the WAL of before
            first.pragma("journal_mode", "WAL")
        finally:
            first.close()

    @property
    def index(self) -> int:
        """The ``replication_index``: how many commits this database has seen. It never goes backwards."""
        return self._commits

    @property
    def replicas(self) -> dict[str, Replica]:
        """The replicas by location."""
        followers = self.followers  # read once: a location may be removed at any time
        return {} if followers is None else followers.replicas

    def note_schema_change(self) -> None:
        """Note that cached column lists may be stale."""
        self.schema_changes += 1

    def _connect(self) -> Connection:
        return Connection(self, on_commit=self._committed)

    def _committed(self, connection: Connection, frames: int) -> None:
        """Count a commit, write it down for the replicas, keep the WAL short. The writer still has its turn."""
        index, followers = self._count(), self.followers
        if followers is not None:
            followers.note(index, frames)
        if frames >= CHECKPOINT_PAGES:
            if followers is not None:
                followers.flush()
            connection.checkpoint()

    def _count(self) -> int:
        """Count up. Blocks of numbers are reserved durably, so a crash skips some and repeats none."""
        with self._lock:
            self._commits += 1
            if self._commits > self._reserved and self._write_down(self._commits + INDEX_BLOCK):
                self._reserved = self._commits + INDEX_BLOCK
            return self._commits

    def reach(self, index: int) -> None:
        """Count on from ``index``, if that is higher: commits were found that nobody had counted before a crash."""
        with self._lock:
            self._commits = max(self._commits, index)
            if self._commits > self._reserved and self._write_down(self._commits):
                self._reserved = self._commits

    def _write_down(self, index: int) -> bool:
        """Make the counter durable; False if the disk does not let us, which must not hurt what was committed."""
        try:
            self._reserve(index)
        except apsw.Error as error:
            log.warning("the commit counter of %s could not be written down: %s", self.path, error)
            return False
        return True

    def expire(self, now: float) -> None:
        """End the waiting, for the writer's turn or for a replica, of those whose deadline has passed."""
        self.writers.expire(now)
        for replica in list(self.replicas.values()):
            replica.expire(now)

    def next_deadline(self) -> float | None:
        """When the first of those who wait gives up."""
        times = [self.writers.next_deadline(), *(one.next_deadline() for one in list(self.replicas.values()))]
        return min((time for time in times if time is not None), default=None)

    def idle(self) -> list[float]:
        """Say since when each of its connections is idle."""
        since = self.pool.idle()
        for replica in list(self.replicas.values()):
            since += replica.idle()
        return since

    def trim(self, oldest: float) -> None:
        """Close connections that are idle since before ``oldest``."""
        self.pool.trim(oldest)
        for replica in list(self.replicas.values()):
            replica.trim(oldest)

    def stop_following(self) -> None:
        """Have the work on the replicas end soon."""
        followers = self.followers
        if followers is not None:
            followers.stop()

    def close(self) -> None:
        """Close the files and write the counter down."""
        self.pool.close()
        if self.followers is not None:
            self.followers.close()
        self._write_down(self._commits)
