"""The bodies of refused requests, in every shape that servers send."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.hrana import faults
from pipemagic.hrana.messages import Error

SHAPES = {
    "specification": (b'{"message":"gone","code":"STREAM_EXPIRED"}', "", Error("gone", "STREAM_EXPIRED")),
    "without a code": (b'{"message":"gone"}', "", Error("gone")),
    "null code": (b'{"message":"gone","code":null}', "", Error("gone")),
    "error text": (b'{"error":"Unauthorized: `The JWT is invalid`"}', "", Error("Unauthorized: `The JWT is invalid`")),
    "all members": (b'{"error":"no","message":"no","code":"FORBIDDEN"}', "", Error("no", "FORBIDDEN")),
    "error object": (b'{"error":{"message":"no","code":"X"}}', "", Error("no", "X")),
    "text": (b"Received an invalid baton", "text/plain", Error("Received an invalid baton")),
    "lines of text": (b"  first\nsecond\n", "text/plain", Error("first")),
    "nothing": (b"", "", Error("the response has no text")),
    "a page": (b"<!doctype html><h1>Bad gateway", "text/html; charset=utf-8", None),
    "a page without its type": (b"\n <html>", "", None),
    "not UTF-8": (b"caf\xe9", "text/plain", Error("caf�")),
    "not UTF-8 in JSON": (b'{"error":"\xff"}', "application/json", Error('{"error":"�"}')),
    "cut JSON": (b'{"message":"go', "application/json", Error('{"message":"go')),
    "other JSON": (b'{"detail":"x"}', "application/json", Error('{"detail":"x"}')),
    "numbers": (b'{"message":5,"code":7}', "", Error('{"message":5,"code":7}')),
    "long": (b"x" * 1000, "text/plain", Error("x" * 300)),
}  # fmt: skip


@pytest.mark.parametrize(("body", "kind", "expected"), SHAPES.values(), ids=SHAPES)
def test_a_fault_is_read(body, kind, expected):
    page = Error("received an HTML page instead of a response of the database")
    assert faults.read_fault(body, kind) == (expected or page)


members = st.none() | st.text(max_size=9) | st.integers() | st.dictionaries(st.just("message"), st.text(max_size=9))
objects = st.dictionaries(st.sampled_from(["message", "error", "code"]), members, max_size=3)


@given(st.binary() | st.builds(msgspec.json.encode, objects))
def test_any_body_gives_some_text(body):
    error = faults.read_fault(body)
    assert isinstance(error.message, str)
    assert error.code is None or isinstance(error.code, str)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"error":' * 100_000])
def test_endless_nesting_gives_some_text(text):
    assert len(faults.read_fault(text.encode()).message) == 300


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (400, Error("The stream has expired due to inactivity", "STREAM_EXPIRED"), True),
        (400, Error("Received a baton that has already been used"), True),
        (400, Error("Received an invalid baton"), True),
        (400, Error("SQL text 9 not found"), False),
        (400, Error("database is locked", "SQLITE_BUSY"), False),
        (404, Error("not found"), True),
        (404, Error("no such stream", "STREAM_NOT_FOUND"), True),
        (410, Error("expired", "STREAM_EXPIRED"), True),
        (410, Error("lost", "STREAM_LOST"), True),
        (410, Error("gone"), True),
        (410, Error("the database was deleted", "DATABASE_DELETED"), False),
        (500, Error("The stream has expired due to inactivity", "STREAM_EXPIRED"), False),
    ],
)
def test_a_refused_baton_is_distinguished_from_other_faults(status, error, expected):
    assert faults.is_stream_gone(status, error) is expected
