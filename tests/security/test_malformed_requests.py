"""Malformed, deep and incomplete requests get an error, and the service continues."""

from __future__ import annotations

import gzip
import socket
import threading

import pytest
from probes import PING, WAIT, exchange, raw_post, statuses
from promises import Promise

pytestmark = [pytest.mark.promise(Promise.NO_CRASH), pytest.mark.usefixtures("still_responds")]


def test_invalid_chunks_are_refused(served, token):
    for body in (b"zz\r\n", b"-1\r\n\r\n", b"ffffffffffffffffff\r\n", b"5\r\nabc", b"1;" + b"x" * 100_000 + b"\r\n"):
        received = statuses(
            exchange(served, raw_post(token, "Transfer-Encoding: chunked", body=body + b"\r\n0\r\n\r\n"))
        )
        assert not set(received) & {200, 500}


HEADERS = {
    "no colon": ["nonsense"], "a nul": ["X: a\0b"], "a long token": ["Authorization: Bearer " + "e" * 500_000],
}  # fmt: skip


@pytest.mark.parametrize("lines", HEADERS.values(), ids=HEADERS)
def test_malformed_headers_do_no_harm(served, token, lines):
    received = statuses(exchange(served, raw_post(token, *lines, f"Content-Length: {len(PING)}")))
    assert len(received) <= 1
    assert 500 not in received


DEEP = 100_000
NESTED = {
    "lists": "[" * DEEP + "]" * DEEP,
    "objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "requests": '{"requests":' + "[" * DEEP + "]" * DEEP + "}",
    "conditions": '{"requests":[{"type":"batch","batch":{"steps":[{"stmt":{"sql":"SELECT 1"},"condition":'
    + '{"type":"not","cond":' * DEEP + '{"type":"ok","step":0}' + "}" * DEEP + "}]}}]}",
    "conditions of a cursor": '{"batch":{"steps":[{"stmt":{"sql":"SELECT 1"},"condition":'
    + '{"type":"and","conds":[' * DEEP + '{"type":"ok","step":0}' + "]}" * DEEP + "}]}}",
    "a number": '{"requests":[{"type":"execute","stmt":{"sql":"SELECT ?","args":[{"type":"integer","value":"'
    + "9" * 1_000_000 + '"}]}}]}',
    "an exponent": '{"requests":[{"type":"execute","stmt":{"sql":"SELECT ?","args":'
    '[{"type":"float","value":1e999999}]}}]}',
    "half a surrogate": '{"requests":[{"type":"execute","stmt":{"sql":"SELECT \'\\ud800\'"}}]}',
    "one key many times": '{"requests":[],' + ",".join(['"baton":null'] * 100_000) + "}",
}  # fmt: skip
PATHS = ["/v2/pipeline", "/v3/pipeline", "/v3/cursor", "/v1/execute", "/v1/batch"]


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_json_that_is_deep_or_large_is_answered_with_an_error(served, token, text):
    for path in PATHS:
        received = statuses(
            exchange(served, raw_post(token, f"Content-Length: {len(text)}", body=text.encode(), path=path))
        )
        assert received, path
        assert not set(received) & {500, 503}, path


DEEP_AND_SHORT = 10_000
"""The deepest JSON within 64 KB, the limit of a body in the management interface."""


@pytest.mark.parametrize(
    "text",
    ["[" * DEEP_AND_SHORT, '{"a":' * DEEP_AND_SHORT + "1" + "}" * DEEP_AND_SHORT, "[]", '"x"', "1e400", "\ufeff{}", ""],
)
def test_json_that_is_deep_or_odd_is_400_in_the_management_interface(served, text):
    for method, path in (("POST", "/groups"), ("POST", "/databases"), ("PATCH", ""), ("POST", "/members")):
        answer = served.manage(method, path, content=text.encode(), headers={"content-type": "application/json"})
        assert answer.status_code in (400, 415), (path, answer.text)


def test_a_gzip_bomb_is_never_unpacked(served, token):
    bomb = gzip.compress(b" " * 100_000_000, 9)
    assert len(bomb) < 250_000
    for coding in ("gzip", "gzip, gzip"):
        lines = (f"Content-Encoding: {coding}", f"Content-Length: {len(bomb)}")
        for path in ("/v2/pipeline", "/v3/cursor"):
            [status] = statuses(exchange(served, raw_post(token, *lines, body=bomb, path=path)))
            assert status in (400, 415)


def test_disconnects_during_a_request_do_no_harm(served, token):
    request = raw_post(token, f"Content-Length: {len(PING)}")

    def send_parts():
        for cut in range(5, len(request), 37):
            with socket.create_connection(("127.0.0.1", served.port), timeout=WAIT) as connection:
                connection.sendall(request[:cut])

    threads = [threading.Thread(target=send_parts) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()
