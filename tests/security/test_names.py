"""Malicious paths and host names: nothing outside of the data folder is created, read or removed."""

from __future__ import annotations

import json
import socket

import pytest
from asgi_calls import call
from promises import Promise
from served import serve

pytestmark = pytest.mark.promise(Promise.BOUNDARIES)

ORGANIZATION = "/v1/organizations/local"

NAMES = {
    "dots": "..", "path": "../../etc/passwd", "slash": "a/b", "backslash": "..\\..\\x", "absolute": "/etc/passwd",
    "nul": "a\0b", "newline": "a\nb", "blank": " ", "empty": "", "dot": ".", "hidden": ".ssh", "upper": "Admin",
    "full-width dots": "\uff0e\uff0e", "two-dot leader": "\u2025", "cyrillic": "\u0430dmin",
    "right-to-left": "a\u202eb",
    "combining": "e\u0301", "percent": "%2e%2e%2f", "long": "a" * 300, "very long": "a" * 60_000,
    "quote": "a'; DROP TABLE databases; --", "label": "a.b", "hyphen first": "-a", "hyphen last": "a-", "wildcard": "*",
    "emoji": "\U0001f600", "surrogate": "\ud800", "zero width": "a\u200bb", "device": "CON:", "tilde": "~root",
}  # fmt: skip


def files_of(folder):
    return {path.relative_to(folder).as_posix() for path in folder.parent.rglob("*") if folder in path.parents}


def manage(service, method, path, body=None):
    token = (service.folder / "platform-token").read_text().strip()
    headers = {"host": "127.0.0.1", "authorization": f"Bearer {token}"}
    response = call(service, method, path, headers=headers, body=json.dumps(body).encode() if body is not None else b"")
    return response.status


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_that_is_not_a_label_is_refused_in_a_body(service, tmp_path, name):
    outside = {path for path in tmp_path.rglob("*") if "data" not in path.parts}
    before = files_of(service.folder)
    assert manage(service, "POST", f"{ORGANIZATION}/databases", {"name": name, "group": "default"}) == 400
    assert manage(service, "POST", f"{ORGANIZATION}/databases", {"name": "fine", "group": name}) in (400, 404)
    assert manage(service, "POST", f"{ORGANIZATION}/groups", {"name": name, "location": "ams"}) == 400
    assert manage(service, "POST", f"{ORGANIZATION}/groups", {"name": "fine", "location": name}) in (400, 404, 422)
    assert files_of(service.folder) == before
    assert {path for path in tmp_path.rglob("*") if "data" not in path.parts} == outside


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_name_that_is_not_a_label_is_not_found_in_a_path(service, db, method, name):
    for path in (f"/databases/{name}", f"/groups/{name}", f"/databases/{name}/instances", f"/databases/db/{name}"):
        if path in ("/databases/", "/groups/", "/databases/db/") or name in ("", "\ud800"):
            continue
        assert manage(service, method, ORGANIZATION + path) in (400, 404, 405, 422), path
    assert db.run("SELECT a FROM t").rows() == [["mine"]]


HOSTS = [
    "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "db-local.localhost.evil.example",
    "169.254.169.254",
    "0.0.0.0", "db-local.localhost@evil.example", "evil.example#.localhost", "evil.example:80:80", "[::ffff:1.2.3.4]",
    "", "localhost\0.evil.example", "\uff4cocalhost", "2130706433", "0x7f.1",
]  # fmt: skip


PATHS = ["/v1/organizations", "/openapi.json", "/health", "/dump"]


@pytest.mark.parametrize(
    ("host", "path"), [*[(host, "/v2/pipeline") for host in HOSTS], *[(HOSTS[0], path) for path in PATHS]]
)
def test_a_foreign_host_is_refused_with_valid_tokens(service, db, host, path):
    """DNS rebinding: a foreign page makes the browser send requests to this machine under its own host name."""
    for token in (db.token, (service.folder / "platform-token").read_text().strip()):
        headers = {"host": host, "authorization": f"Bearer {token}"}
        response = call(service, "POST" if "pipe" in path else "GET", path, headers=headers)
        assert response.status in (404, 421)
        assert b"mine" not in response.read()


def raw(port, target, host="127.0.0.1"):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"GET " + target + f" HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        data = b""
        while chunk := connection.recv(65536):
            data += chunk
    return data


TARGETS = [
    b"/..%2f..%2fplatform-token", b"/../../../../etc/passwd", b"/%2e%2e/%2e%2e/etc/passwd", b"/v1/../../etc/passwd",
    b"//etc/passwd", b"/..;/etc/passwd", b"/\\..\\..\\platform-token", b"/%5c..%5cplatform-token", b"/%00", b"/v2%00",
    b"/platform-token", b"/signing-key.pem", b"/catalog.sqlite", b"/databases", b"/service.json", b"/service.log",
    b"/v1/organizations/..%2f..", b"/v1/organizations/%2e%2e/databases", b"/" + b"a" * 60_000, b"/%c0%ae%c0%ae/",
    b"http://evil.example/v2/pipeline", b"/.well-known/../platform-token", b"/v3/cursor/../../platform-token",
]  # fmt: skip


def test_no_target_reaches_a_file(tmp_path):
    with serve(tmp_path / "data", "--port", "0") as service:
        secrets = [(tmp_path / "data" / name).read_bytes().strip() for name in ("platform-token", "signing-key.pem")]
        for target in TARGETS:
            answer = raw(service.port, target)
            assert answer[:13] in (
                b"HTTP/1.1 400 ",
                b"HTTP/1.1 401 ",
                b"HTTP/1.1 404 ",
                b"HTTP/1.1 405 ",
                b"HTTP/1.1 421 ",
            ), target
            assert not any(secret in answer for secret in secrets)
            assert b"root:" not in answer
            assert b"SQLite format 3" not in answer
        assert service.process.poll() is None
