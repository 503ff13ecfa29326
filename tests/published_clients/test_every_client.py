"""Features of all published clients, with each of them."""

from __future__ import annotations

import re

import pytest
from published_clients import ClientError

BIG = 2**63 - 1
ROWS = 10_050


def test_every_type_is_returned_unchanged(client):
    client.execute(f"CREATE TABLE {client.table} (a INTEGER, b REAL, c TEXT, d BLOB, e)")
    client.execute(f"INSERT INTO {client.table} VALUES ({BIG}, 1.5, 'žluť 🐍', x'00ff10', NULL)")
    found = client.execute(f"SELECT a, b, c, d, e, typeof(e) AS kind FROM {client.table}")
    assert found.columns == ["a", "b", "c", "d", "e", "kind"]
    assert found.rows == [(BIG, 1.5, "žluť 🐍", b"\x00\xff\x10", None, "null")]


def test_text_and_integers_and_null_as_parameters(client):
    client.execute(f"CREATE TABLE {client.table} (a, b, c)")
    client.execute(f"INSERT INTO {client.table} VALUES (?, ?, ?)", [-42, 'it\'s "quoted"; 🐍', None])
    assert client.stored("a, typeof(a), b, c") == [[-42, "integer", 'it\'s "quoted"; 🐍', None]]
    found = client.execute(f"SELECT b FROM {client.table} WHERE a = ?", [-42])
    assert found.rows == [('it\'s "quoted"; 🐍',)]


@pytest.mark.offers("floats", "blobs")
def test_floats_and_blobs_as_parameters(client):
    client.execute(f"CREATE TABLE {client.table} (a, b, c)")
    client.execute(f"INSERT INTO {client.table} VALUES (?, ?, ?)", [2.25, b"\x00\x01\xfe\xff", b""])
    assert client.stored("a, typeof(a), hex(b), typeof(c), length(c)") == [[2.25, "real", "0001FEFF", "blob", 0]]
    assert client.execute(f"SELECT a, b, c FROM {client.table}").rows == [(2.25, b"\x00\x01\xfe\xff", b"")]


@pytest.mark.offers("named")
def test_named_parameters(client):
    client.execute(f"CREATE TABLE {client.table} (a, b)")
    client.execute(f"INSERT INTO {client.table} VALUES (:first, :second)", {"first": 1, "second": "two"})
    assert client.stored() == [[1, "two"]]
    assert client.execute(f"SELECT b FROM {client.table} WHERE a = :wanted", {"wanted": 1}).rows == [("two",)]


@pytest.mark.offers("changes")
def test_rows_affected(client):
    client.execute(f"CREATE TABLE {client.table} (a)")
    assert client.execute(f"INSERT INTO {client.table} VALUES (1), (2), (3)").changes == 3
    assert client.execute(f"DELETE FROM {client.table} WHERE a > 1").changes == 2


@pytest.mark.offers("rowid")
def test_the_last_rowid(client):
    client.execute(f"CREATE TABLE {client.table} (id INTEGER PRIMARY KEY, a)")
    assert client.execute(f"INSERT INTO {client.table} (id, a) VALUES (41, 'x')").rowid == "41"
    assert client.execute(f"INSERT INTO {client.table} (a) VALUES ('y')").rowid == "42"


def test_a_missing_table_is_named(client):
    with pytest.raises(ClientError, match="no such table: nowhere"):
        client.execute("SELECT * FROM nowhere")
    assert client.execute("SELECT 1 AS one").rows == [(1,)]  # the client can continue


def test_a_syntax_error_is_reported(client):
    with pytest.raises(ClientError, match="syntax error"):
        client.execute("SELEC 1")
    assert client.execute("SELECT 1 AS one").rows == [(1,)]


def test_a_violated_constraint_is_reported_with_its_column(client):
    client.execute(f"CREATE TABLE {client.table} (a UNIQUE)")
    client.execute(f"INSERT INTO {client.table} VALUES (1)")
    with pytest.raises(ClientError, match=f"UNIQUE constraint failed: {client.table}.a"):
        client.execute(f"INSERT INTO {client.table} VALUES (1)")
    assert client.stored() == [[1]]


