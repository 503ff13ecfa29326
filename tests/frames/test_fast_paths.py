"""Large results are read by columns: never with another outcome than the plain route has, which is the reference."""

from __future__ import annotations

import gc
import itertools
import math
import random
import re
import struct
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from by_columns import to_part
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from pipemagic.client import cursor_response
from pipemagic.client.cursor_response import read_entries
from pipemagic.errors import PipemagicError, ProtocolError
from pipemagic.frames import files, to_frame, typed_json
from pipemagic.frames.arrow_polars import to_arrow, to_polars
from pipemagic.frames.columnar import ColumnarRows, RowsBuilder
from pipemagic.frames.typed_json import read_response
from pipemagic.hrana import columns, cursors
from pipemagic.hrana.columns import Columns, RowsEntry
from pipemagic.hrana.messages import (
    BatchResponse,
    BatchResult,
    Col,
    Error,
    ErrorEntry,
    ExecuteResponse,
    OkEntry,
    PipelineResponse,
    StmtResult,
    decode_response,
    encode,
)
from pipemagic.hrana.values import NULL, Blob, Float, Integer, Text, Value, decode
from pipemagic.hrana.values import encode as encode_value

try:
    import pyarrow
except ImportError:  # `.ci/run` runs these tests with it and without
    pyarrow = None

HOSTILE = [
    "", '{"t', '}],[{"type":"', '"rows":[[', '"rows":[[{"t', '}]],"a', '"', "\\", '\\"', 'ends with \\', "\0", "\x7f",
    "\n", "😀", "é", "\u2028", "\ud7ff\ue000", '"},{"type":"null"}', "2024-01-31", "Zoë", "rows 0", "a", "b", "NaT",
]  # fmt: skip
DIGITS = re.compile(r"[+-]?[0-9]+")
INTEGERS = st.integers(-(2**63), 2**63 - 1).map(lambda number: Integer(str(number)))
FLOATS = st.floats(allow_nan=False, allow_infinity=False).map(Float)
INFINITIES = st.sampled_from([Float(None), Float(None, 1), Float(None, -1)])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(Text)
DATES = st.dates().map(lambda day: Text(day.isoformat()))
MOMENTS = st.sampled_from(
    ["2024-01-31 12:30:00", "2024-01-31T12:30:01", "2024-02-30", "0000-01-01", "1999-12-31 12:30:00.25", "2024-01-31",
     "2024-01-31 12:30:00Z", "2024-01-31 12:30:00+02:00", "9999-12-31 23:59:59", "2024-01-31 12:30:00.123456789"]
).map(Text)  # fmt: skip
BLOBS = st.binary(max_size=4).map(lambda data: Blob(msgspec.to_builtins(data).rstrip("=")))
KINDS: list[st.SearchStrategy[Value]] = [
    INTEGERS, st.sampled_from([Integer("0"), Integer("1")]), FLOATS, FLOATS | INFINITIES, TEXTS,
    st.sampled_from(HOSTILE).map(Text), st.sampled_from(["a", "é", "bc"]).map(Text), DATES, MOMENTS, BLOBS,
    st.just(NULL),
]  # fmt: skip
DECLARED = st.sampled_from([None, "INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC", "BOOLEAN", "DATE", "DATETIME", ""])
NAMES = st.sampled_from(["a", "same", "same", "", None])


