"""PyPI turso-serverless: behaviour of sqlite3 that it provides over HTTP."""

from __future__ import annotations

import pytest
from published_clients import ClientError

pytestmark = pytest.mark.package("turso-serverless", "PyPI")


def test_a_script(client):
    client.call("script", sql=f"CREATE TABLE {client.table} (a); INSERT INTO {client.table} VALUES (1), (2);")
    assert client.stored() == [[1], [2]]


def test_many_rows_one_after_the_other(client):
    client.execute(f"CREATE TABLE {client.table} (a, b)")
    rows = [[{"int": str(n)}, f"row {n}"] for n in range(50)]
    assert client.call("many", sql=f"INSERT INTO {client.table} VALUES (?, ?)", rows=rows) == 50
    assert client.stored("count(*), min(b), sum(a)") == [[50, "row 0", 1225]]


def test_a_write_begins_a_transaction_that_commit_ends(client):
    client.execute(f"CREATE TABLE {client.table} (a)")
    client.open(client.target.database.token, isolation="DEFERRED")
    client.execute(f"INSERT INTO {client.table} VALUES (1)")
    assert client.call("in_transaction") is True
    assert client.stored() == []
    client.call("commit")
    assert client.call("in_transaction") is False
    assert client.stored() == [[1]]


def test_closing_rolls_back(client):
    client.execute(f"CREATE TABLE {client.table} (a)")
    client.open(client.target.database.token, isolation="IMMEDIATE")
    client.execute(f"INSERT INTO {client.table} VALUES (1)")
    client.open(client.target.database.token)  # closes the previous connection
    assert client.stored() == []
    client.execute(f"INSERT INTO {client.table} VALUES (2)")  # and the write lock is free
    assert client.stored() == [[2]]


def test_a_violated_constraint_has_its_own_exception(client):
    client.execute(f"CREATE TABLE {client.table} (a UNIQUE)")
    client.execute(f"INSERT INTO {client.table} VALUES (1)")
    with pytest.raises(ClientError) as caught:
        client.execute(f"INSERT INTO {client.table} VALUES (1)")
    assert caught.value.kind == "IntegrityError"
