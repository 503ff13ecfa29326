"""A batch whose rows are sent as they are read: memory stays bounded, and the reader sets the pace.

The body is lines of JSON (see `hrana.cursors`), in pieces of some hundred kilobytes or some tens of milliseconds.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import IO

import apsw

from pipemagic.hrana import faults
from pipemagic.hrana.batches import StepState
from pipemagic.hrana.columns import MOST_ROWS
from pipemagic.hrana.cursors import Failure, StepBegin, StepEnd, StepError
from pipemagic.hrana.messages import Batch, Col, Error, Step
from pipemagic.service.database_api import columns, results
from pipemagic.service.database_api.pipelines import Pipeline
from pipemagic.service.database_api.results import RowSink
from pipemagic.service.database_api.rows import SqlRow, encode, entries_of, read
from pipemagic.service.database_api.statements import Cancelled, Steps
from pipemagic.service.database_api.stream import ServerStream
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite import statement
from pipemagic.service.sqlite.statement import Plan, Rejected

log = logging.getLogger(__name__)

PIECE = 256 * 1024
"""Bytes after which a piece is sent; a single row may be larger."""
PATIENCE = 0.05
"""Seconds after which a smaller piece is sent."""
SPOOL = 1024 * 1024
"""Bytes of rows that are kept in memory while their statement holds the write lock; more go to a file."""

_ENDED = Error("the stream was ended: the database was closed, or its rows were not read in time", faults.STREAM_ENDED)
_OUTPACED = Error(
    "the stream was ended: the database changed too much while the rows were read too slowly; read them faster, or "
    "fewer at once (LIMIT)",
    faults.STREAM_ENDED,
)
_BUG = Error("internal error of the service; see service.log in its data folder", "INTERNAL")


class Lines:
    """The lines that are not sent yet. ``clock`` sets the pace only: it is not the service's clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._parts: list[bytes] = []
        self._size = 0
        self._since = clock()

    def add(self, entry: object) -> None:
        """Add an entry."""
        self.append(encode(entry) + b"\n")

    def append(self, data: bytes) -> None:
        """Add encoded lines."""
        self._parts.append(data)
        self._size += len(data)

    @property
    def ripe(self) -> bool:
        """Whether the lines should be sent without waiting for more."""
        return self._size >= PIECE or (self._size > 0 and self.clock() >= self._since + PATIENCE)

    def take(self) -> bytes:
        """Remove and return all lines."""
        piece = b"".join(self._parts)
        self._parts, self._size, self._since = [], 0, self.clock()
        return piece


