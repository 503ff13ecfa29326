"""Large results are read by columns: never with another outcome than the plain route has, which is the reference."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from pipemagic.errors import PipemagicError
from pipemagic.frames import answers, grid, to_frame
from pipemagic.frames.answers import read_answer
from pipemagic.frames.stored import StoredRows
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
from pipemagic.hrana.values import NULL, Blob, Float, Integer, Text, Value

HOSTILE = [
    "", '{"t', '}],[{"type":"', '"rows":[[', '"rows":[[{"t', '}]],"a', '"', "\\", '\\"', 'ends with \\', "\0", "\x7f",
    "\n", "😀", "é", "\u2028", "\ud7ff\ue000", '"},{"type":"null"}', "2024-01-31", "Zoë", "rows 0", "a", "b", "NaT",
]  # fmt: skip
INTEGERS = st.integers(-(2**63), 2**63 - 1).map(lambda number: Integer(str(number)))
FLOATS = st.floats(allow_nan=False, allow_infinity=False).map(Float)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(Text)
DATES = st.dates().map(lambda day: Text(day.isoformat()))
BLOBS = st.binary(max_size=4).map(lambda data: Blob(msgspec.to_builtins(data).rstrip("=")))
KINDS: list[st.SearchStrategy[Value]] = [
    INTEGERS, st.sampled_from([Integer("0"), Integer("1")]), FLOATS, FLOATS | st.just(Float(None)), TEXTS,
    st.sampled_from(HOSTILE).map(Text), st.sampled_from(["a", "é", "bc"]).map(Text), DATES, BLOBS, st.just(NULL),
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
    monkeypatch.setattr(answers, "LARGE", 1)
    monkeypatch.setattr(grid, "PIECE", 200)


def pipeline(*results: StmtResult) -> bytes:
    return encode(PipelineResponse([OkEntry(ExecuteResponse(result)) for result in results]))


def seen(response: Callable[[], PipelineResponse]) -> list[object]:
    """Give all that a user could see of the results of an answer: frames, types, notes, errors, rows."""
    try:
        results = list(answers._results(response()))
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
    """Give the one form of those that mean the same: signs and zeros of integers, the padding of blobs."""
    if isinstance(value, Integer):
        return Integer(str(int(value.value)))
    return Blob(value.base64.rstrip("=")) if isinstance(value, Blob) else value


def assert_same(got: list[object], expected: list[object]) -> None:
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        if not hasattr(other, "iloc"):
            assert one == other
            continue
        assert_frame_equal(one, other, check_exact=True, check_column_type=True)  # type: ignore[arg-type]
        for at in range(other.shape[1]):
            left, right = one.iloc[:, at].array, other.iloc[:, at].array  # type: ignore[attr-defined]
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
    assert_same(seen(lambda: read_answer(body)), seen(lambda: decode_response(body)))


@given(st.lists(tables(), min_size=1, max_size=2))
def test_a_pipeline(results: list[StmtResult]) -> None:
    assert_read_alike(pipeline(*results))


@given(st.lists(tables(), min_size=1, max_size=3))
def test_a_batch(results: list[StmtResult]) -> None:
    batch = BatchResult([None, *results], [Error("no"), *[None] * len(results)])
    assert_read_alike(encode(PipelineResponse([OkEntry(BatchResponse(batch)), ErrorEntry(Error("x"))])))


ROWS = [[Integer(str(number)), Text(f"té {number}"), Float(number / 7), Text("2024-01-31")] for number in range(40)]
TABLE = StmtResult([Col("a", "INTEGER"), Col("b"), Col("c", "REAL"), Col("d", "DATE")], ROWS)


def test_the_rows_of_a_usual_answer_are_kept_by_columns() -> None:
    (entry,) = read_answer(pipeline(TABLE)).results
    rows = entry.response.result.rows  # type: ignore[union-attr]
    assert isinstance(rows, StoredRows)
    assert list(rows) == ROWS


@settings(max_examples=300)
@given(tables() | st.just(TABLE), st.randoms(use_true_random=False), st.integers(1, 3))
def test_mutated_bytes(table: StmtResult, chance: random.Random, times: int) -> None:
    body = bytearray(pipeline(table, table))
    for _ in range(times):
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
    assert_read_alike(bytes(body))


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
]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("at", [0, 3, 7])
@pytest.mark.parametrize("kind", ['{"type":"null"}', '{"type":"integer","value":"7"}', '{"type":"text","value":"é"}'])
def test_a_cell_in_another_form(cell: str, at: int, kind: str) -> None:
    cells = [kind] * 8
    cells[at] = cell
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
    monkeypatch.setattr(grid, "PIECE", piece)
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


def test_rows_that_are_named_twice() -> None:
    rows = b'"rows":' + msgspec.json.encode(ROWS)
    body = pipeline(TABLE)
    assert rows in body
    assert_read_alike(body.replace(rows, rows + b"," + rows))
    assert_read_alike(body.replace(rows, rows + b',"rows":[]'))
    assert_read_alike(body.replace(rows, rows + b',"more":{%b,"x":1}' % rows))


@pytest.mark.parametrize("columns", [1, 2000])
def test_many_columns(columns: int) -> None:
    kinds = [Integer("1"), Text("x"), NULL, Float(1.5), Blob("AA")]
    row = [kinds[number % 5] for number in range(columns)]
    assert_read_alike(pipeline(StmtResult([Col(f"c{number}") for number in range(columns)], [row, row, row[::-1]])))


@given(tables(), st.integers(-3, 14), st.integers(-3, 14))
@example(StmtResult([Col("a", "INTEGER")], [[NULL], [Integer("1")]]), 0, 1)
def test_some_rows_of_many(table: StmtResult, start: int, stop: int) -> None:
    (entry,) = read_answer(pipeline(table)).results
    cut = entry.response.result.rows[start:stop]  # type: ignore[union-attr]
    expected = msgspec.structs.replace(table, rows=table.rows[start:stop])
    notes: list[list[str]] = [[], []]
    frame = to_frame(StmtResult(table.cols, cut), note=notes[0].append)
    assert_same([frame], [to_frame(expected, note=notes[1].append)])
    assert notes[0] == notes[1]
    assert [list(map(canonical, row)) for row in cut] == [list(map(canonical, row)) for row in expected.rows]


def test_a_frame_that_is_changed_leaves_the_rows_as_they_are() -> None:
    (entry,) = read_answer(pipeline(TABLE)).results
    result = entry.response.result  # type: ignore[union-attr]
    first = to_frame(result)
    first.loc[0, "a"], first.loc[1, "b"], first.loc[2, "c"] = 7, "other", 7.5
    first["a"] += 1
    assert_same([to_frame(result)], [to_frame(TABLE)])
    assert list(result.rows) == ROWS
