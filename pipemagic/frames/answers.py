"""The answer to a pipeline, with the rows of large results by columns (`StoredRows`).

Our own service sends columns to whoever asks for them (`pipemagic.hrana.columns`). Out of the JSON of any other server
the rows are cut, and read by `pipemagic.frames.grid`; the rest is read as always, by `pipemagic.hrana.messages`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from pipemagic.errors import ProtocolError
from pipemagic.frames.collector import collector_paused
from pipemagic.frames.columns import read_part
from pipemagic.frames.grid import read_rows
from pipemagic.frames.stored import GrowingRows, StoredRows, by_columns
from pipemagic.hrana import columns
from pipemagic.hrana.messages import (
    BatchResponse,
    Col,
    ExecuteResponse,
    OkEntry,
    PipelineResponse,
    StmtResult,
    decode_response,
)
from pipemagic.hrana.values import Integer

LARGE = 2**16
"""Bytes of an answer, and of rows in it, from which on this is worth it."""

_BEGIN, _END, _BETWEEN = b'"rows":[[{"t', re.compile(rb'\}\]\],"[a-z]'), b"],["


class _Cut(NamedTuple):
    """Where some rows are: from the first bracket to behind the last one."""

    start: int
    stop: int


def read_answer(body: bytes) -> PipelineResponse:
    """Decode the body of a pipeline response; ProtocolError says where it is wrong."""
    cuts = list(_large_rows(body)) if len(body) >= LARGE else []
    response = _read_apart(body, cuts) if cuts else None
    if response is None:
        with collector_paused(len(body)):
            response = decode_response(body)
    for result in _results(response):
        if isinstance(result.rows, columns.Columns):
            _set_rows(result, _gathered(result.cols, (read_columns(part, result.cols) for part in result.rows.parts)))
    return response


def _set_rows(result: StmtResult, rows: StoredRows) -> None:
    msgspec.structs.force_setattr(result, "rows", rows)  # nobody else has seen the result yet


def read_columns(part: columns.Part, cols: Sequence[Col]) -> StoredRows:
    """Return some rows of our own service; ProtocolError if their columns are inconsistent."""
    return by_columns(cols, part.size, read_part(part))


def _gathered(cols: Sequence[Col], blocks: Iterable[StoredRows]) -> StoredRows:
    rows = GrowingRows(cols)
    for block in blocks:
        rows.add(block)
    return rows.taken()


def _large_rows(body: bytes) -> Iterator[_Cut]:
    """Yield where the rows of large results are. What is found by mistake, in invalid JSON, cannot be read as rows."""
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
    """Read rows and the rest, each in its own way; None if that does not fit together.

    Where rows were cut out stands a mark. If the rest is JSON and holds the marks as rows of results, and each cut is a
    list of rows, then the whole is what it would be with the rows in their places.
    """
    places = [0, *(place for cut in cuts for place in cut), len(body)]
    kept = [body[start:stop] for start, stop in zip(places[::2], places[1::2], strict=True)]
    marks = [b'[[{"type":"integer","value":"rows %d"}]]' % number for number in range(len(cuts))]
    try:
        response = decode_response(b"".join(chain(*zip(kept, marks, strict=False), kept[-1:])))
    except ProtocolError:
        return None  # which the reference says better
    marked = [result for result in _results(response) if _mark(result)]
    if sorted(map(_mark, marked)) != sorted(f"rows {number}" for number in range(len(cuts))):
        return None
    for result in marked:
        rows = _read_cut(body, cuts[int(_mark(result)[len("rows ") :])], result.cols)
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
    """Return the mark that stands in the place of rows, '' if there is none."""
    match result.rows:
        case [[Integer(text)]] if text.startswith("rows "):
            return text
    return ""


def _read_cut(body: bytes, cut: _Cut, cols: Sequence[Col]) -> StoredRows | None:
    outside = len(b"[[")
    blocks = read_rows(body, cut.start + outside, cut.stop - outside, cols=cols, between=_BETWEEN)
    return None if blocks is None else _gathered(cols, blocks)
