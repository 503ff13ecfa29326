"""Both addresses of ``localhost``: a program that uses this name reaches the service, or is told that it does not."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from waiting import until

import pipemagic
from pipemagic import launcher
from pipemagic.service import http_server, listeners
from pipemagic.service.files import LOG_FILE, RUNTIME_FILE
from pipemagic.service.hosting import Hosting

WAIT = 15.0
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(pipemagic.__file__).parents[1])}


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no [::1]")


def listening(host, port=0):
    """Another process's socket."""
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def port_of(sock):
    return sock.getsockname()[1]


# -- sockets


@ipv6
def test_a_service_listens_at_both_addresses_with_one_port(tmp_path):
    with closing(listeners.listen_locally(tmp_path / "port", None)) as bound:
        assert [sock.getsockname()[:2] for sock in bound.sockets] == [("127.0.0.1", bound.port), ("::1", bound.port)]
        assert bound.taken == ""
        port = bound.port
        assert (tmp_path / "port").read_text() == str(port)
    with closing(listeners.listen_locally(tmp_path / "port", None)) as again:
        assert again.port == port


@ipv6
def test_a_port_that_another_process_has_at_one_of_them_is_not_chosen(tmp_path):
    for host in ("::1", "127.0.0.1"):
        with listening(host) as other:
            (tmp_path / "port").write_text(str(port_of(other)))
            with closing(listeners.listen_locally(tmp_path / "port", None)) as bound:
                assert bound.port != port_of(other)
                assert (len(bound.sockets), bound.taken) == (2, "")


@ipv6
def test_any_port_is_free_at_both(tmp_path, monkeypatch):
    with listening("::1") as other:
        ports, bind = iter([port_of(other), port_of(other)]), listeners._bind
        monkeypatch.setattr(listeners, "_bind", lambda host, port: bind(host, port or next(ports, 0)))
        with closing(listeners.listen_locally(tmp_path / "port", 0)) as bound:
            assert bound.port != port_of(other)
            assert (len(bound.sockets), bound.taken) == (2, "")


@ipv6
@pytest.mark.parametrize(("host", "taken"), [("127.0.0.1", "::1"), ("0.0.0.0", "::1"), ("::1", "127.0.0.1")])
def test_a_port_that_was_named_is_used_at_the_other_address(host, taken):
    with listening(taken) as other, closing(listeners.listen_for_localhost(host, port_of(other))) as bound:
        assert [sock.getsockname()[:2] for sock in bound.sockets] == [(host, port_of(other))]
        assert bound.taken == taken


@pytest.mark.parametrize("code", [errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT])
def test_a_machine_without_ipv6(tmp_path, monkeypatch, code):
    """Nobody else can listen there, either."""
    bind = listeners._bind

    def without_ipv6(host, port):
        if ":" in host:
            raise OSError(code, os.strerror(code))
        return bind(host, port)

    monkeypatch.setattr(listeners, "_bind", without_ipv6)
    with closing(listeners.listen_locally(tmp_path / "port", None)) as bound:
        assert (len(bound.sockets), bound.taken) == (1, "")
        port = bound.port
    with closing(listeners.listen_locally(tmp_path / "port", port)) as bound:
        assert (len(bound.sockets), bound.taken, bound.port) == (1, "", port)


@pytest.mark.parametrize("host", ["::", "192.0.2.1"])
def test_other_addresses_have_no_second_one(monkeypatch, host):
    monkeypatch.setattr(listeners, "_bind", lambda host, _port: host)
    assert listeners.listen_for_localhost(host, 1) == ([host], "")


def test_the_address_of_a_service_at_the_ipv6_loopback():
    """It is not that of 127.0.0.1, where another process may listen."""
    assert Hosting("::1").url(8080) == "http://[::1]:8080"


@pytest.mark.parametrize(
    ("proxies", "both"),
    [(["127.0.0.1"], True), (["10.0.0.0/8", "127.0.0.0/8"], True), (["10.0.0.0/8"], False), (["::1"], False),
     (["unix:/x"], False)],
)  # fmt: skip
def test_a_trusted_proxy_on_this_machine_may_use_either_address(proxies, both):
    """Nginx connects to localhost at [::1], too."""
    assert http_server._trusted(proxies) == [*proxies, *(["::1"] if both else [])]


# -- processes


@contextmanager
def serving(folder, *options, command=("serve",)):
    """Run ``pipemagic serve``, or another command; return the process and its first line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pipemagic", *command, "--data", folder, *options],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=WAIT)


def ending(process):
    """End the service and return what it wrote to standard error."""
    process.terminate()
    return process.communicate(timeout=WAIT)[1]


@ipv6
def test_a_service_responds_at_both_addresses_and_counts_both(tmp_path):
    options = ["--port", "0", "--max-connections", "2", "--access-log"]
    with serving(tmp_path / "data", *options) as (process, line):
        port = line["url"].rpartition(":")[2]
        assert line == {"url": f"http://127.0.0.1:{port}", "organization": "local", "pid": process.pid}
        for host in ("127.0.0.1", "[::1]", "localhost"):
            assert httpx.get(f"http://{host}:{port}/version", timeout=WAIT).status_code == 200
        assert {process.stdout.readline().split()[1] for _ in range(3)} == {"127.0.0.1", "::1"}
        proof = f"/pipemagic/proof?nonce={'0' * 64}"
        assert httpx.get(f"http://127.0.0.1:{port}{proof}", timeout=WAIT).status_code == 200
        assert httpx.get(f"http://[::1]:{port}{proof}", timeout=WAIT).status_code == 404  # not the launcher
        busy = b"POST /v1/auth/login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"  # its body is missing
        with (
            socket.create_connection(("::1", int(port))) as first,
            socket.create_connection(("127.0.0.1", int(port))) as second,
        ):
            for connection in (first, second):
                connection.sendall(busy)
            until(lambda: httpx.get(f"http://127.0.0.1:{port}/version").status_code == 503)
        assert ending(process) == ""


@ipv6
@pytest.mark.parametrize("command", [["serve"], ["class", "serve"]], ids=" ".join)
def test_it_says_that_another_process_has_the_other_address(tmp_path, command):
    folder = tmp_path / "data"
    with (
        listening("::1") as other,
        serving(folder, "--port", str(port_of(other)), command=command) as (process, line),
    ):
        port = port_of(other)
        assert line == {"url": f"http://127.0.0.1:{port}", "organization": "local", "pid": process.pid}
        assert httpx.get(f"{line['url']}/version", timeout=WAIT).status_code == 200
        warning = (
            f"another process listens at [::1]:{port}: other programs that use http://localhost:{port} reach it; "
            f"use http://127.0.0.1:{port}"
        )
        assert "warning" not in json.loads((folder / RUNTIME_FILE).read_text())
        assert warning in (folder / LOG_FILE).read_text()
        assert f"Warning: {warning}\n" in ending(process)


@ipv6
def test_a_shared_service_has_both_addresses_too(tmp_path):
    """The other machines have its name; programs of this one may use localhost."""
    options = ["--host", "0.0.0.0", "--domain", "db.example.test", "--insecure-http", "--port", "0"]
    with serving(tmp_path / "data", *options) as (process, line):
        ports = [line[key].rpartition(":")[2] for key in ("url", "local_url")]
        assert len(set(ports)) == 2
        for port in ports:
            for host in ("127.0.0.1", "[::1]"):
                assert httpx.get(f"http://{host}:{port}/version", timeout=WAIT).status_code == 200
        assert launcher.find(tmp_path / "data").url == line["local_url"]
        assert ending(process) == ""
