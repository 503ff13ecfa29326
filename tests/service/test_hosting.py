"""The addresses of a service: refused settings, and a shared service with TLS."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import trustme

import pipemagic
from pipemagic import launcher
from pipemagic.errors import ServiceError
from pipemagic.service.hosting import Hosting
from pipemagic.service.listeners import Certificate, listen

WAIT = 15.0
DOMAIN = "hub.example.test"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(pipemagic.__file__).parents[1])}

posix = pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")


# -- refused settings


@pytest.mark.parametrize(("options", "message"), [
    ({"host": "0.0.0.0"}, "accepts connections from other machines"),
    ({"host": "0.0.0.0", "insecure_http": True}, "accepts connections from other machines"),
    ({"host": "192.0.2.1", "domain": DOMAIN}, "without TLS"),
    ({"host": "::", "domain": DOMAIN}, "without TLS"),
    ({"host": "hub.example.test"}, "is not an IP address"),
    ({"domain": "192.0.2.1"}, "is not a domain name"),
    ({"domain": "Hub.Example"}, "is not a domain name"),
    ({"domain": "a..b"}, "is not a domain name"),
    ({"domain": "-a.b"}, "is not a domain name"),
    ({"domain": "x." * 100 + "y"}, "is not a domain name"),
    ({"keyfile": Path("key.pem")}, "requires --ssl-certfile"),
])  # fmt: skip
def test_invalid_or_unsafe_settings_are_refused(options, message):
    with pytest.raises(ServiceError, match=message) as caught:
        Hosting(**options)
    assert caught.value.hint


@pytest.mark.parametrize(("options", "url"), [
    ({}, "http://127.0.0.1:8080"),
    ({"domain": DOMAIN}, f"http://{DOMAIN}:8080"),
    ({"host": "::1", "certfile": Path("c"), "domain": DOMAIN}, f"https://{DOMAIN}:8080"),
    ({"host": "0.0.0.0", "insecure_http": True, "domain": DOMAIN}, f"http://{DOMAIN}:8080"),
])  # fmt: skip
def test_the_address_for_others(options, url):
    assert Hosting(**options).url(8080) == url


def test_the_default_port_is_not_part_of_the_address():
    assert Hosting(domain=DOMAIN, certfile=Path("c")).url(443) == f"https://{DOMAIN}"
    assert Hosting(domain=DOMAIN).url(80) == f"http://{DOMAIN}"


def test_all_addresses_of_ipv6_include_those_of_ipv4():
    with listen("::", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), timeout=WAIT).close()


# -- certificates


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


def issue(authority, folder, *names):
    certificate = authority.issue_cert(*names)
    certfile, keyfile = folder / "cert.pem", folder / "key.pem"
    certificate.private_key_pem.write_to_path(keyfile)
    certfile.write_bytes(b"".join(part.bytes() for part in certificate.cert_chain_pems))
    return certfile, keyfile


@pytest.mark.parametrize(("names", "uncovered"), [
    ([DOMAIN, f"*.{DOMAIN}"], []),
    (["*.example.test", f"*.{DOMAIN}"], []),
    ([DOMAIN], [f"*.{DOMAIN}"]),
    (["other.example"], [DOMAIN, f"*.{DOMAIN}"]),
])  # fmt: skip
def test_a_certificate_must_cover_the_databases(authority, tmp_path, names, uncovered):
    assert Certificate(*issue(authority, tmp_path, *names)).uncovered(DOMAIN) == uncovered


def test_the_key_of_another_certificate_is_refused(authority, tmp_path):
    certfile, _ = issue(authority, tmp_path, DOMAIN)
    (tmp_path / "other").mkdir()
    _, keyfile = issue(authority, tmp_path / "other", DOMAIN)
    with pytest.raises(ServiceError, match="does not match the certificate"):
        Certificate(certfile, keyfile)


def test_missing_and_invalid_certificate_files_are_refused(tmp_path):
    with pytest.raises(ServiceError, match=r"cannot read .*No such file"):
        Certificate(tmp_path / "nothing.pem", None)
    (tmp_path / "text.pem").write_text("no certificate")
    with pytest.raises(ServiceError, match="cannot read a certificate and an unencrypted key"):
        Certificate(tmp_path / "text.pem", None)


def test_an_encrypted_key_is_refused_without_a_prompt(authority, tmp_path):
    from cryptography.hazmat.primitives import serialization

    certfile, keyfile = issue(authority, tmp_path, DOMAIN)
    key = serialization.load_pem_private_key(keyfile.read_bytes(), password=None)
    keyfile.write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    ))  # fmt: skip
    with pytest.raises(ServiceError, match="unencrypted"):
        Certificate(certfile, keyfile)


# -- a shared service


class Shared:
    """A running shared service, and a client that resolves its names."""

    def __init__(self, folder, line, authority):
        self.folder, self.line = folder, line
        self.port = int(line["url"].rpartition(":")[2])
        self.context = ssl.create_default_context()
        authority.configure_trust(self.context)
        self.platform = {"Authorization": f"Bearer {(folder / 'platform-token').read_text().strip()}"}

    def call(self, method, path, host=DOMAIN, scheme="https", **options):
        """Send a request as a client that gets the service's address from DNS."""
        name = host.lower().rstrip(".")
        with httpx.Client(verify=self.context, timeout=WAIT, trust_env=False) as client:
            request = client.build_request(
                method, f"{scheme}://127.0.0.1:{self.port}{path}", extensions={"sni_hostname": name},
                headers={"Host": f"{host}:{self.port}", **options.pop("headers", {})}, **options,
            )  # fmt: skip
            return client.send(request)

    def database(self):
        """Create a database from another machine; return its token and its record in the API."""
        org = "/v1/organizations/local"
        self.call("POST", f"{org}/groups", json={"name": "edge", "location": "ams"}, headers=self.platform)
        self.call("POST", f"{org}/databases", json={"name": "db", "group": "edge"}, headers=self.platform)
        made = self.call("GET", f"{org}/databases/db", headers=self.platform)
        jwt = self.call("POST", f"{org}/databases/db/auth/tokens", headers=self.platform).json()["jwt"]
        return {"Authorization": f"Bearer {jwt}"}, made.json()["database"]


