"""Decode pipeline responses, with large results by columns and without a Python object for each cell.

A pipemagic service sends columns to clients that request them (`pipemagic.hrana.columns`). Other servers always write a
cell in the same way: ``{"type":"integer","value":"5"}``. So NumPy finds the start of each cell, checks that everything
around the values has exactly the expected bytes, and extracts the values of each column. If
anything differs, the JSON is decoded in the usual way (`pipemagic.hrana.messages`), which is the reference.

Cells begin with ``{"t``, and nothing else does: in a JSON string a quote has a backslash in front of it, and the quote
that ends a string is not followed by a letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from pipemagic.errors import ProtocolError
from pipemagic.frames.columnar import ColumnarRows, columnar
from pipemagic.frames.columns import ColumnChunk, TextArray, chunk_of, gather, is_utf8, of_kind, read_columns
from pipemagic.hrana.columns import MOST_CELLS, Columns, Part
from pipemagic.hrana.messages import (
    RESPONSE,
    UNREADABLE,
    BatchResponse,
    Col,
    ExecuteResponse,
    OkEntry,
    PipelineResponse,
    StmtResult,
    decode_response,
)
from pipemagic.hrana.values import Float, Integer, Text, Value

LARGE = 2**16
"""The smallest number of bytes of a response, and of the rows in it, that are read by columns."""

_BEGIN, _END, _BETWEEN = b'"rows":[[{"t', re.compile(rb'\}\]\],"[a-z]'), b"],["

PIECE = 2**19
"""Bytes that are read at a time, which fit the cache of the processor."""

_SHORTEST = len('{"type":"null"}')
_DIGITS = b"0123456789-,[]"
_INTEGERS = msgspec.json.Decoder(list[int])
_FLOATS = msgspec.json.Decoder(list[float])
_VALUES = msgspec.json.Decoder(list[Value])


class _Cut(NamedTuple):
    """The position of rows: from the first bracket to after the last one."""

    start: int
    stop: int


def read_response(body: bytes) -> PipelineResponse:
    """Decode the body of a pipeline response; raise ProtocolError with the position of an error, or for its size."""
    if len(body) > MOST_CELLS:
        check_size(body)
    cuts = list(_large_rows(body)) if len(body) >= LARGE else []
    response = _read_apart(body, cuts) if cuts else None
    if response is None:
        try:
            response = RESPONSE.decode(body)
        except UNREADABLE:
            response = decode_response(body)  # raises the error
    if b'parts"' not in body and b"\\" not in body:  # the name of the list of parts, perhaps with escapes
        return response
    columns = [(result, result.rows.parts) for result in _results(response) if isinstance(result.rows, Columns)]
    if columns:
        _check_cells(part for _, parts in columns for part in parts)
    for result, parts in columns:
        _set_rows(result, columnar(result.cols, (read_part(part, result.cols) for part in parts)))
    return response


def _set_rows(result: StmtResult, rows: ColumnarRows) -> None:
    msgspec.structs.force_setattr(result, "rows", rows)  # the result is not shared yet


def check_size(text: bytes) -> None:
    """Raise ProtocolError if JSON has more objects and lists than a response may have values.

    Each takes some 64 bytes in memory, and may take three bytes of JSON.
    """
    if text.count(b"{") + text.count(b"[") > MOST_CELLS:
        raise _too_large()


def _check_cells(parts: Iterable[Part]) -> None:
    if sum(part.size * max(1, len(part.columns)) for part in parts) > MOST_CELLS:
        raise _too_large()


def _too_large() -> ProtocolError:
    return ProtocolError(
        f"the response has more than {MOST_CELLS:,} values and was not read; the request was executed",
        hint="request fewer rows (LIMIT) or columns, or use database.cursor(...), which has no limit",
    )


def read_part(part: Part, cols: Sequence[Col]) -> ColumnarRows:
    """Return rows of a pipemagic service; raise ProtocolError if their columns are inconsistent, or for their size."""
    _check_cells([part])
    return ColumnarRows(cols, [[chunk] for chunk in read_columns(part)], part.size)


def _large_rows(body: bytes) -> Iterator[_Cut]:
    """Yield the positions of the rows of large results; those in invalid JSON fail later."""
    at = 0
    while (begin := body.find(_BEGIN, at)) != -1:
        start = begin + _BEGIN.index(b"[")
        end = _END.search(body, start)
        if end is None:
            return
        at = end.start() + len(b"}]]")
        if at - start >= LARGE:
            yield _Cut(start, at)


def _read_apart(body: bytes, cuts: Sequence[_Cut]) -> PipelineResponse | None:
    """Decode the rows by columns and the rest as JSON; return None if the parts do not match.

    A mark replaces the rows of each result. If the rest is JSON, with the marks as rows of results, and each cut is a
    list of rows, then the response is the same as with the rows in place.
    """
    places = [0, *(place for cut in cuts for place in cut), len(body)]
    pieces = [body[start:stop] for start, stop in zip(places[::2], places[1::2], strict=True)]
    marks = [b'[[{"type":"integer","value":"rows %d"}]]' % number for number in range(len(cuts))]
    try:
        response = decode_response(b"".join(chain(*zip(pieces, marks, strict=False), pieces[-1:])))
    except ProtocolError:
        return None  # the usual decoder raises a better error
    marked = [result for result in _results(response) if _mark(result)]
    if sorted(map(_mark, marked)) != sorted(f"rows {number}" for number in range(len(cuts))):
        return None
    for result in marked:
        rows = _read_rows_at(body, cuts[int(_mark(result)[len("rows ") :])], result.cols)
        if rows is None:
            return None
        _set_rows(result, rows)
    return response


def _results(response: PipelineResponse) -> Iterator[StmtResult]:
    for entry in response.results:
        match entry:
            case OkEntry(ExecuteResponse(result)):
                yield result
            case OkEntry(BatchResponse(batch)):
                yield from (result for result in batch.step_results if result is not None)


def _mark(result: StmtResult) -> str:
    """Return the mark that replaces the rows of a result, '' if none does."""
    match result.rows:
        case [[Integer(text)]] if text.startswith("rows "):
            return text
    return ""


def _read_rows_at(body: bytes, cut: _Cut, cols: Sequence[Col]) -> ColumnarRows | None:
    outside = len(b"[[")
    blocks = read_rows(body, cut.start + outside, cut.stop - outside, cols=cols, between=_BETWEEN)
    return None if blocks is None else columnar(cols, blocks)


# -- rows of typed JSON


class _Unusual(Exception):
    """The bytes do not have the expected form."""


def read_rows(body: bytes, start: int, stop: int, *, cols: Sequence[Col], between: bytes) -> list[ColumnarRows] | None:
    """Decode the rows of ``body`` from their first cell at ``start`` to after their last one.

    They have a value for each of ``cols``, and ``between`` separates them. Return them in pieces, or None if the bytes
    do not have the expected form.
    """
    pieces = _pieces(body, start, stop, between)
    try:
        return [_Piece(body, first, last, len(cols), between).rows(cols) for first, last in pieces]
    except _Unusual:
        return None


def _pieces(body: bytes, start: int, stop: int, between: bytes) -> Iterator[tuple[int, int]]:
    """Split the body into pieces of whole rows."""
    seam = between + b'{"type":"'
    while stop - start > PIECE and (end := body.find(seam, start + PIECE, stop)) != -1:
        yield start, end
        start = end + len(between)
    yield start, stop


class _Piece:
    """Whole rows, with the start and end of each cell, row by row."""

    def __init__(self, body: bytes, start: int, stop: int, width: int, between: bytes) -> None:
        import numpy as np

        if stop - start < _SHORTEST or not width:
            raise _Unusual
        self._size = stop - start
        self._bytes = np.frombuffer(body, np.uint8, self._size + 1, start)  # and the bracket after them
        # Every eight bytes as one number: constant text is compared eight bytes at a time.
        self._words = np.ndarray((self._size - 7,), "<u8", body, start, (1,))
        self._starts = self._cells(width, between)
        self._ends = self._checked_ends(between)

    def _cells(self, width: int, between: bytes) -> Any:
        import numpy as np

        text = self._bytes
        starts = np.flatnonzero(text[: self._size - 2] == ord("{"))
        starts = starts[(text[starts + 1] == ord('"')) & (text[starts + 2] == ord("t"))]
        marked = b'{"t' in between  # the start of the next row looks like a cell, except for the first row
        if marked:
            starts, width = np.concatenate([[-1], starts]), width + 1
        if not starts.size or starts.size % width:
            raise _Unusual
        return starts.reshape(-1, width)[:, marked:]

    def _checked_ends(self, between: bytes) -> Any:
        """Return the end of each cell; check that nothing else is between the cells."""
        import numpy as np

        ends = np.empty_like(self._starts)
        ends[:, :-1] = self._starts[:, 1:] - 1
        ends[:-1, -1] = self._starts[1:, 0] - len(between)
        ends[-1, -1] = self._size
        if self._starts[0, 0] != 0 or (ends - self._starts < _SHORTEST).any():
            raise _Unusual
        self._expect(b'{"type":', self._starts)
        self._expect(b"}", ends - 1)
        self._expect(b",", ends[:, :-1])
        self._expect(between, ends[:-1, -1])
        return ends

    def _expect(self, text: bytes, places: Any) -> None:
        """Check that a text is at all these positions."""
        step = 8 if len(text) >= 8 else 1
        there = self._words if step == 8 else self._bytes
        for at in [*range(0, len(text) - step, step), len(text) - step]:
            if (there[places + at] != int.from_bytes(text[at : at + step], "little")).any():
                raise _Unusual

    def rows(self, cols: Sequence[Col]) -> ColumnarRows:
        """Return the rows by columns."""
        columns = [[self._column(*cells)] for cells in zip(self._starts.T, self._ends.T, strict=True)]
        return ColumnarRows(cols, columns, len(self._starts))

    def _column(self, starts: Any, ends: Any) -> ColumnChunk:
        import numpy as np

        letters = self._bytes[starts + 9]
        missing = letters == ord("n")
        nulls = bool(missing.any())
        if nulls:
            present = ~missing
            if (ends - starts)[missing].max() > _SHORTEST:
                raise _Unusual
            self._expect(b'"null"', starts[missing] + 8)
            starts, ends, letters = starts[present], ends[present], letters[present]
        if not starts.size:
            return ColumnChunk(len(missing), frozenset())
        read = {ord("i"): self._integers, ord("f"): self._floats, ord("t"): self._texts}.get(int(letters[0]))
        part = read(starts, ends) if read is not None and (letters == letters[0]).all() else None
        if part is None:
            part = self._values(starts, ends)
        if not nulls:
            return part
        places = np.cumsum(~missing)
        if isinstance(part.values, TextArray):
            return of_kind(Text, TextArray(part.values.data, part.values.offsets[np.append(0, places)]), missing)
        return part.take(np.where(missing, -1, places - 1))

    def _integers(self, starts: Any, ends: Any) -> ColumnChunk | None:
        self._expect_cells(b'"integer","value":"', b'"}', starts, ends)
        joined = self._joined(starts + 27, ends - 2)
        return None if joined.translate(None, _DIGITS) else _numbers(Integer, _INTEGERS, joined, len(starts))

    def _floats(self, starts: Any, ends: Any) -> ColumnChunk | None:
        self._expect_cells(b'"float","value":', b"}", starts, ends)
        return _numbers(Float, _FLOATS, self._joined(starts + 24, ends - 1), len(starts))

    def _texts(self, starts: Any, ends: Any) -> ColumnChunk | None:
        self._expect_cells(b'"text","value":"', b'"}', starts, ends)
        texts = gather(self._bytes, starts + 24, ends - starts - 26)
        special = (texts.data < ord(" ")) | (texts.data == ord('"')) | (texts.data == ord("\\"))
        return None if special.any() or not is_utf8(texts) else of_kind(Text, texts)

    def _values(self, starts: Any, ends: Any) -> ColumnChunk:
        """Decode cells of several types, with escapes, infinities or bytes, as JSON."""
        joined = self._joined(starts, ends)
        try:
            values = _VALUES.decode(joined)
            if len(values) != len(starts):
                raise _Unusual
            return chunk_of(values)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ProtocolError):
            raise _Unusual from None

    def _expect_cells(self, before: bytes, after: bytes, starts: Any, ends: Any) -> None:
        """Check the text around the values of cells of one type."""
        if (ends - starts).min() < 8 + len(before) + len(after):
            raise _Unusual
        self._expect(before, starts + 8)
        self._expect(after, ends - len(after))

    def _joined(self, starts: Any, ends: Any) -> bytes:
        """Return the text at these positions as a JSON array."""
        data, offsets = gather(self._bytes, starts, ends - starts + 1)
        data[offsets[1:] - 1] = ord(",")
        data[-1] = ord("]")
        return b"[" + bytes(data)


def _numbers(kind: type, decoder: msgspec.json.Decoder[list[Any]], joined: bytes, count: int) -> ColumnChunk | None:
    import numpy as np

    try:
        numbers = np.array(decoder.decode(joined), np.int64 if kind is Integer else np.float64)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError):
        return None  # an infinity is null
    return of_kind(kind, numbers) if len(numbers) == count else None
