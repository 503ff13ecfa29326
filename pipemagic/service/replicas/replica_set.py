"""The replicas of one database, and the work that brings them up to date."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import apsw

from pipemagic.service.replicas.primary_pages import PrimaryPages, WalError
from pipemagic.service.replicas.replica import FileFingerprint, Replica
from pipemagic.service.replicas.replicator import Replicator
from pipemagic.service.sqlite.database import OpenDatabase

log = logging.getLogger(__name__)

FOLDER = "replicas"
"""Beside the primary's file."""
OLD_LOG = "changes.log"
"""A file of version 0.1.0."""
SOON, LATER = 0.05, 1.0
"""Seconds until another attempt: after a reader blocked a write; without the write lock or free disk space."""
LOCK_WAIT = 6.0
"""Seconds to wait for the write lock, which a transaction may have for 5."""
COPY_BYTES = 4 * 1024 * 1024
"""Bytes of pages that are copied in one piece of work: meanwhile no checkpoint of the primary runs."""


class NoLock(Exception):
    """The write lock could not be acquired."""


class ReplicaSet:
    """All replicas of one primary. Each commit adds the numbers of its pages to those that each replica lacks."""

    def __init__(
        self,
        primary: OpenDatabase,
        clock: Callable[[], float],
        replicator: Replicator,
        end_streams: Callable[[Replica], None],
    ) -> None:
        self.replicas: dict[str, Replica] = {}
        self.shipped = 0
        """Bytes of changed pages that were written to replicas so far, without copies."""
        self._primary, self._clock, self._replicator = primary, clock, replicator
        self._end_streams = end_streams
        self._folder = primary.path.with_name(FOLDER)
        self._lock = threading.Lock()
        """Held while a commit is recorded, and while the pages that a replica lacks are listed."""
        self._working = threading.Lock()
        """Held while a replica's file is written, replaced or closed."""
        self._closed = False
        self._index, self._committed_at = 0, 0.0
        """The last recorded commit, and the time of the last one."""
        self._in_step = False
        """Whether all commits so far are recorded; otherwise the replicas need a copy."""
        self._fingerprint: FileFingerprint | None = None
        """The fingerprint of the primary when it was opened; None if it had a WAL."""
        primary.path.with_name(OLD_LOG).unlink(missing_ok=True)
        self._pages = PrimaryPages(primary.path)
        primary.observer = self
        with suppress(NoLock):  # a transaction is open: `work` tries again
            self._start_over(wait=0.0)

    def _start_over(self, wait: float) -> None:
        """Begin to record commits, after up to ``wait`` seconds for the write lock; all replicas need a copy."""
        waiter = self._primary.write_lock.acquire(self._clock() + wait)
        try:
            waiter.wait(wait)
            if not waiter.granted:
                raise NoLock
            with self._lock:
                self._index, frames = self._primary.index, self._pages.frames()
                self._fingerprint = None if frames else FileFingerprint.of(self._primary.path)
                self._pages.reset()
                if frames:
                    self._pages.advance(frames, self._primary.moved_frames)
                self._in_step = True
            for replica in self.replicas.values():
                replica.start_over()
        finally:
            self._primary.write_lock.release(waiter)

    def note(self, index: int, frames: int) -> None:
        """Record the commit ``index``; the caller has the write lock, and the WAL has ``frames`` frames."""
        with self._lock:
            self._committed_at = self._clock()
            changed: set[int] = set()
            if self._in_step:
                try:
                    changed = self._pages.advance(frames, self._primary.moved_frames)
                except (OSError, WalError) as error:  # the commit itself was successful
                    log.error("the replicas of %s start over from a copy: %s", self._primary.path, error)
                    self._in_step = False
            for replica in self.replicas.values():
                replica.changed |= changed
                if replica.behind_since is None:
                    replica.behind_since = self._committed_at
            if self._in_step:
                self._index = index
        self._schedule()

    def _schedule(self) -> None:
        self._replicator.schedule(self.work)

    # Replicas.

    def update(self, codes: Collection[str], paused: Collection[str]) -> None:
        """Create and remove replicas so that each location has one, and pause those at the paused locations."""
        with self._working:
            for code in [code for code in self.replicas if code not in codes]:
                with self._lock:
                    replica = self.replicas.pop(code)
                replica.remove()
            for code in [code for code in codes if code not in self.replicas]:
                replica = Replica(
                    code, self._folder / f"{code}.sqlite", self._primary.limits, self._clock, self._end_streams
                )
                with self._lock:
                    replica.resume(self._fingerprint)
                    self.replicas[code] = replica
            self._remove_unknown_files()
            for replica in self.replicas.values():
                was, replica.paused = replica.paused, replica.code in paused
                if replica.paused and not was:
                    self._end_streams(replica)
                    replica.end_waits()
        self._schedule()

    def _remove_unknown_files(self) -> None:
        """Remove files of removed locations, which remain after a crash."""
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.name.partition(".")[0] not in self.replicas:
                    path.unlink(missing_ok=True)

    # Work.

    def work(self) -> float | None:
        """Do the next piece of work on each replica; return the seconds until the next one, None if all is done."""
        with self._working:
            if self._closed:
                return None
            try:
                if not self._in_step:
                    self._start_over(LOCK_WAIT)
            except (NoLock, OSError, WalError):
                return LATER
            replicas = [replica for replica in self.replicas.values() if not replica.paused]
            delays = [delay for replica in replicas if (delay := self._work_on(replica)) is not None]
        return min(delays, default=None)

    def _work_on(self, replica: Replica) -> float | None:
        try:
            return 0.0 if self._bring_forward(replica) else None
        except apsw.BusyError:
            return SOON
        except (apsw.Error, OSError, WalError) as error:
            log.warning("the replica at %s of %s is copied anew: %s", replica.code, self._primary.path, error)
            replica.discard_file()
            return LATER

    def _bring_forward(self, replica: Replica) -> bool:
        """Write the next pages of a replica; return True if it lacks more."""
        index, complete = self._index, True  # read first: `note` adds the pages of a commit before its index
        if replica.copied is not None or replica.changed:
            index, complete = self._write(replica)
        if complete:
            replica.complete(index)
        with self._lock:
            has_all = complete and self._in_step and index == self._index
            replica.behind_since = None if has_all else self._committed_at
            return replica.behind_since is not None

    def _write(self, replica: Replica) -> tuple[int, bool]:
        """Write the next pages; return the index of the commit that they are of, and whether none is left."""
        pages = self._pages
        file = replica.open_file(pages.count * pages.page_size)
        with self._primary.checkpoint_lock, file.locked():
            with self._lock:
                index, count = self._index, pages.count
                numbers, complete = replica.take_pages(count, COPY_BYTES // pages.page_size)
                contents = pages.read(numbers)
            replica.schema_changes += file.write(contents, count, pages.page_size)
        if replica.copied is None:
            self.shipped += len(numbers) * pages.page_size
        return index, complete

    # Closing.

    def close(self) -> None:
        """Close everything. Close the primary before, so that SQLite moves its WAL into the file."""
        with self._working:
            self._closed = True
            with self._lock:
                recorded = self._in_step and self._record_rest()
                self._in_step = False
                self._pages.close()
            for replica in self.replicas.values():
                replica.close()
                try:
                    if recorded:
                        replica.save_record(FileFingerprint.of(self._primary.path))
                except (apsw.Error, OSError) as error:
                    log.warning(
                        "the replica at %s of %s will be copied anew: %s", replica.code, self._primary.path, error
                    )

    def _record_rest(self) -> bool:
        """Record what another program has committed since the last commit; return False if that is unknown."""
        try:
            frames = self._pages.frames()
            changed = self._pages.advance(frames, self._primary.moved_frames) if frames or self._pages.salts else set()
        except (apsw.Error, OSError, WalError):
            return False
        for replica in self.replicas.values():
            replica.changed |= changed
        return bool(self._pages.salts) or self._fingerprint == FileFingerprint.of(self._primary.path)


def replicas_of(database: OpenDatabase) -> dict[str, Replica]:
    """Return the replicas of a database by location."""
    observer = database.observer  # read once: a location may be removed at any time
    return observer.replicas if isinstance(observer, ReplicaSet) else {}


def discard(primary: Path) -> None:
    """Remove the files of replicas from a primary without replicas."""
    primary.with_name(OLD_LOG).unlink(missing_ok=True)
    if (folder := primary.with_name(FOLDER)).exists():
        shutil.rmtree(folder, ignore_errors=True)
