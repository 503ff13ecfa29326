"""Rows and errors of SQLite -> the entries of an answer, within the response limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Protocol

import apsw
import msgspec

from pipemagic.hrana import faults
from pipemagic.hrana.messages import Col, Error
from pipemagic.service.embedded.columns import BY_COLUMNS, FEWEST
from pipemagic.service.embedded.rows import LISTED, LISTED_WITH_SIGNS, SqlRow, encode

FIRST_ROWS, MOST_ROWS = 16, 4000
"""How many rows are taken at a time between looks at the response limit."""
PIECE = 4 * 1024 * 1024
"""Bytes of JSON that such a piece should not exceed, as far as the rows before it tell."""
LONGEST_MESSAGE = 4000
"""Characters of an error message."""

EMPTY = msgspec.Raw(b"[]")


class TooLarge(Exception):
    """The answer would grow beyond the response limit."""


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
    """How many bytes the answer may still grow by."""

    def __init__(self, limit: int) -> None:
        self.limit = self.left = limit

    def spend(self, size: int) -> None:
        """Take off ``size`` bytes; TooLarge if they are not there."""
        if size > self.left:
            raise TooLarge
        self.left -= size


class Sink(Protocol):
    """Where the columns and rows of a statement go."""

    cols: msgspec.Raw
    rows: msgspec.Raw
    count: int

    def take(self, cols: tuple[Col, ...], rows: Iterator[SqlRow], *, at_once: bool) -> Iterator[bytes]:
        """Take everything; give pieces that can be sent before the next rows are read.

        With ``at_once`` there are none: others wait for the statement's end.
        """

    def drop(self) -> None:
        """Take back what was kept: the statement failed."""


class Kept:
    """Keeps columns and rows for one answer, within its budget (TooLarge beyond it).

    Rows only if wanted; many of them ``by_columns`` for a client that reads that.
    """

    def __init__(self, budget: Budget, *, want_rows: bool, by_columns: bool = False) -> None:
        self.cols = self.rows = EMPTY
        self.count = 0
        self._budget, self._left = budget, budget.left
        self._want_rows, self._by_columns = want_rows, by_columns

    def take(self, cols: tuple[Col, ...], rows: Iterator[SqlRow], *, at_once: bool = True) -> Iterator[bytes]:
        """Keep all; TooLarge as soon as it passes the limit."""
        del at_once  # it always is
        if cols:
            self.cols = msgspec.Raw(self._afford(encode(cols)))
        if self._want_rows:
            self._take_rows(rows)
        else:
            self.count = sum(1 for _ in rows)
        return iter(())

    def _take_rows(self, source: Iterator[SqlRow]) -> None:
        """Take a piece at a time, few rows while they are large: photographs must not fill the memory unseen."""
        rows = list(islice(source, FIRST_ROWS))
        if self._by_columns and len(rows) == FIRST_ROWS and len(encode(rows)) * FEWEST < PIECE * FIRST_ROWS:
            rows += islice(source, FEWEST - FIRST_ROWS)
        form = LISTED_WITH_SIGNS if self._by_columns else LISTED
        if len(rows) >= FEWEST:
            form = BY_COLUMNS
        chunks = []
        while rows:
            self.count += len(rows)
            data = self._afford(form.write(rows))
            chunks.append(data)
            many = min(4 * len(rows), MOST_ROWS, 1 + PIECE * len(rows) // len(data))
            rows = list(islice(source, many))
        self.rows = form.joined(chunks)

    def _afford(self, data: bytes) -> bytes:
        self._budget.spend(len(data))
        return data

    def drop(self) -> None:
        """Give the room back."""
        self._budget.left, self.count = self._left, 0
        self.cols = self.rows = EMPTY


def too_large(limit: int, *, changed: bool = False) -> Error:
    """Say that an answer was too large, what helps, and that a statement which ``changed`` rows did so."""
    return Error(
        f"Response is too large: the limit of one answer is {limit:,} bytes; "
        + ("what the statement changed stays applied" if changed else "ask for fewer rows (LIMIT) or columns"),
        faults.RESPONSE_TOO_LARGE,
    )


def no_room(limit: int) -> Error:
    """Say that the answers before a statement left no room for its own, so that it was not run."""
    return Error(
        f"Response is too large: the requests before this one used up the {limit:,} bytes of one answer; "
        "nothing of this statement ran: send it in a request of its own",
        faults.RESPONSE_TOO_LARGE,
    )


def too_slow(limit: float, *, ended: bool, wrote: bool) -> Error:
    """Say that a statement ran for longer than ``limit`` seconds, and what is undone.

    Its transaction ``ended`` with it, or it ``wrote`` outside of one.
    """
    undone = "; its transaction was rolled back with it" if ended else "; nothing of it was applied" if wrote else ""
    return Error(
        f"the statement ran for more than {limit:g} s, the limit of this service, and was stopped{undone}: "
        "an index may help (EXPLAIN QUERY PLAN shows what is scanned), or smaller steps",
        faults.STATEMENT_TIMEOUT,
    )


def short(error: Error) -> Error:
    """Cut a message that quotes too much of the statement."""
    if len(error.message) <= LONGEST_MESSAGE:
        return error
    return Error(error.message[:LONGEST_MESSAGE] + "...", error.code)


def sqlite_error(error: apsw.Error, *, skipped: int = 0, refusal: str = "", size_limit: int | None = None) -> Error:
    """Give the wire error of what SQLite raised.

    ``skipped`` is added to SQLite's offset (both in UTF-8 bytes); ``refusal`` is the sandbox's reason, if it
    was that; ``size_limit`` is what the file may grow to, in bytes.
    """
    # Errors of apsw's own (bindings, say) have no result code.
    code = apsw.mapping_result_codes.get(getattr(error, "result", 1) & 0xFF, "SQLITE_ERROR")
    message, offset = str(error), getattr(error, "error_offset", -1)
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
    """Say that a text value is not UTF-8, which JSON cannot carry."""
    return Error(
        "SQLite error: a text value of the result is not valid UTF-8 "
        f"({error.reason} at byte {error.start}); read the column with CAST(... AS BLOB)",
        "SQLITE_MISMATCH",
    )
