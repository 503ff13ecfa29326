"""`extended_code` of an error: kept from every kind of response to the error that is raised."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from pipemagic.client.database import Database
from pipemagic.errors import LoadError, StatementError
from pipemagic.hrana import messages
from pipemagic.session import Connection, Session
from pipemagic.session.cell import RunOptions

INSERT = "INSERT INTO t VALUES (1)"


def by_cursor(database: Database) -> None:
    with database.cursor(f"{INSERT} RETURNING a") as cursor:
        list(cursor)


def in_a_transaction(database: Database) -> None:
    with database.transaction() as transaction:
        transaction.execute(INSERT)


def session_on(database: Database) -> Session:
    session = Session(environ={})
    session.adopt(Connection("main", database, "a test"))
    return session


STATEMENTS = {
    "a statement": lambda database: database.execute(INSERT),
    "a batch": lambda database: database.batch(["SELECT 1", INSERT], atomic=False),
    "a batch in a transaction": lambda database: database.batch(["SELECT 1", INSERT]),
    "a transaction": in_a_transaction,
    "a cursor": by_cursor,
    "a cell": lambda database: session_on(database).run(INSERT),
    "the second statement of a cell": lambda database: session_on(database).run(f"SELECT 1; {INSERT}"),
    "an atomic cell": lambda database: session_on(database).run_cell(
        f"SELECT 1; {INSERT}", options=RunOptions(atomic=True)
    ),
}
LOADS = {
    "a load": lambda database: database.load(pd.DataFrame({"a": [2, 1]}), "t", if_exists="append"),
    "a load of rows that repeat a key": lambda database: database.load(
        pd.DataFrame({"a": [3, 3]}), "t", if_exists="append"
    ),
    "a copy": lambda database: database.copy("same", database, "t", if_exists="append"),
}


@pytest.fixture
def extended(full: Database, request: pytest.FixtureRequest) -> str:
    """The extended code of the server for a value that is in table t; sqld sends none."""
    full.batch(["CREATE TABLE t(a UNIQUE)", INSERT, "CREATE TABLE same AS SELECT a FROM t"])
    return "" if "on_sqld" in request.fixturenames else "SQLITE_CONSTRAINT_UNIQUE"


@pytest.mark.parametrize("way", STATEMENTS)
def test_the_error_of_a_statement_keeps_it(full, extended, way):
    with pytest.raises(StatementError, match=r"UNIQUE constraint failed: t\.a") as caught:
        STATEMENTS[way](full)
    assert (caught.value.code, caught.value.extended_code) == ("SQLITE_CONSTRAINT", extended)


@pytest.mark.parametrize("way", LOADS)
def test_the_error_of_a_load_keeps_it(full, extended, way):
    with pytest.raises(LoadError, match=r"UNIQUE constraint failed: t\.a") as caught:
        LOADS[way](full)
    assert (caught.value.code, caught.value.extended_code) == ("LOAD", extended)


@pytest.mark.parametrize("error", [{"message": "m", "code": "C"}, {"message": "m", "code": "C", "extended_code": None}])
def test_an_error_without_one_has_an_empty_extended_code(error):
    body = json.dumps({"baton": None, "results": [{"type": "error", "error": error}]}).encode()
    (received,) = messages.decode_response(body).results
    assert received == messages.ErrorEntry(messages.Error("m", "C"))
    assert messages.encode(received.error) == b'{"message":"m","code":"C"}'
    assert StatementError("m").extended_code == LoadError("m").extended_code == ""
