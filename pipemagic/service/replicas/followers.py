"""The replicas of one database, the log they follow, and the work that brings them up to date."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from pipemagic.service.limits import Limits
from pipemagic.service.replicas import pages
from pipemagic.service.replicas.changes import ChangeLog, LogError, Stamp
from pipemagic.service.replicas.replica import Replica
from pipemagic.service.replicas.wal import START, Position, Wal, WalError
from pipemagic.service.sqlite.backup import Stopped

if TYPE_CHECKING:
    from pipemagic.service.sqlite.database import OpenDatabase

log = logging.getLogger(__name__)

LOG, REPLICAS = "changes.log", "replicas"
"""Beside the primary's file: its log of changes, and the folder of its replicas."""
APPLY_AT_ONCE = 64 * 1024 * 1024
"""Bytes of pages that are applied in one go, while the replica's readers wait."""
LOG_KEPT = 4 * 1024 * 1024
"""Bytes of a log that no replica needs before a new one is begun."""
SOON, LATER = 0.05, 1.0
"""Seconds until another try: a reader was in the way; no lock or no room could be had."""
LOCK_WAIT = 6.0
"""Seconds to wait for the write lock, which a transaction may have for 5."""


class NoLock(Exception):
    """The write lock, or the lock for copying, could not be acquired."""


