"""Backups of databases, from which a branch begins as the database was at an earlier time (``serve --backups N``).

A backup is made when a database is about to change, unless one was made in the last `INTERVAL`: its content is that of
all the time since the change before. Making one costs the writer only the start of a read transaction; a thread then
copies the file. Backups are in the folder of their database, so they are deleted with it.
"""

from __future__ import annotations

import logging
import math
import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import apsw

from pipemagic.config import sync_folder
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.catalog.records import DatabaseRecord, format_moment
from pipemagic.service.catalog.usage import UsageMeter
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.connection import Connection
from pipemagic.service.sqlite.database import OpenDatabase, begin_snapshot, copy_snapshot
from pipemagic.service.sqlite.databases import Databases
from pipemagic.service.sqlite.readers import Reading
from pipemagic.service.sqlite.resources import RESERVE, file_size
from pipemagic.service.transfer.endpoints import Transfers

log = logging.getLogger(__name__)

INTERVAL = 600.0
"""Seconds between two backups of a database, at least."""
WAITING = 50
"""Backups that wait for the thread: each has a read transaction, which keeps the WAL from being shortened."""
FOLDER = "backups"
"""The folder of the backups, in that of their database."""


class Backup(NamedTuple):
    """A backup: its content was that of the database from ``since`` to ``until``, in milliseconds of Unix time.

    ``commits`` is the ``index`` of the database then.
    """

    since: int
    until: int
    commits: int
    path: Path

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.since}-{self.until}-{self.commits}.sqlite"

    @classmethod
    def of_file(cls, path: Path) -> Backup:
        """Return the backup in a file; raise ValueError for another file."""
        since, until, commits = map(int, path.stem.split("-"))
        return cls(since, until, commits, path)


class _Job(NamedTuple):
    """A backup that is being made: ``backup.path`` is the place of its file."""

    backup: Backup
    database: OpenDatabase
    connection: Connection
    reading: Reading
    outgrown: threading.Event
    """Set if the WAL has become so large that its readers must end."""

    def end(self) -> None:
        """End the read transaction."""
        self.database.readers.end(self.reading)
        self.connection.release(self.connection)


