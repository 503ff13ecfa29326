"""Cursors: receive the rows of a statement in batches, a result of any size in bounded memory.

    with database.cursor("SELECT * FROM flights") as cursor:
        for rows in cursor:  # those that have arrived, up to some ten thousand
            ...

The size of a result is limited in a pipeline, but not with a cursor. Leaving the block before the last row closes the
connection, and the server stops reading. A server without cursors (before version 3) sends the rows in one response.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TypeAlias

from pipemagic.client.batch_runner import result_of
from pipemagic.client.cursor_response import CursorResponse, ReceivedEntry, read_entries
from pipemagic.client.statement_errors import statement_error
from pipemagic.client.stream import ClientStream, Dialect
from pipemagic.errors import ProtocolError, ServerError, StatementError, UnknownOutcome
from pipemagic.frames.columnar import ColumnarRows
from pipemagic.hrana import cursors, faults
from pipemagic.hrana.messages import (
    Col,
    Describe,
    DescribeResponse,
    DescribeResult,
    Error,
    ErrorEntry,
    Execute,
    Stmt,
)
from pipemagic.hrana.stream import STRICT, Tx
from pipemagic.hrana.values import Value
from pipemagic.sql import parse

WireRow: TypeAlias = list[Value]

_UNPARSED = re.compile(r"Internal Error: `(.*)`\Z", re.DOTALL)
"""The response of sqld to a cursor with a syntax error; in a pipeline that is an error of the statement."""


class Cursor:
    """A running statement, for a ``with`` block; iterate once. It yields batches of rows of wire values.

    It runs on ``stream``, so it sees uncommitted changes there. With ``owned`` the stream ends with the block. A
    statement that the server refuses raises StatementError and leaves the stream and its transaction
    unchanged; a failed connection ends both (UnknownOutcome). Leaving the block early aborts the response, which
    ends the stream; if a transaction is open the rest is read and dropped instead, so that the transaction stays open.
    """

    def __init__(self, stream: ClientStream, stmt: Stmt, *, owned: bool = False) -> None:
        self.cols: tuple[Col, ...] = ()
        """The columns, known from the start; empty if the statement returns no rows."""
        self.finished = False
        """Whether the statement completed and all rows were received."""
        self.affected_row_count = 0
        """The number of changed rows, once it is finished."""
        self._stream, self._stmt, self._owned = stream, stmt, owned
        self._response: CursorResponse | None = None
        self._ahead: list[Sequence[WireRow]] = []
        self._entries: Iterator[Sequence[ReceivedEntry]] = iter(())

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, '' for one without a name."""
        return tuple(col.name or "" for col in self.cols)

    def __enter__(self) -> Cursor:
        try:
            if self._stream.dialect is Dialect.V3:
                self._open()
            else:
                result = result_of(self._stream.send([Execute(self._stmt)])[0], self._stmt.sql or "")
                self.cols, self._ahead = tuple(result.cols), [result.rows] if result.rows else []
                self.affected_row_count, self.finished = result.affected_row_count or 0, True
        except BaseException:
            self._leave(orderly=False)
            raise
        return self

    def __iter__(self) -> Iterator[Sequence[WireRow]]:
        ahead, self._ahead = self._ahead, []
        yield from ahead
        for entries in self._entries:
            yield from self._rows(entries)
        if not self.finished:
            raise ProtocolError("the rows ended before the end of their statement")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(orderly=error is None)

    def _open(self) -> None:
        """Send the statement, and read up to its columns."""
        text = self._stmt.sql or ""
        if not self._owned:
            described(self._stream, self._stmt)  # on some servers a syntax error would end the stream
        try:
            self._response = self._stream.stream(self._stmt)
        except ServerError as refused:
            if refused.status >= 500 and self._owned:
                described(self._stream, self._stmt)  # raises the error of the statement, if that is the reason
            if (wrapped := _UNPARSED.search(refused.message)) is not None:
                raise StatementError(wrapped[1], code=faults.SQL_PARSE_ERROR, sql=text) from None
            raise
        self._entries = read_entries(self._response)
        for entries in self._entries:
            self._ahead += self._rows(entries)
            if self.finished or any(isinstance(entry, cursors.StepBegin) for entry in entries):
                break

    def _rows(self, entries: Sequence[ReceivedEntry]) -> list[Sequence[WireRow]]:
        """Process some entries; return the rows among them, in batches."""
        rows: list[WireRow] = []
        batches: list[Sequence[WireRow]] = [rows]
        for entry in entries:
            match entry:
                case cursors.RowEntry(row):
                    rows.append(row)
                case ColumnarRows():
                    rows = []
                    batches += [entry, rows]
                case cursors.StepBegin(cols=cols):
                    self.cols = tuple(cols)
                case cursors.StepEnd(affected_row_count=count):
                    self.affected_row_count, self.finished = count or 0, True
                    self._stream.transaction.ran(self._stmt)
                case cursors.StepError(error=error):
                    self._fail(error)
                case cursors.CursorError(error=error) if error.code in (faults.STREAM_ENDED, "INTERNAL", "FORBIDDEN"):
                    raise UnknownOutcome(f"the server aborted the result: {error.message}", hint="run it again")
                case cursors.CursorError(error=error):  # a timeout of a wait leaves the stream unchanged
                    self._fail(error)
        return [batch for batch in batches if batch]

    def _fail(self, error: Error) -> None:
        """Raise the error of the statement, after the rest of the response: the stream stays open if it is complete."""
        assert self._response is not None
        self._response.close(drain=True)
        self._stream.transaction.statement_failed(
            error, sent_at=self._stream.sent_at, exact=self._stream.limits == STRICT
        )
        raise statement_error(error, self._stmt.sql or "")

    def _leave(self, *, orderly: bool) -> None:
        response, self._response = self._response, None
        try:
            if response is not None:
                response.close(
                    drain=not response.complete and (self.finished or (orderly and self._stream.transaction.open))
                )
                may_have_moved = not self.finished or not parse(self._stmt.sql or "").only_reads
                may_have_moved = may_have_moved and self._stream.transaction.state is not Tx.LOST
                if not self._owned and response.complete and may_have_moved:
                    self._stream.autocommit()  # the transaction may have changed
        finally:
            if self._owned:
                self._stream.close()


def described(stream: ClientStream, stmt: Stmt) -> DescribeResult:
    """Return the server's description of a statement, without running it; StatementError for a syntax error."""
    entry = stream.send([Describe(stmt.sql)])[0]
    if isinstance(entry, ErrorEntry):
        raise statement_error(entry.error, stmt.sql or "")
    assert isinstance(entry.response, DescribeResponse)  # checked when it was read
    return entry.response.result