@pytest.mark.offers("codes")
def test_the_code_of_an_error(client):
    client.execute(f"CREATE TABLE {client.table} (a NOT NULL)")
    with pytest.raises(ClientError, match="NOT NULL constraint failed") as caught:
        client.execute(f"INSERT INTO {client.table} VALUES (NULL)")
    assert caught.value.code == "SQLITE_CONSTRAINT"


@pytest.mark.offers("transactions")
def test_a_transaction_over_several_requests_is_visible_after_its_commit(client):
    client.execute(f"CREATE TABLE {client.table} (a)")
    client.call("begin")
    client.execute(f"INSERT INTO {client.table} VALUES (1)")
    assert client.execute(f"SELECT count(*) FROM {client.table}").rows == [(1,)]
    assert client.stored() == []
    client.execute(f"INSERT INTO {client.table} VALUES (2)")
    client.call("commit")
    assert client.stored() == [[1], [2]]


@pytest.mark.offers("transactions")
def test_a_transaction_is_rolled_back(client):
    client.execute(f"CREATE TABLE {client.table} (a)")
    client.call("begin")
    client.execute(f"INSERT INTO {client.table} VALUES (1)")
    client.call("rollback")
    assert client.stored() == []
    assert client.execute(f"SELECT count(*) FROM {client.table}").rows == [(0,)]


@pytest.mark.offers("transactions")
def test_an_error_leaves_a_transaction_open(client):
    client.execute(f"CREATE TABLE {client.table} (a UNIQUE)")
    client.call("begin")
    client.execute(f"INSERT INTO {client.table} VALUES (1)")
    with pytest.raises(ClientError, match="UNIQUE constraint failed"):
        client.execute(f"INSERT INTO {client.table} VALUES (1)")
    client.execute(f"INSERT INTO {client.table} VALUES (2)")
    client.call("commit")
    assert client.stored() == [[1], [2]]


@pytest.mark.offers("batch")
def test_a_batch(client):
    first, second, third = client.batch(
        f"CREATE TABLE {client.table} (a, b)",
        (f"INSERT INTO {client.table} VALUES (?, ?), (3, 4)", [1, "two"]),
        f"SELECT * FROM {client.table}",
    )
    assert (first.rows, second.changes) == ([], 2)
    assert third.rows == [(1, "two"), (3, 4)]


@pytest.mark.offers("batch")
def test_a_batch_that_fails_changes_nothing(client):
    client.execute(f"CREATE TABLE {client.table} (a UNIQUE)")
    insert = f"INSERT INTO {client.table} VALUES (?)"
    with pytest.raises(ClientError, match="UNIQUE constraint failed"):
        client.batch((insert, [1]), (insert, [2]), (insert, [1]), (insert, [3]))
    assert client.stored() == []
    client.execute(insert, [4])
    assert client.stored() == [[4]]


def test_more_than_ten_thousand_rows(client):
    client.execute(f"CREATE TABLE {client.table} (n INTEGER, square INTEGER, label TEXT)")
    client.execute(
        f"INSERT INTO {client.table} WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {ROWS}) "
        "SELECT n, n * n, 'row ' || n FROM c"
    )
    rows = client.execute(f"SELECT n, square, label FROM {client.table} ORDER BY n").rows
    assert rows == [(n, n * n, f"row {n}") for n in range(1, ROWS + 1)]


def test_a_wrong_token_is_refused(client):
    client.open(client.target.database.token[:-8] + "AAAAAAAA")
    with pytest.raises(ClientError) as caught:
        client.execute("SELECT 1")
    assert re.search("401|Unauthorized|JWT|token", caught.value.message)


def test_a_read_only_token_reads_and_does_not_write(client):
    client.execute(f"CREATE TABLE {client.table} (a)")
    client.execute(f"INSERT INTO {client.table} VALUES (7)")
    client.open(client.target.database.mint(a="ro"))
    assert client.execute(f"SELECT a FROM {client.table}").rows == [(7,)]
    with pytest.raises(ClientError, match=r"(?i)403|forbidden|read-only|write"):
        client.execute(f"INSERT INTO {client.table} VALUES (8)")
    assert client.stored() == [[7]]


def test_the_token_names_the_database(client, served):
    client.execute(f"CREATE TABLE {client.table} (a)")
    client.open(served.database().token)
    with pytest.raises(ClientError, match=f"no such table: {client.table}"):
        client.execute(f"SELECT * FROM {client.table}")
