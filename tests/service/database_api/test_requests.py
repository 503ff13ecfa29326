"""Large bodies: decoding in parts has the same result, and the number of parts is limited."""

from __future__ import annotations

import json

import pytest

from pipemagic.errors import ProtocolError
from pipemagic.hrana import cursors, messages
from pipemagic.service.database_api import requests
from pipemagic.service.database_api.requests import LARGE, MOST_CONTAINERS, MOST_PARTS, check_size
from pipemagic.service.responses import Refused

FIRST = {"stmt": {"sql": "SELECT 1", "want_rows": False}}
STEP = {
    "stmt": {"sql": "INSERT INTO t VALUES (?, ?)", "args": [{"type": "integer", "value": "7"}, {"type": "null"}]},
    "condition": {
        "type": "and",
        "conds": [{"type": "ok", "step": 0}, {"type": "not", "cond": {"type": "ok", "step": 1}}],
    },
}
BLANKS = b" " * LARGE  # which make a body large
REQUESTS = [
    {
        "type": "batch",
        "batch": {"steps": [FIRST, FIRST, STEP], "replication_index": "7"},
    },
    {
        "type": "execute",
        "stmt": {"sql": "SELECT :a", "named_args": [{"name": "a", "value": {"type": "text", "value": "b"}}]},
    },
    {"type": "close"},
]
OTHERS = [{"type": "sequence", "sql": "SELECT 1"}, {"type": "describe", "sql_id": 3}, {"type": "get_autocommit"}]


@pytest.mark.parametrize("entries", [REQUESTS, REQUESTS + OTHERS, []], ids=["split", "with others", "none"])
@pytest.mark.parametrize("baton", [None, "abc"])
def test_a_large_pipeline_is_decoded_as_a_small_one(entries, baton):
    body = json.dumps({"baton": baton, "requests": entries}).encode()
    assert requests.decode_pipeline(body + BLANKS) == messages.decode_request(body)


def test_a_large_cursor_request_is_decoded_as_a_small_one():
    body = json.dumps({"batch": REQUESTS[0]["batch"], "baton": "abc"}).encode()
    assert requests.decode_cursor(body + BLANKS) == cursors.decode_request(body)


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b'{"requests":[1]}', b'{"requests":[{"type":"batch","batch":{"steps":[1]}}]}',
        b'{"requests":[{"type":"execute","stmt":{"sql":7}}]}', b'{"requests":[{"type":"odd"}]}', b"\xff",
        b'{"requests":[{"type":"batch","batch":{"steps":[{"stmt":{"sql":"x"},"condition":{"type":"odd"}}]}}]}',
    ],
)  # fmt: skip
def test_errors_are_those_of_a_small_one(body):
    with pytest.raises(ProtocolError) as small:
        messages.decode_request(body)
    with pytest.raises(ProtocolError) as large:
        requests.decode_pipeline(body + BLANKS)
    assert large.value.message == small.value.message


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"{}," * MOST_CONTAINERS + b"{}]", b"[" + b"1," * MOST_PARTS + b"1]", b"[" * (MOST_CONTAINERS + 1),
    ],
    ids=["objects", "numbers", "lists"],
)  # fmt: skip
def test_too_many_parts_are_refused(body):
    with pytest.raises(Refused) as refused:
        check_size(body)
    assert refused.value.status == 413
    assert "requests" in refused.value.message


@pytest.mark.parametrize("text", ["[{," * MOST_PARTS, '[\\"{,' * MOST_PARTS, "\\\\" * MOST_PARTS + "[" * MOST_PARTS])
def test_the_content_of_strings_does_not_count(text):
    check_size(b'{"requests":[],"a":"' + text.encode() + b'","b":"c"}')


@pytest.mark.parametrize("end", [b"", b"\\", b'\\"'])
def test_a_string_without_an_end_ends_the_check(end):
    check_size(b'["' + b"[," * MOST_PARTS + end)
