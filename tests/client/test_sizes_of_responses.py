"""A hostile server cannot make a small response large: values are counted before they take memory."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from raw_server import Talk, plain, served

import pipemagic
from pipemagic.client import cursor_response
from pipemagic.errors import PipemagicError, ProtocolError
from pipemagic.frames import columnar, typed_json
from pipemagic.frames.columnar import RowsBuilder
from pipemagic.frames.typed_json import read_response
from pipemagic.hrana.columns import MOST_ROWS

LITTLE_MEMORY = 100_000_000
WIDTH = 2000
FEW = 2**18
"""The limit of values in tests whose responses have a few bytes for each value."""


def part_of_nulls(rows: int = MOST_ROWS, width: int = WIDTH) -> bytes:
    columns = b",".join([b'{"type":"null"}'] * width)
    return b'{"size":%d,"columns":[%s]}' % (rows, columns)


def cols(width: int = WIDTH) -> bytes:
    return b"[" + b",".join([b'{"name":"a"}'] * width) + b"]"


def result(columns: bytes, rows: bytes) -> bytes:
    body = b'{"cols":%s,"rows":%s,"affected_row_count":0,"last_insert_rowid":null}' % (columns, rows)
    entry = b'{"type":"ok","response":{"type":"execute","result":%s}}' % body
    return b'{"baton":null,"base_url":null,"results":[%s,{"type":"ok","response":{"type":"close"}}]}' % entry


def cursor(*entries: bytes, width: int = WIDTH) -> bytes:
    begin = b'{"type":"step_begin","step":0,"cols":%s}' % cols(width)
    end = b'{"type":"step_end","affected_row_count":0,"last_insert_rowid":null}'
    return b"\n".join([b'{"baton":null,"base_url":null}', begin, *entries, end, b""])


def rows_entry(part: bytes) -> bytes:
    return b'{"type":"rows","part":%s}' % part


PIPELINES = {
    "one part of NULLs": result(cols(), b'{"parts":[%s]}' % part_of_nulls()),
    "many parts of NULLs": result(cols(1), b'{"parts":[%s]}' % b",".join([part_of_nulls(width=1)] * 300)),
    "rows without columns": result(b"[]", b'{"parts":[%s]}' % b",".join([part_of_nulls(width=0)] * 300)),
}
DENSE = {
    "empty rows": result(b"[]", b"[" + b",".join([b"[]"] * (FEW + 1)) + b"]"),
    "empty columns": result(b"[" + b",".join([b"{}"] * (FEW + 1)) + b"]", b"[]"),
    "no results": b'{"results":[' + b",".join([b"{}"] * (FEW + 1)) + b"]}",
}


@contextmanager
def hostile(body: bytes) -> Iterator[str]:
    """Serve a compressed body for each POST."""
    packed = gzip.compress(body, 1)

    def serve(talk: Talk) -> None:
        while (request := talk.request()) is not None:
            get = request[0].startswith(b"GET")
            talk.send(plain(b"") if get else plain(packed, "200 OK", "Content-Encoding: gzip"))

    with served(serve) as server:
        yield server.url


def refuses(run: Callable[[], object], received: int) -> PipemagicError:
    """Return the error of a call that takes little memory beside what was received."""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError) as caught:
            run()
        assert tracemalloc.get_traced_memory()[1] < LITTLE_MEMORY + 3 * received
    finally:
        tracemalloc.stop()
    return caught.value


@pytest.mark.parametrize("body", PIPELINES.values(), ids=PIPELINES)
def test_a_response_with_too_many_values(body: bytes) -> None:
    with hostile(body) as url, pipemagic.connect(url) as database:
        error = refuses(lambda: database.query("SELECT 1"), len(body))
    assert str(error) == (
        "the response has more than 16,777,216 values and was not read; the request was executed\n"
        "Hint: request fewer rows (LIMIT) or columns, or use database.cursor(...), which has no limit"
    )


@pytest.mark.parametrize("body", DENSE.values(), ids=DENSE)
def test_a_response_of_many_objects_and_lists(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    monkeypatch.setattr(typed_json, "MOST_CELLS", FEW)
    with hostile(body) as url, pipemagic.connect(url) as database:
        error = refuses(lambda: database.query("SELECT 1"), len(body))
    assert "more than 262,144 values" in str(error)


CURSORS = {
    "one part of NULLs": (cursor(rows_entry(part_of_nulls())), "more than 262,144 values"),
    "an empty line without end": (cursor(b" " * 9_000_000), "larger than 2 MB"),
    "a line of empty columns": (
        cursor(b'{"type":"step_begin","step":0,"cols":[' + b",".join([b"{}"] * (FEW + 1)) + b"]}"),
        "more than 262,144 values",
    ),
    "a first line without end": (b" " * 3_000_000, "first line of the cursor is too long"),
}


@pytest.mark.parametrize(("body", "message"), CURSORS.values(), ids=CURSORS)
def test_a_cursor_with_too_many_values(monkeypatch: pytest.MonkeyPatch, body: bytes, message: str) -> None:
    monkeypatch.setattr(typed_json, "MOST_CELLS", FEW)
    monkeypatch.setattr(cursor_response, "MOST_LINE", 2**21)

    def read() -> None:
        with database.cursor("SELECT 1") as rows:
            for _ in rows:
                pass

    with hostile(body) as url, pipemagic.connect(url) as database:
        assert message in str(refuses(read, len(body)))


def test_a_frame_of_a_cursor_with_many_parts_of_nulls() -> None:
    parts = [rows_entry(part_of_nulls(width=1))] * (columnar.MOST_NULLS // MOST_ROWS + 1)
    body = cursor(*parts, width=1)

    def read() -> None:
        with database.cursor("SELECT 1") as cursor:
            builder = RowsBuilder(cursor.cols)
            for rows in cursor:
                builder.add(rows)

    with hostile(body) as url, pipemagic.connect(url) as database:
        assert "67,108,864 NULLs in columns that have no other values" in str(refuses(read, len(body)))


def test_nulls_within_the_limit_are_read() -> None:
    part = part_of_nulls(rows=1000)
    (entry, _) = read_response(result(cols(), b'{"parts":[%s]}' % ",".join([part.decode()] * 8).encode())).results
    assert len(entry.response.result.rows) == 8000
