"""PyPI turso-python: its coroutines and its helpers for rows."""

from __future__ import annotations

import pytest
from published_clients import ClientError

pytestmark = pytest.mark.package("turso-python", "PyPI")


def test_by_coroutines(client):
    assert client.execute("SELECT ? AS a, ? AS b", [5, None], do="by_coroutines").rows == [(5, None)]


def test_its_helpers_for_rows(client):
    client.execute(f"CREATE TABLE {client.table} (id INTEGER PRIMARY KEY, name TEXT)")
    rows = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}]
    assert client.call("created_by_its_helpers", table=client.table, rows=rows) == [["1", "Ada"], ["2", "Bob"]]


def test_its_batch_runs_each_statement_separately(client):
    client.execute(f"CREATE TABLE {client.table} (a UNIQUE)")
    insert = f"INSERT INTO {client.table} VALUES (?)"
    with pytest.raises(ClientError, match="UNIQUE constraint failed"):
        client.batch((insert, [1]), (insert, [1]), (insert, [2]))
    assert client.stored() == [[1], [2]]
