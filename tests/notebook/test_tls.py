"""A server whose certificate is of a company's own authority: cells, the management API and the command line."""

import pytest
from magic_shell import make_database
from tls_terminator import TlsAuthority

from pipemagic import cli

HINT = (
    "if you trust the server, set SSL_CERT_FILE or REQUESTS_CA_BUNDLE to the PEM file of its certificate authority; "
    "now the authorities of the system and of certifi are trusted"
)


@pytest.fixture
def authority(tmp_path, monkeypatch):
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    return TlsAuthority(tmp_path)


@pytest.fixture
def front(service, authority):
    """The service behind TLS."""
    terminator = authority.terminator(service.url)
    yield terminator.url
    terminator.close()


def test_a_company_authority(shell, service, front, authority, request, monkeypatch, capsys):
    _, token = make_database(service, request.node.nodeid)
    monkeypatch.setenv("DB_TOKEN", token)
    monkeypatch.setenv("API_TOKEN", service.platform_token())
    connect = f"%pipedb connect {front} --as company --token-env DB_TOKEN"
    cell = shell.fails(connect)
    assert cell.error.code == "CONNECT"
    assert cell.error.hint == HINT
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.file))
    shell(connect)
    assert shell("%sql SELECT 1 AS one").value.one.tolist() == [1]
    shell(f"%pipedb organization {service.organization} --at {front} --token-env API_TOKEN")
    assert "default" in set(shell("%pipedb groups").value.group)
    monkeypatch.setenv("PIPEMAGIC_API_URL", front)
    monkeypatch.setenv("PIPEMAGIC_API_TOKEN", service.platform_token())
    assert cli.main(["group", "list"]) == 0
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    assert cli.main(["group", "list"]) == 1
    shown = capsys.readouterr()
    assert "default" in shown.out
    assert HINT in shown.err
