"""npm @libsql/hrana-client: descriptions, stored texts and scripts on one stream."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.package("@libsql/hrana-client", "npm")


def test_a_description(client):
    client.execute(f"CREATE TABLE {client.table} (id INTEGER PRIMARY KEY, name TEXT)")
    assert client.call("describe", sql=f"INSERT INTO {client.table} (name) VALUES (@n) RETURNING id") == {
        "parameters": ["@n"],
        "columns": [["id", "INTEGER"]],
        "explain": False,
        "readonly": False,
    }
    assert client.call("describe", sql=f"EXPLAIN SELECT * FROM {client.table}")["explain"] is True


def test_a_stored_text_is_run_again(client):
    assert client.call("stored", sql="SELECT 'once stored'", times=3) == [["once stored"]] * 3


def test_a_script(client):
    client.call("script", sql=f"CREATE TABLE {client.table} (a); INSERT INTO {client.table} VALUES (1), (2)")
    assert client.stored() == [[1], [2]]


def test_a_stream_keeps_its_state_until_it_is_closed(client):
    client.execute(f"CREATE TABLE {client.table} (a)")
    client.call("begin")
    client.execute(f"INSERT INTO {client.table} VALUES (1)")
    client.call("closeStream")
    assert client.execute(f"SELECT count(*) FROM {client.table}").rows == [(0,)]


def test_the_version_that_both_agree_on(client):
    assert client.call("version") == 2
