"""Send the rows of a batch as they are read: memory stays bounded, and the reader sets the pace.

The body is lines of JSON (see `hrana.cursors`), in pieces of some hundred kilobytes or some tens of milliseconds.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from typing import IO

import apsw
import msgspec

from pipemagic.hrana import faults
from pipemagic.hrana.batches import StepState
from pipemagic.hrana.cursors import CursorError, RowEntry, StepBegin, StepEnd, StepError
from pipemagic.hrana.messages import Batch, Col, Error, Step
from pipemagic.service.database_api import errors
from pipemagic.service.database_api.results import (
    MIN_COLUMN_ROWS,
    RowSink,
    SqlRow,
    encode,
    part_to_json,
    read,
    row_to_json,
    to_wire,
)
from pipemagic.service.database_api.statements import Cancelled, Runner, forbidden
from pipemagic.service.executor import Steps
from pipemagic.service.responses import Refused
from pipemagic.service.sqlite.statement import Rejected, SqlStatement, parse
from pipemagic.service.stopped_statements import StopReason

encode_lines = msgspec.json.Encoder().encode_lines

log = logging.getLogger(__name__)

PIECE = 256 * 1024
"""Bytes after which a piece is sent; a single row may be larger."""
MOST_AT_ONCE = 512 * 1024
"""Bytes of memory of the rows that are read at once, besides the last one."""
FLUSH_INTERVAL = 0.05
"""Seconds after which a smaller piece is sent."""
SPOOL = 1024 * 1024
"""Bytes of rows that are kept in memory while their statement holds the write lock; more go to a file."""

_ENDED = Error("the stream was ended: the database was closed, or its rows were not read in time", faults.STREAM_ENDED)
_OUTPACED = Error(
    "the stream was ended: others wrote too much to the database while the rows were read; read them faster, or fewer "
    "at once (LIMIT)",
    faults.STREAM_ENDED,
)
_BUG = Error("internal server error; see service.log in the data folder of the service", "INTERNAL")


class Lines:
    """The lines that are not sent yet."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._since = time.monotonic()

    def __len__(self) -> int:
        return len(self._data)

    def add(self, entry: object) -> None:
        """Add an entry."""
        self.append(encode(entry) + b"\n")

    def append(self, data: bytes) -> None:
        """Add encoded lines."""
        self._data += data

    @property
    def full(self) -> bool:
        """True if the lines should be sent without waiting for more."""
        size = len(self._data)
        return size >= PIECE or (size > 0 and time.monotonic() >= self._since + FLUSH_INTERVAL)

    def cut(self, size: int) -> None:
        """Remove all but the first ``size`` bytes."""
        del self._data[size:]

    def take(self) -> bytes:
        """Remove and return all lines."""
        piece = bytes(self._data)
        self._data.clear()
        self._since = time.monotonic()
        return piece


class StreamedRows:
    """Writes a step's columns and rows as lines, or to ``spool`` if the statement must not wait for its reader."""

    def __init__(self, lines: Lines, step: int, runner: Runner, *, want_rows: bool) -> None:
        self._lines, self._step, self._stream, self._budget = lines, step, runner.stream, runner.budget
        self._want_rows, self._by_columns = want_rows, runner.by_columns
        self.cols, self.count = b"", 0
        self.rows: list[bytes] = []
        self.spool: IO[bytes] | None = None
        self._before = len(lines)
        """Bytes of lines before its own."""

    def take(self, cols: tuple[Col, ...], rows: Iterator[SqlRow]) -> Iterator[bytes]:
        """Write all rows; yield each piece that is full, or write all to ``spool``."""
        connection, entries = self._stream.connection, self._entries(cols, rows)
        if connection.writing and not connection.raw.in_transaction:  # it has the lock until its last row was read
            self.spool = tempfile.SpooledTemporaryFile(SPOOL)  # noqa: SIM115 - `drop` or its reader closes it
            self.spool.writelines(entries)
            return
        for data in entries:
            self._lines.append(data)
            if self._lines.full:
                yield self._lines.take()

    def _entries(self, cols: tuple[Col, ...], source: Iterator[SqlRow]) -> Iterator[bytes]:
        yield encode(StepBegin(self._step, list(cols))) + b"\n"
        if not self._want_rows:
            self.count = sum(1 for _ in source)
            return
        rows, size = read(source, MOST_AT_ONCE, FLUSH_INTERVAL)
        while rows:
            self.count += len(rows)
            self._budget.spend(0, rows=size)
            if self._by_columns and len(rows) >= MIN_COLUMN_ROWS:
                yield self._line(b'{"type":"rows","part":', part_to_json(rows), size)
            elif size <= 2 * MOST_AT_ONCE:
                yield encode_lines([RowEntry(to_wire(row, signs=self._by_columns)) for row in rows])
            else:
                for row in rows:
                    yield self._line(b'{"type":"row","row":', row_to_json(row, signs=self._by_columns), size)
            del rows
            rows, size = read(source, MOST_AT_ONCE, FLUSH_INTERVAL)
        self._budget.spend(0)

    def _line(self, head: bytes, pieces: Iterator[bytes], size: int) -> bytes:
        """Return a line made of pieces, each of which is counted: they may be large."""
        line = bytearray(head)
        for piece in pieces:
            line += piece
            self._budget.spend(0, rows=size, line=len(line))
        line += b"}\n"
        return bytes(line)

    def restart(self, unsent: bytes) -> None:
        """Forget the rows, of which nothing was sent."""
        if unsent:
            self._lines.append(unsent)
        self._lines.cut(self._before)
        self.count = 0

    def drop(self) -> None:
        """Discard ``spool``: its statement failed."""
        self._budget.drop(self._budget.left)
        self.leave()

    def leave(self) -> None:
        """Discard ``spool``; its statement, if it still runs, fails when it writes to it."""
        if self.spool is not None:
            self.spool.close()
            self.spool = None


