"""npm @tursodatabase/serverless: rows as they arrive, scripts, and the state of its transaction."""

from __future__ import annotations

import pytest
from published_clients import ClientError

pytestmark = pytest.mark.package("@tursodatabase/serverless", "npm")


def test_rows_are_iterated(client):
    sql = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) SELECT n FROM c"
    assert client.call("iterated", sql=sql) == 20_000


def test_a_script(client):
    client.call("script", sql=f"CREATE TABLE {client.table} (a); INSERT INTO {client.table} VALUES (1), (2);")
    assert client.stored() == [[1], [2]]


def test_it_reports_whether_it_is_in_a_transaction(client):
    client.execute(f"CREATE TABLE {client.table} (a)")
    client.call("begin")
    client.execute(f"INSERT INTO {client.table} VALUES (1)")
    assert client.call("inTransaction") is True
    with pytest.raises(ClientError, match="no such table: nowhere"):
        client.execute("SELECT * FROM nowhere")
    assert client.call("inTransaction") is True
    client.call("rollback")
    assert client.call("inTransaction") is False
