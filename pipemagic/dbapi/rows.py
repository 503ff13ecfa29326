"""The rows of a result, received at once or while they are fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import cast

from pipemagic.errors import InterruptedRequest, PipemagicError, UnknownOutcome
from pipemagic.frames.columnar import ColumnarRows, RowsBuilder
from pipemagic.hrana.messages import Col, StmtResult
from pipemagic.hrana.values import SqlValue, Value, decode

Row = tuple[SqlValue, ...]


class Rows:
    """The rows of a result that are not fetched yet. Batches of them are received when they are needed.

    ``close`` is called at the end, with the error that ended the rows, if any. After an error, fetching raises it
    again: otherwise the rows before it would look like all of them.
    """

    def __init__(
        self,
        cols: Sequence[Col],
        batches: Iterable[Sequence[list[Value]]],
        close: Callable[[BaseException | None], None] = lambda _: None,
    ) -> None:
        self.cols, self._close = cols, close
        self._batches = iter(batches)
        self._error: PipemagicError | None = None
        self._is_complete = False
        self._batch: Sequence[list[Value]] = ()
        self._tuples: Iterator[Row] = iter(())
        self._at = 0
        """The number of rows of the batch that were fetched."""

    def fetch(self, count: int | None = None) -> list[Row]:
        """Return the next ``count`` rows, or fewer at the end; all without a ``count``."""
        rows: list[Row] = []
        while count is None or len(rows) < count:
            new = list(islice(self._tuples, None if count is None else count - len(rows)))
            self._at += len(new)
            rows = rows + new if rows else new
            if len(rows) != count and not self._next_batch():
                break
        return rows

    def rest(self) -> StmtResult:
        """Return the rows that were not fetched, as columns; afterwards there are none."""
        builder = RowsBuilder(self.cols)
        builder.add(self._batch[self._at :])
        self._batch, self._tuples, self._at = (), iter(()), 0
        while self._next_batch():
            builder.add(self._batch)
        self._batch, self._tuples = (), iter(())
        return StmtResult(list(self.cols), builder.build())

    def receive(self) -> None:
        """Receive all rows now, as columns, so that the connection is free for another statement.

        An error is raised when they are fetched; an interrupt is raised at once, before the other statement runs.
        """
        try:
            self._batches = iter([self.rest().rows])
        except InterruptedRequest:
            raise
        except PipemagicError:
            pass  # it is kept

    def abort(self, error: PipemagicError) -> None:
        """Do not receive the rest of the rows, which ends the stream; raise an ``error`` where they are fetched."""
        if not self._is_complete:
            self._error = error
            self._close(error)

    def close(self) -> None:
        """Drop the rows that were not fetched."""
        self._batches, self._tuples = iter(()), iter(())
        self._close(None)

    def _next_batch(self) -> bool:
        if self._error is not None:
            raise self._error
        try:
            batch = next(self._batches, None)
        except BaseException as error:
            interrupted = UnknownOutcome("an interrupt ended the rows", hint="run the query again")
            is_kept = isinstance(error, PipemagicError) and not isinstance(error, InterruptedRequest)
            self._error = cast("PipemagicError", error) if is_kept else interrupted
            self._close(error)
            raise
        if batch is None:
            self._is_complete = True
            self._close(None)
            return False
        self._batch, self._at = batch, 0
        self._tuples = batch.tuples() if isinstance(batch, ColumnarRows) else (tuple(map(decode, row)) for row in batch)
        return True
