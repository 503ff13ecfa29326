"""Heads, trailers and chunks that are ambiguous or too large."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

import pytest
from probes import ENDLESS, HOST, exchange, pipeline, receive, request, statuses

BODY = pipeline("SELECT 1")
CLOSE = "Connection: close"
HEAD_LIMIT = 64 * 1024  # bytes
SLOW = ENDLESS.replace("i + 1 FROM n", "i + 1 FROM n WHERE i < 3000000")
"""About a second."""


def chunked(*lines: str, body: bytes, trailers: bytes = b"", size: bytes = b"") -> bytes:
    """Return a pipeline request in one chunk; ``size`` replaces the line with the size of the chunk."""
    head = ["POST /v2/pipeline HTTP/1.1", f"Host: {HOST}", *lines, "Transfer-Encoding: chunked"]
    chunks = (size or b"%x" % len(body)) + b"\r\n" + body + b"\r\n0\r\n" + trailers + b"\r\n"
    return "\r\n".join(head).encode() + b"\r\n\r\n" + chunks


@pytest.mark.parametrize("name", ["Authorization", "authorization", "AUTHORIZATION"])
@pytest.mark.parametrize("declared", [(), ("Trailer: Authorization",)], ids=["undeclared", "declared"])
def test_a_token_in_a_trailer_authorizes_nothing(scene, name, declared):
    trailers = f"{name}: Bearer {scene.attacker}\r\n".encode()
    assert statuses(exchange(scene.service, chunked(*declared, CLOSE, body=BODY, trailers=trailers))) == [401]


def test_a_token_in_a_trailer_replaces_none_in_the_head(scene):
    trailers = f"Authorization: Bearer {scene.attacker}\r\n".encode()
    for token, expected in (("nonsense", 401), (scene.attacker, 200)):
        data = chunked(f"Authorization: Bearer {token}", CLOSE, body=BODY, trailers=trailers + b"X-Other: 1\r\n")
        assert statuses(exchange(scene.service, data)) == [expected]


def test_trailers_have_a_limit(scene):
    authorization = f"Authorization: Bearer {scene.attacker}"
    for trailers in (b"X: " + b"a" * 2 * HEAD_LIMIT + b"\r\n", b"X-Trailer: 1\r\n" * HEAD_LIMIT):
        assert not set(
            statuses(exchange(scene.service, chunked(authorization, CLOSE, body=BODY, trailers=trailers)))
        ) & {
            200,
            500,
        }


HOSTS = {
    "another": ["Host: evil.example"],
    "the same": [f"Host: {HOST}"],
    "another case": [f"hOST: {HOST}"],
    "an empty one": ["Host:"],
}


@pytest.mark.parametrize("lines", HOSTS.values(), ids=HOSTS)
def test_two_host_headers_are_refused(scene, lines):
    authorization = f"Authorization: Bearer {scene.attacker}"
    for before, after in (((), lines), (lines, ())):
        data = request("POST", "/v2/pipeline", *after, authorization, CLOSE, body=BODY)
        if before:
            data = data.replace(b"\r\nHost: ", b"\r\n" + before[0].encode() + b"\r\nHost: ", 1)
        assert statuses(exchange(scene.service, data)) == [400]


LARGE = {
    "one header": ["X: " + "a" * HEAD_LIMIT],
    "many headers": [f"X-{number}: {'a' * 100}" for number in range(HEAD_LIMIT // 100)],
    "a name": ["X" * HEAD_LIMIT + ": 1"],
}


def large_head(scene, lines: list[str]) -> bytes:
    return request("POST", "/v2/pipeline", f"Authorization: Bearer {scene.attacker}", *lines, CLOSE, body=BODY)


@pytest.mark.parametrize("lines", LARGE.values(), ids=LARGE)
def test_a_head_of_more_than_64_kb_is_431(scene, lines):
    assert statuses(exchange(scene.service, large_head(scene, lines))) == [431]


def test_a_target_of_more_than_64_kb_is_refused(scene):
    [status] = statuses(exchange(scene.service, request("GET", "/health?" + "a" * HEAD_LIMIT, CLOSE)))
    assert status in (400, 414, 431)


def test_a_head_below_64_kb_is_served(scene):
    assert statuses(exchange(scene.service, large_head(scene, ["X: " + "a" * (HEAD_LIMIT - 2048)]))) == [200]


@pytest.mark.parametrize("lines", LARGE.values(), ids=LARGE)
def test_a_large_head_behind_other_requests_is_431(scene, lines):
    """In one piece with the first request, and after its response."""
    first = request("POST", "/v2/pipeline", f"Authorization: Bearer {scene.attacker}", body=BODY)
    assert statuses(exchange(scene.service, first + large_head(scene, lines))) == [200, 431]
    with socket.create_connection((HOST, scene.service.port), timeout=10) as connection:
        for _ in range(2):
            connection.sendall(first)
            assert statuses(receive(connection)) == [200]
        with suppress(ConnectionError):  # the service may close before it has read everything
            connection.sendall(large_head(scene, lines))
        assert statuses(receive(connection)) == [431]


@pytest.mark.parametrize("lines", LARGE.values(), ids=LARGE)
def test_a_large_head_behind_a_running_request_is_431(scene, lines):
    body = pipeline(SLOW)
    first = request("POST", "/v2/pipeline", f"Authorization: Bearer {scene.attacker}", body=body)
    assert statuses(exchange(scene.service, first + large_head(scene, lines))) == [200, 431]


@pytest.mark.parametrize("lines", LARGE.values(), ids=LARGE)
def test_a_large_head_behind_a_body_that_arrives_in_two_parts_is_431(scene, lines):
    first = request("POST", "/v2/pipeline", f"Authorization: Bearer {scene.attacker}", body=BODY)
    received = []

    def read() -> None:
        with suppress(ConnectionError):
            while chunk := connection.recv(65536):
                received.append(chunk)

    with socket.create_connection((HOST, scene.service.port), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = threading.Thread(target=read)
        reader.start()
        connection.sendall(first[:-10])
        with suppress(ConnectionError):
            connection.sendall(first[-10:] + large_head(scene, lines))
        reader.join(10)
    assert not reader.is_alive()
    assert statuses(b"".join(received)) == [200, 431]


EXTENSIONS = {
    "one of 10 MB": lambda body: b"%x;" % len(body) + b"x" * 10_000_000,
    "one of 128 kB": lambda body: b"%x;name=" % len(body) + b"x" * 128 * 1024,
    "many": lambda body: b"%x" % len(body) + b";name=value" * 20_000,
}


@pytest.mark.parametrize("size", EXTENSIONS.values(), ids=EXTENSIONS)
def test_large_chunk_extensions_are_refused(scene, size):
    data = chunked(f"Authorization: Bearer {scene.attacker}", CLOSE, body=BODY, size=size(BODY))
    assert not set(statuses(exchange(scene.service, data))) & {200, 401, 500}


def test_extensions_of_many_chunks_are_refused(scene):
    """Each is small; together they are 4,000 times the body."""
    lines = f"POST /v2/pipeline HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {scene.attacker}\r\n{CLOSE}"
    head = lines.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = BODY + b" " * 2000
    chunks = b"".join(b"1;" + b"x" * 4000 + b"\r\n" + body[at : at + 1] + b"\r\n" for at in range(len(body)))
    received = exchange(scene.service, head + chunks + b"0\r\n\r\n")
    assert not set(statuses(received)) & {200, 401, 500}


def test_a_small_chunk_extension_is_ignored(scene):
    data = chunked(f"Authorization: Bearer {scene.attacker}", CLOSE, body=BODY, size=b"%x;name=value" % len(BODY))
    assert statuses(exchange(scene.service, data)) == [200]
