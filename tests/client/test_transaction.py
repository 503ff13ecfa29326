"""The tracker of a transaction: what it holds, and how it ends."""

import pytest

from pipemagic.client.transaction import Transaction, TransactionContent
from pipemagic.hrana.messages import Execute, ExecuteResponse, OkEntry, Stmt, StmtResult
from pipemagic.hrana.stream import Event
from pipemagic.sql import parse, split


def after(*scripts):
    transaction = TransactionContent()
    for script in scripts:
        transaction = transaction.ahead(split(script))
    return transaction


@pytest.mark.parametrize(
    ("script", "held"),
    [
        ("INSERT INTO t VALUES (1)", []),
        ("BEGIN; INSERT INTO t VALUES (1)", ["BEGIN", "INSERT INTO t VALUES (1)"]),
        ("BEGIN; SELECT 1; COMMIT", []),
        ("begin immediate; select 1; end", []),
        ("BEGIN; SELECT 1; ROLLBACK", []),
        ("BEGIN; SAVEPOINT a; SELECT 1; ROLLBACK TO a", ["BEGIN", "SAVEPOINT a"]),
        (
            "BEGIN; SAVEPOINT a; SELECT 1; SAVEPOINT a; SELECT 2; RELEASE a; SELECT 3; ROLLBACK TO a; SELECT 4",
            ["BEGIN", "SAVEPOINT a", "SELECT 4"],
        ),
        ("SAVEPOINT a; SAVEPOINT b; SELECT 1; ROLLBACK TO a; SELECT 2", ["SAVEPOINT a", "SELECT 2"]),
        ("BEGIN; SAVEPOINT a; RELEASE a", ["BEGIN", "SAVEPOINT a", "RELEASE a"]),
        ("SAVEPOINT a; SELECT 1; RELEASE SAVEPOINT A", []),
        ('SAVEPOINT a; SAVEPOINT "b c"; RELEASE "b c"', ["SAVEPOINT a", 'SAVEPOINT "b c"', 'RELEASE "b c"']),
        ("SAVEPOINT a; SAVEPOINT b; RELEASE a", []),
        ("EXPLAIN BEGIN", []),
    ],
)
def test_the_statements_of_the_open_transaction(script, held):
    transaction = after(script)
    assert transaction.texts == held
    assert transaction.open == bool(held)


def test_the_age_of_a_transaction_that_follows_another_one_in_a_request():
    transaction, done = Transaction(), OkEntry(ExecuteResponse(StmtResult()))
    begin, commit = Execute(Stmt("BEGIN")), Execute(Stmt("COMMIT"))
    transaction.machine.move(Event.SEND)
    transaction.responded([begin], [done], sent_at=10.0, baton="b")
    assert transaction.age(12.0) == 2.0
    transaction.machine.move(Event.SEND)
    transaction.responded([commit, begin], [done, done], sent_at=14.0, baton="b")
    assert transaction.age(15.0) == 1.0


def test_rolling_back_to_a_savepoint_that_is_not_known_keeps_what_is_held():
    transaction = TransactionContent()
    for text in ("BEGIN", "SAVEPOINT a", "INSERT INTO t VALUES (1)", "ROLLBACK TO other"):
        transaction.apply(parse(text), Stmt(text))
    assert transaction.texts == ["BEGIN", "SAVEPOINT a", "INSERT INTO t VALUES (1)"]
