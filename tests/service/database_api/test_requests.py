"""Large bodies: decoding in parts has the same result, and the memory that it needs is known before."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from pipemagic.errors import ProtocolError
from pipemagic.hrana import cursors, messages
from pipemagic.hrana.values import decode
from pipemagic.service.database_api import requests
from pipemagic.service.database_api.requests import LARGE
from pipemagic.service.limits import MB, Limits
from pipemagic.service.memory import MemoryBudget

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


@pytest.mark.parametrize("entries", [REQUESTS, OTHERS + REQUESTS, []], ids=["split", "with others", "none"])
@pytest.mark.parametrize("baton", [None, "abc"])
def test_a_large_pipeline_is_decoded_as_a_small_one(entries, baton):
    body = json.dumps({"baton": baton, "requests": entries}).encode()
    assert requests.decode_pipeline(body + BLANKS, 3) == messages.decode_request(body)


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
        requests.decode_pipeline(body + BLANKS, 3)
    assert large.value.message == small.value.message


def execute(*values: bytes) -> bytes:
    return b'{"requests":[{"type":"execute","stmt":{"sql":"SELECT ?","args":[' + b",".join(values) + b"]}}]}"


def text(value: bytes) -> bytes:
    return b'{"type":"text","value":"' + value + b'"}'


def batch(step: bytes, count: int) -> bytes:
    return b'{"requests":[{"type":"batch","batch":{"steps":[' + b",".join([step] * count) + b"]}}]}"


EMOJI, SMALL = "😀".encode(), 20_000
ROW = b'{"type":"integer","value":"12"},{"type":"text","value":"abcdef"},{"type":"float","value":1.5}'
SHAPES = {
    "ASCII": execute(text(b"a" * 2_000_000)),
    "ASCII with one emoji": execute(text(b"a" * 2_000_000 + EMOJI)),
    "emojis": execute(text(EMOJI * 500_000)),
    "emojis, escaped": execute(text(rb"\ud83d\uDE00" * 200_000)),
    "ASCII with one escaped emoji": execute(text(b"a" * 2_000_000 + rb"\uD83D\ude00")),
    "ASCII with one euro sign": execute(text(b"a" * 2_000_000 + "€".encode())),
    "ASCII with one escaped euro sign": execute(text(b"a" * 2_000_000 + rb"\u20ac")),
    "umlauts": execute(text("ä".encode() * 1_000_000)),
    "control characters": execute(text(rb"\u0001" * 500_000)),
    "backslashes": execute(text(rb"\\u" * 700_000)),
    "quotation marks": execute(text(rb"\"" * 1_000_000)),
    "a blob": execute(b'{"type":"blob","base64":"' + b"AAAA" * 500_000 + b'"}'),
    "a blob without padding": execute(b'{"type":"blob","base64":"' + b"AAAA" * 500_000 + b'AA"}'),
    "integers": execute(*[b'{"type":"integer","value":"1234567890123"}'] * SMALL),
    "NULLs": execute(*[b'{"type":"null"}'] * SMALL),
    "floats": execute(*[b'{"type":"float","value":1}'] * SMALL),
    "short texts": execute(*[text(b"abcdefgh")] * SMALL),
    "short blobs": execute(*[b'{"type":"blob","base64":"YQ"}'] * SMALL),
    "empty steps": batch(b'{"stmt":{"sql":""}}', SMALL),
    "rows": batch(b'{"stmt":{"sql":"INSERT INTO t VALUES (?,?,?)","args":[' + ROW + b"]}}", SMALL // 2),
    "requests": b'{"requests":[' + b",".join([b'{"type":"close"}'] * SMALL) + b"]}",
    "conditions": batch(b'{"stmt":{"sql":""},"condition":{"type":"not","cond":{"type":"and","conds":[]}}}', SMALL),
}


def peak_of(body: bytes) -> int:
    """Return the most memory that a body and its values need, with the copies in UTF-8 that SQLite is given."""
    tracemalloc.start()
    try:
        received = bytearray()
        received += body
        kept = []
        for request in requests.decode_pipeline(received, 3).requests:
            if isinstance(request, messages.Execute):
                kept.append([decode(value) for value in request.stmt.args])
                kept.append([value.encode() for value in kept[-1] if isinstance(value, str) and not value.isascii()])
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("body", SHAPES.values(), ids=SHAPES)
def test_the_estimate_is_at_least_seven_tenths_of_the_memory_that_a_body_needs(body):
    assert requests.memory_for(body) >= 0.7 * peak_of(body)


def test_the_estimate_is_not_many_times_the_memory_that_usual_bodies_need():
    for shape in ("ASCII", "a blob", "rows", "short texts", "integers", "ASCII with one emoji"):
        assert requests.memory_for(SHAPES[shape]) <= 2 * peak_of(SHAPES[shape]), shape


@pytest.mark.parametrize("place", range(8))
def test_an_escape_on_the_border_of_two_pieces_is_found(place):
    head = b'["' + b"a" * (MB - 2 - place)
    assert requests.memory_for(head + rb"\ud83d\ude00" + b'"]') > 9 * MB


def test_a_text_of_16_mb_fits_whatever_its_characters_are():
    largest = MemoryBudget(Limits().memory // 2).largest
    for character, size in ((rb"\u0001", 1), (EMOJI, 4), (rb"\ud83d\ude00", 4), ("€".encode(), 3), (b"a", 1)):
        body = execute(text(character * (MB // size)))
        assert 16 * len(body) <= Limits().body, character
        assert 16 * requests.memory_for(body) <= largest, character


def test_json_in_a_text_is_not_counted_as_values():
    quoted = json.dumps(json.dumps([{"a": 1}] * 10_000)).encode()
    assert requests.memory_for(quoted) == 3 * len(quoted)
