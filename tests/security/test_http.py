"""Hostile HTTP requests: smuggling, header and body bombs, incomplete requests."""

from __future__ import annotations

import gzip
import json
import socket
import threading

import pytest
from served import serve

WAIT = 30.0
BODY = b'{"requests":[{"type":"execute","stmt":{"sql":"SELECT 1"}},{"type":"close"}]}'


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("http") / "data", "--port", "0") as service:
        service.create("db")
        yield service


@pytest.fixture(scope="module")
def token(service):
    return service.token("db")


@pytest.fixture(autouse=True)
def still_responds(service, token):
    yield
    assert service.process.poll() is None
    with service.database("db") as db:
        assert db.rows("SELECT 1") == [("1",)]


def send(service, data, *, then=b""):
    """Send bytes; return the response up to the end of the connection, or until ten seconds pass without data."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as connection:
        answer = b""
        try:
            connection.sendall(data + then)
            while chunk := connection.recv(65536):
                answer += chunk
        except (TimeoutError, ConnectionError):
            pass  # the service may close the connection while data is being sent
        return answer


def post(token, *lines, body=BODY, path="/v2/pipeline"):
    head = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {token}", *lines, "Connection: close"]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body


def answers(data):
    """Return the status of each response."""
    return [int(part[:3]) for part in data.split(b"HTTP/1.1 ")[1:]]


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SMUGGLING = {
    "length and chunked": ["Content-Length: 6", "Transfer-Encoding: chunked"],
    "chunked and length": ["Transfer-Encoding: chunked", "Content-Length: 6"],
    "two lengths": ["Content-Length: 6", "Content-Length: 60"],
    "chunked twice": ["Transfer-Encoding: chunked, chunked"],
    "chunked not last": ["Transfer-Encoding: chunked, identity"],
    "unknown coding": ["Transfer-Encoding: xchunked", "Content-Length: 6"],
    "a blank before the colon": ["Transfer-Encoding : chunked", "Content-Length: 6"],
    "a folded header": ["X: 1\r\n Transfer-Encoding: chunked", "Content-Length: 6"],
    "a negative length": ["Content-Length: -6"],
    "a length with a sign": ["Content-Length: +6"],
    "a length in hex": ["Content-Length: 0x6"],
    "lengths in a list": ["Content-Length: 6, 6"],
    "a huge length": ["Content-Length: 99999999999999999999"],
}


@pytest.mark.parametrize("lines", SMUGGLING.values(), ids=SMUGGLING)
def test_requests_cannot_be_smuggled(service, token, lines):
    """An ambiguous request is refused, and nothing after it gets a response."""
    head = post(token, *lines, body=b"")
    assert answers(send(service, head, then=b"0\r\n\r\n" + SMUGGLED)) == [400]


def test_invalid_chunks_are_refused(service, token):
    for body in (b"zz\r\n", b"-1\r\n\r\n", b"ffffffffffffffffff\r\n", b"5\r\nabc", b"1;" + b"x" * 100_000 + b"\r\n"):
        statuses = answers(send(service, post(token, "Transfer-Encoding: chunked", body=body + b"\r\n0\r\n\r\n")))
        assert not set(statuses) & {200, 500}


HEADERS = {
    "no colon": ["nonsense"], "a nul": ["X: a\0b"], "a long token": ["Authorization: Bearer " + "e" * 500_000],
}  # fmt: skip


def test_a_token_in_a_trailer_authorizes_nothing(service, token):
    head = b"POST /v2/pipeline HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    chunks = b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\nAuthorization: Bearer " + token.encode() + b"\r\n\r\n"
    assert answers(send(service, head, then=chunks)) == [401]


@pytest.mark.parametrize("lines", HEADERS.values(), ids=HEADERS)
def test_malformed_headers_do_no_harm(service, token, lines):
    statuses = answers(send(service, post(token, *lines, f"Content-Length: {len(BODY)}")))
    assert len(statuses) <= 1
    assert 500 not in statuses


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
def test_json_that_is_deep_or_large_is_answered_with_an_error(service, token, text):
    for path in PATHS:
        statuses = answers(send(service, post(token, f"Content-Length: {len(text)}", body=text.encode(), path=path)))
        assert statuses, path
        assert not set(statuses) & {500, 503}, path


DEEP_AND_SHORT = 10_000
"""The deepest JSON within 64 KB, the limit of a body in the management interface."""


@pytest.mark.parametrize(
    "text",
    ["[" * DEEP_AND_SHORT, '{"a":' * DEEP_AND_SHORT + "1" + "}" * DEEP_AND_SHORT, "[]", '"x"', "1e400", "\ufeff{}", ""],
)
def test_json_that_is_deep_or_odd_is_400_in_the_management_interface(service, text):
    for method, path in (("POST", "/groups"), ("POST", "/databases"), ("PATCH", ""), ("POST", "/members")):
        answer = service.manage(method, path, content=text.encode(), headers={"content-type": "application/json"})
        assert answer.status_code in (400, 415), (path, answer.text)


def test_a_gzip_bomb_is_never_unpacked(service, token):
    bomb = gzip.compress(b" " * 100_000_000, 9)
    assert len(bomb) < 250_000
    for coding in ("gzip", "gzip, gzip"):
        lines = (f"Content-Encoding: {coding}", f"Content-Length: {len(bomb)}")
        for path in ("/v2/pipeline", "/v3/cursor"):
            [status] = answers(send(service, post(token, *lines, body=bomb, path=path)))
            assert status in (400, 415)


def test_incomplete_requests_do_not_delay_others(service, token):
    """With a hundred clients that send only part of a request, other clients are served."""
    connections = []
    try:
        for number in range(100):
            connection = socket.create_connection(("127.0.0.1", service.port), timeout=WAIT)
            head = post(token, "Content-Length: 1000", body=b"{")
            connection.sendall(head if number % 2 else head[: 10 + number])
            connections.append(connection)
        with service.database("db") as db:
            for _ in range(20):
                assert db.rows("SELECT 2") == [("2",)]
    finally:
        for connection in connections:
            connection.close()


def test_disconnects_during_a_request_do_no_harm(service, token):
    request = post(token, f"Content-Length: {len(BODY)}")

    def send_parts():
        for cut in range(5, len(request), 37):
            with socket.create_connection(("127.0.0.1", service.port), timeout=WAIT) as connection:
                connection.sendall(request[:cut])

    threads = [threading.Thread(target=send_parts) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()


def test_no_secret_is_in_a_log_a_metric_or_an_error(service, token):
    platform = service.platform_token
    texts = []
    for secret in (token, platform):
        paths = (f"/v2/pipeline?authToken={secret}", f"/{secret}", f"/v1/organizations/{secret}")
        texts += [send(service, post(secret, "Content-Length: 0", body=b"", path=path)) for path in paths]
        texts.append(send(service, post(secret + "x", f"Content-Length: {len(BODY)}")))
        body = json.dumps({"requests": [{"type": secret}], "baton": secret}).encode()
        texts.append(send(service, post("nobody", f"Content-Length: {len(body)}", body=body)))
        answer = service.manage("GET", "/metrics")
        texts.append(answer.content)
    texts.append(service.log().encode())
    texts += [file.read_bytes() for file in service.folder.glob("*.log*")]
    seal, key = token.rpartition(".")[2].encode(), (service.folder / "signing-key.pem").read_bytes().split(b"\n")[1]
    for text in texts:
        assert platform.encode() not in text
        assert seal not in text
        assert key not in text


def test_files_are_accessible_only_by_their_owner(service):
    import os
    import stat

    if os.name != "posix":
        pytest.skip("modes of files")
    assert stat.S_IMODE(service.folder.stat().st_mode) == 0o700
    for path in service.folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    catalog = b"".join(path.read_bytes() for path in service.folder.glob("catalog.sqlite*"))
    assert service.platform_token.encode() not in catalog
