"""Which certificate authorities are trusted, and what the error for an untrusted certificate says."""

import datetime
import os
import ssl
import subprocess
import sys
from ipaddress import ip_address
from types import SimpleNamespace

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from raw_server import answering, plain, served

from pipemagic import errors
from pipemagic.client.address import parse_address
from pipemagic.client.transport import Transport
from pipemagic.http import tls

VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
OPENSSL = VARIABLES[:2]  # OpenSSL itself reads these


@pytest.fixture(autouse=True)
def nothing_is_named(monkeypatch):
    """The variables are unset, and no context of another test is used again."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    tls._tls_context.cache_clear()
    yield
    tls._tls_context.cache_clear()


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def pem(authority, tmp_path):
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def server(authority):
    """A server whose certificate is of `authority`, for 127.0.0.1."""
    with tls_server(authority, "127.0.0.1") as server:
        yield server


def tls_server(authority, name, **options):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name, **options).configure_cert(context)
    return served(answering(plain(b"hello")), context)


def get(server):
    with Transport(parse_address(server.url)) as http:
        return bytes(http.get("/").body)


def refused(server):
    with pytest.raises(
        errors.ConnectError, match=r"^the certificate of https://127\.0\.0\.1:\d+ is not trusted"
    ) as caught:
        get(server)
    return caught.value.hint


def hashed(folder, authority):
    """Write a folder of certificates as OpenSSL reads it, and return its path."""
    folder.mkdir()
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    subprocess.run(["openssl", "rehash", str(folder)], check=True)
    return str(folder)


@pytest.fixture
def store(pem):
    """The default file of OpenSSL is that of `authority`: OpenSSL finds variables that `os.environ` lacks."""
    os.putenv("SSL_CERT_FILE", pem)
    yield pem
    for name in OPENSSL:
        os.unsetenv(name)


def test_the_authorities_of_the_system_are_trusted(server, store):
    assert get(server) == b"hello"


def test_those_of_certifi_as_well(server, pem, monkeypatch):
    import certifi

    refused(server)
    tls._tls_context.cache_clear()
    monkeypatch.setattr(certifi, "where", lambda: pem)
    assert get(server) == b"hello"


def test_the_file_of_the_system_is_read_if_openssl_looks_elsewhere(server, pem, monkeypatch, tmp_path):
    nowhere = ssl.get_default_verify_paths()._replace(cafile=None, capath=None)  # as in a portable Python
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nowhere)
    monkeypatch.setattr(tls, "SYSTEM_FILES", (str(tmp_path / "missing.pem"), pem))
    assert get(server) == b"hello"


def test_a_system_without_certificates_does_not_prevent_connections(server, monkeypatch, tmp_path):
    (tmp_path / "empty.pem").touch()
    monkeypatch.setattr(tls, "SYSTEM_FILES", (str(tmp_path / "empty.pem"),))
    assert "SSL_CERT_FILE" in refused(server)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_named_file_is_trusted(server, pem, variable, monkeypatch):
    monkeypatch.setenv(variable, pem)
    assert get(server) == b"hello"


@pytest.mark.parametrize("variable", ["SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"])
def test_a_named_folder_is_trusted(server, authority, variable, monkeypatch, tmp_path):
    monkeypatch.setenv(variable, hashed(tmp_path / "trusted", authority))
    assert get(server) == b"hello"


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_variable_is_enough_whatever_the_others_name(server, pem, variable, monkeypatch, tmp_path):
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    for name in {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"} - {variable}:
        monkeypatch.setenv(name, str(tmp_path / "other.pem"))
    monkeypatch.setenv(variable, pem)
    assert get(server) == b"hello"


def test_only_named_authorities_are_trusted(server, store, monkeypatch, tmp_path):
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "other.pem"))
    refused(server)


def test_an_empty_variable_names_nothing(server, store, monkeypatch):
    monkeypatch.setattr(os, "environ", {**os.environ, "REQUESTS_CA_BUNDLE": "", "SSL_CERT_FILE": ""})
    assert get(server) == b"hello"


def test_a_variable_that_is_set_later_is_used(server, pem, monkeypatch):
    assert refused(server) == (
        "if you trust the server, set SSL_CERT_FILE or REQUESTS_CA_BUNDLE to the PEM file of its certificate "
        "authority; now the authorities of the system and of certifi are trusted"
    )
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", pem)
    assert get(server) == b"hello"


def test_the_error_names_the_variables_that_are_set(server, monkeypatch, tmp_path):
    other = str(tmp_path / "other.pem")
    trustme.CA().cert_pem.write_to_path(other)
    monkeypatch.setenv("SSL_CERT_FILE", other)
    assert refused(server) == (
        "if you trust the server, set REQUESTS_CA_BUNDLE to the PEM file of its certificate authority; "
        f"only the authorities in SSL_CERT_FILE={other} are trusted"
    )
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", other)
    assert refused(server) == (
        "if you trust the server, add its certificate authority to one of these files; "
        f"only the authorities in SSL_CERT_FILE={other} and REQUESTS_CA_BUNDLE={other} are trusted"
    )


@pytest.mark.parametrize("name", ["other.test", "127.0.0.2"])
def test_a_certificate_for_another_host(authority, pem, name, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", pem)
    with tls_server(authority, name) as server:
        assert refused(server) == "check the host: the certificate is for another host"


def test_an_expired_certificate(authority, pem, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", pem)
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    with tls_server(authority, "127.0.0.1", not_after=yesterday) as server:
        assert refused(server) == "check the clock of this machine; if it is right, the server needs a new certificate"


@pytest.mark.parametrize("variable", VARIABLES[::2])
def test_a_named_file_that_cannot_be_read(variable, monkeypatch):
    monkeypatch.setenv(variable, "/nowhere/authority.pem")
    with (
        Transport(parse_address("https://127.0.0.1:1")) as http,
        pytest.raises(
            errors.ConnectError,
            match=r"cannot read the trusted certificates in .*/nowhere/authority.pem: .*No such file",
        ) as caught,
    ):
        http.get("/")
    assert caught.value.hint.startswith(f"check {variable};")


def test_an_authority_as_companies_have_them(monkeypatch, tmp_path):
    """Python 3.13 refuses it by default: its basic constraints are not critical, and it has no key identifiers."""
    authority, context = old_authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", authority)
    with served(answering(plain(b"hello")), context) as server:
        assert get(server) == b"hello"


def test_a_certificate_itself_can_be_named(authority, monkeypatch, tmp_path):
    issued, context = authority.issue_cert("127.0.0.1"), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "certificate.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    with served(answering(plain(b"hello")), context) as server:
        assert get(server) == b"hello"


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_check_certificates_themselves(platform, server, store, monkeypatch):
    monkeypatch.setattr(tls, "sys", SimpleNamespace(platform=platform))
    assert get(server) == b"hello"
    assert type(tls.tls_context()).__module__.startswith("truststore")


def test_truststore_is_not_imported_where_it_is_not_used():
    script = "import sys; from pipemagic.http.tls import tls_context; tls_context(); print('truststore' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "False\n"


def old_authority(folder):
    """Return the file of an authority as of old software, and the context of a server with a certificate of it."""
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("Old CA", "server")]
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in names]
    now = datetime.datetime.now(datetime.UTC)

    def certificate(number, extension):
        return (
            x509.CertificateBuilder(
                issuer_name=names[0], subject_name=names[number], public_key=keys[number].public_key(),
                serial_number=number + 1, not_valid_before=now - datetime.timedelta(days=1),
                not_valid_after=now + datetime.timedelta(days=1),
            ).add_extension(extension, critical=False).sign(keys[0], hashes.SHA256())
        )  # fmt: skip

    authority = certificate(0, x509.BasicConstraints(ca=True, path_length=None))
    leaf = certificate(1, x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]))
    key = keys[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(key + leaf.public_bytes(serialization.Encoding.PEM))
    (folder / "old.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return str(folder / "old.pem"), context
