"""Responses before the body was read reach the client, whatever it sends first (RFC 9112, 9.6), and cost no memory.

Keeps the first promise: nothing that a client sends takes memory of the service beyond its limits.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest
import trustme
from served import serve
from served_apps import serving
from service_calls import caller_of, new_service

import pipemagic
from pipemagic.service.endpoint import Runtime
from pipemagic.service.limits import MB, Limits

HOST = "localhost"
LARGE = b'{"requests":[{"type":"execute","stmt":{"sql":"SELECT 1' + b" " * 30_000_000 + b'"}}]}'
PATH = "/v3/pipeline"


class Served:
    """A running service with a limit of 1 MB for bodies, and its database."""

    def __init__(self, scheme, port, token, authority):
        self.url, self.port, self.token = f"{scheme}://{HOST}:{port}", port, token
        self.authority, self.verify = authority, True
        if scheme == "https":
            self.verify = ssl.create_default_context(cafile=authority)


@pytest.fixture(scope="module", params=["http", "https"])
def service(request, tmp_path_factory):
    folder, tls, authority = tmp_path_factory.mktemp("early"), None, trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    if request.param == "https":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(HOST).configure_cert(tls)
    limits = Limits(body=MB)
    with new_service(folder, limits=limits) as service, serving(service, Runtime(limits), tls=tls) as app:
        token = caller_of(service, "db").token
        yield Served(request.param, app.port, token, folder / "authority.pem")


def by_http_client(service, headers):
    if service.url.startswith("https"):
        connection = http.client.HTTPSConnection(HOST, service.port, context=service.verify)
    else:
        connection = http.client.HTTPConnection(HOST, service.port)
    with closing(connection):
        connection.request("POST", PATH, LARGE, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def by_httpx(service, headers):
    with httpx.Client(verify=service.verify, trust_env=False, timeout=30.0) as client:
        answer = client.post(service.url + PATH, content=LARGE, headers=headers)
        return answer.status_code, answer.text


def by_curl(service, headers):
    lines = [part for name, value in {**headers, "expect": ""}.items() for part in ("-H", f"{name}: {value}")]
    done = subprocess.run(
        ["curl", "-sS", "--noproxy", "*", "--cacert", service.authority, "-w", "\n%{http_code}", "--data-binary", "@-",
         *lines, service.url + PATH], input=LARGE, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text, _, status = done.stdout.decode().rpartition("\n")
    return int(status), text


CLIENTS = [by_http_client, by_httpx, by_curl]
CASES = {"too large": (413, "is larger than 1,048,576 bytes"), "no token": (401, "Unauthorized")}


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_sends_a_large_body_gets_the_response(service, client, case, closes):
    headers = {"connection": "close"} if closes else {}
    if case == "too large":
        headers["authorization"] = f"Bearer {service.token}"
    status, message = CASES[case]
    answer = client(service, headers)
    assert answer[0] == status
    assert message in answer[1]


@pytest.mark.parametrize("closes", [False, True])
def test_pipemagic_shows_the_message_of_the_service(service, closes):
    headers = {"connection": "close"} if closes else {}
    with (
        httpx.Client(verify=service.verify, headers=headers, trust_env=False) as client,
        pipemagic.connect(service.url, service.token, http=client) as database,
    ):
        with pytest.raises(pipemagic.PipemagicError, match="larger than 1,048,576 bytes"):
            database.execute("SELECT length(?)", ["x" * 30_000_000])
        assert database.execute("SELECT 1").rows == [(1,)]


@pytest.mark.parametrize("service", ["http"], indirect=True)
def test_pipemagic_over_its_own_connections(service):
    with pipemagic.connect(service.url, service.token) as database:
        with pytest.raises(pipemagic.PipemagicError, match="larger than 1,048,576 bytes"):
            database.execute("SELECT length(?)", ["x" * 30_000_000])
        assert database.execute("SELECT 1").rows == [(1,)]


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("process") / "data", "--port", "0") as process:
        yield process


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_discarded_bytes_take_no_memory(process):
    def resident():
        status = Path(f"/proc/{process.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    before = resident()
    head = f"POST {PATH} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 200000000\r\nConnection: close\r\n\r\n"
    with socket.create_connection((HOST, process.port), timeout=60) as connection:
        connection.sendall(head.encode())
        for _ in range(200):
            connection.sendall(b"x" * 1_000_000)
        assert resident() - before < 20_000_000
        with connection.makefile("rb") as stream:
            assert stream.readline().startswith(b"HTTP/1.1 401")
