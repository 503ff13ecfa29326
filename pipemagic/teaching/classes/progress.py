"""Record the progress of a student in the table of a class, without delaying the cells."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING

from pipemagic.client.replication import ReplicationState
from pipemagic.errors import StatementError
from pipemagic.hrana.stream import Tx
from pipemagic.teaching.classes.answers import wrong_answer
from pipemagic.text import mask_passwords

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.session import Session
    from pipemagic.session.connection import Connection
    from pipemagic.session.signals import CellEvent, Subject
    from pipemagic.teaching.exercises import Check

PROGRESS_TABLE = "pipemagic_progress"
"""The table of a database of a class in which progress is recorded."""

ANSWERS_TABLE = "pipemagic_answers"
"""The table in which wrong answers are recorded; only the databases of a class created with ``--record`` have it."""

RECORDED = f"Recorded for the teacher: cells, errors, the last error and points (table {PROGRESS_TABLE})."

RECORDED_ANSWERS = (
    "Recorded for the teacher: cells, errors, the last error, points, and wrong answers to exercises without their "
    f"literals (tables {PROGRESS_TABLE} and {ANSWERS_TABLE})."
)

PROGRESS_DDL = f"""\
CREATE TABLE IF NOT EXISTS {PROGRESS_TABLE}(
    id INTEGER PRIMARY KEY,  -- a row that is sent again after a lost response is stored once
    at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
    cells INTEGER NOT NULL DEFAULT 0, errors INTEGER NOT NULL DEFAULT 0,  -- since the previous row
    error TEXT,  -- the last of these errors
    exercise TEXT, points REAL, of REAL)  -- a check of an exercise"""
"""Creates the table in a database; nothing is recorded in a database without it."""

ANSWERS_DDL = f"""\
CREATE TABLE IF NOT EXISTS {ANSWERS_TABLE}(
    id INTEGER PRIMARY KEY,  -- of the check in {PROGRESS_TABLE}
    answer TEXT, reason TEXT)"""
"""Creates the table for wrong answers."""

INTERVAL = 5.0
"""Seconds between two requests; the first one and the checks of exercises do not wait."""

OCCUPIED = 1.0
"""Seconds to wait while a cell runs or the student's transaction is open."""

LONGEST_PAUSE = 60.0
"""The most seconds between two attempts while requests fail."""

TIMEOUT = 10.0
"""Timeout of each request in seconds."""

AT_EXIT = 1.0
"""Seconds that the end of a session waits for the last requests."""

MOST_ROWS = 50
"""The most rows in one request."""

LONGEST_ERROR = 200
"""The most characters of a message that are recorded."""

_INSERT = f"INSERT OR IGNORE INTO {PROGRESS_TABLE}(id, cells, errors, error, exercise, points, of) VALUES "
_INSERT_ANSWERS = f"INSERT OR IGNORE INTO {ANSWERS_TABLE}(id, answer, reason) VALUES "

_Row = tuple[int, int, int, str | None, str | None, float | None, float | None]

_log = logging.getLogger(__name__)


