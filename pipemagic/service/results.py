"""Rows and errors of SQLite -> the entries of an answer, within the response limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import apsw
import msgspec

from pipemagic.hrana import faults, values
from pipemagic.hrana.messages import Col, Error
from pipemagic.hrana.values import NULL, Float, Integer, SqlValue, Text, Value

FIRST_ROWS, MOST_ROWS = 16, 2000
"""How many rows are taken at a time between looks at the response limit."""
PIECE = 4 * 1024 * 1024
"""Bytes of JSON that such a piece should not exceed, as far as the rows before it tell."""
LONGEST_MESSAGE = 4000
"""Characters of an error message."""

_ENCODER = msgspec.json.Encoder()

_WIRE: dict[type, Callable[[Any], Value]] = {
    int: lambda number: Integer(str(number)),
    float: Float,
    str: Text,
    type(None): lambda _: NULL,
    bytes: values.encode,
}


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


def encode_cols(cols: tuple[Col, ...], budget: Budget) -> msgspec.Raw:
    """Give the columns as a JSON array; TooLarge if they pass the limit."""
    data = _ENCODER.encode(cols)
    if cols:
        budget.spend(len(data))
    return msgspec.Raw(data)


def encode_rows(
    source: Iterator[tuple[SqlValue, ...]], budget: Budget, *, keep: bool = True
) -> tuple[msgspec.Raw, int]:
    """Give the rows as a JSON array (empty without ``keep``), and their number.

    TooLarge as soon as they pass the limit. Rows are taken a piece at a time, few while they are large: a
    table of photographs must not be in memory before the limit is looked at.
    """
    if not keep:
        return msgspec.Raw(b"[]"), sum(1 for _ in source)
    wire, chunks, count, many = _WIRE, [], 0, FIRST_ROWS
    while rows := list(islice(source, many)):
        count += len(rows)
        data = _ENCODER.encode([[wire[type(value)](value) for value in row] for row in rows])
        budget.spend(len(data))
        chunks.append(data[1:-1])
        many = min(4 * many, MOST_ROWS, 1 + PIECE * len(rows) // len(data))
    return msgspec.Raw(b"[" + b",".join(chunks) + b"]"), count


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