class StreamedRows:
    """Writes a step's columns and rows as lines; ``aside`` has those of a statement that must not wait for its reader.

    ``must_not_wait`` returns True for such a statement; ``by_columns``: the client reads large results by columns.
    """

    cols = rows = results.EMPTY

    def __init__(
        self, lines: Lines, step: int, must_not_wait: Callable[[], bool], *, want_rows: bool, by_columns: bool
    ) -> None:
        self._lines, self._step, self._must_not_wait = lines, step, must_not_wait
        self._want_rows, self._by_columns = want_rows, by_columns
        self.count = 0
        self.aside: IO[bytes] | None = None

    def take(self, cols: tuple[Col, ...], rows: Iterator[SqlRow]) -> Iterator[bytes]:
        """Write all rows; yield each piece that is ripe, or write all to ``aside``."""
        if not self._must_not_wait():
            yield from self._write(cols, rows, self._lines)
            return
        lines = Lines()
        self.aside = tempfile.SpooledTemporaryFile(SPOOL)  # noqa: SIM115 - `drop` or its reader closes it
        for piece in self._write(cols, rows, lines):
            self.aside.write(piece)
        self.aside.write(lines.take())

    def _write(self, cols: tuple[Col, ...], source: Iterator[SqlRow], lines: Lines) -> Iterator[bytes]:
        lines.add(StepBegin(self._step, list(cols)))
        if not self._want_rows:
            self.count = sum(1 for _ in source)
            return
        many, started = 1, lines.clock()  # few rows at a time while they are large or slow to come
        while rows := read(source, many, PIECE):
            self.count += len(rows)
            data = self._entries(rows)
            lines.append(data)
            slow = lines.clock() > started + PATIENCE / 4
            many = max(1, many // 4) if slow else min(4 * many, MOST_ROWS, 1 + PIECE * len(rows) // len(data))
            if lines.ripe:
                yield lines.take()
            started = lines.clock()

    def _entries(self, rows: Sequence[SqlRow]) -> bytes:
        by_columns = self._by_columns and len(rows) >= columns.FEWEST
        return columns.entry_of(rows) if by_columns else entries_of(rows, signs=self._by_columns)

    def drop(self) -> None:
        """Discard ``aside``: its statement failed."""
        if self.aside is not None:
            self.aside.close()
            self.aside = None


class Cursor(Pipeline):
    """One running cursor. ``failed`` is set if its last entry is an error that ends the stream."""

    failed = False
    _rows: StreamedRows | None

    def stream(self, batch: Batch) -> Steps[bytes]:
        """Run the batch; yield its lines in pieces, and return the last one.

        `Refused` and `Cancelled` are raised until the first piece; after it they are the last entry.
        """
        self._lines, self._number, self._begun = Lines(), 0, False
        try:
            if self._read_only:
                self._refuse_writes(batch)
            yield from self._run(batch)
        except (Refused, Cancelled) as error:
            if not self._begun:
                raise
            self._fail(self._end() if isinstance(error, Cancelled) else Error(error.message, error.code))
        except Exception:  # a bug must not end the response without an error entry
            if not self._begun:
                raise
            log.exception("a cursor failed")
            self._fail(_BUG)
        return self._lines.take()

    def _end(self) -> Error:
        return _OUTPACED if self._stream.outpaced else _ENDED

    def _fail(self, error: Error) -> None:
        self.failed = True
        self._lines.add(Failure(error))

    def _run(self, batch: Batch) -> Steps[None]:
        try:
            yield from self._wait_for(batch.replication_index)
        except Rejected as rejected:  # nothing ran: the stream is unchanged
            self._lines.add(Failure(rejected.error))
            return
        states: list[StepState] = []
        for number, step in enumerate(batch.steps):
            if self._stream.cancelled:
                raise Cancelled
            self._number, self._rows = number, None
            result, error = yield from self._step(step, states)
            if self._rows is not None and self._rows.aside is not None:
                yield from self._read_back(self._rows.aside)
            if error is not None:
                self._lines.add(StepError(number, error))
            elif result is not None:
                self._lines.add(StepEnd(result.affected_row_count, result.last_insert_rowid))
            yield from self._hand_over_if_ripe()
        if self._loss_reported:
            self._settle()

    def _read_back(self, aside: IO[bytes]) -> Steps[None]:
        with aside:
            aside.seek(0)
            while piece := aside.read(PIECE):
                self._lines.append(piece)
                yield from self._hand_over_if_ripe()

    def _hand_over_if_ripe(self) -> Steps[None]:
        if self._lines.ripe:
            yield from self._hand_over(self._lines.take())

    def _hand_over(self, piece: bytes) -> Steps[None]:
        self._begun = True
        yield from super()._hand_over(piece)

    # Steps, as far as they differ from those of a pipeline.

    def _sink(self, plan: Plan, *, want_rows: bool) -> RowSink:  # noqa: ARG002 - the response has no limit
        must_not_wait = partial(_holds_write_lock, self._stream)  # not a method: the cursor refers to the rows
        self._rows = StreamedRows(
            self._lines, self._number, must_not_wait, want_rows=want_rows, by_columns=self._by_columns
        )
        return self._rows

    def _afford(self, error: Error) -> Error:
        return results.short(error)

    # Rights.

    def _refuse_writes(self, batch: Batch) -> None:
        """Raise `Refused` (403) for a step that writes and has no condition, while a status can still be sent."""
        for step in batch.steps:
            if step.condition is None and self._writes(step):
                raise self._forbidden()

    def _writes(self, step: Step) -> bool:
        try:
            plan = statement.parse(self._text(step.stmt.sql, step.stmt.sql_id))
            shape = self._stream.connection.describe(plan)
        except (Rejected, apsw.Error):
            return False  # it will be the error of its step
        writes = not shape.readonly or plan.writes_by_itself or plan.needs_full_access
        return writes and not shape.explain


def _holds_write_lock(stream: ServerStream) -> bool:
    """Return True if the running statement holds the write lock by itself, until its last row was read."""
    return stream.connection.autocommit and stream.connection.writing