@contextmanager
def serving(folder, *options):
    """Run ``pipemagic serve``; return the process and its first line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pipemagic", "serve", "--data", folder, *options],
        env=ENVIRONMENT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=WAIT)


@contextmanager
def shared(folder, authority, *options):
    folder.mkdir()
    certfile, keyfile = issue(authority, folder, DOMAIN, f"*.{DOMAIN}")
    tls = ["--ssl-certfile", certfile, "--ssl-keyfile", keyfile]
    with serving(folder / "data", "--host", "0.0.0.0", "--domain", DOMAIN, "--port", "0", *tls, *options) as (_, line):
        yield Shared(folder / "data", line, authority)


def select(number):
    return {"requests": [{"type": "execute", "stmt": {"sql": f"SELECT {number}"}}, {"type": "close"}]}


@pytest.fixture(scope="module")
def hub(authority, tmp_path_factory):
    with shared(tmp_path_factory.mktemp("hub") / "hub", authority) as hub:
        yield hub


def test_a_shared_service_prints_its_public_address_and_that_of_this_machine(hub):
    assert hub.line["url"] == f"https://{DOMAIN}:{hub.port}"
    assert hub.line["local_url"].startswith("http://127.0.0.1:")
    about = json.loads((hub.folder / "service.json").read_text())
    assert (about["url"], about["public_url"]) == (hub.line["local_url"], hub.line["url"])


def test_a_database_of_a_shared_service_is_below_its_domain(hub):
    token, made = hub.database()
    assert made["Hostname"] == f"db-local.{DOMAIN}"
    for host in (made["Hostname"], DOMAIN, made["Hostname"].upper(), made["Hostname"] + "."):
        answer = hub.call("POST", "/v2/pipeline", host, json=select(7), headers=token)
        assert answer.json()["results"][0]["response"]["result"]["rows"] == [[{"type": "integer", "value": "7"}]]
    assert hub.call("GET", "/v1/organizations", made["Hostname"], headers=hub.platform).status_code == 404


@pytest.mark.parametrize("host", [
    "evil.example", f"{DOMAIN}.evil.example", f"evil{DOMAIN}", "example.test", "192.0.2.1", "localhost.evil.example",
])  # fmt: skip
def test_any_other_host_is_refused(hub, host):
    """A page of another site whose name resolves to this address must not get a response."""
    for path in ("/v1/locations", "/version", "/metrics", "/pipemagic/lease"):
        assert hub.call("GET", path, DOMAIN, headers={**hub.platform, "Host": host}).status_code == 421


def test_the_public_port_does_not_respond_without_tls(hub):
    with pytest.raises(httpx.RemoteProtocolError):
        hub.call("GET", "/version", scheme="http")


def test_programs_of_the_machine_find_a_shared_service_and_need_no_certificate(hub):
    found = launcher.find(hub.folder)
    assert (found.url, found.public_url) == (hub.line["local_url"], hub.line["url"])
    with launcher.ensure(hub.folder) as lease:
        assert lease.alive
        assert lease.service.url == hub.line["local_url"]


def test_other_machines_get_no_proof(hub):
    path = f"/pipemagic/proof?nonce={'0' * 64}"
    assert hub.call("GET", path).status_code == 404
    assert hub.call("GET", path, headers={"Host": "127.0.0.1"}).status_code == 404
    assert httpx.get(hub.line["local_url"] + path, timeout=WAIT).status_code == 200


@posix
def test_a_renewed_certificate_is_loaded_on_a_signal(authority, tmp_path):
    def serial(port):
        context = ssl.create_default_context()
        authority.configure_trust(context)
        raw = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
        with context.wrap_socket(raw, server_hostname=DOMAIN) as wrapped:
            return wrapped.getpeercert()["serialNumber"]

    with shared(tmp_path / "hub", authority) as hub:
        before = serial(hub.port)
        issue(authority, tmp_path / "hub", DOMAIN)
        os.kill(hub.line["pid"], signal.SIGUSR1)
        end = time.monotonic() + WAIT
        while serial(hub.port) == before:
            assert time.monotonic() < end
        renewed, log = serial(hub.port), hub.folder / "service.log"
        other = issue(authority, tmp_path, DOMAIN)[0].read_text()
        for number, content in enumerate(["half a certificate", other], 1):  # the second one is not that of the key
            (tmp_path / "hub" / "cert.pem").write_text(content)
            os.kill(hub.line["pid"], signal.SIGUSR1)
            while log.read_text().count("the previous one stays in use") < number:
                assert time.monotonic() < end
            assert serial(hub.port) == renewed


@posix
def test_the_signal_does_not_end_a_service_without_a_certificate(tmp_path):
    with serving(tmp_path / "data", "--port", "0") as (_, line):
        os.kill(line["pid"], signal.SIGUSR1)
        assert httpx.get(f"{line['url']}/version", timeout=WAIT).status_code == 200


def test_a_certificate_that_does_not_cover_databases_causes_a_warning(authority, tmp_path):
    certfile, keyfile = issue(authority, tmp_path, DOMAIN)
    tls = ["--ssl-certfile", certfile, "--ssl-keyfile", keyfile]
    with serving(tmp_path / "data", "--domain", DOMAIN, "--port", "0", *tls):
        log = (tmp_path / "data" / "service.log").read_text()
    assert f"clients will refuse the certificate for *.{DOMAIN}" in log


def test_a_service_behind_a_proxy_serves_its_domain_on_loopback(tmp_path):
    with serving(tmp_path / "data", "--domain", DOMAIN, "--port", "0") as (_, line):
        assert "local_url" not in line
        port = line["url"].rpartition(":")[2]
        for host in (DOMAIN, f"{DOMAIN}:443", f"127.0.0.1:{port}"):
            answer = httpx.get(f"http://127.0.0.1:{port}/version", headers={"Host": host})
            assert answer.status_code == 200