class Followers:
    """All replicas of one primary. ``schedule(followers, replica)`` asks for a call of `work`."""

    def __init__(
        self,
        primary: OpenDatabase,
        limits: Limits,
        clock: Callable[[], float],
        schedule: Callable[[Followers, Replica], None],
        end_streams: Callable[[Replica], None],
    ) -> None:
        self.replicas: dict[str, Replica] = {}
        self.shipped = 0
        """Bytes of pages written to the log so far."""
        self._primary, self._limits, self._clock, self._schedule = primary, limits, clock, schedule
        self._end_streams = end_streams
        self._path, self._folder = primary.path.with_name(LOG), primary.path.with_name(REPLICAS)
        self._lock = threading.RLock()
        """Held to change which log there is, and while a commit is written down."""
        self._copying = threading.Lock()
        """Held while a copy is made: one at a time, so that other replicas find a thread, too."""
        self._closed = False
        self._stamp = Stamp.of(primary.path)
        # As long as it is open, SQLite keeps the WAL: a checkpoint with the last connection would delete it.
        self._anchor = apsw.Connection(str(primary.path))
        self._anchor.set_busy_timeout(1000)
        self._wal = Wal(primary.path)
        try:
            self._attach()
            self._log = self._recover()
        except BaseException:
            self._wal.close()
            self._anchor.close()
            raise
        self._floor = primary.index
        """No commit up to here is missing in the log; at the start, what was reserved."""

    # The log.

    def _attach(self) -> None:
        """Read the schema: before the first read the anchor holds no lock, and later it may be out of date."""
        self._anchor.execute("SELECT count(*) FROM sqlite_schema").fetchall()

    def _frames(self) -> int:
        """Count the frames of the WAL; moves none of them."""
        self._attach()
        return max(0, self._anchor.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0])

    def _recover(self) -> ChangeLog | None:
        """Open the existing log and append newer commits of the WAL; return None if it does not fit the database."""
        try:
            changes, stamp = ChangeLog.open(self._path)
        except FileNotFoundError:
            return None
        except (OSError, LogError) as error:
            log.warning("the replicas of %s start over from a copy: %s", self._primary.path, error)
            return None
        try:
            frames = self._frames()
            if stamp is not None and stamp != self._stamp:
                raise LogError("the database was changed while the service was off")
            if frames:
                commits = self._wal.since(changes.position, frames)
                if commits.offsets:
                    self._primary.reach(changes.last + 1)  # the crash may have come before it was counted
                    changes.append(self._primary.index, commits, self._wal)
            elif stamp is None:
                raise LogError("the WAL is gone although the database was not closed")
        except (OSError, WalError, LogError) as error:
            log.warning("the replicas of %s start over from a copy: %s", self._primary.path, error)
            changes.remove()
            return None
        self._primary.reach(changes.last)
        return changes

    def note(self, index: int, frames: int) -> None:
        """Append the commit ``index`` to the log; the caller has the write lock, and the WAL has ``frames`` frames."""
        with self._lock:
            if self._log is not None:
                try:
                    commits = self._wal.since(self._log.position, frames)
                    if commits.offsets:
                        self.shipped += self._log.append(index, commits, self._wal)
                        self._bound()
                    self._floor = index  # also of a commit that wrote no page
                except (OSError, WalError) as error:  # the commit itself is done
                    self._give_up(error)
            for replica in self.replicas.values():
                if replica.behind_since is None:
                    replica.behind_since = self._clock()
                if not replica.paused:
                    self._schedule(self, replica)

    def flush(self) -> None:
        """Make the log durable; call it before a checkpoint."""
        with self._lock:
            if self._log is not None:
                try:
                    self._log.flush()
                except OSError as error:
                    self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        log.error("the replicas of %s start over from a copy: %s", self._primary.path, error)
        changes, self._log = self._log, None
        if changes is not None:
            with suppress(OSError):  # a later start finds that its position does not fit
                changes.remove()
        for replica in self.replicas.values():
            replica.copied = False
            if not replica.paused:
                self._schedule(self, replica)

    def _bound(self) -> None:
        """Limit the log: a replica that is too far behind gets a copy instead."""
        if self._log is None or self._log.size <= self._limits.change_log:
            return
        for replica in self.replicas.values():
            if replica.index < self._log.last:
                log.warning("the replica at %s of %s is too far behind: it will be copied anew",
                            replica.code, self._primary.path)  # fmt: skip
                replica.copied = False
        self._begin_anew(self._log)

    def _tidy(self) -> None:
        with self._lock:
            changes = self._log
            if changes is None or changes.size <= LOG_KEPT:
                return
            if all(one.copied and one.index >= changes.last for one in self.replicas.values()):
                try:
                    self._begin_anew(changes)
                except OSError as error:
                    self._give_up(error)

    def _begin_anew(self, changes: ChangeLog) -> None:
        changes.flush()
        last, position = changes.last, changes.position
        changes.close()
        self._log = self._begin_log(last, position)

    def _begin_log(self, index: int, position: Position) -> ChangeLog:
        changes = ChangeLog.create(self._path, index, position)
        if position == START:  # after a crash only the stamp shows whether the log fits the file
            changes.note_closed(Stamp.of(self._primary.path))
        return changes

    # Which replicas there are.

    def set(self, codes: Collection[str], paused: Collection[str]) -> None:
        """Create and remove replicas so that each location has one, and pause those at the paused locations."""
        with self._lock:
            gone = [self.replicas.pop(code) for code in list(self.replicas) if code not in codes]
            for code in codes:
                if code not in self.replicas:
                    self.replicas[code] = self._found(code)
            replicas = list(self.replicas.values())
        for replica in gone:  # not under the lock: it may be at work, which needs the lock
            replica.remove()
        for replica in replicas:
            was, replica.paused = replica.paused, replica.code in paused
            if not replica.paused:
                self._schedule(self, replica)
            elif not was:
                self._end_streams(replica)
                replica.expire(float("inf"))
        self._remove_strangers()

    def _found(self, code: str) -> Replica:
        replica = Replica(code, self._folder / f"{code}.sqlite", self._limits, self._clock, self._end_streams)
        if self._log is not None:
            try:
                replica.load(self._log, self._primary.index)
            except (apsw.Error, OSError) as error:
                log.warning("the replica at %s of %s is copied anew: %s", code, self._primary.path, error)
                replica.retire()
        return replica

    def _remove_strangers(self) -> None:
        """Remove files that a crash left of a location that was removed."""
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.name.partition(".")[0] not in self.replicas:
                    path.unlink(missing_ok=True)

    # Work.

    def work(self, replica: Replica) -> float | None:
        """Do the next work on a replica; return the seconds until more is to be done, None if it is up to date."""
        with replica.busy:
            return self._work(replica)

    def _work(self, replica: Replica) -> float | None:
        if not self._wanted(replica):
            return None
        try:
            with self._lock:
                changes = self._log
            if changes is None or not replica.copied or replica.index < changes.base:
                self._copy(replica)
                return 0.0  # the log may be another one by now
            if replica.apply(changes, APPLY_AT_ONCE):
                return 0.0
            self._settle(replica, changes)
        except (apsw.BusyError, NoLock):
            return SOON
        except Stopped:
            return None
        except (apsw.Error, OSError, LogError, WalError, ValueError) as error:  # ValueError: the log was closed
            log.warning("the replica at %s of %s is copied anew: %s", replica.code, self._primary.path, error)
            replica.copied = False
            return LATER
        self._tidy()
        return None

    def _wanted(self, replica: Replica) -> bool:
        """Return True if work on the replica should begin or continue."""
        return not (self._closed or replica.paused) and self.replicas.get(replica.code) is replica

    def _settle(self, replica: Replica, changes: ChangeLog) -> None:
        """Mark a replica as up to date."""
        with self._lock:  # no commit is written down meanwhile
            if self._log is changes and replica.index >= changes.last:
                replica.behind_since = None
                replica.caught_up(max(changes.last, self._floor))

    def _copy(self, replica: Replica) -> None:
        if not self._copying.acquire(blocking=False):
            raise NoLock
        try:
            with self._snapshot() as index:
                log.info("copying %s to %s", self._primary.path, replica.code)
                draft = pages.copy(self._anchor, replica.path, index, lambda: not self._wanted(replica))
                replica.begin_with(draft, index)
        finally:
            self._copying.release()

    @contextmanager
    def _snapshot(self) -> Iterator[int]:
        """Hold a snapshot of the primary after the commit whose index is returned; it begins under the write lock."""
        waiter = self._primary.write_lock.acquire(self._clock() + LOCK_WAIT)
        try:
            waiter.wait(LOCK_WAIT)
            if not waiter.granted or self._closed:
                raise NoLock
            index = self._primary.index
            with self._lock:
                if self._log is None:
                    self._log = self._begin_log(index, self._wal.position(self._frames()))
            self._anchor.execute("BEGIN")
            try:
                self._attach()
                self._primary.write_lock.release(waiter)
                yield index
            finally:
                self._anchor.execute("ROLLBACK")
        finally:
            self._primary.write_lock.release(waiter)

    # The end.

    def stop(self) -> None:
        """Begin no further work and stop a copy; the rest is done at the next start."""
        self._closed = True

    def close(self) -> None:
        """Close everything. The primary must be closed before: SQLite then moves its WAL into the file."""
        self.stop()
        with self._lock:
            replicas = list(self.replicas.values())
        for replica in replicas:
            replica.close()
        with self._lock:
            self.flush()
            self._wal.close()
            self._anchor.close(True)
            changes, self._log = self._log, None
        if changes is not None:
            try:
                changes.note_closed(Stamp.of(self._primary.path))
            except OSError as error:
                log.warning("the log of %s could not be closed: %s", self._primary.path, error)
            changes.close()

    def remove(self) -> None:
        """Close everything and delete the log: only the primary is left."""
        self.set((), ())
        self.close()
        discard(self._primary.path)


def discard(primary: Path) -> None:
    """Remove the files of replicas from a primary without replicas."""
    primary.with_name(LOG).unlink(missing_ok=True)
    if (folder := primary.with_name(REPLICAS)).exists():
        shutil.rmtree(folder, ignore_errors=True)