class Cursor:
    """One running cursor. ``failed`` is set if its last entry is an error that ends the stream."""

    failed = False

    def __init__(self, runner: Runner) -> None:
        self._runner, self._lines = runner, Lines()
        self._rows: StreamedRows | None = None
        """Those of the current step."""

    def stream(self, batch: Batch) -> Steps[bytes]:
        """Run the batch; yield its lines in pieces, and return the last one.

        Errors that end the stream are raised until the first piece; after it they are the last entry.
        """
        try:
            if self._runner.grant.read_only:
                self._refuse_writes(batch)
            yield from self._run(batch)
        except Exception as error:
            if not self._runner.sent:
                raise
            self.failed = True
            self._lines.add(CursorError(self._failure(error)))
        return self._lines.take()

    def _failure(self, error: Exception) -> Error:
        match error:
            case Refused():
                return Error(error.message, error.code)
            case Cancelled():
                ended = self._runner.stream.ended
                if ended is None or not ended.outpaced:
                    return _ENDED
                self._runner.stopped.add(self._runner.grant, StopReason.WAL)
                return _OUTPACED
        log.error("a cursor failed", exc_info=error)
        return _BUG

    def _run(self, batch: Batch) -> Steps[None]:
        try:
            yield from self._runner.wait_for(batch.replication_index)
        except Rejected as rejected:  # nothing ran: the stream is unchanged
            self._lines.add(CursorError(rejected.error))
            return
        states: list[StepState] = []
        for number, step in enumerate(batch.steps):
            self._runner.refuse_if_cancelled()
            self._rows = None
            result, error = yield from self._runner.run_step(step, states, partial(self._sink, number))
            if self._rows is not None and self._rows.spool is not None:
                yield from self._read_back(self._rows.spool)
            if error is not None:
                self._lines.add(StepError(number, errors.short(error)))
            elif result is not None:
                self._lines.add(StepEnd(result.counts["affected_row_count"], result.counts["last_insert_rowid"]))
            yield from self._send_if_full()
        if self._runner.loss_reported:
            self._runner.stream.acknowledge_loss()

    def _sink(self, number: int, _: SqlStatement, want_rows: bool) -> RowSink:
        """Return the sink for the rows of a step, which have no limit together."""
        self._rows = rows = StreamedRows(self._lines, number, self._runner, want_rows=want_rows)
        return rows

    def _read_back(self, spool: IO[bytes]) -> Steps[None]:
        with spool:
            spool.seek(0)
            while piece := spool.read(PIECE):
                self._lines.append(piece)
                yield from self._send_if_full()

    def _send_if_full(self) -> Steps[None]:
        if self._lines.full:
            yield from self._runner.send(self._lines.take())

    # Rights.

    def _refuse_writes(self, batch: Batch) -> None:
        """Raise `Refused` (403) for a step that writes and has no condition, while a status can still be sent."""
        for step in batch.steps:
            if step.condition is None and self._writes(step):
                raise forbidden()

    def _writes(self, step: Step) -> bool:
        try:
            statement = parse(self._runner.text(step.stmt))
            shape = self._runner.stream.connection.describe(statement)
        except (Rejected, apsw.Error):
            return False  # it will be the error of its step
        writes = not shape.readonly or statement.writes_by_itself or statement.needs_full_access
        return writes and not shape.explain
