"""Bodies with bytes changed, cut, doubled or swapped: 400, or the response to a valid body, never 500."""

from __future__ import annotations

import json

import pytest
from asgi_calls import call
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_calls import Clock, caller_of

from pipemagic.service.limits import Limits
from pipemagic.service.service import Service

STMT = {"sql": "SELECT ?, :n", "args": [{"type": "integer", "value": "1"}], "want_rows": True}
BLOB = {"name": "n", "value": {"type": "blob", "base64": "AAE="}}
COND = {"type": "and", "conds": [{"type": "ok", "step": 0}, {"type": "not", "cond": {"type": "is_autocommit"}}]}
BATCH = {"steps": [{"stmt": {"sql": "INSERT INTO t VALUES (1)"}}, {"stmt": STMT, "condition": COND}]}
SEEDS = {
    "/v3/pipeline": {
        "baton": None,
        "requests": [
            {"type": "execute", "stmt": {**STMT, "named_args": [BLOB]}},
            {"type": "batch", "batch": BATCH}, {"type": "sequence", "sql": "SELECT 1; SELECT 2"},
            {"type": "describe", "sql": "SELECT a FROM t"}, {"type": "store_sql", "sql_id": 1, "sql": "SELECT 'é'"},
            {"type": "execute", "stmt": {"sql_id": 1}}, {"type": "close_sql", "sql_id": 1},
            {"type": "get_autocommit"}, {"type": "close"},
        ],
    },
    "/v3/cursor": {"baton": None, "batch": BATCH},
    "/v1/organizations/local/databases": {"name": "db", "group": "default", "size_limit": "1mb"},
    "/v1/organizations/local/groups": {"name": "default", "location": "ams"},
    "/v1/organizations": {"name": "local"},
    "/v1/organizations/local/members": {"username": "nobody", "role": "admin"},
    "/v1/auth/login": {"username": "nobody", "password": "x"},
}  # fmt: skip
PIECES = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\x00",
    b"\xff",
    b"\xc3",
    b"null",
    b"true",
    b"-",
    b"1e999",
    b"9" * 40,
    b"NaN",
    b"Infinity",
    b" ",
    b"\n",
    b'"type":"execute"',
    b'"sql":"BEGIN"',
    b'"sql_id":-1',
    b'"baton":"x"',
    b"'",
    b"[[[[",
]
changes = st.tuples(
    st.sampled_from(["insert", "replace", "cut", "double", "swap"]),
    st.integers(0, 10_000), st.integers(1, 40), st.sampled_from(PIECES) | st.binary(min_size=1, max_size=4),
)  # fmt: skip


def mutated(body: bytes, change: tuple[str, int, int, bytes]) -> bytes:
    kind, at, size, piece = change
    at %= len(body) + 1
    head, middle, tail = body[:at], body[at : at + size], body[at + size :]
    match kind:
        case "insert":
            return head + piece + middle + tail
        case "replace":
            return head + piece + tail
        case "cut":
            return head + tail
        case "double":
            return head + middle * 2 + tail
    return head + middle[::-1] + tail


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("bodies"), clock=Clock(), limits=Limits(response=60_000, streams=16))
    service.catalog.create_group("local", "default", "ams")
    caller_of(service, "db").run("CREATE TABLE t(a)")
    yield service
    service.close()


def test_a_mutated_body_causes_no_internal_error(service, soak):
    platform = (service.folder / "platform-token").read_text().strip()
    tokens = {path: platform if path.startswith("/v1/") else caller_of(service, "db").token for path in SEEDS}

    @settings(max_examples=10_000 if soak else 300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(path=st.sampled_from(list(SEEDS)), story=st.lists(changes, min_size=1, max_size=6))
    def send(path, story):
        body = json.dumps(SEEDS[path], ensure_ascii=False).encode()
        for change in story:
            body = mutated(body, change)
        headers = {"host": "127.0.0.1", "authorization": f"Bearer {tokens[path]}", "content-type": "application/json"}
        response = call(service, "POST", path, headers=headers, body=body)
        data = response.read()
        assert response.status in (200, 400, 401, 403, 404, 409, 422, 429), (response.status, data)
        if response.status == 200 and path == "/v3/pipeline":
            answer = json.loads(data)
            codes = {result["error"]["code"] for result in answer["results"] if result["type"] == "error"}
            assert "INTERNAL" not in codes
        service.engine.streams.end_all()
        assert len(service.engine.streams) == 0

    send()


def test_the_original_bodies_are_accepted(service):
    token = caller_of(service, "db").token
    headers = {"host": "127.0.0.1", "authorization": f"Bearer {token}"}
    for path in ("/v3/pipeline", "/v3/cursor"):
        response = call(service, "POST", path, headers=headers, body=json.dumps(SEEDS[path]).encode())
        assert response.status == 200, response.read()
        assert response.read()
    service.engine.streams.end_all()
