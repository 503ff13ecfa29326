"""An open database: its primary file, its write lock and its commit counter; copies of a database."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol

import apsw

from pipemagic.service.executor import Waiter
from pipemagic.service.files import lacks_space_to_open
from pipemagic.service.limits import Limits
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.connection import BUSY_TIMEOUT, FRAME_HEADER, KEPT_WAL, Connection, open_file
from pipemagic.service.sqlite.pool import Pool
from pipemagic.service.sqlite.readers import CHECKPOINT_WAIT, CheckpointPhase, Readers
from pipemagic.service.sqlite.resources import file_size
from pipemagic.service.sqlite.unicode import fits_schema

log = logging.getLogger(__name__)

CHECKPOINT_PAGES = 1000
IDLE = 1.0
"""Seconds without a commit after which a large WAL is truncated."""
FILE_TIMES = 1.0
"""Seconds by which the times of files may be too early: some file systems have whole seconds."""
INDEX_BLOCK = 1000
COPY_PAGES = 1000
"""Pages that are copied between two checks of whether the copy is still needed."""


Fingerprint = tuple[int, int]
"""The size of a file in bytes and the time of its last change in ns: a write changes them."""


def fingerprint(path: Path) -> Fingerprint:
    """Return the fingerprint of a file."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _age(path: Path) -> float:
    """Return the seconds since a database's files were changed, also by copying them into place; 0 at least."""
    changes: list[float] = []
    for file in (path, path.with_name(path.name + "-wal")):
        with suppress(FileNotFoundError):
            status = file.stat()
            changes += status.st_mtime, status.st_ctime
    return max(0.0, time.time() - max(changes, default=math.inf) - FILE_TIMES)


class Follower(Protocol):
    """A replica of a database."""

    pool: Pool | None

    def waiters(self) -> Sequence[Waiter]:
        """Return the waits for a later index."""


class CommitObserver(Protocol):
    """The replicas of a database, which get its commits."""

    @property
    def replicas(self) -> Mapping[str, Follower]:
        """The replicas by location."""

    def record_commit(self, index: int, frames: int) -> None:
        """Record the commit ``index``; the caller has the write lock, and the WAL has ``frames`` frames."""

    def close(self) -> None:
        """Close everything; called when the primary is closed."""


class WriteLock:
    """The write lock of one database: writers wait in order of arrival and hold no thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._holder: Waiter | None = None
        self.held_since = 0.0
        """When its holder got it."""
        self._kept: Waiter | None = None
        """The holder with an abandoned statement: it releases the lock when the statement has ended."""
        self._waiting: deque[Waiter] = deque()

    def waiters(self) -> list[Waiter]:
        """Return the waits that were not granted yet; one that expired leaves the queue with `release`."""
        with self._lock:
            return list(self._waiting)

    @property
    def is_wanted(self) -> bool:
        """True if a writer waits for it."""
        return bool(self._waiting)

    def try_acquire(self) -> Waiter | None:
        """Take the lock if it is free; otherwise return None, and do not wait."""
        waiter = Waiter(math.inf, exclusive=True)
        with self._lock:
            if self._holder is not None or self._waiting:
                return None
            self._waiting.append(waiter)
            self._grant_next()
        waiter.finish()
        return waiter

    def acquire(self, deadline: float) -> Waiter:
        """Take the lock or a place in the queue; ``granted`` of the waiter shows which."""
        waiter = Waiter(deadline, exclusive=True)
        with self._lock:
            self._waiting.append(waiter)
            self._grant_next()
        if waiter.granted:
            waiter.finish()
        return waiter

    def release(self, waiter: Waiter) -> None:
        """Release the lock, or leave the queue; the next waiter gets the lock. A second call does nothing."""
        with self._lock:
            if self._holder is waiter:
                self._holder = None
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            successor = self._grant_next()
        waiter.finish()
        if successor is not None:
            successor.finish()

    def _grant_next(self) -> Waiter | None:
        """Grant the lock to the next waiter, if it is free and there is one. Call it under ``_lock``."""
        if self._holder is not None or not self._waiting:
            return None
        self._holder, self.held_since = self._waiting.popleft(), self._clock()
        self._holder.granted = True
        return self._holder

    def keep_held(self, waiter: Waiter) -> None:
        """Record that the statement of this holder was given up and has not ended."""
        self._kept = waiter

    @property
    def is_kept(self) -> bool:
        """True if its holder's statement was given up and has not ended."""
        return self._kept is not None and self._kept is self._holder

    def holder_age(self) -> float:
        """Return the seconds for which the lock has been held; 0 if it is free."""
        with self._lock:
            return self._clock() - self.held_since if self._holder else 0.0


