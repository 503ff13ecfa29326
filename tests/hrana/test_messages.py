"""Messages: what published clients and servers send is read, garbage is a ProtocolError."""

import random
import sys
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.client.result import Result
from pipemagic.errors import ProtocolError
from pipemagic.hrana import messages as m
from pipemagic.hrana.batches import transactional
from pipemagic.hrana.values import NULL, Integer, Text, encode

REQUESTS = {
    "execute": (
        {"type": "execute", "stmt": {"sql": "SELECT ?", "args": [{"type": "integer", "value": "1"}]}},
        m.Execute(m.Stmt("SELECT ?", args=[Integer("1")])),
    ),
    "named": (
        {
            "type": "execute",
            "stmt": {"sql": "SELECT :a", "named_args": [{"name": ":a", "value": {"type": "null"}}]},
        },
        m.Execute(m.Stmt("SELECT :a", named_args=[m.NamedArg(":a", NULL)])),
    ),
    "stored": (
        {"type": "execute", "stmt": {"sql_id": 3, "want_rows": False}},
        m.Execute(m.Stmt(sql_id=3, want_rows=False)),
    ),
    "close": ({"type": "close"}, m.Close()),
    "batch": (
        {
            "type": "batch",
            "batch": {
                "steps": [{"stmt": {"sql": "A"}}, {"stmt": {"sql": "B"}, "condition": {"type": "ok", "step": 0}}]
            },
        },
        m.RunBatch(m.Batch([m.Step(m.Stmt("A")), m.Step(m.Stmt("B"), m.OkCond(0))])),
    ),
    "sequence": ({"type": "sequence", "sql": "A;B"}, m.Sequence("A;B")),
    "describe": ({"type": "describe", "sql_id": 1}, m.Describe(sql_id=1)),
    "store_sql": ({"type": "store_sql", "sql_id": 1, "sql": "A"}, m.StoreSql(1, "A")),
    "close_sql": ({"type": "close_sql", "sql_id": 1}, m.CloseSql(1)),
    "get_autocommit": ({"type": "get_autocommit"}, m.GetAutocommit()),
}  # fmt: skip

RESULT = {
    "cols": [{"name": "a", "decltype": "INTEGER"}, {"name": None, "decltype": None}],
    "rows": [[{"type": "integer", "value": "1"}, {"type": "null"}]],
    "affected_row_count": 0, "last_insert_rowid": "12", "replication_index": "7",
    "rows_read": 1, "rows_written": 0, "query_duration_ms": 0.02,
}  # fmt: skip
RESPONSES = {
    "execute": {"type": "execute", "result": RESULT},
    "close": {"type": "close"},
    "batch": {
        "type": "batch",
        "result": {
            "step_results": [None, None, RESULT],
            "step_errors": [
                {"message": "no", "code": "SQLITE_CONSTRAINT", "extended_code": "SQLITE_CONSTRAINT_UNIQUE"},
                {"message": "no", "code": "SQLITE_ERROR"}, None,
            ],
            "replication_index": "8",
        },
    },
    "sequence": {"type": "sequence"},
    "describe": {
        "type": "describe",
        "result": {
            "params": [{"name": "@n"}, {"name": None}], "cols": [{"name": "id", "decltype": None}],
            "is_explain": False, "is_readonly": True,
        },
    },
    "store_sql": {"type": "store_sql"},
    "close_sql": {"type": "close_sql"},
    "get_autocommit": {"type": "get_autocommit", "is_autocommit": True},
}  # fmt: skip


def body(**fields):
    return msgspec.json.encode(fields)


