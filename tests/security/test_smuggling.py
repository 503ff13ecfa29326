"""Requests within requests, and the secrets of the service: neither reaches anybody else."""

from __future__ import annotations

import json
import os
import select
import stat

import pytest
from probes import PING, connections, exchange, raw_post, statuses
from promises import Promise

pytestmark = [pytest.mark.promise(Promise.BOUNDARIES), pytest.mark.usefixtures("still_responds")]


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
def test_requests_cannot_be_smuggled(served, token, lines):
    """An ambiguous request is refused, and nothing after it gets a response."""
    head = raw_post(token, *lines, body=b"")
    assert statuses(exchange(served, head + b"0\r\n\r\n" + SMUGGLED)) == [400]


@pytest.mark.parametrize("length", [f"Content-Length: {len(SMUGGLED)}", "Transfer-Encoding: chunked"])
def test_the_body_of_a_request_with_upgrade_is_no_other_request(served, token, length):
    """A proxy that passes on Upgrade, such as one for websockets, sends the body of its client later."""
    head = raw_post(token, length, "Upgrade: h2c", "Connection: Upgrade", body=b"")
    chunk = b"%x\r\n" % len(SMUGGLED) + SMUGGLED + b"\r\n0\r\n\r\n"
    with connections(served, 1) as (connection,):
        connection.sendall(head)
        assert select.select([connection], [], [], 0.2)[0] == []  # it waits for the body
        connection.sendall(chunk if "chunked" in length else SMUGGLED)
        received = b""
        while part := connection.recv(65536):
            received += part
    assert statuses(received) == [400]
    assert b"smuggled" not in received


def test_a_token_in_a_trailer_authorizes_nothing(served, token):
    head = b"POST /v2/pipeline HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    chunks = b"%x\r\n" % len(PING) + PING + b"\r\n0\r\nAuthorization: Bearer " + token.encode() + b"\r\n\r\n"
    assert statuses(exchange(served, head + chunks)) == [401]


def test_no_secret_is_in_a_log_a_metric_or_an_error(served, token):
    platform = served.platform_token
    texts = []
    for secret in (token, platform):
        paths = (f"/v2/pipeline?authToken={secret}", f"/{secret}", f"/v1/organizations/{secret}")
        texts += [exchange(served, raw_post(secret, "Content-Length: 0", body=b"", path=path)) for path in paths]
        texts.append(exchange(served, raw_post(secret + "x", f"Content-Length: {len(PING)}")))
        body = json.dumps({"requests": [{"type": secret}], "baton": secret}).encode()
        texts.append(exchange(served, raw_post("nobody", f"Content-Length: {len(body)}", body=body)))
        answer = served.manage("GET", "/metrics")
        texts.append(answer.content)
    texts.append(served.log().encode())
    texts += [file.read_bytes() for file in served.folder.glob("*.log*")]
    seal, key = token.rpartition(".")[2].encode(), (served.folder / "signing-key.pem").read_bytes().split(b"\n")[1]
    for text in texts:
        assert platform.encode() not in text
        assert seal not in text
        assert key not in text


def test_files_are_accessible_only_by_their_owner(served):
    if os.name != "posix":
        pytest.skip("modes of files")
    assert stat.S_IMODE(served.folder.stat().st_mode) == 0o700
    for path in served.folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    catalog = b"".join(path.read_bytes() for path in served.folder.glob("catalog.sqlite*"))
    assert served.platform_token.encode() not in catalog
