"""Large bodies take long to decode, and the decoder holds the interpreter lock."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from probes import HOST, exchange, request, statuses
from promises import Promise
from served import ORGANIZATION

pytestmark = pytest.mark.promise(Promise.MEMORY)

CLOSE, STEP = b'{"type":"close"},', b'{"stmt":{"sql":"SELECT 1"}},'
SIZE = 60_000_000  # bytes
JSON = "Content-Type: application/json"
MANAGEMENT_LIMIT = 64 * 1024  # bytes


def repeated(head: bytes, part: bytes, tail: bytes) -> bytes:
    """Return ``part`` repeatedly, without its last comma, between ``head`` and ``tail``."""
    return head + (part * (SIZE // len(part)))[:-1] + tail


BODIES = {
    "/v2/pipeline": repeated(b'{"requests":[', CLOSE, b"]}"),
    "/v3/cursor": repeated(b'{"batch":{"steps":[', STEP, b"]}}"),
}


@pytest.mark.parametrize("path", BODIES)
def test_a_body_of_millions_of_parts_is_413_with_a_message_and_others_work(scene, path):
    authorization = f"Authorization: Bearer {scene.attacker}"
    data = request("POST", path, authorization, "Connection: close", body=BODIES[path])
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(exchange, scene.service, data)
        scene.others_work()
    assert statuses(received.result()) == [413]
    message = received.result().partition(b"\r\n\r\n")[2].decode()
    assert "requests" in message, message


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/auth/login"), ("PATCH", ORGANIZATION)])
def test_a_management_body_of_more_than_64_kb_is_413(scene, method, path):
    for size, refused in ((MANAGEMENT_LIMIT, False), (MANAGEMENT_LIMIT + 1, True)):
        body = json.dumps({"unknown": ""}).encode()
        body = body[:-2] + b"x" * (size - len(body)) + body[-2:]
        answer = scene.service.manage(method, path, content=body, headers={"content-type": "application/json"})
        assert (answer.status_code == 413) == refused, (size, answer.text)
        if refused:
            assert (answer.json()["code"], "65,536 bytes" in answer.json()["error"]) == ("BODY_TOO_LARGE", True)


def test_a_management_body_in_chunks_has_the_same_limit(scene):
    chunks = b"10000\r\n" + b" " * 65536 + b"\r\n2\r\n{}\r\n0\r\n\r\n"
    head = f"POST /v1/auth/login HTTP/1.1\r\nHost: {HOST}\r\n{JSON}\r\nTransfer-Encoding: chunked\r\nConnection: close"
    assert statuses(exchange(scene.service, head.encode() + b"\r\n\r\n" + chunks)) == [413]
