"""Large bodies take long to decode, and the decoder holds the interpreter lock."""

from __future__ import annotations

import json
import threading

import pytest
from probes import HOST, WAIT, Latencies, check_p99, exchange, meets_p99, probing, request, statuses, undisturbed
from served import ORGANIZATION
from waiting import pause

LISTS = b"[" + b"[]," * 40_000_000 + b"[]]"
CLOSE, STEP, NULL = b'{"type":"close"},', b'{"stmt":{"sql":"SELECT 1"}},', b'{"type":"null"},'
SIZE = 60_000_000  # bytes
JSON = "Content-Type: application/json"
MANAGEMENT_LIMIT = 64 * 1024  # bytes


def repeated(head: bytes, part: bytes, tail: bytes, size: int = SIZE) -> bytes:
    """Return ``part`` repeatedly, without its last comma, between ``head`` and ``tail``."""
    return head + (part * (size // len(part)))[:-1] + tail


PIPELINES = {
    "requests": repeated(b'{"requests":[', CLOSE, b"]}"),
    "steps": repeated(b'{"requests":[{"type":"batch","batch":{"steps":[', STEP, b"]}}]}"),
    "arguments": repeated(b'{"requests":[{"type":"execute","stmt":{"sql":"SELECT 1","args":[', NULL, b"]}}]}"),
    "an unknown member": repeated(b'{"requests":[],"more":[', b"[],", b"]}"),
}
CURSOR = repeated(b'{"batch":{"steps":[', STEP, b"]}}")


def attack(scene, before, data: bytes) -> list[int]:
    """Send a request while others are probed; return the statuses of its responses.

    If other programs have slowed the machine since ``before`` was measured, both are measured again, in turn.
    """
    during, answered = probed(scene, data)
    if not meets_p99(before, during):
        before = undisturbed(scene.service, scene.probes)
        during, answered = probed(scene, data)
    check_p99(before, during)
    return answered


def probed(scene, data: bytes) -> tuple[dict[str, Latencies], list[int]]:
    """Send a request; return the latencies of the others meanwhile and the statuses of its responses."""
    received: list[bytes] = []
    sender = threading.Thread(target=lambda: received.append(exchange(scene.service, data, timeout=WAIT)))
    with probing(scene.service, scene.probes) as during:
        sender.start()
        sender.join(WAIT)
        pause(1)
    assert not sender.is_alive()
    return during, statuses(received[0])


@pytest.fixture(scope="module")
def before(scene, measuring):
    with measuring:
        return undisturbed(scene.service, scene.probes)


@pytest.mark.parametrize("path", ["/v1/auth/login", "/v1/auth/signup"])
@pytest.mark.usefixtures("alone")
def test_lists_of_120_mb_without_a_token_do_not_slow_other_users(scene, before, path):
    assert attack(scene, before, request("POST", path, JSON, "Connection: close", body=LISTS)) in ([], [413])


@pytest.mark.parametrize("body", PIPELINES.values(), ids=PIPELINES)
@pytest.mark.usefixtures("alone")
def test_a_pipeline_of_60_mb_does_not_slow_other_users(scene, before, body):
    authorization = f"Authorization: Bearer {scene.attacker}"
    answered = attack(scene, before, request("POST", "/v2/pipeline", authorization, "Connection: close", body=body))
    assert not set(answered) & {500, 503}


@pytest.mark.usefixtures("alone")
def test_a_cursor_of_60_mb_does_not_slow_other_users(scene, before):
    authorization = f"Authorization: Bearer {scene.attacker}"
    answered = attack(scene, before, request("POST", "/v3/cursor", authorization, "Connection: close", body=CURSOR))
    assert not set(answered) & {500, 503}


def test_a_pipeline_of_a_million_requests_is_413_with_a_message(scene):
    body = repeated(b'{"requests":[', CLOSE, b"]}", size=1_000_000 * len(CLOSE))
    authorization = f"Authorization: Bearer {scene.attacker}"
    received = exchange(scene.service, request("POST", "/v2/pipeline", authorization, "Connection: close", body=body))
    assert statuses(received) == [413]
    message = received.partition(b"\r\n\r\n")[2].decode()
    assert "requests" in message, message


MANAGEMENT = {
    "login": ("POST", "/v1/auth/login"),
    "sign-up": ("POST", "/v1/auth/signup"),
    "groups": ("POST", f"{ORGANIZATION}/groups"),
    "databases": ("POST", f"{ORGANIZATION}/databases"),
    "organization": ("PATCH", ORGANIZATION),
    "quotas": ("PATCH", "/v1/quotas"),
    "tokens": ("POST", "/v1/auth/api-tokens/large"),
}


@pytest.mark.parametrize(("method", "path"), MANAGEMENT.values(), ids=MANAGEMENT)
def test_a_management_body_of_more_than_64_kb_is_413(scene, method, path):
    for size, refused in ((MANAGEMENT_LIMIT, False), (MANAGEMENT_LIMIT + 1, True)):
        body = json.dumps({"unknown": ""}).encode()
        body = body[:-2] + b"x" * (size - len(body)) + body[-2:]
        answer = scene.service.manage(method, path, content=body, headers={"content-type": "application/json"})
        assert (answer.status_code == 413) == refused, (size, answer.text)
        if refused:
            assert "65,536 bytes" in answer.json()["error"]


def test_a_management_body_in_chunks_has_the_same_limit(scene):
    chunks = b"10000\r\n" + b" " * 65536 + b"\r\n2\r\n{}\r\n0\r\n\r\n"
    head = f"POST /v1/auth/login HTTP/1.1\r\nHost: {HOST}\r\n{JSON}\r\nTransfer-Encoding: chunked\r\nConnection: close"
    assert statuses(exchange(scene.service, head.encode() + b"\r\n\r\n" + chunks)) == [413]
