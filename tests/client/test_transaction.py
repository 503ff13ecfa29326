"""The tracker of a transaction: what it holds, and how it ends."""

import pytest

from pipemagic.client.transaction import Transaction
from pipemagic.errors import TransactionLost
from pipemagic.hrana.messages import Execute, ExecuteResponse, GetAutocommitResponse, OkEntry, Stmt, StmtResult
from pipemagic.hrana.stream import Tx
from pipemagic.sql import parse, split


def after(*scripts):
    transaction = Transaction()
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
    assert transaction.statements == held
    assert transaction.open == bool(held)


@pytest.mark.parametrize(
    ("before", "script", "index"),
    [
        ("", "SELECT 1; BEGIN; SELECT 2", 1),
        ("", "BEGIN; COMMIT; SELECT 1", None),
        ("", "BEGIN; COMMIT; BEGIN", 2),
        ("BEGIN", "SELECT 1", None),
        ("BEGIN", "COMMIT; SAVEPOINT x", 1),
    ],
)
def test_the_start_of_the_open_transaction_in_a_cell(before, script, index):
    assert after(before).began_at(split(script)) == index


def test_looking_ahead_changes_nothing():
    transaction = after("SAVEPOINT a")
    transaction.ahead(split("RELEASE a"))
    assert transaction.statements == ["SAVEPOINT a"]


def answered(transaction, *texts, autocommit):
    """Have the tracker see that the statements ran in one request."""
    ran = [OkEntry(ExecuteResponse(StmtResult())) for _ in texts]
    told = OkEntry(GetAutocommitResponse(is_autocommit=autocommit))
    transaction.update([Execute(Stmt(text)) for text in texts], [*ran, told], sent_at=3.0, closed=False)


def test_statements_of_the_user_are_held_as_written_and_as_sent():
    transaction = Transaction(sources={"BEGIN": "begin", "SELECT 1 LIMIT 2": "SELECT 1"})
    answered(transaction, "BEGIN", "SELECT 1 LIMIT 2", "SELECT 'of the client itself'", autocommit=False)
    assert [(one.text, one.stmt.sql) for one in transaction.held] == [
        ("begin", "BEGIN"),
        ("SELECT 1", "SELECT 1 LIMIT 2"),
    ]
    assert (transaction.count, transaction.age(5.0)) == (1, 2.0)


def test_the_server_decides_whether_a_transaction_is_open():
    transaction = Transaction()
    answered(transaction, "SELECT 1", autocommit=False)
    assert transaction.state is Tx.OPEN
    answered(transaction, "SAVEPOINT a", "INSERT OR ROLLBACK INTO t VALUES (1)", autocommit=True)
    assert (transaction.state, transaction.savepoints, transaction.age(9.0)) == (Tx.NONE, [], None)


def test_a_lost_transaction_keeps_its_statements_until_the_user_accepts_the_loss():
    transaction = Transaction(sources={"BEGIN": "BEGIN", "DELETE FROM t": "DELETE FROM t"})
    answered(transaction, "BEGIN", "DELETE FROM t", autocommit=False)
    earlier = transaction.copy()
    with pytest.raises(TransactionLost, match="idle for more than 10 s"):
        transaction.expired(11.0, 14.0)
    assert (transaction.state, transaction.held) == (Tx.LOST, [])
    assert transaction.lost.statements == earlier.statements == ["BEGIN", "DELETE FROM t"]
    transaction.clear_loss()
    assert transaction.state is Tx.NONE
    assert transaction.lost.statements == ["BEGIN", "DELETE FROM t"]


@pytest.mark.parametrize(
    ("before", "texts", "open_with_it"),
    [
        ("BEGIN", ["SELECT 1"], True),
        ("BEGIN", ["COMMIT"], False),
        ("", ["BEGIN", "SELECT 1"], True),
        ("", ["SELECT 1"], False),
    ],
)
def test_a_request_without_a_response(before, texts, open_with_it):
    transaction = after(before)
    assert transaction.drop([Execute(Stmt(text)) for text in texts]) is open_with_it
    assert transaction.state is (Tx.LOST if open_with_it else Tx.NONE)


def test_the_age_of_a_transaction_that_follows_another_one_in_a_request():
    transaction, done = Transaction(), OkEntry(ExecuteResponse(StmtResult()))
    begin, commit = Execute(Stmt("BEGIN")), Execute(Stmt("COMMIT"))
    transaction.update([begin], [done], sent_at=10.0, closed=False)
    assert transaction.age(12.0) == 2.0
    transaction.update([commit, begin], [done, done], sent_at=14.0, closed=False)
    assert transaction.age(15.0) == 1.0


def test_rolling_back_to_a_savepoint_that_is_not_known_keeps_what_is_held():
    transaction = Transaction()
    for text in ("BEGIN", "SAVEPOINT a", "INSERT INTO t VALUES (1)", "ROLLBACK TO other"):
        transaction.apply(parse(text), Stmt(text))
    assert transaction.statements == ["BEGIN", "SAVEPOINT a", "INSERT INTO t VALUES (1)"]
