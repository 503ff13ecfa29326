"""The rows of one statement as they come: a result of any size, in bounded memory.

    with database.cursor("SELECT * FROM flights") as cursor:
        for rows in cursor:  # as many as have come, up to some ten thousand
            ...

What a result takes in a pipeline is limited, that of a cursor is not. Who leaves the block before the last row hangs
up, and the server stops reading. A server without cursors (before version 3) gives its rows in one response.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from pipemagic.client.lines import Entry, Lines
from pipemagic.client.running import result_of, statement_error
from pipemagic.client.stream import ClientStream, Dialect
from pipemagic.errors import ProtocolError, ServerError, StatementError, UnknownOutcome
from pipemagic.frames.stored import StoredRows
from pipemagic.hrana import cursors, faults
from pipemagic.hrana.messages import (
    Col,
    Describe,
    DescribeResponse,
    DescribeResult,
    Error,
    ErrorEntry,
    Execute,
    OkEntry,
    Stmt,
)
from pipemagic.hrana.stream import Tx
from pipemagic.hrana.values import Value
from pipemagic.sql import parse

if TYPE_CHECKING:
    from pipemagic.client.streamed import Streamed

Row: TypeAlias = list[Value]

_UNPARSED = re.compile(r"Internal Error: `(.*)`\Z", re.DOTALL)
"""How sqld answers a cursor whose statement it cannot parse; of a pipeline that is an error of the statement."""

_READS = frozenset({"SELECT", "VALUES", "WITH", "EXPLAIN"})


class Cursor:
    """One statement under way, for a ``with`` block; iterate once. Rows are values of the wire, in batches.

    It runs on ``stream``, so it sees what is uncommitted there. With ``owned`` the stream ends with the block. A
    statement that the server refuses raises StatementError and leaves the stream, and a transaction on it, as they
    were; a failure of the connection ends both (UnknownOutcome). Leaving the block early hangs up, which ends the
    stream; only if a transaction is open the rest is read and dropped, since the transaction would end, too.
    """

    def __init__(self, stream: ClientStream, stmt: Stmt, *, owned: bool = False) -> None:
        self.cols: tuple[Col, ...] = ()
        """The columns, known from the beginning; empty if the statement returns no rows."""
        self.finished = False
        """Whether the statement ran to its end and all rows came."""
        self.affected_row_count = 0
        """How many rows were changed, once it is finished."""
        self._stream, self._stmt, self._owned = stream, stmt, owned
        self._answer: Streamed | None = None
        self._begun = False
        self._ahead: list[Sequence[Row]] = []
        self._entries: Iterator[Sequence[Entry]] = iter(())

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, '' for one without a name."""
        return tuple(col.name or "" for col in self.cols)

    def __enter__(self) -> Cursor:
        try:
            self._open()
        except BaseException:
            self._leave(orderly=False)
            raise
        return self

    def _open(self) -> None:
        if self._stream.dialect is not Dialect.V3:
            self._run_at_once()
            return
        if not self._owned:
            described(self._stream, self._stmt)  # one that cannot be parsed would cost the stream on some servers
        self._answer = self._begin()
        self._entries = iter(Lines(self._answer))
        while not self._begun and not self.finished and (entries := next(self._entries, None)) is not None:
            self._ahead += self._take(entries)

    def _run_at_once(self) -> None:
        result = result_of(self._stream.send([Execute(self._stmt)])[0], self._stmt.sql or "")
        self.cols, self._ahead = tuple(result.cols), [result.rows] if result.rows else []
        self.affected_row_count, self.finished = result.affected_row_count or 0, True

    def __iter__(self) -> Iterator[Sequence[Row]]:
        ahead, self._ahead = self._ahead, []
        yield from ahead
        for entries in self._entries:
            yield from self._take(entries)
        if not self.finished:
            raise ProtocolError("the rows ended before their statement did")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(orderly=error is None)

    def _begin(self) -> Streamed:
        try:
            return self._stream.stream(self._stmt)
        except ServerError as refused:
            if refused.status >= 500 and self._owned:
                described(self._stream, self._stmt)  # raises what is wrong with the statement, if that is why
            if (wrapped := _UNPARSED.search(refused.message)) is not None:
                raise StatementError(wrapped[1], code=faults.SQL_PARSE_ERROR, sql=self._stmt.sql or "") from None
            raise

    def _take(self, entries: Sequence[Entry]) -> list[Sequence[Row]]:
        """Take in some entries; gives the rows among them, in batches."""
        rows: list[Row] = []
        batches: list[Sequence[Row]] = []
        for entry in entries:
            match entry:
                case cursors.Row(row):
                    rows.append(row)
                case StoredRows():
                    batches += [rows, entry]
                    rows = []
                case cursors.StepBegin(cols=cols):
                    self.cols, self._begun = tuple(cols), True
                case cursors.StepEnd(affected_row_count=count):
                    self.affected_row_count, self.finished = count or 0, True
                case cursors.StepError(error=error):
                    self._fail(statement_error(error, self._stmt.sql or ""))
                case cursors.Failure(error=error):
                    self._fail(_failure(error, self._stmt.sql or ""))
        return [batch for batch in (*batches, rows) if batch]

    def _fail(self, error: StatementError | UnknownOutcome) -> None:
        """Raise the error of the statement, after the rest of the answer: the stream goes on if it was whole."""
        assert self._answer is not None
        if isinstance(error, StatementError):
            self._answer.drain()
        raise error

    def _may_have_moved(self) -> bool:
        """Tell whether the transaction may not be as it was: after an error, and what is no question."""
        return not self.finished or parse(self._stmt.sql or "").keyword not in _READS

    def _leave(self, *, orderly: bool) -> None:
        answer, self._answer = self._answer, None
        try:
            if answer is not None:
                if not answer.ended and (self.finished or (orderly and self._stream.transaction.state is Tx.OPEN)):
                    answer.drain()
                answer.close()
                if not self._owned and answer.ended and self._may_have_moved():
                    self._stream.autocommit()
        finally:
            if self._owned:
                self._stream.close()


def described(stream: ClientStream, stmt: Stmt) -> DescribeResult:
    """Ask the server what a statement is, without running it; StatementError if it cannot be parsed."""
    entry = stream.send([Describe(stmt.sql)])[0]
    if isinstance(entry, ErrorEntry):
        raise statement_error(entry.error, stmt.sql or "")
    if not isinstance(entry, OkEntry) or not isinstance(entry.response, DescribeResponse):
        raise ProtocolError("the answer is not the description of a statement")
    return entry.response.result


def _failure(error: Error, sql: str) -> StatementError | UnknownOutcome:
    """Tell what the failure of a whole cursor means: only one that waited in vain leaves the stream as it was."""
    if error.code in (faults.STREAM_ENDED, "INTERNAL", "FORBIDDEN"):
        return UnknownOutcome(f"the server ended the rows: {error.message}", hint="run it again")
    return statement_error(error, sql)
