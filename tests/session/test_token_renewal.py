"""A token that is no longer taken in the middle of the work: another one continues the stream."""

from __future__ import annotations

import httpx
import pytest

from pipemagic.client.database import Database
from pipemagic.errors import AuthError
from pipemagic.hrana.stream import Tx
from pipemagic.session import Connection


@pytest.fixture
def expired(service, make_database):
    """A token of the same database that is over already."""
    make_database()
    record = service.catalog.database("local", "flights")
    return service.tokens.issue_database(record, read_only=False, expires_in=-10.0, subject="ada")


def test_connecting_again_with_a_new_token_keeps_the_open_transaction(timed, make_database, expired):
    timed.run("CREATE TABLE t(a)")
    timed.run("BEGIN; INSERT INTO t VALUES (1)")
    timed.connections["main"].database.renew_token(expired)  # as if its time had come
    with pytest.raises(AuthError, match="connect again: an open transaction stays open"):
        timed.run("INSERT INTO t VALUES (2)")
    assert timed.connection().transaction is Tx.OPEN
    timed.adopt(Connection("main", make_database(), "a test"))
    timed.run("INSERT INTO t VALUES (3); COMMIT")
    assert list(timed.run("SELECT a FROM t")["a"]) == [1, 3]


def test_the_same_database_at_another_address_is_a_connection_of_its_own(timed, transport, make_database, expired):
    timed.run("BEGIN")
    old = timed.connection()
    old.database.renew_token(expired)
    with pytest.raises(AuthError):
        timed.run("SELECT 1")
    token = make_database().transport.token
    elsewhere = Database("http://localhost:8080", token, http=httpx.Client(transport=transport))
    timed.adopt(Connection("main", elsewhere, "a test"))
    assert timed.connection() is not old
    assert timed.connection().transaction is Tx.NONE


def test_a_connection_whose_token_is_taken_is_replaced_as_before(timed, make_database):
    timed.run("BEGIN")
    timed.adopt(Connection("main", make_database(), "a test"))
    assert timed.connection().transaction is Tx.NONE
