"""`libsql://` addresses, which mean TLS: a service with a certificate, and the clients that support the scheme."""

from __future__ import annotations

import pytest
from contract_servers import OnPort
from published_clients import result_of


@pytest.fixture(scope="module")
def address(tmp_path_factory, authority):
    """The address of a service with a certificate, and a token for one of its databases."""
    folder = tmp_path_factory.mktemp("with-tls")
    certificate, key = authority.issue(folder)
    server = OnPort(folder / "data", "--ssl-certfile", str(certificate), "--ssl-keyfile", str(key))
    yield server.announced["url"].replace("https://", "libsql://"), server.database().token
    server.close()


@pytest.mark.parametrize("script", ["libsql_client.mjs", "serverless.mjs", "drive_dbapi.py turso_serverless"])
def test_a_client_connects(start, address, script):
    url, token = address
    driver = start(script)
    driver.call("open", url=url, token=token)
    assert result_of(driver.call("execute", sql="SELECT 6 * 7 AS answer", args=None)).rows == [(42,)]
