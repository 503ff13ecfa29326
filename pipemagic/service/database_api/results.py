"""Convert rows and errors of SQLite to the entries of a response, within the response limit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

import apsw
import msgspec

from pipemagic.hrana import faults
from pipemagic.hrana.messages import Col, Error
from pipemagic.service.budgets import MemoryBudget
from pipemagic.service.database_api.columns import BY_COLUMNS, FEWEST
from pipemagic.service.database_api.rows import LISTED, LISTED_WITH_SIGNS, STEP, SqlRow, encode, read
from pipemagic.service.executor import UNVERIFIED, Tenant

MOST_ROWS = 4000
"""Rows that are read at once, at most."""
PIECE = 4 * 1024 * 1024
"""Bytes of JSON that rows read at once should not exceed, estimated from the rows before them. In pieces of 1 MB,
wide rows by columns take twice as long."""
LONGEST_MESSAGE = 4000
"""Characters of an error message."""

SMALL_RESPONSE = 64 * 1024
"""Bytes that a response may have before it takes from the memory for all responses."""
MEMORY_STEP = 1024 * 1024
"""Bytes that it takes at once, at least."""

EMPTY = msgspec.Raw(b"[]")


class TooLarge(Exception):
    """The response would exceed its limit, or all responses together theirs (``shared``)."""

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__()
        self.shared = shared


class WireResult(msgspec.Struct, frozen=True):
    """A statement's result whose columns and rows are JSON already (see `hrana.messages.StmtResult`)."""

    cols: msgspec.Raw
    rows: msgspec.Raw
    affected_row_count: int
    last_insert_rowid: str | None
    replication_index: str | None
    rows_read: int = 0
    rows_written: int = 0
    query_duration_ms: float = 0.0


class Budget:
    """Counts the bytes that a response may still grow by, and keeps its large rows in pieces.

    A large response takes its bytes from the memory for all responses, in large parts; `release` returns them when
    the response was sent. Each copy of its rows would take as much memory again, uncounted; a mark therefore stands
    for them in the entries, until `assemble`.
    """

    def __init__(self, limit: int, memory: MemoryBudget | None = None, tenant: Tenant = UNVERIFIED) -> None:
        self.limit = self.left = limit
        self._memory, self._tenant = memory, tenant
        self.taken = 0
        """Bytes taken from the memory for all responses."""
        self.large_rows: list[list[bytes]] = []

    def spend(self, size: int) -> None:
        """Subtract ``size`` bytes; raise `TooLarge` if fewer are left, for this response or for all."""
        if size > self.left:
            raise TooLarge
        self.left -= size
        if self._memory is not None and self.limit - self.left > self.taken + SMALL_RESPONSE:
            self._take_memory(self._memory)

    def _take_memory(self, memory: MemoryBudget) -> None:
        more = max(self.limit - self.left - self.taken, MEMORY_STEP)
        if not memory.take(self._tenant, more):
            raise TooLarge(shared=True)
        self.taken += more

    def keep(self, pieces: list[bytes]) -> msgspec.Raw:
        """Keep the JSON of large rows; return their mark, which has bytes that JSON cannot have."""
        self.large_rows.append(pieces)
        return msgspec.Raw(b"\0%d\0" % (len(self.large_rows) - 1))

    def assemble(self, parts: Iterable[bytes]) -> list[bytes]:
        """Return the parts of a body in pieces, with the rows in place of their marks."""
        pieces = []
        for part in parts:
            for number, text in enumerate(part.split(b"\0")):
                pieces += self.large_rows[int(text)] if number % 2 else [text]
        self.large_rows = []
        return pieces

    def release(self) -> None:
        """Return the memory."""
        taken, self.taken = self.taken, 0
        if taken and self._memory is not None:
            self._memory.release(self._tenant, taken)


class RowSink(Protocol):
    """The destination of the columns and rows of a statement."""

    cols: msgspec.Raw
    rows: msgspec.Raw
    count: int

    def take(self, cols: tuple[Col, ...], rows: Iterator[SqlRow]) -> Iterable[bytes]:
        """Take all rows; yield pieces that can be sent before the next rows are read."""

    def drop(self) -> None:
        """Discard the rows: the statement failed."""


