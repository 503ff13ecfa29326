"""What a transaction holds, from the statements that ran."""

import pytest

from pipemagic.client.transaction import Transaction
from pipemagic.sql import split


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
def test_where_in_a_cell_the_open_transaction_began(before, script, index):
    assert after(before).began_at(split(script)) == index


def test_looking_ahead_changes_nothing():
    transaction = after("SAVEPOINT a")
    transaction.ahead(split("RELEASE a"))
    assert transaction.statements == ["SAVEPOINT a"]
