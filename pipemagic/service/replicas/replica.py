"""One replica: a file of its own for reads, at an index that never decreases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from pathlib import Path

import apsw

from pipemagic.service.files import sync_folder
from pipemagic.service.limits import Limits
from pipemagic.service.replicas.changes import ChangeLog
from pipemagic.service.replicas.pages import PageFile, full_index
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.connection import Connection
from pipemagic.service.sqlite.pool import Closed, Pool
from pipemagic.service.sqlite.write_lock import Waiter

READER_PATIENCE = 5000
"""Milliseconds that a reader waits while a large commit is written."""


class State(Enum):
    """The state of a replica."""

    FOLLOWING = "ok"
    COPYING = "copying"
    PAUSED = "paused"


class Replica:
    """The replica of one database at the location ``code``.

    Streams take connections from it as from the primary, for reading only.
    """

    def __init__(
        self, code: str, path: Path, limits: Limits, clock: Callable[[], float], end_streams: Callable[[Replica], None]
    ) -> None:
        self.code, self.path, self.limits, self._clock, self._end_streams = code, path, limits, clock, end_streams
        self.busy = threading.Lock()
        """Held while its file is written, replaced or closed."""
        self.paused = False
        self.copied = False
        """Whether it has a file that the log can bring up to date."""
        self.schema_changes = 0
        self.behind_since: float | None = None
        """The time (of the service's clock) of the oldest commit that it has not applied; None if it has all."""
        self.index = 0
        """The ``replication_index`` that it has reached."""
        self._lock = threading.Lock()
        self.pool: Pool | None = None
        """Its connections; None while it cannot be read."""
        self._file: PageFile | None = None
        self._waiting: list[tuple[int, Waiter]] = []
        self._gone = False

    @property
    def state(self) -> State:
        """Its state."""
        if self.paused:
            return State.PAUSED
        return State.FOLLOWING if self.pool is not None else State.COPYING

    @property
    def ready(self) -> bool:
        """Whether it can be read."""
        return self.state is State.FOLLOWING

    def lag(self) -> float:
        """Return the age of the oldest commit that it lacks, in seconds."""
        since = self.behind_since
        return 0.0 if since is None else max(0.0, self._clock() - since)

    # Connections, as of the primary.

    def take(self) -> Connection:
        """Return a read-only connection; raise `Refused` (503) if the replica has no file yet, or is paused."""
        pool = self.pool
        if pool is not None and not self.paused:
            with suppress(Closed):  # a moment ago, by `retire`: the database itself is there
                return pool.take()
        raise Refused(503, f"the replica at {self.code} is not ready: {self.state.value}", "REPLICA_NOT_READY")

    def give_back(self, connection: Connection) -> None:
        """Return a connection to its pool; one to a file that was replaced is closed."""
        assert connection.home is not None
        connection.home.give_back(connection)

    # Following.

    def load(self, log: ChangeLog, newest: int) -> None:
        """Use the existing file if the log has all that it lacks. It may be torn, so it cannot be read yet."""
        if not self.path.exists():
            return
        self._file = PageFile(self.path)
        index = full_index(self._file.counter, newest)
        self.copied = 0 < index >= log.base  # 0 is that of a file that could not be written to its end, too
        if self.copied:
            self.index = index
        else:
            self.retire()

    def begin_with(self, copy: Path, index: int) -> None:
        """Move a new copy into place and end the streams that read the old file."""
        self.retire()
        copy.replace(self.path)
        sync_folder(self.path.parent)
        self._file = PageFile(self.path)
        self.copied = True
        self._reach(index)

    def apply(self, log: ChangeLog, most: int) -> bool:
        """Apply commits of the log, up to ``most`` bytes; return False if there are none.

        Raise apsw.BusyError if it should be tried again. After any other error the file is abandoned.
        """
        records = log.after(self.index, most)
        if not records:
            return False
        log.flush()  # a replica never has what its primary could lose
        assert self._file is not None
        last = records[-1]
        try:
            schema_changed = self._file.write(log.pages(records), last.pages, last.page_size, last.index)
        except apsw.BusyError:
            raise
        except BaseException:
            self.retire()
            raise
        self.schema_changes += schema_changed
        self._reach(last.index)
        return True

    def caught_up(self, index: int) -> None:
        """Record that nothing is missing up to ``index``: it can be read from now on."""
        if self.pool is None:
            self.pool = Pool(partial(Connection, self, busy_timeout=READER_PATIENCE), self.limits, self._clock)
        self._reach(index)

    def _reach(self, index: int) -> None:
        with self._lock:
            self.index = max(self.index, index)
            if self.pool is None:
                return  # the waiters want to read it
            done = [waiter for wanted, waiter in self._waiting if wanted <= self.index]
            self._waiting = [one for one in self._waiting if one[0] > self.index]
        for waiter in done:
            waiter.granted = True
            waiter.finish()

    # Waiting for an index.

    def wait_for(self, index: int, deadline: float) -> Waiter:
        """Return a waiter that is granted when reads see ``index``; it ends without that when the replica does."""
        waiter = Waiter(deadline)
        with self._lock:
            waiter.granted = self.pool is not None and index <= self.index
            waits = not (waiter.granted or self._gone)
            if waits:
                self._waiting.append((index, waiter))
        if not waits:
            waiter.finish()
        return waiter

    def expire(self, now: float) -> None:
        """End the waits whose deadline has passed."""
        with self._lock:
            late = [waiter for _, waiter in self._waiting if waiter.deadline <= now]
            self._waiting = [one for one in self._waiting if one[1] not in late]
        for waiter in late:
            waiter.finish()

    def next_deadline(self) -> float | None:
        """Return the earliest deadline of a waiter; None if there is none."""
        with self._lock:
            return min((waiter.deadline for _, waiter in self._waiting), default=None)

    # The end.

    def retire(self) -> None:
        """Close the file, which is about to be replaced; the caller holds `busy`.

        The pool is closed first, so that no stream takes a connection after the others have ended.
        """
        self.copied = False
        pool, self.pool = self.pool, None
        file, self._file = self._file, None
        if pool is not None:
            pool.close()
        self._end_streams(self)
        if file is not None:
            file.close()

    def close(self) -> None:
        """End the streams and close the file and all connections, once the work on it has finished."""
        with self.busy:
            self.retire()
        with self._lock:
            self._gone = True
        self.expire(float("inf"))

    def remove(self) -> None:
        """Delete the file; on Windows an open one is removed when the database is next opened."""
        self.close()
        try:
            self.path.unlink(missing_ok=True)
        except PermissionError:  # a stream on Windows has it open
            return