@st.composite
def tables(draw: st.DrawFn) -> StmtResult:
    """A result: most columns of one kind, some with NULLs, some mixed, changing in the middle."""
    count = draw(st.integers(0, 12))
    columns = []
    for _ in range(draw(st.integers(0, 4))):
        kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2))
        if draw(st.booleans()):
            column = draw(
                st.lists(
                    st.one_of(*kinds, *draw(st.sampled_from([[], [st.just(NULL)]]))), min_size=count, max_size=count
                )
            )
        else:
            half = draw(st.integers(0, count))
            column = [draw(kinds[0]) for _ in range(half)] + [draw(kinds[-1]) for _ in range(count - half)]
        columns.append(column)
    cols = [Col(draw(NAMES), draw(DECLARED)) for _ in columns]
    return StmtResult(cols, [list(row) for row in zip(*columns, strict=True)] if columns else [[]] * count)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as large, and pieces hold a few rows."""
    monkeypatch.setattr(typed_json, "LARGE", 1)
    monkeypatch.setattr(cursor_response, "LARGE", 1)
    monkeypatch.setattr(cursor_response, "CHUNK_SIZE", 300)
    monkeypatch.setattr(typed_json, "PIECE", 200)


def pipeline(*results: StmtResult) -> bytes:
    return encode(PipelineResponse([OkEntry(ExecuteResponse(result)) for result in results]))


def seen(response: Callable[[], PipelineResponse]) -> list[object]:
    """Return everything visible of the results of a response: frames, types, notes, errors, rows."""
    try:
        results = list(typed_json._results(response()))
    except PipemagicError as error:
        return [type(error), str(error)]
    found: list[object] = []
    for result in results:
        notes: list[str] = []
        found.append(notes)
        try:
            frame = to_frame(result, note=notes.append)
        except PipemagicError as error:
            found += [type(error), str(error)]
            continue
        found += [len(result.rows), frame, msgspec.structs.replace(result, rows=[])]
        found.append([list(map(canonical, row)) for row in result.rows])
    return found


def canonical(value: Value) -> Value:
    """Return one form for all that mean the same: signs and zeros of integers, padding and unused bits of blobs."""
    if isinstance(value, Integer) and DIGITS.fullmatch(value.value):
        return Integer(str(int(value.value)))
    if isinstance(value, Blob):
        with suppress(PipemagicError):  # base64 that is none stays as it came
            return encode_value(decode(value))
    return value


def assert_same(got: list[object], expected: list[object]) -> None:
    assert len(got) == len(expected)
    for result, other in zip(got, expected, strict=True):
        if not hasattr(other, "iloc"):
            assert result == other
            continue
        assert_frame_equal(result, other, check_exact=True, check_column_type=True)  # type: ignore[arg-type]
        for at in range(other.shape[1]):
            left, right = result.iloc[:, at].array, other.iloc[:, at].array  # type: ignore[attr-defined]
            assert type(left) is type(right)
            assert left.dtype == right.dtype
            assert repr(left.dtype) == repr(right.dtype)
            if left.dtype == object:  # None and NaN count as equal above
                assert list(map(repr, left)) == list(map(repr, right))
            elif left.dtype == float:
                assert [math.copysign(1, number) for number in left if number == number] == [
                    math.copysign(1, number) for number in right if number == number
                ]


def assert_read_alike(body: bytes) -> None:
    assert_same(seen(lambda: read_response(body)), seen(lambda: decode_response(body)))


@given(st.lists(tables(), min_size=1, max_size=2))
def test_a_pipeline(results: list[StmtResult]) -> None:
    assert_read_alike(pipeline(*results))


@given(st.lists(tables(), min_size=1, max_size=3))
@settings(max_examples=30)  # other bytes around the results, which are those of a pipeline
def test_a_batch(results: list[StmtResult]) -> None:
    batch = BatchResult([None, *results], [Error("no"), *[None] * len(results)])
    assert_read_alike(encode(PipelineResponse([OkEntry(BatchResponse(batch)), ErrorEntry(Error("x"))])))


@given(st.lists(tables(), min_size=1, max_size=2), st.integers(1, 5))
def test_columns_of_our_own_service(results: list[StmtResult], size: int) -> None:
    results = list(map(signed, results))
    by_columns = [msgspec.structs.replace(result, rows=columns_of(result, size)) for result in results]
    assert_same(seen(lambda: read_response(pipeline(*by_columns))), seen(lambda: decode_response(pipeline(*results))))


def columns_of(result: StmtResult, size: int) -> Columns:
    rows = [tuple(map(decode, row)) for row in result.rows]
    return Columns([to_part(rows[at : at + size]) for at in range(0, len(rows), size)])


def signed(result: StmtResult) -> StmtResult:
    """Return the result as our own service sends it, where every infinity has a sign."""
    rows = [[Float(None, -1) if value == Float(None) else value for value in row] for row in result.rows]
    return msgspec.structs.replace(result, rows=rows)


def test_inconsistent_columns() -> None:
    good = columns.Texts("aé".encode(), struct.pack("<2q", 1, 3))
    wrong: list[columns.Column] = [
        columns.Integers(b"1234567"), columns.Integers(bytes(24)), columns.Floats(bytes(8)),
        columns.Integers(bytes(16), b"\0"),
        columns.Texts(b"a", struct.pack("<2q", 1, 2)), columns.Texts(b"ab", struct.pack("<2q", 1, 1)),
        columns.Texts(b"ab", struct.pack("<2q", 3, 2)), columns.Texts(b"ab", struct.pack("<2q", -1, 2)),
        columns.Texts(b"a\xff", struct.pack("<2q", 1, 2)), columns.Texts("é".encode(), struct.pack("<2q", 1, 2)),
        columns.Blobs(b"a", struct.pack("<2q", 1, 2)), columns.Mixed([NULL]),
    ]  # fmt: skip
    for column in wrong:
        body = pipeline(StmtResult([Col("a")], Columns([columns.Part(2, [good]), columns.Part(2, [column])])))
        with pytest.raises(ProtocolError, match="inconsistent columns"):
            read_response(body)
    for parts in ([], [good, good]):
        with pytest.raises(ProtocolError, match="wrong number of values"):
            read_response(pipeline(StmtResult([Col("a")], Columns([columns.Part(2, parts)]))))
    for size in (-1, columns.MOST_ROWS + 1, 10**12):  # which no bytes say
        with pytest.raises(ProtocolError, match=r"inconsistent columns|more than 16,777,216 values"):
            read_response(pipeline(StmtResult([Col("a")], Columns([columns.Part(size, [columns.Nulls()])]))))


def test_rows_without_columns_keep_their_number() -> None:
    (entry,) = read_response(pipeline(StmtResult([], Columns([columns.Part(2, []), columns.Part(1, [])])))).results
    assert list(entry.response.result.rows) == [[], [], []]


@given(tables(), st.integers(1, 5), st.lists(st.integers(1, 400), max_size=10), st.booleans())
def test_a_cursor(table: StmtResult, size: int, cuts: list[int], by_columns: bool) -> None:
    table = signed(table) if by_columns else table
    rows = (
        [RowsEntry(part) for part in columns_of(table, size).parts]
        if by_columns
        else list(map(cursors.RowEntry, table.rows))
    )
    entries = [cursors.StepBegin(0, table.cols), *rows, cursors.StepEnd(0, None)]
    body = b"".join(encode(entry) + b"\n" for entry in entries)
    assert_same(seen_by_cursor(body, cuts), seen(lambda: decode_response(pipeline(table))))


def seen_by_cursor(body: bytes, cuts: list[int]) -> list[object]:
    """Return everything visible of rows in pieces of these lengths."""
    steps = itertools.accumulate(itertools.cycle(cuts or [len(body)]), initial=0)
    places = [*itertools.takewhile(len(body).__gt__, steps), len(body)]
    pieces = [body[start:stop] for start, stop in itertools.pairwise(places)]
    try:
        begin, *rows, end = itertools.chain.from_iterable(
            read_entries(pieces, clock=iter(itertools.count(0, 0.03)).__next__)
        )
        assert isinstance(end, cursors.StepEnd)
        kept = RowsBuilder(begin.cols)  # type: ignore[union-attr]
        for row in rows:
            kept.add([row.row] if isinstance(row, cursors.RowEntry) else row)  # type: ignore[arg-type]
        result = StmtResult(begin.cols, kept.build())  # type: ignore[union-attr]
    except PipemagicError as error:
        return [type(error), str(error)]
    return seen(lambda: PipelineResponse([OkEntry(ExecuteResponse(result))]))


def test_rows_of_a_cursor_are_read_by_columns() -> None:
    entries = [cursors.StepBegin(0, TABLE.cols), *map(cursors.RowEntry, TABLE.rows), cursors.StepEnd(0, None)]
    begin, *rows, end = itertools.chain.from_iterable(
        read_entries([b"".join(encode(entry) + b"\n" for entry in entries)])
    )
    assert (begin, end) == (entries[0], entries[-1])
    assert [row for block in rows for row in block] == ROWS  # type: ignore[union-attr]
    assert all(isinstance(block, ColumnarRows) for block in rows)


@given(tables())
@settings(max_examples=50)
def test_other_tables_and_files(tmp_path_factory: pytest.TempPathFactory, table: StmtResult) -> None:
    folder = tmp_path_factory.getbasetemp()
    plain, fast = decode_response(pipeline(table)), read_response(pipeline(table))
    assert written(fast, folder) == written(plain, folder)


def written(response: PipelineResponse, folder: Path) -> list[object]:
    """Return the CSV file, the Polars frame and the Arrow table of a result, and the notes on each."""
    (result,) = typed_json._results(response)
    found: list[object] = []
    notes: list[str] = []
    try:
        files.write_csv(folder / "rows.csv", result.cols, [result.rows], note=notes.append)
        found.append((folder / "rows.csv").read_bytes())
    except PipemagicError as error:
        found.append(str(error))
    frame = to_polars(result, note=notes.append)
    found += [frame.schema, list(map(repr, frame.rows())), notes]
    if pyarrow is not None:
        table = to_arrow(result)
        found += [table.schema, repr(table.to_pydict())]
    return found


@given(tables() | st.just("usual"), st.randoms(use_true_random=False), st.lists(st.integers(1, 400), max_size=5))
def test_mutated_lines(table: StmtResult, chance: random.Random, cuts: list[int]) -> None:
    table = TABLE if table == "usual" else table
    entries = [cursors.StepBegin(0, table.cols), *map(cursors.RowEntry, table.rows), cursors.StepEnd(0, None)]
    body = bytes(mutated(bytearray(b"".join(encode(entry) + b"\n" for entry in entries)), chance))
    assert_same(entries_of(body, cuts), plain_entries_of(body))


def entries_of(body: bytes, cuts: list[int]) -> list[object]:
    steps = itertools.accumulate(itertools.cycle(cuts or [len(body)]), initial=0)
    places = [*itertools.takewhile(len(body).__gt__, steps), len(body)]
    found: list[object] = []
    try:
        for entries in read_entries([body[start:stop] for start, stop in itertools.pairwise(places)]):
            for entry in entries:
                found += map(cursors.RowEntry, entry) if isinstance(entry, ColumnarRows) else [entry]
    except PipemagicError as error:
        found = [type(error)]
    return list(map(plain, found))


def plain_entries_of(body: bytes) -> list[object]:
    try:
        return list(map(plain, cursors.decode_entries(body.split(b"\n"))))
    except PipemagicError as error:
        return [type(error)]


def plain(entry: object) -> object:
    return [canonical(value) for value in entry.row] if isinstance(entry, cursors.RowEntry) else entry


ROWS = [[Integer(str(number)), Text(f"té {number}"), Float(number / 7), Text("2024-01-31")] for number in range(40)]
TABLE = StmtResult([Col("a", "INTEGER"), Col("b"), Col("c", "REAL"), Col("d", "DATE")], ROWS)


def test_rows_of_a_response_are_stored_by_columns() -> None:
    (entry,) = read_response(pipeline(TABLE)).results
    rows = entry.response.result.rows  # type: ignore[union-attr]
    assert isinstance(rows, ColumnarRows)
    assert list(rows) == ROWS


@given(tables() | st.just(TABLE), st.randoms(use_true_random=False), st.integers(1, 3))
def test_mutated_bytes(table: StmtResult, chance: random.Random, times: int) -> None:
    body = bytearray(pipeline(table, table))
    for _ in range(times):
        body = mutated(body, chance)
    assert_read_alike(bytes(body))


def mutated(body: bytearray, chance: random.Random) -> bytearray:
    """Change a place of JSON."""
    if body:
        at = chance.randrange(len(body))
        match chance.randrange(4):
            case 0:
                body[at] = chance.choice(b'"\\{}[],:0-+etn\n \x80\xc3')
            case 1:
                del body[at : at + chance.choice([1, 1, 2, 30])]
            case 2:
                body[at:at] = chance.choice(
                    [b'"', b"\\", b"},", b"{", b",", b"null", b"\xff", b" ", b'{"type":"null"},']
                )
            case 3:
                other = chance.randrange(len(body))
                body[at:at] = body[other : other + 40]
    return body


CELLS = [
    '{"type":"integer","value":"9223372036854775808"}', '{"type":"integer","value":"-9223372036854775808"}',
    '{"type":"integer","value":"+5"}', '{"type":"integer","value":"007"}', '{"type":"integer","value":"-0"}',
    '{"type":"integer","value":"1,2"}', '{"type":"integer","value":""}', '{"type":"integer","value":"1e3"}',
    '{"type":"integer","value":" 1"}', '{"type":"integer","value":"\\u0031"}', '{"type":"integer","value":1}',
    '{"type":"integer","value":"-"}', '{"type":"integer","value":"1_0"}', '{"type":"integer","value":"١"}',
    '{"value":"5","type":"integer"}', '{"type":"integer","value":"5","more":"6"}', '{ "type":"integer","value":"5"}',
    '{"type":"float","value":1}', '{"type":"float","value":-0}', '{"type":"float","value":-0.0}',
    '{"type":"float","value":1e400}', '{"type":"float","value":1e-400}', '{"type":"float","value":null}',
    '{"type":"float","value":1,"x":2}', '{"type":"float","value":1,2}', '{"type":"float","value": 1.5 }',
    '{"type":"float","value":12345678901234567890123}', '{"type":"float","value":"1.5"}', '{"type":"float"}',
    '{"type":"float","value":NaN}', '{"type":"float","value":[1.5]}', '{"type":"float","value":}',
    '{"type":"text","value":"\\ud83d\\ude00"}', '{"type":"text","value":"\\ud83d"}',
    '{"type":"text","value":"\\u0000"}',
    '{"type":"text","value":"\\n\\"\\\\"}', '{"type":"text","value":"a","b":"c"}', '{"type":"text","value":"a","b"}',
    '{"type":"text","value":null}', '{"type":"text","value":"a"b"}', '{"type":"text","value":"\t"}', '{"type":"text"}',
    '{"type":"text","value":"a\\"},{"type":"text","value":","c"}', '{"type":"text","value":"a\\"}',
    '{"type":"blob","base64":"AP8"}', '{"type":"blob","base64":"AP8="}', '{"type":"blob","base64":"AP8=="}',
    '{"type":"blob","base64":"?"}', '{"type":"blob","base64":""}', '{"type":"blob","value":"AP8"}',
    '{"type":"null","value":1}', '{"type":"null"}', '{"type":"nulls"}', '{"type":"null" }', '{"type":"other"}', "{}",
    '{"type":"null"},{"type":"null"}', '{"type":"null"}],[{"type":"null"}', "null", "[]", "", " ", '{"t',
    '{"type": "null"}', '{"type":\t"null"}', '{"type":"n\\u0075ll"}',
]  # fmt: skip


OTHERS = ['{"type":"null"}', '{"type":"integer","value":"7"}', '{"type":"text","value":"é"}']


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_in_another_form(cell: str) -> None:
    """All pairs of the cell, its place, and the kind of the other cells, in tables of several widths."""
    for number, kind in enumerate(OTHERS, CELLS.index(cell)):
        cells = [kind] * 8
        cells[(0, 3, 7)[number % 3]] = cell
        for width in (1, 2, 4):
            rows = "],[".join(",".join(cells[start : start + width]) for start in range(0, 8, width))
            cols = ",".join(['{"name":"a","decltype":null}'] * width)
            result = f'{{"cols":[{cols}],"rows":[[{rows}]],"affected_row_count":0}}'
            body = f'{{"results":[{{"type":"ok","response":{{"type":"execute","result":{result}}}}}],"baton":null}}'
            assert_read_alike(body.encode())


@pytest.mark.parametrize("piece", [1, 100, 10_000])
@pytest.mark.parametrize("shared", [b"\xc3", b"\xc3\xa9"])
def test_texts_that_share_a_character(piece: int, shared: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of the texts one after another are UTF-8, those of each are not."""
    monkeypatch.setattr(typed_json, "PIECE", piece)
    rows = b'"rows":[[{"type":"text","value":"a%b"}],[{"type":"text","value":"%bb"}]],"affected_row_count":0'
    result = b'{"cols":[{"name":"a"}],%b}' % (rows % (shared[:1], shared[1:]))
    assert_read_alike(b'{"results":[{"type":"ok","response":{"type":"execute","result":%b}}]}' % result)


