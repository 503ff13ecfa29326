"""A baton is valid only with the rights of the token that opened its stream."""

from __future__ import annotations

import json

import pytest
from served import Database


@pytest.fixture
def clients(scene):
    """Clients with tokens of the same account for one database: full access, read-only."""
    made = [
        Database(scene.service.url, scene.mallory.issue("work", authorization=kind))
        for kind in ("full-access", "read-only")
    ]
    made[0].run("CREATE TABLE IF NOT EXISTS t(a)", "DELETE FROM t")
    yield made
    for one in made:
        one.http.close()


def is_invalid(answer) -> bool:
    return answer.status_code == 400 and "baton" in answer.text.lower()


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK", "SELECT * FROM t", "INSERT INTO t VALUES (2)"])
def test_a_read_only_token_cannot_continue_a_transaction_of_full_access(clients, statement):
    full, read_only = clients
    baton = full.run("BEGIN", "INSERT INTO t VALUES (1)", close=False)["baton"]
    answer = read_only.post(statement, baton=baton)
    assert is_invalid(answer), answer.text
    # The stream and its baton are unchanged.
    assert full.run("SELECT a FROM t", "ROLLBACK", baton=baton)["results"][0]["type"] == "ok"
    assert full.rows("SELECT count(*) FROM t") == [("0",)]


def test_a_read_only_token_cannot_continue_it_with_a_cursor(clients):
    full, read_only = clients
    baton = full.run("BEGIN", "INSERT INTO t VALUES (1)", close=False)["baton"]
    body = json.dumps({"baton": baton, "batch": {"steps": [{"stmt": {"sql": "COMMIT"}}]}})
    assert is_invalid(read_only.http.post("/v3/cursor", content=body))
    full.run("ROLLBACK", baton=baton)
    assert full.rows("SELECT count(*) FROM t") == [("0",)]


def test_a_full_token_cannot_continue_a_stream_of_a_read_only_one(clients):
    full, read_only = clients
    baton = read_only.run("BEGIN", "SELECT * FROM t", close=False)["baton"]
    answer = full.post("INSERT INTO t VALUES (1)", "COMMIT", baton=baton)
    assert is_invalid(answer), answer.text
    read_only.run("SELECT * FROM t", "COMMIT", baton=baton)
    assert full.rows("SELECT count(*) FROM t") == [("0",)]


def test_another_token_of_the_same_rights_continues_a_stream(scene, clients):
    full, _ = clients
    baton = full.run("BEGIN", "INSERT INTO t VALUES (1)", close=False)["baton"]
    fresh = Database(scene.service.url, scene.mallory.issue("work", expiration="1d"))
    fresh.run("COMMIT", baton=baton)
    fresh.http.close()
    assert full.rows("SELECT count(*) FROM t") == [("1",)]
