"""Cells that are applied as a whole or not at all, on two servers."""

from __future__ import annotations

import pytest

from pipemagic.client.database import Database
from pipemagic.errors import SessionError, StatementError
from pipemagic.hrana.stream import Tx
from pipemagic.session import Connection, Session
from pipemagic.session.cell import RunOptions

ATOMIC = RunOptions(atomic=True)


@pytest.fixture
def numbers(session):
    session.run("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1), (2)")
    schema = session.connection().schema
    schema.start()
    assert schema.ready.wait(30)  # the messages name rows by the keys of the tables
    return session


def values(session):
    return session.run("SELECT i FROM n ORDER BY i")["i"].tolist()


def fails(session, sql, params=None, kind=StatementError):
    with pytest.raises(kind) as caught:
        session.run_cell(sql, params, options=ATOMIC)
    return caught.value


def test_all_of_it_is_applied(numbers):
    result = numbers.run_cell("INSERT INTO n VALUES (:a); SELECT count(*) AS c FROM n", {"a": 3}, options=ATOMIC)
    assert result.frame.to_dict("list") == {"c": [3]}
    assert [outcome.affected_row_count for outcome in result.outcomes] == [1, 0]
    assert result.open_line == ""
    assert values(numbers) == [1, 2, 3]


def test_nothing_is_changed_and_the_failed_statement_is_named(numbers):
    error = fails(
        numbers,
        "INSERT INTO n VALUES (3);\nINSERT INTO n VALUES (4);\nINSERT INTO n\n  VALUES (1);\n"
        "DELETE FROM n WHERE true;\nSELECT 1",
    )
    assert error.message == (
        "UNIQUE constraint failed: n.i; another row has i = 1\n"
        "nothing was changed; statement 3 of 5 failed here, line 3:\n"
        "  INSERT INTO n VALUES (1)"
    )
    assert (error.index, error.hint) == (2, "")
    assert values(numbers) == [1, 2]
    assert numbers.connection().transaction is Tx.NONE


def test_a_statement_that_rolls_back_by_itself(numbers):
    error = fails(numbers, "INSERT INTO n VALUES (3); INSERT OR ROLLBACK INTO n VALUES (1); SELECT 1")
    assert "nothing was changed; statement 2 of 3 failed here" in error.message
    assert values(numbers) == [1, 2]
    assert numbers.run_cell("SELECT 1").open_line == ""


def test_a_commit_that_fails(numbers):
    numbers.run("PRAGMA foreign_keys = ON")
    numbers.run("CREATE TABLE child (i REFERENCES n DEFERRABLE INITIALLY DEFERRED)")
    error = fails(numbers, "INSERT INTO n VALUES (3); INSERT INTO child VALUES (99)")
    assert error.message == (
        "FOREIGN KEY constraint failed\nnothing was changed; all statements ran, and COMMIT failed"
    )
    assert values(numbers) == [1, 2]
    assert numbers.connection().transaction is Tx.NONE


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("BEGIN;\nINSERT INTO n VALUES (3);\nCOMMIT", "statement 1, line 1: BEGIN is not allowed"),
        ("INSERT INTO n VALUES (3);\n\nend", "statement 2, line 3: END is not allowed"),
        ("INSERT INTO n VALUES (3); rollback transaction", "statement 2, line 1: ROLLBACK is not allowed"),
        ("PRAGMA foreign_keys = OFF; DELETE FROM n WHERE true", "statement 1, line 1: this PRAGMA has no effect"),
    ],
)
def test_statements_that_cannot_be_in_a_transaction_are_refused_before_anything_is_sent(numbers, cell, said):
    error = fails(numbers, cell, kind=SessionError)
    assert said in error.message
    assert error.message.endswith("nothing was run")
    assert values(numbers) == [1, 2]


def test_savepoints_are_fine(numbers):
    numbers.run_cell(
        "SAVEPOINT a; INSERT INTO n VALUES (3); ROLLBACK TO a; INSERT INTO n VALUES (4); RELEASE a", options=ATOMIC
    )
    assert values(numbers) == [1, 2, 4]


def test_an_open_transaction_is_no_place_for_it(numbers):
    numbers.run("BEGIN; INSERT INTO n VALUES (3)")
    error = fails(numbers, "INSERT INTO n VALUES (4)", kind=SessionError)
    assert error.message.startswith(
        "a transaction is open on main, and an atomic cell commits a transaction of its own"
    )
    numbers.run("COMMIT")
    assert values(numbers) == [1, 2, 3]


def test_results_that_are_too_large_leave_no_transaction_open(sqld_database):
    session = Session(environ={})
    session.adopt(Connection("main", Database(sqld_database.url, sqld_database.token), "a test"))
    session.run("CREATE TABLE n (i)")
    large = "SELECT randomblob(4000000) FROM (VALUES (1), (2), (3))"
    error = fails(session, f"INSERT INTO n VALUES (3); {large}")
    assert "nothing was changed" in error.message
    assert session.run("SELECT count(*) AS c FROM n")["c"].tolist() == [0]
    assert session.run_cell("SELECT 1").open_line == ""
    session.run("BEGIN IMMEDIATE; ROLLBACK")
    session.shut_down()


def test_one_round_trip_where_the_server_can(timed, transport, monkeypatch):
    timed.run("CREATE TABLE n (i)")
    sent, handle = [], transport.handle_request
    monkeypatch.setattr(transport, "handle_request", lambda request: (sent.append(1), handle(request))[1])
    timed.run_cell("INSERT INTO n VALUES (3); INSERT INTO n VALUES (4); SELECT * FROM n", options=ATOMIC)
    assert len(sent) == 1