@pytest.mark.parametrize(("wire", "request_"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_is_read_and_written(wire, request_):
    data = body(requests=[wire])
    assert m.decode_request(data) == m.PipelineRequest([request_])
    assert msgspec.json.decode(m.encode(m.PipelineRequest([request_]))) == {"requests": [wire]}


@pytest.mark.parametrize("wire", RESPONSES.values(), ids=RESPONSES)
def test_an_answer_is_read_and_written_with_every_key(wire):
    whole = {"results": [{"type": "ok", "response": wire}], "baton": "b", "base_url": None, "stream_ttl_ms": 9}
    assert msgspec.json.decode(m.encode(m.decode_response(msgspec.json.encode(whole)))) == whole


def test_absent_keys_of_an_answer_are_written_as_null():
    answer = m.encode(
        m.PipelineResponse([m.OkEntry(m.DescribeResponse(m.DescribeResult([m.Param()], [], False, True)))])
    )
    result = {"params": [{"name": None}], "cols": [], "is_explain": False, "is_readonly": True}
    assert msgspec.json.decode(answer) == {
        "results": [{"type": "ok", "response": {"type": "describe", "result": result}}],
        "baton": None,
        "base_url": None,
        "stream_ttl_ms": None,
    }


def test_the_least_answer_that_the_requirement_allows_is_read():
    answer = m.decode_response(
        b'{"results":[{"type":"ok","response":{"type":"execute","result":{"cols":[],"rows":[]}}}]}'
    )
    assert answer == m.PipelineResponse([m.OkEntry(m.ExecuteResponse(m.StmtResult()))])


@pytest.mark.parametrize("rowid", [12, "12", None])
def test_a_rowid_is_a_number_text_or_null(rowid):
    wire = {"type": "execute", "result": {**RESULT, "last_insert_rowid": rowid}}
    answer = m.decode_response(body(results=[{"type": "ok", "response": wire}]))
    assert answer.results[0].response.result.last_insert_rowid == rowid


def with_extra_keys(wire):
    """Add unknown keys to every object."""
    if isinstance(wire, list):
        return [with_extra_keys(item) for item in wire]
    if isinstance(wire, dict):
        return {"?": [{}], **{key: with_extra_keys(item) for key, item in wire.items()}, "zz": {"type": "x"}}
    return wire


@pytest.mark.parametrize("wire", [wire for wire, _ in REQUESTS.values()], ids=REQUESTS)
def test_unknown_keys_of_a_request_are_ignored(wire):
    plain = body(requests=[wire], baton=None)
    extra = msgspec.json.encode(with_extra_keys({"requests": [wire], "baton": None}))
    assert m.decode_request(extra) == m.decode_request(plain)


@pytest.mark.parametrize("wire", RESPONSES.values(), ids=RESPONSES)
def test_unknown_keys_of_an_answer_are_ignored(wire):
    whole = {"results": [{"type": "ok", "response": wire}]}
    assert m.decode_response(msgspec.json.encode(with_extra_keys(whole))) == m.decode_response(
        msgspec.json.encode(whole)
    )


NULLED = {
    "stmt": (
        {
            "type": "execute",
            "stmt": {
                "sql": "A", "sql_id": None, "args": None, "named_args": None, "want_rows": None,
                "replication_index": None,
            },
        },
        m.Execute(m.Stmt("A")),
    ),
    "step": (
        {"type": "batch", "batch": {"steps": [{"stmt": {"sql": "A"}, "condition": None}], "replication_index": None}},
        m.RunBatch(m.Batch([m.Step(m.Stmt("A"))])),
    ),
    "sequence": (
        {"type": "sequence", "sql": None, "sql_id": 1, "replication_index": None},
        m.Sequence(sql_id=1),
    ),
    "describe": (
        {"type": "describe", "sql": "A", "sql_id": None, "replication_index": None},
        m.Describe("A"),
    ),
    "close": ({"type": "close", "stmt": None, "batch": None}, m.Close()),
}  # fmt: skip


@pytest.mark.parametrize(("wire", "request_"), NULLED.values(), ids=NULLED)
def test_a_null_stands_for_an_absent_field(wire, request_):
    assert m.decode_request(body(requests=[wire], baton=None)) == m.PipelineRequest([request_])


@pytest.mark.parametrize(
    "data",
    [
        b"", b" ", b"null", b"[]", b"{}", b'"x"', b"\xff", b"<html>", b'{"requests":null}', b'{"requests":{}}',
        b'{"requests":[{}]}', b'{"requests":[null]}', b'{"requests":[{"type":"dance"}]}', b'{"requests":[]',
        b'{"requests":[]}x', b'\xef\xbb\xbf{"requests":[]}', b'{"requests":[],"baton":5}',
        b'{"requests":[{"type":"execute"}]}', b'{"requests":[{"type":"execute","stmt":{"sql":5}}]}',
        b'{"requests":[{"type":"execute","stmt":{"sql":"\\ud800"}}]}',
        b'{"requests":[{"type":"execute","stmt":{"sql":"\xff"}}]}',
        b'{"requests":[{"type":"store_sql","sql":"x"}]}',
        b'{"requests":[{"type":"batch","batch":{"steps":[{"stmt":{},"condition":{"type":"maybe"}}]}}]}',
    ],
)  # fmt: skip
def test_a_bad_request_body_is_a_protocol_error(data):
    with pytest.raises(ProtocolError, match="cannot read the pipeline request: "):
        m.decode_request(data)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"<html>", b"{}", b'{"results":null}', b'{"results":[{"type":"ok"}]}', b'{"results":[{"type":"ok","respo',
        b'{"results":[{"type":"ok","response":{"type":"execute","result":{"rows":[[{"type":"integer","value":1}]]}}}]}',
        b'{"results":[{"type":"error","error":{}}]}', b'{"results":[5]}',
    ],
)  # fmt: skip
def test_a_bad_answer_is_a_protocol_error(data):
    with pytest.raises(ProtocolError, match="cannot read the server's response: "):
        m.decode_response(data)


