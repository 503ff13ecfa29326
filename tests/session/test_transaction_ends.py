"""A COMMIT or ROLLBACK without a transaction says how the last one ended, and a failed cell says what lasts of it."""

from __future__ import annotations

import pytest

from pipemagic.errors import StatementError, TransactionLost
from pipemagic.session import Connection
from pipemagic.session.cell import RunOptions

AT_ONCE = "a statement outside of a transaction is committed at once"


def refused(session, text):
    with pytest.raises(StatementError) as caught:
        session.run(text)
    return caught.value


@pytest.mark.parametrize(
    ("cells", "end"),
    [
        (["BEGIN; COMMIT"], "the last transaction was committed"),
        (["SAVEPOINT a", "RELEASE a"], "the last transaction was committed"),
        (["BEGIN", "ROLLBACK", "SELECT 1"], "the last transaction was rolled back"),
        (["BEGIN", "ROLLBACK", "BEGIN; COMMIT"], "the last transaction was committed"),
        (["BEGIN", "SELECT 1; COMMIT; CREATE TABLE t (a)"], "the last transaction was committed"),
    ],
)
def test_the_hint_says_how_the_last_transaction_ended(session, cells, end):
    for cell in cells:
        session.run(cell)
    assert refused(session, "COMMIT").hint == f"{end}; {AT_ONCE}"
    assert refused(session, "SELECT 1; ROLLBACK").hint == f"{end}; {AT_ONCE}, and cannot be undone"


def test_a_cell_that_failed_rolled_its_transaction_back(session):
    refused(session, "BEGIN; CREATE TABLE t (a UNIQUE); INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)")
    hint = f"the last transaction was rolled back because a statement failed; {AT_ONCE}"
    assert refused(session, "COMMIT").hint == hint


def test_an_atomic_cell_is_the_last_transaction(session):
    refused(session, "BEGIN; CREATE TABLE t (a UNIQUE); SELECT nope")
    session.run_cell("CREATE TABLE t (a UNIQUE); INSERT INTO t VALUES (1)", options=RunOptions(atomic=True))
    assert refused(session, "COMMIT").hint == f"the last transaction was committed; {AT_ONCE}"
    with pytest.raises(StatementError):
        session.run_cell("INSERT INTO t VALUES (1)", options=RunOptions(atomic=True))
    hint = f"the last transaction was rolled back because a statement failed; {AT_ONCE}"
    assert refused(session, "COMMIT").hint == hint


def test_within_a_cell_its_own_statements_count(session):
    assert refused(session, "BEGIN; ROLLBACK; COMMIT").hint == f"the last transaction was rolled back; {AT_ONCE}"


def test_a_closed_connection_rolled_it_back(session):
    session.run("BEGIN")
    session.connection().close()
    hint = f"the last transaction was rolled back when the connection was closed; {AT_ONCE}"
    assert refused(session, "COMMIT").hint == hint


def test_a_lost_transaction_is_named_after_it_was_acknowledged(timed, clock):
    timed.run("CREATE TABLE n (i); BEGIN; INSERT INTO n VALUES (1)")
    clock.advance(11)
    with pytest.raises(TransactionLost):
        timed.run("COMMIT")
    timed.run("ROLLBACK")
    hint = f"the last transaction was rolled back by the server; {AT_ONCE}"
    assert refused(timed, "COMMIT").hint == hint


def test_a_transaction_of_another_connection_is_named(timed, make_database):
    first = timed.connection().name
    timed.run("BEGIN")
    timed.adopt(Connection("second", make_database(), "second"))
    assert refused(timed, "COMMIT").hint == f"the transaction is open on the connection {first}: --on {first}"
    timed.run("COMMIT", on=first)
    assert refused(timed, "COMMIT").hint.startswith("no transaction was begun on this connection; ")


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("SELECT 1; PRAGMA user_version; EXPLAIN SELECT 1; SELECT nope", ""),
        ("BEGIN; SELECT 1; COMMIT; SELECT nope", ""),
        ("BEGIN; INSERT INTO n VALUES (8); ROLLBACK; SELECT nope", ""),
        ("INSERT INTO n VALUES (8); SELECT 1; PRAGMA user_version = 3; SELECT nope; SELECT 2",
         "Statements 1 and 3 were applied; statement 5 did not run."),
        ("BEGIN; INSERT INTO n VALUES (8); ROLLBACK; INSERT INTO n VALUES (9); SELECT nope",
         "Statement 4 was applied."),
        ("INSERT INTO n VALUES (8); SELECT 1; BEGIN; INSERT INTO n VALUES (9); SELECT nope",
         "Statement 1 was applied; statements 3-4 were rolled back."),
    ],
)  # fmt: skip
def test_only_statements_that_changed_something_were_applied(timed, cell, said):
    timed.run("CREATE TABLE n (i)")
    error = refused(timed, cell)
    lines = [line for line in error.message.splitlines() if line.startswith("Statement")]
    assert lines == ([said] if said else [])