class Backups:
    """The backups of all databases; ``most`` of each are kept, 0 makes none. ``now`` returns Unix seconds."""

    def __init__(
        self, folder: Path, databases: Databases, transfers: Transfers, catalog: Catalog, meter: UsageMeter,
        now: Callable[[], float], *, most: int,
    ) -> None:  # fmt: skip
        self._folder, self._databases, self._transfers = folder, databases, transfers
        self._catalog, self._meter, self._now, self.most = catalog, meter, now, most
        self._begun: dict[str, float] = {}
        """When the last backup of a database was begun, or failed, by its id."""
        self._lock = threading.Lock()
        """Held while backups are renamed or removed."""
        self._jobs: queue.Queue[_Job | None] = queue.Queue(WAITING)
        self._making: dict[str, threading.Event] = {}
        """Events that are set when the backup of a database has been made, by its id."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="pipemagic-backups", daemon=True)
        if most:
            self._thread.start()

    def close(self) -> None:
        """End the thread; a backup that is being made is given up."""
        self._stopping.set()
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()

    def of(self, identifier: str) -> list[Backup]:
        """Return the backups of a database, by its id, the oldest first; also if the clock was set back meanwhile."""
        backups = map(Backup.of_file, (self._folder / identifier / FOLDER).glob("*-*-*.sqlite"))
        return sorted(backups, key=lambda backup: backup.commits)

    def size(self, identifier: str) -> int:
        """Return the bytes of a database's backups."""
        return sum(file_size(path) for path in (self._folder / identifier / FOLDER).glob("*.sqlite"))

    def wait(self, identifier: str) -> None:
        """Wait until no backup of a database is being made."""
        if (event := self._making.get(identifier)) is not None:
            event.wait()

    # -- making backups

    def before_write(self, database: OpenDatabase) -> None:
        """Begin a backup if one is due. The caller has the write lock of the database and has not written yet."""
        identifier, now = database.path.parent.name, self._now()
        if not self.most or self._is_recent(self._begun.get(identifier, -math.inf), now):
            return
        try:
            self._begin(identifier, database, now)
        except (apsw.Error, OSError, Refused, queue.Full) as error:  # the statement of a client must not fail
            self._begun[identifier] = now
            log.warning("no backup of %s was made: %s", identifier, error)

    def _begin(self, identifier: str, database: OpenDatabase, now: float) -> None:
        last = next(reversed(self.of(identifier)), None)
        if last is not None and self._is_recent(last.until / 1000, now):  # made before the service was started
            self._begun[identifier] = last.until / 1000
            return
        self._begun[identifier] = now
        until = math.floor(now * 1000) - 1  # the change follows now
        if last is not None and last.commits == database.index:  # nothing was committed since
            with self._lock, suppress(FileNotFoundError):
                last.path.rename(last.path.with_name(last._replace(since=min(last.since, until), until=until).name))
            return
        if not database.index:  # a new database, which has no content
            return
        backup = Backup(self._last_change(database), until, database.index, Path())
        backup = backup._replace(path=self._folder / identifier / FOLDER / backup.name)
        connection, outgrown = database.take(), threading.Event()
        reading = database.readers.begin(outgrown.set, restartable=False, now=True)
        assert reading is not None  # it does not wait
        job = _Job(backup, database, connection, reading, outgrown)
        try:
            begin_snapshot(connection.raw)
            self._making[identifier] = threading.Event()
            self._jobs.put_nowait(job)
        except BaseException:
            self._end(job)
            raise

    @staticmethod
    def _is_recent(moment: float, now: float) -> bool:
        """Return True if no backup is due after one at a moment; one in the future is of a clock that was set back."""
        return 0 <= now - moment < INTERVAL

    def _last_change(self, database: OpenDatabase) -> int:
        """Return when a database was changed last, or later, in milliseconds of Unix time."""
        return math.ceil((self._now() - database.unchanged_for) * 1000)

    def _end(self, job: _Job) -> None:
        job.end()
        if (event := self._making.pop(job.database.path.parent.name, None)) is not None:
            event.set()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            identifier = job.database.path.parent.name
            try:
                self._make(job, identifier)
            except (apsw.Error, OSError, Refused) as error:
                log.warning("no backup of %s was made: %s", identifier, error)
            except Exception:
                log.exception("an error while a backup of %s was made", identifier)
            finally:
                self._end(job)

    def _make(self, job: _Job, identifier: str) -> None:
        raw = job.connection.raw
        size = raw.pragma("page_count") * raw.pragma("page_size")
        self._check(identifier, size, job.outgrown)
        self._make_room(identifier, size)
        with self._transfers.temporary_file(size) as draft:
            copy_snapshot(raw, draft, lambda: self._check(identifier, 0, job.outgrown))
            with self._databases.existing(identifier):  # a deletion removes its folder afterwards
                job.backup.path.parent.mkdir(exist_ok=True)
                os.replace(draft, job.backup.path)
                sync_folder(job.backup.path.parent)
        self._remove(self.of(identifier)[: -self.most])

    def _check(self, identifier: str, size: int, outgrown: threading.Event) -> None:
        """Raise `Refused` if a backup must not be made, or not go on."""
        if self._stopping.is_set():
            raise Refused(503, "the service is stopping")
        if outgrown.is_set():
            raise Refused(503, "others wrote too much to the database")
        if self._catalog.database_by_id(identifier) is None:
            raise Refused(404, "the database was deleted")
        disk = shutil.disk_usage(self._folder)
        if disk.free < size + min(RESERVE, disk.total // 20):
            raise Refused(507, "the disk has not enough free space")

    def _make_room(self, identifier: str, size: int) -> None:
        """Remove old backups of a database until another one fits into the quota; raise `Refused` if none does."""
        record = self._catalog.database_by_id(identifier)
        if record is None:
            return
        missing = size + 1 - self._meter.storage_left(record.organization)
        if missing <= 0:
            return
        if missing > self.size(identifier):  # the old ones are better than none
            raise Refused(403, "the storage quota of its organization has no room for it")
        self.reclaim([identifier], int(missing))

    def _remove(self, backups: Sequence[Backup]) -> None:
        for backup in backups:
            with self._lock, suppress(OSError):  # on Windows, one that is being copied stays until the next time
                backup.path.unlink()

    def reclaim(self, identifiers: Sequence[str], size: int) -> int:
        """Remove the oldest backups of some databases until ``size`` bytes are free; return the bytes that are."""
        freed = 0
        for backup in sorted((backup for name in identifiers for backup in self.of(name)), key=lambda item: item.until):
            if freed >= size:
                break
            freed += file_size(backup.path)
            self._remove([backup])
            log.warning("the backup %s was removed: the storage quota is used up", backup.path)
        return freed

    # -- branches

    @contextmanager
    def content_at(self, record: DatabaseRecord, moment: float) -> Iterator[tuple[Path, float]]:
        """Provide a copy of a database as it was at a moment, or at the last one before of which there is a backup.

        It is a temporary file, which is removed at the end unless it was moved; it comes with the moment of its
        content. Raise `Refused`: 400 if the moment is in the future, or there is no such backup.
        """
        if moment > self._now():
            raise Refused(400, f"seed.timestamp {format_moment(moment)} is in the future")
        self._meter.block(record).check(writes=False)
        database, target = self._databases.open(record), math.floor(moment * 1000)
        self.wait(record.id)  # a backup that is being made may be the one
        index, last_change = database.index, self._last_change(database)
        if target >= last_change:
            with self._transfers.copy(record, lambda: False) as copy:
                if database.index == index:  # nothing was committed meanwhile
                    yield copy, moment
                    return
            self.wait(record.id)
        backups = self.of(record.id)
        exact = next((backup for backup in reversed(backups) if backup.since <= target <= backup.until), None)
        backup = exact or next((backup for backup in reversed(backups) if backup.until <= target), None)
        if backup is None:
            raise self._no_backup(record, moment, backups[0].since if backups else last_change)
        with self._transfers.temporary_file(file_size(backup.path)) as path:
            try:
                shutil.copyfile(backup.path, path)
            except FileNotFoundError:
                raise Refused(409, "the backup was removed meanwhile: try again", "CHANGED") from None
            with path.open("r+b") as file:
                os.fsync(file.fileno())
            yield path, moment if exact else backup.until / 1000

    def _no_backup(self, record: DatabaseRecord, moment: float, first: int) -> Refused:
        reason = "" if self.most else "; this service makes no backups: run it with `pipemagic serve --backups N`"
        return Refused(
            400, f"there is no backup of {record.name} from {format_moment(moment)} or before: a branch is possible "
            f"at times from {format_moment(first / 1000)} to now{reason}", "NO_BACKUP",
        )  # fmt: skip
