"""An open database: its primary file, and its replicas."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import apsw

from pipemagic.service.limits import Limits
from pipemagic.service.replicas.followers import Followers
from pipemagic.service.replicas.replica import Replica
from pipemagic.service.sqlite.connection import Connection
from pipemagic.service.sqlite.pool import Pool
from pipemagic.service.sqlite.write_lock import WriteLock

log = logging.getLogger(__name__)

CHECKPOINT_PAGES = 1000
INDEX_BLOCK = 1000


class OpenDatabase:
    """One open database: its file, its write lock, its commit counter, its replicas.

    It is also the primary: a place that streams take connections from.
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
        self.write_lock = WriteLock(clock)
        self.schema_changes = 0
        self.pinned_wal = 0
        """Bytes of the WAL after the last commit if a reader kept it from being moved to the file, otherwise 0."""
        self.followers: Followers | None = None
        self._lock = threading.Lock()
        self.index = self._reserved = index
        """The ``replication_index``: the number of commits of this database. It never decreases."""
        self.pool = Pool(self._connect, limits, clock)
        self.take, self.give_back = self.pool.take, self.pool.give_back
        path.parent.mkdir(parents=True, exist_ok=True)
        first = apsw.Connection(str(path))
        try:
            first.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # replication reads the WAL of the last run
            first.pragma("journal_mode", "WAL")
            self._page_size = first.pragma("page_size")
        finally:
            first.close()

    def _connect(self) -> Connection:
        return Connection(self, on_commit=self._committed, page_size=self._page_size)

    @property
    def replicas(self) -> dict[str, Replica]:
        """The replicas by location."""
        followers = self.followers  # read once: a location may be removed at any time
        return {} if followers is None else followers.replicas

    def note_schema_change(self) -> None:
        """Record that cached column lists may be stale."""
        self.schema_changes += 1

    def _committed(self, connection: Connection, frames: int) -> None:
        """Count a commit, record it for the replicas, keep the WAL short. The write lock is still held."""
        index, followers = self._count(), self.followers
        if followers is not None:
            followers.note(index, frames)
        if frames >= CHECKPOINT_PAGES:
            if followers is not None:
                followers.flush()
            self.pinned_wal = 0 if connection.checkpoint() else frames * self._page_size

    def _count(self) -> int:
        """Increment the index. Blocks of numbers are reserved durably, so a crash skips some and repeats none."""
        with self._lock:
            self.index += 1
            if self.index > self._reserved and self._write_down(self.index + INDEX_BLOCK):
                self._reserved = self.index + INDEX_BLOCK
            return self.index

    def reach(self, index: int) -> None:
        """Raise the index to ``index`` if that is higher: a crash left commits that were not counted."""
        with self._lock:
            self.index = max(self.index, index)
            if self.index > self._reserved and self._write_down(self.index):
                self._reserved = self.index

    def _write_down(self, index: int) -> bool:
        """Make the counter durable; return False if the disk fails, which does not affect the commit."""
        try:
            self._reserve(index)
        except apsw.Error as error:
            log.warning("the commit counter of %s could not be written down: %s", self.path, error)
            return False
        return True

    def queues(self) -> list[WriteLock | Replica]:
        """Return what requests wait for: the write lock and the replicas."""
        return [self.write_lock, *self.replicas.values()]

    def pools(self) -> list[Pool]:
        """Return the pools of the primary and of the replicas that can be read."""
        replicas = list(self.replicas.values())
        return [self.pool, *(pool for replica in replicas if (pool := replica.pool) is not None)]

    def stop_following(self) -> None:
        """Stop the replication soon."""
        followers = self.followers
        if followers is not None:
            followers.stop()

    def close(self) -> None:
        """Close the files and store the counter."""
        self.pool.close()
        if self.followers is not None:
            self.followers.close()
        self._write_down(self.index)