def test_white_space_and_keys_in_another_order() -> None:
    assert_read_alike(msgspec.json.format(pipeline(TABLE), indent=2))
    plain = msgspec.json.decode(pipeline(TABLE))
    result = plain["results"][0]["response"]["result"]
    plain["results"][0]["response"]["result"] = {"rows": result["rows"], "cols": result["cols"]}
    assert_read_alike(msgspec.json.encode(plain))
    plain["results"][0]["response"]["result"] = {"cols": result["cols"], "rows": result["rows"]}
    assert_read_alike(msgspec.json.encode(plain))


def test_duplicate_rows_keys() -> None:
    rows = b'"rows":' + msgspec.json.encode(ROWS)
    body = pipeline(TABLE)
    assert rows in body
    assert_read_alike(body.replace(rows, rows + b"," + rows))
    assert_read_alike(body.replace(rows, rows + b',"rows":[]'))
    assert_read_alike(body.replace(rows, rows + b',"more":{%b,"x":1}' % rows))


@pytest.mark.parametrize("count", [1, 300])
def test_many_columns(count: int) -> None:
    kinds = [Integer("1"), Text("x"), NULL, Float(1.5), Blob("AA")]
    row = [kinds[number % 5] for number in range(count)]
    table = StmtResult([Col(f"c{number}") for number in range(count)], [row, row, row[::-1]])
    assert_read_alike(pipeline(table))
    by_columns = pipeline(msgspec.structs.replace(table, rows=columns_of(table, 2)))
    assert_same(seen(lambda: read_response(by_columns)), seen(lambda: decode_response(pipeline(table))))