VALID = [
    body(baton="b", requests=[wire for wire, _ in REQUESTS.values()]),
    body(
        baton="b",
        base_url="http://x",
        results=[
            *({"type": "ok", "response": wire} for wire in RESPONSES.values()),
            {"type": "error", "error": {"message": "no", "code": None}},
        ],
    ),
]


def read_either_way(data):
    """Read bytes as request and as answer; anything but a ProtocolError is a bug."""
    for decode in (m.decode_request, m.decode_response):
        with suppress(ProtocolError):
            decode(data)


@given(st.binary(max_size=200))
def test_random_bytes_are_a_protocol_error(data):
    read_either_way(data)


@given(
    st.sampled_from(VALID),
    st.lists(st.tuples(st.integers(0, 4000), st.binary(max_size=3), st.integers(0, 40)), min_size=1, max_size=4),
)  # fmt: skip
def test_mutated_bodies_are_read_or_a_protocol_error(data, edits):
    for place, new, cut in edits:
        place %= len(data) + 1
        data = data[:place] + new + data[place + cut :]
    read_either_way(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["ok", "execute", "null"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "requests", "results", "stmt", "sql", "response", "result", "rows", "error"]),
            inner, max_size=4,
        )
    ),
    max_leaves=30,
)  # fmt: skip


@given(json_values)
def test_random_json_is_read_or_a_protocol_error(value):
    read_either_way(msgspec.json.encode(value))


@pytest.mark.parametrize(
    "piece",
    [b"[", b'{"requests":', b'{"requests":[', b'{"results":[', b'{"a":', b'{"error":'],
)
def test_endless_nesting_is_a_protocol_error(piece):
    read_either_way(piece * (5 * sys.getrecursionlimit()))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.integers(0, 2**32))
def test_a_transaction_of_any_statements_round_trips(texts, seed):
    choose = random.Random(seed)
    stmts = [m.Stmt(text, args=[encode(choose.choice([None, 1, 0.5, text, text.encode()]))]) for text in texts]
    request = m.RunBatch(transactional(stmts))
    assert m.decode_request(m.pipeline([request], "b")) == m.PipelineRequest([request], "b")


def test_a_slash_is_not_escaped():
    # A server in use wants base64 and integers without any JSON escape.
    assert m.encode(Text("a/b")) == b'{"type":"text","value":"a/b"}'


def test_a_count_of_rows_may_be_null():
    body = b'{"results":[{"type":"ok","response":{"type":"execute","result":{"affected_row_count":null}}}]}'
    (entry,) = m.decode_response(body).results
    assert Result(entry.response.result).affected_row_count == 0