class OpenDatabase:
    """One open database: its file, its write lock, its commit counter.

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
        unicode: bool = False,
    ) -> None:
        self.path, self.limits, self.clock, self._reserve = path, limits, clock, reserve
        self.code = primary
        """The location of the primary."""
        self.paused = False
        self.write_lock = WriteLock(clock)
        self.schema_changes = 0
        self.readers = Readers(clock)
        self.before_write: Callable[[OpenDatabase], None] = lambda _: None
        """Called each time that a stream gets the write lock, before it writes; must not raise."""
        self._frames = 0
        """Frames of the WAL after the last commit."""
        self._committed_at = clock() - _age(path)
        """When the last commit was, or when the files were changed last before they were opened."""
        self.moved_frames = 0
        """Frames of the WAL after the last commit if a checkpoint included all: the next commit may restart the WAL."""
        self.checkpointed: Fingerprint | None = None
        """The fingerprint of the file after the last checkpoint of all frames."""
        self.checkpoint_lock = threading.Lock()
        """Held while a checkpoint runs, or while none may run."""
        self.observer: CommitObserver | None = None
        self._lock = threading.Lock()
        self.index = self._reserved = index
        """The ``replication_index``: the number of commits of this database. It never decreases."""
        self.pool = Pool(self._connect, clock)
        self.take = self.pool.take
        self.disk_full = False
        """True if the disk has no space for what SQLite writes to open the file: it can only be read."""
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._prepare(unicode=unicode)
        except apsw.IOError as error:
            if not lacks_space_to_open(error) or not file_size(path):
                raise
            log.warning("the disk is full: %s can only be read", path)
            self.disk_full = True
            self._prepare(unicode=unicode)

    def _prepare(self, *, unicode: bool) -> None:
        """Put the file into WAL mode, and find out what its connections need to know."""
        self.unicode = False
        open_again = partial(open_file, self.path, writable=True, disk_full=self.disk_full)
        with closing(open_again()) as first:
            if not self.disk_full:
                first.pragma("journal_mode", "WAL")
            self._page_size = first.pragma("page_size")
            if unicode:
                with closing(open_again()) as fresh:
                    self.unicode = fits_schema(fresh)
        if unicode and not self.unicode:
            log.warning(
                "%s has indexes or generated columns with SQLite's lower, upper or LIKE, and keeps them", self.path
            )

    def _connect(self) -> Connection:
        connection = Connection(self, writable=True, page_size=self._page_size, disk_full=self.disk_full)
        connection.raw.set_wal_hook(self._committed)
        return connection

    def _committed(self, connection: apsw.Connection, _name: str, frames: int) -> int:
        """Count a commit, record it for the replicas, keep the WAL short. The write lock is still held."""
        self._committed_at = self.clock()  # before the index: who reads the new index must not read the old time
        index, observer = self._count(), self.observer
        if observer is not None:
            observer.record_commit(index, frames)
        self.moved_frames, self._frames = 0, frames
        if frames >= CHECKPOINT_PAGES:
            self._checkpoint(connection, apsw.SQLITE_CHECKPOINT_PASSIVE)
        if frames >= CHECKPOINT_PAGES or self.readers.phase is not CheckpointPhase.OPEN:
            self.readers.record_checkpoint(self._wal_size(), complete=self.moved_frames > 0)
        return int(apsw.SQLITE_OK)

    @property
    def unchanged_for(self) -> float:
        """The seconds since the last commit, or less."""
        return self.clock() - self._committed_at

    def _wal_size(self) -> int:
        return self._frames * (FRAME_HEADER + int(self._page_size))

    def _checkpoint(self, connection: apsw.Connection, mode: int) -> bool:
        """Write the frames of the WAL into the file, as far as readers allow it; return True if these are all.

        The caller has the write lock.
        """
        if not self.checkpoint_lock.acquire(blocking=False):
            return False
        try:
            total, moved = connection.wal_checkpoint(mode=mode)
            if total == moved:
                self.checkpointed = fingerprint(self.path)
                self.moved_frames = self._frames
                return True
        except apsw.BusyError:  # another program uses the file
            pass
        except (apsw.Error, OSError) as error:  # the commit is done: its statement must not fail
            log.warning("the WAL of %s was not checkpointed: %s", self.path, error)
        finally:
            self.checkpoint_lock.release()
        return False

    def truncate_large_wal(self) -> None:
        """Truncate the WAL if it is large and the database is not in use at the moment."""
        self.readers.check_time()
        self.truncate_drained_wal()
        if self._wal_size() > KEPT_WAL and not self.readers and self.clock() >= self._committed_at + IDLE:
            self._truncate_wal()

    def truncate_drained_wal(self) -> None:
        """Truncate the WAL if readers gave way to that and the last one has ended; otherwise the next commit does."""
        if self.readers.must_give_way and not self.readers:
            self._truncate_wal()

    def _truncate_wal(self) -> None:
        """Truncate the WAL, unless a writer or another program uses the database."""
        turn = self.write_lock.try_acquire()
        if turn is None:
            return
        try:
            if self._checkpoint_all():
                self._frames = 0
                self.readers.record_checkpoint(0, complete=True)
        finally:
            self.write_lock.release(turn)

    def _checkpoint_all(self) -> bool:
        try:
            connection = self.pool.take()
        except (Refused, apsw.Error) as error:  # it is being closed, or there are no more file handles
            log.warning("the WAL of %s was not truncated: %s", self.path, error)
            return False
        try:
            connection.raw.set_busy_timeout(0)
            return self._checkpoint(connection.raw, apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            connection.raw.set_busy_timeout(BUSY_TIMEOUT)
            connection.release(connection)

    @contextmanager
    def reading(self, stop: Callable[[], None]) -> Iterator[None]:
        """Read from a snapshot beside the streams; ``stop`` ends that soon, in any thread."""
        reading = self.readers.begin(stop, restartable=False)
        if reading is None:
            self.readers.wait(CHECKPOINT_WAIT).wait(CHECKPOINT_WAIT)
            reading = self.readers.begin(stop, restartable=False, now=True)
        assert reading is not None
        try:
            yield
        finally:
            self.readers.end(reading)

    def _count(self) -> int:
        """Increment the index. Blocks of numbers are reserved durably, so a crash skips some and repeats none."""
        with self._lock:
            self.index += 1
            if self.index > self._reserved:
                self._reserve_until(self.index + INDEX_BLOCK)
            return self.index

    def _reserve_until(self, index: int) -> None:
        """Make the counter durable. An error of the disk does not affect the commit; the next one tries again."""
        try:
            self._reserve(index)
            self._reserved = index
        except apsw.Error as error:
            log.warning("the commit counter of %s could not be written down: %s", self.path, error)

    @property
    def replicas(self) -> list[Follower]:
        """The replicas."""
        observer = self.observer  # read once: a location may be removed at any time
        return [] if observer is None else list(observer.replicas.values())

    def waiters(self) -> list[Waiter]:
        """Return the waits for the write lock, for a checkpoint and for the replicas."""
        replicas = (waiter for replica in self.replicas for waiter in replica.waiters())
        return [*self.write_lock.waiters(), *self.readers.waiters(), *replicas]

    def pools(self) -> list[Pool]:
        """Return the pools of the primary and of the replicas that can be read."""
        return [self.pool, *(pool for replica in self.replicas if (pool := replica.pool) is not None)]

    def close(self) -> None:
        """Close the files and store the counter."""
        self.pool.close()
        if self.observer is not None:
            self.observer.close()
        self._reserve_until(self.index)


def snapshot(source: apsw.Connection, path: Path, must_end: Callable[[], object]) -> None:
    """Copy the database of a connection into a new file, in rollback-journal mode, synced.

    A read transaction makes the copy consistent; it blocks no writer of a database in WAL mode. ``must_end`` is called
    often; it may raise to end the copy.
    """
    begin_snapshot(source)
    try:
        copy_snapshot(source, path, must_end)
    finally:
        source.execute("ROLLBACK")


def begin_snapshot(source: apsw.Connection) -> None:
    """Begin a read transaction, for `copy_snapshot`."""
    source.execute("BEGIN")
    source.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # the transaction begins with the first read


def copy_snapshot(source: apsw.Connection, path: Path, must_end: Callable[[], object]) -> None:
    """Copy what the transaction of a connection reads into a new file; see `snapshot`."""
    with closing(apsw.Connection(str(path))) as target:
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                must_end()
                backup.step(COPY_PAGES)
        target.pragma("journal_mode", "delete")