@given(tables(), st.integers(-3, 14), st.integers(-3, 14))
@example(StmtResult([Col("a", "INTEGER")], [[NULL], [Integer("1")]]), 0, 1)
@example(StmtResult([Col("a", "INTEGER")], [[Integer("1")], [NULL]]), 0, 1)
def test_slices(table: StmtResult, start: int, stop: int) -> None:
    (entry,) = read_response(pipeline(table)).results
    cut = entry.response.result.rows[start:stop]  # type: ignore[union-attr]
    expected = msgspec.structs.replace(table, rows=table.rows[start:stop])
    notes: list[list[str]] = [[], []]
    frame = to_frame(StmtResult(table.cols, cut), note=notes[0].append)
    assert_same([frame], [to_frame(expected, note=notes[1].append)])
    assert notes[0] == notes[1]
    assert [list(map(canonical, row)) for row in cut] == [list(map(canonical, row)) for row in expected.rows]


def test_a_frame_that_is_changed_leaves_the_rows_as_they_are() -> None:
    (entry,) = read_response(pipeline(TABLE)).results
    result = entry.response.result  # type: ignore[union-attr]
    first = to_frame(result)
    first.loc[0, "a"], first.loc[1, "b"], first.loc[2, "c"] = 7, "other", 7.5
    first["a"] += 1
    assert_same([to_frame(result)], [to_frame(TABLE)])
    assert list(result.rows) == ROWS