class BufferedRows:
    """Keeps columns and rows for one response, within its budget.

    ``by_columns``: the client reads large results by columns.
    """

    def __init__(self, budget: Budget, *, want_rows: bool, by_columns: bool = False) -> None:
        self.cols = self.rows = EMPTY
        self.count = 0
        self._budget, self._left = budget, budget.left
        self._want_rows, self._by_columns = want_rows, by_columns
        self._pieces: list[bytes] = []

    def take(self, cols: tuple[Col, ...], rows: Iterator[SqlRow]) -> Iterable[bytes]:
        """Keep all rows; raise `TooLarge` as soon as they exceed the limit."""
        if cols:
            data = encode(cols)
            self._budget.spend(len(data))
            self.cols = msgspec.Raw(data)
        if self._want_rows:
            self._take_rows(rows)
        else:
            self.count = sum(1 for _ in rows)
        return ()

    def _take_rows(self, source: Iterator[SqlRow]) -> None:
        """Take a piece at a time, of few rows while these are large, so that memory stays bounded."""
        rows = list(islice(source, 1))
        for before, many in ((1, STEP), (STEP, FEWEST)):
            if self._by_columns and len(rows) == before and len(encode(rows)) * many < PIECE * before:
                rows += read(source, many - before, PIECE)
        form = LISTED_WITH_SIGNS if self._by_columns else LISTED
        if len(rows) >= FEWEST:
            form = BY_COLUMNS
        pieces, left = self._pieces, self._budget.left
        pieces.append(form.begin)
        while rows:
            self.count += len(rows)
            data = form.write(rows)
            self._budget.spend(len(data))
            pieces += [data, b","]
            many = min(max(STEP, 4 * len(rows)), MOST_ROWS, 1 + PIECE * len(rows) // len(data))
            rows.clear()  # before the next are read
            rows += islice(source, many) if many <= STEP else read(source, many, PIECE)
        if len(pieces) > 1:
            pieces.pop()
        pieces.append(form.end)
        small = left - self._budget.left <= SMALL_RESPONSE
        self.rows = msgspec.Raw(b"".join(pieces)) if small else self._budget.keep(pieces)

    def drop(self) -> None:
        """Discard the rows and return their bytes."""
        self._budget.left, self.count = self._left, 0
        self._pieces.clear()
        self.cols = self.rows = EMPTY


def too_large(limit: int, *, changed: bool = False) -> Error:
    """Return the error for a response that is too large; ``changed``: the statement changed rows."""
    return Error(
        f"Response is too large: the limit of one response is {limit:,} bytes; "
        + ("what the statement changed stays applied" if changed else "ask for fewer rows (LIMIT) or columns"),
        faults.RESPONSE_TOO_LARGE,
    )


def no_memory(*, changed: bool) -> Error:
    """Return the error for a lack of memory that other responses use; ``changed``: the statement changed rows."""
    return Error(
        "Response is too large at present: other responses that are not sent yet use the memory of the service; "
        + ("what the statement changed stays applied" if changed else "try again, or ask for fewer rows (LIMIT)"),
        faults.RESPONSE_TOO_LARGE,
    )


def no_room(limit: int) -> Error:
    """Return the error of a statement that was not run because the results before it used up the response."""
    return Error(
        f"Response is too large: the requests before this one used up the {limit:,} bytes of one response; "
        "nothing of this statement ran: send it in a request of its own",
        faults.RESPONSE_TOO_LARGE,
    )


def too_slow(limit: float, *, ended: bool, wrote: bool) -> Error:
    """Return the error of a statement that ran for more than ``limit`` seconds; its message says what is undone.

    ``ended``: its transaction ended with it; ``wrote``: it wrote outside of a transaction.
    """
    undone = "; its transaction was rolled back with it" if ended else "; nothing of it was applied" if wrote else ""
    return Error(
        f"the statement ran for more than {limit:g} s, the limit of this service, and was stopped{undone}: "
        "an index may help (EXPLAIN QUERY PLAN shows what is scanned), or smaller steps",
        faults.STATEMENT_TIMEOUT,
    )


def out_of_memory() -> Error:
    """Return the error of a statement for which SQLite found no memory."""
    return Error(
        "SQLite error: out of memory: this statement, or all that run now together, need more than the service has; "
        "use smaller values, or try again",
        "SQLITE_NOMEM",
    )


def short(error: Error) -> Error:
    """Return an error whose message has at most `LONGEST_MESSAGE` characters: it may quote the statement."""
    if len(error.message) <= LONGEST_MESSAGE:
        return error
    return Error(error.message[:LONGEST_MESSAGE] + "...", error.code)


def sqlite_error(error: apsw.Error, *, skipped: int = 0, refusal: str = "", size_limit: int | None = None) -> Error:
    """Convert an error of SQLite to the error on the wire.

    ``skipped`` is added to SQLite's offset (both in UTF-8 bytes); ``refusal`` is the reason if the sandbox refused
    the statement; ``size_limit`` is the limit of the file, in bytes.
    """
    # Errors of apsw's own (bindings, say) have no result code.
    code = apsw.mapping_result_codes.get(getattr(error, "result", 1) & 0xFF, "SQLITE_ERROR")
    message, offset = str(error), getattr(error, "error_offset", -1)
    if isinstance(error, apsw.NoMemError):
        return out_of_memory()
    if refusal:
        return Error(f"not authorized: {refusal}", "SQLITE_AUTH")
    if size_limit is not None and isinstance(error, apsw.FullError):
        message += f" (the size limit of this database is {size_limit:,} bytes)"
    at = f" (at offset {offset + skipped})" if offset is not None and offset >= 0 else ""
    if _SYNTAX.search(message):
        return Error(f"SQL string could not be parsed: {message}{at}", faults.SQL_PARSE_ERROR)
    if at:
        return Error(f"SQL input error: {message}{at}", faults.SQL_INPUT_ERROR)
    return Error(f"SQLite error: {message}", str(code))


_SYNTAX = re.compile(r"syntax error$|^incomplete input$|^unrecognized token: ")


def bad_text(error: UnicodeDecodeError) -> Error:
    """Return the error for a text value that is not UTF-8, which JSON cannot hold."""
    return Error(
        "SQLite error: a text value of the result is not valid UTF-8 "
        f"({error.reason} at byte {error.start}); read the column with CAST(... AS BLOB)",
        "SQLITE_MISMATCH",
    )
