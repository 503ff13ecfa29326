"""The rows of a result, received at once or while they are fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from pipemagic.errors import PipemagicError
from pipemagic.frames.columnar import ColumnarRows, RowsBuilder
from pipemagic.hrana.messages import Col, StmtResult
from pipemagic.hrana.values import SqlValue, Value, decode

Row = tuple[SqlValue, ...]


class Rows:
    """The rows of a result that are not fetched yet. Batches of them are received when they are needed.

    ``close`` is called at the end.
    """

    def __init__(
        self,
        cols: Sequence[Col],
        batches: Iterable[Sequence[list[Value]]],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.cols, self._close = cols, close
        self._batches = iter(batches)
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

        An error is raised when they are fetched.
        """
        try:
            self._batches = iter([self.rest().rows])
        except PipemagicError as error:
            self._batches = _raising(error)

    def close(self) -> None:
        """Drop the rows that were not fetched."""
        self._batches, self._tuples = iter(()), iter(())
        self._close()

    def _next_batch(self) -> bool:
        try:
            batch = next(self._batches, None)
        except BaseException:
            self._close()
            raise
        if batch is None:
            self._close()
            return False
        self._batch, self._at = batch, 0
        self._tuples = batch.tuples() if isinstance(batch, ColumnarRows) else (tuple(map(decode, row)) for row in batch)
        return True


def _raising(error: PipemagicError) -> Iterator[Sequence[list[Value]]]:
    raise error
    yield ()