@pytest.mark.parametrize("column", ["a", "c"])
def test_a_frame_of_one_column_that_is_changed_leaves_the_rows_as_they_are(column: str) -> None:
    at = [col.name for col in TABLE.cols].index(column)
    table = StmtResult([TABLE.cols[at]], [[row[at]] for row in TABLE.rows])
    (entry,) = read_response(pipeline(table)).results
    result = entry.response.result  # type: ignore[union-attr]
    frame = to_frame(result)
    frame.iloc[0, 0] = 7
    frame[column] *= 2
    assert_same([to_frame(result)], [to_frame(table)])
    assert frame.iloc[0, 0] == 14


def test_a_frame_of_some_rows_that_is_changed_leaves_the_others_as_they_are() -> None:
    (entry,) = read_response(pipeline(TABLE)).results
    rows = entry.response.result.rows  # type: ignore[union-attr]
    some = to_frame(StmtResult(TABLE.cols, rows[1:5]))
    gc.collect()
    some.loc[0, "a"], some.loc[1, "c"] = 7, 7.5
    assert list(rows) == ROWS


def test_a_frame_of_the_rows_of_a_cursor_can_be_changed_when_these_are_gone() -> None:
    (piece,) = columns_of(TABLE, len(ROWS)).parts
    lines = encode(cursors.StepBegin(0, TABLE.cols)) + b"\n" + encode(RowsEntry(piece)) + b"\n"
    ((_, rows),) = read_entries([lines])
    assert isinstance(rows, ColumnarRows)
    frame = to_frame(StmtResult(TABLE.cols, rows))
    del rows
    gc.collect()
    frame.loc[0, "a"], frame.loc[1, "c"] = 7, 7.5
    assert (frame["a"][0], frame["c"][1]) == (7, 7.5)


def test_rows_do_not_keep_the_columns_of_a_frame_in_memory() -> None:
    (entry,) = read_response(pipeline(TABLE)).results
    result = entry.response.result  # type: ignore[union-attr]
    frame = to_frame(result)
    dates = frame["d"].to_numpy()
    while dates.base is not None:
        dates = dates.base
    kept = weakref.ref(dates)
    assert kept() is dates
    del dates, frame
    gc.collect()
    assert kept() is None
    assert list(result.rows) == ROWS


def test_rows_by_columns_of_another_width_are_refused() -> None:
    (entry,) = read_response(pipeline(TABLE)).results
    rows = RowsBuilder(TABLE.cols[:3])
    with pytest.raises(ProtocolError, match="wrong number of values"):
        rows.add(entry.response.result.rows)  # type: ignore[union-attr]
