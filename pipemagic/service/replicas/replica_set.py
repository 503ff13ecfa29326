"""The replicas of one database, and the work that brings them up to date."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path

import apsw

from pipemagic.service.replicas.primary_pages import PrimaryPages, WalError
from pipemagic.service.replicas.replica import FOLDER, Replica
from pipemagic.service.replicas.replicator import Replicator
from pipemagic.service.sqlite.database import Fingerprint, OpenDatabase, fingerprint

log = logging.getLogger(__name__)

SOON, LATER = 0.05, 1.0
"""Seconds until another attempt: after a lock conflict, and after an error."""
COPY_BYTES = 4 * 1024 * 1024
"""Bytes of pages that are copied in one piece of work: meanwhile no checkpoint of the primary runs."""


class ReplicaSet:
    """All replicas of one primary. Each commit adds the numbers of its pages to those that each replica lacks."""

    def __init__(self, primary: OpenDatabase, replicator: Replicator, end_streams: Callable[[Replica], None]) -> None:
        self.replicas: dict[str, Replica] = {}
        self.shipped = 0
        """Bytes of pages that were written to replicas so far."""
        self._primary, self._replicator = primary, replicator
        self._create = partial(Replica, primary=primary, end_streams=end_streams)
        self._lock = threading.Lock()
        """Held while a commit is recorded, and while the pages that a replica lacks are listed."""
        self._working = threading.Lock()
        """Held while a replica's file is written, replaced or closed."""
        self._index: int | None = None
        """The last commit, if all commits so far are recorded; otherwise the replicas need a copy."""
        self._committed_at = primary.clock()
        """The time of the last commit; initially the time of the start."""
        self._fingerprint: Fingerprint | None = None
        """The fingerprint of the primary while its WAL has no commit and none was recorded; otherwise None."""
        self._pages = PrimaryPages(primary)
        primary.observer = self
        self._start_over()

    def _start_over(self) -> None:
        """Begin to record commits, unless a writer restarts the WAL meanwhile; all replicas need a copy."""
        with self._lock, suppress(WalError, apsw.BusyError):  # `work` tries again
            index = self._primary.index  # first: what is read next has at least the commits until then
            self._fingerprint = self._pages.start_over()
            self._index = index
        for replica in self.replicas.values():
            replica.start_over()

    def record_commit(self, index: int, frames: int) -> None:
        """Record the commit ``index``; the caller has the write lock, and the WAL has ``frames`` frames."""
        with self._lock:
            self._committed_at, self._fingerprint = self._primary.clock(), None
            changed: set[int] = set()
            if self._index is not None:
                try:
                    changed, self._index = self._pages.advance(frames), index
                except (OSError, WalError) as error:  # the commit itself was successful
                    log.error("the replicas of %s start over from a copy: %s", self._primary.path, error)
                    self._index = None
            for replica in self.replicas.values():
                replica.changed |= changed
                if replica.behind_since is None:
                    replica.behind_since = self._committed_at
        self._replicator.schedule(self.work)

    def update(self, codes: Collection[str], paused: Collection[str], stalled: Collection[str]) -> None:
        """Create and remove replicas so that each location has one, and pause those at the paused locations.

        Those at the ``stalled`` locations are not written once they can be read.
        """
        with self._working:
            before = self.replicas
            with self._lock:
                self.replicas = {code: before.get(code) or self._create(code, self._fingerprint) for code in codes}
            for code in before.keys() - self.replicas.keys():
                before[code].close()
            remove_files(self._primary.path, keep=self.replicas)
            for replica in self.replicas.values():
                replica.paused, replica.stalled = replica.code in paused, replica.code in stalled
                if replica.paused:
                    replica.end_streams()
                    replica.end_waits()
        self._replicator.schedule(self.work)

    def work(self) -> float | None:
        """Do the next piece of work on each replica; return the seconds until the next one, None if all is done."""
        with self._working:
            if self.replicas and self._index is None:
                self._start_over()
                if self._index is None:
                    return SOON
            delays = [self._work_on(replica) for replica in self.replicas.values() if replica.follows]
        return min((delay for delay in delays if delay is not None), default=None)

    def _work_on(self, replica: Replica) -> float | None:
        try:
            index = self._write(replica)
            if index is not None:
                replica.complete(index)
        except apsw.BusyError:
            return SOON
        except (apsw.Error, OSError, WalError) as error:
            log.warning("the replica at %s of %s is copied again: %s", replica.code, self._primary.path, error)
            if replica.copied is None:  # its file may be damaged; otherwise the one before the copy is intact
                replica.detach()
            replica.start_over()
            return LATER
        with self._lock:
            has_all = index is not None and index == self._index
            replica.behind_since = None if has_all else self._committed_at
        return None if has_all else 0.0

    def _write(self, replica: Replica) -> int | None:
        """Write the next pages; return the last commit that the replica has then, None if it has only a part of it."""
        pages = self._pages
        with self._lock:
            if replica.copied is None and not replica.changed:
                return self._index
        file = replica.open_file(pages.count * pages.page_size)
        with self._primary.checkpoint_lock, file.locked():
            with self._lock:
                index, count = self._index, pages.count
                if index is None:
                    return None
                numbers, complete = replica.take_pages(count, COPY_BYTES // pages.page_size)
                contents = pages.read(numbers)
            replica.schema_changes += file.write(contents, count, pages.page_size)
        self.shipped += len(numbers) * pages.page_size
        return index if complete else None

    def close(self, *, keep: bool = True) -> None:
        """Close everything; with ``keep``, complete the files of the replicas for the next start.

        Close the primary before, so that SQLite checkpoints its WAL.
        """
        with self._working:
            complete = [replica for replica in self.replicas.values() if self._finish(replica, keep)]
            with self._lock:
                # The check and the checkpoint below are one step: a commit since `_finish` is not in the replicas.
                recorded = self._has_recorded_all()
                complete = [replica for replica in complete if recorded and not replica.changed]
                self.replicas, self._index = {}, None
                self._pages.close()
            for replica in complete:
                with suppress(OSError):  # then it is copied again
                    replica.mark_complete(fingerprint(self._primary.path))

    def _finish(self, replica: Replica, keep: bool) -> bool:
        """Close a replica; return True if its file has all recorded commits and is durable."""
        replica.close()
        few = keep and replica.copied is None and len(replica.changed) * self._pages.page_size <= COPY_BYTES
        try:
            if few:
                self._write(replica)
                replica.open_file(0).sync()
                return True
        except (apsw.Error, OSError, WalError) as error:
            log.warning("the replica at %s of %s will be copied again: %s", replica.code, self._primary.path, error)
        finally:
            replica.detach()
        return False

    def _has_recorded_all(self) -> bool:
        """Return True if all commits are recorded, and no other program wrote to the primary after them."""
        try:
            unchanged = self._fingerprint in (None, fingerprint(self._primary.path))
            return self._index is not None and unchanged and self._pages.are_current()
        except (apsw.Error, OSError) as error:
            log.warning("the replicas of %s will be copied again: %s", self._primary.path, error)
            return False


def replicas_of(database: OpenDatabase) -> dict[str, Replica]:
    """Return the replicas of a database by location."""
    observer = database.observer  # read once: a location may be removed at any time
    return observer.replicas if isinstance(observer, ReplicaSet) else {}


def remove_files(primary: Path, keep: Collection[str] = ()) -> None:
    """Remove the files of all locations but those to keep; after a crash there may be some."""
    primary.with_name("changes.log").unlink(missing_ok=True)  # of version 0.1.0
    for path in primary.with_name(FOLDER).glob("*"):
        if path.name.partition(".")[0] not in keep:
            with suppress(PermissionError):  # open on Windows
                path.unlink()
