"""The errors of statements on the wire."""

from __future__ import annotations

import re

import apsw

from pipemagic.hrana import faults
from pipemagic.hrana.messages import Error
from pipemagic.service.limits import LONGEST, Limits
from pipemagic.service.sqlite import vectors
from pipemagic.service.sqlite.invalid_text import TextPlace
from pipemagic.service.sqlite.sandbox import LONGEST_STATEMENT
from pipemagic.sql import quote

LONGEST_MESSAGE = 4000
"""Characters of an error message."""

OUTGROWN_TRANSACTION = faults.timed_out(
    "others wrote too much to the database since it first read, and the service keeps only a limited amount of what "
    "changes during a transaction"
)


def timed_out(limits: Limits) -> Error:
    """Return the error of a transaction that was open for as long as it may be in any case."""
    if not limits.relaxed:
        return faults.TRANSACTION_TIMED_OUT
    return faults.timed_out(f"it was open for {LONGEST:g} s")


def waited_for(limit: float) -> Error:
    """Return the error of a transaction that ended after ``limit`` seconds because another connection waited for it."""
    return faults.timed_out(f"it was open for more than {limit:g} s, and another connection waited for it")


CHANGED_SINCE = Error(
    "SQLite error: database is locked: it changed since this transaction first read from it; ROLLBACK and begin again, "
    "with BEGIN IMMEDIATE",
    "SQLITE_BUSY",
    str(apsw.mapping_extended_result_codes[apsw.SQLITE_BUSY_SNAPSHOT]),
)

_MISSING = re.compile(r"no such (?:function|table): (\w+)\Z")
_SYNTAX = re.compile(r"syntax error$|^incomplete input$|^unrecognized token: ")


def too_large(limit: int, *, changed: bool = False, shared: bool = False) -> Error:
    """Return the error for a response that is too large.

    ``changed``: the statement changed rows; ``shared``: other responses use the memory.
    """
    reason, advice = f": the limit of one response is {limit:,} bytes", "request fewer rows (LIMIT) or columns"
    if shared:
        reason = " at present: other responses use the memory of the service"
        advice = "try again, or request fewer rows (LIMIT)"
    if changed:
        advice = "what the statement changed stays applied"
    return Error(f"Response is too large{reason}; {advice}", faults.RESPONSE_TOO_LARGE)


def no_room(limit: int) -> Error:
    """Return the error of a statement that was not run because the results before it used up the response."""
    return Error(
        f"Response is too large: the requests before this one used up the {limit:,} bytes of one response; "
        "this statement was not run: send it in a separate request",
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


STREAM_LEFT = Error(
    "the stream was ended: an earlier statement is still running in a function that cannot be interrupted",
    faults.STREAM_ENDED,
)


def abandoned(*, lost: bool, wrote: bool) -> Error:
    """Return the error of a statement that was stopped and does not end.

    ``lost``: it was in a transaction; ``wrote``: it wrote outside of one.
    """
    undone = "; its transaction is lost" if lost else "; nothing of it is applied" if wrote else ""
    return Error(
        "the statement was stopped, but is in a SQLite function that cannot be interrupted, so it was "
        f"abandoned{undone}: use smaller values",
        faults.STATEMENT_TIMEOUT,
    )


def outgrown(limit: int) -> Error:
    """Return the error of a statement that only read and was stopped twice: others wrote ``limit`` bytes meanwhile."""
    return Error(
        f"the statement was stopped twice because others wrote {limit:,} bytes to the database while it ran: the "
        "service keeps no more of what changes during a statement; run it while less is written, or make it faster "
        "(EXPLAIN QUERY PLAN shows what is scanned)",
        faults.STATEMENT_TIMEOUT,
    )


def out_of_memory() -> Error:
    """Return the error of a statement for which SQLite found no memory."""
    return Error(
        "SQLite error: out of memory: this statement, or all running statements, need more than the service has; "
        "use smaller values, or try again",
        "SQLITE_NOMEM",
    )


def short(error: Error) -> Error:
    """Return an error with the message cut to `LONGEST_MESSAGE` characters: it may quote the statement."""
    if len(error.message) <= LONGEST_MESSAGE:
        return error
    return Error(error.message[:LONGEST_MESSAGE] + "...", error.code, error.extended_code)


def sqlite_error(
    error: apsw.Error, limits: Limits, *, skipped: int = 0, refusal: str = "", size_limit: int | None = None
) -> Error:
    """Convert an error of SQLite to the error on the wire.

    ``skipped`` is added to SQLite's offset (both in UTF-8 bytes); ``refusal`` is the reason if the sandbox refused
    the statement; ``size_limit`` is the limit of the file, in bytes.
    """
    # Errors of apsw's own (bindings, say) have no result code.
    code = str(apsw.mapping_result_codes.get(getattr(error, "result", 1) & 0xFF, "SQLITE_ERROR"))
    extended = apsw.mapping_extended_result_codes.get(getattr(error, "extendedresult", 0))
    extended_code = extended if isinstance(extended, str) else None
    message, offset = str(error), getattr(error, "error_offset", -1)
    if isinstance(error, apsw.NoMemError):
        return out_of_memory()
    if refusal:
        return Error(f"not authorized: {refusal}", "SQLITE_AUTH")
    if size_limit is not None and isinstance(error, apsw.FullError):
        message += f" (the size limit of this database is {size_limit:,} bytes)"
    if isinstance(error, apsw.TooBigError):
        message += f": a value or row has at most {limits.value:,} bytes (--max-value)"
        message += f", the text of a statement {LONGEST_STATEMENT:,}"
    if (missing := _MISSING.match(message)) and missing[1].lower() in vectors.ELSEWHERE:
        is_index = missing[1].lower() in vectors.INDEX
        instead = (
            "sort by vector_distance_cos() or vector_distance_l2()" if is_index else "use vector32() or vector64()"
        )
        message = f"only libSQL servers have {missing[1]}; {instead}"
    at = f" (at offset {offset + skipped})" if offset is not None and offset >= 0 else ""
    if _SYNTAX.search(message):
        return Error(f"SQL string could not be parsed: {message}{at}", faults.SQL_PARSE_ERROR, extended_code)
    if at:
        return Error(f"SQL input error: {message}{at}", faults.SQL_INPUT_ERROR, extended_code)
    return Error(f"SQLite error: {message}", code, extended_code)


def bad_text(error: UnicodeDecodeError, place: TextPlace | None = None, *, changed: bool = False) -> Error:
    """Return the error for a text value that is not UTF-8, which JSON cannot hold.

    ``place`` is None if it is not known; ``changed``: the statement changed rows.
    """
    where = "" if place is None else f"column {place.column}, row {place.row:,}: "
    written = "..."
    if place is not None and place.is_stored:
        written = place.column if place.column.isidentifier() else quote(place.column)
    return Error(
        "SQLite error: a text value of the result is not valid UTF-8 "
        f"({where}{error.reason} at byte {error.start}); read the column with CAST({written} AS BLOB)"
        + ("; what the statement changed stays applied" if changed else ""),
        "SQLITE_MISMATCH",
    )
