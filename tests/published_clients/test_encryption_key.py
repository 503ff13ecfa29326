"""Published clients with the key of an encrypted database: the server that tests our client demands what they send."""

from __future__ import annotations

import pytest
from encrypted_service import KEY, OTHER_KEY, Encrypted
from published_clients import PUBLISHED, ClientError

PACKAGES = ("@libsql/client", "@tursodatabase/serverless")
WITH_KEYS = [client for client in PUBLISHED if client.package in PACKAGES and not client.tls]


@pytest.mark.parametrize("published", WITH_KEYS, ids=lambda published: published.id)
def test_every_request_has_the_key(published, drivers, encrypted):
    encrypted.hosted.encrypted["127.0.0.1"] = Encrypted(KEY, "aegis256")  # the token names the database
    driver = drivers(published)
    driver.call("open", url=encrypted.hosted.url, token=encrypted.token, key=KEY)
    driver.execute("CREATE TABLE t (a)")
    driver.call("begin")
    driver.execute("INSERT INTO t VALUES (1)")
    driver.call("commit")
    driver.batch("INSERT INTO t VALUES (2)", "SELECT count(*) FROM t")
    with encrypted.behind.database(encrypted.name) as stored:
        assert stored.rows("SELECT sum(a) FROM t") == [("3",)]
    assert encrypted.hosted.without_key == []
    assert encrypted.hosted.keys == {KEY}
    for key in (None, OTHER_KEY):
        driver.call("open", url=encrypted.hosted.url, token=encrypted.token, key=key)
        with pytest.raises(ClientError, match=r"encrypted|Decryption|400"):
            driver.execute("SELECT 1")
