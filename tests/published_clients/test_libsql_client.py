"""npm @libsql/client: features that other clients lack."""

from __future__ import annotations

import pytest
from published_clients import ClientError, result_of

pytestmark = pytest.mark.package("@libsql/client", "npm")


def test_it_uses_http(client):
    assert client.call("protocol") == "http"


def test_declared_types(client):
    client.execute(f"CREATE TABLE {client.table} (a INTEGER, b VARCHAR(10), c)")
    assert client.execute(f"SELECT a, b, c, a + 1 FROM {client.table}").types == ["INTEGER", "VARCHAR(10)", "", ""]


def test_a_script(client):
    client.call("script", sql=f"CREATE TABLE {client.table} (a); INSERT INTO {client.table} VALUES (1); -- the end")
    assert client.stored() == [[1]]


def test_a_script_stops_at_its_first_error(client):
    with pytest.raises(ClientError, match="no such table: nowhere"):
        client.call(
            "script",
            sql=f"CREATE TABLE {client.table} (a); INSERT INTO nowhere VALUES (1); "
            f"INSERT INTO {client.table} VALUES (1)",
        )
    assert client.stored() == []


def test_a_batch_that_reads(client):
    client.execute(f"CREATE TABLE {client.table} (a)")
    first, second = client.batch(f"SELECT count(*) FROM {client.table}", "SELECT 6 * 7 AS answer", mode="read")
    assert (first.rows, second.rows) == ([(0,)], [(42,)])


def test_a_transaction_that_reads(client):
    found = result_of(client.call("readOnlyTransaction", sql="SELECT 6 * 7 AS answer"))
    assert (found.columns, found.rows) == (["answer"], [(42,)])


def test_a_batch_of_a_thousand_different_texts(client):
    client.execute(f"CREATE TABLE {client.table} (a)")
    client.batch(*(f"INSERT INTO {client.table} VALUES ({number})" for number in range(1000)))
    assert client.stored("count(*), sum(a)") == [[1000, 499_500]]


def test_a_migration_runs_without_foreign_keys(client):
    client.execute(f"CREATE TABLE {client.table} (id INTEGER PRIMARY KEY)")
    child = f"{client.table}_child"
    client.call(
        "migrate",
        statements=[
            [f"CREATE TABLE {child} (parent REFERENCES {client.table} (id))", None],
            [f"INSERT INTO {child} VALUES (1)", None],
        ],
    )
    assert client.target.rows(f"SELECT parent FROM {child}") == [[1]]
    with pytest.raises(ClientError, match="FOREIGN KEY constraint failed"):
        client.execute(f"INSERT INTO {child} VALUES (2)")


def test_many_calls_at_once(client):
    found = client.call("together", sql="SELECT 6 * 7 AS answer", times=100)
    assert [result_of(result).rows for result in found] == [[(42,)]] * 100