class Recorder(threading.Thread):
    """Records the cells, errors and checks of one connection, and wrong answers if its database has a table for them.

    The thread sends them in requests of their own, outside of the wire view, so they see no transaction of the
    student. Nothing is sent while a cell runs or a transaction is open: the student's write would fail after a write of
    another connection, or the request would wait for it. A request that fails is repeated later, also while the table
    is missing: a reset creates it again.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(name="pipemagic: progress", daemon=True)
        self._connection = connection
        self._changed = threading.Condition()
        self._id = self._cells = self._errors = 0
        self._error: str | None = None
        self._rows: list[_Row] = [self._take_row()]  # without a cell: the student is connected
        self._answers: list[tuple[int, str, str]] = []
        self._due = 0.0
        self._is_paused = self._is_closed = False
        self.failures = 0  # since the last request that succeeded
        self.ended = False

    def add_cell(self, error: str | None = None) -> None:
        """Record that a cell ran; ``error`` is the message if it failed."""
        with self._changed:
            self._cells += 1
            if error is not None:
                self._errors += 1
                self._error = mask_passwords(error.partition("\n")[0])[:LONGEST_ERROR]
            if self._cells == 1:  # it was woken by the first; waking it at each cell would slow cells down
                self._changed.notify()

    def add_check(self, check: Check) -> None:
        """Record the outcome of a check, at once."""
        records_answers = ANSWERS_TABLE in self._connection.marker_tables
        answer = wrong_answer(check) if records_answers else None
        with self._changed:
            self._rows.append(self._take_row(check.exercise.name, check.points, check.exercise.points))
            if answer:
                self._answers.append((self._id, *answer))
            self._due = 0.0
            self._changed.notify()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Send nothing inside the block, which runs a transaction of its own."""
        self._is_paused = True
        try:
            yield
        finally:
            with self._changed:
                self._is_paused = False
                self._changed.notify()

    def close(self) -> None:
        """Send what is left and end, in the background."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _take_row(self, exercise: str | None = None, points: float | None = None, of: float | None = None) -> _Row:
        self._id = max(self._id + 1, time.time_ns())
        row = (self._id, self._cells, self._errors, self._error, exercise, points, of)
        self._cells, self._errors, self._error = 0, 0, None
        return row

    def run(self) -> None:
        """Send rows when they are due, and the last ones after `close`."""
        while not self.ended:
            with self._changed:
                while not self._is_closed and (left := self._seconds_left()):
                    self._changed.wait(None if left == inf else left)
                self.ended = self._is_closed
            self._send()

    def _seconds_left(self) -> float:
        """Return the seconds until the next request is due; infinity if there is nothing to send."""
        if self._is_paused or not (self._rows or self._cells):
            return inf
        return max(0.0, self._due - time.monotonic())

    def _send(self) -> None:
        """Send the rows, or try again later."""
        with self._connection.between_cells() as free:
            if not free or self._connection.transaction is Tx.OPEN:
                self._wait(OCCUPIED)
                return
        with self._changed:
            if self._cells:
                self._rows.append(self._take_row())
            rows, answers = self._rows[:MOST_ROWS], self._answers[:MOST_ROWS]
        self._wait(INTERVAL)
        if not rows:
            return
        try:
            with self._connection.database.sibling(timeout=TIMEOUT) as database:
                database.replication = ReplicationState()  # reads of the student must not wait for these rows
                _insert(database, _INSERT, rows)
                if answers:
                    with suppress(StatementError):  # the student has deleted the table
                        _insert(database, _INSERT_ANSWERS, answers)
        except Exception as error:  # noqa: BLE001 - it must not appear among the student's cells
            _log.info("progress is not recorded: %s", error)
            self.failures += 1
            self._wait(min(INTERVAL * 2 ** min(self.failures, 10), LONGEST_PAUSE))
        else:
            self.failures = 0
            with self._changed:
                del self._rows[: len(rows)]
                del self._answers[: len(answers)]

    def _wait(self, seconds: float) -> None:
        with self._changed:
            self._due = time.monotonic() + seconds


def _insert(database: Database, into: str, rows: Sequence[tuple[object, ...]]) -> None:
    values = f"({', '.join('?' * len(rows[0]))})"
    database.execute(into + ", ".join([values] * len(rows)), [value for row in rows for value in row])


class Recorders:
    """The recorders of the connections of a session to databases of a class."""

    def __init__(self, session: Session) -> None:
        self._open: dict[Connection, Recorder] = {}
        self._closed: list[Recorder] = []
        self._lock = threading.Lock()
        self._session = session
        self._records = False
        session.marker_tables.update((PROGRESS_TABLE, ANSWERS_TABLE))
        session.connected.connect(self.connected)
        session.changes.connect(self.changed)
        session.closed.connect(self.close)

    def of(self, connection: Connection) -> Recorder | None:
        """Return the recorder of a connection, None if nothing is recorded there."""
        return self._open.get(connection)

    def connected(self, connection: Connection) -> None:
        """Start a recorder for a new connection to a database of a class, and tell the student."""
        if connection.read_only or PROGRESS_TABLE not in connection.marker_tables:
            return
        connection.notes.append(RECORDED_ANSWERS if ANSWERS_TABLE in connection.marker_tables else RECORDED)
        with self._lock:
            if not self._records:  # most sessions have no such database
                self._records = True
                self._session.cell_ran.connect(self.cell_done)
                self._session.cell_failed.connect(self.cell_done)
            self._open[connection] = Recorder(connection)
            self._open[connection].start()
        self.changed("connections")  # another thread may have closed the connection before it had a recorder

    def changed(self, subject: Subject) -> None:
        """Close the recorders of connections that have ended."""
        if subject == "connections":
            self._close_all_but(self._session.connections.values())

    def cell_done(self, cell: CellEvent) -> None:
        """Record a cell that ran or failed."""
        if (recorder := self.of(cell.connection)) is not None:
            recorder.add_cell(None if cell.error is None else cell.error.message)

    def close(self, _: Session) -> None:
        """End all recorders; wait for their last requests, for `AT_EXIT`."""
        _of_session.pop(self._session, None)
        self._close_all_but(())
        end = time.monotonic() + AT_EXIT
        for recorder in self._closed:
            recorder.join(max(0.0, end - time.monotonic()))

    def _close_all_but(self, connections: Iterable[Connection]) -> None:
        with self._lock:
            for connection in self._open.keys() - set(connections):
                recorder = self._open.pop(connection)
                recorder.close()
                self._closed = [candidate for candidate in (*self._closed, recorder) if candidate.is_alive()]


_of_session: dict[Session, Recorders] = {}


def start(session: Session) -> None:
    """Record the progress on the connections of a session to databases of a class."""
    _of_session[session] = Recorders(session)


def recorder_of(session: Session, name: str | None = None) -> Recorder | None:
    """Return the recorder of a connection, by default the current one; None if nothing is recorded there."""
    recorders, connection = _of_session.get(session), session.connections.get(name or session.current or "")
    return None if recorders is None or connection is None else recorders.of(connection)
